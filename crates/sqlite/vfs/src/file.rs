//! The `sqlite3_file` of this VFS: dispatch from SQLite's calls to the kind of file.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::VfsError;
use crate::api::Api;
use crate::base::{BaseFile, Read};
use crate::error::ends_transaction;
use crate::ffi::{self, File, IoMethods, Sqlite3};
use crate::follow::{self, Origin};
use crate::functions::remember;
use crate::kind::Kind;
use crate::new_db::NewFile;
use crate::opened;
use crate::plain::device_characteristics;
use crate::reading;
use crate::shared::Shared;

/// Our file. SQLite allocates it together with the memory after it, where the VFS below keeps its
/// own.
#[repr(C)]
pub(crate) struct TdeFile {
    methods: *const IoMethods,
    state: *mut State,
}

/// The kind of a file, and the connection for its errors.
pub(crate) struct State {
    pub(crate) kind: Kind,
    pub(crate) api: Api,
    /// SQLite's own pointer to the connection, from `FCNTL_PDB`; for a journal, its main file's.
    pub(crate) db: *mut *mut Sqlite3,
    /// How the file was opened. After `kind`, which may use memory that this owns.
    pub(crate) origin: Origin,
}

impl State {
    /// Returns the connection that currently uses the file.
    fn connection(&self) -> Option<*mut Sqlite3> {
        // SAFETY: SQLite keeps the place that it passed as long as the main file is open, and
        // closes a journal before it.
        unsafe { self.db.as_ref() }.copied().filter(|db| !db.is_null())
    }
}

/// Gives `file` its state and methods.
///
/// # Safety
/// `file` is the memory that SQLite passed to `xOpen`.
pub(crate) unsafe fn install(file: *mut File, state: State) {
    let methods = methods_of(&state.kind);
    let file: *mut TdeFile = file.cast();
    // SAFETY: SQLite allocates `os_file_len` bytes, which begin with a `TdeFile`.
    unsafe { file.write(TdeFile { methods, state: Box::into_raw(Box::new(state)) }) };
}

/// Without shared memory below, SQLite must not be offered a WAL.
fn methods_of(kind: &Kind) -> &'static IoMethods {
    let has_shm = kind.has_shm();
    match kind {
        Kind::Plain(_) if has_shm => &PLAIN_METHODS,
        Kind::Plain(_) => &PLAIN_METHODS_WITHOUT_SHM,
        _ if has_shm => &SEALED_METHODS,
        _ => &SEALED_METHODS_WITHOUT_SHM,
    }
}

/// Sets the methods of `file` for its new kind. SQLite may still give back ranges that it had
/// mapped of a main file that was plain.
///
/// # Safety
/// `file` is one of ours and open, and `kind` is its kind.
pub(crate) unsafe fn set_methods(file: *mut File, kind: &Kind, was_mapped: bool) {
    let methods = match (was_mapped, kind.has_shm()) {
        (false, _) => methods_of(kind),
        (true, true) => &FOLLOWED_METHODS,
        (true, false) => &FOLLOWED_METHODS_WITHOUT_SHM,
    };
    // SAFETY: this function's own contract.
    unsafe { (*file).methods = methods };
}

/// Returns SQLite's pointer to the connection that has `file` open; null if it is not known.
///
/// # Safety
/// `file` is null or one of our open files.
pub(crate) unsafe fn db_of(file: *mut File) -> *mut *mut Sqlite3 {
    // SAFETY: this function's own contract.
    unsafe { state_of(file) }.map_or(std::ptr::null_mut(), |state| state.db)
}

/// Returns the shared state of the encrypted database whose main file is `file`.
///
/// # Safety
/// `file` is null or an open file of SQLite's.
pub(crate) unsafe fn shared_of(file: *mut File) -> Option<Rc<Shared>> {
    // SAFETY: this function's own contract.
    match unsafe { kind_below(file) } {
        Some(Kind::Main(main)) => Some(main.shared.clone()),
        _ => None,
    }
}

/// Returns true if `file` is a plain main file that may take pages of an encrypted database.
///
/// # Safety
/// `file` is null or an open file of SQLite's.
pub(crate) unsafe fn may_reserve(file: *mut File) -> bool {
    // SAFETY: this function's own contract.
    match unsafe { kind_below(file) } {
        Some(Kind::Plain(plain)) => plain.may_reserve(),
        _ => true,
    }
}

