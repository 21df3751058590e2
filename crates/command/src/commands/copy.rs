//! `tdekit copy`: another copy of a media set.

use std::ffi::OsString;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use tdekit_backup_run::copy::{Copied, copy};
use tdekit_backup_run::elsewhere::attach;
use tdekit_backup_run::place::{Opened, Place, open};
use tdekit_backup_run::signature::Signature;
use tdekit_backup_run::uses::note_uses;
use tdekit_backup_run::{
    FindingReport, Keys, NoBaseHere, Operator, RunError, SetInfo, UnwrapSecret, VerifyReport,
    history,
};
use tdekit_console::storage::StorageArgs;
use tdekit_console::{GlobalArgs, output};
use tdekit_key_crypto::Kind;
use tdekit_key_store::KeyStore;

use crate::backup::progress::{Reporter, run as steer};
use crate::backup::report::size;
use crate::backup::value::{parse_bytes, parse_threads};
use crate::error::CommandError;
use crate::progress::heed_signals;

/// Arguments of `copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// The media set, its file or address, and its copy: FROM TO; with --to all of these are the
    /// media set: any of its mirrors, all of its stripes
    #[arg(required = true, value_name = "MEDIA")]
    media: Vec<OsString>,
    /// A file or an address to make; given repeatedly, each gets a whole copy, or of a striped
    /// media set the file with that number
    #[arg(long, value_name = "FILE")]
    to: Vec<OsString>,
    /// Most bytes to copy in a second, such as 50MB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    throttle: Option<u64>,
    #[command(flatten)]
    storage: StorageArgs,
    /// Threads that verify the copy [default: as many as there are cores]
    #[arg(long, value_name = "COUNT", value_parser = parse_threads)]
    threads: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Result of a copy, as JSON.
#[derive(Serialize)]
struct Made {
    media_uuid: String,
    from: Vec<String>,
    to: Vec<String>,
    bytes: u64,
    sets: usize,
    /// Number of sets of which every block was opened (or is plain); of the others structure and
    /// checksums were verified.
    opened_sets: usize,
}

/// Runs the command.
pub(crate) fn run(args: &CopyArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    heed_signals();
    let (from, to) = match (&args.media[..], &args.to[..]) {
        ([from, to], []) => (vec![from.clone()], vec![to.clone()]),
        (_, []) => return Err(CommandError::usage("name FROM and TO, or the copies with --to")),
        (from, to) => (from.to_vec(), to.to_vec()),
    };
    let (from, to) = (Place::all(&from)?, Place::all(&to)?);
    if to.contains(&Place::Standard) {
        return Err(CommandError::usage("a copy is verified, and standard output cannot be read"));
    }
    let source = open(&from).map_err(|error| history::explain(global, &from, error))?;
    refuse_older(global, &source, &from)?;
    let reporter = Reporter::new("copy", None);
    let report = |progress| reporter.at(progress);
    let copied = copy(
        &source.media,
        &to,
        &args.storage.storage(),
        &steer(args.threads.unwrap_or_default(), args.throttle, &report),
    );
    reporter.end();
    let copied: Copied = copied?;
    let bytes = copied.bytes;
    let (opened, opened_sets) = match verify(args, global, &source, &to) {
        Ok(verified) => verified,
        Err(error) => {
            copied.withdraw();
            return Err(error);
        }
    };
    record(global, &opened, &opened_sets, &to);
    let sets = opened.media.sets().len();
    let shown = |places: &[Place]| places.iter().map(Place::shown).collect::<Vec<_>>();
    if args.json {
        return Ok(output::json(&Made {
            media_uuid: hex::encode(opened.media.id()),
            from: shown(&from),
            to: shown(&to),
            bytes,
            sets,
            opened_sets: opened_sets.len(),
        })?);
    }
    let depth = match sets - opened_sets.len() {
        0 => "every block opened".to_owned(),
        closed if opened.media.is_unsearched() => {
            format!("structure and checksums hold; of {closed} the base is not known")
        }
        closed => format!("structure and checksums hold; {closed} not opened, there is no key"),
    };
    Ok(output::line(format_args!(
        "Copied {sets} set(s), {}, to {}; verified there: {depth}",
        size(bytes),
        shown(&to).join(", ")
    ))?)
}

