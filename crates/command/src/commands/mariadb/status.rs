//! `tdekit mariadb status`.

use clap::Args;
use tdekit_console::{GlobalArgs, output, session};
use tdekit_mariadb_admin::{SpacesStatus, Status, status};

use super::connection::ConnectionArgs;
use crate::error::CommandError;

/// Arguments of `mariadb status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Shows keys, and the server's use of them.
pub(crate) fn run(args: &StatusArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_store(global)?;
    let connection = args.connection.connection();
    let status = status(&store, connection.client().as_ref())?;
    warn_of_counter_mode(&status);
    match args.json {
        true => Ok(output::json(&status)?),
        false => print(status),
    }
}

fn print(status: Status) -> Result<(), CommandError> {
    let rows = status.keys.iter().map(|key| {
        let (id, version) = (key.key_id.to_string(), key.latest_version.to_string());
        let pages = key.page_cipher.name().to_owned();
        vec![id, version, pages, key.created_at.clone(), key.certificates.join(", ")]
    });
    output::table(&["key", "version", "pages", "made", "certificate"], rows.collect())?;
    let Some(server) = status.server else { return Ok(()) };
    output::line("")?;
    output::line(format_args!("server          {}", server.version))?;
    output::line(format_args!("plugin          {}", server.plugin))?;
    output::line(format_args!("key store       {}", server.key_store))?;
    output::line(format_args!("tables          {}", server.tables))?;
    let under = server.log_key_version.map(|version| format!(", version {version} of key 1"));
    output::line(format_args!("redo log        {}{}", server.log, under.unwrap_or_default()))?;
    output::line(format_args!("binary log      {}", server.binary_log))?;
    output::line("")?;
    let rows = server.tablespaces.iter().map(|one| {
        let SpacesStatus { key_id, tablespaces, oldest_version, latest_version, being_rotated } =
            one;
        [key_id, tablespaces, oldest_version, latest_version, being_rotated]
            .map(ToString::to_string)
            .to_vec()
    });
    Ok(output::table(
        &["key", "tablespaces", "oldest version", "latest version", "being rotated"],
        rows.collect(),
    )?)
}

/// Logs under keys from before the online cipher reveal more than they should.
fn warn_of_counter_mode(status: &Status) {
    if status.logs_in_counter_mode {
        output::warning(
            "key 1 is from before logs had the online cipher: redo and binary logs are in counter \
             mode, and who knows one row there can read others. `tdekit mariadb rotate` makes a \
             version without that; docs/mariadb.md, \"Upgrade\", has the other steps",
        );
    }
    if let Some(version) = status.log_in_counter_mode {
        output::warning(format_args!(
            "the redo log is under version {version} of key 1, in counter mode: after a rotation, \
             start the server once with another innodb_log_file_size, which begins it anew"
        ));
    }
}
