//! The databases of a run: a copy of the user's, or a generated one. The original is only read.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tdekit_bench_report::Subject;
use tdekit_sqlite_client::file_uri;

use crate::error::{BenchError, Result};
use crate::interrupt;

/// Refuses a directory, and what is not a file and may never have anything to read, such as a pipe.
pub(crate) fn check(path: &Path) -> Result<std::fs::Metadata> {
    let failed = BenchError::file("cannot read", path);
    match std::fs::metadata(path) {
        Ok(state) if state.is_dir() => Err(failed(std::io::ErrorKind::IsADirectory.into())),
        Ok(state) if !state.is_file() => Err(BenchError::NotADatabase { path: path.to_owned() }),
        state => state.map_err(failed),
    }
}

/// Copies the database at `source` to `target`, compact, with `page_size_bytes` if given. Returns a
/// note if the copy could not be made compact.
pub(crate) fn copy_database(
    source: &Path,
    target: &Path,
    page_size_bytes: Option<u32>,
) -> Result<Option<String>> {
    let before = Stamp::of(source)?;
    // Opening a database in WAL mode creates files beside it, even for reading. If nobody has it
    // open there is no log, and it can be read as an immutable file.
    let quiet = before.log_bytes == 0;
    let note = copy_open(source, target, page_size_bytes, quiet)?;
    if quiet && Stamp::of(source)? != before {
        remove(target)?;
        return copy_open(source, target, page_size_bytes, false);
    }
    Ok(note)
}

/// Returns true if a database has a log or a journal.
pub(crate) fn has_log(path: &Path) -> bool {
    Stamp::of(path).is_ok_and(|stamp| stamp.log_bytes > 0)
}

/// Properties that change when somebody writes to a database.
#[derive(PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<std::time::SystemTime>,
    log_bytes: u64,
}

impl Stamp {
    fn of(path: &Path) -> Result<Self> {
        let state = check(path)?;
        let length =
            |suffix: &str| std::fs::metadata(beside(path, suffix)).map_or(0, |state| state.len());
        Ok(Self {
            bytes: state.len(),
            modified: state.modified().ok(),
            log_bytes: length("-wal") + length("-journal"),
        })
    }
}

fn copy_open(
    source: &Path,
    target: &Path,
    page_size_bytes: Option<u32>,
    immutable: bool,
) -> Result<Option<String>> {
    let failed = |error: rusqlite::Error| {
        if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) {
            BenchError::NotADatabase { path: source.to_owned() }
        } else {
            BenchError::sqlite(format!("cannot read {}", source.display()))(error)
        }
    };
    let connection = open_to_read(source, immutable).map_err(failed)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(failed)?;
    if let Some(bytes) = page_size_bytes {
        connection.execute_batch(&format!("PRAGMA page_size = {bytes}")).map_err(failed)?;
    }
    let name = target.to_string_lossy();
    let Err(error) = connection.execute("VACUUM INTO ?1", [&*name]) else {
        return settle(target, page_size_bytes).map(|()| None);
    };
    interrupt::check()?;
    // VACUUM needs every function and collation of the application; a copy page by page does not.
    remove(target)?;
    copy_pages(&connection, target).map_err(failed)?;
    settle(target, None)?;
    Ok(Some(format!("The copy is page by page, since VACUUM INTO is not possible: {error}.")))
}

fn open_to_read(source: &Path, immutable: bool) -> rusqlite::Result<Connection> {
    let mut uri = file_uri(source) + "?mode=ro";
    if immutable {
        uri.push_str("&immutable=1");
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(uri, flags)?;
    interrupt::watch(&mut connection)?;
    Ok(connection)
}

fn copy_pages(source: &Connection, target: &Path) -> rusqlite::Result<()> {
    let mut target = Connection::open(target)?;
    rusqlite::backup::Backup::new(source, &mut target)?.run_to_completion(
        4096,
        std::time::Duration::ZERO,
        None,
    )
}

/// Leaves the copy in rollback mode, so that the file is complete by itself, and with the requested
/// page size.
pub(crate) fn settle(target: &Path, page_size_bytes: Option<u32>) -> Result<()> {
    let doing = || BenchError::sqlite("cannot settle the copy");
    let connection = Connection::open(target).map_err(doing())?;
    connection.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).map_err(doing())?;
    let Some(wanted) = page_size_bytes else { return Ok(()) };
    if page_size(&connection)? != wanted {
        connection
            .execute_batch(&format!("PRAGMA page_size = {wanted}; VACUUM"))
            .map_err(doing())?;
    }
    Ok(())
}

/// Returns the description of the run's database for reports, without its tables; `generated` names
/// it if it is not the user's.
pub(crate) fn describe(
    database: Option<&Path>,
    generated: String,
    (path, page_size_bytes): (&Path, u32),
) -> Result<Subject> {
    let own = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into();
    Ok(Subject {
        label: database.map_or(generated, own),
        path: database.map(|path| {
            let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            path.to_string_lossy().into_owned()
        }),
        generated: database.is_none(),
        bytes: file_bytes(path)?,
        page_size_bytes,
        ..Subject::default()
    })
}

