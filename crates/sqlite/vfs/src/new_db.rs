//! A main file that is still empty. SQLite's first lock decides whether it becomes encrypted.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::rc::Rc;
use std::sync::Arc;

use tdekit_key_crypto::Algorithm;
use tdekit_key_store::misspelt_variables;
use tdekit_sqlite_page::header::{CREATION_MARK, is_encrypted, is_unfinished};
use tdekit_sqlite_page::{HEADER_AREA_LEN, PageSize, RESERVE_LEN, SLOT_LEN};

use crate::VfsError;
use crate::api::Api;
use crate::base::BaseFile;
use crate::ffi::{self, File, Sqlite3};
use crate::file::shared_of;
use crate::fresh::{Fresh, Place};
use crate::freshness::{is_suspended, refuse_anchored};
use crate::keyring::{Keyring, NewDatabase, OpenFile, OpenedHeader, recipients_of};
use crate::kind::Kind;
use crate::main_db::MainFile;
use crate::plain::PlainFile;
use crate::reading::{self, Source};
use crate::shared::Shared;

/// Environment variable with the certificates for every new database.
const ENCRYPT_NEW: &str = "TDEKIT_ENCRYPT_NEW";
/// Environment variable with their algorithm.
const ALGORITHM: &str = "TDEKIT_ENCRYPT_NEW_ALGORITHM";
/// SQLite's name of the schema that `VACUUM INTO` writes: `vacuum_db`, since 3.48 with a random
/// number in place of `db`.
const VACUUM_SCHEMA: &str = "vacuum_";
/// SQLite's default page size for a new database.
const DEFAULT_PAGE_SIZE: u64 = 4096;
const SYNC_FULL: c_int = 3;
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";
/// Maximum number of schemas that SQLite lets a connection attach, with `main` and `temp`.
const MAX_SCHEMAS: c_int = 127;

/// The settings for a new database, from the URI and the environment.
#[derive(Clone)]
pub(crate) enum Request {
    /// Encrypt it.
    Encrypt(NewDatabase),
    /// Keep it plain, whatever its source (`?tdekit=plain`).
    Plain,
    /// Continue with a header that another connection wrote before it could write a page.
    Begun(Rc<OpenedHeader>),
    /// The variable's value cannot be a certificate's name: no new database is made.
    Unusable(Unusable),
    /// Nothing: plain, unless it becomes a copy of an encrypted database, by `VACUUM INTO` or a
    /// backup.
    Unsaid,
}

