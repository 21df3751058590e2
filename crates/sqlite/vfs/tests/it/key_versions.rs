//! A new version of a database's key, under connections that were open before it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::support::{CERTIFICATE, create, home, one, open};
use rusqlite::{Connection, ErrorCode};
use tdekit_key_crypto::SecretBytes;
use tdekit_key_store::{KeyStore, NewCertificate, PasswordParams, Unlock, WrappedDek, now_seconds};
use tdekit_sqlite::keyring::open_header;
use tdekit_sqlite_page::header::commitment;
use tdekit_sqlite_page::keys::DEK_LEN;
use tdekit_sqlite_page::{DekEntry, HEADER_AREA_LEN, Header, SLOT_LEN};
use tempfile::TempDir;

const PAGE_LEN: usize = 4096;
/// Offset of a page's key version (docs/format/page.md).
const VERSION_AT: usize = PAGE_LEN - 8;

/// Returns the file at `path`, which stays open: closing it would drop SQLite's locks.
fn descriptor(path: &Path) -> &'static File {
    Box::leak(Box::new(OpenOptions::new().read(true).write(true).open(path).unwrap()))
}

fn area_of(file: &File) -> Vec<u8> {
    let mut area = vec![0; usize::try_from(HEADER_AREA_LEN).unwrap()];
    file.read_exact_at(&mut area, 0).unwrap();
    area
}

/// Wraps a key for the certificate of the store that the environment names.
fn wrap(dek: &SecretBytes) -> WrappedDek {
    KeyStore::open(&home().0).unwrap().wrap_dek(CERTIFICATE, dek).unwrap()
}

/// Gives the database another version of its key and makes it the current one, under SQLite's write
/// lock.
fn add_version(path: &Path, wrap: impl Fn(&SecretBytes) -> WrappedDek) {
    let db = open(path).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let file = descriptor(path);
    let opened = open_header(&area_of(file)).unwrap();
    let old = opened.header;
    let dek = SecretBytes::random(DEK_LEN).unwrap();
    let version = old.current + 1;
    let mut deks = old.deks.clone();
    deks.push(DekEntry {
        version,
        created_unix_s: 1_700_000_000,
        algorithm: old.algorithm,
        commitment: commitment(&dek, &old.file_id, old.algorithm).unwrap(),
        recipients: vec![wrap(&dek).encode().unwrap()],
    });
    // Slot 1 is in force in a new database.
    for (slot, later) in [(0, 1), (1, 2)] {
        let header = Header {
            sequence: old.sequence + later,
            current: version,
            deks: deks.clone(),
            ..old.clone()
        };
        file.write_all_at(&header.encode_slot(&dek).unwrap(), slot * SLOT_LEN as u64).unwrap();
    }
    db.execute_batch("COMMIT").unwrap();
}

/// Returns the key versions of the sealed pages in a main file.
fn versions_in(path: &Path) -> Vec<u32> {
    let file = descriptor(path);
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let pages = bytes.get(usize::try_from(HEADER_AREA_LEN).unwrap()..).unwrap();
    let version =
        |page: &[u8]| u32::from_le_bytes(page[VERSION_AT..VERSION_AT + 4].try_into().unwrap());
    pages.chunks_exact(PAGE_LEN).map(version).collect()
}

fn rows(db: &Connection) -> i64 {
    one(db, "SELECT count(*) FROM t")
}

fn make(path: &Path, mode: &str) {
    let db = create(path);
    db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
    db.execute_batch(
        "CREATE TABLE t(x); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c \
         WHERE i < 100) INSERT INTO t SELECT randomblob(1000) FROM c",
    )
    .unwrap();
}

