//! Secrets that a program gives for a database: a connection that is opened while one is held has
//! its key store opened by it, and not by the environment or the store's configuration.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tdekit_key_store::{KeyStore, SecretBytes, StoreError, Unlock, default_dir};

use crate::VfsError;
use crate::keyring::Keyring;

/// What opens the key store of a database.
#[derive(Clone, Copy)]
pub enum Secret<'a> {
    /// A password.
    Password(&'a [u8]),
    /// A file whose first line is the password.
    PasswordFile(&'a Path),
    /// A file whose bytes are the key.
    KeyFile(&'a Path),
}

/// The secret for a database, which counts for connections that are opened until this is dropped.
/// What they have opened stays open.
pub struct Given {
    id: u64,
    database: Database,
}

/// A database as a connection names it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Database {
    path: PathBuf,
    /// The key store's directory in its URI.
    home: Option<OsString>,
}

struct Entry {
    id: u64,
    database: Database,
    ring: Arc<Keyring>,
}

static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// Opens the key store of the database `name` by `secret`, and holds it for its connections. The
/// name is a path, or a URI in which `tdekit_home` may name the key store.
///
/// # Errors
/// `Store` with the key store's reason; also when the directory of the database is not there.
pub fn give(name: &OsStr, secret: Secret<'_>) -> Result<Given, VfsError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let database = Database::named(name)?;
    let dir = database.home.as_ref().map_or_else(default_dir, |home| Ok(PathBuf::from(home)))?;
    let unlocked = KeyStore::open(&dir)?.unlock(&unlock_by(secret)?)?;
    let dir = dir.canonicalize().map_err(|source| not_found(&dir, source))?;
    let ring = Keyring::of_given(dir, Arc::new(unlocked));
    let id = COUNT.fetch_add(1, Ordering::Relaxed);
    entries().push(Entry { id, database: database.clone(), ring });
    Ok(Given { id, database })
}

/// Returns the keyring of the secret that is held for the main file `path`, last given first.
pub(crate) fn keyring(path: &Path, home: Option<&str>) -> Option<Arc<Keyring>> {
    let entries = entries();
    if entries.is_empty() {
        return None;
    }
    let database = Database { path: found(path).ok()?, home: home.map(OsString::from) };
    let entry = entries.iter().rev().find(|entry| entry.database == database)?;
    Some(entry.ring.clone())
}

impl Database {
    /// Reads a name as SQLite does: one that begins with `file:` is a URI.
    fn named(name: &OsStr) -> Result<Self, VfsError> {
        let Some(uri) = name.as_bytes().strip_prefix(b"file:") else {
            return Ok(Self { path: found(Path::new(name))?, home: None });
        };
        let uri = uri.split(|byte| *byte == b'#').next().unwrap_or_default();
        let (path, query) = split_at(uri, b'?');
        let path = match path.strip_prefix(b"//") {
            // The authority, which is empty or `localhost`.
            Some(path) => path.iter().position(|byte| *byte == b'/').map_or(path, |at| &path[at..]),
            None => path,
        };
        let mut parameters = query.split(|byte| *byte == b'&').map(|each| split_at(each, b'='));
        let home = parameters.find(|(key, _)| *key == b"tdekit_home");
        let home = home.map(|(_, value)| unescaped(value));
        Ok(Self { path: found(Path::new(&unescaped(path)))?, home })
    }
}

impl Given {
    /// Returns true if both are for the same database.
    pub(crate) fn is_for_the_same(&self, other: &Self) -> bool {
        self.database == other.database
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        entries().retain(|entry| entry.id != self.id);
    }
}

fn entries() -> MutexGuard<'static, Vec<Entry>> {
    // The list is consistent after every call, so a panic elsewhere leaves it usable.
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the path by which SQLite opens the file, which may not exist yet: without links.
fn found(path: &Path) -> Result<PathBuf, StoreError> {
    let in_directory = || {
        let name = path.file_name().ok_or(std::io::ErrorKind::InvalidInput)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok(directory.unwrap_or(Path::new(".")).canonicalize()?.join(name))
    };
    let whole = path.canonicalize().or_else(|_| in_directory());
    whole.map_err(|source| not_found(path, source))
}

fn not_found(path: &Path, source: std::io::Error) -> StoreError {
    StoreError::Io { action: "find", path: path.to_owned(), source }
}

fn split_at(text: &[u8], separator: u8) -> (&[u8], &[u8]) {
    let mut parts = text.splitn(2, |byte| *byte == separator);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// Replaces the escapes of a URI: `%` and two hexadecimal digits.
fn unescaped(text: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let mut byte = [0];
        let digits = after.get(..2).filter(|_| *first == b'%');
        match digits.map(|digits| hex::decode_to_slice(digits, &mut byte)) {
            Some(Ok(())) => (plain.push(byte[0]), rest = &after[2..]),
            _ => (plain.push(*first), rest = after),
        };
    }
    OsString::from_vec(plain)
}

fn unlock_by(secret: Secret<'_>) -> Result<Unlock, StoreError> {
    Ok(match secret {
        Secret::Password(password) => Unlock::Password(SecretBytes::from_slice(password)?),
        Secret::PasswordFile(path) => Unlock::PasswordFile(path.to_owned()),
        Secret::KeyFile(path) => Unlock::KeyFile(path.to_owned()),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_sqlite_does() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let whole = |text: &str| text.replace('@', dir.to_str().unwrap());
        let at = |text: &str| Database::named(OsStr::new(&whole(text)));
        for (text, name, home) in [
            ("@/a.db", "a.db", None),
            ("@/a?tdekit_home=x", "a?tdekit_home=x", None),
            ("file:@/a.db", "a.db", None),
            ("file:@/a%20b.db?mode=ro&tdekit_home=/k%3d1&cache=x", "a b.db", Some("/k=1")),
            ("file://localhost@/a%2.db?x#tdekit_home=y", "a%2.db", None),
            ("file:///@/a.db?tdekit_home=k#x", "a.db", Some("k")),
        ] {
            let database = at(text).unwrap();
            assert_eq!(database.path, dir.join(name), "{text}");
            assert_eq!(database.home.as_deref(), home.map(OsStr::new), "{text}");
        }
        for text in ["", "@/none/a.db", "file:", "file:@/none/a.db"] {
            assert!(at(text).is_err(), "{text}");
        }
        std::os::unix::fs::symlink(dir.join("a.db"), dir.join("link")).unwrap();
        std::fs::write(dir.join("a.db"), "").unwrap();
        assert_eq!(at("@/link").unwrap().path, dir.join("a.db"));
    }
}
