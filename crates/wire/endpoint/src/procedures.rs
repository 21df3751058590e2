//! Procedures that are the protocol's own: prepared statements, descriptions.

use std::sync::Arc;

use tdekit_wire_tds::messages::SessionError;
use tdekit_wire_tds::rpc::{Call, Calls, KnownProcedure, Procedure};
use tdekit_wire_tds::{Command, DoneKind, Flow, Message, Parameter, Sink, Value};

use crate::answer::Answer;
use crate::catalog::own_procedure;
use crate::connection::Connection;
use crate::prepared::Statement;

/// Position of the statement's first parameter.
const AFTER_EXECUTESQL: usize = 2;
const AFTER_EXECUTE: usize = 1;
const AFTER_PREPEXEC: usize = 3;
const AFTER_PREPEXECRPC: usize = 2;

impl Connection {
    /// Makes the calls of a message, each decoded when its turn has come.
    pub(crate) fn calls(&mut self, mut calls: Calls<'_>, answer: &mut Answer) {
        while let Some(call) = calls.next() {
            match call {
                Ok(call) => self.call(&call, answer),
                // All have been decoded before: this cannot happen.
                Err(_) => return,
            }
            if !answer.end_call(calls.has_more()) {
                return;
            }
        }
    }

    /// Makes a call, except for its end.
    fn call(&mut self, call: &Call, answer: &mut Answer) {
        answer.begin_call(0, call.no_metadata);
        if !call.executed {
            return;
        }
        let parameters = call.parameters.as_slice();
        let result = match &call.procedure {
            Procedure::Known(known) => self.known_call(*known, call, answer),
            Procedure::Named(name) => match own_procedure(name) {
                Some(own) => self.catalog_call(own, parameters, answer),
                None => {
                    self.with_session(|session| session.procedure(name, parameters, answer));
                    Ok(())
                }
            },
        };
        if let Err(message) = result {
            let _flow = answer.message(&message);
        }
    }

    fn known_call(
        &mut self,
        known: KnownProcedure,
        call: &Call,
        answer: &mut Answer,
    ) -> Result<(), Message> {
        let parameters = call.parameters.as_slice();
        match known {
            KnownProcedure::ExecuteSql => self.execute_sql(parameters, call.no_metadata, answer),
            KnownProcedure::Prepare => self.prepare(parameters, answer),
            KnownProcedure::Execute => self.execute(parameters, call.no_metadata, answer),
            KnownProcedure::PrepExec => {
                let statement = statement_at(parameters, 1, "sp_prepexec")?;
                self.prepare_and_execute(statement, AFTER_PREPEXEC, parameters, answer)
            }
            KnownProcedure::PrepExecRpc => {
                let name = text_at(parameters, 1, "sp_prepexecrpc", "@rpccall")?;
                let (text, declarations) = (Arc::from(name), Arc::from(""));
                let call = Statement { text, declarations, is_call: true };
                self.prepare_and_execute(call, AFTER_PREPEXECRPC, parameters, answer)
            }
            KnownProcedure::Unprepare => self.unprepare(parameters),
            _ => self.cursor_call(known, parameters, answer),
        }
    }

    fn execute_sql(
        &mut self,
        parameters: &[Parameter],
        no_metadata: bool,
        answer: &mut Answer,
    ) -> Result<(), Message> {
        let name = "sp_executesql";
        let text = text_at(parameters, 0, name, "@statement")?;
        let declarations = optional_text_at(parameters, 1, name, "@params")?;
        let rest = parameters.get(AFTER_EXECUTESQL..).unwrap_or_default();
        answer.begin_call(ordinal(AFTER_EXECUTESQL), no_metadata);
        self.with_session(|session| session.execute(text, declarations, rest, answer));
        Ok(())
    }

    fn prepare(&mut self, parameters: &[Parameter], answer: &mut Answer) -> Result<(), Message> {
        let name = "sp_prepare";
        let statement = statement_at(parameters, 1, name)?;
        let described =
            self.with_session(|session| session.describe(&statement.text, &statement.declarations));
        if let Some(described) = described {
            let columns = described?.columns;
            if !columns.is_empty() {
                let _flow = answer.columns(&columns);
                let _flow = answer.done(DoneKind::InProcedure, Command::SELECT, Some(0));
            }
        }
        self.give_handle(statement, parameters, answer).map(drop)
    }

    fn give_handle(
        &mut self,
        statement: Statement,
        parameters: &[Parameter],
        answer: &mut Answer,
    ) -> Result<i32, Message> {
        let handle = self.prepared.add(statement).ok_or_else(too_many)?;
        answer.give_back(0, name_at(parameters, 0), handle);
        Ok(handle)
    }

