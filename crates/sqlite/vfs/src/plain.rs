//! Files of plain databases: passed through, except for the policy against leaks.

use std::cell::Cell;
use std::ffi::c_int;
use std::rc::Rc;

use tdekit_sqlite_page::RESERVE_LEN;

use crate::VfsError;
use crate::base::{BaseFile, Read};
use crate::ffi;

/// Environment variable that allows copying an encrypted database to a plain one.
const ALLOW_VARIABLE: &str = "TDEKIT_ALLOW_PLAIN_COPY";
const SQLITE_FRAME_HEADER_LEN: usize = 24;

/// A main file, journal or WAL with plaintext.
pub(crate) struct PlainFile {
    pub(crate) base: BaseFile,
    kind: Kind,
    /// True if page 1 may declare 48 reserved bytes: it did already, or the user allowed it.
    may_reserve: bool,
    /// For a main file: true if pages written before page 1 may belong to an encrypted database.
    is_doubtful: bool,
    /// For a main file: flag that it was replaced by another one. Its journal and log share it.
    left: Option<Rc<Cell<bool>>>,
}

#[derive(Clone, Copy)]
enum Kind {
    Main,
    /// A WAL; the flag says that the next write is page 1.
    Wal {
        page_one_next: bool,
    },
    Other,
}

impl PlainFile {
    pub(crate) fn main(mut base: BaseFile, allowed: bool) -> Self {
        let mut header = [0; 21];
        let read = base.read(&mut header, 0);
        let reserved = matches!(read, Ok(Read::Full)) && usize::from(header[20]) == RESERVE_LEN;
        let may_reserve = allowed || reserved || is_allowed_by_environment();
        Self { base, kind: Kind::Main, may_reserve, is_doubtful: false, left: None }
    }

    pub(crate) fn wal(base: BaseFile, may_reserve: bool) -> Self {
        let kind = Kind::Wal { page_one_next: false };
        Self { base, kind, may_reserve, is_doubtful: false, left: None }
    }

    pub(crate) fn other(base: BaseFile) -> Self {
        Self { base, kind: Kind::Other, may_reserve: true, is_doubtful: false, left: None }
    }

    /// Makes the journal or log of the main file that sets `left` when it is replaced by another.
    pub(crate) fn beside(self, left: Option<Rc<Cell<bool>>>) -> Self {
        Self { left, ..self }
    }

    /// For a journal or log: returns true if its main file was replaced by another one.
    pub(crate) fn is_left_behind(&self) -> bool {
        !matches!(self.kind, Kind::Main) && self.left.as_ref().is_some_and(|left| left.get())
    }

    /// For a main file: returns the flag for its journal and log that it was replaced.
    pub(crate) fn left(&mut self) -> Rc<Cell<bool>> {
        Rc::clone(self.left.get_or_insert_default())
    }

    /// Sets the flag.
    pub(crate) fn leave(&self) {
        if let Some(left) = &self.left {
            left.set(true);
        }
    }

    /// Returns true if pages of an encrypted database may be written here.
    pub(crate) fn may_reserve(&self) -> bool {
        self.may_reserve
    }

    /// For a main file: the next writes may copy an encrypted database.
    pub(crate) fn doubt(&mut self) {
        self.is_doubtful = !self.may_reserve;
    }

    /// Releases a lock.
    pub(crate) fn unlock(&mut self, level: c_int) -> Result<(), VfsError> {
        self.is_doubtful &= level >= ffi::LOCK_RESERVED;
        self.base.unlock(level)
    }

    /// Writes, unless page 1 of an encrypted database is about to become plain.
    pub(crate) fn write(&mut self, data: &[u8], offset: u64) -> Result<(), VfsError> {
        let page_one = match &mut self.kind {
            Kind::Main => offset == 0,
            Kind::Wal { page_one_next } => {
                let now = *page_one_next;
                *page_one_next =
                    data.len() == SQLITE_FRAME_HEADER_LEN && data.starts_with(&1u32.to_be_bytes());
                now
            }
            Kind::Other => false,
        };
        let reserved = data.get(20).copied().map_or(0, usize::from);
        if page_one && !self.may_reserve && data.len() >= 512 && reserved == RESERVE_LEN {
            return Err(VfsError::PlainTarget);
        }
        if self.is_doubtful && !page_one {
            return Err(VfsError::PlainTarget);
        }
        self.is_doubtful = false;
        self.base.write(data, offset)
    }
}

/// Returns true if the environment allows plain copies of encrypted databases.
pub(crate) fn is_allowed_by_environment() -> bool {
    std::env::var_os(ALLOW_VARIABLE).is_some_and(|v| v == "1")
}

/// Returns the device's bits for plain files. Reads of less than a page stay off, as for sealed
/// ones.
pub(crate) fn device_characteristics(base: &mut BaseFile) -> c_int {
    base.device_characteristics() & !ffi::IOCAP_SUBPAGE_READ
}
