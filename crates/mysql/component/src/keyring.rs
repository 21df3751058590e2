//! The keys of one server, as it uses them: held sealed, opened one at a time.

use std::path::{Path, PathBuf};

use tdekit_key_store::{
    FileKey, KeyName, KeyStore, MARK_FILE, NamedKeys, SecretBytes, StoreError, Unlocked, read_mark,
    write_mark,
};

use crate::{ComponentError, Config, report};

/// A file that every data directory of InnoDB has, once it has data.
const SYSTEM_FILE: &str = "ibdata1";
/// The names with which the server's own keys begin: those of InnoDB and of binary logs.
const SERVER_KEYS: [&str; 2] = ["INNODBKey", "MySQLReplicationKey"];

/// The open keyring.
pub struct Keyring {
    config: Config,
    data: PathBuf,
    unlocked: Unlocked,
    /// `None` until the first key is stored.
    current: Option<Current>,
    /// True if the data directory has its mark, or must not get one.
    marked: bool,
}

/// The stored keys, as last read.
struct Current {
    keys: NamedKeys,
    file_key: FileKey,
}

/// A key, opened.
#[derive(Debug)]
pub struct Key {
    /// Its use in the server's words, such as `AES`.
    pub kind: String,
    /// Its bytes.
    pub secret: SecretBytes,
}

impl Keyring {
    /// Opens the key store that the configuration names, for the server on the directory `data`.
    ///
    /// # Errors
    /// `OtherKeys` if the data belongs to other keys; `OtherSigner`; those of [`Config::find`] and
    /// of the key store.
    pub fn open(plugins: &Path, data: &Path) -> Result<Self, ComponentError> {
        let config = Config::find(plugins, data)?;
        let unlocked = unlock(&config)?;
        let mut keyring =
            Self { config, data: data.to_owned(), unlocked, current: None, marked: false };
        keyring.current = match keyring.stored()? {
            Some(keys) => Some(keyring.checked(keys)?),
            None => None,
        };
        keyring.marked = keyring.check_mark()?;
        Ok(keyring)
    }

    /// As [`Self::open`], in the place of a keyring in use, which stays as it is on an error.
    ///
    /// # Errors
    /// As there; `Gone`, `Older` if the stored keys do not follow those in use.
    pub fn reopen(&mut self, plugins: &Path, data: &Path) -> Result<(), ComponentError> {
        let new = Self::open(plugins, data)?;
        self.check_successor(new.current.as_ref().map(|current| &current.keys))?;
        *self = new;
        Ok(())
    }

    /// Returns a key; `None` if there is none of this name.
    ///
    /// # Errors
    /// `Store` if its seal does not hold, or if its opening has to be logged and cannot be.
    pub fn get(&mut self, name: &KeyName) -> Result<Option<Key>, ComponentError> {
        let Some(Current { keys, file_key }) = &self.current else { return Ok(None) };
        let Some((key, secret)) = keys.open(file_key, name)? else { return Ok(None) };
        self.unlocked.log_named_key_opening(keys, name)?;
        let key = Key { kind: key.kind.clone(), secret };
        self.prove(name);
        Ok(Some(key))
    }

    /// Stores a key. When this returns, it is on disk.
    ///
    /// # Errors
    /// `Taken`; `Store` for what the key store refuses; `Gone`, `Older`, `OtherSigner` if somebody
    /// else changed the stored keys.
    pub fn add(
        &mut self,
        name: &KeyName,
        kind: &str,
        secret: &SecretBytes,
    ) -> Result<(), ComponentError> {
        let added = self.change(|unlocked, config| {
            let (space, certificate) = (&config.namespace, &config.certificate);
            unlocked.add_named_key(space, certificate, name, kind, secret).map(Some)
        });
        match added {
            // The store refused the name, and the keys were read again.
            Err(ComponentError::Store(StoreError::InvalidValue { .. })) if self.has(name) => {
                return Err(ComponentError::Taken { id: name.id.clone() });
            }
            other => other?,
        }
        self.prove(name);
        Ok(())
    }

