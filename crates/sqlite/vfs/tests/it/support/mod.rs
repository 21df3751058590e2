//! A key store for each test process, connections through the VFS, and separate processes for tests
//! that change the state of a whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unsafe_code)]
#![allow(dead_code)]

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use rusqlite::Connection;
use rusqlite::ffi::{SQLITE_OK, SQLITE_OK_LOAD_PERMANENTLY, sqlite3, sqlite3_api_routines};
use tdekit_key_store::{KeyStore, NewCertificate, PasswordParams, Unlock};
use tempfile::TempDir;

pub(crate) const CERTIFICATE: &str = "TestCert";

static HOME: OnceLock<TempDir> = OnceLock::new();

/// Set in a process that runs a single test.
const ALONE: &str = "TDEKIT_TEST_ALONE";

/// Returns true if this process runs only `test`. In any other it runs the test in one, and checks
/// that it passes there. For tests that change all connections of a process.
pub(crate) fn alone(test: &str) -> bool {
    if is_alone() {
        return true;
    }
    let ended = run_alone(test);
    let said = String::from_utf8_lossy(&ended.stdout);
    let passed = ended.status.success() && said.contains("1 passed");
    assert!(passed, "{}: {said}{}", ended.status, String::from_utf8_lossy(&ended.stderr));
    false
}

/// Returns true if this process runs only one test.
pub(crate) fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Runs a test of this program, such as `register::NAME`, in a separate process.
pub(crate) fn run_alone(test: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
    command.output().unwrap()
}

/// Makes the key store and registers the VFS with the bundled library, once per process.
pub(crate) fn setup() {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    setup_unregistered();
    REGISTERED.get_or_init(|| drop(Connection::open_in_memory().unwrap()));
}

/// Makes the key store, and makes the next connection register the VFS.
pub(crate) fn setup_unregistered() {
    HOME.get_or_init(|| {
        let home = TempDir::new().unwrap();
        let key_file = home.path().join("key");
        tdekit_key_store::generate_key_file(&key_file).unwrap();
        let dir = home.path().join("store");
        let secret = Unlock::KeyFile(key_file.clone());
        let mut store = KeyStore::create(&dir, &secret, PasswordParams::default()).unwrap();
        store
            .create_certificate(&NewCertificate {
                name: CERTIFICATE,
                subject: None,
                key_type: None,
                expires_at: tdekit_key_store::now_seconds() + 86_400,
            })
            .unwrap();
        // SAFETY: every test calls this before it uses SQLite, and all other readers of the
        // environment are Rust code, whose lock this takes.
        unsafe {
            std::env::set_var("TDEKIT_HOME", &dir);
            std::env::set_var("TDEKIT_KEY_FILE", &key_file);
        }
        register();
        home
    });
}

/// Returns the directory of the key store, and the path of the key file.
pub(crate) fn home() -> (PathBuf, PathBuf) {
    setup();
    let home = HOME.get().unwrap().path();
    (home.join("store"), home.join("key"))
}

unsafe extern "C" fn init(
    db: *mut sqlite3,
    message: *mut *mut std::ffi::c_char,
    routines: *const sqlite3_api_routines,
) -> c_int {
    // SAFETY: SQLite calls this as an extension's entry point.
    let code =
        unsafe { tdekit_sqlite::sqlite3_extension_init(db.cast(), message, routines.cast()) };
    if code == SQLITE_OK_LOAD_PERMANENTLY { SQLITE_OK } else { code }
}

/// Makes the next connection load the extension.
pub(crate) fn register() {
    // SAFETY: `init` has the signature of an extension's entry point.
    let code = unsafe { rusqlite::ffi::sqlite3_auto_extension(Some(init)) };
    assert_eq!(code, SQLITE_OK);
}

/// Opens `path` by its ordinary name.
pub(crate) fn open(path: &Path) -> rusqlite::Result<Connection> {
    setup();
    Connection::open(path)
}

/// Makes a new encrypted database.
pub(crate) fn create(path: &Path) -> Connection {
    setup();
    create_with(path, "AES_256")
}

/// Makes a new encrypted database with `algorithm`.
pub(crate) fn create_with(path: &Path, algorithm: &str) -> Connection {
    setup();
    let uri = format!(
        "file:{}?tdekit_certificate={CERTIFICATE}&tdekit_algorithm={algorithm}",
        path.display()
    );
    Connection::open(uri).unwrap()
}

/// Returns the only column of the only row.
pub(crate) fn one<T: rusqlite::types::FromSql>(db: &Connection, sql: &str) -> T {
    db.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|e| panic!("{sql}: {e}"))
}
