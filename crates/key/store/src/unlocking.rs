//! Opening a store by a secret, and making a new one.

use std::path::Path;

use tdekit_key_crypto::SecretBytes;
use tdekit_key_crypto::password::PasswordParams;

use crate::audit::{self, Beginning};
use crate::clock::now_seconds;
use crate::derive::{MASTER_KEY_LEN, StoreKeys};
use crate::disk;
use crate::error::StoreError;
use crate::file::StoreFile;
use crate::lock::{self, WriterLock};
use crate::protector_kind::ProtectorKind;
use crate::provider::{
    AgentKey, Configured, Provider, Unlock, agent_knows, from_configuration, from_environment,
};
use crate::store::{KeyStore, STORE_FILE_NAME, new_master_key_record, random_id};
use crate::unlocked::Unlocked;

impl KeyStore {
    /// Makes a store in `dir` (and the directory, for its owner only) with a new master key that
    /// `secret` opens; `cost` is the cost of guessing a password.
    ///
    /// # Errors
    /// `AlreadyExists`, `BadSecret`, `InsecureFile`, `Locked`, `Io`.
    pub fn create(
        dir: &Path,
        secret: &Unlock,
        cost: PasswordParams,
    ) -> Result<Unlocked, StoreError> {
        let path = dir.join(STORE_FILE_NAME);
        let taken = || StoreError::AlreadyExists { path: path.clone() };
        if path.exists() {
            return Err(taken());
        }
        let master_key = SecretBytes::random(MASTER_KEY_LEN)?;
        let store_id = random_id()?;
        let record = new_master_key_record(&master_key, store_id, secret, cost)?;
        let keys = StoreKeys::derive(&master_key, &store_id, &record.id)?;
        let mut file = StoreFile {
            store_id,
            sequence: 1,
            written_at: now_seconds(),
            master_key: record,
            certificates: Vec::new(),
            audit: None,
        };
        disk::create_dir(dir)?;
        let _lock = WriterLock::acquire(dir, lock::WAIT)?;
        if path.exists() {
            return Err(taken());
        }
        let events = audit::changes(None, &file);
        file.audit = Some(audit::record(dir, &keys, &file, &events, Beginning::Here)?);
        let bytes = file.encode(|body| Ok(keys.mac(body)))?;
        disk::replace(&path, &bytes, &disk::go_on)?;
        Ok(Unlocked::new(Self::from_bytes(dir, bytes)?, master_key, keys))
    }

    /// Opens the master key and checks the store's MAC.
    ///
    /// # Errors
    /// `WrongPassword`, `WrongKey`, `ProviderMismatch`, `BadSecret`, `InsecureFile`, `Service`,
    /// `OtherServiceKey`, `NoServiceProgram`, `Corrupt`, `Io`.
    pub fn unlock(&self, source: &Unlock) -> Result<Unlocked, StoreError> {
        let offered = source.kind();
        if !self.accepts().contains(&offered) {
            return Err(StoreError::ProviderMismatch { offered, accepts: self.accepts() });
        }
        let opened =
            source.with_provider(PasswordParams::default(), |provider| self.open_with(provider));
        let (master_key, protector) = opened.map_err(|error| self.name_others(error, offered))?;
        let keys =
            StoreKeys::derive(&master_key, &self.file().store_id, &self.file().master_key.id)?;
        keys.verify(self.bytes())?;
        Ok(Unlocked::new(self.clone(), master_key, keys)
            .with_opened_by(protector)
            .with_agent(matches!(source, Unlock::Agent(_))))
    }

    /// Chooses the secret that opens the store: the first of a kind that it accepts. Otherwise the
    /// first of all, so that [`Self::unlock`] names the mismatch. `None` if there is none. An agent
    /// that does not know this store is chosen only if there is nothing else.
    #[must_use]
    pub fn choose(&self, mut secrets: Vec<Unlock>) -> Option<Unlock> {
        let passwords = || self.protectors_of(ProtectorKind::Password).map(|(found, _)| found);
        let is_idle =
            |secret: &Unlock| matches!(secret, Unlock::Agent(at) if !agent_knows(at, passwords()));
        if secrets.len() > 1 {
            secrets.retain(|secret| !is_idle(secret));
        }
        if secrets.is_empty() {
            return None;
        }
        let accepts = self.accepts();
        let fitting = secrets.iter().position(|secret| accepts.contains(&secret.kind()));
        Some(secrets.swap_remove(fitting.unwrap_or(0)))
    }

