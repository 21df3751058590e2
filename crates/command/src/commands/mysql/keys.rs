//! `tdekit mysql keys` and `rewrap`.

use clap::Args;
use serde::Serialize;
use tdekit_console::{GlobalArgs, output, session};
use tdekit_mysql_admin::{NamespaceShown, keys};

use crate::error::CommandError;

/// Arguments of `mysql keys`.
#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    /// Only the keys of this namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `mysql rewrap`.
#[derive(Debug, Args)]
pub(crate) struct RewrapArgs {
    /// Certificate that shall wrap and sign the keys
    #[arg(long, value_name = "NAME")]
    certificate: String,
    /// Namespace of the keys
    #[arg(long, value_name = "NAME", default_value = "mysql")]
    namespace: String,
}

/// The output of `mysql keys --json`.
#[derive(Debug, Serialize)]
struct Shown {
    store: String,
    namespaces: Vec<NamespaceShown>,
}

/// Lists the keys.
pub(crate) fn run(args: &KeysArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_store(global)?;
    let namespaces = keys(&store, args.namespace.as_deref())?;
    if args.json {
        let store = store.dir().display().to_string();
        return Ok(output::json(&Shown { store, namespaces })?);
    }
    print(&namespaces)
}

/// Prints the keys as a table.
pub(super) fn print(namespaces: &[NamespaceShown]) -> Result<(), CommandError> {
    let rows = namespaces.iter().flat_map(|space| {
        space.keys.iter().map(|key| {
            let (len, space) = (key.len_bytes.to_string(), space.namespace.clone());
            let (id, owner) = (key.id.clone(), key.owner.clone());
            vec![space, id, owner, key.kind.clone(), len, key.created_at.clone()]
        })
    });
    Ok(output::table(&["namespace", "key", "owner", "kind", "bytes", "made"], rows.collect())?)
}

/// Wraps the keys of a namespace by another certificate.
pub(crate) fn rewrap(args: &RewrapArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_unlocked_store(global)?;
    if store.store().named_keys(&args.namespace)?.is_none() {
        return Err(CommandError::Nothing {
            reason: format!("the key store has no keys in namespace {}", args.namespace),
        });
    }
    let keys = store.rewrap_named_keys(&args.namespace, &args.certificate)?;
    output::warn_of_certificate(store.store(), store.store().find(&args.certificate)?);
    Ok(output::line(format_args!(
        "Sealed {} keys of namespace {} under a new key, wrapped by certificate {}.",
        keys.count(),
        args.namespace,
        args.certificate
    ))?)
}
