//! Databases for tests of the command, and connections that open them as an application does.
#![allow(dead_code, unreachable_pub, unsafe_code, clippy::unwrap_used, clippy::panic)]

use std::ffi::{c_char, c_int};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;
use rusqlite::ffi::{SQLITE_OK, SQLITE_OK_LOAD_PERMANENTLY, sqlite3, sqlite3_api_routines};
use tdekit_key_store::{KeyStore, SecretBytes, Unlock, Unlocked};

use crate::common::{Place, Run};

/// Contained in every row of [`fill`].
pub const MARKER: &str = "Zanzibar-Marker-4711";
pub const CERTIFICATES: [&str; 2] = ["AppCert", "Second"];

/// Returns the store of this process's connections, with [`CERTIFICATES`], backed up.
pub fn place() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = Place::with_store();
        for name in CERTIFICATES {
            place.ok(["cert", "create", name]);
            place.ok(["cert", "backup", name, "--pkcs12", &format!("{name}.p12")]);
        }
        place
    })
}

/// Makes directories below `within` whose path is longer than the system accepts: nobody can read
/// them by their path, not even root.
pub fn unreadable_below(within: &Path) {
    let script = "import os, sys
os.chdir(sys.argv[1])
for _ in range(20):
    os.mkdir('d' * 250)
    os.chdir('d' * 250)";
    let made = Command::new("python3").args(["-c", script]).arg(within).status().unwrap();
    assert!(made.success());
}

/// A directory for one test's databases.
pub struct Dir(pub tempfile::TempDir);

impl Dir {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        // The command prints resolved paths.
        fs::canonicalize(self.0.path()).unwrap().join(name)
    }

    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Returns the directory in which a run makes its file, or did until it was killed.
    pub fn work(&self) -> Option<PathBuf> {
        let mut names = self.names().into_iter();
        names.find(|name| name.starts_with("tdekit-new.")).map(|name| self.path(&name))
    }

    /// Returns the files with the marker, in any of SQLite's encodings.
    pub fn files_with_marker(&self) -> Vec<String> {
        let wide: Vec<u8> = MARKER.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = MARKER.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let has = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|w| w == text);
        let mut names = self.names();
        if let Some(work) = self.work() {
            let inner = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().path());
            let within = |path: PathBuf| path.strip_prefix(self.path("")).unwrap().to_owned();
            names.extend(inner.map(|path| within(path).to_string_lossy().into_owned()));
        }
        names.retain(|name| self.0.path().join(name).is_file());
        names.retain(|name| {
            let bytes = fs::read(self.0.path().join(name)).unwrap();
            [MARKER.as_bytes(), &wide, &big].into_iter().any(|text| has(&bytes, text))
        });
        names
    }
}

/// A small file system in a directory, which is unmounted on drop.
pub struct SmallDisk(pub PathBuf);

impl SmallDisk {
    /// Returns `None`, with a note, if this machine does not allow mounting one.
    pub fn mount(dir: &Dir, size: &str) -> Option<Self> {
        let disk = dir.path("disk");
        fs::create_dir(&disk).unwrap();
        let size = format!("size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&disk).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: cannot mount a small disk");
            return None;
        }
        Some(Self(disk))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Opens a plain or an encrypted database through the VFS, with the store of [`place`].
pub fn open(path: &Path) -> Connection {
    try_open(path).unwrap()
}

pub fn try_open(path: &Path) -> rusqlite::Result<Connection> {
    register();
    tdekit_sqlite::keyring::set_unlocked(Arc::new(unlocked()));
    Connection::open(path)
}

/// Returns the unlocked store of [`place`].
pub fn unlocked() -> Unlocked {
    let store = KeyStore::open(&place().home()).unwrap();
    let password = Unlock::Password(SecretBytes::from_slice(b"secret").unwrap());
    store.unlock(&password).unwrap()
}

/// Opens a plain database, without a store.
pub fn open_plain(path: &Path) -> Connection {
    assert!(is_plain(path));
    Connection::open(path).unwrap()
}

/// Makes a plain database.
pub fn create(path: &Path, sql: &str) -> Connection {
    register();
    let db = Connection::open(path).unwrap();
    db.execute_batch(sql).unwrap();
    db
}

/// Makes a plain database with `rows` rows that contain the marker.
pub fn fill(path: &Path, rows: u32) {
    let db = create(path, "");
    insert(&db, rows);
}

pub fn insert(db: &Connection, rows: u32) {
    db.execute_batch(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b BLOB); CREATE INDEX i ON t(a);
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {rows})
         INSERT INTO t SELECT x, '{MARKER} ' || x, randomblob(x % 300) FROM n"
    ))
    .unwrap();
}

