//! Keys of databases, unwrapped once per process; each key store has its own keyring.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tdekit_key_crypto::{Algorithm, SecretBytes, random_bytes};
use tdekit_key_store::{AuditAction, KeyStore, StoreError, Unlocked, WrappedDek};
use tdekit_sqlite_page::header::{commitment, read_all_slots};
use tdekit_sqlite_page::keys::DEK_LEN;
use tdekit_sqlite_page::{DekEntry, DekVersion, FileKeys, Header, PageError, PageSize};

use crate::VfsError;
use crate::logged::{audited, is_unfinished};
use crate::open_store::OpenStore;

/// The algorithm and certificates for a new encrypted database.
#[derive(Clone, Debug)]
pub struct NewDatabase {
    /// Names or thumbprints of the certificates that wrap its key.
    pub certificates: Vec<String>,
    /// The algorithm for its pages.
    pub algorithm: Algorithm,
    /// True if its seals are listed and anchored.
    pub freshness: bool,
}

/// Time for which the keys of a closed database are kept for its next opening, with the store of
/// the environment: a connection pool may open and close one many times per second.
const KEEP: Duration = Duration::from_secs(10);
/// Maximum number of databases whose keys are kept this way.
const MAX_KEPT: usize = 32;

/// The keyring of the environment's key store, which is permanent.
static DEFAULT: LazyLock<Arc<Keyring>> = LazyLock::new(Arc::default);
/// Keyrings of the stores that connections name, by directory, as long as they have open files.
static TENANTS: Mutex<Rings> = Mutex::new(Rings::new());
/// Keyrings of the stores for which the program gave a secret, likewise.
static GIVEN: Mutex<Rings> = Mutex::new(Rings::new());

type Rings = BTreeMap<PathBuf, Weak<Keyring>>;

/// A header with its unwrapped keys.
#[derive(Clone)]
pub struct OpenedHeader {
    /// The header.
    pub header: Header,
    /// The keys.
    pub keys: FileKeys,
    /// What this process knows of the file. The keys are dropped with its last holder.
    pub(crate) file: Arc<OpenFile>,
}

/// A file that is open in this process, or is about to be.
pub(crate) struct OpenFile {
    ring: Arc<Keyring>,
    /// Header and keys, as this process last read them.
    latest: Mutex<(Header, FileKeys)>,
}

/// A key store and the keys that it has opened. Keyrings do not share keys.
#[derive(Default)]
pub(crate) struct Keyring {
    store: OpenStore,
    files: Mutex<Files>,
}

#[derive(Default)]
struct Files {
    /// Open files by file id.
    open: HashMap<[u8; 16], Weak<OpenFile>>,
    /// Files that were closed, with the time.
    kept: Vec<(Instant, Arc<OpenFile>)>,
}

/// Makes this process use a store that it unlocked itself, regardless of the environment.
pub fn set_unlocked(unlocked: Arc<Unlocked>) {
    DEFAULT.store.give(unlocked);
}

/// Opens the header of a file in `area` with the key store of the environment.
///
/// # Errors
/// Those of the key store, and of a header that does not open.
pub fn open_header(area: &[u8]) -> Result<OpenedHeader, VfsError> {
    DEFAULT.open_header(area)
}

/// Makes the header of a new file with the key store of the environment.
///
/// # Errors
/// Those of the key store.
pub fn create_header(
    new: &NewDatabase,
    page_size: PageSize,
) -> Result<(OpenedHeader, Vec<u8>), VfsError> {
    DEFAULT.create_header(new, page_size)
}

/// Returns the header of the file `file_id` as this process last read it, if it has it open with
/// any store.
pub(crate) fn known_header(file_id: &[u8; 16]) -> Option<OpenedHeader> {
    all().iter().find_map(|ring| ring.known(file_id))
}

/// Opens a header with any of the stores in use: there is no way to know which one is meant.
pub(crate) fn open_header_by_any(area: &[u8]) -> Result<OpenedHeader, VfsError> {
    let mut failure = None;
    for ring in all() {
        match ring.open_header(area) {
            Err(error) => failure = failure.or(Some(error)),
            opened => return opened,
        }
    }
    Err(failure.unwrap_or(PageError::KeyMismatch.into()))
}

/// Returns all keyrings, the environment's first.
fn all() -> Vec<Arc<Keyring>> {
    let mut rings = vec![DEFAULT.clone()];
    for each in [&TENANTS, &GIVEN] {
        rings.extend(locked(each).values().filter_map(Weak::upgrade));
    }
    rings
}

