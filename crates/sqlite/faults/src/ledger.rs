//! A workload of small transactions of which every legal state is known.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_64;

use crate::error::Result;
use crate::ffi::db::{Db, Value};
use crate::rng::Rng;
use crate::top::Top;

/// Journal mode of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Journal {
    /// The journal is deleted at each commit.
    Delete,
    /// The journal is truncated at each commit.
    Truncate,
    /// The journal's header is zeroed at each commit.
    Persist,
    /// The journal is kept in memory.
    Memory,
    /// No journal: a failure cannot be undone.
    Off,
    /// Write-ahead log.
    Wal,
}

/// `PRAGMA synchronous` of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synchronous {
    /// No sync: safe only against a killed process.
    Off,
    /// Syncs at the critical moments.
    Normal,
    /// Syncs at each commit.
    Full,
    /// As FULL, and the directory after the journal's deletion.
    Extra,
}

/// One point of the test matrix.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The layer under test.
    pub top: Top,
    /// Journal mode.
    pub journal: Journal,
    /// Sync level.
    pub synchronous: Synchronous,
    /// Page size in bytes.
    pub page_size: u32,
    /// A cache of a few pages, so that transactions spill before they commit.
    pub spill: bool,
    /// 1, or 2 with a second, attached database that every transaction also changes.
    pub databases: u32,
    /// Number of transactions.
    pub transactions: u32,
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {:?} {:?} page {} spill {} databases {}",
            self.top, self.journal, self.synchronous, self.page_size, self.spill, self.databases
        )
    }
}

impl Config {
    /// Returns the schemas of the workload's connection, in order.
    #[must_use]
    pub fn schemas(&self) -> &'static [&'static str] {
        if self.databases > 1 { &["main", "side"] } else { &["main"] }
    }

    /// Returns the path of database `index` under `directory`.
    #[must_use]
    pub fn path(&self, directory: &Path, index: usize) -> PathBuf {
        directory.join(if index == 0 { "main.db" } else { "side.db" })
    }

    /// Opens the databases with default settings, as an application does after a crash.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn open(&self, directory: &Path) -> Result<Db> {
        let db = self.top.open(&self.path(directory, 0))?;
        db.busy_timeout_ms(2000);
        if self.databases > 1 {
            let uri = self.top.new_uri(&self.path(directory, 1));
            db.query("ATTACH ?1 AS side", &[Value::from(uri.as_str())])?;
        }
        Ok(db)
    }

    /// Opens the databases for the workload, with this configuration's settings.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn open_for_work(&self, directory: &Path) -> Result<Db> {
        let db = self.open(directory)?;
        let synchronous = match self.synchronous {
            Synchronous::Off => "OFF",
            Synchronous::Normal => "NORMAL",
            Synchronous::Full => "FULL",
            Synchronous::Extra => "EXTRA",
        };
        let journal = match self.journal {
            Journal::Delete => "DELETE",
            Journal::Truncate => "TRUNCATE",
            Journal::Persist => "PERSIST",
            Journal::Memory => "MEMORY",
            Journal::Off => "OFF",
            Journal::Wal => "WAL",
        };
        for schema in self.schemas() {
            db.run(&format!(
                "PRAGMA {schema}.page_size={}; PRAGMA {schema}.synchronous={synchronous};
                 PRAGMA {schema}.journal_mode={journal};",
                self.page_size
            ))?;
            if self.spill {
                db.run(&format!("PRAGMA {schema}.cache_size=4; PRAGMA cache_spill=1;"))?;
            }
        }
        Ok(db)
    }
}

/// Creates the tables of the workload: its first transaction.
///
/// # Errors
/// SQLite's own.
pub fn create(db: &Db, config: &Config, commit: impl FnOnce() -> Result<()>) -> Result<()> {
    db.run("BEGIN")?;
    for schema in config.schemas() {
        db.run(&format!(
            "CREATE TABLE {schema}.ledger(n INTEGER PRIMARY KEY, items INTEGER, bytes INTEGER);
             CREATE TABLE {schema}.items(id INTEGER PRIMARY KEY, n INTEGER, tag TEXT, body BLOB);
             CREATE INDEX {schema}.items_by_tag ON items(tag, n);
             INSERT INTO {schema}.ledger VALUES(1, 0, 0);"
        ))?;
    }
    commit()
}

