//! Places of media sets: files, objects on a store, standard output.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tdekit_backup_media::{MEDIA_HEADER_LEN, MediaHeader};

use crate::{
    Append, AppendAt, CatalogDevice, FileMedia, FileTarget, Media, MediaSource, ObjectFault,
    RunError, Storage, Target, stores,
};

/// The name of standard output and input.
const STANDARD: &str = "-";
/// Length of the magic at the beginning of media sets.
const MAGIC_LEN: usize = 16;

/// A place of a media set, as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file.
    File(PathBuf),
    /// An object, by its address.
    Object(String),
    /// Standard output.
    Standard,
}

/// An opened media set, and its places.
pub struct Opened {
    /// The media set.
    pub media: Media,
    /// Its files and objects, for the history.
    pub devices: Vec<CatalogDevice>,
}

impl Place {
    /// Parses an argument: `-`, an address such as `s3://bucket/name`, or the path of a file.
    #[must_use]
    pub fn of(argument: &OsStr) -> Self {
        match argument.to_str() {
            Some(STANDARD) => Self::Standard,
            Some(text) if is_address(text) => Self::Object(text.to_owned()),
            _ => Self::File(PathBuf::from(argument)),
        }
    }

    /// Parses all arguments.
    ///
    /// # Errors
    /// `GivenTwice` when one is given twice.
    pub fn all(arguments: &[OsString]) -> Result<Vec<Self>, RunError> {
        let places: Vec<_> = arguments.iter().map(|argument| Self::of(argument)).collect();
        for (at, place) in places.iter().enumerate() {
            if places.iter().take(at).any(|other| other.is(place)) {
                return Err(RunError::GivenTwice { place: place.shown() });
            }
        }
        Ok(places)
    }

    /// Returns the sink that writes there.
    ///
    /// # Errors
    /// `Option` for an address of an unknown store, `Object` for one without credentials.
    fn target(&self, expected_bytes: u64, storage: &Storage) -> Result<Box<dyn Target>, RunError> {
        if !matches!(self, Self::Object(_)) {
            refuse_storage(&self.shown(), storage)?;
        }
        Ok(match self {
            Self::File(path) => Box::new(FileTarget::new(path)),
            Self::Object(address) => stores::target(address, expected_bytes, storage)?,
            Self::Standard => Box::new(StandardOutput),
        })
    }

    /// Returns the source that reads from there.
    ///
    /// # Errors
    /// `Io`, those of a store; `StandardInput` for standard input, which cannot be read twice.
    pub fn source(&self) -> Result<Arc<dyn MediaSource>, RunError> {
        Ok(match self {
            Self::File(path) => Arc::new(FileMedia::open(path)?),
            Self::Object(address) => stores::source(address)?,
            Self::Standard => {
                return Err(RunError::StandardInput);
            }
        })
    }

    /// Returns the name that users see.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Object(address) => address.clone(),
            Self::Standard => "standard output".to_owned(),
        }
    }

    /// Returns the recorded form: an absolute path, or the address.
    #[must_use]
    pub fn recorded(&self) -> Option<PathBuf> {
        match self {
            Self::File(path) => {
                let resolved = fs::canonicalize(path).or_else(|_| gone_from(path));
                let resolved = resolved.or_else(|_| std::path::absolute(path));
                Some(resolved.unwrap_or_else(|_| path.clone()))
            }
            Self::Object(address) => Some(address.into()),
            Self::Standard => None,
        }
    }

    /// Returns true if `path` names this file.
    #[must_use]
    pub fn is_file(&self, path: &Path) -> bool {
        let Self::File(own) = self else { return false };
        match (fs::metadata(own), fs::metadata(path)) {
            (Ok(own), Ok(other)) => (own.dev(), own.ino()) == (other.dev(), other.ino()),
            _ => own == path,
        }
    }

    fn is(&self, other: &Self) -> bool {
        match other {
            Self::File(path) => self.is_file(path),
            _ => self == other,
        }
    }
}

/// Opens the media set at `places`.
///
/// # Errors
/// Those of [`Media::open`].
pub fn open(places: &[Place]) -> Result<Opened, RunError> {
    open_sources(places, places.iter().map(Place::source).collect::<Result<Vec<_>, _>>()?)
}

/// As [`open`], for who has other work to go on with: a store is asked again no longer than one
/// that an archive is shipped to.
///
/// # Errors
/// As [`open`].
pub fn open_briefly(place: &Place) -> Result<Opened, RunError> {
    let source = match place {
        Place::Object(address) => stores::source_briefly(address)?,
        place => place.source()?,
    };
    open_sources(std::slice::from_ref(place), vec![source])
}

fn open_sources(places: &[Place], sources: Vec<Arc<dyn MediaSource>>) -> Result<Opened, RunError> {
    let mut devices = Vec::with_capacity(places.len());
    for (place, source) in places.iter().zip(&sources) {
        let Some(recorded) = place.recorded() else { continue };
        devices.push(CatalogDevice {
            family_sequence_number: family_of(source.as_ref()),
            physical_device_name: recorded.to_string_lossy().into_owned(),
        });
    }
    Ok(Opened { media: Media::open(sources)?, devices })
}

/// Returns true if the error means that nothing exists there.
#[must_use]
pub fn is_missing(error: &RunError) -> bool {
    let no_object = matches!(error, RunError::Object { fault: ObjectFault::NoObject, .. });
    no_object || matches!(error, RunError::Missing { .. })
}

