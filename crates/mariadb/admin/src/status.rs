//! The state of the keys, and a server's use of them.

use std::path::Path;

use serde::Serialize;
use tdekit_key_store::{FIRST_DERIVATION, KeyStore, PageCipher, ServerKeys, iso8601, thumbprint};
use tdekit_mariadb::SYSTEM_KEY_ID;

use crate::client::Client;
use crate::error::MariadbError;
use crate::keys::existing_keys;
use crate::redo;

/// Keys, and a server that uses them.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The key store's directory.
    pub store: String,
    /// The keys, by number.
    pub keys: Vec<KeyStatus>,
    /// The server's answers, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerStatus>,
    /// True if new logs are in counter mode: key 1 dates from before logs had the online cipher.
    #[serde(skip)]
    pub logs_in_counter_mode: bool,
    /// The version of key 1 that encrypts the redo log, if that is in counter mode.
    #[serde(skip)]
    pub log_in_counter_mode: Option<u32>,
}

/// A numbered key.
#[derive(Debug, Serialize)]
pub struct KeyStatus {
    /// The key's number.
    pub key_id: u32,
    /// Its newest version.
    pub latest_version: u32,
    /// Derivation of keys from the newest version, which determines the ciphers:
    /// `docs/format/mariadb.md`.
    pub derivation: u8,
    /// Cipher of pages under the newest version.
    pub page_cipher: PageCipher,
    /// Creation time of that version.
    pub created_at: String,
    /// Certificates that wrap its versions.
    pub certificates: Vec<String>,
}

/// The encryption settings and progress of a server.
#[derive(Debug, Serialize)]
pub struct ServerStatus {
    /// The server's version.
    pub version: String,
    /// The state of the plugin.
    pub plugin: String,
    /// The key store that the plugin uses.
    pub key_store: String,
    /// `innodb_encrypt_tables`.
    pub tables: String,
    /// `innodb_encrypt_log`.
    pub log: String,
    /// The version of key 1 that encrypts the redo log, if its file can be read here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_key_version: Option<u32>,
    /// `encrypt_binlog`.
    pub binary_log: String,
    /// The encrypted tablespaces, by key.
    pub tablespaces: Vec<SpacesStatus>,
}

/// The tablespaces of one key.
#[derive(Debug, Serialize)]
pub struct SpacesStatus {
    /// The key's number.
    pub key_id: u64,
    /// Number of tablespaces.
    pub tablespaces: u64,
    /// The oldest version that a page may be under.
    pub oldest_version: u64,
    /// The newest version.
    pub latest_version: u64,
    /// Number of tablespaces being re-encrypted.
    pub being_rotated: u64,
}

/// Returns the state of the keys, and a server's use of them.
///
/// # Errors
/// `NoServerKeys`, `Server`, `Answer`, errors of the key store.
pub fn status(store: &KeyStore, client: Option<&Client<'_>>) -> Result<Status, MariadbError> {
    let keys = existing_keys(store)?;
    let server = client.map(server_shown).transpose()?;
    let in_counter_mode = |version: u32| {
        let version = keys.version(SYSTEM_KEY_ID, version);
        version.is_some_and(|version| version.derivation == FIRST_DERIVATION)
    };
    let log_version = server.as_ref().and_then(|server| server.log_key_version);
    Ok(Status {
        store: store.dir().display().to_string(),
        keys: keys.ids().filter_map(|id| key_shown(store, &keys, id)).collect(),
        logs_in_counter_mode: keys.latest(SYSTEM_KEY_ID).is_some_and(in_counter_mode),
        log_in_counter_mode: log_version.filter(|version| in_counter_mode(*version)),
        server,
    })
}

fn key_shown(store: &KeyStore, keys: &ServerKeys, id: u32) -> Option<KeyStatus> {
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
    let derivation = newest.derivation;
    let page_cipher = PageCipher::of_derivation(derivation);
    Some(KeyStatus {
        key_id: id,
        latest_version,
        derivation,
        page_cipher,
        created_at,
        certificates,
    })
}

fn server_shown(client: &Client<'_>) -> Result<ServerStatus, MariadbError> {
    let plugins = client.rows(
        "SELECT plugin_status FROM information_schema.PLUGINS WHERE plugin_name = 'tdekit'",
    )?;
    let plugin = plugins.into_iter().flatten().next();
    let key_store = if plugin.is_some() { "@@tdekit_key_store" } else { "'-'" };
    let facts = client.rows(&format!(
        "SELECT VERSION(), {key_store}, @@innodb_encrypt_tables, @@innodb_encrypt_log, \
         @@encrypt_binlog, @@datadir, @@innodb_log_group_home_dir"
    ))?;
    let mut facts = facts.into_iter().flatten();
    let mut fact = || facts.next().unwrap_or_default();
    let on = |value: String| match value.as_str() {
        "1" => "ON".to_owned(),
        "0" => "OFF".to_owned(),
        _ => value,
    };
    let (version, key_store) = (fact(), fact());
    let (tables, log, binary_log) = (on(fact()), on(fact()), on(fact()));
    let logs = Path::new(&fact()).join(fact());
    Ok(ServerStatus {
        version,
        plugin: plugin.unwrap_or_else(|| "not loaded".to_owned()),
        key_store,
        tables,
        log,
        log_key_version: redo::key_version(&logs.join(redo::FILE_NAME)),
        binary_log,
        tablespaces: spaces(client)?,
    })
}

fn spaces(client: &Client<'_>) -> Result<Vec<SpacesStatus>, MariadbError> {
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
        Ok(SpacesStatus {
            key_id: number(row.first())?,
            tablespaces: number(row.get(1))?,
            oldest_version: number(row.get(2))?,
            latest_version: number(row.get(3))?,
            being_rotated: number(row.get(4))?,
        })
    };
    rows.iter().map(space).collect()
}
