//! Follows a plain database that was encrypted while connections had it open.
//!
//! `tdekit encrypt --online` replaces a plain file by an encrypted copy, under a lock that excludes
//! every writer, and while nobody reads the log. A connection that had the plain file open finds
//! out with the first lock that it gets afterwards, before it reads or writes under it, and
//! continues with the new file: its main file at once, journal and log when SQLite uses them next.
//!
//! SQLite keeps pointers to the shared memory of the log's index. The new index is mapped at the
//! addresses of the old one, for all connections of the process alike, so the old file stays open
//! until the connection closes.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::rc::Rc;
use std::sync::{Arc, Once};

use tdekit_sqlite_page::HEADER_AREA_LEN;
use tdekit_sqlite_page::header::MAGIC;

use crate::VfsError;
use crate::api::Api;
use crate::base::BaseFile;
use crate::ffi::{self, File, Vfs};
use crate::file::State;
use crate::keyring::Keyring;
use crate::kind::Kind;
use crate::new_db::{Request, existing};
use crate::opened;
use crate::passage;
use crate::plain::PlainFile;
use crate::reading::{self, Source};
use crate::vfs::{keyring_of, kind_of};

/// Flags that apply only to a file that the opening call makes or owns.
const ONLY_WHEN_NEW: c_int = ffi::OPEN_CREATE | ffi::OPEN_EXCLUSIVE | ffi::OPEN_DELETEONCLOSE;

/// Name of the file in memory by which a process shows that its connections follow.
const MARK: &CStr = c"tdekit-follows-1";

/// The data needed to open a file again.
pub(crate) struct Origin {
    below: *mut Vfs,
    /// SQLite's own name of the file, which lives until the file is closed.
    name: *const c_char,
    flags: c_int,
    /// The regions of the log's index as mapped by SQLite, and their length.
    regions: Vec<*mut c_void>,
    region_len: c_int,
    /// The locks of that index that the connection holds, one bit each.
    held: u32,
    /// True if SQLite has not yet checked whether the file was changed.
    fresh: bool,
    /// Opening it made the file, and then something was refused.
    is_made: bool,
    is_refused: bool,
    /// The former file, whose mapping belongs to SQLite.
    before: Option<BaseFile>,
    /// Memory in which the VFS below keeps the file that was opened later. Dropped after the file.
    memory: Vec<u64>,
}

impl Origin {
    pub(crate) fn new(below: *mut Vfs, name: *const c_char, flags: c_int, is_made: bool) -> Self {
        Self {
            below,
            name,
            flags,
            regions: Vec::new(),
            region_len: 0,
            held: 0,
            fresh: false,
            is_made,
            is_refused: false,
            before: None,
            memory: Vec::new(),
        }
    }

    /// Records that a request of the connection on the file was refused.
    pub(crate) fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// Returns true if the file was opened for writing.
    pub(crate) fn is_to_be_written(&self) -> bool {
        self.flags & ffi::OPEN_READONLY == 0
    }

    /// Called before the file is closed. Deletes it if opening it made it, something was refused,
    /// it never had a page, and nobody else uses it. A program that copies would take it for a
    /// copy.
    pub(crate) fn remove_refused(&self, kind: &mut Kind) -> Result<(), VfsError> {
        let is_empty = |kind: &mut Kind| {
            let is_empty = match kind {
                Kind::Main(main) => main.is_empty(),
                Kind::New(new) => Ok(new.base()?.size()? <= HEADER_AREA_LEN),
                _ => kind.size().map(|size| size == 0),
            }?;
            // Another program may have put its own short file there.
            Ok::<_, VfsError>(is_empty && kind.base(begins_as_ours)??)
        };
        // A log or a journal may have all the content for the file.
        let is_left = self.is_made && self.is_refused && is_empty(kind)?;
        if !is_left || self.has_side_file() {
            return Ok(());
        }
        for level in [ffi::LOCK_SHARED, ffi::LOCK_RESERVED, ffi::LOCK_EXCLUSIVE] {
            kind.base(|base| base.lock(level))??;
        }
        // SAFETY: the VFS below is registered.
        let delete = unsafe { (*self.below).delete };
        if let Some(delete) = delete
            && is_empty(kind)?
            && !self.has_side_file()
        {
            // SAFETY: SQLite's name lives until the file is closed.
            unsafe { delete(self.below, self.name, 0) };
        }
        Ok(())
    }

