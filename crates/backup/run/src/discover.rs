//! Media sets in directories and below prefixes of object stores.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tdekit_backup_media::{MEDIA_HEADER_LEN, MediaHeader};
use tdekit_key_store::is_workplace;
use tdekit_sqlite_convert::{Watch, go_on};

use crate::found::decode;
use crate::names::is_object_name;
use crate::place::{Opened, Place, is_missing, open};
use crate::{MediaSource, RunError, stores};

/// A place of media sets, as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// All media sets in a directory and below it.
    Directory(PathBuf),
    /// All media sets whose address begins with this text, which ends with a slash.
    Prefix(String),
    /// The objects of an archive right in a directory or behind a prefix, and no other file.
    Objects(Box<Self>),
    /// One media set.
    Media(Place),
    /// Media sets that were named one by one.
    Several(Vec<Place>),
}

/// A file, an object or a directory that could not be read as a media set.
#[derive(Debug, Clone, Serialize)]
pub struct Unreadable {
    /// Its path or address.
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    pub path: PathBuf,
    /// The reason.
    pub error: String,
}

/// The media sets at a root.
#[derive(Debug, Default)]
pub(crate) struct Discovered {
    /// Number of files and objects.
    pub(crate) files: usize,
    /// The places of each media set, by its identifier.
    pub(crate) media: BTreeMap<[u8; 16], Vec<Place>>,
    /// What could not be read.
    pub(crate) unreadable: Vec<Unreadable>,
    /// Files and objects that do not begin like media sets, as users name them.
    pub(crate) others: Vec<String>,
}

impl Root {
    /// Parses an argument: a directory, a media file, the address of a media set, or a prefix of
    /// addresses. An address at which no object stands is a prefix, with or without its last slash.
    ///
    /// # Errors
    /// `Missing` for a file that is not there, `Io`; those of an object store.
    pub fn of(argument: &OsStr) -> Result<Self, RunError> {
        let place = Place::of(argument);
        match &place {
            Place::Standard => Err(RunError::StandardInput),
            Place::File(path) => match fs::metadata(path) {
                Ok(facts) if facts.is_dir() => {
                    let path = fs::canonicalize(path).map_err(RunError::io("open", path))?;
                    Ok(Self::Directory(path))
                }
                Ok(_) => Ok(Self::Media(place)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    Err(RunError::Missing { path: path.clone() })
                }
                Err(error) => Err(RunError::io("open", path)(error)),
            },
            Place::Object(address) if stores::is_prefix(address) => {
                Ok(Self::Prefix(address.clone()))
            }
            Place::Object(address) => match place.source() {
                Ok(_) => Ok(Self::Media(place)),
                Err(error) if is_missing(&error) => Ok(Self::Prefix(format!("{address}/"))),
                Err(error) => Err(error),
            },
        }
    }

    /// Returns the objects of an archive, a directory or a prefix. Nothing else is opened.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn of_archive(place: &OsStr) -> Result<Self, RunError> {
        let root = match Place::of(place) {
            Place::Object(address) => Self::Prefix(format!("{}/", address.trim_end_matches('/'))),
            Place::File(_) | Place::Standard => Self::of(place)?,
        };
        Ok(Self::Objects(Box::new(root)))
    }

    /// Returns the name that users see.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Directory(path) => path.display().to_string(),
            Self::Prefix(address) => address.clone(),
            Self::Objects(root) => root.shown(),
            Self::Media(place) => place.shown(),
            Self::Several(places) => match places.split_first() {
                Some((first, [])) => first.shown(),
                Some((first, more)) => format!("{} and {} more", first.shown(), more.len()),
                None => String::new(),
            },
        }
    }

    /// Returns true if a recorded place, an absolute path or an address, belongs to it.
    #[must_use]
    pub fn contains(&self, recorded: &str) -> bool {
        match self {
            Self::Directory(path) => Path::new(recorded).starts_with(path),
            Self::Prefix(address) => recorded.starts_with(address.as_str()),
            Self::Objects(root) => {
                let archive = root.shown();
                let archive = Path::new(archive.trim_end_matches('/'));
                is_object_name(recorded) && Path::new(recorded).parent() == Some(archive)
            }
            Self::Media(place) => is_recorded_as(place, recorded),
            Self::Several(places) => places.iter().any(|place| is_recorded_as(place, recorded)),
        }
    }

    /// Finds its media sets. What cannot be read is in the result; symbolic links in a directory
    /// are not followed.
    ///
    /// # Errors
    /// `Interrupted`; `Missing` if one media set is named and not there; those of an object store.
    pub(crate) fn discover(&self, watch: &dyn Watch) -> Result<Discovered, RunError> {
        let mut found = Discovered::default();
        match self {
            Self::Directory(path) => found.in_directory(path, watch)?,
            Self::Prefix(address) => {
                go_on(watch)?;
                for (address, header) in stores::media_below(address)? {
                    found.add(Place::Object(address), header);
                }
            }
            Self::Objects(root) => match &**root {
                Self::Directory(path) => found.objects_in(path, watch)?,
                Self::Prefix(address) => {
                    go_on(watch)?;
                    let below = stores::media_below(address)?;
                    for (address, header) in below.into_iter().filter(|it| self.contains(&it.0)) {
                        found.add(Place::Object(address), header);
                    }
                }
                root => return root.discover(watch),
            },
            Self::Media(place) => {
                let header = named_header(place, &*place.source()?);
                found.add(place.clone(), header.map(Some));
            }
            Self::Several(places) => {
                for place in places {
                    go_on(watch)?;
                    let source = place.source();
                    let header = source.and_then(|source| named_header(place, &*source));
                    found.add(place.clone(), header.map(Some));
                }
            }
        }
        Ok(found)
    }
}

