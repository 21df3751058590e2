//! tempdb: a database file with a log, so that nobody who reads a global temporary table waits for
//! its writer. It is encrypted under a key store of its own, whose secret only this process has: it
//! ends with the server, and what a killed server leaves behind can be opened by nobody.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FlockOperation, flock};
use tdekit_key_crypto::{CryptoError, SecretBytes, random_bytes};
use tdekit_key_store::{KeyStore, NewCertificate, PasswordParams, Unlock};
use tdekit_sqlite::given::{Given, Secret, give};
use tdekit_sqlite_convert::file_uri;
use tdekit_wire_tsql::Error;

use super::fault;

/// The certificate of its key.
const CERTIFICATE: &str = "tempdb";
/// The cost of guessing the secret, which is random: the lowest (KiB, passes, lanes).
const COST: (u32, u32, u32) = (PasswordParams::MEMORY_KIB.0, 1, 1);
/// Days for which the certificate is valid, longer than any server runs.
const DAYS: i64 = 3650;
const SECRET_LEN: usize = 32;

/// The place of tempdb, which is made on its first use.
pub(crate) struct Tempdb {
    /// A new directory among the system's temporary files.
    dir: PathBuf,
    /// `None` before the first use.
    made: Mutex<Option<Made>>,
}

struct Made {
    /// Has the VFS open it.
    _given: Given,
    /// The directory, locked: those who clean up temporary files leave it alone
    /// (systemd-tmpfiles(8)).
    _dir: File,
}

impl Tempdb {
    /// # Errors
    /// Those of the system's random generator.
    pub(crate) fn new() -> io::Result<Self> {
        let mut id = [0; 16];
        random_bytes(&mut id).map_err(|error| io::Error::other(error.to_string()))?;
        let dir = std::env::temp_dir().join(format!("tdekit-tempdb.{}", hex::encode(id)));
        Ok(Self { dir, made: Mutex::new(None) })
    }

    /// Returns the name by which connections open it.
    pub(crate) fn uri(&self) -> String {
        let home = file_uri(&self.home());
        let home = home.trim_start_matches("file:");
        format!("{}?tdekit_home={home}", file_uri(&self.file()))
    }

    /// Makes it, unless it is there.
    ///
    /// # Errors
    /// If its files cannot be made, or were removed.
    pub(crate) fn make(&self) -> Result<(), Error> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.is_some() && !self.file().exists() {
            let detail = "was removed while the server runs: tempdb is there again after a restart";
            return Err(fault::own(format!("{} {detail}", self.dir.display())));
        }
        if made.is_none() {
            *made = Some(self.create().map_err(|reason| {
                let _ = fs::remove_dir_all(&self.dir);
                fault::own(format!("tempdb cannot be made in {}: {reason}", self.dir.display()))
            })?);
        }
        Ok(())
    }

    fn file(&self) -> PathBuf {
        self.dir.join("tempdb.db")
    }

    fn home(&self) -> PathBuf {
        self.dir.join("keys")
    }

    fn create(&self) -> Result<Made, String> {
        let dir = self.create_dir().map_err(|error| error.to_string())?;
        let secret = random_password().map_err(|error| error.to_string())?;
        make_store(&self.home(), &secret)?;
        let given = give(self.uri().as_ref(), Secret::Password(secret.expose()));
        let given = given.map_err(|error| error.to_string())?;
        make_database(&format!("{}&tdekit_certificate={CERTIFICATE}", self.uri()))
            .map_err(|error| error.to_string())?;
        Ok(Made { _given: given, _dir: dir })
    }

    fn create_dir(&self) -> io::Result<File> {
        DirBuilder::new().mode(0o700).create(&self.dir)?;
        let dir = File::open(&self.dir)?;
        flock(&dir, FlockOperation::LockShared)?;
        Ok(dir)
    }
}

impl Drop for Tempdb {
    fn drop(&mut self) {
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        if made.take().is_some() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn random_password() -> Result<SecretBytes, CryptoError> {
    let random = SecretBytes::random(SECRET_LEN)?;
    let mut text = SecretBytes::new_zeroed(2 * SECRET_LEN)?;
    // the lengths fit, and nothing else can fail
    let _ = hex::encode_to_slice(random.expose(), text.expose_mut());
    Ok(text)
}

fn make_store(home: &Path, secret: &SecretBytes) -> Result<(), String> {
    let (memory_kib, passes, lanes) = COST;
    let cost = PasswordParams::new(memory_kib, passes, lanes).map_err(|error| error.to_string())?;
    let secret = secret.try_clone().map_err(|error| error.to_string())?;
    let mut unlocked = KeyStore::create(home, &Unlock::Password(secret), cost)
        .map_err(|error| error.to_string())?;
    let expires_at = time::OffsetDateTime::now_utc().unix_timestamp() + DAYS * 86_400;
    let new = NewCertificate { name: CERTIFICATE, subject: None, key_type: None, expires_at };
    unlocked.create_certificate(&new).map(|_| ()).map_err(|error| error.to_string())
}

fn make_database(uri: &str) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let made = Connection::open_with_flags(uri, flags)?;
    made.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_file_is_encrypted_and_ends_with_it() {
        tdekit_sqlite_convert::register().unwrap();
        let tempdb = Tempdb::new().unwrap();
        tempdb.make().unwrap();
        tempdb.make().unwrap();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        let open = || Connection::open_with_flags(tempdb.uri(), flags).unwrap();
        let (one, two) = (open(), open());
        one.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES ('Zanzibar-Marker-4711')")
            .unwrap();
        let found: String = two.query_row("SELECT a FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(found, "Zanzibar-Marker-4711");
        for name in ["tempdb.db", "tempdb.db-wal"] {
            let bytes = fs::read(tempdb.dir.join(name)).unwrap();
            assert!(!bytes.is_empty() && !bytes.windows(8).any(|part| part == b"Zanzibar"));
        }
        drop((one, two));
        fs::rename(tempdb.dir.join("tempdb.db"), tempdb.dir.join("away")).unwrap();
        assert!(tempdb.make().is_err());
        let dir = tempdb.dir.clone();
        drop(tempdb);
        assert!(!dir.exists());
    }
}
