//! The steps of a conversion, at each of which a crash must leave the old or the new database.

use std::str::FromStr;

/// The step that has just been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The copy's empty file exists.
    Created,
    /// The database is locked and recovered.
    Locked,
    /// `encrypt --online`: all pages were read, those of one moment.
    Read,
    /// The copy has its content.
    Copied,
    /// The copy was checked.
    Checked,
    /// The copy has the original's journal mode, permissions and owner, and is on disk.
    Durable,
    /// `encrypt --online`: the copy holds all but what others write right now.
    CaughtUp,
    /// `encrypt --online`: the copy holds everything, and others are kept out.
    Held,
    /// The key store knows of the file.
    Recorded,
    /// The original has its second name, where it is kept.
    Kept,
    /// The original's journal or log is gone.
    Unlinked,
    /// The copy took the original's place.
    Renamed,
    /// That is on disk, too.
    Settled,
    /// `rewrap` and `rotate`: the older header slot is written and on disk.
    FirstSlot,
    /// `rewrap`: the other one, too.
    SecondSlot,
    /// `rotate`: every page that named an older version was written again.
    Swept,
    /// `rotate`: nothing needs the older versions, and what shows that is on disk.
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
