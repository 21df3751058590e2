//! The encrypted database that a backup on this thread copies.
//!
//! SQLite does not pass a backup's source to a VFS. But `sqlite3_backup_step` starts reading it
//! right before it locks its target, in one thread, and only a backup reads without a statement or
//! a transaction of the source's connection.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use crate::api::Api;
use crate::ffi::{File, Sqlite3};
use crate::keyring::OpenFile;
use crate::opened;

/// A main file that is being read.
struct Reading {
    file: *mut File,
    /// SQLite's own pointer to the connection.
    db: *mut *mut Sqlite3,
    opened: Weak<OpenFile>,
    /// The plain main file that this thread has started to read since: a copy's target, if any.
    since: *mut File,
    /// True while it is still read.
    goes_on: bool,
}

impl Reading {
    fn is_of(&self, opened: &Arc<OpenFile>) -> bool {
        std::ptr::eq(self.opened.as_ptr(), Arc::as_ptr(opened))
    }
}

/// The source of a connection that starts to write.
pub(crate) enum Source {
    /// This encrypted database.
    Encrypted(Arc<OpenFile>),
    /// An encrypted database or another one: the last one read is in use by a statement or a
    /// transaction, which may belong to the copied one.
    Unknown,
    /// Nothing encrypted, or no source at all: a statement is writing.
    Other,
}

thread_local! {
    /// The encrypted database that this thread started to read last.
    static LAST: RefCell<Option<Reading>> = const { RefCell::new(None) };
}

/// Records that this thread starts to read an encrypted database. Called for each transaction: a
/// thread that stays with one database writes two fields.
pub(crate) fn begin(file: *mut File, db: *mut *mut Sqlite3, opened: &Arc<OpenFile>) {
    // A thread that is ending copies nothing any more.
    let _ended = LAST.try_with(|last| match &mut *last.borrow_mut() {
        Some(last) if last.file == file && last.db == db && last.is_of(opened) => {
            (last.since, last.goes_on) = (std::ptr::null_mut(), true);
        }
        other => {
            let (since, opened) = (std::ptr::null_mut(), Arc::downgrade(opened));
            *other = Some(Reading { file, db, opened, since, goes_on: true });
        }
    });
}

/// Records that this thread starts to read a plain database.
pub(crate) fn begin_plain(file: *mut File) {
    let _ended = LAST.try_with(|last| {
        if let Some(last) = &mut *last.borrow_mut() {
            last.since = file;
        }
    });
}

/// Records that a connection of this thread has finished reading.
pub(crate) fn end(file: *mut File) {
    let _ended = LAST.try_with(|last| {
        if let Some(last) = last.borrow_mut().as_mut().filter(|last| last.file == file) {
            last.goes_on = false;
        }
    });
}

/// Returns the source of the connection that starts to write to its main file `file`: `target` is
/// SQLite's own pointer to that connection.
pub(crate) fn source(api: Api, file: *mut File, target: *mut *mut Sqlite3) -> Source {
    let found = LAST.try_with(|last| {
        let last = last.borrow();
        let last = last.as_ref().filter(|last| last.goes_on)?;
        if !last.since.is_null() && last.since != file {
            return None;
        }
        let opened = last.opened.upgrade()?;
        // SAFETY: SQLite keeps the place that it passed with `FCNTL_PDB` as long as the file.
        let target = unsafe { target.as_ref() }.copied().filter(|db| !db.is_null())?;
        if api.runs_statement(target) {
            return None;
        }
        let copied = opened::while_open(last.file, || api.is_at_rest(last.db));
        Some(if copied { Source::Encrypted(opened) } else { Source::Unknown })
    });
    found.ok().flatten().unwrap_or(Source::Other)
}

/// Returns the connection whose database `target`, which runs no statement, may be copying.
pub(crate) fn copied_by(api: Api, target: *mut Sqlite3) -> Option<*mut Sqlite3> {
    let found = LAST.try_with(|last| {
        let last = last.borrow();
        let last = last.as_ref().filter(|last| last.goes_on)?;
        let mut db = None;
        opened::while_open(last.file, || {
            // SAFETY: as in `source`; the file is open.
            db = unsafe { last.db.as_ref() }.copied();
            true
        });
        db.filter(|db| !db.is_null() && *db != target && !api.runs_statement(target))
    });
    found.ok().flatten()
}
