//! The properties of a database file that are known without opening it, as in
//! `sys.dm_database_encryption_keys` and `sys.certificates`.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use tdekit_key_crypto::{Algorithm, fips, gcm_library};
use tdekit_key_store::{
    CertificateInfo, KeyStore, Unlocked, WrappedDek, expires_soon, iso8601, thumbprint,
};
use tdekit_sqlite_page::header::decode_slot;
use tdekit_sqlite_page::{Header, PageCodec, PageSize, SLOT_COUNT, SLOT_LEN};

use crate::error::{DatabaseError, io_error};
use crate::inspect::{FileKind, header_of, open_header, read_area, serving_slots, wrapped_of};
use crate::known::{Known, lost, place_under_link, problem};
use crate::source::database_path;
use crate::system::SystemSqlite;
use crate::target::with_suffix;
use crate::versions::{page_size_in, pages_by_key_version};
use crate::watch::Unwatched;

/// Numbers and names of `encryption_state` in `sys.dm_database_encryption_keys`.
const UNENCRYPTED: (u8, &str) = (1, "UNENCRYPTED");
const ENCRYPTED: (u8, &str) = (3, "ENCRYPTED");
const KEY_CHANGE: (u8, &str) = (4, "KEY_CHANGE_IN_PROGRESS");

/// The state of one database.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Its resolved path.
    #[serde(serialize_with = "crate::path_text::path_text")]
    pub path: PathBuf,
    /// Number of the state.
    pub encryption_state: u8,
    /// Name of the state.
    pub encryption_state_desc: &'static str,
    /// Progress of a key change: percentage of the main file's pages that are sealed under the new
    /// key. 0 if there is none, as in SQL Server.
    pub percent_complete: u8,
    /// Page size in bytes, if the file has pages.
    pub page_size: Option<u32>,
    /// Properties of an encrypted file.
    pub encryption: Option<Encryption>,
    /// Size of the write-ahead log beside it, if there is one.
    pub wal_bytes: Option<u64>,
    /// Size of the rollback journal beside it, if there is one.
    pub journal_bytes: Option<u64>,
    /// Size of the file.
    pub size_bytes: u64,
    /// The fault in words, where the key store knows an encrypted file at this path and this is not
    /// it, or not whole.
    pub problem: Option<&'static str>,
    /// The cryptographic library of this program.
    pub library: Library,
    /// The machine's SQLite library, if it has one. This program has its own.
    pub sqlite: Option<SystemSqlite>,
}

/// The cryptographic library of this program, and its status under FIPS 140-3.
#[derive(Debug, Serialize)]
pub struct Library {
    /// Name and version, as reported by the library.
    pub version: String,
    /// True for a FIPS module, which passed its self-tests.
    pub fips_module: bool,
    /// True if this build refuses what FIPS 140-3 does not approve.
    pub fips_build: bool,
    /// The library that seals pages by AES-128-GCM and AES-256-GCM on this processor.
    pub aes_gcm: String,
}

impl Library {
    fn of_this_program() -> Self {
        let fips::Library { version, is_fips_module } = fips::library();
        Self {
            version,
            fips_module: is_fips_module,
            fips_build: fips::IS_FIPS_BUILD,
            aes_gcm: gcm_library().to_string(),
        }
    }
}

/// The fields of an encrypted database's header.
#[derive(Debug, Serialize)]
pub struct Encryption {
    /// Algorithm for new pages, which belongs to the key in force.
    pub algorithm: &'static str,
    /// All algorithms that pages may still be sealed with: more than one during a change to another
    /// algorithm.
    pub algorithms: Vec<&'static str>,
    /// The version of the key in force.
    pub key_version: u32,
    /// Creation time of that key.
    pub key_created_at: String,
    /// The same in seconds since 1970.
    #[serde(skip)]
    pub key_created: Option<i64>,
    /// Versions that pages may still name.
    pub key_versions: Vec<u32>,
    /// The kind of object that wraps the key.
    pub encryptor_type: &'static str,
    /// The certificates that wrap it.
    pub certificates: Vec<Certificate>,
    /// The file's identifier, hexadecimal.
    pub file_id: String,
    /// Version of the file's format.
    pub format_version: u16,
    /// True if the file has freshness: an older state that is restored is detected.
    pub freshness: bool,
    /// Number of intact header slots, of two: those that would be valid alone; without the key,
    /// those whose checksum is correct.
    pub intact_header_slots: usize,
    /// True if the configured key store opens its keys.
    pub key_opens: bool,
    /// Reason why it does not.
    pub key_problem: Option<String>,
}

