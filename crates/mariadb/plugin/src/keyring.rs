//! The server keys of a store: the newest versions without a lock, keys opened once each.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use tdekit_key_store::{KeyStore, ServerKeys, StoreError, Unlocked};

use crate::derive::{Derivation, ServerKey};
use crate::{PluginError, SYSTEM_KEY_ID, report};

/// Minimum interval between checks of the file. A new version is used at most this much later.
const LOOK_EVERY_MS: u64 = 1000;

/// The place of the keys, and the secret that opens them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub(crate) store: PathBuf,
    /// Opens the store; without this and the next field, the environment or `config.toml` does.
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) key_file: Option<PathBuf>,
    /// The certificate that must have signed the keys.
    pub(crate) certificate: Option<String>,
}

/// The server keys of an open store.
pub struct Keyring {
    source: Source,
    current: ArcSwap<Current>,
    secrets: Mutex<Secrets>,
    begun: Instant,
    /// Time of the last check of the file, in milliseconds since `begun`.
    looked_ms: AtomicU64,
}

/// The file's content when it was last read.
struct Current {
    identity: Option<Identity>,
    keys: ServerKeys,
    /// The newest version of each key that could be opened. A version that cannot be opened must
    /// not be reported to the server, which would stop when it could not write a page.
    latest: HashMap<u32, u32>,
}

struct Secrets {
    unlocked: Unlocked,
    opened: HashMap<(u32, u32), ServerKey>,
    /// The refused file, so that it is reported only once.
    refused: Option<Identity>,
}

/// The attributes that distinguish states of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

impl Keyring {
    /// Reads the server keys of a store that is unlocked already.
    ///
    /// # Errors
    /// [`PluginError::NoSystemKey`]; [`PluginError::Store`].
    pub fn of(unlocked: Unlocked) -> Result<Self, PluginError> {
        let store = unlocked.store().dir().to_owned();
        Self::with(Source { store, ..Source::default() }, unlocked)
    }

    /// Opens the store and reads its server keys.
    pub(crate) fn open(source: Source) -> Result<Self, PluginError> {
        let unlocked = unlock(&source)?;
        Self::with(source, unlocked)
    }

    fn with(source: Source, unlocked: Unlocked) -> Result<Self, PluginError> {
        let mut secrets = Secrets { unlocked, opened: HashMap::new(), refused: None };
        let no_key = || PluginError::NoSystemKey { id: SYSTEM_KEY_ID };
        let identity = Identity::of(&secrets.unlocked.store().server_keys_path());
        let keys = secrets.unlocked.store().server_keys()?.ok_or_else(no_key)?;
        check_signer(&source, secrets.unlocked.store(), &keys)?;
        let mut latest = HashMap::new();
        for id in keys.ids() {
            let Some(newest) = keys.latest(id) else { continue };
            secrets.open(&keys, id, newest)?;
            latest.insert(id, newest);
        }
        if !latest.contains_key(&SYSTEM_KEY_ID) {
            return Err(no_key());
        }
        Ok(Self {
            source,
            current: ArcSwap::from_pointee(Current { identity, keys, latest }),
            secrets: Mutex::new(secrets),
            begun: Instant::now(),
            looked_ms: AtomicU64::new(0),
        })
    }

    /// Returns the newest version of a key; `None` for a key that does not exist.
    #[must_use]
    pub fn latest(&self, id: u32) -> Option<u32> {
        self.look_if_due();
        self.current.load().latest.get(&id).copied()
    }

    /// Returns a version of a key.
    ///
    /// # Errors
    /// [`PluginError::NoKey`]; [`PluginError::Store`] if it cannot be opened.
    pub fn key(&self, id: u32, version: u32) -> Result<ServerKey, PluginError> {
        let mut secrets = self.secrets();
        if let Some(key) = secrets.opened.get(&(id, version)) {
            return Ok(key.clone());
        }
        if self.current.load().keys.version(id, version).is_none() {
            // Another node may have made it within this second.
            self.look(&mut secrets);
        }
        let current = self.current.load();
        secrets.open(&current.keys, id, version)
    }

    /// Returns the `file_id` of the server keys.
    pub(crate) fn file_id(&self) -> [u8; 16] {
        *self.current.load().keys.file_id()
    }

    /// Returns the number of keys.
    pub(crate) fn count(&self) -> usize {
        self.current.load().latest.len()
    }

