//! The steps of a conversion, at each of which a crash must leave the old or the new database.

use clap::{Args, ValueEnum};

/// What has just been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// The copy's empty file exists.
    Created,
    /// The database is locked and recovered.
    Locked,
    /// The copy has its content.
    Copied,
    /// The copy was checked.
    Checked,
    /// The copy has the original's journal mode, permissions and owner, and is on disk.
    Durable,
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
    /// `rewrap`: the older header slot is written and on disk.
    FirstSlot,
    /// `rewrap`: the other one, too.
    SecondSlot,
}

/// Lets a test build end as by `kill -9` after a step. Release builds lack the argument.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct StopAfter {
    /// Kill this process after a step
    #[cfg(debug_assertions)]
    #[arg(long, hide = true, value_enum, value_name = "STEP")]
    stop_after: Option<Step>,
}

impl StopAfter {
    /// Marks a step as done.
    pub(crate) fn done(self, step: Step) {
        #[cfg(debug_assertions)]
        if self.stop_after == Some(step) {
            use rustix::process::{Signal, getpid, kill_process};
            let _ = kill_process(getpid(), Signal::KILL);
        }
        let _ = step;
    }
}
