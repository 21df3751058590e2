//! FFI: the description of the component, which the server looks up in the library, and the layouts
//! of the services that it provides.
//!
//! The layouts are those that MySQL 9.7 documents for components: each service is a table of
//! functions, all of which return a status of type `int`, 0 for success.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr;

use crate::aes;
use crate::entry::{self, Reader};
use crate::lists::{self, Pairs as List};

type Status = c_int;

/// `mysql_service_ref_t`: a service that the component provides.
#[repr(C)]
struct Provided {
    name: *const c_char,
    implementation: *mut c_void,
}

/// `mysql_service_placeholder_ref_t`: a service that it needs, and where to put it.
#[repr(C)]
struct Required {
    name: *const c_char,
    implementation: *mut *mut c_void,
}

/// `mysql_metadata_ref_t`.
#[repr(C)]
struct Fact {
    key: *const c_char,
    value: *const c_char,
}

/// `mysql_component_t`.
#[repr(C)]
pub(crate) struct Component {
    name: *const c_char,
    provides: *mut Provided,
    requires: *mut Required,
    metadata: *mut Fact,
    init: Option<unsafe extern "C" fn() -> Status>,
    deinit: Option<unsafe extern "C" fn() -> Status>,
}

/// `keyring_aes`.
#[repr(C)]
struct Aes {
    get_size: unsafe extern "C" fn(usize, *const c_char, usize, *mut usize) -> Status,
    encrypt: Cipher,
    decrypt: Cipher,
}

type Cipher = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const c_char,
    usize,
    *const c_uchar,
    c_int,
    *const c_uchar,
    usize,
    *mut c_uchar,
    usize,
    *mut usize,
) -> Status;

/// `keyring_generator`.
#[repr(C)]
struct Generator {
    generate: unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, usize) -> Status,
}

/// `keyring_load`.
#[repr(C)]
struct Load {
    load: unsafe extern "C" fn(*const c_char, *const c_char) -> Status,
}

/// `keyring_keys_metadata_iterator` and `keyring_component_metadata_query`, which have the same
/// functions: of keys and their owners, and of names and values.
#[repr(C)]
struct Pairs {
    init: unsafe extern "C" fn(*mut *mut List) -> Status,
    deinit: unsafe extern "C" fn(*mut List) -> Status,
    is_valid: unsafe extern "C" fn(*mut List) -> Status,
    next: unsafe extern "C" fn(*mut List) -> Status,
    get_length: unsafe extern "C" fn(*mut List, *mut usize, *mut usize) -> Status,
    get: unsafe extern "C" fn(*mut List, *mut c_char, usize, *mut c_char, usize) -> Status,
}

/// `keyring_component_status`.
#[repr(C)]
struct ComponentStatus {
    is_initialized: unsafe extern "C" fn() -> Status,
}

/// `keyring_reader_with_status`.
#[repr(C)]
struct ReaderWithStatus {
    init: unsafe extern "C" fn(*const c_char, *const c_char, *mut *mut Reader) -> Status,
    deinit: unsafe extern "C" fn(*mut Reader) -> Status,
    fetch_length: unsafe extern "C" fn(*mut Reader, *mut usize, *mut usize) -> Status,
    fetch: unsafe extern "C" fn(
        *mut Reader,
        *mut c_uchar,
        usize,
        *mut usize,
        *mut c_char,
        usize,
        *mut usize,
    ) -> Status,
}

/// `keyring_writer`.
#[repr(C)]
struct Writer {
    store: unsafe extern "C" fn(
        *const c_char,
        *const c_char,
        *const c_uchar,
        usize,
        *const c_char,
    ) -> Status,
    remove: unsafe extern "C" fn(*const c_char, *const c_char) -> Status,
}

/// Static data that the server gets pointers to without `const`.
#[repr(transparent)]
struct Shared<T>(UnsafeCell<T>);

