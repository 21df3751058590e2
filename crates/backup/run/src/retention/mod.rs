//! Removing media sets that no rule keeps.
//!
//! Rules keep sets (`rules`); a media set goes as a whole, when none of its sets is kept, or
//! needed by a kept one. What is going to be removed is in the backup history before the first file
//! goes, so that the next run finishes what a killed one has begun (`apply`).

mod apply;
mod begun;
mod known;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use serde::Serialize;
use tdekit_sqlite_convert::{Watch, go_on};

use self::known::Known;
use self::rules::{Point, Reason, SetId, decide, torn_chains};
use crate::catalog::Doomed;
use crate::discover::{Discovered, Root, Unreadable};
use crate::elsewhere::attach_among;
use crate::labels::now_ms;
use crate::names::is_object_name;
use crate::place::{Opened, Place};
use crate::{
    Catalog, CatalogFilter, CatalogSet, Finding, FindingReport, Operator, RunError, SetInfo,
    SetKind, SourceKind, date_of_ms,
};

pub use self::rules::Rules;
pub use crate::info::BINARY_LOG;

/// A request to prune.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The rules for each database.
    pub rules: Rules,
    /// Only sets of this database, by its name, or its path when it was backed up.
    pub database: Option<&'a str>,
    /// True to remove and record nothing.
    pub dry_run: bool,
}

/// Result of pruning.
#[derive(Debug, Serialize)]
pub struct Pruned {
    /// The place that was named.
    pub place: String,
    /// True if nothing was removed.
    pub dry_run: bool,
    /// All media sets there.
    pub media: Vec<MediaFate>,
    /// Files and objects that could not be read as a media set: they were kept.
    pub unreadable: Vec<Unreadable>,
    /// Places of media sets that the history knows, and that nobody recorded as removed.
    pub missing: Vec<String>,
    /// Bytes of what was removed, or would be.
    pub removed_bytes: u64,
}

/// The decision on a media set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is kept.
    Keep,
    /// It is removed.
    Remove,
    /// An earlier run began to remove it.
    Finish,
}

/// A media set, and what becomes of it.
#[derive(Debug, Serialize)]
pub struct MediaFate {
    /// Its identifier.
    pub media_uuid: String,
    /// Its files or objects.
    pub places: Vec<String>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The decision.
    pub fate: Fate,
    /// True once nothing is left of it.
    pub removed: bool,
    /// The reason why it could not be removed.
    #[serde(serialize_with = "error_text")]
    pub error: Option<RunError>,
    /// Its faults, for which it is kept.
    pub findings: Vec<FindingReport>,
    /// Its sets.
    pub sets: Vec<SetFate>,
}

/// A set, and why it is kept.
#[derive(Debug, Serialize)]
pub struct SetFate {
    /// Its place in the media set.
    pub position: u32,
    /// Its identifier.
    pub backup_set_uuid: String,
    /// Name of its database.
    pub database_name: String,
    /// `full`, `differential`, `log` or `stream`.
    pub kind: &'static str,
    /// Start of the backup.
    pub backup_start_date: String,
    /// The reasons to keep it; none if it may be removed.
    pub keep: Vec<String>,
}

impl Pruned {
    /// Returns the number of media sets that have findings.
    #[must_use]
    pub fn unsound(&self) -> usize {
        self.media.iter().filter(|media| !media.findings.is_empty()).count()
    }

    /// Returns the number of sets that no rule keeps, and that stay as a part of a media set that
    /// is kept.
    #[must_use]
    pub fn held(&self) -> usize {
        let kept = self.media.iter().filter(|media| media.fate == Fate::Keep);
        kept.flat_map(|media| &media.sets).filter(|set| set.keep.is_empty()).count()
    }

    /// Fails if something could not be removed, or could not be judged.
    ///
    /// # Errors
    /// `NotPruned`, `KeptUnsound`.
    pub fn refuse_unfinished(&mut self) -> Result<(), RunError> {
        let failed = self.media.iter().filter(|media| media.error.is_some()).count();
        if let Some(first) = self.media.iter_mut().find_map(|media| media.error.take()) {
            return Err(RunError::NotPruned { failed, first: Box::new(first) });
        }
        let (media, unreadable) = (self.unsound(), self.unreadable.len());
        match media + unreadable {
            0 => Ok(()),
            _ => Err(RunError::KeptUnsound { media, unreadable }),
        }
    }
}

