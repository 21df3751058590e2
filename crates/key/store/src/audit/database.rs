//! Entries about keys outside the store: changes of the keys of databases and backups, and, where
//! the store's configuration asks for it, openings of these and of server keys.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Access, access};
use tdekit_key_crypto::sha256;

use super::record::{AuditAction, AuditCertificate, AuditEvent, AuditKey, AuditSubject};
use crate::certificate::CertificateInfo;
use crate::error::StoreError;
use crate::named_keys::{KeyName, NamedKeys, audit_id};
use crate::store::KeyStore;
use crate::unlocked::Unlocked;
use crate::wrapped::WrappedDek;

/// Maximum length of a path in JSON, and of the description of its key, so that a long one cannot
/// make the line fail.
const MAX_PATH_BYTES: usize = 4 << 10;
const MAX_KEY_BYTES: usize = 6 << 10;
/// Maximum number of openings that a process remembers; a forgotten one is logged again.
const MAX_REMEMBERED: usize = 1 << 16;

/// The openings that this process has logged.
static TOLD: Mutex<Option<(u32, HashSet<[u8; 32]>)>> = Mutex::new(None);

/// A database or backup whose key an event concerns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditDatabase {
    /// Its absolute path.
    pub path: PathBuf,
    /// File identifier of an encrypted database.
    pub file_id: Option<[u8; 16]>,
    /// Its key.
    pub key: AuditKey,
}

impl AuditDatabase {
    fn event(&self, action: AuditAction) -> AuditEvent {
        let mut key = self.key.clone();
        key.media = shortened(&key.media);
        while encoded_len(&key) > MAX_KEY_BYTES && key.certificates.pop().is_some() {
            key.certificates_left_out += 1;
        }
        AuditEvent {
            action,
            subject: AuditSubject::DatabaseKey,
            id: self.file_id.map(hex::encode).unwrap_or_default(),
            name: shortened(&self.path.to_string_lossy()),
            key: Some(key),
        }
    }
}

impl AuditCertificate {
    /// Describes a certificate of the store.
    #[must_use]
    pub fn of(info: &CertificateInfo) -> Self {
        Self { id: info.thumbprint(), name: info.name.clone() }
    }

    /// Describes the certificate of a wrapped key; with its name if the store has it.
    #[must_use]
    pub fn of_wrapped(wrapped: &WrappedDek, store: &KeyStore) -> Self {
        let known = store.by_sha256(&wrapped.sha256);
        let name = known.map(|info| info.name.clone()).unwrap_or_default();
        Self { id: wrapped.thumbprint(), name }
    }
}

impl Unlocked {
    /// Logs an operation on a database's key before it happens, and records the entry in the store,
    /// so that a log that was cut before the entry is detected.
    ///
    /// It is normal that a process cannot write to the store's directory at all: its error is then
    /// returned as a value, for a warning, and the operation may proceed. Where openings must be
    /// logged, this is an error too.
    ///
    /// # Errors
    /// `NotLogged`: the operation must not proceed.
    pub fn log_database(
        &self,
        action: AuditAction,
        database: &AuditDatabase,
    ) -> Result<Option<StoreError>, StoreError> {
        let logged = self.log_and_mark(&[database.event(action)]);
        let Err(error) = logged else { return Ok(None) };
        match is_read_only(self.store().dir(), &error) && !self.logs_openings()? {
            true => Ok(Some(error)),
            false => Err(not_logged(error)),
        }
    }

    /// Logs the opening of a database, once per process, where `openings` under `[audit]` in the
    /// store's `config.toml` asks for it. `database` is called only then.
    ///
    /// # Errors
    /// `NotLogged`: the database must not be opened. `Config`, `InsecureFile`.
    pub fn log_opening(
        &self,
        file_id: &[u8; 16],
        database: impl FnOnce() -> AuditDatabase,
    ) -> Result<(), StoreError> {
        self.log_opened_once(&[file_id], || database().event(AuditAction::Opened))
    }