#[test]
fn connections_that_were_open_seal_under_the_new_version_and_read_it() {
    for mode in ["delete", "truncate", "persist", "wal"] {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("a.db");
        make(&path, mode);
        let (writer, reader) = (open(&path).unwrap(), open(&path).unwrap());
        writer.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
        writer.execute_batch("INSERT INTO t VALUES ('before')").unwrap();
        assert_eq!((rows(&writer), rows(&reader)), (101, 101), "{mode}");
        add_version(&path, wrap);
        for (n, added) in [(102, "first"), (103, "second")] {
            writer.execute("INSERT INTO t VALUES (?1)", [added]).unwrap();
            assert_eq!((rows(&writer), rows(&reader)), (n, n), "{mode}");
        }
        writer.execute_batch("BEGIN; UPDATE t SET x = zeroblob(900); ROLLBACK").unwrap();
        assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t WHERE x = zeroblob(900)"), 0);
        if mode == "wal" {
            assert_eq!(one::<i64>(&reader, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);
        }
        let versions = versions_in(&path);
        assert!(versions.contains(&1) && versions.contains(&2), "{mode}: {versions:?}");
        writer.execute_batch("VACUUM").unwrap();
        if mode == "wal" {
            assert_eq!(one::<i64>(&reader, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);
        }
        assert!(versions_in(&path).iter().all(|&version| version == 2), "{mode}");
        assert_eq!(one::<String>(&reader, "PRAGMA integrity_check"), "ok");
    }
}

/// Returns the path of a file beside a database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// Overwrites the file at `to` with the bytes of `from`.
fn overwrite(from: &Path, to: &Path) {
    fs::write(to, fs::read(from).unwrap()).unwrap();
}

/// A log or a journal that another process left, under a version that is newer than the connection:
/// an extent or frame that does not open must not be taken for its end.
#[test]
fn what_a_crash_left_under_a_later_version_is_recovered() {
    for (mode, suffix) in [("wal", "-wal"), ("delete", "-journal")] {
        let dir = TempDir::new().unwrap();
        let (live, path) = (dir.path().join("live.db"), dir.path().join("a.db"));
        make(&live, mode);
        fs::copy(&live, &path).unwrap();
        // It has read the header, and takes no lock before the files are replaced under it.
        let stale = open(&path).unwrap();
        add_version(&live, wrap);
        let writer = open(&live).unwrap();
        let expected = if mode == "wal" {
            writer
                .execute_batch("PRAGMA wal_autocheckpoint=0; DELETE FROM t WHERE rowid > 7")
                .unwrap();
            7
        } else {
            writer.execute_batch("PRAGMA cache_size=5; BEGIN; DELETE FROM t").unwrap();
            writer.execute_batch("INSERT INTO t VALUES (randomblob(200000))").unwrap();
            100
        };
        overwrite(&live, &path);
        fs::copy(beside(&live, suffix), beside(&path, suffix)).unwrap();
        assert_eq!(rows(&stale), expected, "{mode}");
        assert_eq!(one::<String>(&stale, "PRAGMA integrity_check"), "ok", "{mode}");
        assert_eq!(rows(&open(&path).unwrap()), expected, "{mode}");
    }
}

/// Pages under a version that was dropped in the meantime would open for nobody: a connection that
/// cannot open the current one writes nothing.
#[test]
fn who_cannot_open_the_current_version_does_not_write() {
    for mode in ["delete", "wal"] {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("a.db");
        make(&path, mode);
        let db = open(&path).unwrap();
        assert_eq!(rows(&db), 100);
        let file = descriptor(&path);
        let before = area_of(file);
        let key_file = dir.path().join("key");
        tdekit_key_store::generate_key_file(&key_file).unwrap();
        let (foreign, secret) = (dir.path().join("store"), Unlock::KeyFile(key_file));
        let mut store = KeyStore::create(&foreign, &secret, PasswordParams::default()).unwrap();
        let new = NewCertificate {
            name: "Foreign",
            subject: None,
            key_type: None,
            expires_at: now_seconds() + 86_400,
        };
        store.create_certificate(&new).unwrap();
        add_version(&path, |dek| store.wrap_dek("Foreign", dek).unwrap());
        let refused = db.execute_batch("INSERT INTO t VALUES (1)").unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::AuthorizationForStatementDenied));
        assert_eq!(rows(&db), 100, "{mode}: what was there can still be read");
        // The lock was released with the refusal.
        file.write_all_at(&before, 0).unwrap();
        open(&path).unwrap().execute_batch("INSERT INTO t VALUES (1)").unwrap();
        db.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        assert_eq!(rows(&db), 102, "{mode}");
    }
}