/// Returns the only column of the only row.
pub fn one<T: rusqlite::types::FromSql>(db: &Connection, sql: &str) -> T {
    db.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Returns schema, settings and every row with its row number.
pub fn dump(db: &Connection) -> Vec<String> {
    let mut lines = Vec::new();
    for name in ["encoding", "user_version", "application_id", "auto_vacuum", "journal_mode"] {
        let value: rusqlite::types::Value =
            db.pragma_query_value(None, name, |row| row.get(0)).unwrap();
        lines.push(format!("{name} {value:?}"));
    }
    lines.extend(strings(
        db,
        "SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '')
         FROM sqlite_schema ORDER BY 1",
    ));
    let tables = strings(
        db,
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'shadow')
         AND name <> 'sqlite_schema' ORDER BY 1",
    );
    for table in tables {
        let has_rowid: bool =
            one(db, &format!("SELECT NOT wr FROM pragma_table_list WHERE name = '{table}'"));
        let quoted = table.replace('"', "\"\"");
        let columns = strings(
            db,
            &format!(
                "SELECT 'quote(\"' || replace(name, '\"', '\"\"') || '\")'
                 FROM pragma_table_xinfo('{table}') WHERE hidden IN (0, 3)"
            ),
        );
        let rowid = if has_rowid { "rowid || " } else { "" };
        lines.push(format!("== {table}"));
        lines.extend(strings(
            db,
            &format!(
                "SELECT {rowid}' ' || {} FROM \"{quoted}\" NOT INDEXED",
                columns.join(" || '|' || ")
            ),
        ));
    }
    lines
}

pub fn strings(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

pub fn is_plain(path: &Path) -> bool {
    fs::read(path).unwrap().starts_with(b"SQLite format 3\0")
}

pub fn is_encrypted(path: &Path) -> bool {
    fs::read(path).unwrap().starts_with(b"tdekit database\0")
}

/// Encrypts for the first certificate.
pub fn encrypt(path: &Path, more: &[&str]) -> Run {
    place().ok(encrypt_args(path, more))
}

/// Encrypts, which must fail with `code`; returns the message.
pub fn encrypt_fails(code: i32, path: &Path, more: &[&str]) -> String {
    place().fails(code, encrypt_args(path, more))
}

pub fn encrypt_args(path: &Path, more: &[&str]) -> Vec<std::ffi::OsString> {
    let mut args = vec!["encrypt".into(), path.as_os_str().to_owned()];
    args.extend(["--certificate", CERTIFICATES[0]].map(Into::into));
    args.extend(more.iter().map(Into::into));
    args
}

/// Runs a command on the database's path.
pub fn ok(command: &str, path: &Path) -> Run {
    place().ok([command.as_ref(), path.as_os_str()])
}

pub fn fails(code: i32, command: &str, path: &Path) -> String {
    place().fails(code, [command.as_ref(), path.as_os_str()])
}

fn register() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        // SAFETY: `init` has the signature of an extension's entry point.
        let code = unsafe { rusqlite::ffi::sqlite3_auto_extension(Some(init)) };
        assert_eq!(code, SQLITE_OK);
        drop(Connection::open_in_memory().unwrap());
    });
}

unsafe extern "C" fn init(
    db: *mut sqlite3,
    message: *mut *mut c_char,
    routines: *const sqlite3_api_routines,
) -> c_int {
    // SAFETY: SQLite calls this as an extension's entry point.
    let code =
        unsafe { tdekit_sqlite::sqlite3_extension_init(db.cast(), message, routines.cast()) };
    if code == SQLITE_OK_LOAD_PERMANENTLY { SQLITE_OK } else { code }
}
