//! `tdekit serve`: SQL Server's protocol over the databases of a directory.

pub(crate) mod host;

use std::path::Path;
use std::sync::Arc;

use tdekit_wire_endpoint::Sessions;
use tdekit_wire_tds::Engine;
use tdekit_wire_tsql::TsqlEngine;

use crate::cli::GlobalArgs;
use crate::error::CommandError;
use crate::{output, session};
use host::ServeHost;

/// What runs the clients' requests on the databases of `path`, a directory or one file. `sessions`
/// are those of the endpoint.
pub(crate) fn engine(
    path: &Path,
    global: &GlobalArgs,
    sessions: Sessions,
) -> Result<Arc<dyn Engine>, CommandError> {
    let host = ServeHost::new(path, global, sessions)?;
    if host.is_locked() {
        output::warning(
            "the key store is locked: encrypted databases open once a client has run OPEN MASTER \
             KEY, or when serve is started with --password-file, --key-file or their variables",
        );
    }
    if let Ok(store) = session::open_store(global) {
        let active = store.certificates().iter().filter(|info| info.active);
        active.for_each(|info| output::warn_expiring(&info.name, info.not_after));
    }
    let host = Arc::new(host);
    Ok(Arc::new(TsqlEngine::new(host)))
}