/// Returns our own file under `file`; `None` if there is none.
///
/// # Safety
/// `file` is null or an open file of SQLite's, and no other reference to its kind is in use.
pub(crate) unsafe fn kind_below<'a>(file: *mut File) -> Option<&'a mut Kind> {
    // SAFETY: `below` returns null or one of our open files, which only this thread uses now.
    unsafe { state_of(below(file)) }.map(|state| &mut state.kind)
}

/// Returns the file under `file` if it is still empty and was opened for writing.
///
/// # Safety
/// As `kind_below`.
pub(crate) unsafe fn new_below<'a>(file: *mut File) -> Option<&'a NewFile> {
    // SAFETY: this function's own contract.
    match unsafe { state_of(below(file)) } {
        Some(State { kind: Kind::New(new), origin, .. }) if origin.is_to_be_written() => Some(new),
        _ => None,
    }
}

/// Returns our own file under any shims above it; null if there is none.
///
/// # Safety
/// `file` is null or an open file of SQLite's.
pub(crate) unsafe fn below(file: *mut File) -> *mut File {
    // SAFETY: this function's own contract; an open file has methods.
    let methods = unsafe { file.as_ref().and_then(|f| f.methods.as_ref()) };
    let Some(control) = methods.and_then(|m| m.file_control) else {
        return std::ptr::null_mut();
    };
    let mut ours: *mut File = std::ptr::null_mut();
    let argument: *mut *mut File = &mut ours;
    // SAFETY: shims pass on controls that they do not know; ours sets the pointer.
    unsafe { control(file, ffi::FCNTL_TDEKIT_FILE, argument.cast()) };
    ours
}

/// # Safety
/// `file` is null or one of ours and open; no other reference to its state is in use.
unsafe fn state_of<'a>(file: *mut File) -> Option<&'a mut State> {
    let file: *mut TdeFile = file.cast();
    // SAFETY: this function's own contract.
    unsafe { file.as_mut().and_then(|f| f.state.as_mut()) }
}

/// Runs `f` on the file's state. A panic becomes an I/O error: the host must not stop.
///
/// # Safety
/// `file` is one of ours and open. SQLite serialises calls on a file.
unsafe fn with(
    file: *mut File,
    write: bool,
    f: impl FnOnce(&mut Kind) -> Result<c_int, VfsError>,
) -> c_int {
    // SAFETY: this function's own contract.
    unsafe { with_state(file, write, |state| f(&mut state.kind)) }
}

/// As `with`.
///
/// # Safety
/// As `with`.
unsafe fn with_state(
    file: *mut File,
    write: bool,
    f: impl FnOnce(&mut State) -> Result<c_int, VfsError>,
) -> c_int {
    // SAFETY: this function's own contract.
    let Some(state) = (unsafe { state_of(file) }) else { return ffi::IOERR };
    let (api, db) = (state.api, state.connection());
    let act = || {
        if matches!(&state.kind, Kind::Plain(plain) if plain.is_left_behind()) {
            // SAFETY: this function's own contract.
            unsafe { follow::follow_side(file, state) }?;
        }
        f(state)
    };
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(code)) => code,
        Ok(Err(VfsError::Base(code))) => code,
        Ok(Err(error)) => {
            // SAFETY: this function's own contract.
            if let Some(state) = unsafe { state_of(file) } {
                state.origin.refuse();
            }
            let code = report(api, &error, write, db);
            // A program that copies may never have had the target's connection: the shell's
            // `.backup` makes its own.
            if let Some(source) = db.and_then(|db| reading::copied_by(api, db)) {
                remember(Some(source), &format!("tdekit: {error}"));
            }
            code
        }
        Err(_) => ffi::IOERR,
    }
}

/// Logs an error and remembers it for `tdekit_last_error()` of the connection; returns its code.
pub(crate) fn report(api: Api, error: &VfsError, write: bool, db: Option<*mut Sqlite3>) -> c_int {
    let code = error.code(write);
    let message = format!("tdekit: {error}");
    remember(db, &message);
    api.log(code, &message);
    code
}

