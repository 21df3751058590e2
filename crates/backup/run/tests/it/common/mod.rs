//! Shared by the tests: databases, keys without RSA, backups in one call.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tdekit_backup_run::{
    BackupJob, BackupOutcome, DatabaseSource, Encryption, FileSink, FileTarget, Labels, Layout,
    Media, Mode, Recipient, RestoreOutcome, Run, RunError, Sign, Source, StreamSource, Target,
    UnwrapSecret, WrapSecret, backup,
};
use tdekit_key_crypto::{Algorithm, KeyType, PrivateKey, SecretBytes, x509};
use tdekit_key_store::{StoreError, WrapMechanism, WrappedDek};

/// A certificate whose wrapping only flips bits.
#[derive(Debug, Clone, Copy)]
pub struct Key(pub u8);

impl Key {
    fn turn(self, secret: &[u8]) -> Vec<u8> {
        secret.iter().map(|byte| byte ^ self.0).collect()
    }
}

impl WrapSecret for Key {
    fn wrap_secret(&self, secret: &SecretBytes) -> Result<Vec<Recipient>, StoreError> {
        let wrapped = WrappedDek {
            mechanism: WrapMechanism::RsaOaepSha256,
            sha256: [self.0; 32],
            sha1: [self.0; 20],
            public_key_sha256: [self.0; 32],
            blob: self.turn(secret.expose()),
        };
        Ok(vec![Recipient { name: format!("Cert{}", self.0), wrapped }])
    }
}

impl UnwrapSecret for Key {
    fn unwrap_secret(&self, wrapped: &[WrappedDek]) -> Result<SecretBytes, StoreError> {
        let mine = wrapped.iter().find(|wrapped| wrapped.sha1 == [self.0; 20]);
        match mine {
            Some(wrapped) => Ok(SecretBytes::from_slice(&self.turn(&wrapped.blob))?),
            None => Err(StoreError::CertificateMissing {
                wanted: wrapped.iter().map(WrappedDek::thumbprint).collect(),
            }),
        }
    }
}

/// Several recipients at once.
pub struct Keys(pub Vec<Key>);

impl WrapSecret for Keys {
    fn wrap_secret(&self, secret: &SecretBytes) -> Result<Vec<Recipient>, StoreError> {
        let each = self.0.iter().map(|key| key.wrap_secret(secret));
        Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

/// Signs with a key of its own.
pub struct Signer(PrivateKey, pub Vec<u8>);

impl Signer {
    pub fn new() -> Self {
        let key = PrivateKey::generate(KeyType::Rsa3072).unwrap();
        let der = x509::self_signed(&key, "Signer", 0, 4_000_000_000).unwrap();
        Self(key, der)
    }
}

impl Sign for Signer {
    fn certificate_der(&self) -> &[u8] {
        &self.1
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, StoreError> {
        Ok(self.0.sign(message)?)
    }
}

pub const KEY: Key = Key(0x5A);

/// Two tables whose sums are equal at each commit.
pub const SCHEMA: &str = "CREATE TABLE a(id INTEGER PRIMARY KEY, n INTEGER, pad BLOB);
     CREATE TABLE b(id INTEGER PRIMARY KEY, n INTEGER, pad BLOB);";

pub struct Dir(pub tempfile::TempDir);

impl Dir {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Names of all files, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Makes a database with this page size and journal mode, and rows in both tables.
pub fn database(path: &Path, page_size: u32, journal: &str, rows: u32) -> Connection {
    let db = Connection::open(path).unwrap();
    db.pragma_update(None, "page_size", page_size).unwrap();
    let mode: String =
        db.query_row(&format!("PRAGMA journal_mode={journal}"), [], |row| row.get(0)).unwrap();
    assert_eq!(mode, journal);
    db.execute_batch(SCHEMA).unwrap();
    add_rows(&db, rows);
    db
}

pub fn add_rows(db: &Connection, rows: u32) {
    db.execute_batch("BEGIN").unwrap();
    for n in 0..rows {
        let pad = vec![n.to_le_bytes()[0]; 100 + (n as usize * 37) % 900];
        for table in ["a", "b"] {
            let sql = format!("INSERT INTO {table}(n, pad) VALUES(?1, ?2)");
            db.prepare_cached(&sql).unwrap().execute((n, &pad)).unwrap();
        }
    }
    db.execute_batch("COMMIT").unwrap();
}

/// Returns row counts and sums; panics if the database is not whole.
pub fn state(path: &Path) -> (i64, i64, i64, i64) {
    let db = Connection::open(path).unwrap();
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok", "{}", path.display());
    let sql = "SELECT (SELECT count(*) FROM a), (SELECT ifnull(sum(n),0) FROM a),
                      (SELECT count(*) FROM b), (SELECT ifnull(sum(n),0) FROM b)";
    db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap()
}

pub fn source(path: &Path) -> Source {
    Source::Database(DatabaseSource {
        connection: Connection::open(path).unwrap(),
        path: path.to_path_buf(),
        encrypted_file_id: None,
    })
}

pub fn stream(bytes: &[u8]) -> Source {
    Source::Stream(StreamSource { reader: Box::new(std::io::Cursor::new(bytes.to_vec())) })
}

pub fn encryption() -> Option<Encryption<'static>> {
    Some(Encryption { algorithm: Algorithm::Aes256, recipients: &KEY })
}

/// Makes an encrypted backup of a database.
pub fn job(path: &Path) -> BackupJob<'static> {
    let labels = Labels {
        database_name: "main".to_owned(),
        path: path.display().to_string(),
        ..Labels::default()
    };
    BackupJob {
        encryption: encryption(),
        base_keys: Some(&KEY),
        mode: Mode::Append,
        labels,
        ..BackupJob::new(source(path))
    }
}

pub fn targets(paths: &[&Path]) -> Vec<Box<dyn Target>> {
    paths.iter().map(|path| Box::new(FileTarget::new(*path)) as Box<dyn Target>).collect()
}

pub fn back_up(job: BackupJob<'_>, paths: &[&Path]) -> Result<BackupOutcome, RunError> {
    backup(job, targets(paths), &Run::default())
}

pub fn striped(job: BackupJob<'_>) -> BackupJob<'_> {
    BackupJob { layout: Layout::Stripes, ..job }
}

pub fn open(paths: &[&Path]) -> Result<Media, RunError> {
    Media::open_files(&paths.iter().map(|path| path.to_path_buf()).collect::<Vec<_>>())
}

/// Restores a database to a file that does not exist yet.
pub fn restore(
    media: &Media,
    position: Option<u32>,
    to: &Path,
) -> Result<RestoreOutcome, RunError> {
    let mut sink = FileSink::new(to, false)?;
    media.restore_database(position, Some(&KEY), &mut sink, &Run::default())
}

/// Returns the bytes of a stream.
pub fn restore_bytes(media: &Media, position: Option<u32>) -> Result<Vec<u8>, RunError> {
    let mut out = Vec::new();
    media.restore_stream(position, Some(&KEY), &mut out, &Run::default())?;
    Ok(out)
}
