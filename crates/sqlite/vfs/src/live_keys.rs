//! The keys of one database as a connection knows them, and how it notices changes.
//!
//! Another process may add a version of the key, make it the current one, and drop a version that
//! no unit needs any more. It writes the header under SQLite's write lock. So a connection checks
//! the header when it gets that lock, before it seals anything, and when a unit does not open.

use std::cell::{Cell, Ref, RefCell};
use std::sync::Arc;

use tdekit_sqlite_page::header::{read_all_slots, slot_id};
use tdekit_sqlite_page::{FileKeys, HEADER_AREA_LEN, Header, PageError, SLOT_COUNT, SLOT_LEN};

use crate::VfsError;
use crate::base::{HeaderReader, Read};
use crate::keyring::{Keyring, OpenFile, OpenedHeader};

/// Offset of a slot's identity, and its length.
const ID_AT: u64 = slot_id().start as u64;
const ID_LEN: usize = slot_id().end - slot_id().start;

/// Offset of the file's ID in the identity of a slot, behind the sequence number.
pub const FILE_ID_AT: usize = 8;

/// The identities of the header's slots: of each, its sequence number (8 bytes) and the file's ID
/// (16 bytes).
pub type SlotIds = [[u8; ID_LEN]; SLOT_COUNT];

/// The keys of one database, shared by the files of a connection.
pub(crate) struct LiveKeys {
    /// The main file, as long as it is open.
    file: RefCell<Option<HeaderReader>>,
    /// The process's state of the file, with the key store of its keys.
    opened: Arc<OpenFile>,
    header: RefCell<Header>,
    keys: RefCell<FileKeys>,
    /// Incremented with each change of the keys.
    generation: Cell<u64>,
    /// The slots' identities when the header was last read and both slots were whole.
    seen: Cell<Option<SlotIds>>,
}

impl LiveKeys {
    /// Makes the keys from a header. Changes are not noticed before `attach`.
    pub(crate) fn new(opened: OpenedHeader) -> Self {
        Self {
            file: RefCell::new(None),
            opened: opened.file,
            header: RefCell::new(opened.header),
            keys: RefCell::new(opened.keys),
            generation: Cell::new(0),
            seen: Cell::new(None),
        }
    }

    /// From now on the header is read from `file`; `None` when the main file closes.
    pub(crate) fn attach(&self, file: Option<HeaderReader>) {
        *self.file.borrow_mut() = file;
    }

    /// Returns the process's state of the file.
    pub(crate) fn file(&self) -> &Arc<OpenFile> {
        &self.opened
    }

    /// Returns the keyring of the keys.
    pub(crate) fn ring(&self) -> &Arc<Keyring> {
        self.opened.ring()
    }

    /// Returns the keys.
    pub(crate) fn keys(&self) -> FileKeys {
        self.keys.borrow().clone()
    }

    /// Returns the header that the keys are from.
    pub(crate) fn header(&self) -> Ref<'_, Header> {
        self.header.borrow()
    }

    /// Returns the generation, which is incremented with each change of the keys: anything prepared
    /// from older keys must be prepared again.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// Reads the header again if it was written since, and returns true if the keys have changed.
    ///
    /// # Errors
    /// The key store's, if a new key does not open: continuing with the old one could write pages
    /// that nobody can read later.
    pub(crate) fn learn(&self) -> Result<bool, VfsError> {
        let mut file = self.file.borrow_mut();
        let Some(file) = file.as_mut() else { return Ok(false) };
        // The VFS below may read from a mapping, which must not outlive the bytes.
        if file.size()? < HEADER_AREA_LEN {
            return Ok(false);
        }
        let Some(ids) = slot_ids(file)? else { return Ok(false) };
        if self.seen.get() == Some(ids) {
            return Ok(false);
        }
        let mut area = vec![0; usize::try_from(HEADER_AREA_LEN).unwrap_or(0)];
        if file.read(&mut area, 0)? == Read::Short {
            return Ok(false);
        }
        let opened = self.ring().open_header(&area)?;
        let known = self.header.borrow().clone();
        if opened.header.file_id != known.file_id {
            return Err(PageError::KeyMismatch.into());
        }
        // A slot that is being written has its new number before it is whole.
        let whole = read_all_slots(&area)?.len() == SLOT_COUNT;
        self.seen.set(slot_ids_of(&area).filter(|_| whole));
        let changed = versions_of(&opened.header) != versions_of(&known);
        *self.header.borrow_mut() = opened.header;
        if changed {
            *self.keys.borrow_mut() = opened.keys;
            self.generation.set(self.generation.get().wrapping_add(1));
        }
        Ok(changed)
    }

    /// Returns the slots' identities in the file; `None` if it ends before them.
    pub(crate) fn slot_ids(&self) -> Result<Option<SlotIds>, VfsError> {
        let mut file = self.file.borrow_mut();
        file.as_mut().map_or(Ok(None), slot_ids)
    }
}

impl Drop for LiveKeys {
    fn drop(&mut self) {
        self.ring().closed(&self.opened);
    }
}

/// Returns the current version, and all versions with their commitments, which bind their
/// algorithms.
fn versions_of(header: &Header) -> (u32, Vec<(u32, [u8; 32])>) {
    (header.current, header.deks.iter().map(|dek| (dek.version, dek.commitment)).collect())
}

/// Returns the slots' identities in the file; `None` if it ends before them.
fn slot_ids(file: &mut HeaderReader) -> Result<Option<SlotIds>, VfsError> {
    let mut found = SlotIds::default();
    for (slot, id) in (0..).zip(&mut found) {
        if file.read(id, slot * SLOT_LEN as u64 + ID_AT)? == Read::Short {
            return Ok(None);
        }
    }
    Ok(Some(found))
}

fn slot_ids_of(area: &[u8]) -> Option<SlotIds> {
    let mut found = SlotIds::default();
    for (slot, id) in area.chunks_exact(SLOT_LEN).zip(&mut found) {
        id.copy_from_slice(slot.get(slot_id())?);
    }
    Some(found)
}
