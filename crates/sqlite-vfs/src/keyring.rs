//! Keys of databases, unwrapped once a process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tdekit_key_crypto::{Algorithm, SecretBytes, random_bytes};
use tdekit_key_store::{KeyStore, StoreError, Unlocked, WrappedDek, default_dir};
use tdekit_sqlite_page::header::{commitment, read_all_slots};
use tdekit_sqlite_page::keys::DEK_LEN;
use tdekit_sqlite_page::{DekEntry, DekVersion, FileKeys, Header, PageError, PageSize};

use crate::VfsError;

/// The algorithm and certificates for a new encrypted database.
#[derive(Clone, Debug)]
pub struct NewDatabase {
    /// Names or thumbprints of the certificates that wrap its key.
    pub certificates: Vec<String>,
    /// The algorithm that seals its pages.
    pub algorithm: Algorithm,
    /// Whether its seals are listed and anchored.
    pub freshness: bool,
}

/// A header with its unwrapped keys.
#[derive(Clone)]
pub struct OpenedHeader {
    /// The header.
    pub header: Header,
    /// The keys.
    pub keys: FileKeys,
}

#[derive(Default)]
struct Keyring {
    /// The store that was unlocked last, by its directory.
    unlocked: Option<(PathBuf, Arc<Unlocked>)>,
    /// The store that the program itself unlocked: it is used in place of the environment's.
    given: Option<Arc<Unlocked>>,
    /// Keys by their commitment, which no two keys share.
    deks: HashMap<[u8; 32], Arc<SecretBytes>>,
    /// Headers of the files that this process has opened, as it read them last, by file id.
    files: HashMap<[u8; 16], OpenedHeader>,
}

impl Keyring {
    fn unlocked_at(&self, dir: &Path) -> Option<Arc<Unlocked>> {
        self.unlocked.as_ref().filter(|(d, _)| d == dir).map(|(_, unlocked)| unlocked.clone())
    }

    /// The store that is unlocked already, as it is now on disk: unlocking it again by a password
    /// takes a quarter of a second. `None` if its master key has changed, or while another thread
    /// uses it.
    fn refreshed_at(&mut self, dir: &Path) -> Option<Arc<Unlocked>> {
        let (_, unlocked) = self.unlocked.as_mut().filter(|(d, _)| d == dir)?;
        Arc::get_mut(unlocked)?.refresh().ok()?;
        Some(unlocked.clone())
    }
}

static KEYRING: Mutex<Option<Keyring>> = Mutex::new(None);

/// Has this process use a store that it unlocked itself, whatever the environment names.
pub fn set_unlocked(unlocked: Arc<Unlocked>) {
    with_keyring(|ring| ring.given = Some(unlocked));
}

/// The directory of the key store in use.
pub(crate) fn store_dir() -> Result<PathBuf, VfsError> {
    match with_keyring(|ring| ring.given.clone()) {
        Some(unlocked) => Ok(unlocked.store().dir().to_owned()),
        None => Ok(default_dir()?),
    }
}

/// Reads a header area and unwraps its keys with the key store of the environment. Where the
/// slot with the highest sequence does not authenticate, the other one serves.
pub fn open_header(area: &[u8]) -> Result<OpenedHeader, VfsError> {
    let mut failure = None;
    for header in read_all_slots(area)? {
        match open_slot(header, area) {
            Err(VfsError::Page(error)) => failure = failure.or(Some(error)),
            other => return other,
        }
    }
    Err(failure.unwrap_or(PageError::KeyMismatch).into())
}

fn open_slot(header: Header, area: &[u8]) -> Result<OpenedHeader, VfsError> {
    let mut versions = Vec::with_capacity(header.deks.len());
    for entry in &header.deks {
        let (version, algorithm) = (entry.version, entry.algorithm);
        versions.push(DekVersion { version, algorithm, dek: dek_of(&header, entry)? });
    }
    let keys = FileKeys { file_id: header.file_id, current: header.current, versions };
    header.verify(keys.dek(header.current)?, area)?;
    Ok(note(OpenedHeader { header, keys }))
}

/// Draws a key for a new database, wraps it, and encodes the header area.
pub fn create_header(
    new: &NewDatabase,
    page_size: PageSize,
) -> Result<(OpenedHeader, Vec<u8>), VfsError> {
    let wrap = wrapper()?;
    let dek = Arc::new(SecretBytes::random(DEK_LEN).map_err(PageError::from)?);
    let mut file_id = [0; 16];
    random_bytes(&mut file_id).map_err(PageError::from)?;
    let mut recipients = Vec::with_capacity(new.certificates.len());
    for certificate in &new.certificates {
        recipients.push(wrap(certificate, &dek)?.encode()?);
    }
    let algorithm = new.algorithm;
    let commitment = commitment(&dek, &file_id, algorithm)?;
    let created_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
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
    with_keyring(|ring| ring.deks.insert(commitment, dek.clone()));
    let versions = vec![DekVersion { version: 1, algorithm, dek }];
    let keys = FileKeys { file_id, current: 1, versions };
    Ok((note(OpenedHeader { header, keys }), area))
}