/// Returns true if `path`, as known to the key store, is that of a media set and not of a database.
#[must_use]
pub fn is_media(path: &Path) -> bool {
    let mut head = [0; MAGIC_LEN];
    // An object with a damaged header is still a media set.
    path.to_str().is_some_and(is_address)
        || FileMedia::open(path)
            .and_then(|file| file.read_at(0, 0, &mut head))
            .is_ok_and(|()| tdekit_backup_media::is_media(&head))
}

/// Returns a sink for each of `places`; `expected_bytes` is the expected maximum, 0 if unknown.
///
/// # Errors
/// As [`Place::source`].
pub fn targets(places: &[Place], expected_bytes: u64) -> Result<Vec<Box<dyn Target>>, RunError> {
    targets_kept(places, expected_bytes, &Storage::default())
}

/// As [`targets`], for objects that are kept in the given way.
///
/// # Errors
/// As there; `Option` for a file if there is a way.
pub fn targets_kept(
    places: &[Place],
    expected_bytes: u64,
    storage: &Storage,
) -> Result<Vec<Box<dyn Target>>, RunError> {
    places.iter().map(|place| place.target(expected_bytes, storage)).collect()
}

/// Returns the names of places in the history.
pub(crate) fn recorded(places: &[Place]) -> Vec<String> {
    let recorded = places.iter().filter_map(Place::recorded);
    recorded.map(|place| place.to_string_lossy().into_owned()).collect()
}

/// Refuses a storage class and a lock for a place that is not on an object store.
///
/// # Errors
/// `Option`.
pub(crate) fn refuse_storage(place: &str, storage: &Storage) -> Result<(), RunError> {
    if *storage == Storage::default() {
        return Ok(());
    }
    let reason = format!("{place} is not on an object store, which alone has locks and classes");
    Err(RunError::Option { what: "storage", reason })
}

/// Returns the path of what is not there, in its directory: the same as while it was there, also
/// where a link leads to the directory.
fn gone_from(path: &Path) -> io::Result<PathBuf> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    Ok(fs::canonicalize(directory)?.join(name))
}

fn is_address(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+';
        scheme.len() > 1 && scheme.bytes().all(plain) && !rest.is_empty()
    })
}

/// Returns the number of a striped media set's file, from 1; 1 if it cannot be read.
fn family_of(source: &dyn MediaSource) -> u32 {
    let mut head = [0; MEDIA_HEADER_LEN];
    let read = source.read_at(0, 0, &mut head);
    let header = read.ok().and_then(|()| MediaHeader::decode(&head).ok());
    header.map_or(1, |header| u32::from(header.family.index) + 1)
}

/// Writes a new media set to standard output. It is never durable, and nothing can be withdrawn.
struct StandardOutput;

impl Target for StandardOutput {
    fn name(&self) -> String {
        Place::Standard.shown()
    }

    fn open(&mut self) -> Result<Option<Arc<dyn MediaSource>>, RunError> {
        match io::stdout().is_terminal() {
            true => Err(RunError::Option {
                what: "--to -",
                reason: "standard output is a terminal".to_owned(),
            }),
            false => Ok(None),
        }
    }

    fn part_per_record(&self) -> bool {
        false
    }

    fn append(&mut self, place: AppendAt) -> Result<Box<dyn Append>, RunError> {
        match place {
            AppendAt::New { .. } => Ok(Box::new(Self)),
            AppendAt::Behind { part, .. } => Err(RunError::NoPart { media: self.name(), part }),
        }
    }
}

impl StandardOutput {
    fn put(&self, bytes: &[u8]) -> Result<(), RunError> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(|source| RunError::Io {
            action: "write",
            path: Place::Standard.shown().into(),
            source,
        })
    }
}

impl Append for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.put(bytes)
    }

    fn sync(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    fn publish(&mut self, trailer: &[u8]) -> Result<(), RunError> {
        self.put(trailer)
    }

    fn withdraw(&mut self) -> Result<(), RunError> {
        let source = io::ErrorKind::Unsupported.into();
        Err(RunError::Io { action: "take back", path: Place::Standard.shown().into(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_files_from_addresses() {
        let object = |text: &str| Place::Object(text.to_owned());
        let file = |text: &str| Place::File(text.into());
        assert_eq!(Place::of("-".as_ref()), Place::Standard);
        assert_eq!(Place::of("s3://bucket/a.bak".as_ref()), object("s3://bucket/a.bak"));
        for name in ["a.bak", "/a/b://c", "://x", "s3://", "c://x", "./-", "s3:/a"] {
            assert_eq!(Place::of(name.as_ref()), file(name), "{name}");
        }
    }

    #[test]
    fn what_is_gone_keeps_its_recorded_form() {
        let dir = tempfile::tempdir().unwrap();
        let (path, up) = (dir.path().join("a"), dir.path().join("up"));
        fs::write(&path, "").unwrap();
        std::os::unix::fs::symlink(dir.path(), &up).unwrap();
        for named in [path.clone(), up.join("a"), up.join("../up/a")] {
            let there = Place::File(named.clone()).recorded();
            fs::rename(&path, dir.path().join("b")).unwrap();
            assert_eq!(Place::File(named).recorded(), there);
            fs::rename(dir.path().join("b"), &path).unwrap();
        }
    }

    #[test]
    fn one_place_is_not_given_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "").unwrap();
        let other = dir.path().join("./a");
        let twice = [path.clone().into_os_string(), other.into_os_string()];
        assert!(Place::all(&twice).is_err());
        let none: [OsString; 2] = ["b".into(), "b".into()];
        assert!(Place::all(&none).is_err());
        let two = [path.into_os_string(), "b".into()];
        assert_eq!(Place::all(&two).unwrap().len(), 2);
    }
}
