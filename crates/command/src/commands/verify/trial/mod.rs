//! `verify --restore-test`: restores sets on trial.

mod chains;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use tdekit_backup_run::archive::{Archive, ArchiveError, ArchivePlace, closed};
use tdekit_backup_run::elsewhere::{attach, places_of};
use tdekit_backup_run::place::{Opened, Place, is_missing, open};
use tdekit_backup_run::trial::{Trial, restore_chain_on_trial, restore_on_trial};
use tdekit_backup_run::{
    Checked, CheckedKind, Finding, FindingReport, MediaSets, Root, RunError, SetInfo, Unreadable,
    UnwrapSecret, date_of_ms, downgrade, history, readings,
};
use tdekit_console::{ConsoleError, GlobalArgs, output};
use tdekit_key_crypto::{Kind, random_bytes};

use self::chains::{Chains, lost};
use super::VerifyArgs;
use crate::backup::archive;
use crate::backup::binlogs;
use crate::backup::progress::{Reporter, run as steer};
use crate::backup::report::{kind_of, size, warn_reports};
use crate::error::CommandError;
use crate::progress::Shown;

/// Result of the trials, as JSON.
#[derive(Serialize)]
struct Trials {
    place: String,
    /// `whole`, `damaged`, `lost` (objects of an older chain of an archive are missing, and nothing
    /// else is wrong), or `not_verified` if a set could not be tried, or there was none.
    verdict: &'static str,
    sets: Vec<TriedSet>,
    /// Faults of the media sets.
    findings: Vec<FindingReport>,
    /// What could not be read as a media set.
    unreadable: Vec<Unreadable>,
    /// True if there was no media set.
    #[serde(skip)]
    is_empty: bool,
}

/// A set that was restored on trial.
#[derive(Serialize)]
struct TriedSet {
    places: Vec<String>,
    position: u32,
    backup_set_uuid: String,
    database_name: String,
    /// False if the set was not tried because its key is missing, or the history, which knows where
    /// its base is, cannot be read. It may be whole.
    tried: bool,
    ok: bool,
    bytes: u64,
    pages: u64,
    /// Pages that are equal to those that were backed up; for a chain of an archive, those of its
    /// log sets that are equal to the ones that were shipped, once for each object. Null without
    /// fingerprints or checks.
    compared_pages: Option<u64>,
    /// True if SQLite's quick_check found nothing.
    quick_check: bool,
    error: Option<String>,
    /// The sets that it was found damaged for.
    #[serde(skip)]
    damaged: Vec<String>,
}

/// A set that may be tried.
struct Candidate {
    /// The number of its media set.
    media: usize,
    position: u32,
    /// Its database: file id, machine, path and name.
    database: ([u8; 16], String, String, String),
    begun_ms: i64,
}

