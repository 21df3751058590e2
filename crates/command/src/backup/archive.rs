//! Archives as arguments, and verifying them.

use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;
use tdekit_backup_run::archive::{
    Archive, ArchiveError, ArchivePlace, ArchiveReport, At, ClosedChain, KnownRemovals,
    ObjectFinding, PassedObject,
};
use tdekit_backup_run::history::{is_pruning, left_by_prune};
use tdekit_backup_run::place::{Place, is_missing};
use tdekit_backup_run::signature::Signature;
use tdekit_backup_run::{FindingReport, Keys, RunError, UnwrapSecret, date_of_ms, readings};
use tdekit_console::{GlobalArgs, output};
use tdekit_key_store::KeyStore;

use crate::backup::keys::KeyArgs;
use crate::backup::progress::{Reporter, run as steer};
use crate::backup::report::size;
use crate::error::CommandError;
use crate::when::parse_moment;

/// Parses a point of an archive.
pub(crate) fn parse_at(text: &str) -> Result<At, String> {
    match At::of(text) {
        Some(at) => Ok(at),
        None => parse_moment(text).map(At::Time).map_err(|wrong| {
            format!("{wrong}, a transaction such as 43.17, latest or latest-good")
        }),
    }
}

/// Returns the archive that is meant, if arguments name one rather than media sets: a directory; a
/// prefix where `wanted`, or where no object has that name.
///
/// # Errors
/// `Usage`; those of an object store.
pub(crate) fn place_of(
    arguments: &[OsString],
    wanted: bool,
) -> Result<Option<ArchivePlace>, CommandError> {
    let [only] = arguments else {
        let is_directory = |it: &OsString| Path::new(it).is_dir();
        return match wanted || arguments.iter().any(is_directory) {
            true => Err(CommandError::usage("an archive is one directory or prefix")),
            false => Ok(None),
        };
    };
    if wanted || Path::new(only).is_dir() {
        return Ok(Some(ArchivePlace::of(only)));
    }
    let place = Place::of(only);
    if let Place::Object(_) = &place
        && let Err(error) = place.source()
        && is_missing(&error)
    {
        let archive = ArchivePlace::of(only);
        return Ok(Archive::open(&archive).is_ok().then_some(archive));
    }
    Ok(None)
}

/// Returns the archive that arguments name, if objects of one are there.
///
/// # Errors
/// The errors of an object store.
pub(crate) fn existing(arguments: &[OsString]) -> Result<Option<ArchivePlace>, CommandError> {
    let place = if arguments.len() == 1 { place_of(arguments, false)? } else { None };
    Ok(place.filter(|place| Archive::open(place).is_ok()))
}

/// Returns the key of an archive, if it is encrypted and the key is at hand. Without one, a warning
/// has the reason.
///
/// # Errors
/// Those of the keys.
pub(crate) fn open_keys(
    keys: &KeyArgs,
    global: &GlobalArgs,
    place: &ArchivePlace,
) -> Result<Option<Keys>, CommandError> {
    let archive = Archive::open(place)?;
    if !archive.is_encrypted()? {
        keys.refuse_unused("the archive is not encrypted")?;
        return Ok(None);
    }
    match keys.open_or_missing(global)? {
        Ok(keys) => Ok(Some(keys)),
        Err(missing) => {
            output::warning(format_args!("only structure and checksums are checked: {missing}"));
            Ok(None)
        }
    }
}

/// Options and keys for verifying an archive.
pub(crate) struct Check<'a> {
    pub(crate) keys: Option<&'a Keys>,
    /// The certificate by which each set must be signed, and the store that knows it.
    pub(crate) signed_by: Option<(&'a str, Option<&'a KeyStore>)>,
    /// True if no more than structure and checksums is asked for.
    pub(crate) structure_only: bool,
    pub(crate) threads: usize,
    pub(crate) throttle: Option<u64>,
    pub(crate) json: bool,
}

