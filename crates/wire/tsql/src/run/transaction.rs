//! Transactions. SQLite's begins with the first change (or the first read above READ COMMITTED), so
//! that sessions that only read hold nothing; reads see the state at their own start.

use super::tran::Own;
use tdekit_wire_tds::{Command, EnvChange};

use super::locks::Owner;
use crate::ast::{Operand, TranOp};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::render::Rendered;
use crate::run::catalog::Table;
use crate::run::state::{Frame, Signal};
use crate::run::target::Target;
use crate::run::work::{Inner, Run};

/// How to undo an INSERT .. EXEC: the procedure's changes are undone with the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// No transaction was open: it has its own, which procedures see in `@@TRANCOUNT`.
    Own,
    /// The client's transaction had changed nothing yet.
    All,
    /// A savepoint in the client's transaction.
    Savepoint,
}

impl Run<'_> {
    pub(crate) fn in_sqlite(&self) -> bool {
        self.s.db.in_transaction()
    }

    pub(super) fn run_sql(&mut self, sql: &str) -> Result<()> {
        let result = self.s.db.execute(sql, &self.s.state.database);
        if !self.in_sqlite() {
            self.settle();
        }
        result
    }

    pub(crate) fn implicit(&mut self) {
        if self.s.state.options.implicit_transactions && !self.s.state.transaction.is_open() {
            self.begin_transaction("");
        }
    }

    /// The name becomes the transaction's if it is the outermost one.
    pub(crate) fn begin_transaction(&mut self, name: &str) {
        if let Some(number) = self.s.state.transaction.begin(name) {
            self.sink.env_change(EnvChange::Begin(number));
            let now = self.s.state.now;
            self.s.metered.began(now);
        }
    }

    /// Called before a change of a table, and of the one into which its OUTPUT goes.
    pub(crate) fn before_write(
        &mut self,
        (table, into): (&Table, Option<&Target>),
        plan: Option<&Rendered>,
    ) -> Result<Own> {
        if self.s.state.transaction.is_doomed() {
            return Err(Error::Doomed {});
        }
        let mut schemas = vec![table.schema.clone()];
        schemas.extend(into.map(|target| target.table.schema.clone()));
        if schemas.iter().any(|schema| schema != "temp") {
            self.implicit();
        }
        let hints = plan.map(|plan| plan.needs.hints).unwrap_or_default();
        let own = self.begin_own(&schemas, hints.nowait)?;
        let Some(plan) = plan else { return Ok(own) };
        match self.lock_hinted(plan) {
            Ok(()) => Ok(own),
            Err(error) => {
                self.after_write(own, false)?;
                Err(error)
            }
        }
    }

    /// Begins a transaction or a savepoint for one statement that changes these databases.
    pub(crate) fn begin_own(&mut self, schemas: &[String], nowait: bool) -> Result<Own> {
        let began = !self.in_sqlite();
        self.lock(schemas, nowait)?;
        if began && !self.s.state.transaction.is_open() {
            return Ok(Own::Transaction);
        }
        self.run_sql("SAVEPOINT \"~statement\"")?;
        Ok(Own::Savepoint)
    }

    /// Keeps or undoes the changes of one statement.
    pub(crate) fn after_write(&mut self, own: Own, keep: bool) -> Result<()> {
        // the next change reads the last one again
        self.s.db.kernels.forget_versions();
        let sql = match (own, keep) {
            (Own::Transaction, true) => "COMMIT",
            (Own::Transaction, false) => "ROLLBACK",
            (Own::Savepoint, true) => "RELEASE \"~statement\"",
            (Own::Savepoint, false) => "ROLLBACK TO \"~statement\"; RELEASE \"~statement\"",
        };
        if !self.in_sqlite() {
            // SQLite has rolled back on its own: disk full, I/O error
            self.s.state.transaction.doom();
            return Ok(());
        }
        let result = self.run_sql(sql);
        if result.is_err() && own == Own::Transaction && self.in_sqlite() {
            self.run_sql("ROLLBACK")?;
        }
        result
    }

    /// Undoes the whole transaction.
    pub(crate) fn rollback_all(&mut self) -> Result<()> {
        if self.in_sqlite() {
            self.undoing("ROLLBACK")?;
        }
        if let Some(number) = self.s.state.transaction.end() {
            self.sink.env_change(EnvChange::Rollback(number));
        }
        self.s.locks.release_all(Some(Owner::Transaction));
        self.keep_values();
        Ok(())
    }

    /// Undoes a part of a transaction; table variables do not change.
    fn undoing(&mut self, sql: &str) -> Result<()> {
        let kept = self.s.db.keep_variables()?;
        self.run_sql(sql)?;
        self.s.db.changed();
        if kept.is_empty() {
            return Ok(());
        }
        self.run_sql("SAVEPOINT \"~variables\"")?;
        let Inner { db, state, .. } = &mut *self.s;
        let put = kept.iter().try_for_each(|kept| db.put_back(kept, &state.database));
        self.run_sql("RELEASE \"~variables\"")?;
        self.s.db.changed();
        put
    }

    pub(crate) fn commit(&mut self) -> Result<()> {
        if !self.s.state.transaction.is_open() {
            return Err(Error::NoBegin { verb: "COMMIT".to_owned() });
        }
        if self.s.state.transaction.is_doomed() {
            return Err(Error::Doomed {});
        }
        let depth = self.s.state.transaction.depth();
        if self.s.state.capturing.is_some_and(|outside| depth <= outside) {
            return Err(Error::CommitInInsert {});
        }
        if depth == 1 {
            if self.in_sqlite()
                && let Err(error) = self.run_sql("COMMIT")
            {
                self.rollback_all()?;
                return Err(error);
            }
            self.s.values.are_kept();
            self.s.locks.release_all(Some(Owner::Transaction));
        }
        if let Some(number) = self.s.state.transaction.commit() {
            self.sink.env_change(EnvChange::Commit(number));
        }
        Ok(())
    }

    /// Called before an INSERT .. EXEC, which is one statement with everything that its procedure
    /// does.
    pub(crate) fn begin_insert_exec(&mut self, table: &Table) -> Result<Undo> {
        if self.s.state.transaction.is_doomed() {
            return Err(Error::Doomed {});
        }
        if table.schema != "temp" {
            self.implicit();
        }
        let undo = if !self.s.state.transaction.is_open() {
            self.s.state.transaction.hide();
            Undo::Own
        } else if self.in_sqlite() {
            self.run_sql("SAVEPOINT \"~insert\"")?;
            Undo::Savepoint
        } else {
            Undo::All
        };
        self.s.state.capturing = Some(self.s.state.transaction.depth());
        Ok(undo)
    }

    /// Called after an INSERT .. EXEC. An error may have rolled back everything already.
    pub(crate) fn end_insert_exec(&mut self, undo: Undo, keep: bool) -> Result<()> {
        self.s.state.capturing = None;
        let sql = match undo {
            _ if !self.s.state.transaction.is_open() || !self.in_sqlite() => "",
            Undo::Savepoint if keep => "RELEASE \"~insert\"",
            Undo::Savepoint => "ROLLBACK TO \"~insert\"; RELEASE \"~insert\"",
            _ if keep => "",
            _ => "ROLLBACK",
        };
        let result = self.run_sql(sql);
        if !keep {
            self.s.db.changed();
        }
        if undo != Undo::Own {
            return result;
        }
        // in any case, no transaction remains that is unknown to the client
        if !keep {
            self.s.state.transaction.end();
            self.s.locks.release_all(Some(Owner::Transaction));
            self.keep_values();
            return result;
        }
        let left = self.s.state.transaction.reveal();
        if !self.s.state.transaction.is_open() {
            self.s.locks.release_all(Some(Owner::Transaction));
        }
        if let Some(number) = left {
            // the procedure began a transaction and left it open
            self.sink.env_change(EnvChange::Begin(number));
        } else if self.in_sqlite()
            && let Err(error) = self.run_sql("COMMIT")
        {
            self.rollback_all()?;
            return Err(error);
        }
        Ok(())
    }

    pub(crate) fn save(&mut self, name: &str) -> Result<()> {
        if !self.s.state.transaction.is_open() {
            return Err(Error::SaveOutside {});
        }
        if !self.in_sqlite() {
            self.lock(&[], false)?;
        }
        self.run_sql(&format!("SAVEPOINT {}", quote(&format!("save:{}", name.to_lowercase()))))
    }

    pub(crate) fn rollback(&mut self, name: &str) -> Result<()> {
        if !self.s.state.transaction.is_open() {
            return Err(Error::NoBeginRollback {});
        }
        if self.s.state.capturing.is_some() {
            // a savepoint may be an earlier one, whose rollback would undo the statement's own
            return Err(match name {
                "" => Error::RollbackInInsert {},
                _ => Error::feature("ROLLBACK to a savepoint within INSERT .. EXEC"),
            });
        }
        if name.is_empty() {
            return self.rollback_all();
        }
        if self.s.state.transaction.is_doomed() {
            return Err(Error::Doomed {});
        }
        let savepoint = quote(&format!("save:{}", name.to_lowercase()));
        let known = self.in_sqlite() && self.undoing(&format!("ROLLBACK TO {savepoint}")).is_ok();
        self.keep_values();
        if known { Ok(()) } else { Err(Error::NoSavepoint { name: name.to_owned() }) }
    }

    pub(crate) fn tran(
        &mut self,
        op: &TranOp,
        name: Option<&Operand>,
        frame: &Frame,
    ) -> Result<Signal> {
        let name = match name {
            Some(Operand::Text(name)) => name.clone(),
            Some(Operand::Var(variable)) => {
                let slot = frame.variables.find(variable)?.slot;
                super::messages::shown(&frame.vars[slot], 32)
            }
            None => String::new(),
        };
        let command = match op {
            TranOp::Begin => {
                self.begin_transaction(&name);
                Command::BEGIN
            }
            TranOp::Commit => {
                self.commit()?;
                Command::COMMIT
            }
            TranOp::Rollback => {
                // the outermost transaction's name means all of it
                let all = self.s.state.transaction.is_named(&name);
                self.rollback(if all { "" } else { &name })?;
                Command::ROLLBACK
            }
            TranOp::Save => {
                self.save(&name)?;
                Command::OTHER
            }
        };
        Ok(self.finished(frame, command))
    }
}