/// Closes `file` as a refused one: if opening it made it, it is deleted.
///
/// # Safety
/// `file` is one of ours and open; afterwards its memory may be used for another file.
pub(crate) unsafe fn refuse_open(file: *mut File) {
    // SAFETY: this function's own contract.
    unsafe {
        if let Some(state) = state_of(file) {
            state.origin.refuse();
        }
        close(file);
    }
}

fn done(read: Read) -> c_int {
    match read {
        Read::Full => ffi::OK,
        Read::Short => ffi::IOERR_SHORT_READ,
    }
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    opened::remove(file);
    let ours: *mut TdeFile = file.cast();
    // SAFETY: SQLite closes a file that we opened, once; the state came from `Box::into_raw`.
    let mut state = unsafe {
        let state = std::mem::replace(&mut (*ours).state, std::ptr::null_mut());
        if state.is_null() {
            return ffi::OK;
        }
        Box::from_raw(state)
    };
    let end = || {
        let State { kind, origin, .. } = &mut *state;
        // A file that stays does no harm.
        let _stays = origin.remove_refused(kind);
        drop(state);
    };
    match catch_unwind(AssertUnwindSafe(end)) {
        Ok(()) => ffi::OK,
        Err(_) => ffi::IOERR,
    }
}

unsafe extern "C" fn read(file: *mut File, out: *mut c_void, len: c_int, offset: i64) -> c_int {
    let (Ok(len), Ok(offset)) = (usize::try_from(len), u64::try_from(offset)) else {
        return ffi::IOERR_READ;
    };
    // SAFETY: SQLite passes `len` writable bytes.
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), len) };
    let act = |state: &mut State| {
        let read = state.kind.read(out, offset)?;
        state.origin.mark_changed(out, offset);
        Ok(done(read))
    };
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with_state(file, false, act) }
}

unsafe extern "C" fn write(file: *mut File, data: *const c_void, len: c_int, offset: i64) -> c_int {
    let (Ok(len), Ok(offset)) = (usize::try_from(len), u64::try_from(offset)) else {
        return ffi::IOERR_WRITE;
    };
    // SAFETY: SQLite passes `len` readable bytes.
    let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) };
    // SAFETY: SQLite calls methods on our open file.
    let hears = unsafe { !db_of(file).is_null() };
    let act = |kind: &mut Kind| {
        if let Kind::New(new) = kind {
            // No lock came before (`nolock=1`).
            *kind = new.settle_unlocked()?;
        }
        kind.write(data, offset)?;
        match kind {
            // A shim above does not pass on file controls: `FCNTL_SYNC`, which precedes the end of
            // a journal at a commit, will not come, so nothing may stay gathered.
            Kind::Main(main) if !hears => main.flush()?,
            _ => {}
        }
        Ok(ffi::OK)
    };
    // SAFETY: SQLite calls methods on our open file.
    ends_transaction(unsafe { with(file, true, act) })
}

unsafe extern "C" fn truncate(file: *mut File, len: i64) -> c_int {
    let Ok(len) = u64::try_from(len) else { return ffi::IOERR };
    // SAFETY: SQLite calls methods on our open file.
    ends_transaction(unsafe { with(file, true, |kind| kind.truncate(len).map(|()| ffi::OK)) })
}

unsafe extern "C" fn sync(file: *mut File, flags: c_int) -> c_int {
    // SAFETY: SQLite calls methods on our open file.
    ends_transaction(unsafe { with(file, true, |kind| kind.sync(flags).map(|()| ffi::OK)) })
}

unsafe extern "C" fn file_size(file: *mut File, out: *mut i64) -> c_int {
    let store = |size: u64| {
        // SAFETY: SQLite passes a place for the size.
        unsafe { *out = i64::try_from(size).unwrap_or(i64::MAX) };
        ffi::OK
    };
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with(file, false, |kind| kind.size().map(store)) }
}

unsafe extern "C" fn lock(file: *mut File, level: c_int) -> c_int {
    let act = |state: &mut State| {
        match &mut state.kind {
            Kind::Plain(_) => follow::lock(file, state, level)?,
            Kind::Main(main) => {
                main.lock(level)?;
                if level == ffi::LOCK_SHARED {
                    reading::begin(file, state.db, main.shared.live.file());
                }
            }
            Kind::New(new) => {
                if let Some(decided) = new.lock(file, level)? {
                    opened::decided(file, matches!(decided, Kind::Main(_)));
                    // SAFETY: the file is ours; SQLite reads its methods at each call.
                    unsafe { (*file).methods = methods_of(&decided) };
                    state.kind = decided;
                }
            }
            other => other.base(|base| base.lock(level))??,
        }
        Ok(ffi::OK)
    };
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with_state(file, false, act) }
}