/// Runs transaction `n` up to, and not including, its COMMIT.
///
/// # Errors
/// SQLite's own.
pub fn change(db: &Db, config: &Config, n: u32, rng: &mut Rng) -> Result<()> {
    db.run("BEGIN")?;
    for schema in config.schemas() {
        insert(db, schema, n, config, rng)?;
        if rng.percent(60) {
            db.query(
                &format!("UPDATE {schema}.items SET tag = tag || ?1, n = ?2 WHERE id % 5 = ?3"),
                &[
                    Value::from("+"),
                    Value::Int(i64::from(n)),
                    Value::Int(i64::try_from(rng.below(5)).unwrap_or(0)),
                ],
            )?;
        }
        if rng.percent(40) {
            db.query(
                &format!("DELETE FROM {schema}.items WHERE id % 7 = ?1"),
                &[Value::Int(i64::try_from(rng.below(7)).unwrap_or(0))],
            )?;
        }
        if rng.percent(30) {
            db.run("SAVEPOINT part")?;
            insert(db, schema, n, config, rng)?;
            db.run("ROLLBACK TO part; RELEASE part")?;
        }
        if rng.percent(20) {
            db.run(&format!("CREATE TABLE {schema}.extra{n}(a, b); DROP TABLE {schema}.extra{n}"))?;
        }
        db.query(
            &format!(
                "INSERT INTO {schema}.ledger
                 SELECT ?1, count(*), total(length(body)) FROM {schema}.items"
            ),
            &[Value::Int(i64::from(n))],
        )?;
    }
    Ok(())
}

fn insert(db: &Db, schema: &str, n: u32, config: &Config, rng: &mut Rng) -> Result<()> {
    let page = usize::try_from(config.page_size).unwrap_or(4096);
    let rows = if config.spill { 8 } else { 3 };
    let sql = format!("INSERT INTO {schema}.items(n, tag, body) VALUES(?1, ?2, ?3)");
    let statement = db.prepare(&sql)?;
    for _ in 0..1 + rng.below(rows) {
        // Every fourth row overflows its page.
        let size = if rng.percent(25) { page + rng.below(page) } else { rng.below(page / 4) };
        let tag = format!("tag-{}", rng.below(1000));
        let row =
            [Value::Int(i64::from(n)), Value::from(tag.as_str()), Value::Blob(rng.bytes(size))];
        statement.bind_all(row.iter().map(Value::borrowed))?;
        statement.run()?;
    }
    Ok(())
}

/// Returns a digest of everything that SQL can see in `schema`: schema texts and all rows of all
/// tables.
///
/// # Errors
/// SQLite's own.
pub fn digest(db: &Db, schema: &str) -> Result<u64> {
    let mut hasher = XxHash3_64::new();
    let objects = db.rows(&format!(
        "SELECT type, name, tbl_name, sql FROM {schema}.sqlite_schema ORDER BY type, name"
    ))?;
    for object in &objects {
        object.hash(&mut hasher);
        if let [Value::Text(kind), Value::Text(name), _, Value::Text(sql)] = object.as_slice()
            && kind == b"table"
        {
            let (name, sql) = (String::from_utf8_lossy(name), String::from_utf8_lossy(sql));
            let rowid = if sql.contains("WITHOUT ROWID") { "" } else { "rowid, " };
            let statement = db.prepare(&format!("SELECT {rowid}* FROM {schema}.{name}"))?;
            while statement.step()? {
                statement.row().hash(&mut hasher);
            }
        }
    }
    Ok(hasher.finish())
}

/// Returns the digests of all databases of the connection.
///
/// # Errors
/// SQLite's own.
pub fn digests(db: &Db, config: &Config) -> Result<Vec<u64>> {
    config.schemas().iter().map(|schema| digest(db, schema)).collect()
}

/// Fails unless `PRAGMA integrity_check` of every database returns `ok`.
///
/// # Errors
/// [`crate::error::Error::Broken`] with the check's first line; SQLite's own.
pub fn check_integrity(db: &Db, config: &Config) -> Result<()> {
    for schema in config.schemas() {
        let said = db.text(&format!("PRAGMA {schema}.integrity_check"))?;
        if said != "ok" {
            return Err(crate::error::Error::Broken(format!("integrity_check {schema}: {said}")));
        }
    }
    Ok(())
}