/// The header of the file `file_id` as this process read it last, if it has opened it.
pub fn known_header(file_id: &[u8; 16]) -> Option<OpenedHeader> {
    with_keyring(|ring| ring.files.get(file_id).cloned())
}

fn note(opened: OpenedHeader) -> OpenedHeader {
    with_keyring(|ring| ring.files.insert(opened.header.file_id, opened.clone()));
    opened
}

/// The thumbprints (SHA-256, hexadecimal) of the certificates that wrap the current key.
pub fn recipients_of(header: &Header) -> Vec<String> {
    let Some(entry) = header.dek(header.current) else { return Vec::new() };
    entry
        .recipients
        .iter()
        .filter_map(|bytes| WrappedDek::decode(bytes).ok())
        .map(|(wrapped, _)| wrapped.sha256.iter().map(|b| format!("{b:02x}")).collect())
        .collect()
}

fn dek_of(header: &Header, entry: &DekEntry) -> Result<Arc<SecretBytes>, VfsError> {
    if let Some(dek) = with_keyring(|ring| ring.deks.get(&entry.commitment).cloned()) {
        return Ok(dek);
    }
    let wrapped: Vec<WrappedDek> = entry
        .recipients
        .iter()
        .map(|bytes| Ok(WrappedDek::decode(bytes)?.0))
        .collect::<Result<_, VfsError>>()?;
    let dek = Arc::new(unwrap(&wrapped)?);
    if dek.len() != DEK_LEN
        || commitment(&dek, &header.file_id, entry.algorithm)? != entry.commitment
    {
        return Err(PageError::KeyMismatch.into());
    }
    with_keyring(|ring| ring.deks.insert(entry.commitment, dek.clone()));
    Ok(dek)
}

type Wrap = Box<dyn Fn(&str, &SecretBytes) -> Result<WrappedDek, StoreError>>;

/// Wraps with the unlocked store where the environment can unlock it: that rules out a foreign
/// certificate in a store that others could write. Else with the public half alone.
fn wrapper() -> Result<Wrap, VfsError> {
    if let Some(unlocked) = with_keyring(|ring| ring.given.clone()) {
        return Ok(Box::new(move |name, dek| unlocked.wrap_dek(name, dek)));
    }
    let dir = default_dir()?;
    if let Some(unlocked) = with_keyring(|ring| ring.refreshed_at(&dir)) {
        return Ok(Box::new(move |name, dek| unlocked.wrap_dek(name, dek)));
    }
    let store = KeyStore::open(&dir)?;
    match store.unlock_from_environment() {
        Ok(unlocked) => {
            let unlocked = Arc::new(unlocked);
            with_keyring(|ring| ring.unlocked = Some((dir, unlocked.clone())));
            Ok(Box::new(move |name, dek| unlocked.wrap_dek(name, dek)))
        }
        Err(StoreError::NoProvider { .. }) => {
            Ok(Box::new(move |name, dek| store.wrap_dek(name, dek)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Unwraps with the store that is unlocked already. If there is none, or it lacks the certificate,
/// uses the store as it is now on disk.
fn unwrap(wrapped: &[WrappedDek]) -> Result<SecretBytes, VfsError> {
    if let Some(unlocked) = with_keyring(|ring| ring.given.clone()) {
        return unlocked.unwrap_dek(wrapped).map_err(VfsError::Key);
    }
    let dir = default_dir()?;
    let known = with_keyring(|ring| ring.unlocked_at(&dir));
    if let Some(dek) = known.and_then(|unlocked| unlocked.unwrap_dek(wrapped).ok()) {
        return Ok(dek);
    }
    let opened = KeyStore::open(&dir).and_then(|store| store.unlock_from_environment());
    let unlocked = Arc::new(opened.map_err(VfsError::Key)?);
    let dek = unlocked.unwrap_dek(wrapped).map_err(VfsError::Key)?;
    with_keyring(|ring| ring.unlocked = Some((dir, unlocked)));
    Ok(dek)
}

fn with_keyring<R>(f: impl FnOnce(&mut Keyring) -> R) -> R {
    // The map is consistent after every call, so a panic elsewhere leaves it usable.
    let mut guard: MutexGuard<'_, _> = KEYRING.lock().unwrap_or_else(PoisonError::into_inner);
    f(guard.get_or_insert_with(Keyring::default))
}
