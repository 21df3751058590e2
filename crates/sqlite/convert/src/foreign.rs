//! Libraries of other programs that encrypt SQLite databases, and their ways to accept a key.

use std::path::{Path, PathBuf};

use rusqlite::ffi;
use tdekit_key_crypto::SecretBytes;
use tdekit_key_store::check_code_file;
use tdekit_sqlite_client::{Connection, Library, SqliteError};

use crate::error::DatabaseError;
use crate::origin::Origin;

/// A setting of the old cipher: a pragma's name and its value, consisting only of letters, digits,
/// `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    name: String,
    value: String,
}

impl Setting {
    /// Makes a setting; `None` if name or value have other characters.
    #[must_use]
    pub fn new(name: &str, value: &str) -> Option<Self> {
        let fits = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            !text.is_empty() && text.chars().all(plain)
        };
        let own = || Self { name: name.to_ascii_lowercase(), value: value.to_owned() };
        // The key is passed in other ways, none of which reveals it.
        let is_key = ["key", "rekey", "hexkey", "hexrekey"].contains(&&*name.to_ascii_lowercase());
        (fits(name) && fits(value) && !is_key).then(own)
    }
}

/// A library, and the key that opens the old database with it.
pub struct Foreign<'a> {
    origin: Origin,
    library: Library,
    key: &'a SecretBytes,
    settings: &'a [Setting],
}

impl<'a> Foreign<'a> {
    /// Loads the library at `named`, or the first one found in the directory `installed` or by the
    /// system's loader.
    ///
    /// # Errors
    /// `Library` when there is none, or it belongs to another program; `Store` if others could
    /// change its code.
    pub fn load(
        origin: Origin,
        (named, installed): (Option<&Path>, Option<&Path>),
        key: &'a SecretBytes,
        settings: &'a [Setting],
    ) -> Result<Self, DatabaseError> {
        let library = find(origin, named, installed)?;
        Ok(Self { origin, library, key, settings })
    }

    /// Version of the library's SQLite.
    #[must_use]
    pub fn version(&self) -> String {
        self.library.version()
    }

    /// Returns true if the old file has a plain header, according to its settings.
    pub(crate) fn has_plain_header(&self) -> bool {
        self.settings.iter().any(|setting| setting.name.contains("plaintext_header"))
    }

