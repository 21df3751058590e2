//! A file of the VFS below, with its mapping, behind safe methods.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use crate::VfsError;
use crate::ffi::{self, File, IoMethods};
use crate::mapping::{Mapping, system_page_len};
use crate::sigbus::{self, Guard, Mapped};

/// SQLite's own default limit for mapping.
const MAP_LIMIT_BYTES: i64 = 0x7fff_0000;
/// Maximum length of one read or write: SQLite's unix VFS takes the length modulo 128 KiB.
pub(crate) const MAX_TRANSFER_LEN: usize = 124 * 1024;
/// Minimum number of reads that miss the mapping before its growth is checked; one more for each
/// such amount of mapped bytes. A new mapping faults again in steps of about this length, and each
/// fault costs more than a read that misses.
const MISSES_BEFORE_REMAP: u64 = 16;
const MAPPED_BYTES_A_MISS: u64 = 64 * 1024;

/// Result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Read {
    Full,
    /// The file ended first; the rest of the buffer is zero.
    Short,
}

/// A file that the VFS below opened in the memory behind our own `sqlite3_file`.
pub(crate) struct BaseFile {
    file: *mut File,
    methods: &'static IoMethods,
    mapping: Mapping,
    /// Set for a file that may be mapped.
    guard: Option<Guard>,
    /// The file's length before another program truncated it under its mapping; otherwise 0.
    cut_from: u64,
}

fn check(code: c_int) -> Result<(), VfsError> {
    if code == ffi::OK { Ok(()) } else { Err(VfsError::Base(code)) }
}

fn signed(offset: u64) -> Result<i64, VfsError> {
    i64::try_from(offset).map_err(|_| VfsError::Base(ffi::IOERR))
}

macro_rules! method {
    ($self:ident.$name:ident($($arg:expr),*)) => {
        match $self.methods.$name {
            // SAFETY: `file` was opened by the VFS below and is not yet closed (`new`); the
            // arguments are those that SQLite itself may pass.
            Some(f) => unsafe { f($self.file, $($arg),*) },
            None => ffi::NOTFOUND,
        }
    };
}

impl BaseFile {
    /// Takes over a file that the VFS below has opened, for writing or only for reading.
    ///
    /// # Safety
    /// `file` is open, its methods live for ever, and nothing else closes it.
    pub(crate) unsafe fn new(file: *mut File, writable: bool) -> Option<Self> {
        // SAFETY: an open file has methods that its VFS owns for the life of the process.
        let methods = unsafe { (*file).methods.as_ref() }?;
        let mapping = Mapping::new(writable);
        Some(Self { file, methods, mapping, guard: None, cut_from: 0 })
    }

    /// Allows the VFS below to map the file, for `with_mapped`, provided that a file truncated in
    /// the meantime does not end the process.
    pub(crate) fn allow_mapping(&mut self) {
        if self.methods.version < 3 || std::env::var_os("TDEKIT_MMAP").is_some_and(|v| v == "off") {
            return;
        }
        self.guard = Guard::new();
        if self.guard.is_none() {
            return;
        }
        let mut limit = MAP_LIMIT_BYTES;
        let argument: *mut i64 = &mut limit;
        let code = method!(self.file_control(ffi::FCNTL_MMAP_SIZE, argument.cast()));
        self.mapping.allowed = code == ffi::OK;
    }

    /// Runs `f` on `len` bytes at `offset` of the mapped file. Returns `None` if they are not
    /// mapped, or if another program truncated the file in the meantime. The same number of bytes
    /// at `next`, if given, is likely to be read after them.
    pub(crate) fn with_mapped<R>(
        &mut self,
        offset: u64,
        len: usize,
        next: Option<u64>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        if !self.mapping.allowed || (self.mapping.len == 0 && !self.map()) {
            return None;
        }
        let mapped = self.guard.as_ref()?.mapped();
        let mut bytes = self.fetch_range(offset, len)?;
        if bytes.is_null() && self.remap_if_grown(offset + len as u64) {
            bytes = self.fetch_range(offset, len)?;
        }
        if bytes.is_null() {
            return None;
        }
        self.mapping.advise(bytes as usize, offset, len);
        // SAFETY: the VFS below keeps the bytes mapped until `unfetch`. Another process may write
        // them in the meantime; every reader of them authenticates the bytes it has read.
        let range = unsafe { std::slice::from_raw_parts(bytes.cast(), len) };
        let (result, lost) = mapped.read(|| f(range));
        self.mapping.expect(bytes as usize, len, next);
        self.give_back(offset, bytes);
        if lost {
            self.lose();
            return None;
        }
        Some(result)
    }