/// Runs `verify --restore-test`.
pub(crate) fn run(args: &VerifyArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    // As it was when the test began: it shows what `prune` removes meanwhile.
    let archive = archive::existing(&args.media)?.map(|place| Chains::of(&place)).transpose()?;
    if args.position.is_some() {
        args.refuse_position(archive.is_some(), binlogs::found(&args.media)?.is_some())?;
    }
    let (place, media, mut unreadable) = find(args)?;
    if let Some(archive) = &archive {
        unreadable = archive.still_there(global, unreadable)?;
    }
    let media: Vec<_> = media.into_iter().map(|places| with_stripes(global, places)).collect();
    let (sets, findings, is_empty) = (Vec::new(), Vec::new(), media.is_empty());
    let mut trials = Trials { place, verdict: "whole", sets, findings, unreadable, is_empty };
    let media = trials.open_all(global, media, archive.as_ref())?;
    let media = archive.iter().fold(media, |media, archive| archive.with_links(media));
    trials.findings.extend(lacking_logs(&media));
    let mut beside = Vec::new();
    if let Some(archive) = &archive {
        let (findings, numbers) = archive_findings(args, global, &archive.place)?;
        trials.findings.extend(findings);
        beside = numbers;
    }
    let first_not_tried = trials.try_all(args, global, (&media, archive.as_ref()))?;
    // Sets that are whole do not end that an object beside them is not.
    if let Some(archive) = &archive {
        readings::record_beside(global, &archive.archive, &beside);
    }
    // Of several copies of a set, one that is damaged counts.
    for set in trials.sets.iter().flat_map(|tried| &tried.damaged) {
        history::record_check(global, CheckedKind::Backup, set, 1, None);
    }
    let failed = trials.sets.iter().filter(|set| set.tried && !set.ok).count();
    let (unknown, wrong): (Vec<&FindingReport>, Vec<_>) =
        trials.findings.iter().partition(|finding| finding.is_not_compared());
    if failed + wrong.len() + trials.unreadable.len() > 0 {
        let is_lost = failed + trials.unreadable.len() == 0 && wrong.iter().all(|it| it.is_loss());
        trials.verdict = if is_lost { "lost" } else { "damaged" };
    } else if first_not_tried.is_some() || !unknown.is_empty() || trials.sets.is_empty() {
        trials.verdict = "not_verified";
    }
    for each in trials.unreadable.iter().filter(|_| !args.json) {
        output::warning(format_args!("{}: {}", each.path.display(), each.error));
    }
    if args.json {
        output::json(&trials)?;
    }
    if archive.is_some() {
        refuse_archive(&trials)?;
    }
    refuse(&trials, failed)?;
    if let Some(error) = first_not_tried {
        return Err(error.into());
    }
    match trials.findings.first() {
        Some(unknown) => {
            let (finding, is_busy) = (unknown.message.clone(), unknown.is_in_use());
            if unknown.is_of_record() {
                let archive = trials.place;
                return Err(RunError::from(ArchiveError::NotCompared { archive, finding }).into());
            }
            Err(RunError::NotCompared { media: trials.place, finding, is_busy }.into())
        }
        None => Ok(()),
    }
}

impl Trials {
    /// Opens media sets, and returns those that can be opened.
    fn open_all(
        &mut self,
        global: &GlobalArgs,
        media: Vec<Vec<Place>>,
        archive: Option<&Chains>,
    ) -> Result<Vec<Vec<Place>>, CommandError> {
        let named = media.len() == 1 && self.unreadable.is_empty() && archive.is_none();
        let mut sound = Vec::new();
        for places in media {
            let error = match open(&places) {
                Ok(_) => {
                    sound.push(places);
                    continue;
                }
                Err(error) if archive.is_some() => {
                    self.unreadable.extend(lost(global, &places, archive, error)?);
                    continue;
                }
                Err(error) => history::explain(global, &places, error),
            };
            if !matches!(error, RunError::Pruned { .. }) {
                readings::record_unopened(global, &places);
            }
            if named {
                return Err(error.into());
            }
            self.unreadable.extend(
                places.iter().map(|place| Unreadable {
                    path: place.shown().into(),
                    error: error.to_string(),
                }),
            );
        }
        Ok(sound)
    }

