//! The state of a server's encryption.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use tdekit_key_store::{KeyStore, iso8601, now_seconds};
use tdekit_mariadb_admin::Client;

use crate::error::MysqlError;
use crate::keys::{NamespaceShown, keys};
use crate::rotate::{is_innodb_key, is_same};
use crate::server::{Keyring, SETTINGS, binary_logs, settings};

const SECONDS_PER_DAY: i64 = 86_400;

/// The keys in a store, and a server that uses some.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The key store's directory.
    pub store: String,
    /// Its namespaces.
    pub namespaces: Vec<NamespaceShown>,
    /// The server's answers, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerStatus>,
}

/// The encryption of a server.
#[derive(Debug, Serialize)]
pub struct ServerStatus {
    /// The server's version.
    pub version: String,
    /// The keyring component; empty if there is none.
    pub component: String,
    /// Its state: `Active`, `Disabled`.
    pub component_status: String,
    /// The key store that it uses.
    pub key_store: String,
    /// The namespace that it uses.
    pub namespace: String,
    /// The settings by which the server encrypts what it writes.
    pub settings: BTreeMap<&'static str, bool>,
    /// The tablespaces, by kind.
    pub tablespaces: Vec<SpacesShown>,
    /// Names of the tablespaces that are in the clear.
    pub in_the_clear: Vec<String>,
    /// Number of binary logs that are encrypted.
    pub binary_logs_encrypted: usize,
    /// Number of binary logs in the clear.
    pub binary_logs_in_the_clear: usize,
    /// Creation time of InnoDB's newest master key, if it is in this store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_key_created_at: Option<String>,
    /// Age of that key in days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_key_age_days: Option<i64>,
}

/// The tablespaces of one kind.
#[derive(Debug, Serialize)]
pub struct SpacesShown {
    /// `Single` for a table of its own, `General`, `System`, `Undo`.
    pub kind: String,
    /// Number of those that are encrypted.
    pub encrypted: u64,
    /// Number of those in the clear.
    pub in_the_clear: u64,
}

/// Returns the state of the keys, and of a server's encryption.
///
/// # Errors
/// `Server`, `Answer`, errors of the key store.
pub fn status(store: &KeyStore, client: Option<&Client<'_>>) -> Result<Status, MysqlError> {
    Ok(Status {
        store: store.dir().display().to_string(),
        namespaces: keys(store, None)?,
        server: client.map(|client| server_shown(store, client)).transpose()?,
    })
}

fn server_shown(store: &KeyStore, client: &Client<'_>) -> Result<ServerStatus, MysqlError> {
    let keyring = Keyring::ask(client)?;
    let facts: Vec<_> =
        client.rows("SELECT VERSION(), @@GLOBAL.server_uuid")?.into_iter().flatten().collect();
    let [version, uuid] = facts.as_slice() else {
        return Err(MysqlError::Answer { what: "its version" });
    };
    let created_at = match is_same(store.dir(), Path::new(&keyring.store)) {
        true => newest_master_key(store, &keyring.namespace, uuid)?,
        false => None,
    };
    let logs = binary_logs(client)?;
    let encrypted = logs.iter().filter(|(_, encrypted)| *encrypted).count();
    let (tablespaces, in_the_clear) = spaces(client)?;
    Ok(ServerStatus {
        version: version.clone(),
        component: keyring.component,
        component_status: keyring.status,
        key_store: keyring.store,
        namespace: keyring.namespace,
        settings: SETTINGS.iter().map(|(name, _)| *name).zip(settings(client)?).collect(),
        tablespaces,
        in_the_clear,
        binary_logs_encrypted: encrypted,
        binary_logs_in_the_clear: logs.len() - encrypted,
        master_key_created_at: created_at.map(iso8601),
        master_key_age_days: created_at.map(|at| (now_seconds() - at) / SECONDS_PER_DAY),
    })
}

fn newest_master_key(
    store: &KeyStore,
    namespace: &str,
    uuid: &str,
) -> Result<Option<i64>, MysqlError> {
    let keys = store.named_keys(namespace)?;
    let all = keys.iter().flat_map(|keys| keys.iter());
    let ours = all.filter(|(name, _)| is_innodb_key(&name.id, uuid));
    Ok(ours.map(|(_, key)| key.created_at).max())
}

fn spaces(client: &Client<'_>) -> Result<(Vec<SpacesShown>, Vec<String>), MysqlError> {
    let rows = client.rows(
        "SELECT SPACE_TYPE, ENCRYPTION, NAME FROM information_schema.INNODB_TABLESPACES \
         ORDER BY SPACE_TYPE, NAME",
    )?;
    let (mut kinds, mut clear) = (BTreeMap::<String, (u64, u64)>::new(), Vec::new());
    for row in rows {
        let [kind, encryption, name] = row.as_slice() else {
            return Err(MysqlError::Answer { what: "its tablespaces" });
        };
        let (encrypted, in_the_clear) = kinds.entry(kind.clone()).or_default();
        match encryption.as_str() {
            "Y" => *encrypted += 1,
            _ => {
                *in_the_clear += 1;
                clear.push(name.clone());
            }
        }
    }
    let shown = |(kind, (encrypted, in_the_clear))| SpacesShown { kind, encrypted, in_the_clear };
    Ok((kinds.into_iter().map(shown).collect(), clear))
}