    /// Returns the mapped bytes at `offset`; null if they are not mapped.
    #[inline]
    fn fetch_range(&mut self, offset: u64, len: usize) -> Option<*mut c_void> {
        let fetch = self.methods.fetch?;
        let (at, amount) = (i64::try_from(offset).ok()?, c_int::try_from(len).ok()?);
        let mut bytes: *mut c_void = std::ptr::null_mut();
        // SAFETY: as in `method!`; on success `bytes` is null or `amount` mapped bytes.
        let code = unsafe { fetch(self.file, at, amount, &mut bytes) };
        (code == ffi::OK).then_some(bytes)
    }

    #[inline]
    fn give_back(&mut self, offset: u64, bytes: *mut c_void) {
        if let (Some(unfetch), Ok(at)) = (self.methods.unfetch, i64::try_from(offset)) {
            // SAFETY: returns the bytes that `fetch` gave.
            unsafe { unfetch(self.file, at, bytes) };
        }
    }

    /// Makes the VFS below map the file, and records the place; returns true on success.
    fn map(&mut self) -> bool {
        if !sigbus::is_installed() {
            self.mapping.allowed = false;
            return false;
        }
        self.mapping.len = self.size().unwrap_or(0);
        if self.mapping.len == 0 {
            return false;
        }
        // The mapping begins at the file's first byte.
        let Some(first) = self.fetch_range(0, 1).filter(|first| !first.is_null()) else {
            self.unmap();
            return false;
        };
        self.give_back(0, first);
        // The file may have grown before it was mapped: `len` must not be less than the mapped
        // length, or a file truncated to a length between the two would fault.
        self.mapping.len = self.mapping.len.max(self.size().unwrap_or(0));
        let end = self.mapping.len.next_multiple_of(system_page_len());
        if let (Some(guard), Ok(len)) = (&self.guard, usize::try_from(end)) {
            guard.mapped().place(first as usize, len);
        }
        self.mapping.len > 0
    }

    /// Drops a mapping whose file another program truncated, if a [`HeaderReader`] found that.
    pub(crate) fn drop_lost(&mut self) {
        if self.guard.as_ref().is_some_and(|guard| guard.mapped().is_lost()) {
            self.lose();
        }
    }

    /// Drops a mapping whose file another program truncated.
    #[cold]
    fn lose(&mut self) {
        self.cut_from = self.cut_from.max(self.mapping.len);
        self.unmap();
        if let Some(guard) = &self.guard {
            guard.mapped().found();
        }
    }

    /// Returns true if the file had the byte before `end` until another program truncated it under
    /// its mapping.
    pub(crate) fn was_cut(&self, end: u64) -> bool {
        end <= self.cut_from
    }

    /// Forgets the file's former length.
    pub(crate) fn forget_cut(&mut self) {
        self.cut_from = 0;
    }

    /// Returns true if the last mapped ranges were those of a scan.
    pub(crate) fn is_scan(&self) -> bool {
        self.mapping.is_scan()
    }

    /// Drops the mapping if the file has grown past it; returns true if the caller should retry.
    fn remap_if_grown(&mut self, end: u64) -> bool {
        self.mapping.misses += 1;
        let patience = MISSES_BEFORE_REMAP + self.mapping.len / MAPPED_BYTES_A_MISS;
        if self.mapping.misses < patience && self.mapping.len != 0 {
            return false;
        }
        self.mapping.misses = 0;
        match self.size() {
            Ok(size) if size > self.mapping.len && size >= end => {
                self.unmap();
                self.map()
            }
            _ => false,
        }
    }