/// Returns a file, or all files below a directory.
pub(crate) fn files_below(path: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut waiting) = (Vec::new(), vec![path.to_owned()]);
    while let Some(path) = waiting.pop() {
        if !path.is_dir() {
            files.push(path);
            continue;
        }
        for entry in std::fs::read_dir(&path).map_err(BenchError::file("cannot list", &path))? {
            waiting.push(entry.map_err(BenchError::file("cannot list", &path))?.path());
        }
    }
    Ok(files)
}

/// Waits until a file is on the device.
pub(crate) fn write_out(path: &Path) -> Result<()> {
    std::fs::File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(BenchError::file("cannot write out", path))
}

/// Returns the size of a file.
pub(crate) fn file_bytes(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path).map_err(BenchError::file("cannot read", path))?.len())
}

/// Returns the size of a database with its log.
pub(crate) fn database_bytes(path: &Path) -> Result<u64> {
    let log = std::fs::metadata(beside(path, "-wal")).map_or(0, |state| state.len());
    Ok(file_bytes(path)?.saturating_add(log))
}

/// Returns the page size of an open database.
pub(crate) fn page_size(connection: &Connection) -> Result<u32> {
    connection
        .query_row("PRAGMA page_size", [], |row| row.get(0))
        .map_err(BenchError::sqlite("cannot ask the page size"))
}

/// Returns the path of a file that SQLite keeps beside a database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Removes the files that SQLite keeps beside a database.
pub(crate) fn remove_logs(path: &Path) -> Result<()> {
    ["-wal", "-shm", "-journal"].into_iter().try_for_each(|end| remove(&beside(path, end)))
}

/// Removes a database with what SQLite keeps beside it.
pub(crate) fn remove_database(path: &Path) -> Result<()> {
    remove(path).and_then(|()| remove_logs(path))
}

/// Removes a file that may not exist.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(BenchError::file("cannot remove", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a database in WAL mode with a row in it.
    fn open(source: &Path) -> Connection {
        let connection = Connection::open(source).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t(a); \
                 INSERT INTO t VALUES (7)",
            )
            .unwrap();
        connection
    }

    fn number(database: &Path, sql: &str) -> i64 {
        Connection::open(database).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_quiet_wal_database_is_copied_without_a_trace() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("odd %3f? name#.db");
        drop(open(&source));
        let bytes = std::fs::read(&source).unwrap();
        let target = directory.path().join("copy.db");
        assert_eq!(copy_database(&source, &target, Some(8192)).unwrap(), None);
        assert_eq!(std::fs::read(&source).unwrap(), bytes);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
        assert_eq!(number(&target, "PRAGMA page_size"), 8192);
        assert_eq!(number(&target, "SELECT a FROM t"), 7);
    }

    #[test]
    fn a_live_database_is_copied_with_its_log() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("live.db");
        let _writer = open(&source);
        let target = directory.path().join("copy.db");
        copy_database(&source, &target, None).unwrap();
        assert_eq!(number(&target, "SELECT a FROM t"), 7);
    }

    #[test]
    fn what_is_no_database_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("x.db");
        std::fs::write(&source, [7_u8; 8192]).unwrap();
        let target = directory.path().join("copy.db");
        let error = copy_database(&source, &target, None).unwrap_err();
        assert!(matches!(error, BenchError::NotADatabase { .. }), "{error}");
        let error = copy_database(directory.path(), &target, None).unwrap_err();
        assert!(error.to_string().contains("is a directory"), "{error}");
        let error = copy_database(Path::new("/dev/null"), &target, None).unwrap_err();
        assert!(matches!(error, BenchError::NotADatabase { .. }), "{error}");
        assert!(error.hint().is_some());
        let missing = directory.path().join("missing.db");
        let error = copy_database(&missing, &target, None).unwrap_err();
        assert!(matches!(error, BenchError::File { .. }), "{error}");
    }

    /// A collation that only the application knows stops VACUUM, not the copy.
    #[test]
    fn unknown_collations_are_copied_page_by_page() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("app.db");
        let connection = Connection::open(&source).unwrap();
        connection.create_collation("APP", |one, other| one.cmp(other)).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE t(a TEXT COLLATE APP); CREATE INDEX i ON t(a); \
                 INSERT INTO t VALUES ('x')",
            )
            .unwrap();
        drop(connection);
        let target = directory.path().join("copy.db");
        let note = copy_database(&source, &target, None).unwrap();
        assert!(note.is_some_and(|note| note.contains("page by page")));
        assert_eq!(number(&target, "SELECT count(*) FROM t"), 1);
    }
}
