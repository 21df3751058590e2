//! FFI: a plugin only for the tests, which is placed before the plugin under test and records the
//! server's arguments: flags, key, IV and first piece of each call that encrypts.
//!
//! `TDEKIT_COUNTED_PLUGIN` names the plugin that does the work, `TDEKIT_COUNTED_CALLS` the file to
//! which calls are appended, each as [`RECORD`] bytes.
#![allow(unsafe_code, non_upper_case_globals)]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    missing_docs
)]

use std::cell::UnsafeCell;
use std::ffi::{CString, c_char, c_int, c_uchar, c_uint, c_void};
use std::fs::File;
use std::io::Write;
use std::ptr;
use std::sync::{Mutex, OnceLock};

/// Bytes of a record: flags, key number, key's length, first piece's length (4 each), IV (16), the
/// key's first 16 bytes.
const RECORD: usize = 48;
/// Length of the record before the real plugin's context.
const HEAD: usize = 64;
const ENCRYPT: c_int = 1;
/// Number of calls that are buffered before they are written.
const HELD: usize = 4096;

/// `st_maria_plugin`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Declaration {
    kind: c_int,
    info: *const Functions,
    texts: [*const c_char; 3],
    license: c_int,
    init: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    deinit: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    version: c_uint,
    status: *const c_void,
    variables: *const c_void,
    version_info: *const c_char,
    maturity: c_uint,
}

/// `st_mariadb_encryption`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Functions {
    interface_version: c_int,
    latest: unsafe extern "C" fn(c_uint) -> c_uint,
    key: unsafe extern "C" fn(c_uint, c_uint, *mut c_uchar, *mut c_uint) -> c_uint,
    size: unsafe extern "C" fn(c_uint, c_uint) -> c_uint,
    begin: Begin,
    update: Update,
    finish: unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut c_uint) -> c_int,
    length: unsafe extern "C" fn(c_uint, c_uint, c_uint) -> c_uint,
}

type Begin = unsafe extern "C" fn(
    *mut c_void,
    *const c_uchar,
    c_uint,
    *const c_uchar,
    c_uint,
    c_int,
    c_uint,
    c_uint,
) -> c_int;
type Update =
    unsafe extern "C" fn(*mut c_void, *const c_uchar, c_uint, *mut c_uchar, *mut c_uint) -> c_int;

#[repr(transparent)]
pub struct Shared<T>(UnsafeCell<T>);
// SAFETY: written once, while the library is loaded, and only read from then on.
unsafe impl<T> Sync for Shared<T> {}

const NONE: Declaration = Declaration {
    kind: 0,
    info: ptr::null(),
    texts: [ptr::null(); 3],
    license: 0,
    init: None,
    deinit: None,
    version: 0,
    status: ptr::null(),
    variables: ptr::null(),
    version_info: ptr::null(),
    maturity: 0,
};

#[unsafe(no_mangle)]
pub static _maria_plugin_interface_version_: c_int = 0x010f;
#[unsafe(no_mangle)]
pub static _maria_sizeof_struct_st_plugin_: c_int = size_of::<Declaration>() as c_int;
#[allow(private_interfaces)]
#[unsafe(no_mangle)]
pub static _maria_plugin_declarations_: Shared<[Declaration; 2]> =
    Shared(UnsafeCell::new([NONE; 2]));

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

static REAL: OnceLock<Functions> = OnceLock::new();
static CALLS: Mutex<Vec<u8>> = Mutex::new(Vec::new());

// SAFETY: as the C library declares them.
unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Runs when the server loads the library, before it reads the declaration.
extern "C" fn loaded() {
    const NOW: c_int = 2;
    let Ok(path) = std::env::var("TDEKIT_COUNTED_PLUGIN") else { return };
    let path = CString::new(path).unwrap();
    // SAFETY: the strings are terminated; the symbol is that of an encryption plugin, whose
    // library is never unloaded.
    unsafe {
        let library = dlopen(path.as_ptr(), NOW);
        assert!(!library.is_null(), "the plugin to be counted does not load");
        let real = dlsym(library, c"_maria_plugin_declarations_".as_ptr()).cast::<Declaration>();
        let real = *real;
        REAL.get_or_init(|| *real.info);
        let info: &'static Functions =
            Box::leak(Box::new(Functions { size, begin, update, finish, ..*real.info }));
        let deinit = Some(deinit as unsafe extern "C" fn(*mut c_void) -> c_int);
        (*_maria_plugin_declarations_.0.get())[0] = Declaration { info, deinit, ..real };
    }
}

fn real() -> &'static Functions {
    REAL.get().unwrap()
}

fn write(calls: &mut Vec<u8>) {
    let Ok(path) = std::env::var("TDEKIT_COUNTED_CALLS") else { return };
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    file.write_all(calls).unwrap();
    calls.clear();
}

unsafe extern "C" fn deinit(_: *mut c_void) -> c_int {
    write(&mut CALLS.lock().unwrap());
    0
}

unsafe extern "C" fn size(id: c_uint, version: c_uint) -> c_uint {
    // SAFETY: no precondition.
    HEAD as c_uint + unsafe { (real().size)(id, version) }
}

unsafe extern "C" fn begin(
    ctx: *mut c_void,
    key: *const c_uchar,
    klen: c_uint,
    iv: *const c_uchar,
    ivlen: c_uint,
    flags: c_int,
    id: c_uint,
    version: c_uint,
) -> c_int {
    let mut head = [0_u8; HEAD];
    head[..4].copy_from_slice(&flags.to_le_bytes());
    head[4..8].copy_from_slice(&id.to_le_bytes());
    head[8..12].copy_from_slice(&klen.to_le_bytes());
    // SAFETY: the server passes key and IV of their lengths, of which no more is read, and a
    // context of the size that `size` returned.
    unsafe {
        ptr::copy_nonoverlapping(iv, head.as_mut_ptr().add(16), 16.min(ivlen as usize));
        ptr::copy_nonoverlapping(key, head.as_mut_ptr().add(32), 16.min(klen as usize));
        ptr::copy_nonoverlapping(head.as_ptr(), ctx.cast(), HEAD);
        (real().begin)(ctx.add(HEAD), key, klen, iv, ivlen, flags, id, version)
    }
}

unsafe extern "C" fn update(
    ctx: *mut c_void,
    src: *const c_uchar,
    slen: c_uint,
    dst: *mut c_uchar,
    dlen: *mut c_uint,
) -> c_int {
    // SAFETY: the context begins with the data that `begin` wrote; everything else is passed on.
    unsafe {
        let head = ctx.cast::<[u8; HEAD]>();
        let mut record = ptr::read_unaligned(head);
        let flags = c_int::from_le_bytes(record[..4].try_into().unwrap());
        // The last byte of the head records whether there was a first piece.
        if flags & ENCRYPT != 0 && record[HEAD - 1] == 0 {
            record[HEAD - 1] = 1;
            record[12..16].copy_from_slice(&slen.to_le_bytes());
            ptr::write_unaligned(head, record);
            let mut calls = CALLS.lock().unwrap();
            calls.extend_from_slice(&record[..RECORD]);
            if calls.len() >= HELD * RECORD {
                write(&mut calls);
            }
        }
        (real().update)(ctx.add(HEAD), src, slen, dst, dlen)
    }
}

unsafe extern "C" fn finish(ctx: *mut c_void, dst: *mut c_uchar, dlen: *mut c_uint) -> c_int {
    // SAFETY: as in `update`.
    unsafe { (real().finish)(ctx.add(HEAD), dst, dlen) }
}
