//! A store whose master key is open: unwrapping, and every change.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tdekit_key_crypto::password::PasswordParams;
use tdekit_key_crypto::{PrivateKey, SecretBytes, sha256};

use crate::audit::{self, AuditEvent, Beginning};
use crate::certificate::CertificateInfo;
use crate::clock::{iso8601, now_seconds};
use crate::derive::{MASTER_KEY_LEN, PrivateKeyPlace, StoreKeys};
use crate::disk::{self, Step};
use crate::error::StoreError;
use crate::file::{AuditAnchor, Protector, StoreFile};
use crate::lock::{self, WriterLock};
use crate::provider::{Unlock, logs_openings};
use crate::store::{KeyStore, new_master_key_record, new_protector};
use crate::wrapped::WrappedDek;

type StepHook = Box<dyn Fn(Step) -> std::io::Result<()> + Send + Sync>;

/// A store with its master key open. May be shared between threads.
pub struct Unlocked {
    store: KeyStore,
    master_key: SecretBytes,
    keys: StoreKeys,
    private_keys: Mutex<HashMap<[u8; 32], Arc<PrivateKey>>>,
    on_step: StepHook,
    /// The protector that opened the master key.
    opened_by: Option<[u8; 16]>,
    /// True if an agent opened it; an agent may not change the protectors.
    by_agent: bool,
    /// True if openings of databases are logged; unset until the configuration is read.
    logs_openings: OnceLock<bool>,
}

impl Unlocked {
    pub(crate) fn new(store: KeyStore, master_key: SecretBytes, keys: StoreKeys) -> Self {
        let private_keys = Mutex::new(HashMap::new());
        let on_step = Box::new(disk::go_on);
        let logs_openings = OnceLock::new();
        let (opened_by, by_agent) = (None, false);
        Self { store, master_key, keys, private_keys, on_step, opened_by, by_agent, logs_openings }
    }

    /// Sets the store's configuration for logging openings, which the caller has read.
    pub(crate) fn with_logs_openings(self, asked: bool) -> Self {
        let _ = self.logs_openings.set(asked);
        self
    }

    /// Returns true if `openings` under `[audit]` in the store's configuration was true when the
    /// store was unlocked, or when this was first called.
    ///
    /// # Errors
    /// `Config`, `InsecureFile`, `Io`.
    pub fn logs_openings(&self) -> Result<bool, StoreError> {
        if let Some(known) = self.logs_openings.get() {
            return Ok(*known);
        }
        let asked = logs_openings(self.store.dir())?;
        Ok(*self.logs_openings.get_or_init(|| asked))
    }

    pub(crate) fn with_opened_by(mut self, protector: [u8; 16]) -> Self {
        self.opened_by = Some(protector);
        self
    }

    pub(crate) fn with_agent(mut self, agent: bool) -> Self {
        self.by_agent = agent;
        self
    }

    /// Fails if an agent opened the store; called by operations that change who opens the store or
    /// a file, or that give a private key away.
    ///
    /// # Errors
    /// `AgentOnlyOpens`.
    pub fn refuse_agent(&self) -> Result<(), StoreError> {
        match self.by_agent {
            true => Err(StoreError::AgentOnlyOpens),
            false => Ok(()),
        }
    }

    pub(crate) fn opened_by(&self) -> Option<[u8; 16]> {
        self.opened_by
    }

    /// The store, whose MAC was checked.
    #[must_use]
    pub fn store(&self) -> &KeyStore {
        &self.store
    }

    /// As [`KeyStore::wrap_dek`], with certificates that are known to belong to the store.
    ///
    /// # Errors
    /// As there.
    pub fn wrap_dek(
        &self,
        name_or_thumbprint: &str,
        dek: &SecretBytes,
    ) -> Result<WrappedDek, StoreError> {
        self.store.wrap_dek(name_or_thumbprint, dek)
    }