/// Result of verifying an archive, as JSON.
#[derive(Serialize)]
struct Verified {
    archive: String,
    /// `whole`, `damaged`, `lost` (objects of an older chain are missing, and all else is whole) or
    /// `not_verified`.
    verdict: &'static str,
    objects: u64,
    bytes: u64,
    chains: Vec<Chain>,
    findings: Vec<String>,
    /// Number of the last object that `restore --at latest-good` takes.
    latest_good: Option<u64>,
    /// The objects behind it, each with what is wrong with it.
    passed_over: Vec<PassedObject>,
    /// Objects in front of a full set that are not there.
    not_there: Vec<[u64; 2]>,
    /// Objects that are left of chains whose removal `prune` began: they were not looked at.
    removal_begun: Vec<[u64; 2]>,
    /// Objects that none of the keys at hand opens, and their certificates.
    not_opened: Vec<ClosedChain>,
    /// The reason why nothing shows whether newer objects are missing, or that the record beside
    /// the database names another archive.
    not_compared: Option<String>,
}

/// A chain, as JSON.
#[derive(Serialize)]
struct Chain {
    first: u64,
    last: u64,
    transactions: u64,
    begun: String,
    finished: String,
    bytes: u64,
    host: String,
    database: String,
    /// Why it was begun.
    why: String,
}

/// Verifies an archive and reports it.
///
/// # Errors
/// `NotWhole`, `NotVerified`, `NotSigned`; those of reading.
pub(crate) fn verify(
    place: &ArchivePlace,
    check: &Check<'_>,
    global: &GlobalArgs,
) -> Result<(), CommandError> {
    let (archive, report) = read(place, check, global)?;
    let verdict = match (report.findings.is_empty(), report.closed, &report.not_compared) {
        (false, ..) if report.is_only_lost() => "lost",
        (false, ..) => "damaged",
        (true, 0, None) => "whole",
        (true, ..) => "not_verified",
    };
    match check.json {
        true => output::json(&as_json(&archive, verdict, &report))?,
        false => print(&archive, &report)?,
    }
    match report.verdict(&archive.shown()) {
        Err(RunError::NotVerified { .. }) if check.structure_only => {
            report.refuse_not_compared(&archive.shown())?;
        }
        verdict => verdict?,
    }
    refuse_unsigned(&archive, &report, check)
}

/// Returns the findings of an archive, each of whose objects is opened, and the numbers of objects
/// that are missing or cannot be read.
///
/// # Errors
/// The errors of reading.
pub(crate) fn findings(
    place: &ArchivePlace,
    check: &Check<'_>,
    global: &GlobalArgs,
) -> Result<(Vec<FindingReport>, Vec<u64>), CommandError> {
    let (_, report) = read(place, check, global)?;
    if let Some(other) = report.other_archive.as_ref().filter(|_| !check.json) {
        output::note(output::single(other));
    }
    for (first, last) in report.removal_begun.iter().filter(|_| !check.json) {
        output::note(removal_begun(*first, *last));
    }
    let beside = report.faults_beside();
    let report_of = |found: ObjectFinding| FindingReport::of_object(found.message, found.is_loss);
    let findings = report.findings.into_iter().map(report_of);
    let not_compared = report.not_compared.map(FindingReport::record_not_read);
    Ok((findings.chain(not_compared).collect(), beside))
}

/// Opens each object of an archive, and records how that ended.
fn read(
    place: &ArchivePlace,
    check: &Check<'_>,
    global: &GlobalArgs,
) -> Result<(Archive, ArchiveReport), CommandError> {
    let mut archive = Archive::open(place)?;
    let reporter = Reporter::new("verify", None);
    let steered = steer(check.threads, check.throttle, &|_| {});
    let keys = check.keys.map(|keys| keys as &dyn UnwrapSecret);
    let is_pruning = |archive: &Archive| is_pruning(global, archive);
    let begun = |archive: &Archive| left_by_prune(global, archive);
    let known = KnownRemovals { is_pruning: &is_pruning, begun: &begun };
    let report = archive.verify((keys, &steered), &known);
    reporter.end();
    let report = report?;
    for ClosedChain { first, last, certificates } in
        report.not_opened.iter().filter(|_| keys.is_some())
    {
        output::warning(format_args!(
            "of objects {first} to {last}, only structure and checksums are checked: they are \
             sealed for {}, and no private key at hand is theirs",
            certificates.join(", ")
        ));
    }
    if let Some(reason) = &report.not_compared {
        output::warning(reason);
    }
    if !check.structure_only {
        readings::record_archive(global, &archive, &report);
    }
    Ok((archive, report))
}

