//! The `sqlite3_vfs`: opens files, and passes everything else to the VFS below.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use tdekit_sqlite_page::HEADER_AREA_LEN;
use tdekit_sqlite_page::journal::{JOURNAL_HEADER_LEN, JournalHeader};

use crate::VfsError;
use crate::api::Api;
use crate::base::{BaseFile, Read};
use crate::child::{self, ChildJournal};
use crate::ffi::{self, File, Sqlite3, Syscall, Vfs};
use crate::file::{State, TdeFile, db_of, install, kind_below, may_reserve, report, shared_of};
use crate::follow::{Origin, left_of};
use crate::fresh::Place;
use crate::freshness::anchors_of;
use crate::given;
use crate::guard;
use crate::journal::JournalFile;
use crate::keyring::{Keyring, OpenedHeader, known_header, open_header_by_any};
use crate::kind::Kind;
use crate::live_keys::LiveKeys;
use crate::new_db::{Request, open_main};
use crate::opened;
use crate::passage;
use crate::plain::PlainFile;
use crate::refused;
use crate::scratch::{self, ScratchFile};
use crate::temp::TempFile;
use crate::uri;
use crate::wal::WalFile;

const NAME: &CStr = c"tdekit";
const JOURNAL_SUFFIX: &str = "-journal";

/// The state of a registered VFS. Lives for ever, as its host's library does.
struct Host {
    api: Api,
    below: *mut Vfs,
}

/// Held while the VFS is looked up and registered: two connections that open at the same time would
/// both find none, and the second VFS would be based on the first, which would seal everything
/// twice.
static REGISTERING: Mutex<()> = Mutex::new(());

/// Registers the VFS with the library behind `api`, once, as the default. The environment variable
/// `TDEKIT_BASE_VFS` names the VFS below; without it, that is the current default.
pub(crate) fn register(api: Api) -> Result<(), VfsError> {
    let _registering = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    let there = api.vfs_find(Some(NAME));
    if there.is_null() { stand_on(api) } else { make_default(api, there) }
}

/// Makes the registered VFS the default again, if the default is one that existed before it:
/// `sqlite3_initialize` does that after `sqlite3_shutdown`. A VFS that was registered later may be
/// based on ours.
fn make_default(api: Api, there: *mut Vfs) -> Result<(), VfsError> {
    let default = api.vfs_find(None);
    if default == there || !guard::is_guarded(default) {
        return Ok(());
    }
    // SAFETY: a registered VFS of this name lives for ever, as ours does.
    match unsafe { there.as_mut() }.map(|vfs| api.vfs_register(vfs, true)) {
        Some(ffi::OK) | None => Ok(()),
        Some(code) => Err(VfsError::Base(code)),
    }
}

/// Registers the VFS, unless it would be based on one of the same name: another copy of this
/// library in the process has registered it in the meantime.
fn stand_on(api: Api) -> Result<(), VfsError> {
    let named = std::env::var("TDEKIT_BASE_VFS").ok().filter(|name| !name.is_empty());
    let below = match &named {
        None => api.vfs_find(None),
        Some(name) => match CString::new(name.as_str()) {
            Ok(text) => api.vfs_find(Some(&text)),
            Err(_) => std::ptr::null_mut(),
        },
    };
    // SAFETY: a registered VFS lives until it is unregistered, which nobody does to a default.
    let Some(base) = (unsafe { below.as_ref() }) else {
        let value = named.unwrap_or_default();
        return Err(VfsError::Setting { what: "TDEKIT_BASE_VFS", value });
    };
    // SAFETY: the name of a registered VFS is a string that lives as long.
    if unsafe { CStr::from_ptr(base.name) } == NAME {
        return Ok(());
    }
    guard::install(api);
    let own_len = c_int::try_from(std::mem::size_of::<TdeFile>()).unwrap_or(c_int::MAX);
    let host: &'static mut Host = Box::leak(Box::new(Host { api, below }));
    let vfs: &'static mut Vfs = Box::leak(Box::new(Vfs {
        version: base.version.min(3),
        os_file_len: base.os_file_len.saturating_add(own_len),
        max_pathname: base.max_pathname,
        next: std::ptr::null_mut(),
        name: NAME.as_ptr(),
        app_data: std::ptr::from_mut(host).cast(),
        open: Some(open),
        delete: Some(delete),
        access: Some(access),
        full_pathname: Some(full_pathname),
        dl_open: Some(dl_open),
        dl_error: Some(dl_error),
        dl_sym: Some(dl_sym),
        dl_close: Some(dl_close),
        randomness: Some(randomness),
        sleep: Some(sleep),
        current_time: Some(current_time),
        get_last_error: Some(get_last_error),
        current_time_i64: Some(current_time_i64),
        set_system_call: Some(set_system_call),
        get_system_call: Some(get_system_call),
        next_system_call: Some(next_system_call),
    }));
    crate::follow::tell();
    match api.vfs_register(vfs, true) {
        ffi::OK => Ok(()),
        code => Err(VfsError::Base(code)),
    }
}