/// Refuses a media set of which the history knows a newer set: it would pass for whole elsewhere.
/// Warns of other states that the history knows, and where it cannot be read.
fn refuse_older(global: &GlobalArgs, source: &Opened, from: &[Place]) -> Result<(), CommandError> {
    let findings = FindingReport::all(global, &source.media);
    findings.iter().filter(|it| it.is_not_compared()).for_each(|it| output::warning(&it.message));
    match findings.into_iter().find(FindingReport::is_newer) {
        Some(newer) => {
            let media = from.first().map(Place::shown).unwrap_or_default();
            Err(RunError::LacksNewest { media, told: newer.message }.into())
        }
        None => {
            let others = history::other_states(global, &source.media).unwrap_or_default();
            others.iter().for_each(output::warning);
            Ok(())
        }
    }
}

/// Reads the copy, and returns it with the positions of the sets that were opened.
fn verify(
    args: &CopyArgs,
    global: &GlobalArgs,
    source: &Opened,
    to: &[Place],
) -> Result<(Opened, Vec<u32>), CommandError> {
    let mut copy = open(to)?;
    attach(global, &mut copy.media);
    let media = to.first().map(Place::shown).unwrap_or_default();
    if copy.media.sets() != source.media.sets() || copy.media.id() != source.media.id() {
        let (findings, first) = (1, "its sets are not those of the source".to_owned());
        return Err(RunError::Unsound { media, findings, first }.into());
    }
    if let Some(first) = copy.media.findings().first() {
        let (findings, first) = (copy.media.findings().len(), FindingReport::of(first).message);
        return Err(RunError::Unsound { media, findings, first }.into());
    }
    let operator: &dyn Operator = global;
    let sealed = copy.media.sets().iter().any(|set| set.algorithm.is_some());
    // Nobody is asked for a secret: a copy needs none.
    let unlocked = if sealed { operator.open_unlocked().ok() } else { None };
    let keys = unlocked.map(|unlocked| Keys::Store(Arc::clone(&unlocked)));
    let store = operator.open_store().ok();
    let (mut opened, mut damaged) = (Vec::new(), 0);
    for set in copy.media.sets() {
        let report = verify_set(args, &copy, set, keys.as_ref())?;
        let wrong = |signature: &Signature| signature.valid != Some(true);
        let signatures: Vec<_> =
            report.signatures.iter().map(|it| Signature::checked(it, store.as_ref())).collect();
        let lacks_base = matches!(report.base, Some(NoBaseHere::Lost { .. }));
        if !report.damages.is_empty() || lacks_base || signatures.iter().any(wrong) {
            damaged += 1;
        } else if report.opened && report.base.is_none() {
            opened.push(set.position);
        }
    }
    match damaged {
        0 => Ok((copy, opened)),
        _ => Err(RunError::DamagedSets { media, damaged, sets: copy.media.sets().len() }.into()),
    }
}

/// Verifies a set: by the key, or without it where the key store has none for it.
fn verify_set(
    args: &CopyArgs,
    copy: &Opened,
    set: &SetInfo,
    keys: Option<&Keys>,
) -> Result<VerifyReport, CommandError> {
    let reporter = Reporter::new("verify", None);
    let report = |progress| reporter.at(progress);
    let steered = steer(args.threads.unwrap_or_default(), args.throttle, &report);
    let look = |keys: Option<&Keys>| {
        let keys = keys.map(|keys| keys as &dyn UnwrapSecret);
        copy.media.verify(Some(set.position), keys, &steered)
    };
    let found = match look(keys) {
        Err(error) if keys.is_some() && error.kind() == Kind::Key => look(None),
        found => found,
    };
    reporter.end();
    Ok(found?)
}

/// Records the copy in the history, and that it needs its certificates.
fn record(global: &GlobalArgs, copy: &Opened, opened: &[u32], to: &[Place]) {
    let Opened { media, devices } = copy;
    let positions: Vec<u32> = media.sets().iter().map(|set| set.position).collect();
    history::record(global, media, devices, &positions);
    let whole = media.sets().iter().filter(|set| opened.contains(&set.position));
    history::record_verified(global, &whole.collect::<Vec<_>>());
    let operator: &dyn Operator = global;
    let Ok(store) = operator.open_store() else { return };
    let opens = |sha256: &[u8; 32]| {
        let mut recipients = media.sets().iter().flat_map(|set| &set.recipients);
        recipients.any(|each| each.wrapped.sha256 == *sha256)
    };
    let certificates: Vec<_> =
        KeyStore::certificates(&store).iter().filter(|info| opens(&info.sha256)).cloned().collect();
    for place in to {
        note_uses(global, &store, &certificates, (media.id(), std::slice::from_ref(place)));
    }
}
