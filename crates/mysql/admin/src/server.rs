//! Questions to a server.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use component_keyring_tdekit::COMPONENT_NAME;
use tdekit_mariadb_admin::Client;

use crate::error::{MysqlError, failed};
use crate::verify::format::{Page, REDO_BLOCK, REDO_HEADER_BLOCKS, RedoHeader, is_redo_block_at};

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

/// Time within which a server that has little to do makes a checkpoint.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(30);

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
    let names = SETTINGS.map(|(name, _)| format!("'{name}'")).join(", ");
    let persisted = client.rows(&format!(
        "SELECT VARIABLE_NAME FROM performance_schema.persisted_variables \
         WHERE VARIABLE_VALUE IN ('ON', '1') AND VARIABLE_NAME IN ({names}) ORDER BY 1"
    ))?;
    for name in persisted.into_iter().flatten() {
        needs.push(format!("{name}, which is persisted for the next start"));
    }
    let schemas = client.rows(
        "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE DEFAULT_ENCRYPTION = 'YES' \
         ORDER BY 1",
    )?;
    for name in schemas.into_iter().flatten() {
        needs.push(format!("the schema {name}, whose new tables are encrypted"));
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
    let mut redo = encrypted_redo(client, &data)?;
    // Nothing else is in the way: the server soon makes a checkpoint.
    let since = Instant::now();
    while needs.is_empty() && !redo.is_empty() && since.elapsed() < CHECKPOINT_WAIT {
        thread::sleep(CHECKPOINT_WAIT / 60);
        redo = encrypted_redo(client, &data)?;
    }
    if !redo.is_empty() {
        let names = redo.join(", ");
        needs.push(format!(
            "the redo log since the last checkpoint, which a recovery needs: {names}"
        ));
    }
    if !needs.is_empty() {
        return Err(MysqlError::StillNeeded { needs });
    }
    Ok(data)
}

/// Returns the files of the redo log with encrypted blocks that the server needs when it recovers
/// from a crash now: those written since the last checkpoint, whatever the setting is by now.
fn encrypted_redo(client: &Client<'_>, data: &Path) -> Result<Vec<String>, MysqlError> {
    let home = client.rows("SELECT @@GLOBAL.innodb_log_group_home_dir")?.into_iter().flatten();
    let home = home.into_iter().next().unwrap_or_default();
    let directory = data.join(home).join("#innodb_redo");
    let mut logs = Vec::new();
    for entry in fs::read_dir(&directory).map_err(failed("read", &directory))? {
        let path = entry.map_err(failed("read", &directory))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with("_tmp") {
            continue;
        }
        match fs::read(&path) {
            Ok(bytes) => {
                logs.extend(RedoHeader::read(&bytes).map(|header| (name, header, bytes)));
            }
            // The server has taken it away meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed("read", &path)(error)),
        }
    }
    let checkpoint = logs.iter().map(|(_, header, _)| header.checkpoint_lsn).max().unwrap_or(0);
    logs.retain(|(_, header, bytes)| {
        let blocks = bytes.chunks_exact(REDO_BLOCK).skip(REDO_HEADER_BLOCKS);
        let mut placed = (header.start_lsn..).step_by(REDO_BLOCK).zip(blocks);
        placed.any(|(lsn, block)| {
            lsn + REDO_BLOCK as u64 > checkpoint
                && is_redo_block_at(block, lsn)
                && Page::of_redo_block(block) == Page::Encrypted
        })
    });
    let mut names: Vec<_> = logs.into_iter().map(|(name, ..)| name).collect();
    names.sort();
    Ok(names)
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
