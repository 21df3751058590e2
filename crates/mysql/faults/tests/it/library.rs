//! The library as a server calls it, by its C interface.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::ptr;

use libloading::Library;

use tdekit_faults_mysql::{Keys, library, plugins};

#[repr(C)]
struct Named {
    name: *const c_char,
    table: *const c_void,
}

#[repr(C)]
struct Component {
    name: *const c_char,
    provides: *const Named,
    requires: *const Named,
    metadata: *const Named,
    init: unsafe extern "C" fn() -> c_int,
    deinit: unsafe extern "C" fn() -> c_int,
}

type Handle = *mut c_void;

#[repr(C)]
struct Reader {
    init: unsafe extern "C" fn(*const c_char, *const c_char, *mut Handle) -> c_int,
    deinit: unsafe extern "C" fn(Handle) -> c_int,
    fetch_length: unsafe extern "C" fn(Handle, *mut usize, *mut usize) -> c_int,
    fetch: unsafe extern "C" fn(
        Handle,
        *mut c_uchar,
        usize,
        *mut usize,
        *mut c_char,
        usize,
        *mut usize,
    ) -> c_int,
}

#[repr(C)]
struct Writer {
    store: unsafe extern "C" fn(
        *const c_char,
        *const c_char,
        *const c_uchar,
        usize,
        *const c_char,
    ) -> c_int,
    remove: unsafe extern "C" fn(*const c_char, *const c_char) -> c_int,
}

#[repr(C)]
struct Pairs {
    init: unsafe extern "C" fn(*mut Handle) -> c_int,
    deinit: unsafe extern "C" fn(Handle) -> c_int,
    is_valid: unsafe extern "C" fn(Handle) -> c_int,
    next: unsafe extern "C" fn(Handle) -> c_int,
    get_length: unsafe extern "C" fn(Handle, *mut usize, *mut usize) -> c_int,
    get: unsafe extern "C" fn(Handle, *mut c_char, usize, *mut c_char, usize) -> c_int,
}

type Generate = unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, usize) -> c_int;
type Load = unsafe extern "C" fn(*const c_char, *const c_char) -> c_int;
type IsInitialized = unsafe extern "C" fn() -> c_int;
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
) -> c_int;

#[repr(C)]
struct Aes {
    get_size: unsafe extern "C" fn(usize, *const c_char, usize, *mut usize) -> c_int,
    encrypt: Cipher,
    decrypt: Cipher,
}

struct Loaded {
    component: *const Component,
    _library: Library,
}

impl Loaded {
    fn new() -> Self {
        // SAFETY: the library's constructors do nothing that this process must not do.
        let library = unsafe { Library::new(library()).unwrap() };
        // SAFETY: the function has this type in every component.
        let component = unsafe {
            library.get::<unsafe extern "C" fn() -> *const Component>(b"list_components").unwrap()()
        };
        Self { component, _library: library }
    }

    fn component(&self) -> &Component {
        // SAFETY: it is static in the library, which is loaded as long as `self` lives.
        unsafe { &*self.component }
    }