// SAFETY: we write to none of it. The server takes the tables of functions as constants, and reads
// the description under its lock on components.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    const fn get(&self) -> *mut T {
        self.0.get()
    }
}

static AES: Shared<Aes> = Shared::new(Aes {
    get_size: aes::aes_get_size,
    encrypt: aes::aes_encrypt,
    decrypt: aes::aes_decrypt,
});
static GENERATOR: Shared<Generator> = Shared::new(Generator { generate: entry::generate });
static LOAD: Shared<Load> = Shared::new(Load { load: entry::load });
static KEYS: Shared<Pairs> = Shared::new(Pairs {
    init: lists::keys_init,
    deinit: lists::keys_deinit,
    is_valid: lists::keys_is_valid,
    next: lists::keys_next,
    get_length: lists::keys_get_length,
    get: lists::keys_get,
});
static STATUS: Shared<ComponentStatus> =
    Shared::new(ComponentStatus { is_initialized: entry::is_initialized });
static METADATA: Shared<Pairs> = Shared::new(Pairs {
    init: lists::metadata_init,
    deinit: lists::metadata_deinit,
    is_valid: lists::metadata_is_valid,
    next: lists::metadata_next,
    get_length: lists::metadata_get_length,
    get: lists::metadata_get,
});
static READER: Shared<ReaderWithStatus> = Shared::new(ReaderWithStatus {
    init: entry::reader_init,
    deinit: entry::reader_deinit,
    fetch_length: entry::reader_fetch_length,
    fetch: entry::reader_fetch,
});
static WRITER: Shared<Writer> = Shared::new(Writer { store: entry::store, remove: entry::remove });

macro_rules! provided {
    ($name:literal, $service:ident) => {
        Provided {
            name: concat!($name, ".component_keyring_tdekit\0").as_ptr().cast(),
            implementation: $service.get().cast(),
        }
    };
}

static PROVIDES: Shared<[Provided; 9]> = Shared::new([
    provided!("keyring_aes", AES),
    provided!("keyring_generator", GENERATOR),
    provided!("keyring_load", LOAD),
    provided!("keyring_keys_metadata_iterator", KEYS),
    provided!("keyring_component_status", STATUS),
    provided!("keyring_component_metadata_query", METADATA),
    provided!("keyring_reader_with_status", READER),
    provided!("keyring_writer", WRITER),
    Provided { name: ptr::null(), implementation: ptr::null_mut() },
]);

/// The component needs nothing: a keyring is loaded before most services exist.
static REQUIRES: Shared<[Required; 1]> =
    Shared::new([Required { name: ptr::null(), implementation: ptr::null_mut() }]);

static FACTS: Shared<[Fact; 3]> = Shared::new([
    Fact { key: c"mysql.author".as_ptr(), value: c"tdekit".as_ptr() },
    Fact { key: c"mysql.license".as_ptr(), value: c"Apache-2.0 OR MIT".as_ptr() },
    Fact { key: ptr::null(), value: ptr::null() },
]);

static COMPONENT: Shared<Component> = Shared::new(Component {
    name: c"component_keyring_tdekit".as_ptr(),
    provides: PROVIDES.get().cast(),
    requires: REQUIRES.get().cast(),
    metadata: FACTS.get().cast(),
    init: Some(entry::init),
    deinit: Some(entry::deinit),
});

/// Returns the one component of this library.
#[unsafe(no_mangle)]
#[allow(private_interfaces)] // the server reads it by its C layout
pub(crate) extern "C" fn list_components() -> *mut Component {
    COMPONENT.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn tables_have_as_many_functions_as_the_services() {
        let functions = |len: usize| len / size_of::<usize>();
        assert_eq!(functions(size_of::<Aes>()), 3);
        assert_eq!(functions(size_of::<Pairs>()), 6);
        assert_eq!(functions(size_of::<ReaderWithStatus>()), 4);
        assert_eq!(functions(size_of::<Writer>()), 2);
        assert_eq!(functions(size_of::<Component>()), 6);
    }
}