unsafe extern "C" fn unlock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: SQLite calls methods on our open file.
    let code = unsafe { with(file, true, |kind| kind.unlock(level).map(|()| ffi::OK)) };
    if level == ffi::LOCK_NONE {
        reading::end(file);
    }
    code
}

unsafe extern "C" fn check_reserved_lock(file: *mut File, out: *mut c_int) -> c_int {
    let act = |kind: &mut Kind| {
        // SAFETY: SQLite passes a place for the answer.
        kind.base(|base| base.check_reserved_lock(unsafe { &mut *out }))
    };
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with(file, false, act) }
}

unsafe extern "C" fn file_control(file: *mut File, op: c_int, argument: *mut c_void) -> c_int {
    if op == ffi::FCNTL_TDEKIT_FILE {
        // SAFETY: only `below` uses this control, with a place for the pointer.
        unsafe { *argument.cast::<*mut File>() = file };
        return ffi::OK;
    }
    if op == ffi::FCNTL_PDB {
        // SAFETY: SQLite calls methods on our open file, and passes its pointer's place.
        if let Some(state) = unsafe { state_of(file) } {
            state.db = argument.cast();
        }
    }
    let act = |kind: &mut Kind| {
        if let Some(code) = kind.control(op, argument)? {
            return Ok(code);
        }
        // SAFETY: SQLite's caller passed what `op` takes.
        kind.base(|base| unsafe { base.control(op, argument) })
    };
    // SAFETY: SQLite calls methods on our open file.
    let code = unsafe { with(file, true, act) };
    if op == ffi::FCNTL_VFSNAME && code == ffi::OK {
        // SAFETY: as above; the argument of this control is a place for a string.
        unsafe { prefix_name(file, argument.cast()) };
    }
    code
}

/// Puts our name before the one that the VFS below returned.
unsafe fn prefix_name(file: *mut File, place: *mut *mut std::ffi::c_char) {
    // SAFETY: the caller's contract.
    let Some(state) = (unsafe { state_of(file) }) else { return };
    // SAFETY: the VFS below stored a string of SQLite's there.
    let below = unsafe { *place };
    if below.is_null() {
        return;
    }
    // SAFETY: as above.
    let name = unsafe { std::ffi::CStr::from_ptr(below) }.to_string_lossy().into_owned();
    let Ok(joined) = CString::new(format!("{}/{name}", crate::VFS_NAME)) else { return };
    let joined = state.api.mprintf(&joined);
    if !joined.is_null() {
        state.api.free(below);
        // SAFETY: as above; the caller frees the new string.
        unsafe { *place = joined };
    }
}

unsafe extern "C" fn sector_size(file: *mut File) -> c_int {
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with(file, false, |kind| kind.base(BaseFile::sector_size)) }
}

unsafe extern "C" fn sealed_characteristics(file: *mut File) -> c_int {
    let act = |kind: &mut Kind| {
        let below = kind.base(BaseFile::device_characteristics)?;
        let refused = ffi::IOCAP_ATOMIC_ALL
            | ffi::IOCAP_SAFE_APPEND
            | ffi::IOCAP_BATCH_ATOMIC
            | ffi::IOCAP_SUBPAGE_READ;
        // Without this bit SQLite pads commits to the end of a sector, with a sync inside a frame.
        Ok((below & !refused) | ffi::IOCAP_POWERSAFE_OVERWRITE)
    };
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with(file, false, act) }
}

unsafe extern "C" fn plain_characteristics(file: *mut File) -> c_int {
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with(file, false, |kind| kind.base(device_characteristics)) }
}

unsafe extern "C" fn shm_map(
    file: *mut File,
    region: c_int,
    len: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    let act = |state: &mut State| match state.kind.has_shm() {
        true => follow::shm_map(file, state, (region, len, extend), out),
        false => Ok(ffi::IOERR),
    };
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with_state(file, false, act) }
}

/// A reader of the log takes and releases one of its index's shared locks with these.
const READ_LOCK: c_int = ffi::SHM_LOCK | ffi::SHM_SHARED;
const READ_UNLOCK: c_int = ffi::SHM_UNLOCK | ffi::SHM_SHARED;