    /// Unwraps a key for the first recipient whose private key is here, by its public key: a
    /// renewed certificate of the same key serves.
    ///
    /// # Errors
    /// When no recipient serves, the most specific of: `WrappedKeyDamaged`, `UnknownMechanism`,
    /// `PrivateKeyMissing`, `CertificateMissing` with all the thumbprints; `Corrupt` when there is
    /// no recipient at all.
    pub fn unwrap_dek(&self, wrapped: &[WrappedDek]) -> Result<SecretBytes, StoreError> {
        let mut damaged = None;
        let mut keyless = None;
        let mut missing = Vec::new();
        for recipient in wrapped {
            let mut of_key = self
                .store
                .certificates()
                .iter()
                .filter(|info| info.public_key_sha256 == recipient.public_key_sha256)
                .peekable();
            if of_key.peek().is_none() {
                missing.push(recipient.thumbprint());
            }
            for info in of_key {
                match self.private_key(info) {
                    Ok(key) => match recipient.unwrap_by(&key) {
                        Ok(dek) => return Ok(dek),
                        Err(error @ StoreError::UnknownMechanism { .. }) => {
                            damaged.get_or_insert(error);
                        }
                        Err(error) => damaged = Some(error),
                    },
                    Err(error @ StoreError::PrivateKeyMissing { .. }) => keyless = Some(error),
                    Err(error) => return Err(error),
                }
            }
        }
        if wrapped.is_empty() {
            return Err(StoreError::corrupt("wrapped keys", "there are none"));
        }
        Err(damaged.or(keyless).unwrap_or(StoreError::CertificateMissing { wanted: missing }))
    }

    /// Signs with a certificate's private key: ECDSA with SHA-384, or RSASSA-PSS with SHA-256, MGF1
    /// of SHA-256 and a salt of 32 bytes.
    ///
    /// # Errors
    /// `CertificateMissing`, `PrivateKeyMissing`, `CertificateExpired`.
    pub fn sign(&self, name_or_thumbprint: &str, message: &[u8]) -> Result<Vec<u8>, StoreError> {
        Ok(self.signing_key(name_or_thumbprint)?.sign(message)?)
    }

    /// Checks that [`Self::sign`] could sign, and signs nothing.
    ///
    /// # Errors
    /// As [`Self::sign`].
    pub fn check_signer(&self, name_or_thumbprint: &str) -> Result<(), StoreError> {
        self.signing_key(name_or_thumbprint).map(drop)
    }

    fn signing_key(&self, name_or_thumbprint: &str) -> Result<Arc<PrivateKey>, StoreError> {
        let info = self.store.find(name_or_thumbprint)?;
        if info.not_after < now_seconds() {
            let expired_at = iso8601(info.not_after);
            return Err(StoreError::CertificateExpired { name: info.name.clone(), expired_at });
        }
        self.private_key(info)
    }

    /// Reads the store again, to see certificates that others made in the meantime.
    ///
    /// # Errors
    /// `MasterKeyChanged` when the store must be unlocked anew; those of [`KeyStore::open`].
    pub fn refresh(&mut self) -> Result<(), StoreError> {
        self.store = self.read_current()?;
        Ok(())
    }

    /// Replaces the master key and seals all private keys under the new one. Afterwards only
    /// `secret` opens the store. Wrapped keys and certificates do not change.
    ///
    /// # Errors
    /// `AgentOnlyOpens`; `SeveralProtectors` when other secrets open the store as well;
    /// `BadSecret`, `InsecureFile`, `Locked`, `MasterKeyChanged`, `Corrupt`, `Io`.
    pub fn rotate_master_key(
        &mut self,
        secret: &Unlock,
        cost: PasswordParams,
    ) -> Result<(), StoreError> {
        self.refuse_agent()?;
        let store_id = self.store.file().store_id;
        refuse_several(self.store.file())?;
        let master_key = SecretBytes::random(MASTER_KEY_LEN)?;
        let record = new_master_key_record(&master_key, store_id, secret, cost)?;
        let keys = StoreKeys::derive(&master_key, &store_id, &record.id)?;
        let _lock = WriterLock::acquire(self.store.dir(), lock::WAIT)?;
        let current = self.read_current()?;
        let mut file = current.file().clone();
        refuse_several(&file)?;
        let old_id = file.master_key.id;
        for (certificate, info) in file.certificates.iter_mut().zip(current.certificates()) {
            let Some(sealed) = &mut certificate.sealed_private_key else { continue };
            let place = |master_key_id| PrivateKeyPlace {
                store_id: &store_id,
                master_key_id,
                certificate_sha256: &info.sha256,
            };
            let pkcs8 = self.keys.open_private_key(&place(&old_id), sealed)?;
            *sealed = keys.seal_private_key(&place(&record.id), &pkcs8)?;
        }
        let audit_key = match &file.audit {
            Some(audit) => Some(self.keys.open_audit_key(&file, &audit.sealed_key)?),
            None => None,
        };
        file.master_key = record;
        if let (Some(key), Some(audit)) = (audit_key, file.audit.take()) {
            let sealed_key = keys.seal_audit_key(&file, &key)?;
            file.audit = Some(Box::new(AuditAnchor { sealed_key, ..*audit }));
        }
        let events = audit::changes(Some(current.file()), &file);
        self.store = self.write(file, &keys, &events)?;
        self.keys = keys;
        self.master_key = master_key;
        Ok(())
    }

