//! How a run is steered: threads, throttle, progress, cancelling.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::RunError;

/// How far a run is. Bytes count before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Bytes of the source that were read (backup), or that were restored or verified.
    pub done_bytes: u64,
    /// All bytes of the source; `None` for a stream, whose end is not known.
    pub total_bytes: Option<u64>,
    /// Bytes written to (backup) or read from (restore, verify) one copy of the media.
    pub media_bytes: u64,
}

/// How a run is steered. [`Run::default`] takes all cores, has no throttle and reports nothing.
#[derive(Clone, Copy, Default)]
pub struct Run<'a> {
    /// Worker threads; 0 takes as many as there are cores.
    pub threads: usize,
    /// Most bytes of the source (before compression) in a second.
    pub throttle_bytes_per_s: Option<u64>,
    /// Called after each block, from any thread.
    pub progress: Option<&'a (dyn Fn(Progress) + Sync)>,
    /// Set to true from elsewhere, it ends the run with [`RunError::Cancelled`].
    pub cancel: Option<&'a AtomicBool>,
}

impl Run<'_> {
    /// Refuses to go on once the run was cancelled.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        match self.cancel {
            Some(cancel) if cancel.load(Ordering::Relaxed) => Err(RunError::Cancelled),
            _ => Ok(()),
        }
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
