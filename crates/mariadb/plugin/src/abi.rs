//! FFI: the symbols that the server looks up in the library: the plugin's description and its
//! functions.
//!
//! The layouts are those of `mysql/plugin.h` and `mysql/plugin_encryption.h` of MariaDB 10.11.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};
use std::ptr;

use crate::entry;
use crate::variables::{self, SystemVariable};

/// `MARIA_PLUGIN_INTERFACE_VERSION`.
const PLUGIN_INTERFACE_VERSION: c_int = 0x010f;
/// `MariaDB_ENCRYPTION_PLUGIN`.
const ENCRYPTION_PLUGIN: c_int = 9;
/// `MariaDB_ENCRYPTION_INTERFACE_VERSION`.
const ENCRYPTION_INTERFACE_VERSION: c_int = 0x0300;
/// `PLUGIN_LICENSE_BSD`: of the three that the server knows, the closest to Apache-2.0 or MIT.
const LICENSE: c_int = 2;
/// `MariaDB_PLUGIN_MATURITY_STABLE`: with less, a server refuses to load by default.
const STABLE: c_uint = 5;

/// `st_maria_plugin`.
#[repr(C)]
pub(crate) struct Plugin {
    kind: c_int,
    info: *mut c_void,
    name: *const c_char,
    author: *const c_char,
    description: *const c_char,
    license: c_int,
    init: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    deinit: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    version: c_uint,
    status_variables: *mut c_void,
    system_variables: *mut *mut SystemVariable,
    version_info: *const c_char,
    maturity: c_uint,
}

/// `st_mariadb_encryption`.
#[repr(C)]
struct Encryption {
    interface_version: c_int,
    get_latest_key_version: unsafe extern "C" fn(c_uint) -> c_uint,
    get_key: unsafe extern "C" fn(c_uint, c_uint, *mut c_uchar, *mut c_uint) -> c_uint,
    crypt_ctx_size: unsafe extern "C" fn(c_uint, c_uint) -> c_uint,
    crypt_ctx_init: unsafe extern "C" fn(
        *mut c_void,
        *const c_uchar,
        c_uint,
        *const c_uchar,
        c_uint,
        c_int,
        c_uint,
        c_uint,
    ) -> c_int,
    crypt_ctx_update: unsafe extern "C" fn(
        *mut c_void,
        *const c_uchar,
        c_uint,
        *mut c_uchar,
        *mut c_uint,
    ) -> c_int,
    crypt_ctx_finish: unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut c_uint) -> c_int,
    encrypted_length: unsafe extern "C" fn(c_uint, c_uint, c_uint) -> c_uint,
}

/// Static data that the server may write to: it must not be in read-only memory.
#[repr(transparent)]
pub(crate) struct Writable<T>(UnsafeCell<T>);

// SAFETY: we write to none of it. The server does so while it registers the plugin and reads its
// own options, under its lock on plugins and before it calls the plugin's `init`.
unsafe impl<T> Sync for Writable<T> {}

impl<T> Writable<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) const fn get(&self) -> *mut T {
        self.0.get()
    }
}

static ENCRYPTION: Writable<Encryption> = Writable::new(Encryption {
    interface_version: ENCRYPTION_INTERFACE_VERSION,
    get_latest_key_version: entry::get_latest_key_version,
    get_key: entry::get_key,
    crypt_ctx_size: entry::crypt_ctx_size,
    crypt_ctx_init: entry::crypt_ctx_init,
    crypt_ctx_update: entry::crypt_ctx_update,
    crypt_ctx_finish: entry::crypt_ctx_finish,
    encrypted_length: entry::encrypted_length,
});

/// The version of the plugin's interface that this library was made for.
#[unsafe(no_mangle)]
pub(crate) static _maria_plugin_interface_version_: c_int = PLUGIN_INTERFACE_VERSION;

/// Length of an element of `_maria_plugin_declarations_`, in bytes.
#[unsafe(no_mangle)]
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // it is 104
pub(crate) static _maria_sizeof_struct_st_plugin_: c_int = size_of::<Plugin>() as c_int;

/// The plugins of this library: one, and the empty one that ends the list.
#[unsafe(no_mangle)]
#[allow(private_interfaces)] // the server reads it by its C layout
pub(crate) static _maria_plugin_declarations_: Writable<[Plugin; 2]> = Writable::new([
    Plugin {
        kind: ENCRYPTION_PLUGIN,
        info: ENCRYPTION.get().cast(),
        name: c"tdekit".as_ptr(),
        author: c"tdekit".as_ptr(),
        description: c"Encryption with the keys of a tdekit key store".as_ptr(),
        license: LICENSE,
        init: Some(entry::init),
        deinit: Some(entry::deinit),
        version: 0x0001,
        status_variables: ptr::null_mut(),
        system_variables: variables::list(),
        version_info: concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast(),
        maturity: STABLE,
    },
    Plugin {
        kind: 0,
        info: ptr::null_mut(),
        name: ptr::null(),
        author: ptr::null(),
        description: ptr::null(),
        license: 0,
        init: None,
        deinit: None,
        version: 0,
        status_variables: ptr::null_mut(),
        system_variables: ptr::null_mut(),
        version_info: ptr::null(),
        maturity: 0,
    },
]);

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn layouts_are_those_of_the_headers() {
        assert_eq!(size_of::<Plugin>(), 104);
        assert_eq!(_maria_sizeof_struct_st_plugin_, 104);
        for (offset, expected) in [
            (offset_of!(Plugin, info), 8),
            (offset_of!(Plugin, description), 32),
            (offset_of!(Plugin, license), 40),
            (offset_of!(Plugin, init), 48),
            (offset_of!(Plugin, version), 64),
            (offset_of!(Plugin, status_variables), 72),
            (offset_of!(Plugin, system_variables), 80),
            (offset_of!(Plugin, version_info), 88),
            (offset_of!(Plugin, maturity), 96),
        ] {
            assert_eq!(offset, expected);
        }
        assert_eq!(size_of::<Encryption>(), 64);
        assert_eq!(offset_of!(Encryption, get_latest_key_version), 8);
        assert_eq!(offset_of!(Encryption, encrypted_length), 56);
    }
}
