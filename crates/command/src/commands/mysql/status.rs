//! `tdekit mysql status`.

use clap::Args;
use tdekit_console::{GlobalArgs, output, session};
use tdekit_mysql_admin::{CLIENT, ServerStatus, status};

use super::{ConnectionArgs, keys};
use crate::error::CommandError;

/// Tablespaces in the clear that are named.
const NAMED: usize = 10;

/// Arguments of `mysql status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Shows keys, and what the server encrypts.
pub(crate) fn run(args: &StatusArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_store(global)?;
    let connection = args.connection.connection();
    let status = status(&store, connection.client_by(CLIENT).as_ref())?;
    if args.json {
        return Ok(output::json(&status)?);
    }
    keys::print(&status.namespaces)?;
    match &status.server {
        None => Ok(()),
        Some(server) => print(server),
    }
}

fn print(server: &ServerStatus) -> Result<(), CommandError> {
    let or_none = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
    output::line("")?;
    output::line(format_args!("server       {}", server.version))?;
    let status = match server.component_status.as_str() {
        "" => String::new(),
        status => format!(" ({status})"),
    };
    output::line(format_args!("keyring      {}{status}", or_none(&server.component)))?;
    output::line(format_args!("key store    {}", or_none(&server.key_store)))?;
    output::line(format_args!("namespace    {}", or_none(&server.namespace)))?;
    if let (Some(at), Some(days)) = (&server.master_key_created_at, server.master_key_age_days) {
        output::line(format_args!("master key   of {at}, {days} day(s) old"))?;
    }
    for (name, on) in &server.settings {
        output::line(format_args!("{name:<26} {}", if *on { "ON" } else { "OFF" }))?;
    }
    output::line(format_args!(
        "binary logs  {} encrypted, {} in the clear",
        server.binary_logs_encrypted, server.binary_logs_in_the_clear
    ))?;
    output::line("")?;
    let rows = server
        .tablespaces
        .iter()
        .map(|one| vec![one.kind.clone(), one.encrypted.to_string(), one.in_the_clear.to_string()]);
    output::table(&["tablespaces", "encrypted", "in the clear"], rows.collect())?;
    let clear = &server.in_the_clear;
    if !clear.is_empty() {
        let more = clear.len().saturating_sub(NAMED);
        let named = clear[..clear.len() - more].join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        output::line(format_args!("In the clear: {named}{more}"))?;
    }
    Ok(())
}
