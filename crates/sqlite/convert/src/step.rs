//! The steps of a conversion; a crash at any of them must leave the old or the new database.

use std::str::FromStr;

/// The last completed step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The copy's empty file exists.
    Created,
    /// The database is locked and recovered.
    Locked,
    /// `encrypt --online`: all pages of one moment were read.
    Read,
    /// The copy has its content.
    Copied,
    /// The copy was checked.
    Checked,
    /// The copy has the original's journal mode, permissions and owner, and is on disk.
    Durable,
    /// `encrypt --online`: the copy has everything except what others are writing right now.
    CaughtUp,
    /// `encrypt --online`: the copy has everything, and others are excluded.
    Held,
    /// The key store has recorded the file.
    Recorded,
    /// The original has its second name, if it is kept.
    Kept,
    /// The original's journal or log is gone.
    Unlinked,
    /// The copy has replaced the original.
    Renamed,
    /// The rename is on disk, too.
    Settled,
    /// `rewrap` and `rotate`: the older header slot is written and on disk.
    FirstSlot,
    /// `rewrap`: the other slot, too.
    SecondSlot,
    /// `rotate`: every page that named an older version was written again.
    Swept,
    /// `rotate`: nothing needs the older versions, and the data that proves it is on disk.
    Proved,
}

impl FromStr for Step {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "created" => Self::Created,
            "locked" => Self::Locked,
            "read" => Self::Read,
            "copied" => Self::Copied,
            "checked" => Self::Checked,
            "durable" => Self::Durable,
            "caught-up" => Self::CaughtUp,
            "held" => Self::Held,
            "recorded" => Self::Recorded,
            "kept" => Self::Kept,
            "unlinked" => Self::Unlinked,
            "renamed" => Self::Renamed,
            "settled" => Self::Settled,
            "first-slot" => Self::FirstSlot,
            "second-slot" => Self::SecondSlot,
            "swept" => Self::Swept,
            "proved" => Self::Proved,
            other => return Err(format!("{other} is no step")),
        })
    }
}
