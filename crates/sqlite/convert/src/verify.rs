//! Checks of a copy before it replaces the original.

use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, Row, Statement};
use tdekit_sqlite_page::{FileKeys, HEADER_AREA_LEN, PageCodec, PageSize};

use crate::copy::{stand_in_for_collations, unknown_names};
use crate::error::{DatabaseError, io_error};
use crate::source::{Source, check_pages, pragma};
use crate::target::Target;
use crate::watch::{Phase, Watch, go_on, interruptible};
use tdekit_sqlite_client::file_uri;

/// Bytes per read.
const CHUNK_LEN: usize = 1 << 20;
/// The pragmas that must be equal in a copy and its original.
const KEPT: [&str; 4] = ["encoding", "user_version", "application_id", "auto_vacuum"];

/// Opens the copy as its users will.
pub(crate) fn open_copy(source: &Source, target: &Target) -> Result<Connection, DatabaseError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |db| DatabaseError::sqlite("open the copy of", &source.path, db);
    let db = Connection::open_with_flags(file_uri(target.path()), flags).map_err(failed(None))?;
    // No index of the log in shared memory: nobody else uses the copy yet.
    db.query_row("PRAGMA main.locking_mode=EXCLUSIVE", [], |_| Ok(()))
        .map_err(failed(Some(&db)))?;
    stand_in_for_collations(&db).map_err(failed(Some(&db)))?;
    Ok(db)
}

/// Compares schema and settings.
pub(crate) fn compare_schema(source: &Source, copy: &Connection) -> Result<(), DatabaseError> {
    let failed = || DatabaseError::sqlite("compare the copy of", &source.path, Some(copy));
    for name in KEPT {
        let of = |db| pragma::<rusqlite::types::Value>(db, name);
        let (old, new) = (of(&source.db).map_err(failed())?, of(copy).map_err(failed())?);
        if old != new {
            return Err(wrong(source, format!("{name} is {new:?}, was {old:?}")));
        }
    }
    let old = schema(&source.db).map_err(failed())?;
    let new = schema(copy).map_err(failed())?;
    match old.iter().find(|object| !new.contains(object)) {
        None if old.len() == new.len() => Ok(()),
        None => Err(wrong(source, "it has more tables or indexes".to_owned())),
        Some((kind, name)) => Err(wrong(source, format!("{kind} {name} is missing"))),
    }
}

/// Reads every page of an encrypted copy and opens it with `keys`.
pub(crate) fn authenticate(
    source: &Source,
    target: &Target,
    keys: FileKeys,
    (size, pages): (PageSize, u32),
    watch: &dyn Watch,
) -> Result<(), DatabaseError> {
    let length = target.file().metadata().map_err(io_error("examine", target.path()))?.len();
    let expected = HEADER_AREA_LEN + u64::from(pages) * u64::from(size.bytes());
    if length != expected {
        return Err(wrong(source, format!("it has {length} bytes, not {expected}")));
    }
    let phase = Phase::begin(watch, "checking", Some(length));
    let mut codec = PageCodec::new(keys);
    let per_chunk = u32::try_from(CHUNK_LEN / size.len()).unwrap_or(1);
    let (mut sealed, mut plain) = (vec![0; CHUNK_LEN], vec![0; size.len()]);
    let mut first = 1;
    while first <= pages {
        go_on(watch)?;
        let count = per_chunk.min(pages - first + 1);
        let chunk = &mut sealed[..count as usize * size.len()];
        let at = size.page_offset(first);
        target.file().read_exact_at(chunk, at).map_err(io_error("read", target.path()))?;
        for (page, bytes) in (first..).zip(chunk.chunks_exact(size.len())) {
            codec
                .open(page, bytes, &mut plain)
                .map_err(|error| wrong(source, error.to_string()))?;
        }
        first += count;
        phase.at(at);
    }
    plain.fill(0);
    Ok(())
}