/// Removes the media sets at `root` that no rule keeps: no set of it is kept, or needed by a kept
/// one. The newest set of each database is always kept, and one that was verified, if any was. What
/// is damaged or cannot be read is kept and named.
///
/// # Errors
/// `NoRule`; `NoSuchDatabase`; `Locked` while another run prunes the same directory; those of
/// finding media sets and of the history, which must be writable. Failures to remove are in the
/// result.
pub fn prune(
    operator: &dyn Operator,
    root: &Root,
    wanted: &Wanted<'_>,
    watch: &dyn Watch,
) -> Result<Pruned, RunError> {
    if wanted.rules.is_empty() {
        return Err(RunError::NoRule);
    }
    let mut catalog = open_catalog(operator, wanted.dry_run)?;
    let _lock = lock(root, wanted.dry_run)?;
    let mut pruned = Pruned {
        place: root.shown(),
        dry_run: wanted.dry_run,
        media: Vec::new(),
        unreadable: Vec::new(),
        missing: Vec::new(),
        removed_bytes: 0,
    };
    if let Some(catalog) = &mut catalog {
        pruned.media = apply::finish(operator, catalog, root, wanted.dry_run)?;
    }
    let begun: BTreeSet<String> =
        pruned.media.iter().flat_map(|media| media.places.clone()).collect();
    let mut found = root.discover(watch)?;
    note_objects(&mut found);
    if let Some(catalog) = &catalog {
        pruned.missing = missing(catalog, root, &mut found)?;
    }
    found.unreadable.retain(|each| !is_left_of(&each.path.to_string_lossy(), &begun));
    let readings = catalog.as_ref().map(Catalog::last_readings).transpose()?.unwrap_or_default();
    let filter = CatalogFilter::default();
    let known = catalog.as_ref().map(|catalog| catalog.sets(&filter)).transpose()?;
    let known = known.unwrap_or_default();
    let mut candidates =
        Candidates { operator, wanted, readings, media: Vec::new(), elsewhere: BTreeMap::new() };
    for mut places in std::mem::take(&mut found.media).into_values() {
        go_on(watch)?;
        places.retain(|place| !begun.contains(&recorded(place)));
        for (places, mut opened) in found.open(&places) {
            attach_among(&known, &mut opened.media);
            candidates.add(&places, &opened)?;
        }
    }
    pruned.unreadable.append(&mut found.unreadable);
    let places = catalog.as_ref().map(Catalog::pruned_places).transpose()?.unwrap_or_default();
    let known = Known::of(&known, &places, (root, &found), (&pruned, &candidates.media));
    let mut doomed = candidates.decide(root, &known)?;
    if let Some(catalog) = catalog.as_mut().filter(|_| !wanted.dry_run) {
        apply::remove_all(operator, catalog, &mut doomed, watch)?;
    }
    pruned.media.extend(doomed.into_iter().map(|candidate| candidate.fate));
    let removed = pruned.media.iter().filter(|media| media.fate != Fate::Keep);
    pruned.removed_bytes =
        removed.filter(|media| media.removed || wanted.dry_run).map(|media| media.bytes).sum();
    Ok(pruned)
}

/// A media set that was found.
struct Candidate {
    fate: MediaFate,
    points: Vec<Point>,
    /// The rows of its sets in the history.
    rows: Vec<CatalogSet>,
    doomed: Vec<Doomed>,
    /// True if a set of it may be there and was not read.
    hides: bool,
}

struct Candidates<'a> {
    operator: &'a dyn Operator,
    wanted: &'a Wanted<'a>,
    /// Whether the last complete reading of a set found no fault.
    readings: BTreeMap<String, bool>,
    media: Vec<Candidate>,
    /// Sets on other media that the history knows, and that sets here stand on.
    elsewhere: BTreeMap<SetId, Point>,
}

