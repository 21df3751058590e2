//! The kinds of file, and their implementation of SQLite's calls.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use crate::VfsError;
use crate::base::{BaseFile, Read};
use crate::child::ChildJournal;
use crate::ffi::{self, Sqlite3};
use crate::journal::JournalFile;
use crate::live_keys::SlotIds;
use crate::main_db::MainFile;
use crate::new_db::NewFile;
use crate::plain::PlainFile;
use crate::scratch::ScratchFile;
use crate::temp::TempFile;
use crate::wal::WalFile;

/// The kinds of file. Each is in a separate box, so their sizes may differ.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Kind {
    /// Main file of an encrypted database.
    Main(MainFile),
    /// Its write-ahead log.
    Wal(WalFile),
    /// Its rollback journal; the main file flushes it before its own pages.
    Journal(Rc<RefCell<JournalFile>>),
    /// The rollback journal of another database, which cannot be read here.
    Child(ChildJournal),
    /// A temporary file of any connection.
    Temp(TempFile),
    /// A plain database that this process keeps sealed; read only.
    Scratch(ScratchFile),
    /// A file of a plain database.
    Plain(PlainFile),
    /// A main file that is still empty.
    New(NewFile),
}

impl Kind {
    pub(crate) fn has_shm(&self) -> bool {
        match self {
            Self::Main(main) => main.base.has_shm(),
            Self::Plain(plain) => plain.base.has_shm(),
            Self::New(new) => new.base.as_ref().is_some_and(BaseFile::has_shm),
            Self::Wal(_) | Self::Journal(_) | Self::Child(_) | Self::Temp(_) | Self::Scratch(_) => {
                false
            }
        }
    }

    /// Runs `f` on the file below.
    pub(crate) fn base<R>(&mut self, f: impl FnOnce(&mut BaseFile) -> R) -> Result<R, VfsError> {
        Ok(match self {
            Self::Main(main) => f(&mut main.base),
            Self::Wal(wal) => f(&mut wal.base),
            Self::Journal(journal) => f(journal.borrow_mut().base()),
            Self::Child(child) => f(&mut child.base),
            Self::Temp(temp) => f(temp.base()),
            Self::Scratch(scratch) => f(&mut scratch.base),
            Self::Plain(plain) => f(&mut plain.base),
            Self::New(new) => f(new.base()?),
        })
    }

    pub(crate) fn read(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        match self {
            Self::Main(main) => main.read(out, offset),
            Self::Wal(wal) => wal.read(out, offset),
            Self::Journal(journal) => journal.borrow_mut().read(out, offset),
            Self::Child(child) => Ok(child.read(out, offset)),
            Self::Temp(temp) => temp.read(out, offset),
            Self::Scratch(scratch) => scratch.read(out, offset),
            Self::Plain(plain) => plain.base.read(out, offset),
            Self::New(_) => {
                out.fill(0);
                Ok(Read::Short)
            }
        }
    }

    pub(crate) fn write(&mut self, data: &[u8], offset: u64) -> Result<(), VfsError> {
        match self {
            Self::Main(main) => main.write(data, offset),
            Self::Wal(wal) => wal.write(data, offset),
            Self::Journal(journal) => journal.borrow_mut().write(data, offset),
            Self::Temp(temp) => temp.write(data, offset),
            Self::Plain(plain) => plain.write(data, offset),
            Self::New(_) => Err(VfsError::Access { file: "empty", offset, len: data.len() }),
            Self::Child(_) => Err(VfsError::Access { file: "journal", offset, len: data.len() }),
            Self::Scratch(_) => Err(VfsError::Access { file: "scratch", offset, len: data.len() }),
        }
    }

    pub(crate) fn truncate(&mut self, len: u64) -> Result<(), VfsError> {
        match self {
            Self::Main(main) => main.truncate(len),
            Self::Wal(wal) => wal.truncate(len),
            Self::Journal(journal) => journal.borrow_mut().truncate(len),
            Self::Temp(temp) => temp.truncate(len),
            Self::Child(_) => Err(VfsError::Access { file: "journal", offset: len, len: 0 }),
            Self::Scratch(_) => Err(VfsError::Access { file: "scratch", offset: len, len: 0 }),
            Self::Plain(plain) => plain.base.truncate(len),
            Self::New(new) => new.base()?.truncate(len),
        }
    }

    pub(crate) fn sync(&mut self, flags: c_int) -> Result<(), VfsError> {
        match self {
            Self::Main(main) => main.sync(flags),
            Self::Wal(wal) => wal.sync(flags),
            Self::Journal(journal) => journal.borrow_mut().sync(flags),
            Self::Temp(temp) => temp.sync(flags),
            Self::Child(_) | Self::Scratch(_) => Ok(()),
            Self::Plain(plain) => plain.base.sync(flags),
            Self::New(new) => new.base()?.sync(flags),
        }
    }

    pub(crate) fn size(&mut self) -> Result<u64, VfsError> {
        match self {
            Self::Main(main) => main.size(),
            Self::Wal(wal) => wal.size(),
            Self::Journal(journal) => journal.borrow_mut().size(),
            Self::Child(child) => Ok(child.size()),
            Self::Temp(temp) => Ok(temp.size()),
            Self::Scratch(scratch) => Ok(scratch.size()),
            Self::Plain(plain) => plain.base.size(),
            Self::New(_) => Ok(0),
        }
    }

    pub(crate) fn unlock(&mut self, level: c_int) -> Result<(), VfsError> {
        match self {
            Self::Main(main) => main.unlock(level),
            Self::Plain(plain) => plain.unlock(level),
            other => other.base(|base| base.unlock(level))?,
        }
    }

    /// Handles the file controls that are ours; `None` for those that go to the VFS below.
    pub(crate) fn control(
        &mut self,
        op: c_int,
        argument: *mut c_void,
    ) -> Result<Option<c_int>, VfsError> {
        if let (Self::New(new), ffi::FCNTL_PDB) = (&mut *self, op) {
            new.set_db(argument.cast::<*mut Sqlite3>());
            return Ok(None);
        }
        if matches!(self, Self::Plain(_) | Self::New(_)) {
            return Ok(None);
        }
        if let Self::Main(main) = self {
            match op {
                ffi::FCNTL_CKPT_START => main.set_checkpoint(true)?,
                ffi::FCNTL_CKPT_DONE => main.set_checkpoint(false)?,
                ffi::FCNTL_SYNC => main.commit()?,
                ffi::FCNTL_COMMIT_PHASETWO => main.committed()?,
                ffi::FCNTL_TDEKIT_SLOTS => {
                    let Some(found) = main.slot_ids()? else { return Ok(None) };
                    // SAFETY: the argument of this control is a place for these bytes.
                    unsafe { *argument.cast::<SlotIds>() = found };
                    return Ok(Some(ffi::OK));
                }
                _ => {}
            }
        }
        Ok(match op {
            ffi::FCNTL_MMAP_SIZE => {
                // SAFETY: the argument of this control is a 64-bit integer.
                unsafe { *argument.cast::<i64>() = 0 };
                Some(ffi::OK)
            }
            ffi::FCNTL_SIZE_HINT => Some(ffi::OK),
            ffi::FCNTL_CHUNK_SIZE
            | ffi::FCNTL_BEGIN_ATOMIC_WRITE
            | ffi::FCNTL_COMMIT_ATOMIC_WRITE
            | ffi::FCNTL_ROLLBACK_ATOMIC_WRITE => Some(ffi::NOTFOUND),
            _ => None,
        })
    }
}
