//! Archives: a database's full sets and the log sets behind them, one media set an object
//! (`docs/format/archive.md`).
//!
//! [`Follower`] ships what is committed to a database. [`Archive`] reads: the points that can be
//! restored, and whether everything is there. [`Standby`] keeps a database as the archive is.
//!
//! The log of the database is read through SQLite's own file (`keeper`), so an encrypted one is
//! opened as always. Nobody starts the log anew before its transactions are here: the follower
//! holds one of the locks of the log's index that readers take (`Keeper::hold`), and lets it go
//! for a program's checkpoint once everything was read (`yielding`). Where that was interrupted,
//! SQLite's count of commits proves that none is missing, or a new chain begins.
//!
//! A database in a rollback mode has no log: it is looked at from time to time (`looks`).

mod batch;
mod begun;
mod bound;
mod branch;
mod chain;
mod chains;
mod check;
mod contradict;
mod end;
mod follow;
mod frames;
mod gate;
mod good;
mod ground;
mod judge;
mod keeper;
mod known;
mod last;
mod left;
mod lineage;
mod looks;
mod marks;
mod owner;
mod pace;
mod pages;
mod pending;
mod pressure;
mod read;
mod removed;
mod ship;
mod source;
mod standby;
mod state;
mod store;
mod verify;
mod waiting;
mod walk;
mod watch;
mod yielding;

pub use begun::KnownRemovals;
pub use chain::{At, Point};
pub use check::closed;
pub use follow::{Event, Follower, Settings, Why, wait_after};
pub use gate::Gate;
pub use read::{Archive, HeldChain, OpenChain, PassedObject};
pub use removed::explain_removed;
pub use source::Open;
pub use standby::{Accept, Resync, Standby, StandbyEvent, StandbyRecord, StandbyWith};
pub use state::{
    FileStamp, Intent, Shipped, State, is_followed, note_failure, standby_of, unshipped_since,
};
pub use store::Place as ArchivePlace;
pub use verify::{
    ArchiveReport, ChainReport, ClosedChain, ObjectFinding, Reading, state_of, unlike_shipped,
};
pub use waiting::Waiting;

pub use crate::error::{ArchiveError, RecordFault};
