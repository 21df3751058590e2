//! `tdekit verify`: checks that the sets of a media set contain what was written.

mod binlogs;
mod trial;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tdekit_backup_run::archive::ArchivePlace;
use tdekit_backup_run::downgrade;
use tdekit_backup_run::elsewhere::open_chain;
use tdekit_backup_run::history;
use tdekit_backup_run::place::{Opened, Place};
use tdekit_backup_run::readings;
use tdekit_backup_run::signature::{Signature, refuse_unsigned};
use tdekit_backup_run::{
    FindingReport, Keys, Media, NoBaseHere, RunError, SetInfo, UnwrapSecret, VerifyReport,
    date_of_ms,
};
use tdekit_console::{Failure, GlobalArgs, output, session};
use tdekit_key_crypto::Kind;
use tdekit_key_store::{BackupPolicy, KeyStore};

use crate::backup::archive;
use crate::backup::keys::KeyArgs;
use crate::backup::progress::{Reporter, run as steer};
use crate::backup::report::{kind_of, size, warn_reports};
use crate::backup::value::{parse_bytes, parse_percent, parse_threads};
use crate::error::CommandError;
use crate::progress::heed_signals;

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The media set: its file or address, any of its mirrors, all of its stripes, behind other
    /// media that it stands on; or an archive, also one of binary logs: its directory or prefix.
    /// With --restore-test also a directory, or a prefix of addresses such as s3://BUCKET/app/
    #[arg(required = true)]
    pub(crate) media: Vec<OsString>,
    /// The set to verify; a differential one with the full one that it stands on [default: all]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) position: Option<u32>,
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
    /// Check structure and checksums only, without a key; this finds damage, not forgery
    #[arg(long, conflicts_with_all = ["certificate_file", "pkcs12"])]
    checksums_only: bool,
    /// Fail unless each set is signed by this certificate: its name in the key store, or its
    /// thumbprint
    #[arg(long, value_name = "NAME")]
    signed_by: Option<String>,
    /// Most bytes to read in a second, before compression, such as 50MB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) throttle: Option<u64>,
    /// Threads that open and decompress [default: as many as there are cores]
    #[arg(long, value_name = "COUNT", value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// Restore each set on trial: sealed under a key that is never stored, checked by SQLite's
    /// quick_check, compared with the pages that were backed up, and removed
    #[arg(long, conflicts_with_all = ["checksums_only", "signed_by"])]
    restore_test: bool,
    /// With --restore-test: the newest set of each database, and this share of the others by chance
    #[arg(long, value_name = "PERCENT", requires = "restore_test", conflicts_with = "position",
        value_parser = parse_percent)]
    pub(crate) sample: Option<u8>,
    /// With --restore-test: the directory in which the trials are made [default: $TMPDIR, or /tmp]
    #[arg(long, value_name = "DIR", requires = "restore_test")]
    pub(crate) scratch: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Result of verifying, as JSON.
#[derive(Serialize)]
struct Verified {
    media_uuid: String,
    /// `whole`, `damaged` (also with findings) or `not_verified` (there was no key, or the history
    /// could not be read).
    verdict: &'static str,
    /// Faults other than those of the sets: any of these makes the media set damaged.
    findings: Vec<FindingReport>,
    sets: Vec<VerifiedSet>,
}

/// A set that was verified.
#[derive(Serialize)]
struct VerifiedSet {
    position: u32,
    /// File or object, if it is in another media set that this one stands on.
    #[serde(skip_serializing_if = "Option::is_none")]
    media: Option<String>,
    /// `null` if the header cannot be read.
    backup_set_uuid: Option<String>,
    /// True if no fault was found.
    ok: bool,
    /// True if blocks were opened (or are plain); otherwise only structure and checksums were
    /// checked.
    opened: bool,
    blocks: u64,
    payload_bytes: u64,
    damages: Vec<String>,
    /// The reason why its base could not be looked for: the set is not verified then.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_verified: Option<String>,
    /// True if another program caused that.
    #[serde(skip)]
    is_busy: bool,
    /// True if all that is wrong with it is that its base is not at hand.
    #[serde(skip)]
    lacks_base: bool,
    /// `missing` or `unreadable`: the fault of its base, which is not one of the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<&'static str>,
    /// Blocks that are damaged in one mirror and whole in another.
    healed_blocks: u64,
    signatures: Vec<Signature>,
}