/// Makes SQLite check the copy's structure, unless that needs functions that only the application
/// has, and compares every row with the original's.
pub(crate) fn verify_content(
    source: &Source,
    copy: &Connection,
    watch: &dyn Watch,
) -> Result<(), DatabaseError> {
    let failed = || DatabaseError::sqlite("verify the copy of", &source.path, Some(copy));
    let unknown = unknown_names();
    if unknown.functions.is_empty() {
        // The order of an index by an unknown collation cannot be checked.
        let check = if unknown.collations.is_empty() { "integrity_check" } else { "quick_check" };
        let phase = Phase::begin(watch, &format!("verifying: {check}"), None);
        let found = interruptible(copy, watch, || 0, || check_pages(copy, check));
        drop(phase);
        let found = found.map_err(failed())?;
        if found != "ok" {
            let same = pragma::<String>(&source.db, check).is_ok_and(|old| old == found);
            let of = if same { " (the original is no better)" } else { "" };
            return Err(wrong(source, format!("{check}: {found}{of}")));
        }
    }
    for table in tables(copy).map_err(failed())? {
        let _phase = Phase::begin(watch, &format!("verifying: rows of {}", table.name), None);
        if !compare_table((&source.path, &source.db), copy, &table, watch)? {
            return Err(wrong(source, format!("the rows of {} differ", table.name)));
        }
    }
    Ok(())
}

/// A table with rows of its own.
pub(crate) struct Table {
    pub(crate) name: String,
    /// Root page of its tree.
    pub(crate) root: u32,
    pub(crate) has_rowid: bool,
}

/// Returns the tables that have pages, including those of virtual tables' modules.
pub(crate) fn tables(db: &Connection) -> rusqlite::Result<Vec<Table>> {
    let mut list = db.prepare(
        "SELECT s.name, s.rootpage, l.wr FROM sqlite_schema s JOIN pragma_table_list l
         ON l.schema = 'main' AND l.name = s.name
         WHERE s.type = 'table' AND s.rootpage > 0",
    )?;
    let tables = list.query_map([], |row| {
        Ok(Table { name: row.get(0)?, root: row.get(1)?, has_rowid: !row.get::<_, bool>(2)? })
    })?;
    tables.collect()
}

/// Compares the rows of a table in the database at `path`, open as `old`, and in its copy.
pub(crate) fn compare_table(
    (path, old): (&Path, &Connection),
    copy: &Connection,
    table: &Table,
    watch: &dyn Watch,
) -> Result<bool, DatabaseError> {
    let failed = || DatabaseError::sqlite("verify the copy of", path, Some(copy));
    let sql = stored_columns(copy, table).map_err(failed())?;
    let mut old = old.prepare(&sql).map_err(failed())?;
    let mut new = copy.prepare(&sql).map_err(failed())?;
    let columns = new.column_count();
    let (mut old, mut new) = (rows(&mut old).map_err(failed())?, rows(&mut new).map_err(failed())?);
    loop {
        go_on(watch)?;
        watch.at(0);
        match (old.next().map_err(failed())?, new.next().map_err(failed())?) {
            (None, None) => return Ok(true),
            (Some(a), Some(b)) if same_row(a, b, columns).map_err(failed())? => {}
            _ => return Ok(false),
        }
    }
}

fn rows<'a>(statement: &'a mut Statement<'_>) -> rusqlite::Result<rusqlite::Rows<'a>> {
    statement.query([])
}

