//! The objects of an archive: in a directory, or under a prefix of an object store.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tdekit_key_store::led_to;

use super::state::FileStamp;
use crate::error::ArchiveError;
use crate::names::{name_of, number_of};
use crate::output::lock;
use crate::target::Objects;
use crate::{FileMedia, FileTarget, Media, MediaSource, RunError, Storage, Target, place, stores};

/// Largest object that is read as a whole.
const MAX_WHOLE_BYTES: u64 = 8 << 20;
/// Bytes of objects that are kept in memory.
const KEPT_BYTES: u64 = 128 << 20;

/// The place of an archive, as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A directory.
    Directory(PathBuf),
    /// A prefix of an object store, by its address.
    Prefix(String),
}

impl Place {
    /// Parses an argument: an address such as `s3://bucket/name`, or the path of a directory.
    #[must_use]
    pub fn of(argument: &OsStr) -> Self {
        match place::Place::of(argument) {
            place::Place::Object(address) if !names_nothing(&address) => {
                Self::Prefix(address.trim_end_matches('/').to_owned())
            }
            place::Place::Object(address) => Self::Prefix(address),
            place::Place::File(_) | place::Place::Standard => match argument.to_str() {
                Some(address) if names_nothing(address) => Self::Prefix(address.to_owned()),
                _ => Self::Directory(argument.into()),
            },
        }
    }

    /// Returns the name that users see.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Directory(path) => path.display().to_string(),
            Self::Prefix(address) => address.clone(),
        }
    }

    /// Returns the path or address of object `number`.
    #[must_use]
    pub fn object(&self, number: u64) -> OsString {
        match self {
            Self::Directory(path) => path.join(name_of(number)).into(),
            Self::Prefix(address) => format!("{address}/{}", name_of(number)).into(),
        }
    }

    /// Returns the form that is recorded: the absolute path that it leads to, also where nothing is
    /// there yet, or the address.
    #[must_use]
    pub fn recorded(&self) -> String {
        match self {
            Self::Directory(path) => {
                led_to(path).unwrap_or_else(|_| path.clone()).to_string_lossy().into_owned()
            }
            Self::Prefix(address) => address.clone(),
        }
    }
}

/// An archive's place that was opened.
pub(super) struct Store {
    pub(super) place: Place,
    objects: Arc<dyn Objects>,
    kept: Arc<Mutex<Kept>>,
}

impl Store {
    /// Opens a place; for `writer`, by which its claims are recognized, a directory is made.
    ///
    /// # Errors
    /// `Io`, those of an object store.
    pub(super) fn open(
        place: &Place,
        writer: Option<&str>,
        storage: &Storage,
    ) -> Result<Self, RunError> {
        let objects: Arc<dyn Objects> = match place {
            Place::Directory(path) => {
                place::refuse_storage(&path.display().to_string(), storage)?;
                if writer.is_some() && !path.exists() {
                    make_directory(path)?;
                }
                Arc::new(Directory { path: path.clone(), is_cleared: AtomicBool::new(false) })
            }
            Place::Prefix(address) => stores::objects(address, writer, storage)?,
        };
        Ok(Self { place: place.clone(), objects, kept: Arc::default() })
    }

    /// Returns the time in which the next object of a chain goes that is being removed.
    pub(super) fn removing(&self) -> Duration {
        match self.place {
            Place::Directory(_) => Duration::from_millis(500),
            Place::Prefix(_) => Duration::from_secs(1),
        }
    }

    /// Returns the numbers and sizes of the objects.
    ///
    /// # Errors
    /// `Io`, those of an object store.
    pub(super) fn list(&self) -> Result<BTreeMap<u64, u64>, RunError> {
        let found = self.objects.list()?;
        let numbered = |(name, bytes): (String, u64)| Some((number_of(&name)?, bytes));
        Ok(found.into_iter().filter_map(numbered).collect())
    }

    /// Returns a reader of an object.
    pub(super) fn source(&self, number: u64, bytes: u64) -> Result<Arc<dyn MediaSource>, RunError> {
        let name = name_of(number);
        if bytes > MAX_WHOLE_BYTES {
            return self.objects.source(&name, bytes);
        }
        let (objects, kept) = (Arc::clone(&self.objects), Arc::clone(&self.kept));
        Ok(Arc::new(Whole { objects, kept, number, name, bytes }))
    }

    /// Returns what identifies an unchanged file; `None` for an object on a store.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn stamp(&self, number: u64) -> Result<Option<FileStamp>, RunError> {
        let Place::Directory(path) = &self.place else { return Ok(None) };
        let path = path.join(name_of(number));
        FileStamp::of(&path).map(Some).map_err(RunError::io("examine", &path))
    }

    /// Returns true unless the archive is a directory that is not there.
    pub(super) fn is_there(&self) -> bool {
        match &self.place {
            Place::Directory(path) => path.exists(),
            Place::Prefix(_) => true,
        }
    }

    /// Fails because the place is not there.
    pub(super) fn refuse_gone<T>(&self) -> Result<T, RunError> {
        Err(RunError::Missing { path: self.place.shown().into() })
    }

    /// Opens an object as it is now, whatever was kept of it.
    ///
    /// # Errors
    /// Those of [`Media::open`].
    pub(super) fn now(&self, number: u64) -> Result<Media, RunError> {
        Media::open(vec![self.objects.now(&name_of(number))?])
    }

    pub(super) fn target(&self, number: u64) -> Result<Box<dyn Target>, RunError> {
        self.objects.target(&name_of(number))
    }

    /// Returns the path or address of an object.
    pub(super) fn shown(&self, number: u64) -> String {
        self.objects.shown(&name_of(number))
    }
}