fn locked(rings: &'static Mutex<Rings>) -> MutexGuard<'static, Rings> {
    // The map is consistent after every call, so a panic elsewhere leaves it usable.
    rings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the keyring of the store in `dir`, or a new one.
fn ring_of(rings: &'static Mutex<Rings>, dir: PathBuf) -> Arc<Keyring> {
    let mut rings = locked(rings);
    if let Some(ring) = rings.get(&dir).and_then(Weak::upgrade) {
        return ring;
    }
    let store = OpenStore::of_tenant(dir.clone());
    let ring = Arc::new(Keyring { store, files: Mutex::default() });
    rings.retain(|_, ring| ring.strong_count() > 0);
    rings.insert(dir, Arc::downgrade(&ring));
    ring
}

/// Returns the thumbprints (SHA-256, hexadecimal) of the certificates that wrap the current key.
pub fn recipients_of(header: &Header) -> Vec<String> {
    let Some(entry) = header.dek(header.current) else { return Vec::new() };
    entry
        .recipients
        .iter()
        .filter_map(|bytes| WrappedDek::decode(bytes).ok())
        .map(|(wrapped, _)| hex::encode(wrapped.sha256))
        .collect()
}

impl OpenFile {
    /// Returns the keyring that has its keys.
    pub(crate) fn ring(&self) -> &Arc<Keyring> {
        &self.ring
    }

    /// Returns its header, as this process last read it.
    pub(crate) fn header(&self) -> Header {
        self.latest().0.clone()
    }

    fn latest(&self) -> MutexGuard<'_, (Header, FileKeys)> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the key with a commitment; no two keys have the same one.
    fn dek(&self, commitment: &[u8; 32]) -> Option<Arc<SecretBytes>> {
        let latest = self.latest();
        let (header, keys) = &*latest;
        let entry = header.deks.iter().find(|entry| entry.commitment == *commitment)?;
        let known = keys.versions.iter().find(|known| known.version == entry.version)?;
        Some(known.dek.clone())
    }
}

impl Keyring {
    /// Returns the keyring of the store that a connection names by its directory, or of the
    /// environment's.
    ///
    /// # Errors
    /// `Setting` if the name is empty, `Tenant` if there is no such directory.
    pub(crate) fn of(home: Option<&str>) -> Result<Arc<Self>, VfsError> {
        let Some(home) = home else { return Ok(DEFAULT.clone()) };
        if home.is_empty() {
            return Err(VfsError::Setting { what: "tdekit_home", value: String::new() });
        }
        // By its canonical name: each store is opened once, whatever path leads to it.
        let dir = Path::new(home).canonicalize().map_err(|source| {
            let (home, path) = (PathBuf::from(home), PathBuf::from(home));
            let error = Box::new(StoreError::Io { action: "find", path, source });
            VfsError::Tenant { home, error }
        })?;
        let of_environment = DEFAULT.store.dir().ok().and_then(|dir| dir.canonicalize().ok());
        if of_environment.as_ref() == Some(&dir) {
            return Ok(DEFAULT.clone());
        }
        Ok(ring_of(&TENANTS, dir))
    }

    /// Returns the keyring of the store in `dir`, which the program opened by a secret of its own.
    pub(crate) fn of_given(dir: PathBuf, unlocked: Arc<Unlocked>) -> Arc<Self> {
        let ring = ring_of(&GIVEN, dir);
        ring.store.give(unlocked);
        ring
    }

    /// Returns the directory of the key store.
    ///
    /// # Errors
    /// `Store` with `NoHome`.
    pub(crate) fn dir(&self) -> Result<PathBuf, VfsError> {
        Ok(self.store.dir()?)
    }

    /// Returns the directory, if a connection named it or gave a secret for it.
    pub(crate) fn tenant(&self) -> Option<&Path> {
        self.store.tenant()
    }

    /// Reads a header area and unwraps its keys. If the slot with the highest sequence does not
    /// authenticate, uses the other one.
    pub(crate) fn open_header(self: &Arc<Self>, area: &[u8]) -> Result<OpenedHeader, VfsError> {
        let mut failure = None;
        for header in read_all_slots(area)? {
            match self.open_slot(header, area) {
                Err(VfsError::Page(error)) => failure = failure.or(Some(error)),
                other => return other,
            }
        }
        Err(failure.unwrap_or(PageError::KeyMismatch).into())
    }

    /// Draws a key for a new database, wraps it, and encodes the header area.
    pub(crate) fn create_header(
        self: &Arc<Self>,
        new: &NewDatabase,
        page_size: PageSize,
    ) -> Result<(OpenedHeader, Vec<u8>), VfsError> {
        let dek = Arc::new(SecretBytes::random(DEK_LEN).map_err(PageError::from)?);
        let mut file_id = [0; 16];
        random_bytes(&mut file_id).map_err(PageError::from)?;
        let recipients = self.wrap(&new.certificates, &dek).map_err(|e| self.failed(e.into()))?;
        let algorithm = new.algorithm;
        let commitment = commitment(&dek, &file_id, algorithm)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let created_unix_s = now.map_or(0, |d| d.as_secs());
        let header = Header {
            sequence: 1,
            file_id,
            algorithm,
            page_size,
            current: 1,
            freshness: new.freshness,
            deks: vec![DekEntry { version: 1, created_unix_s, algorithm, commitment, recipients }],
        };
        let area = header.encode_area(&dek)?;
        let versions = vec![DekVersion { version: 1, algorithm, dek }];
        let keys = FileKeys { file_id, current: 1, versions };
        Ok((self.note(header, keys), area))
    }

    /// Fails if the key store cannot wrap a key for the certificates of `new`.
    pub(crate) fn check(&self, new: &NewDatabase) -> Result<(), VfsError> {
        let dek = SecretBytes::random(DEK_LEN).map_err(PageError::from)?;
        self.wrap(&new.certificates, &dek).map(drop).map_err(|error| self.failed(error.into()))
    }

    /// Logs the opening of the database at `path`, if the key store asks for it.
    ///
    /// # Errors
    /// `Store` or `Tenant`: the database must not be opened.
    pub(crate) fn log_opening(&self, path: &[u8], header: &Header) -> Result<(), VfsError> {
        let path = Path::new(OsStr::from_bytes(path));
        match self.store.known() {
            Some(unlocked) if !is_unfinished(path) => unlocked
                .log_opening(&header.file_id, || audited(path, header, unlocked.store()))
                .map_err(|error| self.failed(error.into())),
            _ => Ok(()),
        }
    }

    /// Logs that the database at `path` gets the key of `header`. A process that has only the
    /// certificates, or cannot write to the key store's directory, cannot log; both may make
    /// databases.
    ///
    /// # Errors
    /// `Store` or `Tenant`: the database must not be made.
    pub(crate) fn log_creation(&self, path: &[u8], header: &Header) -> Result<(), VfsError> {
        let path = Path::new(OsStr::from_bytes(path));
        match self.store.known() {
            Some(unlocked) if !is_unfinished(path) => unlocked
                .log_database(AuditAction::Created, &audited(path, header, unlocked.store()))
                .map(drop)
                .map_err(|error| self.failed(error.into())),
            _ => Ok(()),
        }
    }

    /// Records that the certificates of `header` wrap the key of the database at `path`, if the key
    /// store's directory is writable: this serves to refuse dropping one.
    pub(crate) fn note_creation(&self, path: &[u8], header: &Header) {
        let path = Path::new(OsStr::from_bytes(path));
        if is_unfinished(path) {
            return;
        }
        let note = |store: &KeyStore| {
            for bytes in header.deks.iter().flat_map(|dek| &dek.recipients) {
                if let Ok((wrapped, _)) = WrappedDek::decode(bytes) {
                    let _ = store.record_use(&wrapped.sha256, header.file_id, path);
                }
            }
        };
        match self.store.known() {
            Some(unlocked) => note(unlocked.store()),
            None => {
                if let Ok(store) = self.dir().and_then(|dir| Ok(KeyStore::open(&dir)?)) {
                    note(&store);
                }
            }
        }
    }

    /// Called when a connection's file was closed: keeps the keys for a while if the store stays
    /// open anyway. A tenant's keys are dropped with its last connection.
    pub(crate) fn closed(&self, file: &Arc<OpenFile>) {
        let mut files = self.files();
        if self.tenant().is_none() {
            files.kept.retain(|(_, kept)| !Arc::ptr_eq(kept, file));
            files.kept.push((Instant::now(), file.clone()));
        }
        files.expire();
    }

    fn known(&self, file_id: &[u8; 16]) -> Option<OpenedHeader> {
        let file = self.files().open.get(file_id).and_then(Weak::upgrade)?;
        let (header, keys) = file.latest().clone();
        Some(OpenedHeader { header, keys, file })
    }

    fn open_slot(self: &Arc<Self>, header: Header, area: &[u8]) -> Result<OpenedHeader, VfsError> {
        let known = self.files().open.get(&header.file_id).and_then(Weak::upgrade);
        let mut versions = Vec::with_capacity(header.deks.len());
        for entry in &header.deks {
            let dek = match known.as_ref().and_then(|file| file.dek(&entry.commitment)) {
                Some(dek) => dek,
                None => self.unwrap(&header, entry)?,
            };
            let (version, algorithm) = (entry.version, entry.algorithm);
            versions.push(DekVersion { version, algorithm, dek });
        }
        let keys = FileKeys { file_id: header.file_id, current: header.current, versions };
        header.verify(keys.dek(header.current)?, area)?;
        Ok(self.note(header, keys))
    }

    fn note(self: &Arc<Self>, header: Header, keys: FileKeys) -> OpenedHeader {
        let mut files = self.files();
        files.expire();
        let file = match files.open.get(&header.file_id).and_then(Weak::upgrade) {
            Some(file) => {
                *file.latest() = (header.clone(), keys.clone());
                file
            }
            None => {
                let latest = Mutex::new((header.clone(), keys.clone()));
                let file = Arc::new(OpenFile { ring: self.clone(), latest });
                files.open.retain(|_, file| file.strong_count() > 0);
                files.open.insert(header.file_id, Arc::downgrade(&file));
                file
            }
        };
        OpenedHeader { header, keys, file }
    }

    fn wrap(&self, certificates: &[String], dek: &SecretBytes) -> Result<Vec<Vec<u8>>, StoreError> {
        let wrap = self.store.wrapper()?;
        certificates.iter().map(|certificate| wrap(certificate, dek)?.encode()).collect()
    }

    fn unwrap(&self, header: &Header, entry: &DekEntry) -> Result<Arc<SecretBytes>, VfsError> {
        let wrapped: Vec<WrappedDek> = entry
            .recipients
            .iter()
            .map(|bytes| Ok(WrappedDek::decode(bytes)?.0))
            .collect::<Result<_, VfsError>>()?;
        let dek = self.store.unwrap(&wrapped).map_err(|e| self.failed(VfsError::Key(e)))?;
        if dek.len() != DEK_LEN
            || commitment(&dek, &header.file_id, entry.algorithm)? != entry.commitment
        {
            return Err(PageError::KeyMismatch.into());
        }
        Ok(Arc::new(dek))
    }

    /// Adds the key store's directory to its error if only its own configuration opens it.
    fn failed(&self, error: VfsError) -> VfsError {
        match (self.tenant().filter(|_| !self.store.is_given()), error) {
            (Some(home), VfsError::Key(error) | VfsError::Store(error)) => {
                VfsError::Tenant { home: home.to_owned(), error: Box::new(error) }
            }
            (_, error) => error,
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files {
    /// Drops keys that were kept long enough.
    fn expire(&mut self) {
        let spare = self.kept.len().saturating_sub(MAX_KEPT);
        self.kept.drain(..spare);
        self.kept.retain(|(since, _)| since.elapsed() < KEEP);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn note(ring: &Arc<Keyring>, id: u8) -> OpenedHeader {
        let (file_id, algorithm) = ([id; 16], Algorithm::Aes256);
        let page_size = PageSize::new(4096).unwrap();
        let (current, freshness, deks) = (1, false, Vec::new());
        let header =
            Header { sequence: 1, file_id, algorithm, page_size, current, freshness, deks };
        ring.note(header, FileKeys { file_id, current, versions: Vec::new() })
    }

    #[test]
    fn keys_of_closed_databases_are_kept_for_a_while() {
        let ring = Arc::new(Keyring::default());
        let (closed, open) = (note(&ring, 1).file, note(&ring, 2));
        ring.closed(&closed);
        ring.closed(&open.file);
        drop(closed);
        assert!(ring.known(&[1; 16]).is_some());
        for (since, _) in &mut ring.files().kept {
            *since = since.checked_sub(KEEP).unwrap();
        }
        drop(note(&ring, 3));
        assert!(ring.known(&[1; 16]).is_none() && ring.known(&[2; 16]).is_some());
        for id in 10..50 {
            ring.closed(&note(&ring, id).file);
        }
        assert_eq!((10..50).filter(|id| ring.known(&[*id; 16]).is_some()).count(), MAX_KEPT);
    }

    #[test]
    fn those_of_a_named_store_are_not() {
        let store = OpenStore::of_tenant("/nowhere".into());
        let ring = Arc::new(Keyring { store, files: Mutex::default() });
        ring.closed(&note(&ring, 1).file);
        assert!(ring.known(&[1; 16]).is_none());
    }
}
