//! One side of the comparison: a directory, a connection, and its objects so far.

use std::path::PathBuf;

use super::script::Step;
use crate::error::{Error, Result};
use crate::ffi::db::{Db, Row, Value};
use crate::ledger::digest;
use crate::top::Top;

/// The outcome of a step: rows, or SQLite's primary result code.
pub(super) type Outcome = std::result::Result<Vec<Row>, i32>;

/// One side.
pub struct World {
    top: Top,
    directory: PathBuf,
    db: Option<Db>,
    made: usize,
}

impl World {
    /// Makes an empty database of `top`'s kind under `directory`.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn new(top: Top, directory: PathBuf) -> Result<Self> {
        let db = Some(top.open(&directory.join("main.db"))?);
        Ok(Self { top, directory, db, made: 0 })
    }

    /// Runs one step.
    ///
    /// # Errors
    /// Only failures that are not results of SQLite; SQLite's errors are outcomes.
    pub(super) fn run(&mut self, step: &Step) -> Result<Outcome> {
        match self.step(step) {
            Ok(rows) => Ok(Ok(rows)),
            Err(Error::Sql(error)) => Ok(Err(error.primary())),
            Err(other) => Err(other),
        }
    }

    /// Returns the encrypting VFS's last error.
    pub(super) fn last_error(&self) -> String {
        let said = self.db().and_then(|db| db.text("SELECT tdekit_last_error()"));
        said.unwrap_or_default()
    }

    /// Ends the script: closes, checks and reads everything.
    ///
    /// # Errors
    /// SQLite's own; [`Error::Broken`] for a failed integrity check.
    pub fn finish(&mut self) -> Result<Vec<Row>> {
        self.db = None;
        self.db = Some(self.top.open(&self.path("main.db"))?);
        let said = self.db()?.text("PRAGMA integrity_check")?;
        if said != "ok" {
            return Err(Error::Broken(format!("{} integrity_check: {said}", self.top)));
        }
        let digest = digest(self.db()?, "main")?;
        self.db = None;
        Ok(number(digest))
    }

    fn step(&mut self, step: &Step) -> Result<Vec<Row>> {
        match step {
            Step::Sql(sql) => self.db()?.rows(sql),
            Step::Quiet(sql) => self.db()?.run(sql).map(|()| Vec::new()),
            Step::Resize(size) => self.resize(*size),
            Step::Reopen => {
                self.db = None;
                self.db = Some(self.top.open(&self.path("main.db"))?);
                digest(self.db()?, "main").map(number)
            }
            Step::ReadOnly { immutable } => self.read_only(*immutable),
            Step::Attach { plain } => self.attach(*plain),
            Step::Detach => self.db()?.rows("DETACH side"),
            Step::Blob { table, rowid, offset, write } => self.blob(*table, *rowid, *offset, write),
            Step::Backup { pages } => self.backup(*pages),
            Step::Restore { memory } => self.restore(*memory),
            Step::VacuumInto => self.vacuum_into(),
        }
    }

    /// VACUUM to another page size. An encrypted database with a page refuses it; plain SQLite is
    /// then spared.
    fn resize(&self, size: u32) -> Result<Vec<Row>> {
        const IOERR: i32 = 10;
        let db = self.db()?;
        let old = db.int("PRAGMA page_size")?;
        if db.int("PRAGMA page_count")? == 0 {
            return db.rows(&format!("PRAGMA page_size={size}; VACUUM"));
        }
        // With a log, or inside of a transaction, SQLite itself keeps the size.
        let keeps = db.text("PRAGMA journal_mode")? == "wal" || !db.autocommit();
        if !self.top.seals() {
            let changes = !keeps && i64::from(size) != old;
            return if changes { Ok(Vec::new()) } else { db.rows("VACUUM") };
        }
        let outcome = db.rows(&format!("PRAGMA page_size={size}; VACUUM"));
        db.run(&format!("PRAGMA page_size={old}"))?;
        match outcome {
            Err(error) if error.sqlite_code() == Some(IOERR) => {
                let said = db.text("SELECT tdekit_last_error()")?;
                // A page of the new size that crosses the end of one of the old size is encountered
                // first.
                let refused = said.contains("page size") || said.contains("reserved bytes");
                if refused { Ok(Vec::new()) } else { Err(error) }
            }
            other => other,
        }
    }

    fn db(&self) -> Result<&Db> {
        self.db.as_ref().ok_or_else(|| Error::Setup("the database is closed".into()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn read_only(&mut self, immutable: bool) -> Result<Vec<Row>> {
        let path = self.path("main.db");
        if !immutable {
            let uri = self.top.uri(&path, "mode=ro");
            let other = Db::open_readonly(&uri, Some(self.top.vfs()?))?;
            return digest(&other, "main").map(number);
        }
        // Nobody may write: the connection is closed meanwhile, and so is the log.
        self.db = None;
        let uri = self.top.uri(&path, "immutable=1");
        let seen = Db::open_readonly(&uri, Some(self.top.vfs()?)).and_then(|other| {
            let refused = other.run("CREATE TABLE no(x)").is_err();
            let mut rows = number(digest(&other, "main")?);
            rows.push(vec![Value::Int(i64::from(refused))]);
            Ok(rows)
        });
        self.db = Some(self.top.open(&path)?);
        seen
    }

    fn attach(&mut self, plain: bool) -> Result<Vec<Row>> {
        let uri = if plain {
            let parameter = if self.top.seals() { "tdekit=plain" } else { "" };
            self.top.uri(&self.path("side-plain.db"), parameter)
        } else {
            self.top.new_uri(&self.path("side.db"))
        };
        self.db()?.query("ATTACH ?1 AS side", &[Value::from(uri.as_str())])
    }

    fn blob(&self, table: usize, rowid: i64, offset: usize, write: &[u8]) -> Result<Vec<Row>> {
        let table = format!("t{table}");
        let blob = self.db()?.blob(("main", &table, "c"), rowid, !write.is_empty())?;
        let offset = offset % blob.size().max(1);
        let len = write.len().min(blob.size() - offset);
        blob.write(offset, &write[..len])?;
        let all = blob.read(0, blob.size())?;
        Ok(vec![vec![Value::Blob(all)]])
    }

    /// Copies to a new file, opens it and reads it.
    fn backup(&mut self, pages: i32) -> Result<Vec<Row>> {
        self.made += 1;
        let path = self.path(&format!("backup-{}.db", self.made));
        let copy = self.top.open(&path)?;
        copy.backup_from("main", self.db()?, "main", pages)?;
        drop(copy);
        let copy = self.top.open(&path)?;
        read_whole(&copy)
    }

    /// Copies a database over the main one.
    fn restore(&mut self, memory: bool) -> Result<Vec<Row>> {
        if memory && self.db()?.int("PRAGMA page_count")? == 0 {
            return Ok(Vec::new());
        }
        let source = if memory {
            // A database in memory with the same page size; an encrypted target accepts its pages
            // only with their reserve.
            let source = Db::open(":memory:", Some(self.top.vfs()?), true)?;
            source.backup_from("main", self.db()?, "main", -1)?;
            source.run("CREATE TABLE IF NOT EXISTS memory(x); INSERT INTO memory VALUES(1)")?;
            source
        } else {
            let path = self.path(&format!("backup-{}.db", self.made.max(1)));
            Db::open(&self.top.new_uri(&path), Some(self.top.vfs()?), false)?
        };
        // Nothing to copy: a failed backup left an empty file.
        if source.int("PRAGMA page_count")? == 0 {
            return Ok(Vec::new());
        }
        self.db()?.backup_from("main", &source, "main", -1)?;
        read_whole(self.db()?)
    }

    fn vacuum_into(&mut self) -> Result<Vec<Row>> {
        self.made += 1;
        let path = self.path(&format!("backup-{}.db", self.made));
        let uri = self.top.new_uri(&path);
        self.db()?.query("VACUUM INTO ?1", &[Value::from(uri.as_str())])?;
        let copy = self.top.open(&path)?;
        read_whole(&copy)
    }
}

fn read_whole(db: &Db) -> Result<Vec<Row>> {
    let mut rows = db.rows("PRAGMA integrity_check")?;
    rows.extend(number(digest(db, "main")?));
    Ok(rows)
}

fn number(digest: u64) -> Vec<Row> {
    vec![vec![Value::Blob(digest.to_le_bytes().to_vec())]]
}