/// A certificate that wraps the current key.
#[derive(Debug, Serialize)]
pub struct Certificate {
    /// Its name; null if the store does not know it.
    pub name: Option<String>,
    /// Its generation under that name.
    pub generation: Option<u32>,
    /// True if it is the one that wraps new keys.
    pub active: Option<bool>,
    /// SHA-1, as SQL Server shows it.
    pub thumbprint: String,
    /// SHA-256, which nobody can forge.
    pub thumbprint_sha256: String,
    /// True if the store has its private key.
    pub has_private_key: bool,
    /// Time of its last backup.
    pub backed_up_at: Option<String>,
    /// End of its validity.
    pub expires_at: Option<String>,
    /// The same in seconds since 1970.
    #[serde(skip)]
    pub not_after: Option<i64>,
    /// Days until then, if it is soon.
    pub expires_in_days: Option<i64>,
}

/// The key store, if it exists and opens without a prompt. Read on first use.
pub struct Store<'a> {
    /// The store as anyone may read it, or the reason why it cannot be read.
    pub store: Lazy<'a, KeyStore>,
    /// The store with its master key open, or the reason why it does not open.
    pub unlocked: Lazy<'a, Arc<Unlocked>>,
    /// The encrypted files that the store knows; empty if it cannot be read.
    pub known: LazyCell<Known, Box<dyn FnOnce() -> Known + 'a>>,
}

/// A value that is made on first use, or the reason why it cannot be, in words.
pub type Lazy<'a, T> = LazyCell<Result<T, String>, Box<dyn FnOnce() -> Result<T, String> + 'a>>;

/// Reads the state of the database `name`. Takes no lock and changes nothing.
///
/// # Errors
/// `Lost` if the store knows the file and it is gone or overwritten; `NotAFile`, `NotADatabase`,
/// `Header` when neither slot is intact, `Io`.
pub fn status(name: &Path, store: &Store<'_>) -> Result<Status, DatabaseError> {
    let mut status = facts(name, store).map_err(|error| lost(name, error, store))?;
    status.problem = problem(name, &status, store);
    // It is the known one's problem, not that of the file to which the link leads.
    if let (Some(_), Some(place)) = (status.problem, place_under_link(name, store)) {
        status.path = place;
    }
    Ok(status)
}

fn facts(name: &Path, store: &Store<'_>) -> Result<Status, DatabaseError> {
    let path = database_path(name)?;
    let file = fs::File::open(&path).map_err(io_error("open", &path))?;
    let area = read_area(&file).map_err(io_error("read", &path))?;
    let size_bytes = file.metadata().map_err(io_error("examine", &path))?.len();
    let mut percent_complete = 0;
    let ((encryption_state, encryption_state_desc), page_size, encryption) =
        match FileKind::of(&area) {
            FileKind::Encrypted => {
                let (encryption, page_size) = describe(&path, &area, &file, store)?;
                let mut state = ENCRYPTED;
                if encryption.key_versions.len() > 1 {
                    state = KEY_CHANGE;
                    let pages = pages_by_key_version(&path, &file, page_size, &Unwatched)?;
                    percent_complete = percent(&pages, encryption.key_version);
                }
                (state, Some(page_size.bytes()), Some(encryption))
            }
            FileKind::Plain => (UNENCRYPTED, plain_page_size(&area), None),
            FileKind::Empty => (UNENCRYPTED, None, None),
            FileKind::Other => return Err(DatabaseError::NotADatabase { path }),
        };
    let beside = |suffix| fs::metadata(with_suffix(&path, suffix)).map(|file| file.len()).ok();
    Ok(Status {
        encryption_state,
        encryption_state_desc,
        percent_complete,
        page_size,
        encryption,
        wal_bytes: beside("-wal"),
        journal_bytes: beside("-journal"),
        size_bytes,
        problem: None,
        library: Library::of_this_program(),
        sqlite: SystemSqlite::find(),
        path,
    })
}

/// Returns the progress of the key change in `header`: the percentage of the main file's pages that
/// are sealed under the new key. `None` if no key change is in progress. Needs no key and takes no
/// lock. `file` is the caller's: POSIX drops a process's locks on a file when any descriptor of it
/// is closed.
///
/// # Errors
/// `Io`.
pub fn key_change_percent(
    (path, file): (&Path, &fs::File),
    header: &Header,
) -> Result<Option<u8>, DatabaseError> {
    if header.deks.len() < 2 {
        return Ok(None);
    }
    let size = page_size_in(path, file, header)?;
    let pages = pages_by_key_version(path, file, size, &Unwatched)?;
    Ok(Some(percent(&pages, header.current)))
}