    /// Makes `secret` the only secret that opens the master key, which stays the same.
    ///
    /// An older copy of the store and its password still reveal the master key; after a leak, use
    /// [`Self::rotate_master_key`].
    ///
    /// # Errors
    /// As [`Self::rotate_master_key`].
    pub fn change_secret(
        &mut self,
        secret: &Unlock,
        cost: PasswordParams,
    ) -> Result<(), StoreError> {
        refuse_several(self.store.file())?;
        let protector = self.protector(secret, cost)?;
        self.update(|file, _| {
            refuse_several(file)?;
            file.master_key.protectors = vec![protector];
            Ok(())
        })
    }

    /// Opens every private key of the store.
    ///
    /// # Errors
    /// `Corrupt` for a key that does not open or does not belong to its certificate.
    pub fn check_private_keys(&self) -> Result<(), StoreError> {
        for info in self.store.certificates().iter().filter(|info| info.has_private_key) {
            let key = self.private_key(info)?;
            if sha256(&[&key.spki()]) != info.public_key_sha256 {
                return Err(StoreError::corrupt("private key", "of another certificate"));
            }
        }
        Ok(())
    }

    /// Returns the private key of a certificate of this store, prepared once.
    pub(crate) fn private_key(
        &self,
        info: &CertificateInfo,
    ) -> Result<Arc<PrivateKey>, StoreError> {
        let mut prepared = self.private_keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = prepared.get(&info.sha256) {
            return Ok(Arc::clone(key));
        }
        let record = self.store.record(&info.sha256);
        let sealed = record.and_then(|record| record.sealed_private_key.as_deref());
        let Some(sealed) = sealed else {
            let (name, thumbprint) = (info.name.clone(), info.thumbprint());
            return Err(StoreError::PrivateKeyMissing { name, thumbprint });
        };
        let file = self.store.file();
        let place = PrivateKeyPlace {
            store_id: &file.store_id,
            master_key_id: &file.master_key.id,
            certificate_sha256: &info.sha256,
        };
        let pkcs8 = self.keys.open_private_key(&place, sealed)?;
        let key = PrivateKey::from_pkcs8(pkcs8.expose())
            .map_err(|error| StoreError::corrupt("private key", error.to_string()))?;
        let key = Arc::new(key);
        prepared.insert(info.sha256, Arc::clone(&key));
        Ok(key)
    }

    pub(crate) fn is_master_key(&self, key: &SecretBytes) -> bool {
        self.master_key.ct_eq(key.expose())
    }

    pub(crate) fn protector(
        &self,
        secret: &Unlock,
        cost: PasswordParams,
    ) -> Result<Protector, StoreError> {
        self.refuse_agent()?;
        let file = self.store.file();
        new_protector(&self.master_key, file.store_id, file.master_key.id, secret, cost)
    }

    /// Combines the same master key with another state of its store, whose MAC the caller made.
    pub(crate) fn with_store(mut self, store: KeyStore) -> Self {
        self.store = store;
        self
    }

