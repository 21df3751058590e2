//! Destination of the pages of a restored database.

use crate::RunError;

/// Receives the pages of a restored database. Nothing appears under the final name until
/// [`PageSink::finish`], which is called only after every page was verified and written.
///
/// Calls come from several threads: pages with different numbers at once, and with a differential
/// set a page of the base may be followed by its newer state, never the reverse.
pub trait PageSink: Send + Sync {
    /// Called once, first, with the page size in bytes and the number of pages of the final state.
    ///
    /// # Errors
    /// The errors of the sink.
    fn begin(&mut self, page_size: u32, pages: u64) -> Result<(), RunError>;

    /// Writes consecutive pages. `first` is a page number from 1; `bytes` are whole pages.
    ///
    /// # Errors
    /// The errors of the sink.
    fn write(&self, first: u32, bytes: &[u8]) -> Result<(), RunError>;

    /// Reads the state of a page before the first [`PageSink::write`] of it, where the sink goes on
    /// from an earlier state of the database; `bytes` is emptied if there is no such page.
    ///
    /// # Errors
    /// The errors of the sink.
    fn read(&self, page: u32, bytes: &mut Vec<u8>) -> Result<(), RunError> {
        let _ = page;
        bytes.clear();
        Ok(())
    }

    /// Makes everything durable and gives the database its name.
    ///
    /// # Errors
    /// The errors of the sink.
    fn finish(&mut self) -> Result<(), RunError>;
}