    fn execute(
        &mut self,
        parameters: &[Parameter],
        no_metadata: bool,
        answer: &mut Answer,
    ) -> Result<(), Message> {
        let handle = int_at(parameters, 0, "sp_execute", "@handle")?;
        let statement = self.prepared.find(handle).ok_or_else(|| no_handle(handle))?;
        let rest = parameters.get(AFTER_EXECUTE..).unwrap_or_default();
        answer.begin_call(ordinal(AFTER_EXECUTE), no_metadata);
        self.run(&statement, rest, answer);
        Ok(())
    }

    pub(crate) fn run(
        &mut self,
        statement: &Statement,
        parameters: &[Parameter],
        sink: &mut dyn Sink,
    ) {
        let Statement { text, declarations, is_call } = statement;
        self.with_session(|session| match is_call {
            true => session.procedure(text, parameters, sink),
            false => session.execute(text, declarations, parameters, sink),
        });
    }

    /// Prepares and runs a statement, whose own parameters begin at `after`.
    fn prepare_and_execute(
        &mut self,
        statement: Statement,
        after: usize,
        parameters: &[Parameter],
        answer: &mut Answer,
    ) -> Result<(), Message> {
        if let Some(Parameter { value: Value::Int(old), .. }) = parameters.first()
            && let Ok(old) = i32::try_from(*old)
        {
            self.prepared.remove(old);
        }
        let rest = parameters.get(after..).unwrap_or_default();
        answer.begin_call(ordinal(after), false);
        let handle = self.give_handle(statement.clone(), parameters, answer)?;
        self.run(&statement, rest, answer);
        if answer.cancelled() {
            // The client does not learn of it.
            self.prepared.remove(handle);
        }
        Ok(())
    }

    fn unprepare(&mut self, parameters: &[Parameter]) -> Result<(), Message> {
        let handle = int_at(parameters, 0, "sp_unprepare", "@handle")?;
        match self.prepared.remove(handle) {
            true => Ok(()),
            false => Err(no_handle(handle)),
        }
    }
}

/// Returns the declarations at `at` and the text after them: common to all procedures that prepare.
pub(crate) fn statement_at(
    parameters: &[Parameter],
    at: usize,
    procedure: &'static str,
) -> Result<Statement, Message> {
    let declarations = optional_text_at(parameters, at, procedure, "@params")?;
    let text = text_at(parameters, at + 1, procedure, "@stmt")?;
    Ok(Statement { text: Arc::from(text), declarations: Arc::from(declarations), is_call: false })
}

pub(crate) fn ordinal(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}

pub(crate) fn name_at(parameters: &[Parameter], at: usize) -> &str {
    parameters.get(at).map_or("", |parameter| parameter.name.as_str())
}

pub(crate) fn text_at<'a>(
    parameters: &'a [Parameter],
    at: usize,
    procedure: &str,
    name: &str,
) -> Result<&'a str, Message> {
    match parameters.get(at).map(|parameter| &parameter.value) {
        Some(Value::Text(text)) => Ok(text),
        Some(_) => Err(wrong_type(procedure, name, "ntext/nchar/nvarchar")),
        None => Err(missing(procedure, name)),
    }
}

/// As [`text_at`]; NULL and an absent parameter mean no text.
pub(crate) fn optional_text_at<'a>(
    parameters: &'a [Parameter],
    at: usize,
    procedure: &str,
    name: &str,
) -> Result<&'a str, Message> {
    match parameters.get(at).map(|parameter| &parameter.value) {
        None | Some(Value::Null) => Ok(""),
        Some(_) => text_at(parameters, at, procedure, name),
    }
}

pub(crate) fn int_at(
    parameters: &[Parameter],
    at: usize,
    procedure: &str,
    name: &str,
) -> Result<i32, Message> {
    match parameters.get(at).map(|parameter| &parameter.value) {
        Some(Value::Int(int)) => {
            i32::try_from(*int).map_err(|_| wrong_type(procedure, name, "int"))
        }
        Some(_) => Err(wrong_type(procedure, name, "int")),
        None => Err(missing(procedure, name)),
    }
}

fn wrong_type(procedure: &str, name: &str, ty: &'static str) -> Message {
    let error = SessionError::ParameterType { name: name.to_owned(), ty };
    Message { procedure: procedure.to_owned(), ..error.message() }
}

fn missing(procedure: &str, name: &str) -> Message {
    let (procedure, name) = (procedure.to_owned(), name.to_owned());
    let error = SessionError::MissingParameter { procedure: procedure.clone(), name };
    Message { procedure, ..error.message() }
}

fn no_handle(handle: i32) -> Message {
    SessionError::NoHandle { handle }.message()
}

pub(crate) fn too_many() -> Message {
    SessionError::TooManyPrepared {}.message()
}

pub(crate) fn not_supported(known: KnownProcedure) -> Message {
    SessionError::NoProcedure { name: known.name() }.message()
}

/// Returns true if a sink wants no more.
pub(crate) fn stops(flow: Flow) -> bool {
    flow == Flow::Stop
}