/// The base of a set is not there.
const MISSING: &str = "missing";
/// The base of a set is there.
const UNREADABLE: &str = "unreadable";

impl VerifiedSet {
    /// Reports an existing set of which nothing else is known.
    fn unreadable(position: u32, error: &RunError) -> Self {
        Self {
            position,
            media: None,
            backup_set_uuid: None,
            ok: false,
            opened: false,
            blocks: 0,
            payload_bytes: 0,
            damages: vec![error.to_string()],
            not_verified: None,
            is_busy: false,
            lacks_base: false,
            base: None,
            healed_blocks: 0,
            signatures: Vec::new(),
        }
    }

    fn print_damages(&self) -> Result<(), CommandError> {
        Ok(self.damages.iter().try_for_each(|damage| output::row(format_args!("  {damage}")))?)
    }
}

/// Runs the command.
pub(crate) fn run(args: &VerifyArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    heed_signals();
    if args.restore_test {
        return trial::run(args, global);
    }
    if let Some(root) = crate::backup::binlogs::found(&args.media)? {
        return binlogs::verify(args, global, &root);
    }
    if let Some(place) = archive::place_of(&args.media, false)? {
        return args.verify_archive(global, &place);
    }
    let places = Place::all(&args.media)?;
    let opened = match open_chain(global, &places) {
        Ok(opened) => opened,
        Err(error) => {
            let error = history::explain(global, &places, error);
            if !matches!(error, RunError::Pruned { .. }) {
                readings::record_unopened(global, &places);
            }
            return Err(error.into());
        }
    };
    let mut judged = Vec::new();
    let ended = verify_all(args, global, (&places, &opened), &mut judged);
    if ended.as_ref().is_err_and(|error| error.kind() == Kind::Damaged) {
        readings::record_damage(global, &places, &opened.media, &judged);
        readings::record_met(global, &opened.media);
    }
    ended
}

/// Verifies, and records the sets that are whole, and those that only lack a base. `judged`
/// receives their identifiers.
fn verify_all(
    args: &VerifyArgs,
    global: &GlobalArgs,
    (places, opened): (&[Place], &Opened),
    judged: &mut Vec<String>,
) -> Result<(), CommandError> {
    let media = &opened.media;
    let (mut chosen, mut sets): (Vec<&SetInfo>, _) = (Vec::new(), Vec::new());
    match args.position.map(|position| (position, media.set(Some(position)))) {
        Some((_, Ok(set))) => chosen.extend(media.with_base(set)),
        // It exists, but its header cannot be read.
        Some((position, Err(error @ RunError::Damaged { .. }))) => {
            sets.push(VerifiedSet::unreadable(position, &error));
        }
        Some((_, Err(error))) => return Err(error.into()),
        None => {
            // Their bases in other media come first.
            for set in media.sets().iter().flat_map(|set| media.with_base(set)) {
                if chosen.iter().all(|it| it.set_id != set.set_id || it.ordinal != set.ordinal) {
                    chosen.push(set);
                }
            }
        }
    }
    let keys = args.open_keys(global, &chosen)?;
    if let Some(keys) = &keys {
        let recipients: Vec<_> = chosen.iter().flat_map(|set| set.recipients.clone()).collect();
        keys.warn_of_ends(&recipients, global);
    }
    let store = session::open_store(global).ok();
    let findings = FindingReport::all(global, media);
    warn_reports(&findings);
    for set in sets.iter().filter(|_| !args.json) {
        output::row(format_args!("Set {}: DAMAGED", set.position))?;
        set.print_damages()?;
    }
    for set in &chosen {
        let verified = args.verify(opened, set, keys.as_ref(), store.as_ref())?;
        if !args.json {
            print(set, &verified)?;
        }
        sets.push(verified);
    }
    let policy = downgrade::policy(&args.keys.for_store(global))?;
    let media_name = places.first().map(Place::shown).unwrap_or_default();
    let refused = args.refusal((&media_name, &findings, &policy), &chosen, &sets);
    // A fault of the media set concerns all its sets, and a base's concerns the sets based on it.
    if findings.iter().all(FindingReport::spares_sets) {
        let signed = refused.as_ref().map_or_else(|error| error.kind() != Kind::Key, |()| true);
        judged.extend(record_judged(global, media, (&chosen, &sets), signed));
    }
    if args.json {
        output::json(&Verified {
            media_uuid: hex::encode(media.id()),
            verdict: verdict(&findings, sets.iter()),
            findings,
            sets,
        })?;
    }
    refused
}

