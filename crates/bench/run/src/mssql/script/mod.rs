//! The operations experiment as a script for whoever may not run a program against the server, and
//! its output as the results of a run.
//!
//! The script is what a run would send, in the order that the one schedule gives it: [`write()`]
//! gives the schedule a ground that writes batches down in place of sending them. [`record`] has
//! the lines by which the script tells what it found; [`read`] finds them in a file, [`transcript`]
//! makes blocks of them, [`import`](import()) results of these.

mod begin;
mod import;
mod read;
mod record;
mod steps;
#[cfg(test)]
mod tests;
mod transcript;
mod write;

pub(crate) use import::{import, imported};
pub(crate) use record::sealed;
pub(crate) use write::write;

/// What the script remembers where buffers may not be emptied.
const WARM_ONLY: &str = "warm only";
/// What it remembers when all was measured.
const WHOLE: &str = "whole";

/// Kinds of records.
mod kind {
    /// An option of the script, and its value.
    pub(super) const OPTION: &str = "option";
    /// Something that the server tells of itself, by name.
    pub(super) const FACT: &str = "fact";
    /// A right that may lack, and the number of the error where it does, else 0.
    pub(super) const MAY: &str = "may";
    /// Pages of the plain database.
    pub(super) const PAGES: &str = "pages";
    /// Class, side, restart, pair, place in the pair, and how many steps follow.
    pub(super) const BLOCK: &str = "block";
    /// Counters of the session, and the clock in microseconds.
    pub(super) const MARK: &str = "mark";
    /// Counters of a statement by its text, of as many rows as the operation has statements.
    pub(super) const COUNT: &str = "count";
    /// A thing that the script made, how it is removed, and whether it remains.
    pub(super) const LEFT: &str = "left";
    /// Whether all was measured, all blocks of the script, the cold ones, the last step of the
    /// measuring, and the last of all.
    pub(super) const END: &str = "end";
}

/// Names of facts and rights.
mod name {
    pub(super) const VERSION: &str = "version";
    pub(super) const EDITION: &str = "edition";
    pub(super) const PRODUCT: &str = "product";
    pub(super) const OURS: &str = "ours";
    pub(super) const STATISTICS: &str = "query_stats";
    pub(super) const SCAN: &str = "scan";
    pub(super) const COLD: &str = "cold";
}
