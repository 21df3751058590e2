//! The key store that a user means, and the secret that opens it.

use std::env;
use std::path::PathBuf;

use crate::{KeyStore, StoreError, Unlock, Unlocked, default_dir, unlocks_from_environment};

/// A key store as named by arguments. The environment and the configuration beside the store supply
/// the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreAccess {
    /// Its directory; `None` for [`default_dir`].
    pub dir: Option<PathBuf>,
    /// File with the password that opens the store.
    pub password_file: Option<PathBuf>,
    /// File with the key that opens the store; used only without `password_file`.
    pub key_file: Option<PathBuf>,
}

impl StoreAccess {
    /// Returns the directory, which may not exist.
    ///
    /// # Errors
    /// `NoHome`.
    pub fn dir(&self) -> Result<PathBuf, StoreError> {
        match &self.dir {
            Some(dir) => Ok(dir.clone()),
            None => default_dir(),
        }
    }

    /// As [`Self::dir`], for callers that keep other things there than keys. The default directory
    /// is made when needed. A directory that the user named is made only with a new key store: a
    /// name that leads nowhere is more likely wrong than new.
    ///
    /// # Errors
    /// `Missing` where a directory was named and does not exist; `NoHome`.
    pub fn kept_dir(&self) -> Result<PathBuf, StoreError> {
        let dir = self.dir()?;
        let by_variable = env::var_os("TDEKIT_HOME").is_some_and(|value| !value.is_empty());
        if (self.dir.is_some() || by_variable) && !dir.is_dir() {
            return Err(StoreError::Missing { path: dir });
        }
        Ok(dir)
    }

    /// Reads the store; needs no secret.
    ///
    /// # Errors
    /// Those of [`KeyStore::open`].
    pub fn open(&self) -> Result<KeyStore, StoreError> {
        KeyStore::open(&self.dir()?)
    }

    /// Returns the named or configured secrets, in order of precedence. A file that is named here
    /// rules out all others.
    ///
    /// # Errors
    /// Those of [`unlocks_from_environment`].
    pub fn secrets(&self) -> Result<Vec<Unlock>, StoreError> {
        if let Some(path) = &self.password_file {
            return Ok(vec![Unlock::PasswordFile(path.clone())]);
        }
        if let Some(path) = &self.key_file {
            return Ok(vec![Unlock::KeyFile(path.clone())]);
        }
        unlocks_from_environment(&self.dir()?)
    }

    /// Opens the master key of `store` with the first of [`Self::secrets`] whose kind fits. Never
    /// prompts.
    ///
    /// # Errors
    /// `NoProvider` where there is no secret; those of [`KeyStore::unlock`].
    pub fn unlock(&self, store: &KeyStore) -> Result<Unlocked, StoreError> {
        store.unlock_with_one_of(self.secrets()?)
    }
}
