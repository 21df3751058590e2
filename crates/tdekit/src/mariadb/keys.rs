//! The numbered keys: made, and wrapped anew.

use tdekit_key_store::{KeyStore, ServerKeys, StoreError, thumbprint};

use crate::cli::GlobalArgs;
use crate::commands::mariadb::{KeyCreateArgs, KeyRewrapArgs};
use crate::error::CommandError;
use crate::mariadb::error::MariadbError;
use crate::{output, session};

/// Numbers below this are the server's own.
const FIRST_FREE_ID: u32 = 10;

/// Makes a key.
pub(crate) fn create(args: &KeyCreateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_unlocked_store(global)?;
    let id = args.key_id;
    let certificate = certificate(args.certificate.as_deref(), store.store())?;
    store.create_server_key(id, &certificate)?;
    output::warn_not_backed_up(store.store(), store.store().find(&certificate)?);
    output::line(format_args!(
        "Made version 1 of key {id}, wrapped by certificate {certificate}."
    ))?;
    if id < FIRST_FREE_ID {
        return output::line("Numbers below 10 are the server's own: tables take others.");
    }
    output::line(format_args!("A server that runs has it in a second: ENCRYPTION_KEY_ID={id}"))
}

/// Wraps all keys by one certificate.
pub(crate) fn rewrap(args: &KeyRewrapArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_unlocked_store(global)?;
    existing(store.store())?;
    let keys = store.rewrap_server_keys(&args.certificate)?;
    output::warn_not_backed_up(store.store(), store.store().find(&args.certificate)?);
    let versions: usize = keys.ids().map(|id| keys.versions(id).len()).sum();
    output::line(format_args!("Wrapped {versions} versions by certificate {}.", args.certificate))
}

/// The server keys that there are.
pub(crate) fn existing(store: &KeyStore) -> Result<ServerKeys, CommandError> {
    Ok(store.server_keys()?.ok_or(MariadbError::NoServerKeys)?)
}

/// The certificate that was named; else the name of the one that signed the keys, whose newest
/// generation then counts.
pub(crate) fn certificate(given: Option<&str>, store: &KeyStore) -> Result<String, CommandError> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let signer = *existing(store)?.signer();
    let missing = || StoreError::CertificateMissing { wanted: vec![thumbprint(&signer)] };
    Ok(store.by_sha256(&signer).ok_or_else(missing)?.name.clone())
}
