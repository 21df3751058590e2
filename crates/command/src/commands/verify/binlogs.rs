//! Verifying an archive of binary logs: each object, and that no log lies between two others.

use serde::Serialize;
use tdekit_backup_run::place::Place;
use tdekit_backup_run::{
    FindingReport, Keys, Root, RunError, SetInfo, downgrade, history, readings,
};
use tdekit_console::{Failure, GlobalArgs, output, session};
use tdekit_key_crypto::Kind;
use tdekit_key_store::{BackupPolicy, KeyStore};

use super::{VerifiedSet, VerifyArgs, verdict};
use crate::backup::binlogs::{Held, HeldLog, gap_text, gaps, held, unsound};
use crate::backup::report::{size, warn_reports};
use crate::error::CommandError;

/// Result of verifying an archive, as JSON.
#[derive(Serialize)]
struct Verified {
    archive: String,
    /// `whole`, `damaged` or `not_verified`.
    verdict: &'static str,
    logs: Vec<VerifiedLog>,
    /// Faults other than those of the logs that are listed.
    findings: Vec<String>,
    /// Ranges of numbers of logs that are not there.
    missing: Vec<[u64; 2]>,
}

/// A log that was verified.
#[derive(Serialize)]
struct VerifiedLog {
    number: u64,
    name: String,
    object: String,
    findings: Vec<FindingReport>,
    #[serde(flatten)]
    set: VerifiedSet,
}

/// What logs are verified with.
struct With<'a> {
    args: &'a VerifyArgs,
    global: &'a GlobalArgs,
    keys: Option<Keys>,
    store: Option<KeyStore>,
    policy: BackupPolicy,
}

/// Verifies and reports an archive.
pub(super) fn verify(
    args: &VerifyArgs,
    global: &GlobalArgs,
    root: &Root,
) -> Result<(), CommandError> {
    args.refuse_position(false, true)?;
    let Held { logs, unreadable: mut findings } = held(root)?;
    let sets: Vec<&SetInfo> = logs.values().filter_map(HeldLog::set).collect();
    let keys = args.open_keys(global, &sets)?;
    if let Some(keys) = &keys {
        let recipients: Vec<_> = sets.iter().flat_map(|set| set.recipients.clone()).collect();
        keys.warn_of_ends(&recipients, global);
    }
    let store = session::open_store(global).ok();
    let policy = downgrade::policy(&args.keys.for_store(global))?;
    let with = With { args, global, keys, store, policy };
    let (mut verified, mut refused) = (Vec::new(), Vec::new());
    for (number, log) in &logs {
        let (one, refusal) = with.log(*number, log)?;
        if !args.json {
            one.print()?;
        }
        refused.extend(refusal.err().map(|error| (one.name.clone(), error)));
        verified.push(one);
    }
    let missing = gaps(logs.keys().copied());
    findings.extend(missing.iter().map(|gap| gap_text(*gap)));
    let known: Vec<FindingReport> =
        verified.iter().flat_map(|log| log.findings.iter().cloned()).collect();
    let found = match findings.is_empty() {
        true => verdict(&known, verified.iter().map(|log| &log.set)),
        false => "damaged",
    };
    let ended = ended(root, &findings, refused, verified.len());
    match args.json {
        true => output::json(&Verified {
            archive: root.shown(),
            verdict: found,
            logs: verified,
            findings,
            missing: missing.into_iter().map(|(first, last)| [first, last]).collect(),
        })?,
        false => {
            for finding in &findings {
                output::row(format_args!("  {finding}"))?;
            }
            let bytes = verified.iter().map(|log| log.set.payload_bytes).sum();
            let (archive, count) = (root.shown(), verified.len());
            let found = match found {
                "damaged" => "DAMAGED",
                "whole" => "whole, every block opened",
                _ => "not verified",
            };
            output::row(format_args!("{archive}: {count} binary logs, {}: {found}", size(bytes)))?;
        }
    }
    ended
}

impl With<'_> {
    /// Verifies a log, and records it in the history.
    fn log(
        &self,
        number: u64,
        log: &HeldLog,
    ) -> Result<(VerifiedLog, Result<(), CommandError>), CommandError> {
        let (args, opened) = (self.args, &log.opened);
        let set = log.set().ok_or(RunError::Internal("a log of no set"))?;
        let findings = FindingReport::all(self.global, &opened.media);
        warn_reports(&findings);
        let verified = args.verify(opened, set, self.keys.as_ref(), self.store.as_ref())?;
        let object = log.places.first().map(Place::shown).unwrap_or_default();
        let checked = std::slice::from_ref(&verified);
        let refusal = args.refusal((&object, &findings, &self.policy), &[set], checked);
        match refusal.as_ref().map_err(Failure::kind) {
            Err(Kind::Damaged) => {
                readings::record_damage(self.global, &log.places, &opened.media, &[]);
                readings::record_met(self.global, &opened.media);
            }
            Err(Kind::Key) => {}
            _ if verified.opened => {
                history::record_verified(self.global, &[set]);
            }
            _ => {}
        }
        let name = log.name.clone();
        Ok((VerifiedLog { number, name, object, findings, set: verified }, refusal))
    }
}

impl VerifiedLog {
    fn print(&self) -> Result<(), CommandError> {
        let set = &self.set;
        let found = match (
            set.ok && self.findings.iter().all(FindingReport::is_not_compared),
            set.opened,
        ) {
            (false, _) => "DAMAGED",
            (true, true) => "whole",
            (true, false) => "not verified",
        };
        let (name, bytes) = (&self.name, size(set.payload_bytes));
        output::row(format_args!("{name}: {found}; {} blocks, {bytes}", set.blocks))?;
        set.print_damages()?;
        for signature in &set.signatures {
            output::row(format_args!("  {}", signature.line()))?;
        }
        Ok(())
    }
}

/// Returns how the command ends: damage comes before a lack of keys.
fn ended(
    root: &Root,
    findings: &[String],
    refused: Vec<(String, CommandError)>,
    logs: usize,
) -> Result<(), CommandError> {
    let damaged = refused.iter().filter(|(_, error)| error.kind() == Kind::Damaged);
    let damaged = damaged.map(|(name, error)| format!("{name}: {error}"));
    let faults: Vec<String> = findings.iter().cloned().chain(damaged).collect();
    if let Some(first) = faults.first() {
        return Err(unsound(root, first.clone(), faults.len()));
    }
    let (closed, mut others): (Vec<_>, Vec<_>) =
        refused.into_iter().map(|(_, error)| error).partition(is_closed);
    if others.is_empty() && !closed.is_empty() {
        return Err(RunError::NotVerified { closed: closed.len(), sets: logs }.into());
    }
    // One that is refused for a missing signature before one that the history was not read for.
    others.sort_by_key(|error| error.kind() == Kind::NotVerified);
    others.into_iter().next().map_or(Ok(()), Err)
}

fn is_closed(error: &CommandError) -> bool {
    use tdekit_console::ConsoleError;
    matches!(error, CommandError::Console(ConsoleError::Run(RunError::NotVerified { .. })))
}
