//! Registers the VFS `tdekit` on `crash`, with a key store for this process alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use tdekit_key_store::{
    KeyStore, NewCertificate, PasswordParams, Unlock, generate_key_file, now_seconds,
};

use super::{api, crash_vfs};
use crate::error::{Error, Result};

/// The certificate that new databases are encrypted for.
pub const CERTIFICATE: &str = "Faults";

const YEAR_S: i64 = 365 * 24 * 3600;

/// Registers the VFS, once per process. If `TDEKIT_HOME` already names a key store (another process
/// of the harness started this one), it is used; otherwise one is made and removed at exit.
///
/// # Errors
/// [`Error::Setup`] if the store cannot be made or SQLite refuses the VFS.
pub fn install() -> Result<()> {
    static DONE: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    DONE.get_or_init(|| register().map_err(|e| e.to_string())).clone().map_err(Error::Setup)
}

fn register() -> Result<()> {
    crash_vfs::install()?;
    if std::env::var_os("TDEKIT_HOME").is_none() {
        let home = make_store()?;
        // SAFETY: `install` runs this once, before any test of this process opens a database; other
        // threads that call it wait for it.
        unsafe {
            std::env::set_var("TDEKIT_HOME", &home);
            std::env::set_var("TDEKIT_KEY_FILE", home.join("key"));
            std::env::remove_var("TDEKIT_ENCRYPT_NEW");
        }
    }
    // SAFETY: as above.
    unsafe { std::env::set_var("TDEKIT_BASE_VFS", "crash") };
    let routines = api::routines()?;
    // SAFETY: a null connection is allowed: the entry point registers the VFS anyway. The table is
    // the library's own.
    let rc = unsafe {
        tdekit_sqlite::sqlite3_tdekitsqlite_init(ptr::null_mut(), ptr::null_mut(), routines.cast())
    };
    match rc & 0xff {
        // SQLITE_OK_LOAD_PERMANENTLY is 256.
        0 => Ok(()),
        rc => Err(Error::Setup(format!("tdekit's entry point returned {rc}"))),
    }
}

/// Makes the store, with its key in the file `key`, and returns its directory.
fn make_store() -> Result<PathBuf> {
    let setup = |e: tdekit_key_store::StoreError| Error::Setup(e.to_string());
    let directory = tempfile::Builder::new().prefix("tdekit-faults-").tempdir();
    let directory = directory.map_err(Error::io(Path::new("the key store's directory")))?;
    let home = directory.path().to_owned();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).map_err(Error::io(&home))?;
    let key = home.join("key");
    generate_key_file(&key).map_err(setup)?;
    let mut store =
        KeyStore::create(&home, &Unlock::KeyFile(key), PasswordParams::default()).map_err(setup)?;
    let certificate = NewCertificate {
        name: CERTIFICATE,
        subject: None,
        key_type: None,
        expires_at: now_seconds() + YEAR_S,
    };
    store.create_certificate(&certificate).map_err(setup)?;
    remove_at_exit(directory);
    Ok(home)
}

/// Statics are not dropped, so a handler of the C library removes the directory.
fn remove_at_exit(directory: tempfile::TempDir) {
    static KEPT: Mutex<Option<tempfile::TempDir>> = Mutex::new(None);
    extern "C" fn remove() {
        drop(KEPT.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(directory);
    // SAFETY: the handler takes no argument, does not unwind, and touches only its static.
    unsafe { libc::atexit(remove) };
}