    /// Opens the store with the secret that the environment or the store's configuration file
    /// names, in the order of [`crate::unlocks_from_environment`]: the first of a kind that the
    /// store accepts. Never prompts on a terminal.
    ///
    /// # Errors
    /// `NoProvider` when nothing is configured, `ProviderMismatch` when no configured secret is of
    /// a kind that the store accepts; those of [`Self::unlock`].
    pub fn unlock_from_environment(&self) -> Result<Unlocked, StoreError> {
        self.unlock_as_configured(from_environment(self.dir())?)
    }

    /// Opens the store for a server that was given a file with its secret: a password or a key.
    /// Without either the environment or the store's configuration file counts.
    ///
    /// # Errors
    /// As [`Self::unlock`] and [`Self::unlock_from_environment`].
    pub fn unlock_for_server(
        &self,
        password_file: Option<&Path>,
        key_file: Option<&Path>,
    ) -> Result<Unlocked, StoreError> {
        match (password_file, key_file) {
            (Some(path), _) => self.unlock(&Unlock::PasswordFile(path.to_owned())),
            (None, Some(path)) => self.unlock(&Unlock::KeyFile(path.to_owned())),
            (None, None) => self.unlock_from_environment(),
        }
    }

    /// Opens the store with a secret from its own configuration file, as
    /// [`crate::unlocks_from_configuration`] returns it: for a process with several stores, to
    /// which the environment's secrets do not belong.
    ///
    /// # Errors
    /// As [`Self::unlock_from_environment`].
    pub fn unlock_by_configuration(&self) -> Result<Unlocked, StoreError> {
        self.unlock_as_configured(from_configuration(self.dir())?)
    }

    fn unlock_as_configured(
        &self,
        (secrets, logs_openings): Configured,
    ) -> Result<Unlocked, StoreError> {
        Ok(self.unlock_with_one_of(secrets)?.with_logs_openings(logs_openings))
    }

    /// Opens the store with the secret that [`Self::choose`] selects.
    ///
    /// # Errors
    /// `NoProvider` where `secrets` is empty; those of [`Self::unlock`].
    pub(crate) fn unlock_with_one_of(&self, secrets: Vec<Unlock>) -> Result<Unlocked, StoreError> {
        match self.choose(secrets) {
            Some(secret) => self.unlock(&secret),
            None => Err(StoreError::NoProvider { accepts: self.accepts() }),
        }
    }

    /// Returns the master key, with the identifier of the protector that opened it.
    fn open_with(&self, provider: &dyn Provider) -> Result<(SecretBytes, [u8; 16]), StoreError> {
        let mut refusal = None;
        for (protector, binding) in self.protectors_of(provider.kind()) {
            match provider.open(protector, &binding) {
                Ok(master_key) => return Ok((master_key, protector.id)),
                // Another key of this service says less than the error of the intended key.
                Err(StoreError::OtherServiceKey { .. }) if refusal.is_some() => {}
                Err(error) => refusal = Some(error),
            }
        }
        let offered = provider.kind();
        let mismatch = || StoreError::ProviderMismatch { offered, accepts: self.accepts() };
        Err(refusal.unwrap_or_else(mismatch))
    }

    /// Adds the other kinds of secret that open the store to the error of a key service.
    fn name_others(&self, error: StoreError, offered: ProtectorKind) -> StoreError {
        match error {
            StoreError::Service { service, reason, .. } => {
                let mut others = self.accepts();
                others.retain(|kind| *kind != offered);
                StoreError::Service { service, reason, others }
            }
            other => other,
        }
    }
}

impl AgentKey {
    /// Returns a key for each protector of `store` that the password of `secret` opens.
    ///
    /// # Errors
    /// `ProviderMismatch` where `secret` is not a password, or the store accepts none;
    /// `WrongPassword`, `BadSecret`, `InsecureFile`, `Io`, `Crypto`.
    pub fn of(store: &KeyStore, secret: &Unlock) -> Result<Vec<Self>, StoreError> {
        let passwords = store.protectors_of(ProtectorKind::Password);
        let Some(keys) = Self::opening(secret, passwords)? else {
            let (offered, accepts) = (secret.kind(), store.accepts());
            return Err(StoreError::ProviderMismatch { offered, accepts });
        };
        if keys.is_empty() {
            // Ends as any other opening by this password does.
            store.unlock(secret)?;
            return Err(StoreError::WrongPassword);
        }
        Ok(keys)
    }
}
