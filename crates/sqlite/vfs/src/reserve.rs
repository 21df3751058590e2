//! The bytes for seals in databases that do not exist yet, requested when a connection opens.
//!
//! This makes SQLite apply its own rules for a reserve before anything is written: `PRAGMA
//! page_size=512` gives pages of 1024 bytes, because 512 leave no space for more than 32. And a
//! database without a file of its own (a temporary one, or one in memory) can be copied over an
//! encrypted one with the backup API, which copies pages as they are; `sqlite3_recover` does that.
#![allow(unsafe_code)]

use std::ffi::c_int;

use tdekit_sqlite_page::RESERVE_LEN;

use crate::api::Api;
use crate::ffi::{self, Sqlite3};
use crate::file::kind_below;
use crate::kind::Kind;
use crate::new_db::is_asked_for_all;

/// Makes SQLite reserve the bytes in the main database of `db`, a connection that has just opened,
/// if that will be encrypted, or has no file and all new ones must be.
pub(crate) fn ask(api: Api, db: *mut Sqlite3) {
    let file = api.file_of(db, c"main");
    // SAFETY: SQLite owns the file of an open schema.
    let has_file = unsafe { file.as_ref() }.is_some_and(|file| !file.methods.is_null());
    let wanted = match has_file {
        // SAFETY: as above; nobody else has the connection yet.
        true => match unsafe { kind_below(file) } {
            Some(Kind::New(new)) => new.will_be_encrypted(),
            _ => false,
        },
        false => is_asked_for_all(),
    };
    if wanted {
        let reserve = c_int::try_from(RESERVE_LEN).unwrap_or(0);
        api.file_control_int(db, c"main", ffi::FCNTL_RESERVE_BYTES, reserve);
    }
}