    fn unmap(&mut self) {
        self.mapping.forget();
        if let Some(guard) = &self.guard {
            guard.mapped().place(0, 0);
        }
        if let Some(unfetch) = self.methods.unfetch.filter(|_| self.mapping.allowed) {
            // SAFETY: a null pointer makes the VFS below drop its mapping; none is in use.
            unsafe { unfetch(self.file, 0, std::ptr::null_mut()) };
        }
    }

    /// Fills `out` from `offset`.
    pub(crate) fn read(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        let mut at = signed(offset)?;
        let mapped = self.mapping.len;
        if offset < mapped && offset + out.len() as u64 > mapped {
            // The VFS below reads from its mapping where it can: drop a mapping that outlives the
            // bytes.
            self.size()?;
        }
        let mut result = Read::Full;
        for chunk in out.chunks_mut(MAX_TRANSFER_LEN) {
            let len = c_int::try_from(chunk.len()).map_err(|_| VfsError::Base(ffi::IOERR_READ))?;
            let (mut code, lost) = self.read_chunk(chunk, len, at);
            if lost {
                self.lose();
                code = self.read_chunk(chunk, len, at).0;
            }
            match code {
                ffi::OK => {}
                ffi::IOERR_SHORT_READ => result = Read::Short,
                code => return Err(VfsError::Base(code)),
            }
            at = at.saturating_add(i64::from(len));
        }
        Ok(result)
    }

    /// Performs one read of the VFS below, which copies from its mapping if it has one. Also
    /// returns whether another program truncated the file in the meantime.
    fn read_chunk(&mut self, chunk: &mut [u8], len: c_int, at: i64) -> (c_int, bool) {
        let mut read = || method!(self.read(chunk.as_mut_ptr().cast(), len, at));
        match &self.guard {
            Some(guard) => guard.mapped().read(read),
            None => (read(), false),
        }
    }

    /// Writes all of `data` at `offset`.
    pub(crate) fn write(&mut self, data: &[u8], offset: u64) -> Result<(), VfsError> {
        let mut at = signed(offset)?;
        for chunk in data.chunks(MAX_TRANSFER_LEN) {
            let len = c_int::try_from(chunk.len()).map_err(|_| VfsError::Base(ffi::IOERR_WRITE))?;
            check(method!(self.write(chunk.as_ptr().cast(), len, at)))?;
            at = at.saturating_add(i64::from(len));
        }
        Ok(())
    }

    /// Makes a second reader of the same open file.
    ///
    /// # Safety
    /// The reader is dropped before the file, and both are used by one thread at a time.
    pub(crate) unsafe fn reader(&self) -> HeaderReader {
        let mapped = self.guard.as_ref().map(Guard::mapped);
        HeaderReader { file: self.file, methods: self.methods, mapped }
    }

    /// Truncates the file to `len` bytes.
    pub(crate) fn truncate(&mut self, len: u64) -> Result<(), VfsError> {
        if len < self.mapping.len {
            self.unmap();
        }
        self.cut_from = self.cut_from.min(len);
        check(method!(self.truncate(signed(len)?)))
    }

    /// Makes all writes durable.
    pub(crate) fn sync(&mut self, flags: c_int) -> Result<(), VfsError> {
        check(method!(self.sync(flags)))
    }

    /// Returns the size of the file. Drops a mapping that is longer: someone truncated the file.
    pub(crate) fn size(&mut self) -> Result<u64, VfsError> {
        let mut size = 0;
        check(method!(self.file_size(&mut size)))?;
        let size = u64::try_from(size).map_err(|_| VfsError::Base(ffi::IOERR))?;
        if size < self.mapping.len {
            self.unmap();
        }
        Ok(size)
    }

    /// Takes one of SQLite's locks.
    pub(crate) fn lock(&mut self, level: c_int) -> Result<(), VfsError> {
        check(method!(self.lock(level)))
    }

    /// Steps down to one of SQLite's locks.
    pub(crate) fn unlock(&mut self, level: c_int) -> Result<(), VfsError> {
        check(method!(self.unlock(level)))
    }

    /// Reports whether some connection holds RESERVED or more.
    pub(crate) fn check_reserved_lock(&mut self, out: &mut c_int) -> c_int {
        method!(self.check_reserved_lock(out))
    }

