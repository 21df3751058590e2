//! `tdekit mariadb status`.

use serde::Serialize;
use tdekit_key_store::{KeyStore, ServerKeys, iso8601, thumbprint};

use crate::cli::GlobalArgs;
use crate::commands::mariadb::StatusArgs;
use crate::error::CommandError;
use crate::mariadb::client::Client;
use crate::mariadb::error::MariadbError;
use crate::mariadb::keys;
use crate::{output, session};

#[derive(Serialize)]
struct Shown {
    store: String,
    keys: Vec<KeyShown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<ServerShown>,
}

#[derive(Serialize)]
struct KeyShown {
    key_id: u32,
    latest_version: u32,
    created_at: String,
    certificates: Vec<String>,
}

#[derive(Serialize)]
struct ServerShown {
    version: String,
    plugin: String,
    key_store: String,
    tables: String,
    log: String,
    binary_log: String,
    tablespaces: Vec<SpacesShown>,
}

/// The tablespaces of one key.
#[derive(Serialize)]
struct SpacesShown {
    key_id: u64,
    tablespaces: u64,
    oldest_version: u64,
    latest_version: u64,
    being_rotated: u64,
}

/// Shows keys, and what a server does with them.
pub(crate) fn status(args: &StatusArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_store(global)?;
    let server_keys = keys::existing(&store)?;
    let shown = Shown {
        store: store.dir().display().to_string(),
        keys: server_keys.ids().filter_map(|id| key_shown(&store, &server_keys, id)).collect(),
        server: args.connection.client().map(|client| server_shown(&client)).transpose()?,
    };
    if args.json {
        return output::json(&shown);
    }
    let rows = shown.keys.iter().map(|key| {
        let (id, version) = (key.key_id.to_string(), key.latest_version.to_string());
        vec![id, version, key.created_at.clone(), key.certificates.join(", ")]
    });
    output::table(&["key", "version", "made", "certificate"], rows.collect())?;
    let Some(server) = shown.server else { return Ok(()) };
    output::line("")?;
    output::line(format_args!("server          {}", server.version))?;
    output::line(format_args!("plugin          {}", server.plugin))?;
    output::line(format_args!("key store       {}", server.key_store))?;
    output::line(format_args!("tables          {}", server.tables))?;
    output::line(format_args!("redo log        {}", server.log))?;
    output::line(format_args!("binary log      {}", server.binary_log))?;
    output::line("")?;
    let rows = server.tablespaces.iter().map(|one| {
        let SpacesShown { key_id, tablespaces, oldest_version, latest_version, being_rotated } =
            one;
        [key_id, tablespaces, oldest_version, latest_version, being_rotated]
            .map(ToString::to_string)
            .to_vec()
    });
    output::table(
        &["key", "tablespaces", "oldest version", "latest version", "being rotated"],
        rows.collect(),
    )
}

fn key_shown(store: &KeyStore, keys: &ServerKeys, id: u32) -> Option<KeyShown> {
    let newest = keys.versions(id).last()?;
    let mut certificates = Vec::new();
    for wrapped in keys.versions(id).iter().flat_map(|version| &version.wrapped) {
        let name = match store.by_sha256(&wrapped.sha256) {
            Some(info) => format!("{} ({})", info.name, info.generation),
            None => thumbprint(&wrapped.sha1),
        };
        if !certificates.contains(&name) {
            certificates.push(name);
        }
    }
    let (latest_version, created_at) = (newest.version, iso8601(newest.created_at));
    Some(KeyShown { key_id: id, latest_version, created_at, certificates })
}

fn server_shown(client: &Client<'_>) -> Result<ServerShown, MariadbError> {
    let plugins = client.rows(
        "SELECT plugin_status FROM information_schema.PLUGINS WHERE plugin_name = 'tdekit'",
    )?;
    let plugin = plugins.into_iter().flatten().next();
    let key_store = if plugin.is_some() { "@@tdekit_key_store" } else { "'-'" };
    let facts = client.rows(&format!(
        "SELECT VERSION(), {key_store}, @@innodb_encrypt_tables, @@innodb_encrypt_log, \
         @@encrypt_binlog"
    ))?;
    let mut facts = facts.into_iter().flatten();
    let mut fact = || facts.next().unwrap_or_default();
    let on = |value: String| match value.as_str() {
        "1" => "ON".to_owned(),
        "0" => "OFF".to_owned(),
        _ => value,
    };
    Ok(ServerShown {
        version: fact(),
        plugin: plugin.unwrap_or_else(|| "not loaded".to_owned()),
        key_store: fact(),
        tables: on(fact()),
        log: on(fact()),
        binary_log: on(fact()),
        tablespaces: spaces(client)?,
    })
}

fn spaces(client: &Client<'_>) -> Result<Vec<SpacesShown>, MariadbError> {
    let rows = client.rows(
        "SELECT CURRENT_KEY_ID, COUNT(*), MIN(MIN_KEY_VERSION), MAX(CURRENT_KEY_VERSION), \
         SUM(KEY_ROTATION_PAGE_NUMBER IS NOT NULL) \
         FROM information_schema.INNODB_TABLESPACES_ENCRYPTION \
         WHERE ENCRYPTION_SCHEME = 1 GROUP BY CURRENT_KEY_ID ORDER BY CURRENT_KEY_ID",
    )?;
    let number = |text: Option<&String>| {
        let what = "the tablespaces of a key";
        text.and_then(|text| text.parse().ok()).ok_or(MariadbError::Answer { what })
    };
    let space = |row: &Vec<String>| {
        Ok(SpacesShown {
            key_id: number(row.first())?,
            tablespaces: number(row.get(1))?,
            oldest_version: number(row.get(2))?,
            latest_version: number(row.get(3))?,
            being_rotated: number(row.get(4))?,
        })
    };
    rows.iter().map(space).collect()
}