unsafe extern "C" fn shm_lock(file: *mut File, offset: c_int, n: c_int, flags: c_int) -> c_int {
    let act = |state: &mut State| match &mut state.kind {
        Kind::Main(main) => {
            let code = main.shm_lock(offset, n, flags)?;
            match flags {
                _ if code != ffi::OK => {}
                READ_LOCK => reading::begin(file, state.db, main.shared.live.file()),
                READ_UNLOCK => reading::end(file),
                _ => {}
            }
            Ok(code)
        }
        Kind::Plain(_) => follow::shm_lock(file, state, (offset, n, flags)),
        other => other.base(|base| base.shm_lock(offset, n, flags)),
    };
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with_state(file, false, act) }
}

unsafe extern "C" fn shm_barrier(file: *mut File) {
    let act = |kind: &mut Kind| kind.base(|base| base.shm_barrier()).map(|()| ffi::OK);
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with(file, false, act) };
}

unsafe extern "C" fn shm_unmap(file: *mut File, delete: c_int) -> c_int {
    let act = |state: &mut State| {
        let code = state.kind.base(|base| base.shm_unmap(delete));
        if let Kind::Main(main) = &mut state.kind {
            main.shm_unmapped();
        }
        state.origin.unmapped();
        code
    };
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with_state(file, false, act) }
}

unsafe extern "C" fn fetch(
    file: *mut File,
    offset: i64,
    len: c_int,
    out: *mut *mut c_void,
) -> c_int {
    let act = |kind: &mut Kind| match kind {
        Kind::Plain(plain) => Ok(plain.base.fetch(offset, len, out)),
        _ => {
            // SAFETY: SQLite passes a place for the pointer; null means "read instead".
            unsafe { *out = std::ptr::null_mut() };
            Ok(ffi::OK)
        }
    };
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with(file, false, act) }
}

unsafe extern "C" fn unfetch(file: *mut File, offset: i64, bytes: *mut c_void) -> c_int {
    let act = |kind: &mut Kind| match kind {
        Kind::Plain(plain) => Ok(plain.base.unfetch(offset, bytes)),
        // Its mapping of a plain file went with that file.
        _ => Ok(ffi::OK),
    };
    // SAFETY: SQLite calls methods on our open file.
    unsafe { with(file, false, act) }
}

/// Methods of files whose bytes differ from SQLite's view: version 2, so that SQLite never maps
/// ciphertext.
static SEALED_METHODS: IoMethods = IoMethods {
    version: 2,
    close: Some(close),
    read: Some(read),
    write: Some(write),
    truncate: Some(truncate),
    sync: Some(sync),
    file_size: Some(file_size),
    lock: Some(lock),
    unlock: Some(unlock),
    check_reserved_lock: Some(check_reserved_lock),
    file_control: Some(file_control),
    sector_size: Some(sector_size),
    device_characteristics: Some(sealed_characteristics),
    shm_map: Some(shm_map),
    shm_lock: Some(shm_lock),
    shm_barrier: Some(shm_barrier),
    shm_unmap: Some(shm_unmap),
    fetch: None,
    unfetch: None,
};

/// Methods of plain files: everything that the VFS below offers.
static PLAIN_METHODS: IoMethods = IoMethods {
    version: 3,
    device_characteristics: Some(plain_characteristics),
    fetch: Some(fetch),
    unfetch: Some(unfetch),
    ..SEALED_METHODS
};

/// Methods of an encrypted main file that was plain when SQLite opened it: SQLite asks to map
/// ranges, and always gets none.
static FOLLOWED_METHODS: IoMethods =
    IoMethods { version: 3, fetch: Some(fetch), unfetch: Some(unfetch), ..SEALED_METHODS };

static FOLLOWED_METHODS_WITHOUT_SHM: IoMethods = IoMethods {
    version: 3,
    fetch: Some(fetch),
    unfetch: Some(unfetch),
    ..SEALED_METHODS_WITHOUT_SHM
};

static SEALED_METHODS_WITHOUT_SHM: IoMethods = IoMethods {
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    ..SEALED_METHODS
};

static PLAIN_METHODS_WITHOUT_SHM: IoMethods = IoMethods {
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    ..PLAIN_METHODS
};