    /// Returns true if a journal or a log is beside the file, or if that cannot be determined.
    fn has_side_file(&self) -> bool {
        // SAFETY: SQLite's name lives until the file is closed; the VFS below is registered.
        let (name, access) = unsafe { (CStr::from_ptr(self.name), (*self.below).access) };
        let Some(access) = access else { return true };
        ["-journal", "-wal"].iter().any(|suffix| {
            let side = [name.to_bytes(), suffix.as_bytes()].concat();
            let Ok(side) = CString::new(side) else { return true };
            let mut exists = 1;
            // SAFETY: the name is NUL-terminated; the result is stored in its place.
            unsafe {
                access(self.below, side.as_ptr(), ffi::ACCESS_READWRITE, &raw mut exists);
            }
            exists != 0
        })
    }

    /// Records a region of the log's index that SQLite got.
    fn note_region(&mut self, region: c_int, len: c_int, place: *mut c_void) {
        if usize::try_from(region) == Ok(self.regions.len()) && !place.is_null() {
            self.regions.push(place);
            self.region_len = len;
        }
    }

    /// Records that SQLite has released the log's index.
    pub(crate) fn unmapped(&mut self) {
        self.regions.clear();
        self.held = 0;
        if let Some(mut before) = self.before.take() {
            before.shm_unmap(0);
        }
    }

    /// Makes SQLite see a change in the bytes by which it checks that its cache is valid: those of
    /// another file may be equal by chance.
    pub(crate) fn mark_changed(&mut self, out: &mut [u8], offset: u64) {
        const CHANGE_COUNTER: (u64, usize) = (24, 16);
        if self.fresh && (offset, out.len()) == CHANGE_COUNTER {
            self.fresh = false;
            out.iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// Returns the keyring for the main file.
    fn keyring(&self, api: Api) -> Result<Arc<Keyring>, VfsError> {
        // SAFETY: the name is the one that SQLite opened the main file with.
        unsafe { keyring_of(api, self.name) }
    }

    /// Opens the file that the name refers to now. The memory must outlive the file.
    fn open_again(&self, flags: c_int) -> Result<Option<(BaseFile, Vec<u64>)>, VfsError> {
        // SAFETY: a registered VFS lives for ever.
        let Some(below) = (unsafe { self.below.as_ref() }) else { return Ok(None) };
        let (Some(open), Some(access)) = (below.open, below.access) else { return Ok(None) };
        let mut exists: c_int = 0;
        // SAFETY: the name is SQLite's, and there is a place for the result.
        let code = unsafe { access(self.below, self.name, ffi::ACCESS_EXISTS, &raw mut exists) };
        if code != ffi::OK || (exists == 0 && flags & ffi::OPEN_CREATE == 0) {
            return Ok(None);
        }
        let bytes = usize::try_from(below.os_file_len).unwrap_or(0);
        let mut memory = vec![0_u64; bytes.div_ceil(size_of::<u64>()) + 1];
        let file: *mut File = memory.as_mut_ptr().cast();
        let mut opened = flags;
        // SAFETY: the memory has the length that the VFS asks for and its methods are null; the
        // name is SQLite's.
        let code = passage::unguarded(|| unsafe {
            open(self.below, self.name, file, flags, &raw mut opened)
        });
        // SAFETY: open or not, the VFS below left null or valid methods.
        let base = unsafe { BaseFile::new(file, opened & ffi::OPEN_READONLY == 0) };
        match (code, base) {
            (ffi::OK, Some(base)) => Ok(Some((base, memory))),
            (ffi::OK, None) => Err(VfsError::Base(ffi::CANTOPEN)),
            (code, _) => Err(VfsError::Base(code)),
        }
    }

    /// Maps the index of the new file's log at the addresses that SQLite has.
    fn map_regions(&self, main: &mut BaseFile) -> Result<(), VfsError> {
        for (region, place) in (0..).zip(&self.regions) {
            let mut now: *mut c_void = std::ptr::null_mut();
            match main.shm_map(region, self.region_len, 1, &raw mut now) {
                ffi::OK if !now.is_null() => {}
                ffi::OK => return Err(VfsError::Base(ffi::IOERR)),
                code => return Err(VfsError::Base(code)),
            }
            let len = usize::try_from(self.region_len).unwrap_or(0);
            let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            // SAFETY: both are mapped regions of `len` bytes. A length of 0 maps the same shared
            // pages a second time. No connection of this process relies on the former content of
            // `place`: the only holders of locks on the old index are readers of the main file, who
            // do not use it.
            let moved = unsafe { libc::mremap(now, 0, len, how, *place) };
            if moved != *place {
                return Err(VfsError::Base(ffi::IOERR));
            }
        }
        Ok(())
    }
}

/// Returns true for an empty file, and for one whose first bytes are an encrypted database's.
fn begins_as_ours(base: &mut BaseFile) -> Result<bool, VfsError> {
    let mut head = [0; MAGIC.len()];
    let len = usize::try_from(base.size()?).map_or(head.len(), |size| size.min(head.len()));
    base.read(&mut head[..len], 0)?;
    Ok(MAGIC.starts_with(&head[..len]))
}

/// Shows other processes of the machine that the connections of this one follow: by an empty file
/// in memory, which stays open.
pub(crate) fn tell() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        // SAFETY: the name is a NUL-terminated string. If the system has no such files, the process
        // counts as one that does not follow.
        let _ = unsafe { libc::memfd_create(MARK.as_ptr(), libc::MFD_CLOEXEC) };
    });
}