/// Records the sets that are whole, and those that only lack a base; returns their identifiers.
fn record_judged(
    global: &GlobalArgs,
    media: &Media,
    (chosen, sets): (&[&SetInfo], &[VerifiedSet]),
    signed: bool,
) -> Vec<String> {
    let of = |id: &[u8; 16]| {
        let id = hex::encode(id);
        sets.iter().find(move |one| one.backup_set_uuid.as_ref() == Some(&id))
    };
    let own = |id: &[u8; 16]| {
        of(id).is_some_and(|one| one.ok && one.opened && one.not_verified.is_none())
    };
    let is_sound = |set: &SetInfo| {
        let of = media.media_of(set);
        let own = of.id() == media.id();
        own || of.findings().iter().all(|it| FindingReport::of(it).spares_sets())
    };
    let is_whole = |set: &SetInfo| {
        media.with_base(set).all(|each| own(&each.set_id) && is_sound(each))
            && set.base.as_ref().is_none_or(own)
    };
    let lacks = |set: &SetInfo| {
        let only =
            |each: &SetInfo| own(&each.set_id) || of(&each.set_id).is_some_and(|it| it.lacks_base);
        media.lacks_base(set) && media.with_base(set).all(only)
    };
    let unsigned = history::unsigned_here(global, media).unwrap_or_default();
    let is_signed = |set: &SetInfo| {
        let id = hex::encode(set.set_id);
        signed && unsigned.iter().all(|unsigned| unsigned.backup_set_uuid != id)
    };
    let whole: Vec<&SetInfo> =
        chosen.iter().copied().filter(|set| is_signed(set) && is_whole(set)).collect();
    history::record_verified(global, &whole);
    let lacking = chosen.iter().filter(|set| lacks(set));
    let lacking: Vec<String> = lacking.map(|set| hex::encode(set.set_id)).collect();
    if !readings::is_out_of_reach(media) && !media.is_unsearched() {
        readings::record_lacking(global, &lacking);
    }
    whole.iter().map(|set| hex::encode(set.set_id)).chain(lacking).collect()
}

impl VerifyArgs {
    /// Refuses a position where an archive is verified.
    fn refuse_position(&self, in_archive: bool, in_binlogs: bool) -> Result<(), CommandError> {
        let of = match (self.position, in_archive, in_binlogs) {
            (None, ..) | (Some(_), false, false) => return Ok(()),
            (Some(_), _, true) => "an archive of binary logs",
            (Some(_), true, false) => "an archive",
        };
        Err(CommandError::usage(format!("--position is of a media set, not of {of}")))
    }

