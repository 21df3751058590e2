//! The operations experiment as a script for users who may not run a program against the server,
//! and the conversion of its output to the results of a run.
//!
//! The script has the statements of a run, in the order of the same schedule: [`write()`] gives the
//! schedule a ground that writes batches down instead of sending them. [`record`] has the lines in
//! which the script reports its findings; [`read`] finds them in a file, [`transcript`] makes
//! blocks of them, [`import`](import()) results of these.

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

/// Recorded by the script if buffers may not be cleared.
const WARM_ONLY: &str = "warm only";
/// Recorded when everything was measured.
const WHOLE: &str = "whole";

/// Kinds of records.
mod kind {
    /// An option of the script, and its value.
    pub(super) const OPTION: &str = "option";
    /// A property that the server reports, by name.
    pub(super) const FACT: &str = "fact";
    /// A permission that may be missing, and the number of the error in that case, else 0.
    pub(super) const MAY: &str = "may";
    /// Pages of the plain database.
    pub(super) const PAGES: &str = "pages";
    /// Class, side, restart, pair, position in the pair, and the number of steps that follow.
    pub(super) const BLOCK: &str = "block";
    /// Counters of the session, and the clock in microseconds.
    pub(super) const MARK: &str = "mark";
    /// Counters of a statement by its text, with one row for each statement of the operation.
    pub(super) const COUNT: &str = "count";
    /// An object that the script created, how to remove it, and whether it remains.
    pub(super) const LEFT: &str = "left";
    /// Whether all was measured, number of blocks of the script, of cold ones, the last step of the
    /// measuring, and the last of all.
    pub(super) const END: &str = "end";
}

/// Names of facts and permissions.
mod name {
    pub(super) const VERSION: &str = "version";
    pub(super) const EDITION: &str = "edition";
    pub(super) const PRODUCT: &str = "product";
    pub(super) const OURS: &str = "ours";
    pub(super) const STATISTICS: &str = "query_stats";
    pub(super) const SCAN: &str = "scan";
    pub(super) const COLD: &str = "cold";
}
