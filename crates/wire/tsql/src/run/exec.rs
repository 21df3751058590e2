//! Runs compiled statements.

use std::time::{Duration, Instant};

use tdekit_wire_tds::messages::{PermissionError, ServerError, THROWN, Told, USER, raised, system};
use tdekit_wire_tds::{Command, DoneKind, Flow, Message, SqlType, Value};

use super::compile::{Code, Op, Step};
use super::messages;
use crate::ast::{Action, SetValue};
use crate::error::{Ends, Error, Result};
use crate::run::holder::LOOK;
use crate::run::state::{Frame, Signal};
use crate::run::work::Run;
use crate::value::{Val, convert, datetime};

/// Number of loop steps between two checks of the client's cancel flag.
const CANCEL_EVERY: u32 = 1024;

/// Returns true for SET NOEXEC OFF, the only statement that is executed under SET NOEXEC ON.
fn ends_noexec(op: &Op) -> bool {
    let Op::Act(Action::SetOption(names, SetValue::Off)) = op else { return false };
    names.iter().any(|name| name == "NOEXEC")
}

/// Returns true if a label is among statements, or in one of them.
fn holds(steps: &[Step], label: u32) -> bool {
    steps.iter().any(|step| step.labels.contains(&label))
}

/// The least severity of an error that ends the connection, and that nothing catches.
const FATAL: u8 = 20;