    /// Removes a key, if there is one. When this returns, that is on disk.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn remove(&mut self, name: &KeyName) -> Result<(), ComponentError> {
        self.change(|unlocked, config| {
            let (space, certificate) = (&config.namespace, &config.certificate);
            unlocked.remove_named_key(space, certificate, name).map(|(keys, _)| keys)
        })
    }

    /// The names of all keys, in order.
    #[must_use]
    pub fn names(&self) -> Vec<KeyName> {
        let keys = self.current.iter().flat_map(|current| current.keys.iter());
        keys.map(|(name, _)| name.clone()).collect()
    }

    /// The place of the keys, and the secret that opens them.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn has(&self, name: &KeyName) -> bool {
        self.current.as_ref().is_some_and(|current| current.keys.contains(name))
    }

    fn change(
        &mut self,
        work: impl FnOnce(&Unlocked, &Config) -> Result<Option<NamedKeys>, StoreError>,
    ) -> Result<(), ComponentError> {
        match self.unlocked.refresh() {
            Err(StoreError::MasterKeyChanged) => self.unlocked = unlock(&self.config)?,
            other => other?,
        }
        self.adopt_stored()?;
        match work(&self.unlocked, &self.config) {
            Ok(keys) => self.adopt(keys),
            Err(error) => {
                // The key may be stored although something after that failed.
                if let Err(error) = self.adopt_stored() {
                    report::error(format_args!("cannot read the keys again: {error}"));
                }
                Err(error.into())
            }
        }
    }

    /// Reads the keys in the store, which another program may have changed.
    fn adopt_stored(&mut self) -> Result<(), ComponentError> {
        let stored = self.stored()?;
        self.check_successor(stored.as_ref())?;
        self.adopt(stored)
    }

    fn adopt(&mut self, keys: Option<NamedKeys>) -> Result<(), ComponentError> {
        let is_known = |keys: &NamedKeys| self.current.as_ref().is_some_and(|it| it.keys == *keys);
        if let Some(keys) = keys.filter(|keys| !is_known(keys)) {
            self.current = Some(self.checked(keys)?);
        }
        Ok(())
    }

    fn stored(&self) -> Result<Option<NamedKeys>, ComponentError> {
        Ok(self.unlocked.store().named_keys(&self.config.namespace)?)
    }

    fn checked(&self, keys: NamedKeys) -> Result<Current, ComponentError> {
        let wanted = &self.config.certificate;
        if !self.unlocked.store().is_generation_of(wanted, keys.signer())? {
            return Err(ComponentError::OtherSigner { wanted: wanted.clone() });
        }
        let file_key = self.unlocked.open_named_keys(&keys)?;
        Ok(Current { keys, file_key })
    }

    fn check_successor(&self, new: Option<&NamedKeys>) -> Result<(), ComponentError> {
        let Some(Current { keys, .. }) = &self.current else { return Ok(()) };
        let new = new.filter(|new| new.file_id() == keys.file_id()).ok_or(ComponentError::Gone)?;
        let (found, known) = (new.sequence(), keys.sequence());
        if found < known {
            return Err(ComponentError::Older { found, known });
        }
        Ok(())
    }

    /// Compares the data directory's mark, if there is one, with the keys. Returns whether the mark
    /// is settled.
    fn check_mark(&self) -> Result<bool, ComponentError> {
        let ours = self.current.as_ref().map(|current| *current.keys.file_id());
        match read_mark(&self.data) {
            Ok(None) => Ok(false),
            Ok(Some(found)) if Some(found) == ours => Ok(true),
            Ok(Some(found)) => Err(ComponentError::OtherKeys {
                path: self.data.join(MARK_FILE),
                found: hex::encode(found),
                ours: ours.map_or_else(|| "none".to_owned(), hex::encode),
                namespace: self.config.namespace.clone(),
            }),
            Err(error) => {
                report::warning(format_args!("the mark of the data's keys is not used: {error}"));
                Ok(true)
            }
        }
    }

    /// Marks the data directory, once the server has used a key of its own: the data belongs to
    /// these keys.
    fn prove(&mut self, name: &KeyName) {
        let is_servers = SERVER_KEYS.iter().any(|prefix| name.id.starts_with(prefix));
        if self.marked || !is_servers || !self.data.join(SYSTEM_FILE).exists() {
            return;
        }
        let Some(Current { keys, .. }) = &self.current else { return };
        self.marked = true;
        if let Err(error) = write_mark(&self.data, keys.file_id()) {
            report::warning(format_args!("the mark of the data's keys is not written: {error}"));
        }
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyring({}, redacted)", self.config.store.display())
    }
}

fn unlock(config: &Config) -> Result<Unlocked, ComponentError> {
    let (password_file, key_file) = (config.password_file.as_deref(), config.key_file.as_deref());
    Ok(KeyStore::open(&config.store)?.unlock_for_server(password_file, key_file)?)
}