    /// The table of a service, or the one function that it has.
    fn service<T>(&self, name: &str) -> &T {
        let wanted = format!("{name}.component_keyring_tdekit");
        for at in 0.. {
            // SAFETY: the list ends with a null name.
            let entry = unsafe { &*self.component().provides.add(at) };
            assert!(!entry.name.is_null(), "{name} is provided");
            // SAFETY: a terminated string.
            if unsafe { CStr::from_ptr(entry.name) }.to_str() == Ok(wanted.as_str()) {
                // SAFETY: the table of this service.
                return unsafe { &*entry.table.cast::<T>() };
            }
        }
        unreachable!()
    }
}

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn read(reader: &Reader, id: &str, owner: Option<&str>) -> Option<(Vec<u8>, String)> {
    let (id, owner) = (c(id), owner.map(c));
    let owner = owner.as_ref().map_or(ptr::null(), |owner| owner.as_ptr());
    let (mut handle, mut len, mut kind_len) = (ptr::null_mut(), 0, 0);
    // SAFETY: all pointers are to values on this stack.
    unsafe {
        assert_eq!((reader.init)(id.as_ptr(), owner, &raw mut handle), 0);
        if handle.is_null() {
            return None;
        }
        assert_eq!((reader.fetch_length)(handle, &raw mut len, &raw mut kind_len), 0);
        let (mut bytes, mut kind) = (vec![1; len], vec![1; kind_len + 1]);
        let kind_at = kind.as_mut_ptr().cast();
        // A buffer that is too small is refused and not touched.
        if len > 0 {
            let short = (reader.fetch)(
                handle,
                bytes.as_mut_ptr(),
                len - 1,
                &raw mut len,
                kind_at,
                kind.len(),
                &raw mut kind_len,
            );
            assert!(short != 0 && bytes.iter().all(|byte| *byte == 1));
        }
        let at = bytes.as_mut_ptr();
        let (room, kind_room) = (bytes.len(), kind.len());
        let fetched =
            (reader.fetch)(handle, at, room, &raw mut len, kind_at, kind_room, &raw mut kind_len);
        assert_eq!((fetched, (reader.deinit)(handle)), (0, 0));
        assert_eq!(kind.pop(), Some(0), "the kind is terminated");
        Some((bytes, String::from_utf8(kind).unwrap()))
    }
}

fn listed(pairs: &Pairs, ends: usize) -> Vec<(String, String)> {
    let (mut handle, mut all) = (ptr::null_mut(), Vec::new());
    // SAFETY: all pointers are to values on this stack.
    unsafe {
        assert_eq!((pairs.init)(&raw mut handle), 0);
        while (pairs.is_valid)(handle) != 0 {
            let (mut one, mut other) = (0, 0);
            assert_eq!((pairs.get_length)(handle, &raw mut one, &raw mut other), 0);
            let (mut first, mut second) = (vec![1u8; one + ends], vec![1u8; other + ends]);
            let (at, second_at) = (first.as_mut_ptr().cast(), second.as_mut_ptr().cast());
            let short = (pairs.get)(handle, at, first.len() - 1, second_at, second.len());
            assert_ne!(short, 0);
            assert_eq!((pairs.get)(handle, at, first.len(), second_at, second.len()), 0);
            let text = |bytes: &[u8]| {
                CStr::from_bytes_with_nul(bytes).unwrap().to_str().unwrap().to_owned()
            };
            all.push((text(&first), text(&second)));
            assert_eq!((pairs.next)(handle), 0);
        }
        assert_ne!((pairs.next)(handle), 0, "there is nothing behind the end");
        assert_eq!((pairs.deinit)(handle), 0);
    }
    all
}