/// Reason why no new database is created: it would be plain, or differ from the request.
#[derive(Clone)]
pub(crate) enum Unusable {
    /// The variable is empty.
    Empty(&'static str),
    /// The variable's value is invalid.
    Value(&'static str, String),
    /// An unknown variable, and the known one that it resembles.
    Unknown(String, &'static str),
    /// A parameter for an encrypted database, without a certificate.
    Alone(&'static str),
}

/// An empty main file.
pub(crate) struct NewFile {
    pub(crate) base: Option<BaseFile>,
    /// The keys of the store that it will belong to.
    ring: Arc<Keyring>,
    request: Request,
    /// True if its creation as an encrypted database was interrupted.
    unfinished: bool,
    api: Api,
    /// SQLite's own pointer to the connection, from `FCNTL_PDB`.
    db: *mut *mut Sqlite3,
    /// Location of the files of its freshness.
    place: Option<Place>,
}

impl Request {
    /// Reads `tdekit`, `tdekit_certificate` and `tdekit_algorithm` from the URI, or the variables
    /// `TDEKIT_ENCRYPT_NEW` and `TDEKIT_ENCRYPT_NEW_ALGORITHM`.
    ///
    /// # Safety
    /// `name` is what SQLite passed to `xOpen` for a main database.
    pub(crate) unsafe fn read(api: Api, name: *const c_char) -> Result<Self, VfsError> {
        // SAFETY: this function's own contract.
        let parameter = |key| unsafe { api.uri_parameter(name, key) };
        match parameter(c"tdekit").as_deref() {
            Some("plain") => return Ok(Self::Plain),
            Some(other) => {
                return Err(VfsError::Setting { what: "URI tdekit", value: other.into() });
            }
            None => {}
        }
        let named = |key, of: &'static str| match parameter(key) {
            Some(value) => Ok(Some(value)),
            None => variable(of),
        };
        let certificates = match named(c"tdekit_certificate", ENCRYPT_NEW) {
            Ok(Some(certificates)) => certificates,
            Ok(None) => {
                let alone = ["tdekit_algorithm", "tdekit_freshness"];
                let alone = [c"tdekit_algorithm", c"tdekit_freshness"].into_iter().zip(alone);
                let found = alone.into_iter().find(|(key, _)| parameter(key).is_some());
                return Ok(match (found, variable(ALGORITHM)) {
                    (Some((_, name)), _) => Self::Unusable(Unusable::Alone(name)),
                    (None, Ok(Some(_))) => Self::Unusable(Unusable::Alone(ALGORITHM)),
                    (None, Err(why)) => Self::Unusable(why),
                    (None, Ok(None)) => Self::Unsaid,
                });
            }
            Err(why) => return Ok(Self::Unusable(why)),
        };
        let algorithm = match named(c"tdekit_algorithm", ALGORITHM) {
            Err(why) => return Ok(Self::Unusable(why)),
            Ok(None) => Algorithm::Aes256,
            Ok(Some(name)) => match name.trim().parse::<Algorithm>() {
                Ok(algorithm) if algorithm.seals_pages() => algorithm,
                _ if parameter(c"tdekit_algorithm").is_none() => {
                    return Ok(Self::Unusable(Unusable::Value(ALGORITHM, name)));
                }
                _ => return Err(VfsError::Setting { what: "tdekit_algorithm", value: name }),
            },
        };
        let certificates = certificates.split(',').map(|c| c.trim().to_owned()).collect();
        let freshness = match parameter(c"tdekit_freshness").as_deref() {
            None | Some("off") => false,
            Some("on") => true,
            Some(other) => {
                return Err(VfsError::Setting { what: "tdekit_freshness", value: other.into() });
            }
        };
        Ok(Self::Encrypt(NewDatabase { certificates, algorithm, freshness }))
    }

    /// Fails if no new database may be created. Unlike [`Self::read`], which precedes every
    /// opening, it looks for misspelt variables.
    ///
    /// # Errors
    /// `NoValue`, `Setting`, `UnknownVariable`, `NoCertificateFor`.
    pub(crate) fn refuse_unusable(&self) -> Result<(), VfsError> {
        let heeded: &[&str] = match self {
            Self::Unsaid => &[ENCRYPT_NEW, ALGORITHM],
            Self::Encrypt(_) => &[ALGORITHM],
            Self::Plain | Self::Begun(_) | Self::Unusable(_) => &[],
        };
        let why = match self {
            Self::Unusable(why) => Some(why.clone()),
            _ if heeded.is_empty() => None,
            _ => misspelt_variables()
                .find(|(_, known)| heeded.contains(known))
                .map(|(found, known)| Unusable::Unknown(found, known)),
        };
        let Some(why) = why else { return Ok(()) };
        Err(match why {
            Unusable::Empty(name) => VfsError::NoValue { name: format!("the variable {name}") },
            Unusable::Value(what, value) => VfsError::Setting { what, value },
            Unusable::Unknown(name, nearest) => VfsError::UnknownVariable { name, nearest },
            Unusable::Alone(parameter) => VfsError::NoCertificateFor { parameter },
        })
    }
}

/// Returns true if the environment requires that every new database is encrypted.
pub(crate) fn is_asked_for_all() -> bool {
    !matches!(variable(ENCRYPT_NEW), Ok(None))
}

/// Returns the value of a variable; an error if it is empty or not text.
fn variable(name: &'static str) -> Result<Option<String>, Unusable> {
    match std::env::var(name) {
        Ok(value) if !value.trim().is_empty() => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Ok(_) | Err(std::env::VarError::NotUnicode(_)) => Err(Unusable::Empty(name)),
    }
}

impl NewFile {
    pub(crate) fn new(base: BaseFile, ring: Arc<Keyring>, request: Request, api: Api) -> Self {
        let db = std::ptr::null_mut();
        Self { base: Some(base), ring, request, unfinished: false, api, db, place: None }
    }

    /// Returns true if it becomes an encrypted database, as far as is known by now.
    pub(crate) fn will_be_encrypted(&self) -> bool {
        matches!(self.request, Request::Encrypt(_) | Request::Begun(_))
    }

    /// Fails if it must be encrypted and its keys cannot be made: otherwise the first write would
    /// fail.
    pub(crate) fn check_creation(&self) -> Result<(), VfsError> {
        match &self.request {
            Request::Encrypt(new) => self.ring.check(new),
            _ => Ok(()),
        }
    }

    /// Sets the location of the files of its freshness.
    pub(crate) fn set_place(&mut self, place: Place) {
        self.place = Some(place);
    }

    /// Sets the connection (`FCNTL_PDB`).
    pub(crate) fn set_db(&mut self, db: *mut *mut Sqlite3) {
        self.db = db;
    }

    /// Returns the file below; it is missing only between a decision and the end of the call that
    /// made it.
    pub(crate) fn base(&mut self) -> Result<&mut BaseFile, VfsError> {
        self.base.as_mut().ok_or(VfsError::Base(ffi::IOERR))
    }

    /// Takes a lock, and decides the file's kind when that is due: at the first shared lock if
    /// another connection has filled it, otherwise at the lock that precedes the first write, under
    /// which no other connection can decide too.
    pub(crate) fn lock(&mut self, this: *mut File, level: c_int) -> Result<Option<Kind>, VfsError> {
        self.base()?.lock(level)?;
        self.unfinished = false;
        if self.base()?.size()? > 0 {
            match self
                .base
                .take()
                .map(|base| existing(base, &self.ring, &self.request, self.api, level))
                .transpose()?
            {
                Some(Kind::New(mut begun)) => {
                    self.base = begun.base.take();
                    self.request = begun.request;
                    self.unfinished = begun.unfinished;
                    if let Err(error) = self.check_anchor() {
                        self.base()?.unlock(ffi::LOCK_NONE)?;
                        return Err(error);
                    }
                }
                Some(Kind::Main(mut main)) => {
                    if let Some(place) = &self.place {
                        main.opened_as(place)?;
                    }
                    return Ok(Some(Kind::Main(main)));
                }
                decided => return Ok(decided),
            }
        }
        if level == ffi::LOCK_SHARED {
            self.decide(this);
            return Ok(None);
        }
        let doubtful = self.follow_backup(this);
        let mut kind = self.settle(level)?;
        if let Kind::Plain(plain) = &mut kind
            && doubtful
        {
            plain.doubt();
        }
        Ok(Some(kind))
    }

    /// Fails if the anchor of a database without pages lists some: they were truncated.
    fn check_anchor(&self) -> Result<(), VfsError> {
        let (Request::Begun(opened), Some(place)) = (&self.request, &self.place) else {
            return Ok(());
        };
        let file_id = opened.header.file_id;
        if is_suspended() {
            return Ok(());
        }
        if !opened.header.freshness {
            return refuse_anchored(place.anchors.as_deref(), &file_id);
        }
        let fresh = Fresh::open(place, file_id)?;
        fresh.refresh()?;
        match fresh.has_committed_pages()? {
            true => Err(VfsError::Stale { what: "page", number: 1 }),
            false => Ok(()),
        }
    }

    /// Carries out the decision under the lock `level`: the file becomes encrypted, with its header
    /// written, or plain.
    pub(crate) fn settle(&mut self, level: c_int) -> Result<Kind, VfsError> {
        let opened = match &self.request {
            Request::Encrypt(new) => {
                let (opened, area) =
                    self.ring.create_header(new, PageSize::new(DEFAULT_PAGE_SIZE)?)?;
                if let Some(place) = &self.place {
                    self.ring.log_creation(&place.path, &opened.header)?;
                }
                if let Some(place) = self.place.as_ref().filter(|_| new.freshness) {
                    Fresh::create(place, opened.header.file_id)?;
                }
                let base = self.base()?;
                if let Err(error) = write_header(base, &area) {
                    // The next attempt finds an empty file, or its mark.
                    let _ = base.truncate(0);
                    return Err(error);
                }
                if let Some(place) = &self.place {
                    self.ring.note_creation(&place.path, &opened.header);
                }
                Some(opened)
            }
            Request::Unsaid | Request::Unusable(_) if self.unfinished => {
                return Err(VfsError::Unfinished);
            }
            // A connection that names a key store does not want a plain database.
            Request::Unsaid if self.ring.tenant().is_some() => return Err(VfsError::NoCertificate),
            Request::Plain if self.unfinished => {
                self.base()?.truncate(0)?;
                None
            }
            Request::Begun(opened) => Some(OpenedHeader::clone(opened)),
            Request::Plain | Request::Unsaid | Request::Unusable(_) => None,
        };
        let allowed = matches!(self.request, Request::Plain);
        let base = self.base.take().ok_or(VfsError::Base(ffi::IOERR))?;
        Ok(match opened {
            // The header may have changed since this connection read it.
            Some(opened) => {
                let mut kind = encrypted(base, opened, level, true)?;
                if let (Kind::Main(main), Some(place)) = (&mut kind, &self.place) {
                    main.opened_as(place)?;
                }
                kind
            }
            None => Kind::Plain(PlainFile::main(base, allowed)),
        })
    }

    /// As `settle`, for a connection that takes no locks: the bytes for seals were not reserved.
    pub(crate) fn settle_unlocked(&mut self) -> Result<Kind, VfsError> {
        match self.request {
            Request::Encrypt(_) | Request::Begun(_) => Err(VfsError::NoLock),
            Request::Plain | Request::Unsaid | Request::Unusable(_) => self.settle(ffi::LOCK_NONE),
        }
    }

    /// Decides for a target of `VACUUM INTO`, and asks SQLite for reserved bytes if the file will
    /// be encrypted.
    fn decide(&mut self, this: *mut File) {
        // SAFETY: SQLite keeps the place that it passed with `FCNTL_PDB` as long as the file.
        let db = if self.db.is_null() { self.db.cast() } else { unsafe { *self.db } };
        if db.is_null() {
            return;
        }
        let Some(schema) = self.schema_of(db, this) else { return };
        if matches!(self.request, Request::Unsaid)
            && schema.to_bytes().starts_with(VACUUM_SCHEMA.as_bytes())
        {
            // SAFETY: SQLite owns the file of an open schema.
            let source = unsafe { shared_of(self.api.file_of(db, c"main")) };
            if let Some(source) = source {
                self.copy(source.live.file());
            }
        }
        if self.will_be_encrypted() {
            let reserve = c_int::try_from(RESERVE_LEN).unwrap_or(0);
            self.api.file_control_int(db, &schema, ffi::FCNTL_RESERVE_BYTES, reserve);
        }
    }

    /// Decides for a target of the backup API: every other writer runs a statement of its
    /// connection. The pages already have reserved bytes. Returns true if they may belong to an
    /// encrypted database anyway.
    fn follow_backup(&mut self, this: *mut File) -> bool {
        if !matches!(self.request, Request::Unsaid) {
            return false;
        }
        match reading::source(self.api, this, self.db) {
            Source::Encrypted(source) => self.copy(&source),
            Source::Unknown => return true,
            Source::Other => {}
        }
        false
    }

    /// Encrypts it as `source` is.
    fn copy(&mut self, source: &OpenFile) {
        if self.ring.tenant().is_none() {
            self.ring = source.ring().clone();
        }
        let header = source.header();
        self.request = Request::Encrypt(NewDatabase {
            certificates: recipients_of(&header),
            algorithm: header.algorithm,
            freshness: false,
        });
    }

    fn schema_of(&self, db: *mut Sqlite3, this: *mut File) -> Option<CString> {
        (0..MAX_SCHEMAS).map_while(|index| self.api.schema_name(db, index)).find(|name| {
            let file = self.api.file_of(db, name);
            // SAFETY: SQLite owns the file of an open schema.
            file == this || unsafe { crate::file::below(file) } == this
        })
    }
}

/// Opens a main file: encrypted, by its magic in either slot; plain; or still empty.
pub(crate) fn open_main(
    mut base: BaseFile,
    ring: Arc<Keyring>,
    request: Request,
    api: Api,
) -> Result<Kind, VfsError> {
    if base.size()? == 0 {
        request.refuse_unusable()?;
        return Ok(Kind::New(NewFile::new(base, ring, request, api)));
    }
    existing(base, &ring, &request, api, ffi::LOCK_NONE)
}

/// Returns the kind of a file that is not empty, on which the connection holds the lock `level`.
pub(crate) fn existing(
    mut base: BaseFile,
    ring: &Arc<Keyring>,
    request: &Request,
    api: Api,
    level: c_int,
) -> Result<Kind, VfsError> {
    let size = base.size()?;
    let mut area = vec![0; usize::try_from(size.min(HEADER_AREA_LEN)).unwrap_or(0)];
    base.read(&mut area, 0)?;
    let plain = area.starts_with(SQLITE_MAGIC);
    let without_pages = size <= HEADER_AREA_LEN;
    if without_pages && is_unfinished(&area) {
        let mut new = NewFile::new(base, ring.clone(), request.clone(), api);
        new.unfinished = true;
        return Ok(Kind::New(new));
    }
    let in_second = area.get(SLOT_LEN..).is_some_and(is_encrypted);
    if is_encrypted(&area) || (in_second && !plain) {
        let opened = ring.open_header(&area)?;
        if without_pages {
            let begun = Request::Begun(Rc::new(opened));
            return Ok(Kind::New(NewFile::new(base, ring.clone(), begun, api)));
        }
        return encrypted(base, opened, level, false);
    }
    Ok(Kind::Plain(PlainFile::main(base, matches!(request, Request::Plain))))
}

/// Writes the header of a new database, so that a power cut leaves the mark or a whole slot. No
/// other file looks like that, so no other file is ever overwritten by mistake.
fn write_header(base: &mut BaseFile, area: &[u8]) -> Result<(), VfsError> {
    let (first, second) = area.split_at(SLOT_LEN.min(area.len()));
    for (bytes, at) in [(CREATION_MARK.as_slice(), 0), (second, SLOT_LEN as u64), (first, 0)] {
        base.write(bytes, at)?;
        base.sync(SYNC_FULL)?;
    }
    Ok(())
}

fn encrypted(
    base: BaseFile,
    opened: OpenedHeader,
    level: c_int,
    learn: bool,
) -> Result<Kind, VfsError> {
    let shared = Rc::new(Shared::new(opened));
    let main = MainFile::new(base, shared, level);
    if learn {
        main.shared.live.learn()?;
    }
    Ok(Kind::Main(main))
}
