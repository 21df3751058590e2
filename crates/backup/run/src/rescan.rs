//! Rebuilds the history from the media sets that are found in directories.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tdekit_sqlite_convert::Watch;

use crate::discover::Discovered;
pub use crate::discover::Unreadable;
use crate::moved::forget_left;
use crate::place::{Opened, Place};
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
    /// Places that media sets were moved from: the history does not have them any more.
    pub left: Vec<String>,
    /// Faults of the media sets.
    pub findings: Vec<FindingReport>,
    /// Files that could not be read as media sets, with the reason.
    pub unreadable: Vec<Unreadable>,
}

/// Records every set of the media sets in `dirs` and below them. Symbolic links below them are not
/// followed. A file at the place of a media set that the history knows, and that is not one now,
/// counts as unreadable. A place that a media set was moved from is taken off. Log sets are counted
/// and not recorded: an archive is its own list. `tell` receives the findings of each media set.
/// `watch` can stop the search for files.
///
/// # Errors
/// As for `Catalog::record`; `Io` if one of `dirs` does not exist; `Interrupted`.
pub fn scan(
    catalog: &mut Catalog,
    dirs: &[PathBuf],
    watch: &dyn Watch,
    tell: &mut dyn FnMut(&[Finding]),
) -> Result<Scanned, RunError> {
    let mut files = Discovered::default();
    for dir in dirs {
        let dir = fs::canonicalize(dir).map_err(RunError::io("open", dir))?;
        files.in_directory(&dir, watch)?;
        note_ruined(&mut files, &dir, &catalog.media_places()?);
    }
    let mut found = Scanned { files: files.files, ..Scanned::default() };
    for (media_id, places) in std::mem::take(&mut files.media) {
        found.media_sets += 1;
        let known = catalog.places_of(&hex::encode(media_id))?;
        let mut now = Vec::new();
        for (_, Opened { media, devices }) in files.open(&places) {
            tell(media.findings());
            found.findings.extend(media.findings().iter().map(FindingReport::of));
            for set in media.sets() {
                found.sets += 1;
                if set.log.is_some() {
                    continue;
                }
                let row = CatalogSet::of(set, &media.id(), &devices);
                found.new += usize::from(catalog.record(&row)?);
            }
            now.extend(devices);
        }
        found.left.append(&mut forget_left(catalog, &media_id, &known, &now)?);
    }
    found.unreadable = files.unreadable;
    Ok(found)
}

/// Records what is in `dir` and below it at one of `places`, and does not begin like a media set.
fn note_ruined(files: &mut Discovered, dir: &Path, places: &BTreeSet<String>) {
    let seen: BTreeSet<PathBuf> = {
        let noted = files.unreadable.iter().map(|noted| noted.path.clone());
        files.media.values().flatten().filter_map(Place::recorded).chain(noted).collect()
    };
    let below = places.iter().map(Path::new).filter(|place| place.starts_with(dir));
    for place in below.filter(|place| !seen.contains(*place)) {
        if fs::symlink_metadata(place).is_ok() {
            let error = "it is not a media set, and the history knows one there".to_owned();
            files.unreadable.push(Unreadable { path: place.to_owned(), error });
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
}