/// Returns the percentage of pages with the version in force. Less than 100, because the header
/// still has the previous versions.
fn percent(pages: &BTreeMap<u32, u64>, current: u32) -> u8 {
    let all = pages.values().sum::<u64>().max(1);
    let percent = pages.get(&current).copied().unwrap_or(0).saturating_mul(100) / all;
    u8::try_from(percent).unwrap_or(99).min(99)
}

fn describe(
    path: &Path,
    area: &[u8],
    file: &fs::File,
    store: &Store<'_>,
) -> Result<(Encryption, PageSize), DatabaseError> {
    // Without a key, the slot in force is determined by its sequence.
    let by_sequence = header_of(path, area)?;
    let opened = match &*store.unlocked {
        Ok(unlocked) => open_header(path, area, unlocked)
            .map(|opened| (opened, unlocked))
            .map_err(|error| error.to_string()),
        Err(problem) => Err(problem.clone()),
    };
    let (header, page_size, slots, key_problem) = match opened {
        Ok(((header, keys), unlocked)) => {
            let slots = serving_slots(area, (&header, &keys), unlocked);
            let size = page_size(file, PageCodec::new(keys)).unwrap_or(header.page_size);
            (header, size, slots, None)
        }
        Err(problem) => {
            let size = by_sequence.page_size;
            let intact = |slot: &&[u8]| decode_slot(slot).is_ok();
            let slots = area.chunks(SLOT_LEN).take(SLOT_COUNT).filter(intact).count();
            (by_sequence, size, slots, Some(problem))
        }
    };
    let current = header.dek(header.current);
    let wrapped = current.map(|entry| wrapped_of(&entry.recipients));
    let (wrapped, malformed) = match wrapped {
        Some(Ok(wrapped)) => (wrapped, None),
        Some(Err(error)) => (Vec::new(), Some(error.to_string())),
        None => (Vec::new(), Some("the header lacks its current key".to_owned())),
    };
    let known = |wrapped: &WrappedDek| {
        let store = store.store.as_ref().ok()?;
        store.by_sha256(&wrapped.sha256)
    };
    let created = current.and_then(|entry| i64::try_from(entry.created_unix_s).ok());
    let encryption = Encryption {
        algorithm: header.algorithm.name(),
        algorithms: names_of(&header.algorithms()),
        key_version: header.current,
        key_created_at: created.map(iso8601).unwrap_or_default(),
        key_created: created,
        key_versions: header.deks.iter().map(|entry| entry.version).collect(),
        encryptor_type: "CERTIFICATE",
        certificates: wrapped.iter().map(|w| Certificate::of(w, known(w))).collect(),
        file_id: hex::encode(header.file_id),
        format_version: header.format_version(),
        freshness: header.freshness,
        intact_header_slots: slots,
        key_opens: malformed.is_none() && key_problem.is_none(),
        key_problem: malformed.or(key_problem),
    };
    Ok((encryption, page_size))
}

/// Names of algorithms, as shown everywhere.
pub(crate) fn names_of(algorithms: &[Algorithm]) -> Vec<&'static str> {
    algorithms.iter().map(|algorithm| algorithm.name()).collect()
}

impl Certificate {
    fn of(wrapped: &WrappedDek, info: Option<&CertificateInfo>) -> Self {
        Self {
            name: info.map(|info| info.name.clone()),
            generation: info.map(|info| info.generation),
            active: info.map(|info| info.active),
            thumbprint: wrapped.thumbprint(),
            thumbprint_sha256: thumbprint(&wrapped.sha256),
            has_private_key: info.is_some_and(|info| info.has_private_key),
            backed_up_at: info.and_then(|info| info.backed_up_at).map(iso8601),
            expires_at: info.map(|info| iso8601(info.not_after)),
            not_after: info.map(|info| info.not_after),
            expires_in_days: info.and_then(|info| expires_soon(info.not_after)),
        }
    }
}

/// Returns the size at which page 1 opens: the header has the size at the time of its writing.
fn page_size(file: &fs::File, mut codec: PageCodec) -> Option<PageSize> {
    use std::os::unix::fs::FileExt;
    PageSize::all().find(|size| {
        let (mut sealed, mut plain) = (vec![0; size.len()], vec![0; size.len()]);
        let opened = file.read_exact_at(&mut sealed, size.page_offset(1)).is_ok()
            && codec.open(1, &sealed, &mut plain).is_ok();
        plain.fill(0);
        opened
    })
}

/// Returns the page size in the header of a plain database; 1 stands for 65536 (SQLite file format,
/// 1.3.2).
fn plain_page_size(area: &[u8]) -> Option<u32> {
    let stored: [u8; 2] = area.get(16..18)?.try_into().ok()?;
    match u16::from_be_bytes(stored) {
        1 => Some(65536),
        size => Some(u32::from(size)),
    }
}
