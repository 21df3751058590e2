//! Counting, throttling and cancelling during a run.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::throttle::Throttle;
use crate::{Progress, Run, RunError};

/// Counts the bytes of a run and throttles it.
pub(crate) struct Meter<'a> {
    run: &'a Run<'a>,
    throttle: Throttle,
    total_bytes: Option<u64>,
    done_bytes: AtomicU64,
    media_bytes: AtomicU64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(run: &'a Run<'a>, total_bytes: Option<u64>) -> Self {
        Self {
            run,
            throttle: Throttle::new(run.throttle_bytes_per_s),
            total_bytes,
            done_bytes: AtomicU64::new(0),
            media_bytes: AtomicU64::new(0),
        }
    }

    /// Waits until bytes of the source may be processed. Fails if the run was cancelled.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), RunError> {
        self.throttle.take(bytes, self.run)
    }

    /// Fails if the run was cancelled.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        self.run.check()
    }

    /// Counts bytes of the source, and of the media, and reports progress to the caller.
    pub(crate) fn add(&self, done_bytes: u64, media_bytes: u64) {
        let done = self.done_bytes.fetch_add(done_bytes, Ordering::Relaxed) + done_bytes;
        let media = self.media_bytes.fetch_add(media_bytes, Ordering::Relaxed) + media_bytes;
        if let Some(progress) = self.run.progress {
            let total_bytes = self.total_bytes;
            progress(Progress { done_bytes: done, total_bytes, media_bytes: media });
        }
    }

    /// Returns the bytes of the source, if known; otherwise 0.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes.unwrap_or(0)
    }

    /// Returns the bytes of the source so far.
    pub(crate) fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }
}