/// One test, because the library has one keyring for its process.
#[test]
fn the_services_do_what_the_server_asks_and_refuse_the_rest() {
    let place = tempfile::tempdir().unwrap();
    let keys = Keys::make(place.path(), "home");
    let plugins = plugins(&place.path().join("plugins"), &keys.config());
    let data = place.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let loaded = Loaded::new();
    let component = loaded.component();
    // SAFETY: the component's own functions, called as a server does, with terminated strings and
    // with pointers to values on this stack.
    unsafe {
        assert_eq!(CStr::from_ptr(component.name).to_str(), Ok("component_keyring_tdekit"));
        assert!((*component.requires).name.is_null() && !(*component.metadata).name.is_null());
        let reader: &Reader = loaded.service("keyring_reader_with_status");
        let writer: &Writer = loaded.service("keyring_writer");
        let generate: Generate = *loaded.service("keyring_generator");
        let load: Load = *loaded.service("keyring_load");
        let is_initialized: IsInitialized = *loaded.service("keyring_component_status");
        let names: &Pairs = loaded.service("keyring_keys_metadata_iterator");
        let facts: &Pairs = loaded.service("keyring_component_metadata_query");
        assert_eq!(((component.init)(), is_initialized()), (0, 0));

        // Before it is loaded, nothing works, and nothing fails badly.
        let mut handle = ptr::null_mut();
        let (id, aes) = (c("k"), c("AES"));
        assert_ne!((reader.init)(id.as_ptr(), ptr::null(), &raw mut handle), 0);
        assert_ne!(generate(id.as_ptr(), ptr::null(), aes.as_ptr(), 32), 0);
        assert_ne!((names.init)(&raw mut handle), 0);
        assert!(listed(facts, 0).contains(&("Component_status".into(), "Disabled".into())));

        let (plugins, data) = (c(plugins.to_str().unwrap()), c(data.to_str().unwrap()));
        assert_eq!((load(plugins.as_ptr(), data.as_ptr()), is_initialized()), (0, 1));
        assert!(listed(facts, 0).contains(&("Component_status".into(), "Active".into())));
        assert_eq!((read(reader, "k", None), listed(names, 1)), (None, Vec::new()));

        assert_eq!(generate(id.as_ptr(), ptr::null(), aes.as_ptr(), 32), 0);
        assert_ne!(generate(id.as_ptr(), ptr::null(), aes.as_ptr(), 32), 0, "it is there");
        let (made, kind) = read(reader, "k", None).unwrap();
        assert_eq!((made.len(), kind.as_str()), (32, "AES"));
        let (owner, secret) = (c("ann@localhost"), c("SECRET"));
        let bytes = [7; 100];
        let stored = |id: &CString, len| {
            (writer.store)(id.as_ptr(), owner.as_ptr(), bytes.as_ptr(), len, secret.as_ptr())
        };
        assert_eq!((stored(&id, 100), stored(&c("leer"), 0)), (0, 0));
        assert_eq!(read(reader, "k", Some("ann@localhost")), Some((vec![7; 100], "SECRET".into())));
        assert!(read(reader, "leer", Some("ann@localhost")).unwrap().0.is_empty());
        assert_eq!(read(reader, "k", Some("bob@localhost")), None);
        let all = [("k", ""), ("k", "ann@localhost"), ("leer", "ann@localhost")];
        let all = all.map(|(id, owner)| (id.to_owned(), owner.to_owned()));
        assert_eq!(listed(names, 1), all);

        refused(&loaded);
        ciphers(&loaded);

        assert_eq!((writer.remove)(c("leer").as_ptr(), owner.as_ptr()), 0);
        assert_eq!((writer.remove)(c("leer").as_ptr(), owner.as_ptr()), 0, "as documented");
        assert_eq!(listed(names, 1).len(), 2);
        assert_eq!(load(plugins.as_ptr(), data.as_ptr()), 0);
        assert_eq!(read(reader, "k", None), Some((made, "AES".into())));

        // A reload that fails leaves what is open.
        let good = std::fs::read(keys.stored()).unwrap();
        std::fs::write(keys.stored(), &good[1..]).unwrap();
        assert_ne!(load(plugins.as_ptr(), data.as_ptr()), 0);
        std::fs::remove_file(keys.stored()).unwrap();
        assert_ne!(load(plugins.as_ptr(), data.as_ptr()), 0);
        assert_ne!(generate(c("n").as_ptr(), ptr::null(), aes.as_ptr(), 32), 0);
        assert!(!keys.stored().exists(), "keys that are gone are not begun anew");
        assert!(is_initialized() == 1 && read(reader, "k", None).is_some());
        std::fs::write(keys.stored(), &good).unwrap();
        assert_eq!(generate(c("n").as_ptr(), ptr::null(), aes.as_ptr(), 32), 0);
        // An older state with a signature that holds.
        std::fs::write(keys.stored(), good).unwrap();
        assert_ne!(generate(c("o").as_ptr(), ptr::null(), aes.as_ptr(), 32), 0);
        assert!(read(reader, "n", None).is_some());
        assert_eq!((component.deinit)(), 0);
    }
}