fn same_row(a: &Row<'_>, b: &Row<'_>, columns: usize) -> rusqlite::Result<bool> {
    for column in 0..columns {
        if a.get_ref(column)? != b.get_ref(column)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns a query for the row number and all stored columns, without columns that are computed
/// when read, perhaps by a function that only the application has.
pub(crate) fn stored_columns(db: &Connection, table: &Table) -> rusqlite::Result<String> {
    let (row, mut names) = columns_of(db, table, true)?;
    names.splice(0..0, row.map(str::to_owned));
    Ok(format!("SELECT {} FROM main.{} NOT INDEXED", names.join(", "), quoted(&table.name)))
}

/// Returns the name of a table's row number, if it has one that no column hides, and its quoted
/// columns, including stored computed ones if `computed` is set.
pub(crate) fn columns_of(
    db: &Connection,
    table: &Table,
    computed: bool,
) -> rusqlite::Result<(Option<&'static str>, Vec<String>)> {
    let mut list = db
        .prepare("SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0 OR hidden = 3 AND ?2")?;
    let names = list
        .query_map((&table.name, computed), |row| Ok(quoted(&row.get::<_, String>(0)?)))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    // A column may have the name of the row number, even one that is not requested here.
    let mut hides =
        db.prepare("SELECT 1 FROM pragma_table_xinfo(?1) WHERE name = ?2 COLLATE NOCASE")?;
    if table.has_rowid {
        for alias in ["rowid", "_rowid_", "oid"] {
            if !hides.exists((&table.name, alias))? {
                return Ok((Some(alias), names));
            }
        }
    }
    Ok((None, names))
}

/// Quotes a name for SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns kinds and names of all objects. `sqlite_sequence` is omitted: a copy has it only if a
/// table needs it.
fn schema(db: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut list = db.prepare(
        "SELECT type, name FROM sqlite_schema WHERE name <> 'sqlite_sequence' ORDER BY 1, 2",
    )?;
    list.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn wrong(source: &Source, problem: String) -> DatabaseError {
    DatabaseError::Verification { path: source.path.clone(), problem }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use tdekit_key_crypto::{Algorithm, SecretBytes};
    use tdekit_sqlite_page::DekVersion;

    use super::*;
    use crate::source::Hold;
    use crate::watch::Unwatched;

    const CONTENT: &str = "PRAGMA user_version = 3; CREATE TABLE t(rowid, _rowid_, b);
        INSERT INTO t VALUES(1, 1.0, x'00'), (NULL, 'text', 2); CREATE INDEX i ON t(b);
        CREATE TABLE w(k PRIMARY KEY, v) WITHOUT ROWID; INSERT INTO w VALUES('a', 1), ('b', 2)";

    fn database(dir: &tempfile::TempDir, name: &str, more: &str) -> PathBuf {
        let path = std::fs::canonicalize(dir.path()).unwrap().join(name);
        Connection::open(&path).unwrap().execute_batch(&format!("{CONTENT}; {more}")).unwrap();
        path
    }

    #[test]
    fn a_copy_that_differs_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let source = Source::open(&database(&dir, "source.db", ""), Hold::Everyone).unwrap();
        let check = |name: &str, more: &str| {
            let copy = Connection::open(database(&dir, name, more)).unwrap();
            (
                compare_schema(&source, &copy).is_ok(),
                verify_content(&source, &copy, &Unwatched).is_ok(),
            )
        };
        assert_eq!(check("same.db", ""), (true, true));
        let differing = [
            "UPDATE t SET b = x'01' WHERE b = x'00'",
            "UPDATE t SET rowid = '1' WHERE rowid = 1",
            "UPDATE t SET _rowid_ = 1 WHERE rowid = 1",
            "UPDATE t SET oid = 9 WHERE oid = 2",
            "INSERT INTO w VALUES('c', 3)",
            "DELETE FROM w WHERE k = 'b'",
        ];
        for (index, more) in differing.into_iter().enumerate() {
            assert_eq!(check(&format!("rows{index}.db"), more), (true, false), "{more}");
        }
        let other = [
            "DROP INDEX i",
            "CREATE VIEW v AS SELECT 1",
            "PRAGMA user_version = 4",
            "PRAGMA application_id = 1",
        ];
        for (index, more) in other.into_iter().enumerate() {
            assert!(!check(&format!("schema{index}.db"), more).0, "{more}");
        }
    }

    #[test]
    fn every_page_of_a_sealed_copy_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = database(&dir, "source.db", "");
        let source = Source::open(&path, Hold::Everyone).unwrap();
        let target = Target::create(&path).unwrap();
        let dek = Arc::new(SecretBytes::from_slice(&[7; 32]).unwrap());
        let keys = FileKeys {
            file_id: [1; 16],
            current: 1,
            versions: vec![DekVersion { version: 1, algorithm: Algorithm::Aes256, dek }],
        };
        // More than a chunk, and not a whole number of chunks.
        let (size, pages) = (PageSize::new(65536).unwrap(), 18);
        let mut codec = PageCodec::new(keys.clone());
        let (plain, mut sealed) = (vec![0; size.len()], vec![0; size.len()]);
        for page in 1..=pages {
            codec.seal(page, &plain, &mut sealed).unwrap();
            target.file().write_all_at(&sealed, size.page_offset(page)).unwrap();
        }
        let check = |pages| authenticate(&source, &target, keys.clone(), (size, pages), &Unwatched);
        check(pages).unwrap();
        assert!(check(pages + 1).is_err() && check(pages - 1).is_err());
        for page in 1..=pages {
            let at = size.page_offset(page) + 4321;
            let mut byte = [0];
            target.file().read_exact_at(&mut byte, at).unwrap();
            target.file().write_all_at(&[byte[0] ^ 1], at).unwrap();
            assert!(check(pages).is_err(), "page {page}");
            target.file().write_all_at(&byte, at).unwrap();
        }
    }
}