impl Candidates<'_> {
    fn add(&mut self, places: &[Place], opened: &Opened) -> Result<(), RunError> {
        let media = &opened.media;
        let mut findings = FindingReport::all(self.operator, media);
        // Without a history nothing is recorded, and nothing removed.
        findings.retain(|finding| !finding.is_not_compared());
        let media_uuid = hex::encode(media.id());
        for set in media.sets().iter().flat_map(|set| media.with_base(set)) {
            let of = media.media_of(set);
            if of.id() != media.id() && !self.elsewhere.contains_key(&set.set_id) {
                let findings: Vec<_> = of.findings().iter().map(FindingReport::of).collect();
                let point = Point { database: None, asked: true, ..self.point(set, &findings) };
                self.elsewhere.insert(set.set_id, point);
            }
        }
        let extents = media.extents()?;
        let places: Vec<String> = places.iter().map(recorded).collect();
        let doomed = places.iter().zip(&extents).map(|(device, (parts, bytes))| Doomed {
            media_uuid: media_uuid.clone(),
            device: device.clone(),
            parts: *parts,
            bytes: *bytes,
        });
        self.media.push(Candidate {
            doomed: doomed.collect(),
            hides: media.findings().iter().any(Finding::hides_set),
            points: media.sets().iter().map(|set| self.point(set, &findings)).collect(),
            rows: media
                .sets()
                .iter()
                // The history has no log sets of archives.
                .filter(|set| set.log.is_none())
                .map(|set| CatalogSet::of(set, &media.id(), &opened.devices))
                .collect(),
            fate: MediaFate {
                media_uuid,
                places,
                bytes: extents.iter().map(|(_, bytes)| bytes).sum(),
                fate: Fate::Keep,
                removed: false,
                error: None,
                findings,
                sets: media.sets().iter().map(set_fate).collect(),
            },
        });
        Ok(())
    }

    fn point(&self, set: &SetInfo, findings: &[FindingReport]) -> Point {
        let reading = self.readings.get(&hex::encode(set.set_id));
        let fault = match (&set.damage, findings.first(), reading) {
            (Some(damage), ..) => Some(damage.clone()),
            (None, Some(finding), _) => Some(finding.message.clone()),
            (None, None, Some(false)) => Some("it was damaged when it was last read".to_owned()),
            (None, None, _) => None,
        };
        let named = |name: &str| set.database_name == name || set.path == name;
        Point {
            set: set.set_id,
            database: database_of(set),
            name: set.database_name.clone(),
            asked: self.wanted.database.is_none_or(named),
            at_ms: set.begun_ms,
            expires_ms: set.expires_ms,
            needs: set.base.into_iter().collect(),
            is_log: set.log.is_some(),
            chain: set.log.map(|link| link.chain),
            is_log_backup: set.is_log_backup(),
            is_base: set.source == SourceKind::Database
                && set.kind != SetKind::Differential
                && !set.copy_only,
            in_archive: set.is_of_archive(),
            verified: reading == Some(&true),
            fault,
        }
    }

    /// Decides on all media sets. The newest comes first: what needs others goes before them.
    fn decide(mut self, root: &Root, known: &Known) -> Result<Vec<Candidate>, RunError> {
        let mut points: Vec<Point> =
            self.media.iter().flat_map(|media| media.points.iter().cloned()).collect();
        if let Some(database) = self.wanted.database.filter(|_| !points.iter().any(|it| it.asked)) {
            let (media, database) = (root.shown(), database.to_owned());
            return Err(RunError::NoSuchDatabase { media, database });
        }
        // What stands on them is restorable; they are of other places, and count for no rule.
        let here: BTreeSet<SetId> = points.iter().map(|point| point.set).collect();
        points.extend(self.elsewhere.into_values().filter(|point| !here.contains(&point.set)));
        let torn = torn_chains(&points);
        let mut reasons = decide(&points, &self.wanted.rules, now_ms()).into_iter();
        for media in &mut self.media {
            let own: Vec<BTreeSet<Reason>> = reasons.by_ref().take(media.points.len()).collect();
            let kept = own.iter().any(|reasons| !reasons.is_empty());
            if !kept && media.fate.findings.is_empty() && !own.is_empty() {
                media.fate.fate = Fate::Remove;
            }
            for (set, reasons) in media.fate.sets.iter_mut().zip(own) {
                set.keep = reasons.iter().map(ToString::to_string).collect();
            }
        }
        known.keep_needed(&mut self.media, &torn);
        begun::sort_newest_first(&mut self.media);
        Ok(self.media)
    }
}