/// Returns true if the file's name now refers to another file, or to none.
fn is_replaced(base: &mut BaseFile) -> bool {
    let mut moved: c_int = 0;
    let place: *mut c_int = &raw mut moved;
    // SAFETY: the argument of this control is a place for an integer.
    let code = unsafe { base.control(ffi::FCNTL_HAS_MOVED, place.cast()) };
    code == ffi::OK && moved != 0
}

/// Takes a lock on a plain main file; follows the file if it was encrypted before the lock was
/// acquired.
pub(crate) fn lock(file: *mut File, state: &mut State, level: c_int) -> Result<(), VfsError> {
    let Kind::Plain(plain) = &mut state.kind else { return Ok(()) };
    plain.base.lock(level)?;
    if level == ffi::LOCK_SHARED {
        reading::begin_plain(file);
    }
    if level == ffi::LOCK_RESERVED && !plain.may_reserve() {
        match reading::source(state.api, file, state.db) {
            Source::Encrypted(_) => {
                plain.base.unlock(ffi::LOCK_SHARED)?;
                return Err(VfsError::PlainTarget);
            }
            Source::Unknown => plain.doubt(),
            Source::Other => {}
        }
    }
    if level == ffi::LOCK_SHARED && is_replaced(&mut plain.base) {
        match follow_main(file, state, level) {
            Ok(_) => {}
            Err(error) => {
                state.kind.base(|base| base.unlock(ffi::LOCK_NONE))??;
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Takes or releases locks of the index of a plain database's log; follows as `lock` does.
pub(crate) fn shm_lock(
    file: *mut File,
    state: &mut State,
    (slot, n, flags): (c_int, c_int, c_int),
) -> Result<c_int, VfsError> {
    let Kind::Plain(plain) = &mut state.kind else { return Ok(ffi::IOERR) };
    let code = plain.base.shm_lock(slot, n, flags);
    if flags == ffi::SHM_LOCK | ffi::SHM_SHARED {
        reading::begin_plain(file);
    }
    let mask = ((1_u32 << n.clamp(0, 8)) - 1) << slot.clamp(0, 8);
    if code != ffi::OK || flags & ffi::SHM_UNLOCK != 0 {
        if code == ffi::OK {
            state.origin.held &= !mask;
        }
        return Ok(code);
    }
    if !is_replaced(&mut plain.base) {
        state.origin.held |= mask;
        return Ok(code);
    }
    let undo = (flags & !ffi::SHM_LOCK) | ffi::SHM_UNLOCK;
    let followed = if state.origin.held == 0 {
        follow_main(file, state, ffi::LOCK_SHARED)
    } else {
        // A read transaction continues with its snapshot, and can no longer write.
        leads_to_encrypted(state)
    };
    match (followed, &mut state.kind) {
        (Ok(false), _) => {
            state.origin.held |= mask;
            Ok(code)
        }
        (Ok(true), Kind::Plain(plain)) => {
            plain.base.shm_lock(slot, n, undo);
            Ok(ffi::BUSY_SNAPSHOT)
        }
        (Ok(true), _) => {
            if let Some(before) = &mut state.origin.before {
                before.shm_lock(slot, n, undo);
            }
            // SQLite drops its cache, and prepares and runs the statement again.
            Ok(ffi::SCHEMA)
        }
        (Err(error), kind) => {
            kind.base(|base| base.shm_lock(slot, n, undo))?;
            Err(error)
        }
    }
}

/// Maps a region of the index of a plain database's log, for the file that currently exists.
pub(crate) fn shm_map(
    file: *mut File,
    state: &mut State,
    (region, len, extend): (c_int, c_int, c_int),
    out: *mut *mut c_void,
) -> Result<c_int, VfsError> {
    if let Kind::Plain(plain) = &mut state.kind
        && state.origin.regions.is_empty()
        && is_replaced(&mut plain.base)
    {
        follow_main(file, state, ffi::LOCK_SHARED)?;
    }
    let code = state.kind.base(|base| base.shm_map(region, len, extend, out))?;
    if code == ffi::OK && matches!(state.kind, Kind::Plain(_)) {
        // SAFETY: SQLite passes a place for the pointer.
        state.origin.note_region(region, len, unsafe { *out });
    }
    Ok(code)
}

/// Opens the encrypted file that has replaced a plain main file, and takes a lock on it. Returns
/// false if there is none: SQLite then behaves as with a file that was moved.
fn follow_main(file: *mut File, state: &mut State, level: c_int) -> Result<bool, VfsError> {
    let Some((base, memory)) = state.origin.open_again(state.origin.flags & !ONLY_WHEN_NEW)? else {
        return Ok(false);
    };
    let Some(kind) = encrypted_at(base, &state.origin.keyring(state.api)?, state.api, level)?
    else {
        return Ok(false);
    };
    let mut kind = kind;
    if let Kind::Main(main) = &kind
        && !state.origin.name.is_null()
    {
        // SAFETY: SQLite keeps the name of a main file as long as that is open.
        let name = unsafe { CStr::from_ptr(state.origin.name) }.to_bytes();
        let live = &main.shared.live;
        live.ring().log_opening(name, &live.header())?;
    }
    let mapped = kind.base(|base| state.origin.map_regions(base))?;
    if let Err(error) = mapped {
        kind.base(|base| base.shm_unmap(0))?;
        return Err(error);
    }
    let Kind::Plain(before) = std::mem::replace(&mut state.kind, kind) else { return Ok(false) };
    before.leave();
    state.origin.memory = memory;
    state.origin.fresh = true;
    if !state.origin.regions.is_empty() {
        state.origin.before = Some(before.base);
    }
    opened::decided(file, true);
    // SAFETY: the file is ours; SQLite reads its methods at each call.
    unsafe { crate::file::set_methods(file, &state.kind, true) };
    Ok(true)
}

/// Returns the encrypted database in `base`, locked, or `None` if it is not one.
fn encrypted_at(
    mut base: BaseFile,
    ring: &Arc<Keyring>,
    api: Api,
    level: c_int,
) -> Result<Option<Kind>, VfsError> {
    base.lock(level)?;
    if is_replaced(&mut base) {
        return Err(VfsError::Base(ffi::BUSY));
    }
    if base.size()? == 0 {
        return Ok(None);
    }
    let kind = existing(base, ring, &Request::Unsaid, api, level)?;
    Ok(matches!(kind, Kind::Main(_)).then_some(kind))
}

fn leads_to_encrypted(state: &State) -> Result<bool, VfsError> {
    match state.origin.open_again(state.origin.flags & !ONLY_WHEN_NEW)? {
        Some((base, memory)) => {
            let ring = state.origin.keyring(state.api)?;
            let found = encrypted_at(base, &ring, state.api, ffi::LOCK_SHARED)?.is_some();
            drop(memory);
            Ok(found)
        }
        None => Ok(false),
    }
}

/// Opens the journal or log of the encrypted file that its main file has followed.
///
/// # Safety
/// `file` is one of ours and open, `state` its state.
pub(crate) unsafe fn follow_side(file: *mut File, state: &mut State) -> Result<(), VfsError> {
    let (name, flags) = (state.origin.name, state.origin.flags);
    let Some((base, memory)) = state.origin.open_again(flags)? else {
        return Err(VfsError::Base(ffi::CANTOPEN));
    };
    // SAFETY: the name and flags are those that SQLite opened the file with.
    let (kind, _) = unsafe { kind_of(state.api, name, flags, base) }?;
    state.kind = kind;
    state.origin.memory = memory;
    // SAFETY: this function's own contract.
    unsafe { crate::file::set_methods(file, &state.kind, false) };
    Ok(())
}

/// Flag for journal and log of a plain main file that the main file has followed.
pub(crate) type Left = Rc<Cell<bool>>;

/// Returns the flag of the plain main file `main`.
///
/// # Safety
/// `main` is null or an open file of SQLite's.
pub(crate) unsafe fn left_of(main: *mut File) -> Option<Left> {
    // SAFETY: this function's own contract.
    match unsafe { crate::file::kind_below(main) } {
        Some(Kind::Plain(plain)) => Some(PlainFile::left(plain)),
        _ => None,
    }
}