/// Fails unless each object is signed by the certificate that is asked for.
fn refuse_unsigned(
    archive: &Archive,
    report: &ArchiveReport,
    check: &Check<'_>,
) -> Result<(), CommandError> {
    let Some((certificate, store)) = check.signed_by else { return Ok(()) };
    for (number, signatures) in &report.signatures {
        let signatures: Vec<_> =
            signatures.iter().map(|each| Signature::checked(each, store)).collect();
        if !signatures.iter().any(|each| each.valid == Some(true) && each.is_by(certificate)) {
            let (object, certificate) = (archive.object(*number), certificate.to_owned());
            return Err(RunError::from(ArchiveError::NotSigned { object, certificate }).into());
        }
    }
    Ok(())
}

fn as_json(archive: &Archive, verdict: &'static str, report: &ArchiveReport) -> Verified {
    let chain = |chain: &tdekit_backup_run::archive::ChainReport| Chain {
        first: chain.first,
        last: chain.last,
        transactions: chain.transactions,
        begun: date_of_ms(chain.begun_ms),
        finished: date_of_ms(chain.finished_ms),
        bytes: chain.bytes,
        host: chain.database.0.clone(),
        database: chain.database.1.clone(),
        why: chain.why.clone(),
    };
    Verified {
        archive: archive.shown(),
        verdict,
        objects: report.objects,
        bytes: report.bytes,
        chains: report.chains.iter().map(chain).collect(),
        latest_good: report.good,
        passed_over: report.passed_over(archive),
        findings: report.findings.iter().map(|finding| finding.message.clone()).collect(),
        not_opened: report.not_opened.clone(),
        not_compared: report.not_compared.as_ref().or(report.other_archive.as_ref()).cloned(),
        removal_begun: report.removal_begun.iter().map(|(first, last)| [*first, *last]).collect(),
        not_there: report.gaps.iter().map(|(first, last)| [*first, *last]).collect(),
    }
}

/// Says of objects that nobody looked at them, since they count as gone.
fn removal_begun(first: u64, last: u64) -> String {
    format!(
        "Objects {first} to {last} are left of a chain that `prune` began to remove: the next \
         `prune` removes them"
    )
}

fn print(archive: &Archive, report: &ArchiveReport) -> Result<(), CommandError> {
    let mut database = report.chains.first().map(|chain| &chain.database);
    for chain in &report.chains {
        // Another one than before, as behind `--take-over`.
        let (host, path) = &chain.database;
        let of = match database.replace(&chain.database) {
            Some(before) if before == &chain.database => String::new(),
            _ => format!(" of {path} on {host}"),
        };
        let why = if chain.why.is_empty() { "" } else { ": " };
        output::row(format_args!(
            "Objects {} to {}: {} transactions{of} from {} to {}, {}{why}{}",
            chain.first,
            chain.last,
            chain.transactions,
            date_of_ms(chain.begun_ms),
            date_of_ms(chain.finished_ms),
            size(chain.bytes),
            chain.why
        ))?;
    }
    for (first, last) in &report.removal_begun {
        output::row(removal_begun(*first, *last))?;
    }
    for (first, last) in &report.gaps {
        output::row(format_args!("Objects {first} to {last} are not there"))?;
    }
    for finding in &report.findings {
        output::row(format_args!("  {}", finding.message))?;
    }
    if let Some(other) = &report.other_archive {
        output::row(other)?;
    }
    let depth = match (report.findings.is_empty(), report.closed) {
        (false, _) if report.is_only_lost() => "OBJECTS WERE LOST, and nothing else is wrong",
        (false, _) => "DAMAGED",
        (true, 0) if report.not_compared.is_some() => {
            "every block opened, and whether newer objects are missing is not known"
        }
        (true, 0) => "whole, every block opened",
        (true, _) => "not verified: structure and checksums hold",
    };
    Ok(output::row(format_args!(
        "{}: {} objects, {}: {depth}",
        archive.shown(),
        report.objects,
        size(report.bytes)
    ))?)
}
