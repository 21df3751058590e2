//! The last reading of a log: all that was committed is read, or the follower fails.
//!
//! A program that is killed while it writes the index of the log leaves two copies of its header
//! that differ. SQLite makes the index anew for the next who reads, and this process, which looks
//! at the index without reading, has to ask for that.

use std::time::{Duration, Instant};

use super::pending::Captured;
use super::source::Source;
use crate::RunError;
use crate::error::ArchiveError;
use crate::output::lock;

/// Time for which a log that cannot be read just now is tried again.
const LAST_WAIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// Reasons why nothing was read.
pub(super) const NO_INDEX: &str = "the index of its log is being made anew";
pub(super) const LOCKS_IN_USE: &str = "readers use all locks of its log";

impl Source {
    /// Reads what was committed since. Where nothing can be read just now, the next call may
    /// succeed; with `is_last` there is none, and it is waited for.
    ///
    /// # Errors
    /// `NotShipped` where that does not end; those of [`Source::capture`].
    pub(super) fn capture_for(&mut self, is_last: bool) -> Result<Captured, RunError> {
        let begun = Instant::now();
        loop {
            let reason = match self.capture(false)? {
                Captured::NotNow => NO_INDEX,
                // The log can be started anew as long as no lock of it is held here: what is read
                // has to fit into memory.
                Captured::TooMany => LOCKS_IN_USE,
                captured => return Ok(captured),
            };
            if reason == NO_INDEX {
                self.ask_for_index();
            }
            if !is_last {
                return self.capture(false);
            }
            if begun.elapsed() >= LAST_WAIT {
                return Err(ArchiveError::NotShipped { path: self.path.clone(), reason }.into());
            }
            std::thread::sleep(PAUSE);
            self.hold()?;
        }
    }

    /// Has SQLite make the index anew, if it is not whole.
    fn ask_for_index(&self) {
        // If another process makes it, this fails, and the next reading shows that.
        let _ = lock(&self.writer).query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;

    use rusqlite::Connection;
    use tdekit_sqlite_convert::with_suffix;

    use super::super::source::Open;
    use super::*;
    use crate::database::source::open;

    /// Bytes of a copy of the header.
    const COPY: usize = 48;

    /// A program is killed between the two copies: the first one is that of the commit before.
    #[test]
    fn an_index_that_is_half_written_is_made_anew_for_who_reads() {
        for is_last in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().canonicalize().unwrap().join("a.db");
            let db = Connection::open(&path).unwrap();
            let sql = "PRAGMA journal_mode = WAL; CREATE TABLE t(n); INSERT INTO t VALUES (1)";
            db.execute_batch(sql).unwrap();
            let area = fs::read(&path).unwrap();
            let no_keys = || Err(RunError::Internal("a plain database needs no keys"));
            let again: Open<'_> = Box::new(|| open(path.clone(), &area, no_keys));
            let mut source = Source::open(&again, &mut |_| {}).unwrap();
            let name = with_suffix(&path, "-shm");
            let index = File::options().read(true).write(true).open(name).unwrap();
            let mut before = [0; COPY];
            index.read_exact_at(&mut before, 0).unwrap();
            db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
            index.write_all_at(&before, 0).unwrap();
            assert_eq!(source.capture(false).unwrap(), Captured::NotNow);
            assert_eq!(source.capture_for(is_last).unwrap(), Captured::Everything);
            assert_eq!(source.pending.transactions.len(), 1, "{is_last}");
        }
    }
}
