//! Rotation of a server's master keys.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use tdekit_key_store::KeyStore;
use tdekit_mariadb_admin::Client;

use crate::error::MysqlError;
use crate::server::{Keyring, settings};

const INNODB: &str = "INNODBKey";
const BINLOG: &str = "MySQLReplicationKey";

/// What a rotation did.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The namespace of the server's keys.
    pub namespace: String,
    /// The new master key of InnoDB.
    pub innodb_key: Option<String>,
    /// The new master key of binary logs, if they are encrypted.
    pub binlog_key: Option<String>,
    /// True if the new keys were found in the key store; false if the server uses another one,
    /// whose keys cannot be read from here.
    pub keys_checked: bool,
}

/// Has the server draw new master keys and wrap the keys of all tablespaces and logs by them. The
/// server has done so when this returns.
///
/// # Errors
/// `OtherKeyring`, `NotStored`, `Server`, errors of the key store.
pub fn rotate(store: &KeyStore, client: &Client<'_>) -> Result<Outcome, MysqlError> {
    let keyring = Keyring::ask(client)?;
    keyring.check()?;
    let [.., binlog] = settings(client)?;
    let keys_checked = is_same(store.dir(), Path::new(&keyring.store));
    let ids = || -> Result<BTreeSet<String>, MysqlError> {
        if !keys_checked {
            return Ok(BTreeSet::new());
        }
        let keys = store.named_keys(&keyring.namespace)?;
        let ids = keys.iter().flat_map(|keys| keys.iter().map(|(name, _)| name.id.clone()));
        Ok(ids.collect())
    };
    let before = ids()?;
    client.rows("ALTER INSTANCE ROTATE INNODB MASTER KEY")?;
    if binlog {
        client.rows("ALTER INSTANCE ROTATE BINLOG MASTER KEY")?;
    }
    let after = ids()?;
    let uuid = client.rows("SELECT @@GLOBAL.server_uuid")?.into_iter().flatten().next();
    let uuid = uuid.ok_or(MysqlError::Answer { what: "its UUID" })?;
    // Other servers may have keys in the namespace; and the server keeps more there than keys.
    let made = |prefix: &str, what: &'static str| {
        let numbered = |id: &&String| number_of(id, prefix, &uuid);
        let new = after.difference(&before).filter(|id| numbered(id).is_some());
        match new.max_by_key(numbered) {
            Some(id) => Ok(Some(id.clone())),
            None if !keys_checked => Ok(None),
            None => Err(MysqlError::NotStored { what, namespace: keyring.namespace.clone() }),
        }
    };
    Ok(Outcome {
        innodb_key: made(INNODB, "InnoDB master key")?,
        binlog_key: match binlog {
            true => made(BINLOG, "binary log master key")?,
            false => None,
        },
        namespace: keyring.namespace.clone(),
        keys_checked,
    })
}

/// Returns the number of a master key of the server with this UUID.
fn number_of(id: &str, prefix: &str, uuid: &str) -> Option<u64> {
    let rest = id.strip_prefix(prefix)?.strip_prefix(['-', '_'])?.strip_prefix(uuid)?;
    rest.strip_prefix(['-', '_'])?.parse().ok()
}

/// Returns true if both are the same directory.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

/// Returns true for the identifier of an InnoDB master key of the server with this UUID.
pub(crate) fn is_innodb_key(id: &str, uuid: &str) -> bool {
    id.strip_prefix(INNODB)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|rest| rest.strip_prefix(uuid).is_some_and(|rest| rest.starts_with('-')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_else_the_server_keeps_is_not_a_master_key() {
        let of = |id: &str| number_of(id, BINLOG, "ab-cd");
        assert_eq!(of("MySQLReplicationKey_ab-cd_12"), Some(12));
        for other in ["_ab-cd", "_ab-cd_last_purged", "_ab-cd_old", "_ab-ce_3", "_ab-cd_"] {
            assert_eq!(of(&format!("{BINLOG}{other}")), None, "{other}");
        }
        assert_eq!(number_of("INNODBKey-ab-cd-3", INNODB, "ab-cd"), Some(3));
    }

    #[test]
    fn a_servers_own_master_keys_are_known_by_its_uuid() {
        assert!(is_innodb_key("INNODBKey-ab-cd-3", "ab-cd"));
        assert!(!is_innodb_key("INNODBKey-ab-cde-3", "ab-cd"));
        assert!(!is_innodb_key("MySQLReplicationKey_ab-cd_1", "ab-cd"));
    }
}