    #[inline]
    fn look_if_due(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let last = self.looked_ms.load(Ordering::Relaxed);
        if now.saturating_sub(last) < LOOK_EVERY_MS {
            return;
        }
        // One thread checks; the others use the known keys.
        let mine = self.looked_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_ok()
            && let Ok(mut secrets) = self.secrets.try_lock()
        {
            self.look(&mut secrets);
        }
    }

    /// Reads the file again if it has changed. The known keys stay in force if that fails.
    fn look(&self, secrets: &mut Secrets) {
        let path = secrets.unlocked.store().server_keys_path();
        let identity = Identity::of(&path);
        let current = self.current.load();
        if identity == current.identity || (identity.is_some() && identity == secrets.refused) {
            return;
        }
        match self.read_again(secrets, &current, identity) {
            Ok(new) => {
                secrets.refused = None;
                self.current.store(Arc::new(new));
            }
            Err(error) => {
                if identity.is_some() || secrets.refused.is_some() {
                    secrets.refused = identity;
                }
                report::error(format_args!(
                    "cannot read the server keys again, and goes on with those it has: {error}"
                ));
            }
        }
    }

    fn read_again(
        &self,
        secrets: &mut Secrets,
        current: &Current,
        identity: Option<Identity>,
    ) -> Result<Current, PluginError> {
        match secrets.unlocked.refresh() {
            Err(StoreError::MasterKeyChanged) => secrets.unlocked = unlock(&self.source)?,
            other => other?,
        }
        let store = secrets.unlocked.store();
        let path = store.server_keys_path();
        let keys = store.server_keys()?.ok_or(StoreError::Missing { path })?;
        check_signer(&self.source, store, &keys)?;
        let mut latest = current.latest.clone();
        for (&id, &known) in &current.latest {
            if keys.latest(id).is_none_or(|newest| newest < known) {
                return Err(StoreError::Corrupt {
                    field: "server keys",
                    reason: format!("version {known} of key {id} is not there any more"),
                }
                .into());
            }
        }
        for id in keys.ids() {
            let Some(newest) = keys.latest(id) else { continue };
            let known = current.latest.get(&id).copied();
            if known == Some(newest) {
                continue;
            }
            match secrets.open(&keys, id, newest) {
                Ok(_) => {
                    latest.insert(id, newest);
                    report::note(format_args!(
                        "version {newest} of key {id} is in use from now on"
                    ));
                }
                Err(error) => report::error(format_args!(
                    "version {newest} of key {id} cannot be opened and is not used: {error}"
                )),
            }
        }
        Ok(Current { identity, keys, latest })
    }

    fn secrets(&self) -> MutexGuard<'_, Secrets> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyring({}, redacted)", self.source.store.display())
    }
}

impl Secrets {
    fn open(&mut self, keys: &ServerKeys, id: u32, version: u32) -> Result<ServerKey, PluginError> {
        if let Some(key) = self.opened.get(&(id, version)) {
            return Ok(key.clone());
        }
        let no_key = || PluginError::NoKey { id, version };
        let derivation = keys.version(id, version).ok_or_else(no_key)?.derivation;
        let derivation = Derivation::of_number(derivation).ok_or(PluginError::Derivation {
            id,
            version,
            number: derivation,
        })?;
        let secret = self.unlocked.server_key(keys, id, version)?.ok_or_else(no_key)?;
        self.unlocked.log_server_key_opening(id, version)?;
        let key = ServerKey { secret: Arc::new(secret), derivation };
        self.opened.insert((id, version), key.clone());
        Ok(key)
    }
}

impl Identity {
    /// Returns `None` if there is no file, or it cannot be examined.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

fn unlock(source: &Source) -> Result<Unlocked, PluginError> {
    if source.store.as_os_str().is_empty() {
        return Err(PluginError::NoKeyStore);
    }
    let store = KeyStore::open(&source.store)?;
    Ok(store.unlock_for_server(source.password_file.as_deref(), source.key_file.as_deref())?)
}

fn check_signer(source: &Source, store: &KeyStore, keys: &ServerKeys) -> Result<(), PluginError> {
    let Some(wanted) = &source.certificate else { return Ok(()) };
    let signed = store.is_generation_of(wanted, keys.signer())?;
    if signed { Ok(()) } else { Err(PluginError::OtherSigner { wanted: wanted.clone() }) }
}