    /// Tries sets, and returns the first error by which one was not tried.
    fn try_all(
        &mut self,
        args: &VerifyArgs,
        global: &GlobalArgs,
        (media, archive): (&[Vec<Place>], Option<&Chains>),
    ) -> Result<Option<RunError>, CommandError> {
        let scratch = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let ends = archive.map(|archive| archive.ends(media));
        let wanted = chosen(args, candidates(args, media, ends.as_ref())?)?;
        let mut first_not_tried = None;
        for (number, places) in media.iter().enumerate() {
            let mut opened = match open(places) {
                Ok(opened) => opened,
                Err(error) => {
                    self.unreadable.extend(lost(global, places, archive, error)?);
                    continue;
                }
            };
            attach(global, &mut opened.media);
            let findings = FindingReport::all(global, &opened.media);
            warn_reports(&findings);
            self.findings.extend(findings);
            let end = ends.as_ref().and_then(|ends| ends.get(&number).copied()).zip(archive);
            for set in opened.media.sets() {
                if !wanted.contains(&(number, set.position)) {
                    continue;
                }
                let of = Tried { places, opened: &opened, set, end };
                match try_one(args, global, &of, &scratch) {
                    Ok((tried, error)) => {
                        self.sets.push(tried);
                        first_not_tried = first_not_tried.or(error);
                    }
                    // It went while it was read.
                    Err(CommandError::Console(ConsoleError::Run(error)))
                        if open(places).is_err() =>
                    {
                        self.unreadable.extend(lost(global, places, archive, error)?);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(first_not_tried)
    }
}

fn refuse(trials: &Trials, failed: usize) -> Result<(), CommandError> {
    let media = trials.place.clone();
    if failed > 0 {
        let (damaged, sets) = (failed, trials.sets.len());
        return Err(RunError::DamagedSets { media, damaged, sets }.into());
    }
    let wrong: Vec<_> = trials.findings.iter().filter(|it| !it.is_not_compared()).collect();
    if let Some(first) = wrong.first() {
        let (first, findings) = (first.message.clone(), wrong.len());
        return Err(RunError::Unsound { media, findings, first }.into());
    }
    match trials.unreadable.first() {
        None if trials.sets.is_empty() && trials.is_empty => {
            Err(RunError::Missing { path: media.into() }.into())
        }
        None if trials.sets.is_empty() => Err(RunError::NothingReadable { media }.into()),
        None => Ok(()),
        Some(Unreadable { path, error }) => {
            let (first, findings) =
                (format!("{}: {error}", path.display()), trials.unreadable.len());
            Err(RunError::Unsound { media, findings, first }.into())
        }
    }
}

/// Fails if something is wrong with an archive: of its objects, none has a mirror or a position.
fn refuse_archive(trials: &Trials) -> Result<(), CommandError> {
    let failed = trials.sets.iter().filter(|set| set.tried && !set.ok).map(|set| {
        let object = set.places.join(", ");
        match set.error.as_deref().unwrap_or("its database is not whole") {
            error if error.contains(&object) => error.to_owned(),
            error => format!("{object}: {error}"),
        }
    });
    let wrong = trials.findings.iter().filter(|finding| !finding.is_not_compared());
    let wrong = wrong.map(|finding| finding.message.clone());
    let unreadable = trials.unreadable.iter();
    let unreadable = unreadable.map(|it| format!("{}: {}", it.path.display(), it.error));
    let mut all = wrong.chain(failed).chain(unreadable);
    let Some(first) = all.next() else { return Ok(()) };
    let (archive, findings) = (trials.place.clone(), 1 + all.count());
    Err(RunError::from(ArchiveError::NotWhole { archive, first, findings }).into())
}

/// Returns findings on binary logs that lie between others and are not there.
fn lacking_logs(media: &[Vec<Place>]) -> Vec<FindingReport> {
    // One that went meanwhile is reported later.
    let opened = media.iter().filter_map(|places| {
        let opened = open(places).ok()?;
        Some((places.first()?.clone(), opened.media))
    });
    let opened: Vec<_> = opened.collect();
    let texts = binlogs::lacking(opened.iter().map(|(place, media)| (place, media)));
    let report = |message| FindingReport { kind: "missing_logs", message };
    texts.into_iter().map(report).collect()
}

/// The name of what is tried, the places of each media set, and what cannot be read.
type Found = (String, Vec<Vec<Place>>, Vec<Unreadable>);

fn find(args: &VerifyArgs) -> Result<Found, CommandError> {
    let root = match &args.media[..] {
        [only] => Some(Root::of(only)?),
        several => binlogs::found(several)?,
    };
    if let Some(root) = root.filter(|root| !matches!(root, Root::Media(_))) {
        let mut found = MediaSets::find(&root, &Shown::default())?;
        let media: Vec<Vec<Place>> =
            found.by_ref().flat_map(|(places, _)| each_alone(places)).collect();
        return Ok((root.shown(), media, found.unreadable().to_vec()));
    }
    let places = Place::all(&args.media)?;
    let name = places.first().map(Place::shown).unwrap_or_default();
    Ok((name, vec![places], Vec::new()))
}

/// Splits mirrors and copies: one that is whole must not hide that another one is damaged. Stripes
/// stay together.
fn each_alone(places: Vec<Place>) -> Vec<Vec<Place>> {
    let is_whole = |place: &Place| {
        open(std::slice::from_ref(place)).is_ok_and(|opened| !lacks_stripes(&opened))
    };
    match places.len() > 1 && places.iter().all(is_whole) {
        true => places.into_iter().map(|place| vec![place]).collect(),
        false => vec![places],
    }
}

fn lacks_stripes(opened: &Opened) -> bool {
    let is_missing = |finding: &Finding| matches!(finding, Finding::MissingFamily { .. });
    opened.media.findings().iter().any(is_missing)
}

/// Adds the missing files of a striped media set from the places that the history names.
fn with_stripes(global: &GlobalArgs, places: Vec<Place>) -> Vec<Place> {
    let Some(opened) = open(&places).ok().filter(lacks_stripes) else { return places };
    let mut all = places.clone();
    for place in places_of(global, opened.media.id()) {
        let is_named = all.iter().any(|it| it.recorded() == place.recorded());
        let goes_with =
            |place: &Place| open(&[&all[..], std::slice::from_ref(place)].concat()).is_ok();
        if !is_named && goes_with(&place) {
            all.push(place);
        }
    }
    match open(&all) {
        Ok(opened) if !lacks_stripes(&opened) => all,
        _ => places,
    }
}

/// Opens all objects of an archive. Returns the findings, and the numbers of objects that are
/// missing or cannot be read.
fn archive_findings(
    args: &VerifyArgs,
    global: &GlobalArgs,
    place: &ArchivePlace,
) -> Result<(Vec<FindingReport>, Vec<u64>), CommandError> {
    let keys = archive::open_keys(&args.keys, global, place)?;
    let check = archive::Check {
        keys: keys.as_ref(),
        signed_by: None,
        structure_only: false,
        threads: args.threads.unwrap_or_default(),
        throttle: args.throttle,
        json: args.json,
    };
    let (findings, beside) = archive::findings(place, &check, global)?;
    // Of what was not compared, the reading has warned.
    let wrong = findings.iter().filter(|finding| !finding.is_not_compared());
    warn_reports(&wrong.cloned().collect::<Vec<_>>());
    Ok((findings, beside))
}

/// Returns the sets that may be tried. Of the log sets of an archive those are that end a chain;
/// `ends` is `None` if no archive is named.
fn candidates(
    args: &VerifyArgs,
    media: &[Vec<Place>],
    ends: Option<&BTreeMap<usize, u64>>,
) -> Result<Vec<Candidate>, CommandError> {
    let (mut candidates, mut logs) = (Vec::new(), 0);
    for (number, places) in media.iter().enumerate() {
        // One that went meanwhile is reported later.
        let Ok(opened) = open(places) else { continue };
        if let Some(position) = args.position {
            opened.media.set(Some(position))?;
        }
        let ends_chain = ends.is_some_and(|ends| ends.contains_key(&number));
        let wanted = |set: &&SetInfo| {
            (set.log.is_none() || ends_chain) && args.position.is_none_or(|it| it == set.position)
        };
        logs += opened.media.sets().iter().filter(|set| set.log.is_some()).count();
        candidates.extend(opened.media.sets().iter().filter(wanted).map(|set| Candidate {
            media: number,
            position: set.position,
            database: (
                set.database_id,
                set.host.clone(),
                set.path.clone(),
                set.database_name.clone(),
            ),
            begun_ms: set.begun_ms,
        }));
    }
    if logs > 0 && ends.is_none() {
        output::note(format_args!(
            "{logs} log set(s) of archives are not tried: `tdekit verify ARCHIVE --restore-test` \
             does that"
        ));
    }
    Ok(candidates)
}

/// Returns the sets to try: all, or the newest of each database and a random share of the others.
fn chosen(
    args: &VerifyArgs,
    mut candidates: Vec<Candidate>,
) -> Result<BTreeSet<(usize, u32)>, CommandError> {
    let id = |it: &Candidate| (it.media, it.position);
    let Some(percent) = args.sample else { return Ok(candidates.iter().map(id).collect()) };
    candidates.sort_by_key(|it| std::cmp::Reverse(it.begun_ms));
    let (mut databases, mut others) = (BTreeSet::new(), Vec::new());
    let mut chosen = BTreeSet::new();
    for candidate in &candidates {
        match databases.insert(&candidate.database) {
            true => {
                chosen.insert(id(candidate));
            }
            false => others.push(id(candidate)),
        }
    }
    for _ in 0..(others.len() * usize::from(percent)).div_ceil(100) {
        let mut random = [0; 8];
        random_bytes(&mut random).map_err(RunError::from)?;
        let at = u64::from_le_bytes(random) % (others.len() as u64).max(1);
        chosen.insert(others.swap_remove(usize::try_from(at).unwrap_or(0)));
    }
    Ok(chosen)
}

/// A set that is tried.
struct Tried<'a> {
    places: &'a [Place],
    opened: &'a Opened,
    set: &'a SetInfo,
    /// The number of the object and its archive, for a log set that ends a chain.
    end: Option<(u64, &'a Chains)>,
}

/// Restores a set on trial, prints the outcome and records it. Damage is an outcome. So are a
/// missing key and an unreadable history, whose error is returned beside it. Anything else that
/// prevents the trial, such as a full disk, is an error.
fn try_one(
    args: &VerifyArgs,
    global: &GlobalArgs,
    of: &Tried<'_>,
    scratch: &Path,
) -> Result<(TriedSet, Option<RunError>), CommandError> {
    let Tried { places, opened, set, end } = *of;
    let media = &opened.media;
    let tried = restore_one(args, global, of, scratch)?;
    let mut outcome = TriedSet {
        places: places.iter().map(Place::shown).collect(),
        position: set.position,
        backup_set_uuid: hex::encode(set.set_id),
        database_name: set.database_name.clone(),
        tried: true,
        ok: true,
        bytes: 0,
        pages: 0,
        compared_pages: None,
        quick_check: false,
        error: None,
        damaged: Vec::new(),
    };
    let mut not_tried = None;
    match tried {
        Ok(Trial { bytes, pages, compared, checked }) => {
            outcome.quick_check = checked == Checked::Sound;
            if let Checked::Failed(reason) = checked {
                output::warning(format_args!("SQLite's quick_check could not be run: {reason}"));
            }
            (outcome.bytes, outcome.pages, outcome.compared_pages) = (bytes, pages, compared);
            history::record_trial(global, (media, &opened.devices), set, scratch);
            readings::record_restored(global, media, set);
        }
        Err(error) if matches!(error.kind(), Kind::Key | Kind::NotVerified) => {
            (outcome.tried, outcome.ok, outcome.error) = (false, false, Some(error.to_string()));
            not_tried = Some(error);
        }
        Err(error)
            if error.kind() == Kind::Damaged || matches!(error, RunError::MissingFamily { .. }) =>
        {
            (outcome.ok, outcome.error) = (false, Some(error.to_string()));
            history::record(global, media, &opened.devices, &[set.position]);
            match (end, &error) {
                (Some((last, of)), RunError::Archive(ArchiveError::WrongState { .. })) => {
                    history::record_wrong_state(global, &of.archive, last);
                }
                // It may be whole in its own place: a fault of the archive, which has it now.
                (Some((last, of)), error) if of.is_misplaced(last, error) => {}
                (Some(_), _) => outcome.damaged.push(outcome.backup_set_uuid.clone()),
                (None, _) => outcome.damaged = readings::record_unrestored(global, media, set),
            }
        }
        Err(error) if is_of_media(&error, places, end) => {
            (outcome.ok, outcome.error) = (false, Some(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    }
    if !args.json {
        print(set, &outcome)?;
    }
    Ok((outcome, not_tried))
}

/// Restores a set on trial.
///
/// # Errors
/// If the trial cannot be made, or the set was removed meanwhile. Errors of the set, and a missing
/// key store, are in the result.
fn restore_one(
    args: &VerifyArgs,
    global: &GlobalArgs,
    of: &Tried<'_>,
    scratch: &Path,
) -> Result<Result<Trial, RunError>, CommandError> {
    let Tried { places, opened, set, end } = *of;
    let media = &opened.media;
    let policy = downgrade::policy(&args.keys.for_store(global))?;
    downgrade::refuse_plain(&policy, &media.with_base(set).collect::<Vec<_>>())?;
    let sealed = media.with_base(set).any(|set| set.algorithm.is_some());
    // Without a key store nothing is tried, and damage that shows without one counts all the same.
    let keys = match sealed {
        true => args.keys.open_or_missing(global)?.map(Some),
        false => Ok(None),
    };
    let reporter = Reporter::new("restore", None);
    let report = |progress| reporter.at(progress);
    let steered = steer(args.threads.unwrap_or_default(), args.throttle, &report);
    let tried = keys.map_err(RunError::from).and_then(|keys| {
        let (keys, with) =
            (keys.as_ref().map(|keys| keys as &dyn UnwrapSecret), (scratch, &steered));
        match end {
            Some((last, of)) => Archive::open(&of.place)
                .and_then(|archive| restore_chain_on_trial(&archive, last, keys, with)),
            None => restore_on_trial(media, set, keys, with),
        }
    });
    reporter.end();
    if let (Err(error), Some((_, of)), [place]) = (&tried, end, places)
        && lacks_object(error)
    {
        // `prune` removes a chain in any order: what is left of it is waited for.
        of.is_removed(global, place)?;
    }
    match tried {
        // It went while it was read: the caller looks why.
        Err(error) if open(places).is_err() => Err(error.into()),
        Err(error) if set.is_of_archive() => {
            let object = media.names().into_iter().next().unwrap_or_default();
            Ok(Err(closed(error, &object, set)))
        }
        tried => Ok(tried),
    }
}

/// Returns true if an error is that an object of an archive is missing.
fn lacks_object(error: &RunError) -> bool {
    matches!(error, RunError::Archive(ArchiveError::MissingObject { .. })) || is_missing(error)
}

/// Returns true if a file of what is tried cannot be read; the place of the trial is another.
fn is_of_media(error: &RunError, places: &[Place], end: Option<(u64, &Chains)>) -> bool {
    let (RunError::Io { path, .. } | RunError::Missing { path }) = error else { return false };
    let of_archive = |chains: &Chains| {
        let mut objects = chains.archive.objects().keys();
        objects.any(|number| Path::new(&chains.archive.object(*number)) == path)
    };
    places.contains(&Place::File(path.clone())) || end.is_some_and(|(_, of)| of_archive(of))
}

fn print(set: &SetInfo, outcome: &TriedSet) -> Result<(), CommandError> {
    let mut result = match &outcome.error {
        Some(error) if !outcome.tried => format!("not tried: {error}"),
        Some(error) => format!("NOT RESTORED: {error}"),
        None => format!("restored; {}", size(outcome.bytes)),
    };
    if outcome.quick_check {
        result.push_str(", quick_check ok");
    }
    match (outcome.compared_pages, outcome.pages) {
        (Some(pages), _) if set.log.is_some() => {
            result.push_str(&format!(", {pages} pages of its log as they were shipped"));
        }
        (Some(pages), _) => result.push_str(&format!(", {pages} pages as they were backed up")),
        (None, 1..) if outcome.ok && set.log.is_none() => {
            result.push_str(", without fingerprints to compare")
        }
        (None, _) => {}
    }
    Ok(output::row(format_args!(
        "{}: set {} ({} of {}, {}): {result}",
        outcome.places.join(", "),
        outcome.position,
        kind_of(set),
        outcome.database_name,
        date_of_ms(set.begun_ms),
    ))?)
}
