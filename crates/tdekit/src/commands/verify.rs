//! `tdekit verify`: whether the sets of a media set hold what was written.

use std::ffi::OsString;

use clap::Args;
use serde::Serialize;
use tdekit_backup_run::{CatalogUse, RunError, SetInfo, UnwrapSecret, VerifyReport, date_of_ms};
use tdekit_key_store::{KeyStore, StoreError};

use crate::backup::error::BackupError;
use crate::backup::history;
use crate::backup::keys::{KeyArgs, Keys};
use crate::backup::place::{Opened, Place, open};
use crate::backup::progress::{Reporter, run as steer};
use crate::backup::report::{FindingReport, kind_of, size, warn_findings};
use crate::backup::signature::{Signature, refuse_unsigned};
use crate::backup::value::parse_bytes;
use crate::cli::GlobalArgs;
use crate::convert::progress::heed_signals;
use crate::error::CommandError;
use crate::{output, session};

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The media set: its file or address, any of its mirrors, all of its stripes
    #[arg(required = true)]
    media: Vec<OsString>,
    /// The set to verify [default: all]
    #[arg(long, value_name = "NUMBER")]
    position: Option<u32>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Check structure and checksums only
    #[arg(long, conflicts_with_all = ["certificate_file", "pkcs12"])]
    no_key: bool,
    /// Fail unless each set is signed by this certificate: its name in the key store, or its
    /// thumbprint
    #[arg(long, value_name = "NAME")]
    signed_by: Option<String>,
    /// Most bytes to read in a second, before compression, such as 50MB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    throttle: Option<u64>,
    /// Threads that open and decompress [default: as many as there are cores]
    #[arg(long, value_name = "COUNT", default_value = "0", hide_default_value = true)]
    threads: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What verifying found, as JSON.
#[derive(Serialize)]
struct Verified {
    media_uuid: String,
    findings: Vec<FindingReport>,
    sets: Vec<VerifiedSet>,
}

/// A set that was verified.
#[derive(Serialize)]
struct VerifiedSet {
    position: u32,
    backup_set_uuid: String,
    /// Nothing is wrong, as far as was looked.
    ok: bool,
    /// Whether blocks were opened (or are plain); else only structure and checksums were checked.
    opened: bool,
    blocks: u64,
    payload_bytes: u64,
    damages: Vec<String>,
    /// Blocks that are damaged in one mirror and whole in another.
    healed_blocks: u64,
    signatures: Vec<Signature>,
}

/// Runs the command.
pub(crate) fn run(args: &VerifyArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    heed_signals();
    let places = Place::all(&args.media)?;
    let opened = open(&places)?;
    let media = &opened.media;
    let chosen: Vec<&SetInfo> = match args.position {
        Some(_) => vec![media.set(args.position)?],
        None => media.sets().iter().collect(),
    };
    let keys = args.open_keys(global, &chosen)?;
    let store = session::open_store(global).ok();
    if !args.json {
        warn_findings(media.findings());
    }
    let mut sets = Vec::with_capacity(chosen.len());
    for set in &chosen {
        let verified = args.verify(&opened, set, keys.as_ref(), store.as_ref())?;
        if !args.json {
            print(set, &verified)?;
        }
        if verified.ok && verified.opened {
            history::record_use(global, media, set.position, CatalogUse::Verified, None);
        }
        sets.push(verified);
    }
    let refused = args.refusal(&places, &chosen, &sets);
    if args.json {
        output::json(&Verified {
            media_uuid: media.id().iter().map(|byte| format!("{byte:02x}")).collect(),
            findings: media.findings().iter().map(FindingReport::of).collect(),
            sets,
        })?;
    }
    refused
}

impl VerifyArgs {
    /// The key, where one is needed and at hand. Without one, a warning tells why.
    fn open_keys(
        &self,
        global: &GlobalArgs,
        sets: &[&SetInfo],
    ) -> Result<Option<Keys>, CommandError> {
        let encrypted = sets.iter().any(|set| set.algorithm.is_some());
        if self.no_key || !encrypted {
            return Ok(None);
        }
        let missing = match self.keys.open(global) {
            Ok(keys) => return Ok(Some(keys)),
            Err(CommandError::Store(
                error @ (StoreError::Missing { .. }
                | StoreError::NoHome
                | StoreError::NoProvider { .. }),
            )) if !self.keys.has_files() => error,
            Err(error) => return Err(error),
        };
        output::warning(format_args!("only structure and checksums are checked: {missing}"));
        Ok(None)
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
        let steered = steer(self.threads, self.throttle, &report);
        let keys = keys.map(|keys| keys as &dyn UnwrapSecret);
        let checked = opened.media.verify(Some(set.position), keys, &steered);
        reporter.end();
        // Damage where no block can be found by it: of one set, not of the others.
        let VerifyReport {
            opened, blocks, payload_bytes, damages, healed_blocks, signatures, ..
        } = match checked {
            Err(
                error @ (RunError::Damaged { .. }
                | RunError::Tampered { .. }
                | RunError::ShortRead { .. }
                | RunError::NoBase { .. }),
            ) => VerifyReport { damages: vec![error.to_string()], ..VerifyReport::default() },
            checked => checked?,
        };
        let signatures: Vec<_> =
            signatures.iter().map(|each| Signature::checked(each, store)).collect();
        let signed = signatures.iter().all(|signature| signature.valid == Some(true));
        Ok(VerifiedSet {
            position: set.position,
            backup_set_uuid: set.set_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            ok: damages.is_empty() && signed,
            opened,
            blocks,
            payload_bytes,
            damages,
            healed_blocks,
            signatures,
        })
    }

    fn refusal(
        &self,
        places: &[Place],
        chosen: &[&SetInfo],
        sets: &[VerifiedSet],
    ) -> Result<(), CommandError> {
        let damaged = sets.iter().filter(|set| !set.damages.is_empty()).count();
        if damaged > 0 {
            let media = places.first().map(Place::shown).unwrap_or_default();
            return Err(BackupError::DamagedSets { media, damaged, sets: sets.len() }.into());
        }
        let wrong = |set: &&VerifiedSet| set.signatures.iter().any(|each| each.valid != Some(true));
        if let Some(set) = sets.iter().find(wrong) {
            return Err(BackupError::WrongSignature { position: set.position }.into());
        }
        if let Some(certificate) = &self.signed_by {
            for (set, verified) in chosen.iter().zip(sets) {
                refuse_unsigned(set, &verified.signatures, certificate)?;
            }
        }
        Ok(())
    }
}

fn print(set: &SetInfo, verified: &VerifiedSet) -> Result<(), CommandError> {
    let depth = match verified.opened {
        true => "every block opened",
        false => "structure and checksums only, without a key",
    };
    let found = if verified.damages.is_empty() { "whole" } else { "DAMAGED" };
    output::line(format_args!(
        "Set {} ({} of {}, {}): {found}; {} blocks, {}, {depth}",
        verified.position,
        kind_of(set),
        set.database_name,
        date_of_ms(set.begun_ms),
        verified.blocks,
        size(verified.payload_bytes),
    ))?;
    for damage in &verified.damages {
        output::line(format_args!("  {damage}"))?;
    }
    if verified.healed_blocks > 0 {
        output::line(format_args!(
            "  {} blocks are damaged in one mirror and whole in another",
            verified.healed_blocks
        ))?;
    }
    for signature in &verified.signatures {
        output::line(format_args!("  {}", signature.line()))?;
    }
    Ok(())
}