/// Returns a text that is the same for all sets of a database: its file id, which it keeps when it
/// is moved, otherwise where it was and on which machine. The command and T-SQL have other names
/// for one file. `None` for a binary log, which backups of another place need.
fn database_of(set: &SetInfo) -> Option<String> {
    let SetInfo { database_id, database_name: name, path, host, .. } = set;
    match set.source {
        SourceKind::Database if *database_id != [0; 16] => Some(hex::encode(database_id)),
        _ if name.is_empty() => None,
        SourceKind::Stream if set.is_binary_log() => None,
        SourceKind::Database if path.is_empty() => Some(format!("database\0{host}\0\0{name}")),
        SourceKind::Database => Some(format!("database\0{host}\0{path}")),
        SourceKind::Stream => Some(format!("stream\0{host}\0{name}")),
    }
}

fn set_fate(set: &SetInfo) -> SetFate {
    SetFate {
        position: set.position,
        backup_set_uuid: hex::encode(set.set_id),
        database_name: set.database_name.clone(),
        kind: match (set.source, set.kind) {
            (SourceKind::Stream, _) => "stream",
            (SourceKind::Database, SetKind::Full) => "full",
            (SourceKind::Database, SetKind::Differential) => "differential",
            (SourceKind::Database, SetKind::Log) => "log",
        },
        backup_start_date: date_of_ms(set.begun_ms),
        keep: Vec::new(),
    }
}

/// Returns true for a media set whose removal was begun, and for a part of it that is left.
fn is_left_of(place: &str, begun: &BTreeSet<String>) -> bool {
    let base =
        place.rsplit_once('.').filter(|(_, part)| part.bytes().all(|it| it.is_ascii_digit()));
    begun.contains(place) || base.is_some_and(|(base, _)| begun.contains(base))
}

/// Returns the place's name in the history.
fn recorded(place: &Place) -> String {
    let recorded = place.recorded().map(|path| path.to_string_lossy().into_owned());
    recorded.unwrap_or_else(|| place.shown())
}

/// Notes what has the name of an archive's object and does not begin like one as unreadable.
fn note_objects(found: &mut Discovered) {
    for object in found.others.iter().filter(|name| is_object_name(name)) {
        let error = "it has the name of an archive's object, and is not like one".to_owned();
        found.unreadable.push(Unreadable { path: object.into(), error });
    }
}

/// Returns the known places at `root` where nothing is. A file that is there and is not like a
/// media set is noted as unreadable.
fn missing(
    catalog: &Catalog,
    root: &Root,
    found: &mut Discovered,
) -> Result<Vec<String>, RunError> {
    let here: BTreeSet<String> = found.media.values().flatten().map(recorded).collect();
    let noted: BTreeSet<String> =
        found.unreadable.iter().map(|each| each.path.to_string_lossy().into_owned()).collect();
    let mut missing = Vec::new();
    for known in catalog.present_places()?.into_keys() {
        if !root.contains(&known) || here.contains(&known) || noted.contains(&known) {
            continue;
        }
        match crate::remove::place_of(&known) {
            Place::File(path) if path.symlink_metadata().is_ok() => {
                let error =
                    "the history knows a media set there, and it is not like one".to_owned();
                found.unreadable.push(Unreadable { path, error });
            }
            _ => missing.push(known),
        }
    }
    Ok(missing)
}

/// Opens the history: to write it, or for a dry run to read it, if there is one.
fn open_catalog(operator: &dyn Operator, dry_run: bool) -> Result<Option<Catalog>, RunError> {
    if !dry_run {
        return Ok(Some(Catalog::open(&operator.access().kept_dir()?)?));
    }
    match operator.access().dir() {
        Ok(dir) => Catalog::open_existing(&dir),
        Err(_) => Ok(None),
    }
}

/// Excludes another run on the same directory until the result is dropped.
fn lock(root: &Root, dry_run: bool) -> Result<Option<File>, RunError> {
    match root {
        Root::Objects(archive) => lock(archive, dry_run),
        Root::Directory(path) if !dry_run => {
            let dir = File::open(path).map_err(RunError::io("open", path))?;
            crate::file::lock(&dir, path)?;
            Ok(Some(dir))
        }
        _ => Ok(None),
    }
}

fn error_text<S: serde::Serializer>(
    error: &Option<RunError>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match error {
        Some(error) => serializer.collect_str(error),
        None => serializer.serialize_none(),
    }
}
