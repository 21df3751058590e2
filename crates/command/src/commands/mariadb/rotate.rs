//! `tdekit mariadb rotate`.

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tdekit_console::{GlobalArgs, output, session};
use tdekit_mariadb_admin::{Outcome, Progress, Rotate, Rotated, Untold, rotate};

use super::connection::ConnectionArgs;
use super::keys::PageCipherArg;
use crate::error::CommandError;

const TEMPLATE: &str = "re-encrypted {bar:24} {pos}/{len} tablespaces  {msg}";

/// Arguments of `mariadb rotate`.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Number of the key; may be given several times [default: all keys]
    #[arg(long, value_name = "N")]
    key_id: Vec<u32>,
    /// Certificate that wraps the new versions [default: the one that signed the last ones]
    #[arg(long, value_name = "NAME")]
    certificate: Option<String>,
    /// Cipher of pages under the new versions [default: as under the last ones]
    #[arg(long, value_enum, value_name = "CIPHER", conflicts_with = "existing")]
    page_cipher: Option<PageCipherArg>,
    /// The server's `innodb_encryption_rotate_key_age`, where no server is named
    #[arg(long, value_name = "AGE", default_value_t = 1)]
    rotate_key_age: u32,
    /// Make no version: have the server use those that are there, such as on the other nodes of a
    /// cluster
    #[arg(long)]
    existing: bool,
    /// Set the server's `innodb_encryption_threads` first
    #[arg(long, value_name = "COUNT")]
    encryption_threads: Option<u8>,
    /// Do not wait until the server has encrypted its pages anew
    #[arg(long)]
    no_wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// A bar on a terminal.
struct Bar(ProgressBar);

impl Progress for Bar {
    fn rotated(&self, done: u64, spaces: u64, page: Option<(u64, u64)>) {
        let Self(bar) = self;
        if bar.length().is_none() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.set_length(spaces);
        bar.set_position(done);
        bar.set_message(page.map_or_else(String::new, |(page, of)| format!("page {page}/{of}")));
    }

    fn ends(&self) {
        self.0.finish_and_clear();
    }
}

/// Adds versions and waits for the server.
pub(crate) fn run(args: &RotateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_unlocked_store(global)?;
    let connection = args.connection.connection();
    let client = connection.client();
    if args.existing && client.is_none() {
        return Err(CommandError::usage("--existing needs a server: name one by --socket"));
    }
    let wanted = Rotate {
        key_ids: args.key_id.clone(),
        certificate: args.certificate.clone(),
        page_cipher: args.page_cipher.map(PageCipherArg::cipher),
        rotate_key_age: args.rotate_key_age,
        existing: args.existing,
        encryption_threads: args.encryption_threads,
        wait: !args.no_wait,
    };
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style);
    }
    let bar = Bar(bar);
    let progress: &dyn Progress = if args.json { &Untold } else { &bar };
    let mut told = Ok(());
    let mut made = |keys: &[Rotated], certificate: &str, age: u32| {
        if let Ok(info) = store.store().find(certificate) {
            output::warn_of_certificate(store.store(), info);
        }
        if !args.json && !args.existing {
            told = tell(keys, age);
        }
    };
    let outcome = rotate(&store, client.as_ref(), &wanted, &mut made, progress)?;
    told?;
    if args.json {
        return Ok(output::json(&outcome)?);
    }
    match (outcome.re_encrypted, outcome.not_rotating, client.is_some()) {
        (true, ..) => tell_done(&outcome),
        (false, Some(why), _) => {
            output::warning(why);
            Ok(())
        }
        (false, None, true) => Ok(output::line("The server encrypts its pages anew from now on.")?),
        (false, None, false) => Ok(output::line(
            "No server was named: one that runs uses the new version in a second for what it \
             writes. Its other pages follow when its threads wake; --socket and --user have them \
             do it now.",
        )?),
    }
}

fn tell(keys: &[Rotated], age: u32) -> Result<(), CommandError> {
    for Rotated { key_id, old_version, new_version } in keys {
        output::line(format_args!("Key {key_id}: version {old_version} -> {new_version}"))?;
    }
    if age > 0 {
        output::line(format_args!(
            "{} versions each, as the server encrypts a page anew only when its version plus {age} \
             (innodb_encryption_rotate_key_age) is below the newest.",
            age + 1
        ))?;
    }
    Ok(output::line("Old versions stay: logs and backups need them.")?)
}

fn tell_done(outcome: &Outcome) -> Result<(), CommandError> {
    if !outcome.files_checked {
        return Ok(output::line(
            "The server says that every page is under a new version. Its files cannot be read from \
             here, so they were not looked at.",
        )?);
    }
    if outcome.clear_pages > 0 {
        output::warning(format_args!(
            "{} pages are in the clear, which no rotation reaches: \
             `tdekit mariadb verify` names them",
            outcome.clear_pages
        ));
    }
    match outcome.oldest_version {
        None => Ok(output::line("Every encrypted page is under a new version.")?),
        Some(oldest) => Ok(output::line(format_args!(
            "Every encrypted page in use is under a new version. {} pages that are in no use keep \
             older ones, from version {oldest} on, until the server uses them again.",
            outcome.unused_pages
        ))?),
    }
}