/// # Safety
/// `vfs` is ours.
unsafe fn host(vfs: *mut Vfs) -> &'static Host {
    // SAFETY: `register` stored a leaked `Host` there.
    unsafe { &*(*vfs).app_data.cast::<Host>() }
}

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls the method of our VFS.
    let host = unsafe { host(vfs) };
    // SAFETY: SQLite passes `os_file_len` bytes of memory; null methods mean "not open".
    unsafe { (*file).methods = std::ptr::null() };
    // SAFETY: the name is SQLite's.
    let is_made = unsafe { is_to_be_made(host, name, flags) };
    let settings = AssertUnwindSafe(|| {
        // SAFETY: the arguments are SQLite's own.
        unsafe { check_settings(host.api, name, flags, is_made) }
    });
    match catch_unwind(settings) {
        Ok(Ok(())) => {}
        // SAFETY: the arguments are SQLite's own, and no file is open.
        Ok(Err(error)) => return unsafe { refuse(host.api, file, flags, out_flags, &error) },
        Err(_) => return ffi::CANTOPEN,
    }
    // SAFETY: the VFS below finds its own length of memory behind our part.
    let below: *mut File = unsafe { file.cast::<TdeFile>().add(1).cast() };
    // SAFETY: as above.
    unsafe { (*below).methods = std::ptr::null() };
    // SAFETY: the VFS below is registered, so it has an `xOpen`.
    let code = match unsafe { (*host.below).open } {
        // SAFETY: the arguments are SQLite's own, the memory is set aside.
        Some(f) => passage::unguarded(|| unsafe { f(host.below, name, below, flags, out_flags) }),
        None => ffi::CANTOPEN,
    };
    // SAFETY: SQLite passes null or a place that the VFS below fills when it opens a file.
    let opened = unsafe { out_flags.as_ref() }.copied().unwrap_or(flags);
    let writable = opened & ffi::OPEN_READONLY == 0;
    // SAFETY: open or not, the VFS below left null or valid methods.
    let base = unsafe { BaseFile::new(below, writable) };
    let base = match (code, base) {
        (ffi::OK, Some(base)) => base,
        (ffi::OK, None) => return ffi::CANTOPEN,
        // Dropping a partly opened file closes it, as SQLite asks.
        (code, _) => return code,
    };
    let kind = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the name and flags are SQLite's.
        let (mut kind, db) = unsafe { kind_of(host.api, name, flags, base) }?;
        // SAFETY: as above.
        if let Some(place) = unsafe { place_of(host, name, flags) }? {
            match &mut kind {
                Kind::Main(main) => main.opened_as(&place)?,
                Kind::New(new) => new.set_place(place),
                _ => {}
            }
        }
        Ok((kind, db))
    }));
    match kind {
        Ok(Ok((kind, db))) => {
            if flags & ffi::OPEN_MAIN_DB != 0 {
                // SAFETY: the name is SQLite's.
                unsafe { opened::add(host.api, name, file, matches!(kind, Kind::Main(_))) };
            }
            let origin = Origin::new(host.below, name, flags, is_made);
            // SAFETY: `file` is the memory of this call.
            unsafe { install(file, State { kind, api: host.api, db, origin }) };
            ffi::OK
        }
        // SAFETY: as above; the file below is closed again.
        Ok(Err(error)) => unsafe { refuse(host.api, file, flags, out_flags, &error) },
        Err(_) => ffi::CANTOPEN,
    }
}

/// Refuses a main file because of its URI or the environment, before the file exists; `is_made` is
/// true if opening it creates it.
///
/// # Safety
/// `name` and `flags` are what SQLite passed to `xOpen`.
unsafe fn check_settings(
    api: Api,
    name: *const c_char,
    flags: c_int,
    is_made: bool,
) -> Result<(), VfsError> {
    // SAFETY: this function's own contract.
    unsafe {
        uri::check(api, name, flags)?;
        let is_main = flags & ffi::OPEN_MAIN_DB != 0 && !name.is_null();
        if is_main && api.uri_parameter(name, scratch::PARAMETER).is_none() {
            keyring_of(api, name)?;
            let request = Request::read(api, name)?;
            if is_made {
                request.refuse_unusable()?;
            }
        }
    }
    Ok(())
}

