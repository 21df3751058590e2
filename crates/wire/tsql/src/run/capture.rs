//! INSERT .. EXEC: a call whose rows go into a table instead of to the client.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tdekit_wire_tds::{Column, Command, DoneKind, EnvChange, Flow, Message, Sink, SqlType, Value};

use super::compile::Op;
use crate::ast::Name;
use crate::ast::trigger::Event;
use crate::error::{Error, Result};
use crate::plan::trigger::Changed;
use crate::run::state::{Frame, Signal};
use crate::run::target::Target;
use crate::run::work::Run;
use crate::value::Val;

/// Keeps rows, and passes on everything that is not part of a result.
struct Capture<'a> {
    around: &'a mut dyn Sink,
    types: Vec<SqlType>,
    /// Results one after the other: types of a result's columns, and its rows.
    results: Vec<(Vec<SqlType>, Vec<Vec<Val>>)>,
}

impl Sink for Capture<'_> {
    fn columns(&mut self, columns: &[Column]) -> Flow {
        self.types = columns.iter().map(|column| column.ty).collect();
        self.results.push((self.types.clone(), Vec::new()));
        Flow::Continue
    }

    fn row(&mut self, values: &[Value<'_>]) -> Flow {
        let row = values.iter().map(|value| value.clone().into_owned()).collect();
        if let Some((_, rows)) = self.results.last_mut() {
            rows.push(row);
        }
        if self.around.cancelled() { Flow::Stop } else { Flow::Continue }
    }

    fn done(&mut self, _: DoneKind, _: Command, _: Option<u64>) -> Flow {
        if self.around.cancelled() { Flow::Stop } else { Flow::Continue }
    }

    fn message(&mut self, message: &Message) -> Flow {
        self.around.message(message)
    }

    fn return_status(&mut self, _: i32) {}

    fn return_value(&mut self, _: u16, _: &str, _: SqlType, _: &Value<'_>) {}

    fn env_change(&mut self, change: EnvChange<'_>) {
        self.around.env_change(change);
    }

    fn flush(&mut self) {
        self.around.flush();
    }

    fn cancelled(&self) -> bool {
        self.around.cancelled()
    }

    fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.around.cancel_flag()
    }

    fn waiting(&self, wait: &mut dyn FnMut()) -> bool {
        self.around.waiting(wait)
    }
}

impl Run<'_> {
    pub(crate) fn insert_exec(
        &mut self,
        into: &Name,
        columns: &[String],
        call: &Op,
        frame: &mut Frame,
    ) -> Result<Signal> {
        if self.s.state.capturing.is_some() {
            return Err(Error::NestedInsertExec {});
        }
        self.s.db.follow();
        let known = self.s.db.known;
        let target = self.exec_target(into, columns, frame)?;
        let undo = self.begin_insert_exec(&target.table)?;
        let result = self.captured(call, (target, known, into, columns), frame);
        let keep = matches!(&result, Ok((Signal::Next, _)));
        self.end_insert_exec(undo, keep)?;
        match result? {
            (Signal::Next, count) => Ok(self.counted(frame, Command::INSERT, count, false)),
            (signal, _) => Ok(signal),
        }
    }

    fn exec_target(&mut self, into: &Name, columns: &[String], frame: &Frame) -> Result<Target> {
        let target = self.target(into, columns, &frame.variables, false)?;
        match self.s.db.has_trigger(&target.table, Event::Insert, true)? {
            true => Err(Error::feature("INSERT .. EXEC into a table with an INSTEAD OF trigger")),
            false => Ok(target),
        }
    }

    /// Runs the call, then inserts its rows into the table, which was looked up when schemas had
    /// moved `known` times; returns their number.
    fn captured(
        &mut self,
        call: &Op,
        (mut target, known, into, columns): (Target, u64, &Name, &[String]),
        frame: &mut Frame,
    ) -> Result<(Signal, u64)> {
        let Op::Exec { exec, args, text, status } = call else {
            return Err(Error::Internal { detail: "no call".to_owned() });
        };
        let mut capture =
            Capture { around: &mut *self.sink, types: Vec::new(), results: Vec::new() };
        let called = {
            let mut run = Run { s: &mut *self.s, sink: &mut capture };
            let kind = std::mem::replace(&mut frame.kind, DoneKind::InProcedure);
            let called = run.exec(exec, args, text.as_ref(), *status, frame);
            frame.kind = kind;
            called
        };
        let results = capture.results;
        let signal = called?;
        if signal != Signal::Next {
            return Ok((signal, 0));
        }
        let own = self.before_write((&target.table, None), None)?;
        self.s.db.follow();
        if self.s.db.known != known {
            match self.exec_target(into, columns, frame) {
                Ok(found) => target = found,
                Err(error) => {
                    self.after_write(own, false)?;
                    return Err(error);
                }
            }
        }
        // DEFAULTs and CHECKs of the rows read by what is there now
        self.s.db.planned = self.s.db.known;
        let events = [(Event::Insert, Changed::All)];
        let result = self.watched(&target.table, &events, |run| {
            let mut count = 0;
            run.begin_rows(&target)?;
            for (types, rows) in &results {
                for row in rows {
                    run.put_row(&target, types, row, false)?;
                    count += 1;
                }
            }
            run.end_rows(&target).map(|()| (Signal::Next, count))
        });
        match result {
            Ok(((_, count), watch)) => Ok((self.kept(own, watch, count, frame)?, count)),
            Err(error) => {
                self.s.db.kernels.forget_counters();
                self.after_write(own, false)?;
                Err(error)
            }
        }
    }
}
