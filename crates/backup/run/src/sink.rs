//! Where the pages of a restored database go.

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