/// Ends an opening that fails with `error`. A main file opens as one that reports the reason of the
/// refusal to its connection.
///
/// # Safety
/// The arguments are those of `xOpen`, and `file` is not open.
unsafe fn refuse(
    api: Api,
    file: *mut File,
    flags: c_int,
    out_flags: *mut c_int,
    error: &VfsError,
) -> c_int {
    let code = report(api, error, false, None);
    if flags & ffi::OPEN_MAIN_DB == 0 || matches!(error, VfsError::Base(_)) {
        return code;
    }
    // SAFETY: this function's own contract.
    unsafe {
        refused::install(file, api, code, error);
        if let Some(out_flags) = out_flags.as_mut() {
            *out_flags = flags;
        }
    }
    ffi::OK
}

/// Returns true if opening the main file `name` makes it.
///
/// # Safety
/// `name` and `flags` are what SQLite passed to `xOpen`.
unsafe fn is_to_be_made(host: &Host, name: *const c_char, flags: c_int) -> bool {
    const MADE: c_int = ffi::OPEN_MAIN_DB | ffi::OPEN_CREATE;
    let mut exists = 1;
    // SAFETY: the VFS below is registered.
    let access = unsafe { (*host.below).access };
    if flags & MADE == MADE
        && !name.is_null()
        && let Some(f) = access
    {
        // SAFETY: the name is SQLite's; the result is stored in its place.
        unsafe { f(host.below, name, ffi::ACCESS_READWRITE, &raw mut exists) };
    }
    exists == 0
}

/// Returns the keyring of the main file `name`: the one of the secret that the program gave for it,
/// for the key store that its URI names, or the environment's.
///
/// # Safety
/// `name` is what SQLite passed to `xOpen` for a main database.
pub(crate) unsafe fn keyring_of(api: Api, name: *const c_char) -> Result<Arc<Keyring>, VfsError> {
    // SAFETY: this function's own contract.
    let home = unsafe { api.uri_parameter(name, c"tdekit_home") };
    if !name.is_null() {
        // SAFETY: as above; the name is terminated.
        let path = OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes());
        if let Some(ring) = given::keyring(path.as_ref(), home.as_deref()) {
            return Ok(ring);
        }
    }
    Keyring::of(home.as_deref())
}

/// Returns the location of the freshness files of the main file `name`.
///
/// # Safety
/// `name` and `flags` are what SQLite passed to `xOpen`.
unsafe fn place_of(
    host: &Host,
    name: *const c_char,
    flags: c_int,
) -> Result<Option<Place>, VfsError> {
    if flags & ffi::OPEN_MAIN_DB == 0 || name.is_null() {
        return Ok(None);
    }
    // SAFETY: this function's own contract.
    let (anchors, ring) =
        unsafe { (host.api.uri_parameter(name, c"tdekit_anchors"), keyring_of(host.api, name)?) };
    let anchors = match (anchors, ring.tenant()) {
        (Some(anchors), _) => Some(anchors.into()),
        (None, Some(_)) => Some(anchors_of(&ring)?),
        (None, None) => None,
    };
    // SAFETY: as above; the name is terminated.
    let path = unsafe { CStr::from_ptr(name) }.to_bytes().to_vec();
    Ok(Some(Place { below: host.below, path, anchors }))
}

/// Deletes a file. Before a journal or a log is deleted, the anchor of its database moves.
unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite calls the method of our VFS.
    let host = unsafe { host(vfs) };
    let ended = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the name is SQLite's.
        unsafe { before_delete(name) }
    }));
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(VfsError::Base(code))) => return code,
        Ok(Err(error)) => return report(host.api, &error, true, None),
        Err(_) => return ffi::IOERR,
    }
    // SAFETY: the VFS below is registered.
    match unsafe { (*host.below).delete } {
        // SAFETY: the arguments are SQLite's own.
        Some(f) => unsafe { f(host.below, name, sync) },
        None => ffi::IOERR,
    }
}

