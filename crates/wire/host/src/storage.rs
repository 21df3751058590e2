//! Files on disk: `sys.master_files`, and deleting backup files and history.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tdekit_backup_run::{Catalog, RunError};
use tdekit_sqlite_convert::with_suffix;
use tdekit_wire_tds::SqlType;
use tdekit_wire_tsql::{Device, Error, Restore, RestoreKind, Rows};

use super::create::logical_names;
use super::databases::Databases;
use super::keys::Keys;
use super::rows::{INT, Named, TINY, int, rows, string, text};
use super::{fault, restore};

/// Unit of file sizes in SQL Server.
const PAGE_BYTES: u64 = 8192;

const MASTER_FILES: &[(&str, SqlType)] = &[
    ("database_id", INT),
    ("file_id", INT),
    ("type", TINY),
    ("type_desc", text(60)),
    ("data_space_id", INT),
    ("name", text(128)),
    ("physical_name", text(260)),
    ("state", TINY),
    ("state_desc", text(60)),
    ("size", INT),
    ("max_size", INT),
];

/// `sys.master_files`: the file of each database, and its log, whose size is 0 while there is none.
pub(crate) fn master_files(databases: &Databases) -> Result<Rows, Error> {
    let mut found = Vec::new();
    for database in databases.known()? {
        let (state, noted) = database.state();
        let path = database.place.as_ref().map_or_else(Path::new, PathBuf::as_path);
        let shown = |path: &Path| match database.place {
            Ok(_) => databases.shown(path),
            // As the note of the server has it.
            Err(_) => path.display().to_string(),
        };
        let (data_name, log_name) = logical_names(path, &noted);
        let log = with_suffix(path, "-wal");
        let parts = [(path, (0, "ROWS"), data_name), (&*log, (1, "LOG"), log_name)];
        for (number, (path, (kind, described), logical)) in (1..).zip(parts) {
            // SQLite removes a log that nobody has open.
            let bytes = match database.place {
                Ok(_) => fs::metadata(path).map_or(0, |facts| facts.len()),
                Err(_) => 0,
            };
            let row: Named = vec![
                ("database_id", int(database.id)),
                ("file_id", int(number)),
                ("type", int(kind)),
                ("type_desc", string(described)),
                ("data_space_id", int(1 - kind)),
                ("name", string(logical)),
                ("physical_name", string(shown(path))),
                ("state", int(state.number())),
                ("state_desc", string(state.name())),
                ("size", int(i32::try_from(bytes.div_ceil(PAGE_BYTES)).unwrap_or(i32::MAX))),
                ("max_size", int(-1)),
            ];
            found.push(row);
        }
    }
    Ok(rows(MASTER_FILES, found))
}

/// `sp_delete_database_backuphistory`.
pub(crate) fn delete_history(keys: &Keys, database: &str) -> Result<(), Error> {
    change_history(keys, |catalog| catalog.forget(database))
}

/// `sp_delete_backuphistory`.
pub(crate) fn delete_history_before(keys: &Keys, oldest_ms: i64) -> Result<(), Error> {
    change_history(keys, |catalog| catalog.forget_before(oldest_ms))
}

fn change_history(
    keys: &Keys,
    change: impl FnOnce(&mut Catalog) -> Result<usize, RunError>,
) -> Result<(), Error> {
    let of_run = |failure: RunError| fault::of_run(&failure);
    let dir = keys.dir()?;
    if Catalog::open_existing(&dir).map_err(of_run)?.is_none() {
        return Ok(());
    }
    let mut catalog = Catalog::open(&dir).map_err(of_run)?;
    change(&mut catalog).map(drop).map_err(of_run)
}

/// `xp_delete_file`: one file, which must be a media set.
pub(crate) fn delete_backup(databases: &Databases, keys: &Keys, file: &str) -> Result<(), Error> {
    let path = databases.device(file)?;
    let wanted = Restore {
        kind: RestoreKind::LabelOnly,
        database: None,
        devices: vec![Device::Disk(file.to_owned())],
        position: None,
        replace: false,
        recovery: true,
        conflicting: false,
        stop_at: None,
        checksum: None,
        stats_percent: None,
        moves: Vec::new(),
        login: String::new(),
    };
    restore::media((databases, keys), &wanted)?;
    remove(&path).map_err(|failure| fault::own(format!("{}: {failure}", path.display())))?;
    keys.forget_file(&path)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs::symlink_metadata(path)?.is_file() {
        true => fs::remove_file(path),
        false => Err(ErrorKind::InvalidInput.into()),
    }
}