    fn verify_archive(
        &self,
        global: &GlobalArgs,
        place: &ArchivePlace,
    ) -> Result<(), CommandError> {
        self.refuse_position(true, false)?;
        let keys = match self.checksums_only {
            true => None,
            false => archive::open_keys(&self.keys, global, place)?,
        };
        let policy = downgrade::policy(&self.keys.for_store(global))?;
        let signed_by = self.signed_by.as_ref().or(policy.signed_by.as_ref());
        let store = session::open_store(&self.keys.for_store(global)).ok();
        let check = archive::Check {
            keys: keys.as_ref(),
            signed_by: signed_by.map(|name| (name.as_str(), store.as_ref())),
            structure_only: self.checksums_only,
            threads: self.threads.unwrap_or_default(),
            throttle: self.throttle,
            json: self.json,
        };
        archive::verify(place, &check, global)
    }

    /// Returns the key, if one is needed and available. Without one, a warning has the reason.
    fn open_keys(
        &self,
        global: &GlobalArgs,
        sets: &[&SetInfo],
    ) -> Result<Option<Keys>, CommandError> {
        let encrypted = sets.iter().any(|set| set.algorithm.is_some());
        if !encrypted && !sets.is_empty() {
            self.keys.refuse_unused("no set is encrypted")?;
        }
        if self.checksums_only || !encrypted {
            return Ok(None);
        }
        match self.keys.open_or_missing(global)? {
            Ok(keys) => Ok(Some(keys)),
            Err(missing) => {
                output::warning(format_args!(
                    "only structure and checksums are checked: {missing}"
                ));
                Ok(None)
            }
        }
    }

    fn verify(
        &self,
        opened: &Opened,
        set: &SetInfo,
        keys: Option<&Keys>,
        store: Option<&KeyStore>,
    ) -> Result<VerifiedSet, CommandError> {
        let reporter = Reporter::new("verify", None);
        let report = |progress| reporter.at(progress);
        let steered = steer(self.threads.unwrap_or_default(), self.throttle, &report);
        let keys = keys.map(|keys| keys as &dyn UnwrapSecret);
        let of = opened.media.media_of(set);
        let elsewhere = of.id() != opened.media.id();
        let elsewhere = of.names().into_iter().next().filter(|_| elsewhere);
        let checked = opened.media.verify_set(set, keys, &steered);
        reporter.end();
        // Damage that prevents finding any block: of one set, not of the others.
        let VerifyReport {
            opened,
            blocks,
            payload_bytes,
            mut damages,
            healed_blocks,
            signatures,
            base,
            ..
        } = match checked {
            Err(
                error @ (RunError::Damaged { .. }
                | RunError::Tampered { .. }
                | RunError::WrongKey { .. }
                | RunError::ShortRead { .. }
                | RunError::MissingFamily { .. }),
            ) => VerifyReport { damages: vec![error.to_string()], ..VerifyReport::default() },
            checked => checked?,
        };
        let signatures: Vec<_> =
            signatures.iter().map(|each| Signature::checked(each, store)).collect();
        let signed = signatures.iter().all(|signature| signature.valid == Some(true));
        let sound = damages.is_empty() && signed;
        let (mut not_verified, mut is_busy) = (None, false);
        let (mut lacks_base, mut no_base) = (false, None);
        match base {
            None => {}
            Some(NoBaseHere::Lost { reason, is_missing }) => {
                damages.push(reason);
                lacks_base = sound;
                no_base = Some(if is_missing { MISSING } else { UNREADABLE });
            }
            Some(NoBaseHere::NotSearched { reason, is_busy: busy }) => {
                (not_verified, is_busy) = (Some(reason), busy);
            }
        }
        Ok(VerifiedSet {
            position: set.position,
            media: elsewhere,
            backup_set_uuid: Some(hex::encode(set.set_id)),
            ok: damages.is_empty() && signed,
            opened,
            blocks,
            payload_bytes,
            damages,
            not_verified,
            is_busy,
            lacks_base,
            base: no_base,
            healed_blocks,
            signatures,
        })
    }

