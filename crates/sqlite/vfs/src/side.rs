//! Files beside a database that SQLite does not know, opened through the VFS below.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::ops::{Deref, DerefMut};
use std::os::unix::ffi::OsStrExt;

use crate::VfsError;
use crate::base::BaseFile;
use crate::ffi::{self, File, Vfs};
use crate::passage;

const READWRITE: i32 = 0x2;
const CREATE: i32 = 0x4;
/// Zeros before and after a name, as SQLite has them around its own.
const MARGIN: usize = 4;

/// An open file with the memory in which the VFS below keeps it.
pub(crate) struct SideFile {
    // Before the memory and the name that it uses: fields are dropped in order.
    base: BaseFile,
    _memory: Box<[u64]>,
    _name: Box<[u8]>,
}

impl SideFile {
    /// Opens the file `path` through `below`, a registered VFS; makes it if `create` is true. A new
    /// one gets the access rights of the database beside which `path` is.
    ///
    /// # Errors
    /// SQLite's result code, `CANTOPEN` if there is no file.
    pub(crate) fn open(below: *mut Vfs, path: &[u8], create: bool) -> Result<Self, VfsError> {
        // The VFS below would wait for the reader of a pipe of that name.
        let named = std::fs::metadata(OsStr::from_bytes(path));
        if named.is_ok_and(|found| !found.is_file()) {
            return Err(VfsError::Base(ffi::CANTOPEN));
        }
        // SAFETY: the VFS that ours stands on is registered for ever.
        let Some(vfs) = (unsafe { below.as_ref() }) else {
            return Err(VfsError::Base(ffi::CANTOPEN));
        };
        let mut name = vec![0; MARGIN];
        name.extend_from_slice(path);
        name.resize(name.len() + MARGIN, 0);
        let name = name.into_boxed_slice();
        let len = usize::try_from(vfs.os_file_len).unwrap_or(0).div_ceil(8).max(8);
        let mut memory = vec![0u64; len].into_boxed_slice();
        let file: *mut File = memory.as_mut_ptr().cast();
        let flags = READWRITE | if create { CREATE } else { 0 } | ffi::OPEN_MAIN_JOURNAL;
        let (mut opened, at) = (flags, name[MARGIN..].as_ptr().cast());
        let Some(open) = vfs.open else { return Err(VfsError::Base(ffi::CANTOPEN)) };
        // SAFETY: the name is NUL-terminated and the memory has the length that the VFS asks for;
        // both live as long as the file, and do not move.
        let code = passage::unguarded(|| unsafe { open(below, at, file, flags, &mut opened) });
        // SAFETY: open or not, the VFS below left null or valid methods.
        let base = unsafe { BaseFile::new(file, opened & ffi::OPEN_READONLY == 0) };
        match (code, base) {
            (ffi::OK, Some(base)) => Ok(Self { base, _memory: memory, _name: name }),
            (ffi::OK, None) => Err(VfsError::Base(ffi::CANTOPEN)),
            (code, _) => Err(VfsError::Base(code)),
        }
    }
}

impl Deref for SideFile {
    type Target = BaseFile;

    fn deref(&self) -> &BaseFile {
        &self.base
    }
}

impl DerefMut for SideFile {
    fn deref_mut(&mut self) -> &mut BaseFile {
        &mut self.base
    }
}
