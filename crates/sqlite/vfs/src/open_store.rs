//! The key store behind a keyring: opened once per process, whichever thread asks first.

use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use tdekit_key_crypto::SecretBytes;
use tdekit_key_store::{KeyStore, StoreError, Unlocked, WrappedDek, default_dir};

/// Interval at which a thread checks whether another has opened the store.
const POLL: Duration = Duration::from_millis(1);

/// Wraps a key for the certificate with a name.
pub(crate) type Wrap = Box<dyn Fn(&str, &SecretBytes) -> Result<WrappedDek, StoreError>>;

/// A key store, and its keys once they are open.
#[derive(Default)]
pub(crate) struct OpenStore {
    /// The directory that connections named, or gave a secret for; `None` for the store of the
    /// environment.
    tenant: Option<PathBuf>,
    state: Mutex<State>,
    opening: Turn,
}

#[derive(Default)]
struct State {
    /// The store that was last unlocked, with its directory.
    unlocked: Option<(PathBuf, Arc<Unlocked>)>,
    /// The store that the program itself unlocked: nothing else opens it.
    given: Option<Arc<Unlocked>>,
}

impl OpenStore {
    /// Makes the state for the store in `dir`, which only its own configuration opens.
    pub(crate) fn of_tenant(dir: PathBuf) -> Self {
        Self { tenant: Some(dir), ..Self::default() }
    }

    /// Returns the directory that connections named.
    pub(crate) fn tenant(&self) -> Option<&Path> {
        self.tenant.as_deref()
    }

    /// Uses a store that the program unlocked itself.
    pub(crate) fn give(&self, unlocked: Arc<Unlocked>) {
        self.state().given = Some(unlocked);
    }

    /// Returns true if the program unlocked it itself.
    pub(crate) fn is_given(&self) -> bool {
        self.state().given.is_some()
    }

    /// Returns the store's directory.
    pub(crate) fn dir(&self) -> Result<PathBuf, StoreError> {
        match (&self.tenant, &self.state().given) {
            (Some(dir), _) => Ok(dir.clone()),
            (None, Some(given)) => Ok(given.store().dir().to_owned()),
            (None, None) => default_dir(),
        }
    }

    /// Returns a function that wraps with the unlocked store if it can be unlocked: that rules out
    /// a foreign certificate in a store that others could write. Otherwise it uses the public half
    /// alone.
    pub(crate) fn wrapper(&self) -> Result<Wrap, StoreError> {
        let given = self.state().given.clone();
        if let Some(unlocked) = given {
            return Ok(Box::new(move |name, dek| unlocked.wrap_dek(name, dek)));
        }
        let dir = self.dir()?;
        let _turn = self.opening.take();
        if let Some(unlocked) = self.refreshed_at(&dir) {
            return Ok(Box::new(move |name, dek| unlocked.wrap_dek(name, dek)));
        }
        let store = KeyStore::open(&dir)?;
        match self.unlock(&store) {
            Ok(unlocked) => {
                let unlocked = Arc::new(unlocked);
                self.state().unlocked = Some((dir, unlocked.clone()));
                Ok(Box::new(move |name, dek| unlocked.wrap_dek(name, dek)))
            }
            Err(StoreError::NoProvider { .. }) => {
                Ok(Box::new(move |name, dek| store.wrap_dek(name, dek)))
            }
            Err(error) => Err(error),
        }
    }

    /// Unwraps with the store that is unlocked already. If there is none, or it lacks the
    /// certificate, uses the current store on disk.
    pub(crate) fn unwrap(&self, wrapped: &[WrappedDek]) -> Result<SecretBytes, StoreError> {
        let given = self.state().given.clone();
        if let Some(unlocked) = given {
            return unlocked.unwrap_dek(wrapped);
        }
        let dir = self.dir()?;
        let known = self.unlocked_at(&dir);
        if let Some(dek) = known.as_ref().and_then(|unlocked| unlocked.unwrap_dek(wrapped).ok()) {
            return Ok(dek);
        }
        let _turn = self.opening.take();
        let meanwhile = self
            .unlocked_at(&dir)
            .filter(|now| known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, now)));
        if let Some(dek) = meanwhile.and_then(|unlocked| unlocked.unwrap_dek(wrapped).ok()) {
            return Ok(dek);
        }
        let unlocked = Arc::new(self.unlock(&KeyStore::open(&dir)?)?);
        let dek = unlocked.unwrap_dek(wrapped)?;
        self.state().unlocked = Some((dir, unlocked));
        Ok(dek)
    }

    /// Returns the unlocked store, if there is one.
    pub(crate) fn known(&self) -> Option<Arc<Unlocked>> {
        let state = self.state();
        let unlocked = state.unlocked.as_ref().map(|(_, unlocked)| unlocked);
        state.given.as_ref().or(unlocked).cloned()
    }

    fn unlock(&self, store: &KeyStore) -> Result<Unlocked, StoreError> {
        match self.tenant {
            Some(_) => store.unlock_by_configuration(),
            None => store.unlock_from_environment(),
        }
    }

    fn unlocked_at(&self, dir: &Path) -> Option<Arc<Unlocked>> {
        let state = self.state();
        state.unlocked.as_ref().filter(|(d, _)| d == dir).map(|(_, unlocked)| unlocked.clone())
    }

    /// Returns the store that is unlocked already, refreshed from disk: unlocking it again by a
    /// password takes a quarter of a second. `None` if its master key has changed, or while another
    /// thread uses it.
    fn refreshed_at(&self, dir: &Path) -> Option<Arc<Unlocked>> {
        let mut state = self.state();
        let (_, unlocked) = state.unlocked.as_mut().filter(|(d, _)| d == dir)?;
        Arc::get_mut(unlocked)?.refresh().ok()?;
        Some(unlocked.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is consistent after every statement, so a panic elsewhere leaves it usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn to open a store. A password takes a quarter of a second, so all others wait; but not
/// the child of a fork, in which no thread is left to return the turn.
#[derive(Default)]
struct Turn {
    taken: Mutex<()>,
    /// The process of the thread that has the turn.
    process: AtomicU32,
}

impl Turn {
    fn take(&self) -> Option<MutexGuard<'_, ()>> {
        loop {
            match self.taken.try_lock() {
                Ok(turn) => return Some(self.mark(turn)),
                Err(TryLockError::Poisoned(turn)) => return Some(self.mark(turn.into_inner())),
                Err(TryLockError::WouldBlock) if self.is_of_parent() => return None,
                Err(TryLockError::WouldBlock) => thread::sleep(POLL),
            }
        }
    }

    fn mark<'a>(&self, turn: MutexGuard<'a, ()>) -> MutexGuard<'a, ()> {
        self.process.store(process::id(), Ordering::Relaxed);
        turn
    }

    fn is_of_parent(&self) -> bool {
        let process = self.process.load(Ordering::Relaxed);
        process != 0 && process != process::id()
    }
}
