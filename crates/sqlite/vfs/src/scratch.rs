//! A plain database that is only sealed on disk, under a key that only this process has.
//!
//! For work on plain pages that must not leave any on disk: the pages are written here, and then
//! SQLite reads them through the VFS and copies them to their destination. The key is dropped with
//! the value; then nobody can open the remains of the file.

use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tdekit_key_crypto::{
    Algorithm, CryptoError, NONCE_LEN, NonceSource, SealingKey, SecretBytes, TAG_LEN, random_bytes,
};
use tdekit_sqlite_page::PageError;

use crate::VfsError;
use crate::base::{BaseFile, Read};
use crate::ffi;

/// First bytes of the file, for anybody who finds the remains of a killed process.
pub const MAGIC: [u8; 16] = *b"tdekit scratch\0\0";
/// The URI parameter that names a [`Scratch`] of this process.
pub(crate) const PARAMETER: &std::ffi::CStr = c"tdekit_scratch";
/// Offset of the first page.
const HEAD_LEN: u64 = 4096;
/// Length of the data after each page's ciphertext.
const TRAILER_LEN: usize = NONCE_LEN + TAG_LEN;

type Open = HashMap<String, Arc<Place>>;

static OPEN: Mutex<Option<Open>> = Mutex::new(None);

/// The state that writer and reader of one file share.
pub(crate) struct Place {
    key: SecretBytes,
    page_len: usize,
    pages: AtomicU32,
}

impl Place {
    fn stride(&self) -> usize {
        self.page_len + TRAILER_LEN
    }

    /// Returns the offset in the file of page `page`, from 1.
    fn offset(&self, page: u32) -> u64 {
        HEAD_LEN + u64::from(page.saturating_sub(1)) * self.stride() as u64
    }

    /// Opens page `page`, with its trailer, to `plain`.
    fn open(
        &self,
        key: &mut SealingKey,
        page: u32,
        sealed: &[u8],
        plain: &mut [u8],
    ) -> Result<(), VfsError> {
        let (ciphertext, trailer) = sealed.split_at(self.page_len);
        let (mut nonce, mut tag) = ([0; NONCE_LEN], [0; TAG_LEN]);
        nonce.copy_from_slice(&trailer[..NONCE_LEN]);
        tag.copy_from_slice(&trailer[NONCE_LEN..]);
        key.open(&nonce, &page.to_le_bytes(), ciphertext, &tag, plain).map_err(|_| unreadable())
    }

    fn sealing_key(&self) -> Result<SealingKey, VfsError> {
        SealingKey::new(Algorithm::Aes256, self.key.expose()).map_err(crypto)
    }
}

/// The writer's side. Pages may be written in any order and from any thread.
pub struct Scratch {
    id: String,
    file: File,
    place: Arc<Place>,
    sealer: Mutex<Sealer>,
}

struct Sealer {
    key: SealingKey,
    nonces: NonceSource,
    sealed: Vec<u8>,
}

impl Scratch {
    /// Takes an empty `file` for pages of `page_size` bytes, a power of two from 512 to 65536.
    ///
    /// # Errors
    /// `Page` for another size or if no key can be made, `File`.
    pub fn new(file: File, page_size: u32) -> Result<Self, VfsError> {
        let page_len = match usize::try_from(page_size) {
            Ok(len) if len.is_power_of_two() && (512..=65536).contains(&len) => len,
            _ => {
                let size = u64::from(page_size);
                return Err(PageError::Size { size, what: "a page" }.into());
            }
        };
        let key = SecretBytes::random(Algorithm::Aes256.key_len()).map_err(crypto)?;
        let place = Arc::new(Place { key, page_len, pages: AtomicU32::new(0) });
        let sealer =
            Sealer { key: place.sealing_key()?, nonces: NonceSource::new(), sealed: Vec::new() };
        let mut id = [0; 16];
        random_bytes(&mut id).map_err(crypto)?;
        let id = hex::encode(id);
        file.write_all_at(&MAGIC, 0).map_err(VfsError::File)?;
        with_open(|open| open.insert(id.clone(), Arc::clone(&place)));
        Ok(Self { id, file, place, sealer: Mutex::new(sealer) })
    }