    /// Opens the database `old` by `uri`.
    pub(crate) fn open(
        &self,
        old: &Path,
        uri: &str,
        flags: i32,
    ) -> Result<Connection, DatabaseError> {
        let flags = flags | ffi::SQLITE_OPEN_URI;
        let failed = |error| refused("open", old, &error);
        let db = self.library.open_with(uri.as_ref(), None, flags).map_err(failed)?;
        let set = || {
            self.settings.iter().try_for_each(|Setting { name, value }| {
                db.execute(&format!("PRAGMA {name} = '{value}'")).map_err(failed)
            })
        };
        // Each program wants the settings on a different side of the key.
        match self.origin {
            Origin::Sqlcipher => {
                self.give_key(old, &db)?;
                set()?;
            }
            Origin::Sqlite3mc => {
                set()?;
                self.give_key(old, &db)?;
            }
        }
        match db.rows("SELECT count(*) FROM sqlite_master") {
            Ok(_) => Ok(db),
            Err(error) if error.primary() == ffi::SQLITE_NOTADB => {
                Err(DatabaseError::OldKey { path: old.to_owned(), origin: self.origin })
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// The error never contains the statement, which has the key.
    fn give_key(&self, old: &Path, db: &Connection) -> Result<(), DatabaseError> {
        let unfit = || DatabaseError::OldKey { path: old.to_owned(), origin: self.origin };
        let key = std::str::from_utf8(self.key.expose()).map_err(|_| unfit())?;
        if key.is_empty() || key.contains('\0') {
            return Err(unfit());
        }
        let mut sql = Vec::with_capacity(2 * key.len() + 16);
        sql.extend_from_slice(b"PRAGMA key = '");
        for byte in key.bytes() {
            sql.push(byte);
            if byte == b'\'' {
                sql.push(byte);
            }
        }
        sql.push(b'\'');
        let given = std::str::from_utf8(&sql)
            .map_err(|_| unfit())
            .and_then(|sql| db.execute(sql).map_err(|_| unfit()));
        sql.fill(0);
        std::hint::black_box(&sql);
        given
    }
}

/// Translates the library's error about the old file.
pub(crate) fn refused(action: &'static str, path: &Path, error: &SqliteError) -> DatabaseError {
    let (path, code, message) = (path.to_owned(), error.primary(), error.message.clone());
    DatabaseError::Foreign { action, path, code, message }
}

fn find(
    origin: Origin,
    named: Option<&Path>,
    installed: Option<&Path>,
) -> Result<Library, DatabaseError> {
    if let Some(named) = named {
        return load(origin, named);
    }
    let in_directory = |directory: &Path| -> Vec<PathBuf> {
        origin.files().iter().map(|name| directory.join(name)).collect()
    };
    let installed = installed.map(in_directory).unwrap_or_default();
    let installed = installed.into_iter().filter(|path| path.is_file());
    let systems = origin.files().iter().map(PathBuf::from);
    let mut last = None;
    for path in installed.chain(systems) {
        match load(origin, &path) {
            Ok(library) => return Ok(library),
            // The error of the first library that exists but does not work says more than that of
            // missing ones.
            Err(error) => last = last.or(path.is_file().then_some(error)),
        }
    }
    Err(last.unwrap_or(DatabaseError::Library {
        origin,
        path: PathBuf::from(origin.files().last().copied().unwrap_or_default()),
        reason: "it is not installed".to_owned(),
    }))
}

fn load(origin: Origin, path: &Path) -> Result<Library, DatabaseError> {
    let unfit = |reason: String| DatabaseError::Library { origin, path: path.to_owned(), reason };
    // A bare name is resolved by the system loader, in directories that it trusts.
    if path.components().count() > 1 && path.exists() {
        check_code_file(path)?;
    }
    let library = Library::shared(path).map_err(|error| unfit(error.reason))?;
    let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
    let answer =
        library.open_with(":memory:".as_ref(), None, flags).and_then(|db| db.rows(origin.probe()));
    match answer {
        Ok(rows) if !rows.is_empty() => Ok(library),
        _ => Err(unfit("it is a SQLite library of another kind".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_names_and_never_keys() {
        assert!(Setting::new("cipher_hmac_algorithm", "HMAC_SHA256").is_some());
        for (name, value) in [
            ("kdf_iter", "1; --"),
            ("a b", "1"),
            ("", "1"),
            ("kdf_iter", ""),
            ("KEY", "x"),
            ("hexkey", "00"),
        ] {
            assert_eq!(Setting::new(name, value), None, "{name}={value}");
        }
    }

    #[test]
    fn a_library_that_others_could_change_is_not_loaded() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("libsqlcipher.so");
        std::fs::write(&library, "not a library").unwrap();
        std::fs::set_permissions(&library, PermissionsExt::from_mode(0o777)).unwrap();
        let key = SecretBytes::from_slice(b"key").unwrap();
        for places in [(Some(&*library), None), (None, Some(dir.path()))] {
            let refused = Foreign::load(Origin::Sqlcipher, places, &key, &[]).err().unwrap();
            assert!(matches!(refused, DatabaseError::Store(_)), "{refused}");
        }
    }

    #[test]
    fn a_library_of_another_kind_is_refused() {
        let key = SecretBytes::from_slice(b"key").unwrap();
        for (library, reason) in
            [("libsqlite3.so.0", "another kind"), ("/nowhere/lib.so", "nowhere")]
        {
            let places = (Some(Path::new(library)), None);
            let refused = Foreign::load(Origin::Sqlcipher, places, &key, &[]).err().unwrap();
            assert!(refused.to_string().contains(reason), "{refused}");
        }
    }
}
