//! Backup of the whole store to one file under a password of its own, and restore.

use std::fs;
use std::path::{Path, PathBuf};

use tdekit_key_crypto::password::PasswordParams;

use crate::audit::{self, AuditAction, Beginning};
use crate::clock::now_seconds;
use crate::disk;
use crate::error::StoreError;
use crate::file::{MAX_FILE_BYTES, Protector, StoreFile};
use crate::lock::{self, WriterLock};
use crate::provider::Unlock;
use crate::store::{KeyStore, STORE_FILE_NAME};
use crate::unlocked::Unlocked;

/// The outcome of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// There was no store: the backup is now the store.
    Installed,
    /// The existing store has the backup's master key: it was kept, with all changes since the
    /// backup, and only its secret was replaced. This is the way to recover from a lost password.
    SecretChanged,
    /// A different store existed and was set aside.
    Replaced,
}

/// The result of [`restore`].
#[derive(Debug)]
pub struct RestoreOutcome {
    /// The outcome.
    pub done: Restored,
    /// Protectors that opened the existing store and no longer do.
    pub lost: Vec<Protector>,
    /// Path to which the existing store was moved.
    pub set_aside: Option<PathBuf>,
    /// The store, open.
    pub store: Unlocked,
}

impl Unlocked {
    /// Returns the store as a file of the same format that `secret` opens. Write it to disk, then
    /// call [`Unlocked::mark_all_backed_up`]; in the file itself the keys are marked as backed up.
    ///
    /// # Errors
    /// `AgentOnlyOpens`, `BadSecret`, `InsecureFile`, `Crypto`, and those of [`Unlocked::log`].
    pub fn backup(&self, secret: &Unlock, cost: PasswordParams) -> Result<Vec<u8>, StoreError> {
        self.refuse_agent()?;
        self.log(&[audit::master_key(AuditAction::Exported, self.store().file())])?;
        let mut file = self.store().file().clone();
        file.master_key.protectors = vec![self.protector(secret, cost)?];
        file.written_at = now_seconds();
        mark_backed_up(&mut file);
        file.encode(|body| Ok(self.keys().mac(body)))
    }
}

impl Unlocked {
    /// Records that the private keys in `backup`, which is on disk, are backed up.
    ///
    /// # Errors
    /// `Locked`, `MasterKeyChanged`, `Io`.
    pub fn mark_all_backed_up(&mut self, backup: &KeyStore) -> Result<(), StoreError> {
        let held: Vec<_> = backup.certificates().iter().map(|info| info.sha256).collect();
        self.update(|file, current| {
            for (record, info) in file.certificates.iter_mut().zip(current.certificates()) {
                if record.sealed_private_key.is_some() && held.contains(&info.sha256) {
                    record.backed_up_at = Some(now_seconds());
                }
            }
            Ok(())
        })
    }
}

fn mark_backed_up(file: &mut StoreFile) {
    let now = now_seconds();
    for record in &mut file.certificates {
        if record.sealed_private_key.is_some() {
            record.backed_up_at = Some(now);
        }
    }
}

/// Restores a backup into `dir`; see [`Restored`]. `secret` opens the backup. `new_secret`, or
/// `secret` without it, opens the store from then on.
///
/// # Errors
/// `DifferentStore` when a different store (or one with a newer master key, or a damaged one)
/// exists and `replace` is not set; those of [`KeyStore::unlock`].
pub fn restore(
    dir: &Path,
    backup: Vec<u8>,
    secret: &Unlock,
    new_secret: Option<&Unlock>,
    cost: PasswordParams,
    replace: bool,
) -> Result<RestoreOutcome, StoreError> {
    let backup = KeyStore::from_bytes(dir, backup)?.unlock(secret)?;
    let protector = backup.protector(new_secret.unwrap_or(secret), cost)?;
    disk::create_dir(dir)?;
    let _lock = WriterLock::acquire(dir, lock::WAIT)?;
    let path = dir.join(STORE_FILE_NAME);
    let there = disk::read_ordinary(&path, MAX_FILE_BYTES)?;
    let same = there.as_ref().and_then(|bytes| same_master_key(dir, bytes, &backup));
    let (done, mut file) = match (&there, same) {
        (None, _) => (Restored::Installed, backup.store().file().clone()),
        (Some(_), Some(store)) => (Restored::SecretChanged, store.file().clone()),
        (Some(_), None) if replace => (Restored::Replaced, backup.store().file().clone()),
        (Some(_), None) => return Err(StoreError::DifferentStore { path }),
    };
    let lost = match done {
        Restored::SecretChanged => std::mem::take(&mut file.master_key.protectors),
        Restored::Installed | Restored::Replaced => Vec::new(),
    };
    file.master_key.protectors = vec![protector];
    file.sequence = file.sequence.saturating_add(1);
    file.written_at = now_seconds();
    let restored = audit::master_key(AuditAction::Restored, &file);
    let added =
        file.master_key.protectors.iter().map(|one| audit::protector(AuditAction::Added, one));
    let removed = lost.iter().map(|one| audit::protector(AuditAction::Removed, one));
    let events: Vec<_> = [restored].into_iter().chain(added).chain(removed).collect();
    let beginning = match done {
        Restored::SecretChanged => Beginning::Here,
        Restored::Installed | Restored::Replaced => Beginning::Restored,
    };
    let anchor = audit::record(dir, backup.keys(), &file, &events, beginning)?;
    file.audit = Some(anchor);
    let bytes = file.encode(|body| Ok(backup.keys().mac(body)))?;
    let store = KeyStore::from_bytes(dir, bytes)?;
    let set_aside = match done {
        Restored::Replaced => Some(set_aside(&path)?),
        Restored::Installed | Restored::SecretChanged => None,
    };
    disk::replace(&path, store.bytes(), &disk::go_on)?;
    Ok(RestoreOutcome { done, lost, set_aside, store: backup.with_store(store) })
}

/// Returns the store in `bytes`, if it is whole and has the master key of the backup.
fn same_master_key(dir: &Path, bytes: &[u8], backup: &Unlocked) -> Option<KeyStore> {
    let store = KeyStore::from_bytes(dir, bytes.to_vec()).ok()?;
    let (here, there) = (store.file(), backup.store().file());
    let same = here.store_id == there.store_id && here.master_key.id == there.master_key.id;
    (same && backup.keys().verify(bytes).is_ok()).then_some(store)
}

/// Copies the store that will be replaced to a name of its own, so that nothing is lost.
fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let mut number = now_seconds();
    loop {
        let aside = path.with_file_name(format!("{STORE_FILE_NAME}.replaced-{number}"));
        if aside.exists() {
            number += 1;
            continue;
        }
        let bytes = fs::read(path).map_err(StoreError::io("read", path))?;
        disk::write_new(&aside, &bytes)?;
        return Ok(aside);
    }
}
