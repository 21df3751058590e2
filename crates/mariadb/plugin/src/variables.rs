//! FFI: the plugin's options, which the server reads from its command line and option files.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

use crate::abi::Writable;
use crate::keyring::Source;

/// `PLUGIN_VAR_STR | PLUGIN_VAR_READONLY`: a string that is set when the server starts.
const READ_ONLY_STRING: c_int = 0x0005 | 0x0200;

/// `st_mysql_sys_var` of a global string.
#[repr(C)]
pub(crate) struct SystemVariable {
    flags: c_int,
    name: *const c_char,
    comment: *const c_char,
    check: Option<unsafe extern "C" fn() -> c_int>,
    update: Option<unsafe extern "C" fn()>,
    value: *mut *mut c_char,
    default: *mut c_char,
    /// The server stores an offset in the memory after other kinds of variables; none is used here.
    reserved: *mut c_void,
}

type Value = Writable<*mut c_char>;

static KEY_STORE_VALUE: Value = Writable::new(ptr::null_mut());
static PASSWORD_FILE_VALUE: Value = Writable::new(ptr::null_mut());
static KEY_FILE_VALUE: Value = Writable::new(ptr::null_mut());
static CERTIFICATE_VALUE: Value = Writable::new(ptr::null_mut());
static PAGE_SIZE_VALUE: Value = Writable::new(ptr::null_mut());

/// The server modifies names in place: `_` becomes `-` in the names of options.
static KEY_STORE: Writable<SystemVariable> =
    variable(c"key_store", c"Directory of the tdekit key store", &KEY_STORE_VALUE);
static PASSWORD_FILE: Writable<SystemVariable> = variable(
    c"password_file",
    c"File with the password of the key store; without it and tdekit-key-file the environment or \
      config.toml in the key store's directory counts",
    &PASSWORD_FILE_VALUE,
);
static KEY_FILE: Writable<SystemVariable> =
    variable(c"key_file", c"File with the key that opens the key store", &KEY_FILE_VALUE);
static CERTIFICATE: Writable<SystemVariable> = variable(
    c"certificate",
    c"Name of the certificate that must have signed the server keys; without it any certificate \
      of the key store may have",
    &CERTIFICATE_VALUE,
);
static PAGE_SIZE: Writable<SystemVariable> = variable(
    c"page_size",
    c"The server's innodb_page_size, where it is another than 16k: pages of that size are checked",
    &PAGE_SIZE_VALUE,
);

static LIST: Writable<[*mut SystemVariable; 6]> = Writable::new([
    KEY_STORE.get(),
    PASSWORD_FILE.get(),
    KEY_FILE.get(),
    CERTIFICATE.get(),
    PAGE_SIZE.get(),
    ptr::null_mut(),
]);

const fn variable(
    name: &'static CStr,
    comment: &'static CStr,
    value: &'static Value,
) -> Writable<SystemVariable> {
    Writable::new(SystemVariable {
        flags: READ_ONLY_STRING,
        name: name.as_ptr(),
        comment: comment.as_ptr(),
        check: None,
        update: None,
        value: value.get(),
        default: ptr::null_mut(),
        reserved: ptr::null_mut(),
    })
}

/// All variables, ended by null.
pub(crate) const fn list() -> *mut *mut SystemVariable {
    LIST.get().cast()
}

/// Returns the values of the options.
///
/// # Safety
/// The server has read its options, and does not change them concurrently: so it is in `init`.
pub(crate) unsafe fn source() -> Source {
    let path = |value| {
        // SAFETY: as this function's own contract.
        let text = unsafe { text(value) };
        text.map(|text| PathBuf::from(OsStr::from_bytes(text.to_bytes())))
    };
    Source {
        store: path(&KEY_STORE_VALUE).unwrap_or_default(),
        password_file: path(&PASSWORD_FILE_VALUE),
        key_file: path(&KEY_FILE_VALUE),
        // SAFETY: as this function's own contract.
        certificate: unsafe { text(&CERTIFICATE_VALUE) }
            .map(|text| text.to_string_lossy().into_owned()),
    }
}

/// Returns the value of the option for the page length.
///
/// # Safety
/// As [`source`].
pub(crate) unsafe fn page_size() -> Option<String> {
    // SAFETY: as this function's own contract.
    unsafe { text(&PAGE_SIZE_VALUE) }.map(|text| text.to_string_lossy().into_owned())
}

/// Returns the value of an option; `None` if it is not set or empty, as backups write an unset one.
///
/// # Safety
/// As [`source`].
unsafe fn text(value: &Value) -> Option<&CStr> {
    // SAFETY: the server writes null or a terminated string that lives as long as it runs.
    let text = unsafe { *value.get() };
    if text.is_null() {
        return None;
    }
    // SAFETY: as above.
    Some(unsafe { CStr::from_ptr(text) }).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn the_layout_is_that_of_the_header() {
        assert_eq!(offset_of!(SystemVariable, name), 8);
        assert_eq!(offset_of!(SystemVariable, check), 24);
        assert_eq!(offset_of!(SystemVariable, value), 40);
        assert_eq!(offset_of!(SystemVariable, default), 48);
    }

    #[test]
    fn an_option_that_is_not_set_or_empty_is_none() {
        // SAFETY: there is no server here, and no other test writes to the options.
        let source = unsafe { source() };
        assert!(source.store.as_os_str().is_empty());
        assert!(source.password_file.is_none() && source.certificate.is_none());
    }
}