fn is_recorded_as(place: &Place, recorded: &str) -> bool {
    place.recorded().is_some_and(|own| own == Path::new(recorded))
}

/// Reads the header of a media set that was named.
fn named_header(place: &Place, source: &dyn MediaSource) -> Result<MediaHeader, RunError> {
    let mut head = vec![0; MEDIA_HEADER_LEN];
    source.read_at(0, 0, &mut head)?;
    let header = decode(&head, &place.shown())?;
    header.ok_or(RunError::NotMedia { media: place.shown() })
}

/// The media sets at a root, one after the other.
pub struct MediaSets {
    found: Discovered,
    groups: std::vec::IntoIter<Vec<Place>>,
    next: Vec<(Vec<Place>, Opened)>,
}

impl MediaSets {
    /// Finds the media sets at `root`.
    ///
    /// # Errors
    /// `Interrupted`; `Missing` if one media set is named and not there; those of an object store.
    pub fn find(root: &Root, watch: &dyn Watch) -> Result<Self, RunError> {
        let mut found = root.discover(watch)?;
        let groups: Vec<Vec<Place>> = std::mem::take(&mut found.media).into_values().collect();
        Ok(Self { found, groups: groups.into_iter(), next: Vec::new() })
    }

    /// Returns what could not be read so far.
    #[must_use]
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.found.unreadable
    }

    /// Returns the files and objects that do not begin like media sets, as users name them.
    #[must_use]
    pub fn others(&self) -> &[String] {
        &self.found.others
    }
}

impl Iterator for MediaSets {
    type Item = (Vec<Place>, Opened);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(opened) = self.next.pop() {
                return Some(opened);
            }
            self.next = self.found.open(&self.groups.next()?);
        }
    }
}

impl Discovered {
    /// Finds files that begin like media sets. Notes a directory that may not be read.
    pub(crate) fn in_directory(&mut self, dir: &Path, watch: &dyn Watch) -> Result<(), RunError> {
        go_on(watch)?;
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) => {
                self.note(dir, &error);
                return Ok(());
            }
        };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if !metadata.is_file() && path.to_str().is_some_and(is_object_name) {
                // A link or a directory in an object's place.
                self.others.push(path.display().to_string());
            }
            if metadata.is_dir() {
                // What is being made there counts once it has its name.
                if !is_workplace(&path) {
                    self.in_directory(&path, watch)?;
                }
                continue;
            }
            if metadata.is_file() {
                let header = header_of(&path);
                self.add(Place::File(path), header);
            }
        }
        Ok(())
    }

    /// Finds the objects of an archive in a directory. Other files stay closed: where one is a
    /// database that this process has open, to close it once more would drop its locks.
    fn objects_in(&mut self, dir: &Path, watch: &dyn Watch) -> Result<(), RunError> {
        let entries = fs::read_dir(dir).map_err(RunError::io("read", dir))?;
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.to_str().is_some_and(is_object_name));
        paths.sort();
        for path in paths {
            go_on(watch)?;
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_file() {
                let header = header_of(&path);
                self.add(Place::File(path), header);
            } else {
                self.others.push(path.display().to_string());
            }
        }
        Ok(())
    }

    /// Opens the places of one media set together, as its mirrors and stripes. Those that do not
    /// fit together, such as a copy of an earlier state that was continued separately, are opened
    /// individually.
    pub(crate) fn open(&mut self, places: &[Place]) -> Vec<(Vec<Place>, Opened)> {
        if let Ok(opened) = open(places) {
            return vec![(places.to_vec(), opened)];
        }
        let mut each = Vec::new();
        for place in places {
            match open(std::slice::from_ref(place)) {
                Ok(opened) => each.push((vec![place.clone()], opened)),
                Err(error) => self.note(Path::new(&place.shown()), &error),
            }
        }
        each
    }

    pub(crate) fn note(&mut self, path: &Path, error: &dyn std::error::Error) {
        self.unreadable.push(Unreadable { path: path.to_owned(), error: error.to_string() });
    }

    fn add(&mut self, place: Place, header: Result<Option<MediaHeader>, RunError>) {
        match header {
            Ok(None) => self.others.push(place.shown()),
            Ok(Some(header)) => {
                self.files += 1;
                self.media.entry(header.media_id).or_default().push(place);
            }
            Err(error) => self.note(Path::new(&place.shown()), &error),
        }
    }
}

/// Reads the header of a file that begins like a media set; `None` for any other. A damaged header
/// is an error: its content is not known.
pub(crate) fn header_of(path: &Path) -> Result<Option<MediaHeader>, RunError> {
    let file = File::open(path).map_err(RunError::io("open", path))?;
    let mut head = Vec::with_capacity(MEDIA_HEADER_LEN);
    let limit = MEDIA_HEADER_LEN as u64;
    file.take(limit).read_to_end(&mut head).map_err(RunError::io("read", path))?;
    decode(&head, &path.display().to_string())
}