    fn refusal(
        &self,
        (media, findings, policy): (&str, &[FindingReport], &BackupPolicy),
        chosen: &[&SetInfo],
        sets: &[VerifiedSet],
    ) -> Result<(), CommandError> {
        let damaged = sets.iter().filter(|set| !set.damages.is_empty()).count();
        let media = media.to_owned();
        if damaged > 0 {
            return Err(RunError::DamagedSets { media, damaged, sets: sets.len() }.into());
        }
        let wrong: Vec<_> = findings.iter().filter(|each| !each.is_not_compared()).collect();
        if let Some(first) = wrong.first() {
            let (first, findings) = (first.message.clone(), wrong.len());
            return Err(RunError::Unsound { media, findings, first }.into());
        }
        let wrong = |set: &&VerifiedSet| set.signatures.iter().any(|each| each.valid != Some(true));
        if let Some(set) = sets.iter().find(wrong) {
            return Err(RunError::WrongSignature { position: set.position }.into());
        }
        downgrade::refuse_plain(policy, chosen)?;
        if let Some(certificate) = self.signed_by.as_ref().or(policy.signed_by.as_ref()) {
            for (set, verified) in chosen.iter().zip(sets) {
                refuse_unsigned(set, &verified.signatures, certificate)?;
            }
        }
        let unsearched = sets.iter().find_map(|set| Some((set.not_verified.clone()?, set.is_busy)));
        if let Some((finding, is_busy)) = unsearched {
            return Err(RunError::NotCompared { media, finding, is_busy }.into());
        }
        let closed = sets.iter().filter(|set| !set.opened).count();
        if closed > 0 && !self.checksums_only {
            return Err(RunError::NotVerified { closed, sets: sets.len() }.into());
        }
        if let Some(finding) = findings.first() {
            let (finding, is_busy) = (finding.message.clone(), finding.is_in_use());
            return Err(RunError::NotCompared { media, finding, is_busy }.into());
        }
        Ok(())
    }
}

/// Returns the verdict on all checks. A set that is damaged or wrongly signed is not ok.
fn verdict<'a>(
    findings: &[FindingReport],
    mut sets: impl Iterator<Item = &'a VerifiedSet> + Clone,
) -> &'static str {
    let (unknown, wrong): (Vec<_>, Vec<_>) =
        findings.iter().partition(|finding| finding.is_not_compared());
    if !wrong.is_empty() || sets.clone().any(|set| !set.ok) {
        "damaged"
    } else if !unknown.is_empty() || sets.any(|set| !set.opened || set.not_verified.is_some()) {
        "not_verified"
    } else {
        "whole"
    }
}

fn print(set: &SetInfo, verified: &VerifiedSet) -> Result<(), CommandError> {
    let is_damaged = !verified.damages.is_empty() && !verified.lacks_base;
    let depth = match (is_damaged, verified.opened) {
        (false, true) => "every block opened",
        (false, false) => "structure and checksums hold, and its content was not looked at",
        (true, true) => "every block read",
        (true, false) => "structure and checksums read",
    };
    let is_verified = verified.opened && verified.not_verified.is_none();
    let found = match (is_damaged, verified.base) {
        (true, _) => "DAMAGED",
        (false, Some(UNREADABLE)) => "ITS BASE CANNOT BE READ",
        (false, Some(_)) => "ITS BASE IS MISSING",
        (false, None) if is_verified => "whole",
        (false, None) => "not verified",
    };
    output::row(format_args!(
        "Set {}{} ({} of {}, {}): {found}; {} blocks, {}, {depth}",
        verified.position,
        verified.media.as_ref().map(|media| format!(" of {media}")).unwrap_or_default(),
        kind_of(set),
        set.database_name,
        date_of_ms(set.begun_ms),
        verified.blocks,
        size(verified.payload_bytes),
    ))?;
    verified.print_damages()?;
    if let Some(reason) = &verified.not_verified {
        output::row(format_args!("  {reason}"))?;
    }
    if verified.healed_blocks > 0 {
        output::row(format_args!(
            "  {} blocks are damaged in one mirror and whole in another",
            verified.healed_blocks
        ))?;
    }
    for signature in &verified.signatures {
        output::row(format_args!("  {}", signature.line()))?;
    }
    Ok(())
}
