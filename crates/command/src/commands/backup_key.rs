//! `tdekit backup-key`: the certificates that open existing backup sets.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use serde::Serialize;
use tdekit_backup_run::database::source::{Wrapping, refuse_expired};
use tdekit_backup_run::history;
use tdekit_backup_run::place::{Place, open, targets};
use tdekit_backup_run::uses::note_uses;
use tdekit_backup_run::{CertificateNames, Keys, SetInfo, add_recipients};
use tdekit_console::{GlobalArgs, output};
use tdekit_key_store::CertificateInfo;

use crate::backup::keys::KeyArgs;
use crate::error::CommandError;

/// The verbs of `tdekit backup-key`.
#[derive(Debug, Subcommand)]
pub(crate) enum BackupKeyCommand {
    /// Let another certificate open existing sets; their data is not rewritten
    Add(AddArgs),
}

/// Arguments of `backup-key add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The media set: all of its mirrors, all of its stripes
    #[arg(required = true)]
    media: Vec<OsString>,
    /// Certificate that shall open the sets, by name or thumbprint; may be given repeatedly
    #[arg(long, value_name = "NAME", required = true)]
    certificate: Vec<String>,
    /// Only this set [default: all encrypted ones]
    #[arg(long, value_name = "NUMBER")]
    position: Option<u32>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The change of a set, as JSON.
#[derive(Serialize)]
struct Added {
    position: u32,
    /// Thumbprints of the certificates that open it now but did not before.
    added: Vec<String>,
}

/// Runs a verb.
pub(crate) fn run(command: &BackupKeyCommand, global: &GlobalArgs) -> Result<(), CommandError> {
    match command {
        BackupKeyCommand::Add(args) => add(args, global),
    }
}

fn add(args: &AddArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let places = Place::all(&args.media)?;
    let before = open(&places)?.media;
    history::refuse_cut(global, &places)?;
    let sets: Vec<&SetInfo> = match args.position {
        Some(_) => vec![before.set(args.position)?],
        None => before.sets().iter().collect(),
    };
    if !sets.iter().any(|set| set.algorithm.is_some()) {
        let told = "nothing there is encrypted: any certificate would do";
        return Err(CommandError::usage(told));
    }
    let wrapping = Wrapping::open(&args.keys.for_store(global))?;
    let store = wrapping.store();
    let mut certificates: Vec<CertificateInfo> = Vec::new();
    for name in &args.certificate {
        let info = store.find(name)?;
        refuse_expired(info)?;
        if !certificates.iter().any(|known| known.sha256 == info.sha256) {
            certificates.push(info.clone());
        }
    }
    let keys = args.keys.open(global)?;
    if let Keys::Store(unlocked) = &keys {
        unlocked.refuse_agent()?;
    }
    let mut done = Vec::new();
    for set in sets.iter().filter(|set| set.algorithm.is_some()) {
        let opens = |info: &&CertificateInfo| {
            set.recipients.iter().any(|known| known.wrapped.sha256 == info.sha256)
        };
        let new: Vec<_> =
            certificates.iter().filter(|info| !opens(info)).map(|info| info.thumbprint()).collect();
        if !new.is_empty() {
            let recipients = CertificateNames { store, names: &new };
            add_recipients(targets(&places, 0)?, Some(set.position), &keys, &recipients)?;
        }
        done.push(Added { position: set.position, added: new });
    }
    tell(args, &done)?;
    let opened = open(&places)?;
    let positions: Vec<_> = done.iter().map(|added| added.position).collect();
    history::record(global, &opened.media, &opened.devices, &positions);
    note_uses(global, store, &certificates, (opened.media.id(), &places));
    certificates.iter().for_each(|info| output::warn_of_certificate(store, info));
    Ok(())
}

fn tell(args: &AddArgs, done: &[Added]) -> Result<(), CommandError> {
    if args.json {
        return Ok(output::json(&done)?);
    }
    for Added { position, added } in done {
        match added.is_empty() {
            true => output::line(format_args!("Set {position}: opened by them already"))?,
            false => output::line(format_args!(
                "Set {position}: opened by {} as well",
                added.join(", ")
            ))?,
        }
    }
    Ok(())
}