/// Returns true for a scheme such as `s3://` without a bucket: no store takes it, and it is not
/// meant as a directory.
fn names_nothing(address: &str) -> bool {
    address.split_once("://").is_some_and(|(scheme, rest)| {
        scheme.len() > 1
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && rest.trim_end_matches('/').is_empty()
    })
}

/// Makes a directory that only its owner can read.
fn make_directory(path: &PathBuf) -> Result<(), RunError> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().mode(0o700).create(path);
    made.map_err(|error| match path.parent() {
        // It may be the place of a disk that is not mounted: then nothing is made there.
        Some(parent) if error.kind() == io::ErrorKind::NotFound => {
            ArchiveError::NoParent { path: path.clone(), parent: parent.to_owned() }.into()
        }
        _ => RunError::io("make", path)(error),
    })
}

/// Objects that were read last.
#[derive(Default)]
struct Kept {
    objects: BTreeMap<u64, Arc<Vec<u8>>>,
    order: VecDeque<u64>,
    bytes: u64,
}

impl Kept {
    fn put(&mut self, number: u64, object: &Arc<Vec<u8>>) {
        if self.objects.insert(number, Arc::clone(object)).is_none() {
            self.order.push_back(number);
            self.bytes += object.len() as u64;
        }
        while self.bytes > KEPT_BYTES {
            let Some(oldest) = self.order.pop_front() else { return };
            let gone = self.objects.remove(&oldest).map_or(0, |gone| gone.len() as u64);
            self.bytes = self.bytes.saturating_sub(gone);
        }
    }
}

/// A small object, which is read as a whole, and again if it was given up meanwhile.
struct Whole {
    objects: Arc<dyn Objects>,
    kept: Arc<Mutex<Kept>>,
    number: u64,
    name: String,
    bytes: u64,
}

impl Whole {
    fn object(&self) -> Result<Arc<Vec<u8>>, RunError> {
        if let Some(object) = lock(&self.kept).objects.get(&self.number) {
            return Ok(Arc::clone(object));
        }
        let object = Arc::new(self.objects.fetch(&self.name, self.bytes)?);
        lock(&self.kept).put(self.number, &object);
        Ok(object)
    }
}

impl MediaSource for Whole {
    fn name(&self) -> String {
        self.objects.shown(&self.name)
    }

    fn parts(&self) -> u32 {
        1
    }

    fn part_len(&self, _: u32) -> Result<u64, RunError> {
        Ok(self.object()?.len() as u64)
    }

    fn read_at(&self, part: u32, offset: u64, buf: &mut [u8]) -> Result<(), RunError> {
        if part != 0 {
            return Err(RunError::NoPart { media: self.name(), part });
        }
        let object = self.object()?;
        let end = offset.saturating_add(buf.len() as u64);
        let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
        let found = range.and_then(|(from, to)| object.get(from..to));
        let short = || RunError::ShortRead { media: self.name(), end };
        buf.copy_from_slice(found.ok_or_else(short)?);
        Ok(())
    }
}

/// Objects that are files of a directory. Its writer looks for remains of killed runs once: it may
/// hold very many files, and gets another one each second.
struct Directory {
    path: PathBuf,
    is_cleared: AtomicBool,
}

impl Objects for Directory {
    fn list(&self) -> Result<Vec<(String, u64)>, RunError> {
        let failed = || RunError::io("read", &self.path);
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed())?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed())?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // A link leads to the object. One that leads nowhere is there, and not an object.
            match fs::metadata(entry.path()).or_else(|_| entry.metadata()) {
                Ok(metadata) => found.push((name, metadata.len())),
                // Removed meanwhile, such as another run's work.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed()(error)),
            }
        }
        Ok(found)
    }

    fn fetch(&self, name: &str, _: u64) -> Result<Vec<u8>, RunError> {
        let file = FileMedia::open(self.path.join(name))?;
        let len = file.part_len(0)?;
        if len > MAX_WHOLE_BYTES {
            let reason = "it has grown since it was listed".to_owned();
            return Err(RunError::Damaged {
                media: file.name(),
                what: "the object".into(),
                reason,
            });
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        file.read_at(0, 0, &mut bytes)?;
        Ok(bytes)
    }

    fn source(&self, name: &str, _: u64) -> Result<Arc<dyn MediaSource>, RunError> {
        Ok(Arc::new(FileMedia::open(self.path.join(name))?))
    }

    fn now(&self, name: &str) -> Result<Arc<dyn MediaSource>, RunError> {
        Ok(Arc::new(FileMedia::open(self.path.join(name))?))
    }

    fn target(&self, name: &str) -> Result<Box<dyn Target>, RunError> {
        let target = FileTarget::new(self.path.join(name));
        let is_cleared = self.is_cleared.swap(true, Ordering::Relaxed);
        Ok(Box::new(if is_cleared { target.in_cleared() } else { target }))
    }

    fn shown(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}
