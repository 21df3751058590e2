//! Control of a run: threads, throttle, progress, cancelling.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::RunError;

/// Progress of a run. Bytes count before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Bytes of the source that were read (backup), restored or verified.
    pub done_bytes: u64,
    /// Total bytes of the source; `None` for a stream, whose end is not known.
    pub total_bytes: Option<u64>,
    /// Bytes written to (backup) or read from (restore, verify) one copy of the media.
    pub media_bytes: u64,
}

/// Control of a run. [`Run::default`] uses all cores, has no throttle and reports nothing.
#[derive(Clone, Copy, Default)]
pub struct Run<'a> {
    /// Number of worker threads; 0 means the number of cores.
    pub threads: usize,
    /// Maximum number of bytes of the source (before compression) per second.
    pub throttle_bytes_per_s: Option<u64>,
    /// Called after each block, from any thread.
    pub progress: Option<&'a (dyn Fn(Progress) + Sync)>,
    /// When set to true from elsewhere, ends the run with [`RunError::Cancelled`].
    pub cancel: Option<&'a AtomicBool>,
    /// When set to true from elsewhere, lifts the throttle.
    pub lift: Option<&'a AtomicBool>,
}

impl Run<'_> {
    /// Fails if the run was cancelled.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        match self.cancel {
            Some(cancel) if cancel.load(Ordering::Relaxed) => Err(RunError::Cancelled),
            _ => Ok(()),
        }
    }

    /// Returns true if the throttle was lifted.
    pub(crate) fn is_lifted(&self) -> bool {
        self.lift.is_some_and(|lift| lift.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("threads", &self.threads)
            .field("throttle_bytes_per_s", &self.throttle_bytes_per_s)
            .finish_non_exhaustive()
    }
}