    /// Writes the whole pages in `pages`, of which the first has number `first`, from 1.
    ///
    /// # Errors
    /// `File`; `Page` for bytes that are not whole pages.
    pub fn write(&self, first: u32, pages: &[u8]) -> Result<(), VfsError> {
        let page_len = self.place.page_len;
        if first == 0 || !pages.len().is_multiple_of(page_len) {
            let size = pages.len() as u64;
            return Err(PageError::Size { size, what: "pages to be written" }.into());
        }
        let mut sealer = self.sealer.lock().unwrap_or_else(PoisonError::into_inner);
        let Sealer { key, nonces, sealed } = &mut *sealer;
        sealed.resize(pages.len() / page_len * self.place.stride(), 0);
        let strides = sealed.chunks_exact_mut(self.place.stride());
        for ((page, plain), stride) in (first..).zip(pages.chunks_exact(page_len)).zip(strides) {
            let nonce = nonces.next().map_err(crypto)?;
            let (ciphertext, trailer) = stride.split_at_mut(page_len);
            let tag = key.seal(&nonce, &page.to_le_bytes(), plain, ciphertext).map_err(crypto)?;
            trailer[..NONCE_LEN].copy_from_slice(&nonce);
            trailer[NONCE_LEN..].copy_from_slice(&tag);
        }
        self.file.write_all_at(sealed, self.place.offset(first)).map_err(VfsError::File)
    }

    /// Reads a page that was written; `out` is emptied if it never was.
    ///
    /// # Errors
    /// `File`, also for a page that somebody changed.
    pub fn read(&self, page: u32, out: &mut Vec<u8>) -> Result<(), VfsError> {
        let mut sealer = self.sealer.lock().unwrap_or_else(PoisonError::into_inner);
        let Sealer { key, sealed, .. } = &mut *sealer;
        sealed.resize(self.place.stride(), 0);
        match self.file.read_exact_at(sealed, self.place.offset(page)) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => sealed.fill(0),
            read => read.map_err(VfsError::File)?,
        }
        out.clear();
        // Of a page that was skipped. The nonce of another one is not zero.
        if sealed.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        out.resize(self.place.page_len, 0);
        self.place.open(key, page, sealed, out)
    }

    /// Sets the number of pages of the database.
    pub fn set_pages(&self, pages: u32) {
        self.place.pages.store(pages, Ordering::Release);
    }

    /// Returns the URI parameters with which SQLite opens the file, by its path, as the plain
    /// database in it: only in this process, and only for reading.
    #[must_use]
    pub fn parameters(&self) -> String {
        format!("mode=ro&immutable=1&{}={}", PARAMETER.to_string_lossy(), self.id)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        with_open(|open| open.remove(&self.id));
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scratch({}, redacted)", self.id)
    }
}

/// The reader's side, as SQLite opens it.
pub(crate) struct ScratchFile {
    pub(crate) base: BaseFile,
    place: Arc<Place>,
    key: SealingKey,
    sealed: Vec<u8>,
    plain: Vec<u8>,
}

impl ScratchFile {
    pub(crate) fn new(base: BaseFile, id: &str) -> Result<Self, VfsError> {
        let place = with_open(|open| open.get(id).cloned())
            .ok_or_else(|| VfsError::Setting { what: "tdekit_scratch", value: id.to_owned() })?;
        let key = place.sealing_key()?;
        let (sealed, plain) = (vec![0; place.stride()], vec![0; place.page_len]);
        Ok(Self { base, place, key, sealed, plain })
    }

    /// Reads plaintext.
    pub(crate) fn read(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        let size = self.size();
        let (mut rest, mut at) = (out, offset);
        while !rest.is_empty() && at < size {
            let page_len = self.place.page_len as u64;
            let page = u32::try_from(at / page_len + 1).map_err(|_| unreadable())?;
            let start = usize::try_from(at % page_len).map_err(|_| unreadable())?;
            self.open_page(page)?;
            let n = rest.len().min(self.place.page_len - start);
            let (piece, after) = rest.split_at_mut(n);
            piece.copy_from_slice(&self.plain[start..start + n]);
            (rest, at) = (after, at + n as u64);
        }
        rest.fill(0);
        Ok(if rest.is_empty() { Read::Full } else { Read::Short })
    }

    /// Returns the size in plaintext bytes.
    pub(crate) fn size(&self) -> u64 {
        u64::from(self.place.pages.load(Ordering::Acquire)) * self.place.page_len as u64
    }

    fn open_page(&mut self, page: u32) -> Result<(), VfsError> {
        if self.base.read(&mut self.sealed, self.place.offset(page))? == Read::Short {
            return Err(unreadable());
        }
        self.place.open(&mut self.key, page, &self.sealed, &mut self.plain)
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        self.plain.fill(0);
    }
}

fn unreadable() -> VfsError {
    VfsError::Base(ffi::IOERR_DATA)
}

fn crypto(error: CryptoError) -> VfsError {
    VfsError::Page(error.into())
}

fn with_open<R>(f: impl FnOnce(&mut Open) -> R) -> R {
    // The map is consistent after every call, so a panic elsewhere leaves it usable.
    let mut guard = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    f(guard.get_or_insert_with(HashMap::new))
}
