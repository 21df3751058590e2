//! The state that the main file, WAL and journal of one connection share.

use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::rc::{Rc, Weak};

use tdekit_sqlite_page::page::seal_of;
use tdekit_sqlite_page::wal::SQLITE_FRAME_HEADER_LEN;
use tdekit_sqlite_page::{PageCodec, PageError, PageSize};

use crate::VfsError;
use crate::cache::PageCache;
use crate::fresh::Fresh;
use crate::journal::JournalFile;
use crate::kept::Kept;
use crate::keyring::OpenedHeader;
use crate::live_keys::LiveKeys;
use crate::mapping::prefetch_start;

/// State of one connection to one encrypted database. SQLite serialises all calls on the files
/// of a connection by the connection's (or the shared cache's) mutex, so nothing here is atomic.
pub(crate) struct Shared {
    /// The keys of the file.
    pub(crate) live: Rc<LiveKeys>,
    /// The page size in force; at first the header's hint.
    pub(crate) page_size: Cell<PageSize>,
    /// True while a checkpoint runs: sealed pages go from the WAL to the main file unchanged.
    pub(crate) checkpoint: Cell<bool>,
    /// The page whose sealed bytes the WAL returned last during a checkpoint; 0 for none.
    pub(crate) sealed_page: Cell<u32>,
    /// Number of write transactions of this connection that have ended, in WAL mode.
    pub(crate) write_transactions: Cell<u64>,
    /// The open rollback journal: its bytes must reach the file before pages do.
    pub(crate) journal: RefCell<Weak<RefCell<JournalFile>>>,
    /// Number of journals that were dropped with gathered data: pages gathered before cannot be
    /// undone, and must not be written.
    pub(crate) journals_lost: Rc<Cell<u64>>,
    /// The tags that the pages must have, if the database has freshness.
    pub(crate) fresh: OnceCell<Rc<Fresh>>,
    /// Frames of the running write transaction, in WAL mode, each with SQLite's header.
    pub(crate) running: RefCell<Kept<[u8; SQLITE_FRAME_HEADER_LEN]>>,
    /// True if the connection holds the log's write lock.
    pub(crate) writes_log: Cell<bool>,
    /// True if the connection excludes all others.
    pub(crate) exclusive: Cell<bool>,
    pages: RefCell<PageCodec>,
    /// The generation of `live` that `pages` has.
    pages_generation: Cell<u64>,
    cache: RefCell<PageCache>,
}

impl Shared {
    pub(crate) fn new(opened: OpenedHeader) -> Self {
        let (page_size, keys) = (opened.header.page_size, opened.keys.clone());
        let live = LiveKeys::new(opened);
        Self {
            page_size: Cell::new(page_size),
            pages_generation: Cell::new(live.generation()),
            live: Rc::new(live),
            checkpoint: Cell::new(false),
            sealed_page: Cell::new(0),
            write_transactions: Cell::new(0),
            journal: RefCell::new(Weak::new()),
            journals_lost: Rc::new(Cell::new(0)),
            fresh: OnceCell::new(),
            running: RefCell::new(Kept::default()),
            writes_log: Cell::new(false),
            exclusive: Cell::new(false),
            pages: RefCell::new(PageCodec::new(keys)),
            cache: RefCell::new(PageCache::new()),
        }
    }

    /// Opens a sealed page, or finds it opened before under the same seal.
    pub(crate) fn open_page(
        &self,
        page: u32,
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<(), PageError> {
        let Some(&seal) = seal_of(sealed) else { return Err(PageError::Page { page }) };
        let mut cache = self.cache.borrow_mut();
        if cache.get(page, &seal, out) {
            return Ok(());
        }
        prefetch_start(sealed.as_ptr() as usize);
        self.pages().open(page, sealed, out)?;
        // A mapped page may change under us: keep the plaintext only under the seal it had.
        if seal_of(sealed) == Some(&seal) {
            cache.offer(page, &seal, out);
        }
        Ok(())
    }

    /// Opens a sealed page without looking it up or keeping it.
    pub(crate) fn try_page(
        &self,
        page: u32,
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<(), PageError> {
        self.pages().open(page, sealed, out)
    }

    /// Seals a page under the current key.
    pub(crate) fn seal_page(
        &self,
        page: u32,
        plain: &[u8],
        sealed: &mut [u8],
    ) -> Result<(), PageError> {
        self.pages().seal(page, plain, sealed)?;
        if let Some(seal) = seal_of(sealed) {
            self.cache.borrow_mut().note_sealed(page, seal);
        }
        Ok(())
    }

    /// Returns the codec with the currently known keys.
    fn pages(&self) -> RefMut<'_, PageCodec> {
        let mut pages = self.pages.borrow_mut();
        let generation = self.live.generation();
        if self.pages_generation.replace(generation) != generation {
            pages.set_keys(self.live.keys());
        }
        pages
    }

    /// Makes a journal that stays open between transactions (as a VFS below may require) read its
    /// file again: without RESERVED or more, others write it.
    pub(crate) fn forget_journal(&self) {
        if let Some(journal) = self.journal.borrow().upgrade() {
            journal.borrow_mut().forget();
        }
    }

    /// Writes the bytes that the rollback journal still gathers. No journal is open if SQLite keeps
    /// it in memory or uses none; `journals_lost` reports a lost one.
    pub(crate) fn flush_journal(&self) -> Result<(), VfsError> {
        match self.journal.borrow().upgrade() {
            Some(journal) => journal.borrow_mut().flush(),
            None => Ok(()),
        }
    }
}
