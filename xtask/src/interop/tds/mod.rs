//! Clients of SQL Server against `tdekit serve`: each in `tests/interop/tds-*`, with its stock
//! driver.
//!
//! Each gets a separate server on loopback, whose database was encrypted through T-SQL, and runs
//! once for each encryption mode of the connection that it supports. A marker in the rows that it
//! wrote must not be in any raw file of that database, and must be in those of a plain one beside
//! it.

mod clients;
mod files;
mod server;

use std::path::Path;

use anyhow::{Context, Result};

pub(super) use clients::{CLIENTS, Client, FREETDS};
use server::{PASSWORD, Server};

use super::MARKER;
use crate::drivers::source;
use crate::process::run_kept;

/// Runs one client against a separate server.
///
/// # Errors
/// When the client cannot be installed, the server does not start, the client finds a fault, or a
/// raw file shows the client's data.
pub(super) fn check(client: &Client, top: &Path) -> Result<()> {
    let build = top.join(client.source);
    (client.prepare)(&build).with_context(|| format!("prepare {}", client.name))?;
    // Not the folder of the client's installation, which may have the same name.
    let directory = top.join("tds").join(client.name);
    super::empty(&directory)?;
    let server = Server::start(&directory)?;
    make_databases(&server)?;
    for mode in client.modes {
        let work = directory.join(mode);
        super::empty(&work)?;
        let mut command = client.command(&build);
        server.tell(&mut command, mode);
        run_kept(command.current_dir(work)).with_context(|| format!("mode {mode}"))?;
        files::search(&server.data(), MARKER).context("while the server runs")?;
    }
    let data = server.stop()?;
    files::search(&data, MARKER).context("after the server's end")
}

/// Creates the plain database `plain`, with the marker, and the encrypted one `app`, by T-SQL.
fn make_databases(server: &Server) -> Result<()> {
    let mut command = clients::bounded("bash");
    command.arg(source(FREETDS).join("databases.bash"));
    server.tell(&mut command, "off");
    run_kept(command.env("INTEROP_KEY_PASSWORD", PASSWORD)).context("make the databases")
}
