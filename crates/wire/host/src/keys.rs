//! The key store of a server: opened with the operator's secret, or by a client's statement.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tdekit_backup_run::Operator;
use tdekit_key_store::{
    KeyStore, PasswordParams, SecretBytes, StoreError, Unlock, Unlocked, write_new,
};
use tdekit_sqlite::keyring;
use tdekit_wire_tds::messages::ServerError;
use tdekit_wire_tsql::Error;

use super::fault;
use super::files::NoPath;

/// The key store, and its secret.
pub(crate) struct Keys {
    operator: Arc<dyn Operator>,
    /// The secret with which a client opened it, until CLOSE MASTER KEY or the server's end.
    given: Mutex<Option<Arc<Unlock>>>,
    /// The store when it was last opened.
    current: Mutex<Option<Arc<Unlocked>>>,
    cost: PasswordParams,
    /// Names of certificates that were made since the server's start.
    made: Mutex<Vec<String>>,
}

impl Keys {
    pub(crate) fn new(operator: Arc<dyn Operator>, cost: PasswordParams) -> Self {
        let (given, current) = (Mutex::new(None), Mutex::new(None));
        Self { operator, given, current, cost, made: Mutex::default() }
    }

    /// Returns the operator, which names the key store and receives warnings.
    pub(crate) fn operator(&self) -> &dyn Operator {
        &*self.operator
    }

    /// Records that a certificate was made.
    pub(crate) fn note_made(&self, name: &str) {
        locked(&self.made).push(name.to_lowercase());
    }

    /// Returns true if a certificate was made since the server's start.
    pub(crate) fn was_made_here(&self, name: &str) -> bool {
        locked(&self.made).contains(&name.to_lowercase())
    }

    /// Records that a file is gone, so that it needs no certificate any more.
    pub(crate) fn forget_file(&self, path: &Path) -> Result<(), Error> {
        let Some(store) = self.store()? else { return Ok(()) };
        let forget = || -> Result<(), StoreError> {
            for known in store.uses()?.iter().filter(|known| known.path == path) {
                store.forget_use(&known.sha256, known.file_id, path)?;
            }
            Ok(())
        };
        forget().map_err(|failure| fault::of_store(&failure))
    }

    /// Returns the store's directory.
    pub(crate) fn dir(&self) -> Result<PathBuf, Error> {
        self.operator.access().dir().map_err(|failure| fault::of_store(&failure))
    }

