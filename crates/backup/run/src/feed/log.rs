//! Transactions of a database's log, as an archive has read them.

use tdekit_backup_media::{Id, LogLink};

use super::Feed;
use crate::progress::Meter;

/// The transactions of a log set.
pub(crate) trait LogSource {
    /// Returns the place of the set in its archive.
    fn link(&self) -> LogLink;

    fn page_size(&self) -> u32;

    fn encrypted_file_id(&self) -> Option<Id>;

    /// Returns the time of the first transaction.
    fn begun_ms(&self) -> i64;

    /// Returns the pages of the database behind the last transaction.
    fn pages(&self) -> u32;

    /// Returns the number of pages in the set.
    fn pages_stored(&self) -> u64;

    /// Returns the feed of the set's blocks.
    fn feed<'a>(&'a self, block_size: u32, meter: &'a Meter<'a>) -> Box<dyn Feed + 'a>;
}
