//! Looks for a planted marker in every byte that was ever written.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use crate::error::{Error, Result};
use crate::ffi::db::Value;
use crate::record::{FileId, Log, Op, Recorder};
use crate::top::Top;

/// The planted text.
pub const MARKER: &str = "planted-marker-4711";

/// Results of a scan of one kind of file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Writes that were scanned.
    pub writes: u64,
    /// Bytes that were scanned.
    pub bytes: u64,
    /// Writes that contained the marker.
    pub hits: u64,
}

/// Kinds of file, by name: `main`, `journal`, `wal`, `temporary`, `other`.
pub type Scan = BTreeMap<&'static str, Seen>;

/// Runs a workload that spills into every kind of temporary file, in `journal` mode, and scans
/// everything that it wrote.
///
/// # Errors
/// SQLite's and the file system's.
pub fn run(top: Top, journal: &str, directory: &Path) -> Result<Scan> {
    let recorder = Recorder::attach(directory);
    recorder.begin()?;
    spill(top, journal, directory)?;
    let mut scan = scan_log(&recorder.take());
    // The remaining files, including the shared memory, which is not in the log.
    for entry in fs::read_dir(directory).map_err(Error::io(directory))? {
        let path = entry.map_err(Error::io(directory))?.path();
        let content = fs::read(&path).map_err(Error::io(&path))?;
        let seen = scan.entry("left").or_default();
        seen.bytes += content.len() as u64;
        seen.hits += u64::from(contains(&content));
    }
    Ok(scan)
}

fn spill(top: Top, journal: &str, directory: &Path) -> Result<()> {
    let path = directory.join("leak.db");
    let db = top.open(&path)?;
    db.run(&format!(
        "PRAGMA journal_mode={journal}; PRAGMA temp_store=FILE; PRAGMA cache_size=8;
         PRAGMA temp.cache_size=8; PRAGMA cache_spill=1;
         CREATE TABLE secret(id INTEGER PRIMARY KEY, text TEXT, other TEXT UNIQUE);"
    ))?;
    db.run("BEGIN")?;
    for id in 0..600_i64 {
        let text = format!("{MARKER} {id} ").repeat(12);
        let other = format!("{} {MARKER}", (id * 7919) % 100_003);
        let row = [Value::Int(id), Value::from(text.as_str()), Value::from(other.as_str())];
        db.query("INSERT INTO secret VALUES(?1, ?2, ?3)", &row)?;
    }
    db.run("COMMIT")?;
    // Sorter spills: an index, an ORDER BY, a GROUP BY, a compound.
    db.run(
        "CREATE INDEX by_text ON secret(text, other);
         SELECT * FROM secret ORDER BY other || text;
         SELECT text || id, count(*) FROM secret GROUP BY 1;
         SELECT text FROM secret UNION SELECT other FROM secret ORDER BY 1 DESC;",
    )?;
    // Temporary tables and their own journal.
    db.run(
        "CREATE TEMP TABLE copy AS SELECT * FROM secret;
         CREATE INDEX temp.copy_text ON copy(text);
         BEGIN; UPDATE copy SET text = text || '+'; ROLLBACK;",
    )?;
    // A statement journal: the last row of the statement breaks a constraint.
    db.run("BEGIN; UPDATE secret SET text = text || '!'")?;
    let broken = db.run(
        "UPDATE secret SET text = other || text, other = CASE id WHEN 599 THEN
             (SELECT other FROM secret WHERE id = 0) ELSE other || '*' END",
    );
    if broken.is_ok() {
        return Err(Error::Setup("the constraint was not broken".into()));
    }
    db.run("SAVEPOINT s; DELETE FROM secret WHERE id % 3 = 0; ROLLBACK TO s; COMMIT")?;
    db.run("DELETE FROM secret WHERE id % 2 = 0; VACUUM;")?;
    // A second database in the same transaction; VACUUM INTO; a copy through the backup API.
    let side = top.new_uri(&directory.join("side.db"));
    db.query("ATTACH ?1 AS side", &[Value::from(side.as_str())])?;
    db.run(
        "BEGIN; CREATE TABLE side.t AS SELECT * FROM secret; UPDATE secret SET text = 'x' || text;
         COMMIT; DETACH side",
    )?;
    let into = top.new_uri(&directory.join("into.db"));
    db.query("VACUUM INTO ?1", &[Value::from(into.as_str())])?;
    let copy = top.open(&directory.join("copy.db"))?;
    copy.backup_from("main", &db, "main", 7)?;
    copy.close()?;
    db.close()
}

fn scan_log(log: &Log) -> Scan {
    let mut scan = Scan::new();
    let mut contents: HashMap<FileId, Vec<u8>> = HashMap::new();
    for op in &log.ops {
        match op {
            Op::Write { file, offset, data } => {
                let content = contents.entry(*file).or_default();
                let start = usize::try_from(*offset).unwrap_or(0);
                let end = start + data.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[start..end].copy_from_slice(data);
                // A marker may cross the boundary of two writes.
                let around =
                    start.saturating_sub(MARKER.len())..(end + MARKER.len()).min(content.len());
                let seen = scan.entry(kind(log, *file)).or_default();
                seen.writes += 1;
                seen.bytes += data.len() as u64;
                seen.hits += u64::from(contains(&content[around]));
            }
            Op::Truncate { file, size } => {
                let size = usize::try_from(*size).unwrap_or(0);
                contents.entry(*file).or_default().resize(size, 0);
            }
            _ => {}
        }
    }
    scan
}

fn kind(log: &Log, file: FileId) -> &'static str {
    match log.names.get(&file) {
        Some(Some(path)) => {
            let name = path.to_string_lossy();
            if name.ends_with("-wal") {
                "wal"
            } else if name.ends_with("-journal") {
                "journal"
            } else if name.ends_with(".db") {
                "main"
            } else {
                "other"
            }
        }
        _ => "temporary",
    }
}

fn contains(bytes: &[u8]) -> bool {
    bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes())
}
