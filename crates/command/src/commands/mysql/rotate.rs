//! `tdekit mysql rotate`.

use clap::Args;
use tdekit_console::{GlobalArgs, output, session};
use tdekit_mysql_admin::{CLIENT, rotate};

use super::{ConnectionArgs, no_server};
use crate::error::CommandError;

/// Arguments of `mysql rotate`.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Has the server rotate its master keys.
pub(crate) fn run(args: &RotateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_store(global)?;
    let connection = args.connection.connection();
    let client = connection.client_by(CLIENT).ok_or_else(no_server)?;
    let outcome = rotate(&store, &client)?;
    if args.json {
        return Ok(output::json(&outcome)?);
    }
    if !outcome.keys_checked {
        return Ok(output::line(
            "The server rotated its master keys. It uses another key store, which was not looked \
             at.",
        )?);
    }
    for (what, key) in [("InnoDB", &outcome.innodb_key), ("binary logs", &outcome.binlog_key)] {
        if let Some(key) = key {
            output::line(format_args!("New master key of {what}: {key}"))?;
        }
    }
    output::line("InnoDB's old keys stay: backups of before need them.")?;
    if outcome.binlog_key.is_some() {
        output::line(
            "MySQL removes the old key of binary logs: copies of logs made before cannot be opened \
             by it any more; copy them anew.",
        )?;
    }
    Ok(())
}
