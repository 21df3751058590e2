//! Locks of statements. A database has one write lock, SQLite's. A statement that changes data
//! takes it, and so does one that requests a lock by a hint or by the isolation level.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::render::Rendered;
use crate::run::holder::Outcome;
use crate::run::work::{Inner, Run};

/// Time between two attempts to get a lock that another process holds.
const BUSY: Duration = Duration::from_millis(5);

impl Run<'_> {
    /// Checks that READPAST is allowed in a statement: only where committed rows are read.
    pub(crate) fn may_read(&self, plan: &Rendered) -> Result<()> {
        let level = self.s.state.options.isolation.as_str();
        if plan.needs.hints.past && matches!(level, "READ UNCOMMITTED" | "SERIALIZABLE") {
            return Err(Error::ReadPastLevel {});
        }
        Ok(())
    }

    /// Runs a query with the transaction and the locks that it needs.
    pub(crate) fn reading<T>(
        &mut self,
        plan: &Rendered,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let own = self.before_read(plan)?;
        let result = work(self);
        if own && self.in_sqlite() {
            // system views may have filled temporary tables; nothing else has changed
            self.run_sql("COMMIT")?;
        }
        result
    }

    /// Called before a query. Returns true if it has begun a transaction of SQLite that ends with
    /// the query.
    fn before_read(&mut self, plan: &Rendered) -> Result<bool> {
        let reads = plan.needs.reads.iter().any(|schema| schema != "temp");
        if reads {
            self.implicit();
        }
        self.may_read(plan)?;
        let open = self.s.state.transaction.is_open();
        let level = self.s.state.options.isolation.as_str();
        let (snapshot, strict) =
            (level == "SNAPSHOT", matches!(level, "REPEATABLE READ" | "SERIALIZABLE"));
        if open && !self.in_sqlite() {
            if strict {
                self.lock(&[], plan.needs.hints.nowait)?;
            } else if snapshot {
                self.run_sql("BEGIN")?;
            }
        }
        if !reads || !(plan.needs.hints.wait || plan.needs.hints.hold && open) {
            return Ok(false);
        }
        let began = !self.in_sqlite();
        self.lock_hinted(plan)?;
        Ok(began && !(open && plan.needs.hints.hold))
    }

    /// Takes the locks that the hints of a statement request.
    pub(crate) fn lock_hinted(&mut self, plan: &Rendered) -> Result<()> {
        if plan.needs.hints.wait || plan.needs.hints.hold {
            self.lock(&plan.needs.reads, plan.needs.hints.nowait)?;
        }
        Ok(())
    }

    /// Takes the write lock: of all open databases, if this begins SQLite's transaction, else of
    /// these. Waits for others as long as LOCK_TIMEOUT allows.
    pub(crate) fn lock(&mut self, schemas: &[String], nowait: bool) -> Result<()> {
        if !self.in_sqlite() {
            if self.s.state.transaction.is_open() {
                // a database opened later would be read in its state at that time, and could not be
                // locked once others have changed it
                let current = self.s.state.database.clone();
                self.s.db.schema(&current)?;
            }
            let open = self.s.db.open();
            return self.in_turn(open, nowait, |run| run.run_sql("BEGIN IMMEDIATE"));
        }
        for schema in schemas.iter().filter(|schema| *schema != "temp") {
            if !self.s.db.writes(schema) {
                let wanted = vec![schema.clone()];
                self.in_turn(wanted, nowait, |run| run.upgrade(schema))?;
            }
        }
        Ok(())
    }

    /// Makes the open transaction one that writes into a database. Rewriting a number unchanged
    /// makes SQLite take the lock. If others have changed data since this transaction read it, that
    /// fails permanently, as a snapshot conflict.
    fn upgrade(&mut self, schema: &str) -> Result<()> {
        let kernels = self.s.db.kernels.clone();
        let database = self.s.state.database.clone();
        let fail = |error: rusqlite::Error| super::db::failure(&kernels, &error, &database);
        let connection = self.s.db.connection()?;
        let number: i64 = connection
            .pragma_query_value(Some(schema), "user_version", |row| row.get(0))
            .map_err(fail)?;
        connection.pragma_update(Some(schema), "user_version", number).map_err(fail)
    }

    /// Takes the write locks of databases when it is this session's turn, then SQLite's by
    /// `attempt`.
    fn in_turn(
        &mut self,
        wanted: Vec<String>,
        nowait: bool,
        attempt: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let limit_ms = if nowait { 0 } else { self.s.state.options.lock_timeout_ms };
        let limit = u64::try_from(limit_ms).ok().map(Duration::from_millis);
        let start = Instant::now();
        let result = match self.s.locks.acquire_writes(wanted, limit, self.sink) {
            Outcome::Granted { .. } => {
                // we do the waiting, since a client may cancel it
                self.s.db.set_patience(Some(Duration::ZERO))?;
                let result = self.patiently(start, limit, attempt);
                self.s.db.set_patience(None)?;
                result
            }
            Outcome::TimedOut | Outcome::Cancelled => Err(Error::LockTimeout {}),
            Outcome::Deadlock => Err(Error::Deadlock { spid: self.s.caller.spid }),
            Outcome::Crowded => Err(Error::Crowded {}),
        };
        if result.is_err() {
            self.settle();
        }
        result
    }

    /// Retries until no other process and no maintenance of the database blocks it, the time is
    /// over, or the client cancels.
    fn patiently(
        &mut self,
        start: Instant,
        limit: Option<Duration>,
        mut attempt: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        loop {
            let error = match attempt(self) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let over = limit.is_some_and(|limit| start.elapsed() >= limit);
            if !matches!(error, Error::LockTimeout {}) || over || self.sink.cancelled() {
                return Err(error);
            }
            if !self.sink.waiting(&mut || std::thread::park_timeout(BUSY)) {
                return Err(Error::Crowded {});
            }
        }
    }

    /// KILL.
    pub(crate) fn kill(&mut self, spid: i64) -> Result<()> {
        let number = u16::try_from(spid).ok().filter(|number| *number > 0);
        let number = number.ok_or(Error::NoSessionNumber { spid })?;
        if number == self.s.caller.spid {
            return Err(Error::KillsItself {});
        }
        match self.s.db.host.kill(number)? {
            true => Ok(()),
            false => Err(Error::NoSuchProcess { spid }),
        }
    }

    /// Releases the write locks that SQLite no longer holds.
    pub(crate) fn settle(&mut self) {
        self.s.settle();
    }
}

impl Inner {
    /// As [`Run::settle`].
    pub(super) fn settle(&mut self) {
        let db = &self.db;
        self.locks.release_writes(&|schema| db.writes(schema));
    }
}