    /// Returns true for a path in the store's directory, and for that itself.
    pub(crate) fn is_within(&self, path: &Path) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        let Some(store) = self.dir().ok().and_then(|dir| real(&dir)) else { return false };
        // A file that is not there yet is where its directory is.
        let place = real(path).or_else(|| path.parent().and_then(real));
        place.is_some_and(|place| place.starts_with(store))
    }

    /// Returns the store as anybody may read it; `None` if there is none.
    pub(crate) fn store(&self) -> Result<Option<KeyStore>, Error> {
        match self.operator.open_store() {
            Ok(store) => Ok(Some(store)),
            Err(StoreError::Missing { .. }) => Ok(None),
            Err(failure) => Err(fault::of_store(&failure)),
        }
    }

    /// Returns the current store with its master key open.
    ///
    /// # Errors
    /// `Missing`, `NoProvider` if there is no secret, `WrongPassword` and other errors of
    /// unlocking.
    pub(crate) fn open(&self) -> Result<Arc<Unlocked>, StoreError> {
        let store = self.operator.open_store()?;
        let mut current = locked(&self.current);
        if let Some(unlocked) = current.as_ref() {
            let (ours, theirs) = (unlocked.store().file(), store.file());
            let same = ours.store_id == theirs.store_id
                && ours.master_key.id == theirs.master_key.id
                && ours.sequence == theirs.sequence;
            // CLOSE MASTER KEY clears it, so this value may be used.
            if same {
                return Ok(Arc::clone(unlocked));
            }
        }
        let unlocked = Arc::new(self.unlock(&store)?);
        keyring::set_unlocked(Arc::clone(&unlocked));
        *current = Some(Arc::clone(&unlocked));
        Ok(unlocked)
    }

    /// Returns true if the master key is open, or what the server was given opens it.
    pub(crate) fn are_open(&self) -> bool {
        let known = locked(&self.current).is_some();
        known || self.open().is_ok()
    }

    /// Changes the store, and makes everything here use its new state.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut Unlocked) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let open = || self.unlock(&self.operator.open_store()?);
        let mut unlocked = open().map_err(|failure| fault::of_store(&failure))?;
        let done = change(&mut unlocked)?;
        self.keep(unlocked);
        Ok(done)
    }

    /// `CREATE MASTER KEY`.
    pub(crate) fn create(&self, password: &str) -> Result<(), Error> {
        let secret = secret(password)?;
        let made = KeyStore::create(&self.dir()?, &secret, self.cost);
        let unlocked = made.map_err(|failure| fault::of_store(&failure))?;
        *locked(&self.given) = Some(Arc::new(secret));
        self.keep(unlocked);
        Ok(())
    }

    /// `OPEN MASTER KEY`.
    pub(crate) fn open_with(&self, password: &str) -> Result<(), Error> {
        let secret = secret(password)?;
        let store = self.store()?.ok_or_else(fault::no_master_key)?;
        let unlocked = match store.unlock(&secret) {
            Err(StoreError::ProviderMismatch { .. }) => Err(StoreError::WrongPassword),
            unlocked => unlocked,
        };
        let unlocked = unlocked.map_err(|failure| fault::of_store(&failure))?;
        *locked(&self.given) = Some(Arc::new(secret));
        self.keep(unlocked);
        Ok(())
    }

    /// `CLOSE MASTER KEY`: other secrets that open it belong to the operator.
    pub(crate) fn close(&self) -> Result<(), Error> {
        match locked(&self.given).take() {
            Some(_) => {
                *locked(&self.current) = None;
                Ok(())
            }
            None => Err(ServerError::MasterKeyClosed {}.into()),
        }
    }

    /// `ALTER MASTER KEY REGENERATE`: makes a new master key, which seals every private key, and
    /// which only the password opens.
    pub(crate) fn regenerate(&self, password: &str) -> Result<(), Error> {
        let secret = secret(password)?;
        self.change(|store| {
            let rotated = store.rotate_master_key(&secret, self.cost);
            rotated.map_err(|failure| fault::of_store(&failure))
        })?;
        *locked(&self.given) = Some(Arc::new(secret));
        Ok(())
    }

    /// `BACKUP MASTER KEY`: writes the whole store, as `tdekit key backup` does.
    pub(crate) fn backup(&self, file: PathBuf, password: &str) -> Result<(), Error> {
        let secret = secret(password)?;
        self.change(|store| {
            let failed = |failure: StoreError| fault::of_store(&failure);
            let bytes = store.backup(&secret, self.cost).map_err(failed)?;
            write_new(&file, &bytes).map_err(|_| not_written(&file))?;
            // A copy that does not open is not a backup.
            let read = KeyStore::from_backup(store.store().dir(), bytes);
            let opened = read.and_then(|backup| backup.unlock(&secret)).map_err(failed);
            match opened {
                Ok(opened) => store.mark_all_backed_up(opened.store()).map_err(failed),
                Err(failure) => {
                    let _ = std::fs::remove_file(&file);
                    Err(failure)
                }
            }
        })
    }

    /// `DROP MASTER KEY`: refused while certificates need it.
    pub(crate) fn drop_key(&self) -> Result<(), Error> {
        let Some(store) = self.store()? else {
            return Err(ServerError::NoMasterKeyToDrop {}.into());
        };
        match store.certificates().iter().find(|info| info.has_private_key) {
            Some(info) => Err(ServerError::MasterKeyNeeded { name: info.name.clone() }.into()),
            None => Err(fault::feature("DROP MASTER KEY")),
        }
    }

    fn unlock(&self, store: &KeyStore) -> Result<Unlocked, StoreError> {
        let given = locked(&self.given).clone();
        match given {
            Some(secret) => store.unlock(&secret),
            None => self.operator.access().unlock(store),
        }
    }

    fn keep(&self, unlocked: Unlocked) {
        let unlocked = Arc::new(unlocked);
        keyring::set_unlocked(Arc::clone(&unlocked));
        *locked(&self.current) = Some(unlocked);
    }
}

/// Makes the error of a file that was not written; it may exist already.
pub(crate) fn not_written(file: &std::path::Path) -> Error {
    let (file, reason) = (file.display().to_string(), String::new());
    ServerError::NotWritten { file, reason }.into()
}

/// Makes the same error for a path that names no file here.
pub(crate) fn no_file(file: &str, why: NoPath) -> Error {
    ServerError::NotWritten { file: file.to_owned(), reason: why.reason() }.into()
}

/// Converts a password to a secret.
pub(crate) fn secret_bytes(password: &str) -> Result<SecretBytes, Error> {
    SecretBytes::from_slice(password.as_bytes()).map_err(|failure| fault::own(failure.to_string()))
}

fn secret(password: &str) -> Result<Unlock, Error> {
    Ok(Unlock::Password(secret_bytes(password)?))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
