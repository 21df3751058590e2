//! Loads the plugin as the server does, and calls it.
#![allow(dead_code, unreachable_pub, unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)]

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_void};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use libloading::Library;
use tdekit_key_store::{
    KeyStore, NewCertificate, PasswordParams, SecretBytes, Unlock, Unlocked, now_seconds,
};

pub const INVALID: u32 = u32::MAX;
pub const DECRYPT: i32 = 0;
pub const ENCRYPT: i32 = 1;
pub const NOPAD: i32 = 2;

/// `st_maria_plugin`, as in the header.
#[repr(C)]
pub struct Declaration {
    pub kind: c_int,
    pub info: *const Functions,
    pub name: *const c_char,
    pub author: *const c_char,
    pub description: *const c_char,
    pub license: c_int,
    pub init: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub deinit: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub version: c_uint,
    pub status: *const c_void,
    pub variables: *const *mut Variable,
    pub version_info: *const c_char,
    pub maturity: c_uint,
}

/// `st_mysql_sys_var` of a string.
#[repr(C)]
pub struct Variable {
    pub flags: c_int,
    pub name: *const c_char,
    pub comment: *const c_char,
    pub check: *const c_void,
    pub update: *const c_void,
    pub value: *mut *const c_char,
    pub default: *const c_char,
}

/// `st_mariadb_encryption`.
#[repr(C)]
pub struct Functions {
    pub interface_version: c_int,
    pub latest: unsafe extern "C" fn(c_uint) -> c_uint,
    pub key: unsafe extern "C" fn(c_uint, c_uint, *mut c_uchar, *mut c_uint) -> c_uint,
    pub size: unsafe extern "C" fn(c_uint, c_uint) -> c_uint,
    pub begin: unsafe extern "C" fn(
        *mut c_void,
        *const c_uchar,
        c_uint,
        *const c_uchar,
        c_uint,
        c_int,
        c_uint,
        c_uint,
    ) -> c_int,
    pub update: unsafe extern "C" fn(
        *mut c_void,
        *const c_uchar,
        c_uint,
        *mut c_uchar,
        *mut c_uint,
    ) -> c_int,
    pub finish: unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut c_uint) -> c_int,
    pub length: unsafe extern "C" fn(c_uint, c_uint, c_uint) -> c_uint,
}

/// Returns the library that was built with this test, or the one that `TDEKIT_MARIADB_PLUGIN`
/// names.
pub fn library_path() -> PathBuf {
    if let Some(named) = std::env::var_os("TDEKIT_MARIADB_PLUGIN") {
        return named.into();
    }
    let name = format!("{DLL_PREFIX}tdekit_mariadb{DLL_SUFFIX}");
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let places = [deps.join(&name), deps.parent().unwrap().join(&name)];
    places.into_iter().find(|path| path.is_file()).expect("the plugin was not built")
}

/// The plugin, loaded permanently, as by the server.
pub struct Plugin(&'static Library);

impl Plugin {
    pub fn load() -> Self {
        // SAFETY: the library has no constructors of its own.
        Self(Box::leak(Box::new(unsafe { Library::new(library_path()) }.unwrap())))
    }

    pub fn symbol<T>(&self, name: &[u8]) -> &'static T {
        // SAFETY: the caller names a static of this type, and the library is never unloaded.
        unsafe { &*self.0.get::<*const T>(name).unwrap().into_raw().cast::<T>() }
    }

    pub fn declaration(&self) -> &'static Declaration {
        self.symbol(b"_maria_plugin_declarations_\0")
    }

    /// Sets the options in `options` and initialises the plugin.
    pub fn init(&self, options: &[(&str, &Path)]) -> c_int {
        let declaration = self.declaration();
        for (name, value) in options {
            let mut at = declaration.variables;
            // SAFETY: the list ends with null; names are terminated, values are writable.
            unsafe {
                loop {
                    let variable = (*at).as_mut().expect("no such option");
                    if CStr::from_ptr(variable.name).to_str() == Ok(name) {
                        let value = CString::new(value.to_str().unwrap()).unwrap();
                        *variable.value = value.into_raw();
                        break;
                    }
                    at = at.add(1);
                }
            }
        }
        // SAFETY: the options were set.
        unsafe { declaration.init.unwrap()(std::ptr::null_mut()) }
    }

    pub fn functions(&self) -> &'static Functions {
        // SAFETY: an encryption plugin's descriptor is this table.
        unsafe { &*self.declaration().info }
    }
}

/// The arguments of the server's `encryption_crypt`.
#[derive(Debug, Clone)]
pub struct Crypt {
    pub key: Vec<u8>,
    pub iv: [u8; 16],
    pub flags: i32,
    pub id: u32,
    pub version: u32,
}

impl Functions {
    pub fn latest_version(&self, id: u32) -> u32 {
        // SAFETY: no precondition.
        unsafe { (self.latest)(id) }
    }

