//! SQL logins: names and verifiers derived from their passwords (Argon2id), in a separate file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tdekit_key_crypto::password::{PARAMS_LEN, PasswordParams, SALT_LEN, derive_key};
use tdekit_key_crypto::{hmac_sha256, random_bytes, verify_hmac_sha256};

use crate::error::EndpointError;
use crate::tls::{refuse_foreign, write_private};

/// Version of the file format.
const VERSION: u32 = 1;
const KEY_BYTES: usize = 32;
/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 128;
/// Minimum length of a new password.
const MIN_PASSWORD_CHARS: usize = 8;
/// Maximum length of a password in LOGIN7, in UTF-16 units.
const MAX_PASSWORD_UNITS: usize = 128;
/// The text whose MAC, under the key derived from the password, is the verifier.
const LABEL: &[u8] = b"tdekit login 1";

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    logins: Vec<Entry>,
}

/// A stored login.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    name: String,
    params: [u8; PARAMS_LEN],
    salt: [u8; SALT_LEN],
    verifier: [u8; 32],
}

/// The list of logins of an endpoint.
#[derive(Debug, Clone)]
pub struct Logins {
    path: PathBuf,
    entries: Vec<Entry>,
}

impl Logins {
    /// Reads the list; it is empty if there is no file.
    ///
    /// # Errors
    /// [`EndpointError::File`], [`EndpointError::Logins`].
    pub fn open(path: &Path) -> Result<Logins, EndpointError> {
        refuse_foreign(path, 0o022)?;
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Logins { path: path.to_owned(), entries: Vec::new() });
            }
            Err(source) => {
                return Err(EndpointError::File { action: "read", path: path.to_owned(), source });
            }
        };
        let damaged = |reason: String| EndpointError::Logins { path: path.to_owned(), reason };
        let file: File =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if file.version != VERSION {
            return Err(damaged(format!("version {} is not known", file.version)));
        }
        for entry in &file.logins {
            PasswordParams::from_bytes(&entry.params)
                .map_err(|error| damaged(error.to_string()))?;
        }
        Ok(Logins { path: path.to_owned(), entries: file.logins })
    }

    /// Returns the names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    /// Adds a login, or sets the password of an existing one, and writes the list.
    ///
    /// # Errors
    /// [`EndpointError::Login`] for an invalid name or password; [`EndpointError::File`].
    pub fn set(&mut self, name: &str, password: &str) -> Result<(), EndpointError> {
        let wrong = |reason| Err(EndpointError::Login { name: name.to_owned(), reason });
        let chars = name.chars().count();
        if chars == 0 || chars > MAX_NAME_CHARS || name.chars().any(char::is_control) {
            return wrong("a name has 1 to 128 characters and no control characters");
        }
        if password.chars().count() < MIN_PASSWORD_CHARS {
            return wrong("a password has 8 characters at least");
        }
        if password.encode_utf16().count() > MAX_PASSWORD_UNITS {
            return wrong("a password has 128 characters at most");
        }
        let entry = Entry::new(name, password, PasswordParams::default())?;
        match self.entries.iter_mut().find(|each| same(&each.name, name)) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        self.entries.sort_by(|a, b| a.name.cmp(&b.name));
        self.write()
    }

    /// Removes a login and writes the list.
    ///
    /// # Errors
    /// [`EndpointError::Login`] if there is none of this name; [`EndpointError::File`].
    pub fn remove(&mut self, name: &str) -> Result<(), EndpointError> {
        let before = self.entries.len();
        self.entries.retain(|entry| !same(&entry.name, name));
        if self.entries.len() == before {
            let reason = "there is none of this name";
            return Err(EndpointError::Login { name: name.to_owned(), reason });
        }
        self.write()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| same(&entry.name, name))
    }

    fn write(&self) -> Result<(), EndpointError> {
        let file = File { version: VERSION, logins: self.entries.clone() };
        let bytes = serde_json::to_vec_pretty(&file).map_err(|error| EndpointError::Logins {
            path: self.path.clone(),
            reason: error.to_string(),
        })?;
        write_private(&self.path, &bytes)
    }
}

/// Compares names of logins ignoring case, as under the server's collation.
pub(crate) fn same(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}

impl Entry {
    pub(crate) fn new(
        name: &str,
        password: &str,
        params: PasswordParams,
    ) -> Result<Entry, EndpointError> {
        let mut salt = [0; SALT_LEN];
        random_bytes(&mut salt)?;
        let key = derive_key(password.as_bytes(), &salt, params, KEY_BYTES)?;
        let verifier = hmac_sha256(key.expose(), &[LABEL]);
        Ok(Entry { name: name.to_owned(), params: params.to_bytes(), salt, verifier })
    }

    /// Returns true if the password is this login's; takes the time of its parameters.
    pub(crate) fn fits(&self, password: &str) -> Result<bool, EndpointError> {
        let params = PasswordParams::from_bytes(&self.params)?;
        let key = derive_key(password.as_bytes(), &self.salt, params, KEY_BYTES)?;
        Ok(verify_hmac_sha256(key.expose(), &[LABEL], &self.verifier))
    }

    /// Returns a stamp that changes whenever the password is set.
    pub(crate) fn stamp(&self) -> [u8; SALT_LEN] {
        self.salt
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}
