//! A standby that is there before its archive is: as after a start of the machine, where the
//! archive's directory is mounted later or its store cannot be reached yet.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{LOOK, StandbyEvent, StandbyRecord, fail};
use crate::RunError;
use crate::archive::read::Archive;
use crate::archive::store::Place;
use crate::error::ArchiveError;

impl StandbyRecord {
    /// Waits until the archive can be listed; `None` if `stop` becomes true before. The record
    /// stays as it is but for the failure, so the standby can go on as it was left.
    ///
    /// # Errors
    /// `KeptUp`, and those of keys, which waiting does not end.
    pub fn wait_for_archive(
        &mut self,
        (path, place): (&Path, &Place),
        stop: &AtomicBool,
        tell: &mut dyn FnMut(StandbyEvent),
    ) -> Result<Option<Archive>, RunError> {
        let mut failures = 0_u32;
        while !stop.load(Ordering::Relaxed) {
            if self.file.keep(path).is_err() {
                return Err(ArchiveError::KeptUp { path: path.to_owned() }.into());
            }
            let error = match Archive::open(place) {
                Ok(archive) => return Ok(Some(archive)),
                Err(error) => error,
            };
            sleep_unless(stop, fail(&mut self.file, error, &mut failures, tell)?);
        }
        Ok(None)
    }
}

/// Sleeps for this time, or until `stop` becomes true.
fn sleep_unless(stop: &AtomicBool, time: Duration) {
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) && begun.elapsed() < time {
        sleep(LOOK);
    }
}