    /// As [`Self::log_opening`], for a version of a server's numbered key.
    ///
    /// # Errors
    /// `NotLogged`: the key must not be used. `Config`, `InsecureFile`.
    pub fn log_server_key_opening(&self, id: u32, version: u32) -> Result<(), StoreError> {
        let number = [id.to_le_bytes(), version.to_le_bytes()].concat();
        self.log_opened_once(&[b"server key", &number], || AuditEvent {
            action: AuditAction::Opened,
            subject: AuditSubject::ServerKey,
            id: format!("{id}.{version}"),
            name: String::new(),
            key: None,
        })
    }

    /// As [`Self::log_opening`], for a named key.
    ///
    /// # Errors
    /// As [`Self::log_server_key_opening`].
    pub fn log_named_key_opening(
        &self,
        keys: &NamedKeys,
        name: &KeyName,
    ) -> Result<(), StoreError> {
        let (id, owner) = (audit_id(keys.namespace(), &name.id), name.owner.clone());
        let what: [&[u8]; 4] = [b"named key", id.as_bytes(), b"\0", owner.as_bytes()];
        self.log_opened_once(&what, || AuditEvent {
            action: AuditAction::Opened,
            subject: AuditSubject::ServerKey,
            id: id.clone(),
            name: owner.clone(),
            key: None,
        })
    }

    /// `key` distinguishes the key from every other key of the store.
    fn log_opened_once(
        &self,
        key: &[&[u8]],
        event: impl FnOnce() -> AuditEvent,
    ) -> Result<(), StoreError> {
        if !self.logs_openings()? {
            return Ok(());
        }
        let what = sha256(&[&[self.store().file().store_id.as_slice()], key].concat());
        if with_told(|told| told.contains(&what)) {
            return Ok(());
        }
        self.log(&[event()]).map_err(not_logged)?;
        with_told(|told| {
            if told.len() >= MAX_REMEMBERED {
                told.clear();
            }
            told.insert(what);
        });
        Ok(())
    }
}

/// Calls `work` with the openings that this process has logged; the child of a fork has logged
/// none. The lock is never held while files are written.
fn with_told<T>(work: impl FnOnce(&mut HashSet<[u8; 32]>) -> T) -> T {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *told {
        Some((of, told)) if *of == process::id() => work(told),
        other => work(&mut other.insert((process::id(), HashSet::new())).1),
    }
}

fn not_logged(error: StoreError) -> StoreError {
    StoreError::NotLogged { error: Box::new(error) }
}

/// Returns true if `error` means that this process can write nothing in `dir`. A single protected
/// file in it does not count.
fn is_read_only(dir: &Path, error: &StoreError) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error, StoreError::Io { source, .. }
        if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem))
        && access(dir, Access::WRITE_OK).is_err()
}

/// Returns the end of a text that is too long; the end has the file's name.
fn shortened(text: &str) -> String {
    let mut rest = text;
    while encoded_len(&rest) > MAX_PATH_BYTES {
        let half = rest.len() / 2;
        let next = (half..).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        rest = rest.get(next..).unwrap_or_default();
    }
    if rest.len() == text.len() { text.to_owned() } else { format!("...{rest}") }
}

fn encoded_len(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

#[cfg(test)]
mod tests {
    use super::super::record::MAX_AUDIT_LINE_BYTES;
    use super::*;

    #[test]
    fn no_name_is_too_long_for_a_line() {
        let certificate = AuditCertificate { id: "0".repeat(42), name: "\u{1}".repeat(128) };
        let long: String = "\u{1}".repeat(9000) + "/the-end.db";
        let key = AuditKey {
            certificates: vec![certificate; 64],
            media: long.clone(),
            ..AuditKey::default()
        };
        let database = AuditDatabase { path: long.into(), file_id: None, key };
        let event = database.event(AuditAction::BackedUp);
        let told = event.key.unwrap();
        assert!(event.name.ends_with("/the-end.db") && event.name.starts_with("..."));
        assert_eq!(told.certificates.len() + told.certificates_left_out, 64);
        assert!(!told.certificates.is_empty());
        assert!(encoded_len(&event.name) + encoded_len(&told) + 1024 < MAX_AUDIT_LINE_BYTES);
        assert_eq!(shortened("/a/ü.db"), "/a/ü.db");
    }
}