/// # Safety
/// `name` is what SQLite passed to `xDelete`.
unsafe fn before_delete(name: *const c_char) -> Result<(), VfsError> {
    if name.is_null() {
        return Ok(());
    }
    // SAFETY: this function's own contract.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    let (journal, wal) = (text.ends_with(b"-journal"), text.ends_with(b"-wal"));
    if !journal && !wal {
        return Ok(());
    }
    // SAFETY: as above.
    let main = unsafe { opened::main_of(name) }?;
    // SAFETY: as above; SQLite is in no method of the main file.
    let empty = match unsafe { kind_below(main) } {
        Some(Kind::Main(main)) => main.is_empty()?,
        _ => false,
    };
    // SAFETY: as above.
    let shared = unsafe { shared_of(main) };
    match shared.as_ref().and_then(|shared| shared.fresh.get()) {
        Some(fresh) if journal && empty => fresh.finish_empty(),
        Some(fresh) if journal => fresh.finish(),
        Some(fresh) => fresh.end_log(),
        None => Ok(()),
    }
}

/// Returns the kind of a file, and SQLite's pointer to its connection if that is known already.
///
/// # Safety
/// `name` and `flags` are what SQLite passed to `xOpen`.
pub(crate) unsafe fn kind_of(
    api: Api,
    name: *const c_char,
    flags: c_int,
    base: BaseFile,
) -> Result<(Kind, *mut *mut Sqlite3), VfsError> {
    if flags & (ffi::OPEN_MAIN_JOURNAL | ffi::OPEN_WAL) == 0 || name.is_null() {
        // SAFETY: this function's own contract.
        return Ok((unsafe { named_kind(api, name, flags, base) }?, std::ptr::null_mut()));
    }
    // SAFETY: SQLite passes a terminated name. The main file is open as long as its journals are.
    let (main, shared) = unsafe {
        let main = opened::main_of(name)?;
        (main, shared_of(main))
    };
    let wal = flags & ffi::OPEN_WAL != 0;
    let kind = match shared {
        Some(shared) if wal => Kind::Wal(WalFile::new(base, shared)),
        Some(shared) => {
            let lost = shared.journals_lost.clone();
            let fresh = shared.fresh.get().cloned();
            let journal = JournalFile::new(base, shared.live.clone(), lost, fresh);
            let journal = Rc::new(RefCell::new(journal));
            *shared.journal.borrow_mut() = Rc::downgrade(&journal);
            Kind::Journal(journal)
        }
        None => {
            // SAFETY: as above.
            let (may_reserve, left) = unsafe { (may_reserve(main), left_of(main)) };
            let plain =
                if wal { PlainFile::wal(base, may_reserve) } else { PlainFile::other(base) };
            Kind::Plain(plain.beside(left))
        }
    };
    // SAFETY: as above.
    Ok((kind, unsafe { db_of(main) }))
}

/// # Safety
/// As `kind_of`.
unsafe fn named_kind(
    api: Api,
    name: *const c_char,
    flags: c_int,
    mut base: BaseFile,
) -> Result<Kind, VfsError> {
    const TEMPORARY: c_int =
        ffi::OPEN_TEMP_DB | ffi::OPEN_TRANSIENT_DB | ffi::OPEN_TEMP_JOURNAL | ffi::OPEN_SUBJOURNAL;
    if flags & TEMPORARY != 0 {
        return Ok(Kind::Temp(TempFile::new(base)?));
    }
    if flags & ffi::OPEN_MAIN_DB != 0 {
        // SAFETY: this function's own contract.
        if let Some(id) = unsafe { api.uri_parameter(name, scratch::PARAMETER) } {
            return Ok(Kind::Scratch(ScratchFile::new(base, &id)?));
        }
        // SAFETY: this function's own contract.
        let (ring, request) = unsafe { (keyring_of(api, name)?, Request::read(api, name)?) };
        return open_main(base, ring, request, api);
    }
    if flags & ffi::OPEN_SUPER_JOURNAL != 0 && !name.is_null() {
        // SAFETY: SQLite passes a terminated name.
        let path = unsafe { CStr::from_ptr(name) };
        if child::is_super(path.to_bytes()) {
            return Ok(Kind::Plain(PlainFile::other(base)));
        }
        match child_keys(&mut base, &path.to_string_lossy()) {
            Ok(None) => {}
            Ok(Some(keys)) => {
                let live = Rc::new(LiveKeys::new(keys));
                let journal = JournalFile::new(base, live, Rc::default(), None);
                return Ok(Kind::Journal(Rc::new(RefCell::new(journal))));
            }
            Err(failure) => return Ok(Kind::Child(ChildJournal::new(base, failure)?)),
        }
    }
    Ok(Kind::Plain(PlainFile::other(base)))
}