    /// Passes a file control on unchanged.
    ///
    /// # Safety
    /// `argument` is what SQLite's caller passed for `op`.
    pub(crate) unsafe fn control(&mut self, op: c_int, argument: *mut c_void) -> c_int {
        method!(self.file_control(op, argument))
    }

    /// Returns the sector size of the device, bytes.
    pub(crate) fn sector_size(&mut self) -> c_int {
        self.methods.sector_size.map_or(4096, |f| {
            // SAFETY: as in `method!`.
            unsafe { f(self.file) }
        })
    }

    /// Returns the device's `SQLITE_IOCAP` bits.
    pub(crate) fn device_characteristics(&mut self) -> c_int {
        self.methods.device_characteristics.map_or(0, |f| {
            // SAFETY: as in `method!`.
            unsafe { f(self.file) }
        })
    }

    /// Returns true if the VFS below has shared memory (and so WAL).
    pub(crate) fn has_shm(&self) -> bool {
        self.methods.version >= 2 && self.methods.shm_map.is_some()
    }

    /// Maps a region of the WAL index.
    pub(crate) fn shm_map(
        &mut self,
        region: c_int,
        len: c_int,
        extend: c_int,
        out: *mut *mut c_void,
    ) -> c_int {
        method!(self.shm_map(region, len, extend, out))
    }

    /// Locks slots of the WAL index.
    pub(crate) fn shm_lock(&mut self, offset: c_int, n: c_int, flags: c_int) -> c_int {
        method!(self.shm_lock(offset, n, flags))
    }

    /// Orders accesses to the WAL index.
    pub(crate) fn shm_barrier(&mut self) {
        if let Some(f) = self.methods.shm_barrier {
            // SAFETY: as in `method!`.
            unsafe { f(self.file) }
        }
    }

    /// Unmaps, and on request deletes, the WAL index.
    pub(crate) fn shm_unmap(&mut self, delete: c_int) -> c_int {
        method!(self.shm_unmap(delete))
    }

    /// Passes a mapped range to SQLite itself: for plain files only.
    pub(crate) fn fetch(&mut self, offset: i64, len: c_int, out: *mut *mut c_void) -> c_int {
        if self.methods.version < 3 || self.methods.fetch.is_none() {
            // SAFETY: SQLite passes a place for the pointer; null means "read instead".
            unsafe { *out = std::ptr::null_mut() };
            return ffi::OK;
        }
        method!(self.fetch(offset, len, out))
    }

    /// Takes back a mapped range from SQLite.
    pub(crate) fn unfetch(&mut self, offset: i64, bytes: *mut c_void) -> c_int {
        method!(self.unfetch(offset, bytes))
    }
}

/// A second reader of an open file, beside its owner.
pub(crate) struct HeaderReader {
    file: *mut File,
    methods: &'static IoMethods,
    mapped: Option<&'static Mapped>,
}

impl HeaderReader {
    /// Returns the size of the file.
    pub(crate) fn size(&mut self) -> Result<u64, VfsError> {
        let mut size: i64 = 0;
        match method!(self.file_size(&mut size)) {
            ffi::OK => u64::try_from(size).map_err(|_| VfsError::Base(ffi::IOERR)),
            code => Err(VfsError::Base(code)),
        }
    }

    /// Fills `out` from `offset`; at most `MAX_TRANSFER_LEN` bytes.
    pub(crate) fn read(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        let at = signed(offset)?;
        let len = c_int::try_from(out.len()).map_err(|_| VfsError::Base(ffi::IOERR_READ))?;
        let mut read = || method!(self.read(out.as_mut_ptr().cast(), len, at));
        let (code, lost) = match self.mapped {
            Some(mapped) => mapped.read(read),
            None => (read(), false),
        };
        match code {
            // The owner drops its mapping at its next read or lock; after that reads succeed.
            _ if lost => Err(VfsError::Base(ffi::IOERR_READ)),
            ffi::OK => Ok(Read::Full),
            ffi::IOERR_SHORT_READ => Ok(Read::Short),
            code => Err(VfsError::Base(code)),
        }
    }
}

impl Drop for BaseFile {
    fn drop(&mut self) {
        if let Some(close) = self.methods.close {
            // SAFETY: the file is open and this is its only owner (`new`).
            unsafe { close(self.file) };
        }
    }
}
