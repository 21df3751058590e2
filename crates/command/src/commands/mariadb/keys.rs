//! `tdekit mariadb key`: the numbered keys, making and rewrapping.

use clap::{Args, Subcommand, ValueEnum};
use tdekit_console::{GlobalArgs, output, session};
use tdekit_key_store::PageCipher;
use tdekit_mariadb_admin::{FIRST_FREE_ID, certificate_or_signer, existing_keys};

use crate::error::CommandError;

/// Cipher of pages under new versions of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageCipherArg {
    /// The wide block over GMAC: twice as fast, tdekit's own
    Gmac,
    /// HCTR2: published, with vectors of its designers
    Hctr2,
}

impl PageCipherArg {
    pub(crate) const fn cipher(self) -> PageCipher {
        match self {
            Self::Gmac => PageCipher::Gmac,
            Self::Hctr2 => PageCipher::Hctr2,
        }
    }
}

/// The verbs of `tdekit mariadb key`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key under a number that is free
    Create(KeyCreateArgs),
    /// Wrap all keys by one certificate, such as one that was rotated
    Rewrap(KeyRewrapArgs),
}

/// Arguments of `mariadb key create`.
#[derive(Debug, Args)]
pub(crate) struct KeyCreateArgs {
    /// Number of the key: what ENCRYPTION_KEY_ID names. Below 10 they are the server's own
    #[arg(long, value_name = "N")]
    key_id: u32,
    /// Certificate that wraps it [default: the one that signed the last keys]
    #[arg(long, value_name = "NAME")]
    certificate: Option<String>,
    /// Cipher of pages under it [default: as under key 1]
    #[arg(long, value_enum, value_name = "CIPHER")]
    page_cipher: Option<PageCipherArg>,
}

/// Arguments of `mariadb key rewrap`.
#[derive(Debug, Args)]
pub(crate) struct KeyRewrapArgs {
    /// Certificate that shall wrap the keys
    #[arg(long, value_name = "NAME")]
    certificate: String,
}

/// Runs a verb.
pub(crate) fn run(command: &KeyCommand, global: &GlobalArgs) -> Result<(), CommandError> {
    match command {
        KeyCommand::Create(args) => create(args, global),
        KeyCommand::Rewrap(args) => rewrap(args, global),
    }
}

/// Makes a key.
fn create(args: &KeyCreateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_unlocked_store(global)?;
    let id = args.key_id;
    let certificate = certificate_or_signer(args.certificate.as_deref(), store.store())?;
    store.create_server_key(id, &certificate, args.page_cipher.map(PageCipherArg::cipher))?;
    output::warn_of_certificate(store.store(), store.store().find(&certificate)?);
    output::line(format_args!(
        "Made version 1 of key {id}, wrapped by certificate {certificate}."
    ))?;
    if id < FIRST_FREE_ID {
        return Ok(output::line("Numbers below 10 are the server's own: tables take others.")?);
    }
    Ok(output::line(format_args!("A server that runs has it in a second: ENCRYPTION_KEY_ID={id}"))?)
}

/// Rewraps all keys with one certificate.
fn rewrap(args: &KeyRewrapArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_unlocked_store(global)?;
    existing_keys(store.store())?;
    let keys = store.rewrap_server_keys(&args.certificate)?;
    output::warn_of_certificate(store.store(), store.store().find(&args.certificate)?);
    let versions: usize = keys.ids().map(|id| keys.versions(id).len()).sum();
    Ok(output::line(format_args!(
        "Wrapped {versions} versions by certificate {}.",
        args.certificate
    ))?)
}
