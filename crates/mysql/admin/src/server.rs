//! Questions to a server.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use component_keyring_tdekit::COMPONENT_NAME;
use tdekit_mariadb_admin::Client;

use crate::error::{MysqlError, failed};

/// MySQL's client.
pub const CLIENT: &str = "mysql";

/// The place of a tablespace's flags in its first page: the field `FSP_SPACE_FLAGS`, big-endian.
const FLAGS_AT: u64 = 54;
/// The flag of a tablespace whose key is in its header, wrapped by a master key.
const ENCRYPTED: u32 = 1 << 13;

/// What a server says of its keyring.
#[derive(Debug, Default)]
pub(crate) struct Keyring {
    pub(crate) component: String,
    pub(crate) status: String,
    pub(crate) store: String,
    pub(crate) namespace: String,
}

/// The settings by which a server encrypts what it writes, and what each encrypts.
pub(crate) const SETTINGS: [(&str, &str); 4] = [
    ("default_table_encryption", "new tables"),
    ("innodb_redo_log_encrypt", "the redo log"),
    ("innodb_undo_log_encrypt", "undo logs"),
    ("binlog_encryption", "binary logs"),
];

impl Keyring {
    pub(crate) fn ask(client: &Client<'_>) -> Result<Self, MysqlError> {
        let mut keyring = Self::default();
        let facts =
            "SELECT STATUS_KEY, STATUS_VALUE FROM performance_schema.keyring_component_status";
        for row in client.rows(facts)? {
            let [name, value] = row.as_slice() else { continue };
            match name.as_str() {
                "Component_name" => keyring.component.clone_from(value),
                "Component_status" => keyring.status.clone_from(value),
                "Key_store" => keyring.store.clone_from(value),
                "Namespace" => keyring.namespace.clone_from(value),
                _ => {}
            }
        }
        Ok(keyring)
    }

    /// Fails unless the server uses our component.
    pub(crate) fn check(&self) -> Result<(), MysqlError> {
        if self.component == COMPONENT_NAME && self.status == "Active" {
            return Ok(());
        }
        let found = match (self.component.as_str(), self.status.as_str()) {
            ("", _) => "it has no keyring component".to_owned(),
            (component, status) => format!("it has {component} ({status})"),
        };
        Err(MysqlError::OtherKeyring { found })
    }
}

/// Returns which of [`SETTINGS`] are on, in their order.
pub(crate) fn settings(client: &Client<'_>) -> Result<[bool; 4], MysqlError> {
    let names = SETTINGS.map(|(name, _)| format!("@@GLOBAL.{name}")).join(", ");
    let on = client.numbers("settings of encryption", &format!("SELECT {names}"))?;
    Ok(on.map(|value| value != 0))
}

/// Returns the binary logs and whether each is encrypted; none if the server writes none.
pub(crate) fn binary_logs(client: &Client<'_>) -> Result<Vec<(String, bool)>, MysqlError> {
    let [enabled] = client.numbers("binary logs", "SELECT @@GLOBAL.log_bin")?;
    if enabled == 0 {
        return Ok(Vec::new());
    }
    let log = |row: &Vec<String>| match (row.first(), row.get(2)) {
        (Some(name), Some(encrypted)) => Ok((name.clone(), encrypted == "Yes")),
        _ => Err(MysqlError::Answer { what: "its binary logs" }),
    };
    client.rows("SHOW BINARY LOGS")?.iter().map(log).collect()
}

/// Fails if the server has data that it cannot read without its keys, or writes such data. Returns
/// its data directory.
///
/// # Errors
/// `StillNeeded`, `Server`, `Answer`; `Io` if the server's files cannot be read from here.
pub fn refuse_encrypted(client: &Client<'_>) -> Result<PathBuf, MysqlError> {
    let mut needs = Vec::new();
    let spaces = client.rows(
        "SELECT NAME FROM information_schema.INNODB_TABLESPACES WHERE ENCRYPTION = 'Y' ORDER BY 1",
    )?;
    let names: Vec<_> = spaces.into_iter().flatten().collect();
    if let Some(first) = names.first() {
        needs.push(format!("{} encrypted tablespaces, such as {first}", names.len()));
    }
    for ((name, what), on) in SETTINGS.iter().zip(settings(client)?) {
        if on {
            needs.push(format!("{name}, which encrypts {what}"));
        }
    }
    let logs = binary_logs(client)?;
    let encrypted = logs.iter().filter(|(_, encrypted)| *encrypted).count();
    if encrypted > 0 {
        needs.push(format!("{encrypted} encrypted binary logs"));
    }
    let [owned] = client.numbers(
        "keys of users",
        "SELECT COUNT(*) FROM performance_schema.keyring_keys WHERE KEY_OWNER <> ''",
    )?;
    if owned > 0 {
        needs.push(format!("{owned} keys of users"));
    }
    let data = client.rows("SELECT @@GLOBAL.datadir")?.into_iter().flatten().next();
    let data = data.map(PathBuf::from).ok_or(MysqlError::Answer { what: "its data directory" })?;
    let undo = encrypted_undo(client, &data)?;
    if !undo.is_empty() {
        needs.push(format!("undo tablespaces that were encrypted: {}", undo.join(", ")));
    }
    if !needs.is_empty() {
        return Err(MysqlError::StillNeeded { needs });
    }
    Ok(data)
}

/// Returns the files of undo tablespaces whose header has a key. The server says that they are in
/// the clear as soon as the setting is off, and does not start without the key until they have been
/// truncated.
fn encrypted_undo(client: &Client<'_>, data: &Path) -> Result<Vec<String>, MysqlError> {
    let names = client
        .rows("SELECT FILE_NAME FROM information_schema.FILES WHERE FILE_TYPE = 'UNDO LOG'")?;
    let mut found = Vec::new();
    for name in names.into_iter().flatten() {
        let path = data.join(&name);
        let mut flags = [0; 4];
        File::open(&path)
            .and_then(|file| file.read_exact_at(&mut flags, FLAGS_AT))
            .map_err(failed("read", &path))?;
        if u32::from_be_bytes(flags) & ENCRYPTED != 0 {
            found.push(name);
        }
    }
    Ok(found)
}
