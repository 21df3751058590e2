//! Rebuilds the history from the media sets that are found in directories.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tdekit_backup_media::{MEDIA_HEADER_LEN, MediaHeader, is_media};
use tdekit_sqlite_convert::{Watch, go_on};

use crate::place::{Opened, Place, open};
use crate::{Catalog, CatalogSet, Finding, FindingReport, RunError};

/// Result of a scan.
#[derive(Debug, Default, Serialize)]
pub struct Scanned {
    /// Number of files of media sets.
    pub files: usize,
    /// Number of media sets, each with its mirrors and stripes.
    pub media_sets: usize,
    /// Number of sets in them.
    pub sets: usize,
    /// Number of sets that the history did not have.
    pub new: usize,
    /// Faults of the media sets.
    pub findings: Vec<FindingReport>,
    /// Files that could not be read as media sets, with the reason.
    pub unreadable: Vec<Unreadable>,
}

/// A file or directory that could not be read.
#[derive(Debug, Serialize)]
pub struct Unreadable {
    /// Its path.
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    pub path: PathBuf,
    /// The reason.
    pub error: String,
}

/// Records every set of the media sets in `dirs` and below them. Symbolic links below them are not
/// followed. A file at the place of a media set that the history knows, and that is not one now,
/// counts as unreadable. `tell` receives the findings of each media set. `watch` can stop the
/// search for files.
///
/// # Errors
/// As for `Catalog::record`; `Io` if one of `dirs` does not exist; `Interrupted`.
pub fn scan(
    catalog: &mut Catalog,
    dirs: &[PathBuf],
    watch: &dyn Watch,
    tell: &mut dyn FnMut(&[Finding]),
) -> Result<Scanned, RunError> {
    let mut search = Search { watch, found: Scanned::default(), media: BTreeMap::new() };
    for dir in dirs {
        let dir = fs::canonicalize(dir).map_err(RunError::io("open", dir))?;
        search.find_media(&dir)?;
        search.note_ruined(&dir, &catalog.media_places()?);
    }
    let Search { mut found, media, .. } = search;
    for paths in media.into_values() {
        found.media_sets += 1;
        for Opened { media, devices } in open_group(&paths, &mut found) {
            tell(media.findings());
            found.findings.extend(media.findings().iter().map(FindingReport::of));
            for set in media.sets() {
                let row = CatalogSet::of(set, &media.id(), &devices);
                found.sets += 1;
                found.new += usize::from(catalog.record(&row)?);
            }
        }
    }
    Ok(found)
}

/// A search for files of media sets.
struct Search<'a> {
    watch: &'a dyn Watch,
    found: Scanned,
    /// The files of each media set, by its identifier.
    media: BTreeMap<[u8; 16], Vec<PathBuf>>,
}

impl Search<'_> {
    /// Finds files that begin like media sets. Records a directory that may not be read.
    fn find_media(&mut self, dir: &Path) -> Result<(), RunError> {
        go_on(self.watch)?;
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) => {
                self.found.note(dir, &error);
                return Ok(());
            }
        };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                self.find_media(&path)?;
                continue;
            }
            match metadata.is_file().then(|| header_of(&path)) {
                Some(Ok(Some(header))) => {
                    self.found.files += 1;
                    self.media.entry(header.media_id).or_default().push(path);
                }
                Some(Err(error)) => self.found.note(&path, &error),
                Some(Ok(None)) | None => {}
            }
        }
        Ok(())
    }

    /// Records what is in `dir` and below it at one of `places`, and does not begin like a media
    /// set.
    fn note_ruined(&mut self, dir: &Path, places: &BTreeSet<String>) {
        let noted = self.found.unreadable.iter().map(|noted| noted.path.clone());
        let seen: BTreeSet<PathBuf> = self.media.values().flatten().cloned().chain(noted).collect();
        let below = places.iter().map(Path::new).filter(|place| place.starts_with(dir));
        let unseen = below.filter(|place| !seen.contains(*place));
        for place in unseen.filter(|place| fs::symlink_metadata(place).is_ok()) {
            self.found.note(place, &"it is not a media set, and the history knows one there");
        }
    }
}

impl Scanned {
    /// Fails if a file could not be read, or a media set has a finding.
    ///
    /// # Errors
    /// `ScanUnsound`.
    pub fn refuse_unsound(&self) -> Result<(), RunError> {
        let (unreadable, findings) = (self.unreadable.len(), self.findings.len());
        match unreadable + findings {
            0 => Ok(()),
            _ => Err(RunError::ScanUnsound { unreadable, findings }),
        }
    }

    fn note(&mut self, path: &Path, error: &dyn std::fmt::Display) {
        self.unreadable.push(Unreadable { path: path.to_owned(), error: error.to_string() });
    }
}

/// Opens the files of one media set together, as its mirrors and stripes. Files that do not fit
/// together, such as a copy of an earlier state that was continued separately, are opened
/// individually.
fn open_group(paths: &[PathBuf], found: &mut Scanned) -> Vec<Opened> {
    let place = |path: &PathBuf| Place::File(path.clone());
    if let Ok(opened) = open(&paths.iter().map(place).collect::<Vec<_>>()) {
        return vec![opened];
    }
    let mut each = Vec::new();
    for path in paths {
        match open(&[place(path)]) {
            Ok(opened) => each.push(opened),
            Err(error) => found.note(path, &error),
        }
    }
    each
}

/// Reads the header of a file that begins like a media set; `None` for any other. A damaged header
/// is an error: its content is not known.
fn header_of(path: &Path) -> Result<Option<MediaHeader>, RunError> {
    let file = File::open(path).map_err(RunError::io("open", path))?;
    let mut head = Vec::with_capacity(MEDIA_HEADER_LEN);
    let limit = MEDIA_HEADER_LEN as u64;
    file.take(limit).read_to_end(&mut head).map_err(RunError::io("read", path))?;
    if !is_media(&head) {
        return Ok(None);
    }
    MediaHeader::decode(&head).map(Some).map_err(|error| RunError::Damaged {
        media: path.display().to_string(),
        what: "the media header".to_owned(),
        reason: error.to_string(),
    })
}