/// Arguments that no server passes.
fn refused(loaded: &Loaded) {
    let reader: &Reader = loaded.service("keyring_reader_with_status");
    let writer: &Writer = loaded.service("keyring_writer");
    let generate: Generate = *loaded.service("keyring_generator");
    let names: &Pairs = loaded.service("keyring_keys_metadata_iterator");
    let (id, aes, empty) = (c("new"), c("AES"), c(""));
    let not_utf8 = c"\xff";
    let mut handle = ptr::null_mut();
    let mut len = 0;
    // SAFETY: null where the interface has pointers is what is tested; the rest is valid.
    unsafe {
        assert_ne!((reader.init)(ptr::null(), ptr::null(), &raw mut handle), 0);
        assert_ne!((reader.init)(id.as_ptr(), ptr::null(), ptr::null_mut()), 0);
        assert_ne!((reader.init)(not_utf8.as_ptr(), ptr::null(), &raw mut handle), 0);
        assert_ne!((reader.fetch_length)(ptr::null_mut(), &raw mut len, &raw mut len), 0);
        assert_eq!((reader.deinit)(ptr::null_mut()), 0);
        let data = [1; 16385];
        let store = |id, len| (writer.store)(id, ptr::null(), data.as_ptr(), len, aes.as_ptr());
        assert_ne!(store(ptr::null(), 1), 0);
        assert_ne!(store(empty.as_ptr(), 1), 0);
        assert_ne!(store(id.as_ptr(), data.len()), 0);
        assert_ne!(generate(id.as_ptr(), ptr::null(), aes.as_ptr(), usize::MAX), 0);
        assert_ne!((writer.remove)(ptr::null(), ptr::null()), 0);
        assert_eq!((names.is_valid)(ptr::null_mut()), 0);
        assert_ne!((names.next)(ptr::null_mut()), 0);
        assert_ne!((names.get_length)(ptr::null_mut(), &raw mut len, &raw mut len), 0);
        assert_ne!((names.init)(ptr::null_mut()), 0);
    }
    assert_eq!(read(reader, "new", None), None);
}

fn ciphers(loaded: &Loaded) {
    let aes: &Aes = loaded.service("keyring_aes");
    let (id, owner) = (c("k"), c("ann@localhost"));
    let text = b"Quick brown fox";
    let iv = [9; 16];
    for (mode, len) in [("cbc", 16), ("cfb1", 15), ("cfb8", 15), ("cfb128", 15), ("ofb", 15)] {
        let mode = c(mode);
        let mut size = 0;
        // SAFETY: all pointers are to values on this stack.
        unsafe {
            assert_eq!((aes.get_size)(text.len(), mode.as_ptr(), 256, &raw mut size), 0);
            assert_eq!(size, len);
            let (mut sealed, mut opened) = (vec![0; size], vec![0; size]);
            let cipher =
                |by: Cipher, id: &CString, owner: *const c_char, from: &[u8], to: &mut [u8]| {
                    let mut done = 0;
                    let (from_at, to_at) = (from.as_ptr(), to.as_mut_ptr());
                    let status = by(
                        id.as_ptr(),
                        owner,
                        mode.as_ptr(),
                        256,
                        iv.as_ptr(),
                        1,
                        from_at,
                        from.len(),
                        to_at,
                        to.len(),
                        &raw mut done,
                    );
                    (status, done)
                };
            let done = cipher(aes.encrypt, &id, ptr::null(), text, &mut sealed);
            assert_eq!(done, (0, len));
            assert_ne!(&sealed[..15], text);
            let done = cipher(aes.decrypt, &id, ptr::null(), &sealed, &mut opened);
            assert_eq!((done, &opened[..15]), ((0, 15), &text[..]));
            // A key that is not of AES, one that is not there, a buffer that is too small.
            let is_refused = |(status, _)| status != 0;
            assert!(is_refused(cipher(aes.encrypt, &id, owner.as_ptr(), text, &mut sealed)));
            assert!(is_refused(cipher(aes.encrypt, &c("none"), ptr::null(), text, &mut sealed)));
            assert!(is_refused(cipher(aes.encrypt, &id, ptr::null(), text, &mut sealed[..14])));
        }
    }
    let (mut size, ecb, cbc) = (0, c("ecb"), c("cbc"));
    // SAFETY: as above.
    unsafe {
        assert_ne!((aes.get_size)(1, ecb.as_ptr(), 256, &raw mut size), 0);
        assert_ne!((aes.get_size)(1, cbc.as_ptr(), 128, &raw mut size), 0);
        assert_ne!((aes.get_size)(1, ptr::null(), 256, &raw mut size), 0);
    }
}
