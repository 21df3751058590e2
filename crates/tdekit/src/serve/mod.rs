//! `tdekit serve`: SQL Server's protocol over the databases of a directory.

pub(crate) mod host;

use std::path::Path;
use std::sync::Arc;

use tdekit_wire_tds::Engine;
use tdekit_wire_tsql::TsqlEngine;

use crate::cli::GlobalArgs;
use crate::error::CommandError;
use host::ServeHost;

/// What runs the clients' requests on the databases of `path`, a directory or one file.
pub(crate) fn engine(path: &Path, global: &GlobalArgs) -> Result<Arc<dyn Engine>, CommandError> {
    let host = Arc::new(ServeHost::new(path, global)?);
    Ok(Arc::new(TsqlEngine::new(host)))
}