/// SQLite opens the journals named in a super-journal as if they were super-journals themselves, to
/// see whether they still name it. Returns the keys of such a journal, if it is sealed.
fn child_keys(base: &mut BaseFile, path: &str) -> Result<Option<OpenedHeader>, VfsError> {
    let mut sector = [0; JOURNAL_HEADER_LEN];
    if base.size()? < JOURNAL_HEADER_LEN as u64 || base.read(&mut sector, 0)? == Read::Short {
        return Ok(None);
    }
    let Some(header) = JournalHeader::decode(&sector) else { return Ok(None) };
    if let Some(known) = known_header(&header.file_id) {
        return Ok(Some(known));
    }
    // This process never opened the database, so opening and closing its file drops no lock.
    let Some(main) = path.strip_suffix(JOURNAL_SUFFIX) else { return Ok(None) };
    let unreadable = |_| VfsError::Base(ffi::IOERR_READ);
    let mut area = Vec::new();
    let file = std::fs::File::open(main).map_err(unreadable)?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, HEADER_AREA_LEN), &mut area)
        .map_err(unreadable)?;
    Ok(Some(open_header_by_any(&area)?))
}

/// Defines a method that calls the same method of the VFS below.
macro_rules! forward {
    ($name:ident, $missing:expr, ($($arg:ident: $ty:ty),*) $(-> $ret:ty)?) => {
        unsafe extern "C" fn $name(vfs: *mut Vfs, $($arg: $ty),*) $(-> $ret)? {
            // SAFETY: SQLite calls the method of our VFS.
            let below = unsafe { host(vfs) }.below;
            // SAFETY: the VFS below lives as long as ours.
            match unsafe { (*below).$name } {
                // SAFETY: the arguments are SQLite's own.
                Some(f) => unsafe { f(below, $($arg),*) },
                None => $missing,
            }
        }
    };
}

forward!(access, ffi::IOERR, (name: *const c_char, flags: c_int, out: *mut c_int) -> c_int);
forward!(full_pathname, ffi::CANTOPEN,
    (name: *const c_char, len: c_int, out: *mut c_char) -> c_int);
forward!(dl_open, std::ptr::null_mut(), (name: *const c_char) -> *mut c_void);
forward!(dl_error, (), (len: c_int, out: *mut c_char));
forward!(dl_sym, None, (library: *mut c_void, name: *const c_char) -> Syscall);
forward!(dl_close, (), (library: *mut c_void));
forward!(randomness, 0, (len: c_int, out: *mut c_char) -> c_int);
forward!(sleep, 0, (microseconds: c_int) -> c_int);
forward!(current_time, ffi::ERROR, (out: *mut f64) -> c_int);
forward!(get_last_error, 0, (len: c_int, out: *mut c_char) -> c_int);
forward!(current_time_i64, ffi::ERROR, (out: *mut i64) -> c_int);
forward!(set_system_call, ffi::NOTFOUND, (name: *const c_char, call: Syscall) -> c_int);
forward!(get_system_call, None, (name: *const c_char) -> Syscall);
forward!(next_system_call, std::ptr::null(), (name: *const c_char) -> *const c_char);

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use rusqlite::ffi::{
        SQLITE_OK, sqlite3, sqlite3_api_routines, sqlite3_auto_extension, sqlite3_vfs_find,
    };

    use super::*;

    unsafe extern "C" fn entry(
        _: *mut sqlite3,
        _: *mut *mut c_char,
        routines: *const sqlite3_api_routines,
    ) -> c_int {
        // SAFETY: the table is what SQLite passed.
        let api = unsafe { Api::new(routines.cast()) };
        // As two connections do that both found none.
        let twice = api.and_then(|api| stand_on(api).and_then(|()| stand_on(api)));
        if twice.is_ok() { SQLITE_OK } else { ffi::ERROR }
    }

    #[test]
    fn it_never_stands_on_itself() {
        // SAFETY: `entry` has the signature of an extension's entry point.
        let code = unsafe { sqlite3_auto_extension(Some(entry)) };
        assert_eq!(code, SQLITE_OK);
        drop(Connection::open_in_memory().unwrap());
        // SAFETY: registered VFSes live for ever, and this one is ours.
        let below = unsafe {
            let ours = sqlite3_vfs_find(NAME.as_ptr());
            CStr::from_ptr((*host(ours.cast()).below).name)
        };
        assert_ne!(below, NAME);
    }
}