impl Run<'_> {
    /// Runs statements. An error is returned only if an enclosing TRY block catches it.
    pub(crate) fn steps(&mut self, steps: &[Step], frame: &mut Frame) -> Result<Signal> {
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            match self.step(step, frame)? {
                Signal::Next => at += 1,
                Signal::Goto(label) if holds(steps, label) => {
                    return self.steps_from(steps, label, frame);
                }
                other => return Ok(other),
            }
        }
        Ok(Signal::Next)
    }

    /// As [`Run::steps`], from a label among them on.
    fn steps_from(&mut self, steps: &[Step], mut label: u32, frame: &mut Frame) -> Result<Signal> {
        loop {
            // a loop may consist of GOTO alone
            if self.sink.cancelled() {
                return Ok(Signal::Stop);
            }
            let found = steps.iter().position(|step| step.labels.contains(&label));
            let mut at = found.unwrap_or(steps.len());
            let mut entered = Some(label);
            let next = loop {
                let Some(step) = steps.get(at) else { return Ok(Signal::Next) };
                let signal = match entered.take() {
                    Some(label) => match self.enter(step, label, frame) {
                        Ok(signal) => signal,
                        Err(error) => self.failed(error, step.line, frame)?,
                    },
                    None => self.step(step, frame)?,
                };
                match signal {
                    Signal::Next => at += 1,
                    Signal::Goto(next) if holds(steps, next) => break next,
                    other => return Ok(other),
                }
            };
            label = next;
        }
    }

    /// Runs a statement from a label in it on. No condition before the label is tested.
    fn enter(&mut self, step: &Step, label: u32, frame: &mut Frame) -> Result<Signal> {
        match &step.op {
            Op::Block(steps) => self.steps_from(steps, label, frame),
            Op::If(_, then, _) if holds(then, label) => self.steps_from(then, label, frame),
            Op::If(_, _, otherwise) => self.steps_from(otherwise, label, frame),
            Op::While(test, body) => self.repeat(test, body, Some(label), frame),
            // the label itself: nothing leads into a TRY block
            _ => Ok(Signal::Next),
        }
    }

    fn step(&mut self, step: &Step, frame: &mut Frame) -> Result<Signal> {
        match self.op(step, frame) {
            Ok(signal) => Ok(signal),
            Err(error) => self.failed(error, step.line, frame),
        }
    }

    /// Reports an error, or passes it to the enclosing TRY block.
    pub(crate) fn failed(&mut self, error: Error, line: u32, frame: &Frame) -> Result<Signal> {
        let message = error.message(line, &frame.procedure);
        self.s.state.error = message.number;
        self.s.state.rowcount = 0;
        self.s.state.short |= message.number == Error::OutOfMemory {}.code().0;
        let undoes = error.undoes() || self.s.state.options.xact_abort;
        let ends = error.ends() >= Ends::Batch || undoes;
        if self.s.state.guards.catch_errors() && message.class < FATAL {
            if undoes {
                self.s.state.transaction.doom();
            }
            return Err(Error::Raised(Box::new(message)));
        }
        if self.sink.message(&message) == Flow::Stop {
            return Ok(Signal::Stop);
        }
        if undoes && self.s.state.transaction.is_open() {
            self.rollback_all()?;
        }
        if self.sink.done(frame.kind, Command::OTHER, None) == Flow::Stop {
            return Ok(Signal::Stop);
        }
        Ok(if ends { Signal::Abort } else { Signal::Next })
    }

    pub(super) fn done(&mut self, frame: &Frame) -> Signal {
        self.finished(frame, Command::OTHER)
    }

    /// Ends a statement for the client. Under NOCOUNT the end of a statement in a procedure, or in
    /// a text with parameters, is not reported unless the statement had a result: a message before
    /// a result then comes with it. The end of a batch's own statement is always reported, under
    /// NOCOUNT without its count.
    pub(crate) fn end(
        &mut self,
        frame: &Frame,
        command: Command,
        rows: Option<u64>,
        result: bool,
    ) -> Signal {
        let nocount = self.s.state.options.nocount;
        let flow = if nocount && !result && frame.kind == DoneKind::InProcedure {
            if self.sink.cancelled() { Flow::Stop } else { Flow::Continue }
        } else {
            self.sink.done(frame.kind, command, rows.filter(|_| !nocount))
        };
        match flow {
            Flow::Continue => Signal::Next,
            Flow::Stop => Signal::Stop,
        }
    }

    /// Sets the time of a statement and reads the rights, for expressions that may ask for them.
    fn clock(&mut self, code: &Code) {
        if !matches!(code, Code::Ready(ready) if ready.integer.is_some() || ready.test.is_some()) {
            self.s.state.now = datetime::now();
            self.s.gate().renew_rights();
        }
    }

    /// SET FMTONLY ON: statements return the shape of their results and do nothing.
    fn shape(&mut self, step: &Step, frame: &mut Frame) -> Result<Signal> {
        match &step.op {
            Op::If(_, then, otherwise) | Op::Try(then, otherwise) => {
                match self.steps(then, frame)? {
                    Signal::Next if matches!(step.op, Op::If(..)) => self.steps(otherwise, frame),
                    signal => Ok(signal),
                }
            }
            Op::While(_, body) | Op::Block(body) => self.steps(body, frame),
            Op::Data(_) | Op::Exec { .. } | Op::Act(Action::SetOption(..)) => {
                self.dispatch(step, frame)
            }
            _ => Ok(Signal::Next),
        }
    }

    fn op(&mut self, step: &Step, frame: &mut Frame) -> Result<Signal> {
        if self.s.state.options.noexec && !ends_noexec(&step.op) {
            return Ok(Signal::Next);
        }
        if self.s.state.options.fmtonly {
            self.s.position.enter(step.line);
            self.s.gate().renew_rights();
            return self.shape(step, frame);
        }
        if !step.op.is_control() {
            self.s.state.now = datetime::now();
            self.s.position.enter(step.line);
            self.s.gate().renew_rights();
        }
        self.dispatch(step, frame)
    }

    pub(super) fn declare(
        &mut self,
        slot: usize,
        code: &Code,
        frame: &mut Frame,
    ) -> Result<Signal> {
        self.assign_one(slot, code, frame)?;
        self.s.state.error = 0;
        Ok(Signal::Next)
    }

    pub(super) fn set(&mut self, slot: usize, code: &Code, frame: &mut Frame) -> Result<Signal> {
        self.assign_one(slot, code, frame)?;
        Ok(self.done(frame))
    }

    pub(super) fn branch(
        &mut self,
        test: &Code,
        then: &[Step],
        otherwise: &[Step],
        frame: &mut Frame,
    ) -> Result<Signal> {
        self.clock(test);
        let steps = if self.test(test, frame)? { then } else { otherwise };
        self.steps(steps, frame)
    }

    pub(super) fn returned(&mut self, code: Option<&Code>, frame: &mut Frame) -> Result<Signal> {
        let Some(code) = code else { return Ok(Signal::Return(0)) };
        Ok(Signal::Return(match self.value(code, frame)? {
            Value::Int(int) => i32::try_from(int).unwrap_or(0),
            _ => 0,
        }))
    }

    fn assign_one(&mut self, slot: usize, code: &Code, frame: &mut Frame) -> Result<()> {
        self.clock(code);
        let value = self.value(code, frame)?;
        frame.vars[slot] = value;
        self.s.state.rowcount = 1;
        Ok(())
    }

    pub(super) fn print(&mut self, code: &Code, line: u32, frame: &Frame) -> Result<Signal> {
        let text = self.value(code, frame)?;
        self.s.state.rowcount = 0;
        let text = messages::shown_as(&text, 8000, self.s.state.options.dateformat);
        self.inform(Message { line, ..Told::Printed { text }.message() }, frame)
    }

    fn inform(&mut self, mut message: Message, frame: &Frame) -> Result<Signal> {
        frame.procedure.clone_into(&mut message.procedure);
        if self.sink.message(&message) == Flow::Stop {
            return Ok(Signal::Stop);
        }
        Ok(self.done(frame))
    }

    pub(super) fn repeat(
        &mut self,
        test: &super::compile::Code,
        body: &[Step],
        mut label: Option<u32>,
        frame: &mut Frame,
    ) -> Result<Signal> {
        let mut left = CANCEL_EVERY;
        loop {
            left -= 1;
            if left == 0 {
                left = CANCEL_EVERY;
                if self.sink.cancelled() {
                    return Ok(Signal::Stop);
                }
            }
            let signal = match label.take() {
                Some(label) => self.steps_from(body, label, frame)?,
                None => {
                    self.clock(test);
                    if !self.test(test, frame)? {
                        return Ok(Signal::Next);
                    }
                    self.steps(body, frame)?
                }
            };
            match signal {
                Signal::Next | Signal::Continue => {}
                Signal::Break => return Ok(Signal::Next),
                other => return Ok(other),
            }
        }
    }

    pub(super) fn guarded(
        &mut self,
        tried: &[Step],
        caught: &[Step],
        frame: &mut Frame,
    ) -> Result<Signal> {
        let nest = self.s.state.nest;
        self.s.state.guards.enter();
        let result = self.steps(tried, frame);
        self.s.state.guards.leave();
        let error = match result {
            Ok(signal) => return Ok(signal),
            Err(error) => error,
        };
        self.s.state.nest = nest;
        let message = error.message(0, &frame.procedure);
        self.s.state.guards.handle(message);
        let result = self.steps(caught, frame);
        self.s.state.guards.end_handling();
        result
    }

    /// Severities above 18, and WITH LOG, are for members of sysadmin.
    fn admit_severity(&self, class: u8, log: bool) -> Result<()> {
        let sysadmin = self.s.db.who.sysadmin;
        if class > 18 && !(log && sysadmin) {
            return Err(PermissionError::HighSeverity {}.into());
        }
        if log && !sysadmin {
            return Err(PermissionError::LogDenied {}.into());
        }
        Ok(())
    }

    /// Raises an error that ends the connection.
    fn raise_last(&mut self, message: Message) -> Result<Signal> {
        let (spid, number, class) = (self.s.caller.spid, message.number, message.class);
        let ending = Error::from(ServerError::Terminating { spid, number, class });
        if self.sink.message(&ending.message(message.line, &message.procedure)) == Flow::Stop {
            return Ok(Signal::Stop);
        }
        Err(Error::Raised(Box::new(message)))
    }

    pub(super) fn raiserror(
        &mut self,
        parts: &[Code],
        (nowait, set_error, log): (bool, bool, bool),
        line: u32,
        frame: &Frame,
    ) -> Result<Signal> {
        let values =
            parts.iter().map(|code| self.value(code, frame)).collect::<Result<Vec<_>>>()?;
        self.s.state.rowcount = 0;
        let int = |value: &Val| match value {
            Value::Int(int) => *int,
            _ => 0,
        };
        let known = match &values[0] {
            Value::Int(number) => system(*number),
            _ => None,
        };
        // -1 is the class of a message that is known: all of those are errors of a user
        let class = match int(&values[1]) {
            -1 if known.is_some() => 16,
            class => u8::try_from(class.clamp(0, 25)).unwrap_or(16),
        };
        let state = match int(&values[2]) {
            ..0 => 1,
            state => u8::try_from(state.min(255)).unwrap_or(1),
        };
        self.admit_severity(class, log)?;
        let (number, text) = match (known, &values[0]) {
            (Some((number, text)), _) => (number, messages::format(text, &values[3..])?),
            (None, Value::Int(number)) => {
                return Err(Error::NoMessage { number: *number, class, state });
            }
            (None, other) => (USER, messages::format(&messages::shown(other, 2047), &values[3..])?),
        };
        let message = raised(line, &frame.procedure, (number, class, state), text);
        if class >= FATAL {
            return self.raise_last(message);
        }
        if class > 10 {
            // RAISERROR ends no batch, regardless of XACT_ABORT
            if self.s.state.guards.catch_errors() {
                self.s.state.error = number;
                return Err(Error::Raised(Box::new(message)));
            }
            if self.sink.message(&message) == Flow::Stop {
                return Ok(Signal::Stop);
            }
            // an error is reported regardless of NOCOUNT
            if self.sink.done(frame.kind, Command::OTHER, None) == Flow::Stop {
                return Ok(Signal::Stop);
            }
            self.s.state.error = number;
        } else {
            // Severity 10 reaches clients as 0; FreeTDS treats 10 as an error.
            let class = if class == 10 { 0 } else { class };
            if self.inform(Message { class, ..message }, frame)? == Signal::Stop {
                return Ok(Signal::Stop);
            }
        }
        if set_error {
            self.s.state.error = number;
        }
        if nowait {
            self.sink.flush();
        }
        Ok(Signal::Next)
    }

    pub(super) fn throw(
        &mut self,
        parts: Option<&(super::compile::Code, super::compile::Code, super::compile::Code)>,
        line: u32,
        frame: &mut Frame,
    ) -> Result<Signal> {
        let message = match parts {
            None => self.s.state.guards.handled().cloned().ok_or(Error::ThrowOutside {})?,
            Some((number, text, state)) => {
                let (number, text, state) = (
                    self.value(number, frame)?,
                    self.value(text, frame)?,
                    self.value(state, frame)?,
                );
                let number = match number {
                    Value::Int(number) if number >= i64::from(USER) => {
                        i32::try_from(number).unwrap_or(USER)
                    }
                    _ => return Err(Error::ThrowNumber {}),
                };
                let state = match state {
                    Value::Int(state) => u8::try_from(state.clamp(0, 255)).unwrap_or(1),
                    _ => 1,
                };
                let text = messages::shown(&text, 2047);
                raised(line, &frame.procedure, (number, THROWN, state), text)
            }
        };
        self.s.state.error = message.number;
        if self.s.state.guards.catch_errors() {
            return Err(Error::Raised(Box::new(message)));
        }
        // THROW ends the batch
        if self.sink.message(&message) == Flow::Stop {
            return Ok(Signal::Stop);
        }
        if self.s.state.options.xact_abort && self.s.state.transaction.is_open() {
            self.rollback_all()?;
        }
        if self.sink.done(frame.kind, Command::OTHER, None) == Flow::Stop {
            return Ok(Signal::Stop);
        }
        Ok(Signal::Abort)
    }

    pub(super) fn wait(
        &mut self,
        delay: bool,
        code: &super::compile::Code,
        frame: &Frame,
    ) -> Result<Signal> {
        let value = self.value(code, frame)?;
        let shown = messages::shown(&value, 100);
        let bad = || Error::BadDelay { text: shown.clone() };
        let order = self.s.state.options.dateformat;
        let time = match &value {
            Value::Text(text) => {
                let from = SqlType::VarChar(tdekit_wire_tds::Length::Max);
                let value = Value::Text(text.clone());
                convert::convert(&value, from, SqlType::Time(7), 0, order).map_err(|_| bad())?
            }
            Value::DateTime { .. } => {
                convert::convert(&value, SqlType::DateTime, SqlType::Time(7), 0, order)?
            }
            _ => return Err(bad()),
        };
        let Value::Time(ticks) = time else { return Err(bad()) };
        let mut wait = Duration::from_nanos(ticks.saturating_mul(100));
        if !delay {
            let now = u64::try_from(datetime::now().ticks).unwrap_or(0);
            let ahead = (ticks + 864_000_000_000 - now) % 864_000_000_000;
            wait = Duration::from_nanos(ahead.saturating_mul(100));
        }
        self.sink.flush();
        let start = Instant::now();
        let sink = &*self.sink;
        self.s.metered.delay(Some(start));
        let waited = sink.waiting(&mut || {
            while let Some(left) = wait.checked_sub(start.elapsed()).filter(|left| !left.is_zero())
            {
                if sink.cancelled() {
                    return;
                }
                std::thread::park_timeout(left.min(LOOK));
            }
        });
        self.s.metered.delay(None);
        if !waited {
            return Err(Error::Crowded {});
        }
        if self.sink.cancelled() {
            return Ok(Signal::Stop);
        }
        Ok(self.done(frame))
    }

    /// Sends DONE for a statement that the caller has run.
    pub(crate) fn finished(&mut self, frame: &Frame, command: Command) -> Signal {
        self.s.state.error = 0;
        self.end(frame, command, None, false)
    }
}
