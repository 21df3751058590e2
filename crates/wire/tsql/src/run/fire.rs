//! Triggers fire: their bodies run as parts of the statement whose changes fired them.
//!
//! The statement and all that its triggers do stand or fall together. Outside of a transaction they
//! are one of their own, which the triggers see in `@@TRANCOUNT`. Within one, an error in a trigger
//! undoes it as a whole; in a TRY block it cannot be committed any more.

use std::sync::Arc;

use tdekit_wire_tds::messages::TriggerError;
use tdekit_wire_tds::{Command, DoneKind};

use super::conditions::note_rows;
use super::fired::Running;
use super::firing::{Firing, Watch};
use super::locks::Owner;
use super::tran::Own;
use crate::ast::trigger::Event;
use crate::error::{Error, Result};
use crate::plan::trigger::{Changed, Trigger};
use crate::run::catalog::Table;
use crate::run::state::{Frame, Signal};
use crate::run::work::Run;

impl Run<'_> {
    /// Does `work`, which changes a table, and returns the triggers that its changes fire.
    pub(super) fn watched(
        &mut self,
        table: &Table,
        events: &[(Event, Changed)],
        work: impl FnOnce(&mut Self) -> Result<(Signal, u64)>,
    ) -> Result<((Signal, u64), Option<Watch>)> {
        let noted = note_rows(&mut self.s.db, table, events)?;
        let watch = Watch::begin(&mut self.s.db, self.s.state.nest, table, events)?;
        let result = work(self).and_then(|mut done| {
            if noted && done.0 != Signal::Stop && self.check_rows(table, events)? == Signal::Stop {
                done.0 = Signal::Stop;
            }
            // a cancelled one is undone with all that was made for it
            if let (Some(watch), true) = (&watch, done.0 != Signal::Stop) {
                watch.end(&mut self.s.db)?;
            }
            Ok(done)
        });
        if result.is_err()
            && let Some(watch) = &watch
        {
            watch.forget(&mut self.s.db);
        }
        result.map(|done| (done, watch))
    }

    /// Ends a change of a table: keeps it and fires its triggers, or undoes it. `returns` is true
    /// if the statement has a result.
    pub(super) fn ended(
        &mut self,
        own: Own,
        result: Result<((Signal, u64), Option<Watch>)>,
        (command, returns): (Command, bool),
        frame: &Frame,
    ) -> Result<Signal> {
        match result {
            Err(error) => {
                let cancelled = self.sink.cancelled();
                self.after_write(own, false)?;
                self.s.state.rowcount = 0;
                if cancelled { Ok(Signal::Stop) } else { Err(error) }
            }
            Ok(((Signal::Stop, _), watch)) => {
                watch.iter().for_each(|watch| watch.forget(&mut self.s.db));
                self.after_write(own, false)?;
                Ok(Signal::Stop)
            }
            Ok(((_, rows), watch)) => match self.kept(own, watch, rows, frame)? {
                Signal::Next => Ok(self.counted(frame, command, rows, returns)),
                other => Ok(other),
            },
        }
    }

    /// Keeps a change, and fires its triggers.
    pub(super) fn kept(
        &mut self,
        own: Own,
        watch: Option<Watch>,
        rows: u64,
        frame: &Frame,
    ) -> Result<Signal> {
        let Some(watch) = watch else {
            self.after_write(own, true)?;
            return Ok(Signal::Next);
        };
        let line = self.s.position.line();
        self.s.db.kernels.forget_versions();
        if own == Own::Savepoint {
            // a trigger may go back to a savepoint before the statement
            self.after_write(own, true)?;
        }
        let hidden = !self.s.state.transaction.is_open();
        if hidden {
            self.s.state.transaction.hide();
        }
        let result = self.fire_all(&watch, rows, hidden);
        watch.forget(&mut self.s.db);
        let result = match result {
            Ok(Signal::Next) => watch.drop_tables(&mut self.s.db).map(|()| Signal::Next),
            other => other,
        };
        match result {
            Err(_) if self.sink.cancelled() => self.lost(Ok(Signal::Stop), (hidden, line), frame),
            Ok(Signal::Next) if hidden => self.keep_fired(own).map(|()| Signal::Next),
            Ok(Signal::Next) => Ok(Signal::Next),
            other => {
                let ended = self.lost(other, (hidden, line), frame);
                // a table that stays is dropped before it is made again
                let _ = watch.drop_tables(&mut self.s.db);
                ended
            }
        }
    }

    /// Ends the transaction that a statement and its triggers have for themselves.
    fn keep_fired(&mut self, own: Own) -> Result<()> {
        self.s.state.transaction.end();
        if own == Own::Transaction {
            let kept = self.after_write(own, true);
            self.s.locks.release_all(Some(Owner::Transaction));
            kept?;
            self.s.values.are_kept();
        } else {
            self.s.locks.release_all(Some(Owner::Transaction));
        }
        Ok(())
    }

    /// Called if triggers did not come to their end: nothing stays of the statement.
    fn lost(
        &mut self,
        ended: Result<Signal>,
        (hidden, line): (bool, u32),
        frame: &Frame,
    ) -> Result<Signal> {
        let open = self.s.state.transaction.is_open();
        match ended {
            Err(error) if !self.s.state.guards.catch_errors() => {
                // as an error in the trigger itself, where XACT_ABORT is on
                let abort = std::mem::replace(&mut self.s.state.options.xact_abort, true);
                let failed = self.failed(error, line, frame);
                self.s.state.options.xact_abort = abort;
                failed
            }
            Err(error) => {
                self.s.state.rowcount = 0;
                if hidden && open {
                    self.rollback_all()?;
                } else {
                    self.s.state.transaction.doom();
                }
                Err(error)
            }
            Ok(signal) => {
                if open {
                    self.rollback_all()?;
                }
                Ok(signal)
            }
        }
    }

    fn fire_all(&mut self, watch: &Watch, rows: u64, hidden: bool) -> Result<Signal> {
        for (at, firing) in watch.firings.iter().enumerate() {
            if !firing.direct && !firing.has_rows(&mut self.s.db)? {
                continue;
            }
            for trigger in &firing.triggers {
                let before = self.s.state.transaction.number();
                self.s.state.rowcount = i64::try_from(rows).unwrap_or(i64::MAX);
                let signal = self.run_trigger((firing, at), trigger)?;
                if matches!(signal, Signal::Abort | Signal::Stop) {
                    return Ok(signal);
                }
                if before != self.s.state.transaction.number() {
                    if self.s.state.transaction.is_open() {
                        // one that the trigger began after it had ended the statement's
                        self.rollback_all()?;
                    }
                    return Err(TriggerError::Ended {}.into());
                }
                if self.s.state.transaction.is_doomed() {
                    return Err(TriggerError::Caught {}.into());
                }
            }
        }
        match hidden && self.s.state.transaction.depth() > 1 {
            true => Err(Error::feature("a transaction that a trigger leaves open")),
            false => Ok(Signal::Next),
        }
    }

    /// Runs the body of a trigger.
    fn run_trigger(
        &mut self,
        (firing, at): (&Firing, usize),
        trigger: &Arc<Trigger>,
    ) -> Result<Signal> {
        let parts = (&mut self.s.db, firing.table.database.as_str());
        let compiled = self.s.texts.trigger(trigger, parts)?;
        let (level, table) = (self.s.db.fired.depth(), &firing.table);
        let key = format!("{}|{}|{}|{level}.{at}", table.schema, trigger.table, trigger.name);
        let running = Running {
            trigger: trigger.clone(),
            table: table.clone(),
            inserted: firing.inserted.clone(),
            deleted: firing.deleted.clone(),
            changed: firing.changed.clone(),
            key: key.into(),
        };
        let database = std::mem::replace(&mut self.s.state.database, table.database.clone());
        let abort = std::mem::replace(&mut self.s.state.options.xact_abort, true);
        self.s.db.fired.enter(running);
        let (kind, chain) = (DoneKind::InProcedure, Some(table.database.clone()));
        let called = self.body(&compiled, &[], &trigger.name, kind, chain);
        self.s.db.fired.leave();
        self.s.state.options.xact_abort = abort;
        self.s.state.database = database;
        Ok(called?.signal)
    }
}
