//! Locks of statements. A database has one write lock, SQLite's. A statement that changes data
//! takes it, and so does one that requests a lock by a hint or by the isolation level.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::render::Rendered;
use crate::run::db::ATTACHED;
use crate::run::globals::TEMPDB;
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
            // all that functions read is of one state
            let own = plan.needs.nested && !self.in_sqlite();
            if own {
                self.run_sql("BEGIN")?;
            }
            return Ok(own);
        }
        let began = !self.in_sqlite();
        self.lock_hinted(plan)?;
        Ok(began && !(open && plan.needs.hints.hold))
    }

    /// Takes the locks that the hints of a statement request, of databases that the login may
    /// write into: elsewhere it reads a snapshot.
    pub(crate) fn lock_hinted(&mut self, plan: &Rendered) -> Result<()> {
        if plan.needs.hints.wait || plan.needs.hints.hold {
            let mut reads = plan.needs.reads.clone();
            reads.retain(|schema| self.may_block(schema));
            self.lock(&reads, plan.needs.hints.nowait)?;
        }
        Ok(())
    }

    /// Takes the write locks of these databases. If this begins SQLite's transaction, those of all
    /// other open databases that the login may write into are taken too, but not for a statement by
    /// itself that changes only temporary tables. Waits for others as long as LOCK_TIMEOUT allows.
    pub(crate) fn lock(&mut self, schemas: &[String], nowait: bool) -> Result<()> {
        let mut wanted: Vec<String> = schemas.to_vec();
        wanted.retain(|schema| schema != "temp");
        if !self.in_sqlite() {
            return self.begin_locking(wanted, nowait);
        }
        for schema in wanted {
            if !self.s.db.writes(&schema) {
                self.in_turn(vec![schema.clone()], nowait, |run| run.upgrade(&schema))?;
            }
        }
        Ok(())
    }

    fn begin_locking(&mut self, mut wanted: Vec<String>, nowait: bool) -> Result<()> {
        let client = self.s.state.transaction.is_open();
        if client {
            // a database opened later would be read in its state at that time, and could not be
            // locked once others have changed it
            let current = self.s.state.database.clone();
            self.s.db.schema(&current)?;
        }
        let open = self.s.db.open();
        if client || !wanted.is_empty() {
            for schema in &open {
                if !wanted.contains(schema) && self.may_block(schema) {
                    wanted.push(schema.clone());
                }
            }
        }
        if open.iter().all(|schema| wanted.contains(schema)) {
            return self.in_turn(wanted, nowait, |run| run.run_sql("BEGIN IMMEDIATE"));
        }
        if wanted.is_empty() {
            return self.run_sql("BEGIN");
        }
        self.in_turn(wanted.clone(), nowait, |run| run.begin_some(&wanted))
    }

    /// Begins a transaction that has the write locks of some of the open databases.
    fn begin_some(&mut self, schemas: &[String]) -> Result<()> {
        self.run_sql("BEGIN")?;
        let locked = schemas.iter().try_for_each(|schema| self.upgrade(schema));
        let Err(error) = locked else { return Ok(()) };
        self.run_sql("ROLLBACK")?;
        Err(match error {
            // another process wrote between the two steps of the first lock
            Error::SnapshotConflict { .. } => Error::LockTimeout {},
            other => other,
        })
    }

    /// Returns true if the login, or the procedure that runs, may write into a database, and so may
    /// make other writers wait for it.
    fn may_block(&mut self, schema: &str) -> bool {
        let Some(database) = schema.strip_prefix(ATTACHED) else { return false };
        if database == TEMPDB {
            // only a statement that changes its tables takes its lock
            return false;
        }
        let chain = self.s.state.chain.as_deref();
        self.s.db.who.sysadmin
            || chain.is_some_and(|chain| chain.to_lowercase() == database)
            || self.s.db.rights(database).is_ok_and(|rights| rights.writes())
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
        db.drop_leaving();
    }
}