    pub(crate) fn keys(&self) -> &StoreKeys {
        &self.keys
    }

    /// Changes the current store on disk, under the writer lock, so that two writers never lose
    /// each other's changes. `change` gets the store's certificates.
    pub(crate) fn update<T>(
        &mut self,
        change: impl FnOnce(&mut StoreFile, &KeyStore) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _lock = WriterLock::acquire(self.store.dir(), lock::WAIT)?;
        let current = self.read_current()?;
        let mut file = current.file().clone();
        let result = change(&mut file, &current)?;
        let events = audit::changes(Some(current.file()), &file);
        self.store = self.write(file, &self.keys, &events)?;
        Ok(result)
    }

    /// Adds entries to the audit log about events that do not change the store.
    ///
    /// # Errors
    /// `Locked`, `MasterKeyChanged`, `Corrupt`, `Io`.
    pub fn log(&self, events: &[AuditEvent]) -> Result<(), StoreError> {
        let _lock = WriterLock::acquire(self.store.dir(), lock::WAIT)?;
        self.log_locked(events)
    }

    /// As [`Self::log`], for a caller that holds the writers' lock.
    pub(crate) fn log_locked(&self, events: &[AuditEvent]) -> Result<(), StoreError> {
        let current = self.read_current()?;
        let file = current.file();
        if file.audit.is_none() {
            // This starts the log, and with it the store's key for it.
            return self.write(file.clone(), &self.keys, events).map(|_| ());
        }
        audit::record(self.store.dir(), &self.keys, file, events, Beginning::Here).map(|_| ())
    }

    /// As [`Self::log`], and records the last entry in the store. This changes no key, so the
    /// store's sequence stays the same.
    pub(crate) fn log_and_mark(&self, events: &[AuditEvent]) -> Result<(), StoreError> {
        let dir = self.store.dir();
        let _lock = WriterLock::acquire(dir, lock::WAIT)?;
        let mut file = self.read_current()?.file().clone();
        file.audit = Some(audit::record(dir, &self.keys, &file, events, Beginning::Here)?);
        let bytes = file.encode(|body| Ok(self.keys.mac(body)))?;
        let store = KeyStore::from_bytes(dir, bytes)?;
        disk::replace(&store.path(), store.bytes(), &self.on_step)
    }

    pub(crate) fn read_current(&self) -> Result<KeyStore, StoreError> {
        let current = KeyStore::open(self.store.dir())?;
        let (ours, theirs) = (self.store.file(), current.file());
        if (ours.store_id, ours.master_key.id) != (theirs.store_id, theirs.master_key.id) {
            return Err(StoreError::MasterKeyChanged);
        }
        self.keys.verify(current.bytes())?;
        Ok(current)
    }

    /// Writes the store, after the entries of the change are in the audit log: a change that cannot
    /// be logged does not happen.
    fn write(
        &self,
        mut file: StoreFile,
        keys: &StoreKeys,
        events: &[AuditEvent],
    ) -> Result<KeyStore, StoreError> {
        let dir = self.store.dir();
        file.audit = Some(audit::record(dir, keys, &file, events, Beginning::Here)?);
        file.sequence = file.sequence.saturating_add(1);
        file.written_at = now_seconds();
        let bytes = file.encode(|body| Ok(keys.mac(body)))?;
        // Read back before it is written: an unreadable file must not replace a readable one.
        let store = KeyStore::from_bytes(self.store.dir(), bytes)?;
        disk::replace(&store.path(), store.bytes(), &self.on_step)?;
        Ok(store)
    }
}

/// Refuses to replace one protector of a store that has others, which would be lost.
fn refuse_several(file: &StoreFile) -> Result<(), StoreError> {
    match file.master_key.protectors.len() {
        0 | 1 => Ok(()),
        count => Err(StoreError::SeveralProtectors { count }),
    }
}

impl fmt::Debug for Unlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unlocked({}, keys redacted)", self.store.dir().display())
    }
}

#[cfg(test)]
impl Unlocked {
    pub(crate) fn set_on_step(&mut self, on_step: StepHook) {
        self.on_step = on_step;
    }
}