    pub fn get_key(&self, id: u32, version: u32) -> Result<Vec<u8>, u32> {
        let (mut key, mut len) = (vec![0; 32], 32);
        // SAFETY: the buffer has the length passed.
        match unsafe { (self.key)(id, version, key.as_mut_ptr(), &raw mut len) } {
            0 => Ok(key[..len as usize].to_vec()),
            code => Err(code),
        }
    }

    /// Processes one message in one piece, in a context at `shift` bytes from an aligned place.
    pub fn crypt_at(&self, shift: usize, call: &Crypt, input: &[u8]) -> Result<Vec<u8>, i32> {
        self.pieces(shift, call, &[input])
    }

    pub fn crypt(&self, call: &Crypt, input: &[u8]) -> Result<Vec<u8>, i32> {
        self.crypt_at(0, call, input)
    }

    pub fn pieces(&self, shift: usize, call: &Crypt, input: &[&[u8]]) -> Result<Vec<u8>, i32> {
        // SAFETY: each pointer comes from a buffer of the length passed; the context has the size
        // that the plugin asks for, after `shift` bytes.
        unsafe {
            let size = (self.size)(call.id, call.version) as usize;
            let mut memory = vec![0x5a_u8; shift + size + 8];
            let ctx = memory.as_mut_ptr().add(shift).cast::<c_void>();
            let (klen, flags) = (call.key.len() as u32, call.flags);
            let iv = call.iv.as_ptr();
            match (self.begin)(ctx, call.key.as_ptr(), klen, iv, 16, flags, call.id, call.version) {
                0 => {}
                code => return Err(code),
            }
            let mut output = Vec::new();
            for piece in input {
                let len = piece.len() as u32;
                let room = (self.length)(len, call.id, call.version) as usize;
                let mut part = vec![0xa5_u8; room + 8];
                // Callers leave the length uninitialised.
                let mut got = 0xdead_beef;
                let code = (self.update)(ctx, piece.as_ptr(), len, part.as_mut_ptr(), &raw mut got);
                if code != 0 {
                    let mut rest = 7;
                    (self.finish)(ctx, part.as_mut_ptr(), &raw mut rest);
                    assert_eq!((got, rest), (0, 0));
                    return Err(code);
                }
                assert_eq!(part[room..], [0xa5; 8], "written behind the output");
                output.extend_from_slice(&part[..got as usize]);
            }
            let (mut tail, mut rest) = ([0; 32], 7);
            assert_eq!((self.finish)(ctx, tail.as_mut_ptr(), &raw mut rest), 0);
            assert!(rest < 16, "{rest}");
            output.extend_from_slice(&tail[..rest as usize]);
            assert_eq!(memory[shift + size..], [0x5a; 8], "written behind the context");
            assert!(memory[..shift].iter().all(|byte| *byte == 0x5a));
            Ok(output)
        }
    }
}

/// Makes a key store with certificate `Server` and keys 1, 2 and 17, opened by the key file `key`.
pub fn make_store(dir: &Path) -> Unlocked {
    make_store_for(dir, 1)
}

/// As [`make_store`], with a certificate that is valid for this many days.
pub fn make_store_for(dir: &Path, days: i64) -> Unlocked {
    let key_file = dir.join("key");
    fs::write(&key_file, [9; 32]).unwrap();
    fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).unwrap();
    let cost = PasswordParams::new(8 * 1024, 1, 1).unwrap();
    let mut store = KeyStore::create(&dir.join("store"), &key_of(&key_file), cost).unwrap();
    let expires_at = now_seconds() + days * 86_400;
    let new = NewCertificate { name: "Server", subject: None, key_type: None, expires_at };
    store.create_certificate(&new).unwrap();
    for id in [1, 2, 17] {
        store.create_server_key(id, "Server", None).unwrap();
    }
    store
}

/// Returns the path of the fixture with this number.
pub fn fixture(number: u32) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures");
    root.join(number.to_string()).join("mariadb")
}

/// Copies the fixture's store, opened by the key file `key`.
pub fn copy_fixture(number: u32, dir: &Path) -> Unlocked {
    let (from, home, key_file) = (fixture(number), dir.join("store"), dir.join("key"));
    fs::create_dir(&home).unwrap();
    for name in ["keystore.tdk", "server-keys.json"] {
        fs::copy(from.join("store").join(name), home.join(name)).unwrap();
    }
    fs::copy(from.join("key"), &key_file).unwrap();
    fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).unwrap();
    open_store(dir)
}

/// Opens the store in `dir` with the key file beside it.
pub fn open_store(dir: &Path) -> Unlocked {
    KeyStore::open(&dir.join("store")).unwrap().unlock(&key_of(&dir.join("key"))).unwrap()
}

fn key_of(file: &Path) -> Unlock {
    let key = SecretBytes::from_slice(&fs::read(file).unwrap()).unwrap();
    Unlock::Key { key, origin: "test".into() }
}
