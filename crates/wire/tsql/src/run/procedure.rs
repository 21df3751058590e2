//! EXEC: stored procedures, `sp_executesql`, and text.

use super::called::{Called, Compiled, Given, compile_with, located};
use std::sync::Arc;

use tdekit_wire_tds::{DoneKind, EnvChange, Flow, SqlType, Value};

use super::compile::{Code, compile};
use super::messages;
use super::tallies::Origin;
use super::typed::{GivenTable, Tables};
use super::types::takes_table;
use crate::ast::{Exec, ExecTarget, Expr, Kind, Name};
use crate::bind::Variables;
use crate::error::{Error, Result};
use crate::plan::access::Right;
use crate::run::state::{Frame, Signal};
use crate::run::work::Run;
use crate::value::convert;

/// Maximum nesting of procedure calls.
const MAX_NEST: u32 = 32;

impl Run<'_> {
    pub(crate) fn exec(
        &mut self,
        exec: &Exec,
        args: &[Option<Code>],
        text: Option<&Code>,
        status: Option<usize>,
        frame: &mut Frame,
    ) -> Result<Signal> {
        if let (ExecTarget::Text(_), Some(code)) = (&exec.target, text) {
            let text = messages::shown(&self.value(code, frame)?, usize::MAX / 4);
            return self.dynamic(&text, frame);
        }
        let name = match (&exec.target, text) {
            (ExecTarget::Variable(_), Some(code)) => {
                let text = messages::shown(&self.value(code, frame)?, 1000);
                crate::functions::wanted::parts(&text)
            }
            (ExecTarget::Procedure(name), _) => name.clone(),
            _ => return Err(Error::NoProcedure { name: String::new() }),
        };
        let mut given = Vec::new();
        for (arg, code) in exec.args.iter().zip(args) {
            let value = match code {
                Some(code) => Some(self.value(code, frame)?),
                None => None,
            };
            let ty = self.argument_type(arg.value.as_ref(), code.as_ref(), frame);
            let table = self.table_argument(arg.value.as_ref(), frame);
            given.push(Given { name: arg.name.clone(), ty, value, output: arg.output, table });
        }
        let before = frame.kind;
        let called = self.call(&name, &given, before)?;
        for (index, _, _, value) in &called.outputs {
            if let Some(Expr::Var(target)) =
                exec.args.get(*index).and_then(|arg| arg.value.as_ref())
            {
                let variable = frame.variables.find(target)?;
                let from = called
                    .outputs
                    .iter()
                    .find(|(at, ..)| at == index)
                    .map_or(variable.ty, |(_, _, ty, _)| *ty);
                let order = self.s.state.options.dateformat;
                frame.vars[variable.slot] = convert::convert(value, from, variable.ty, 0, order)?;
            }
        }
        if matches!(called.signal, Signal::Abort | Signal::Stop) {
            return Ok(called.signal);
        }
        if let Some(slot) = status {
            frame.vars[slot] = Value::Int(i64::from(called.status));
        }
        if before == DoneKind::Statement {
            self.sink.return_status(called.status);
            let command = tdekit_wire_tds::Command::EXECUTE;
            if self.sink.done(DoneKind::Procedure, command, None) == Flow::Stop {
                return Ok(Signal::Stop);
            }
        }
        Ok(Signal::Next)
    }

    /// Returns the table variable that an argument is.
    fn table_argument(&self, expr: Option<&Expr>, frame: &Frame) -> Option<GivenTable> {
        let Some(Expr::Var(name)) = expr else { return None };
        let key = name.to_lowercase();
        let real = frame.variables.tables.get(&key)?;
        let of = frame.variables.typed.get(&key).map(|typed| typed.of.clone());
        Some(GivenTable::Variable { stored: self.s.db.temporary(real), of })
    }

    fn argument_type(&self, expr: Option<&Expr>, code: Option<&Code>, frame: &Frame) -> SqlType {
        if let Some(Expr::Var(name)) = expr
            && let Ok(variable) = frame.variables.find(name)
        {
            return variable.ty;
        }
        match code {
            Some(Code::Ready(ready)) => ready.bound.ty,
            _ => SqlType::NVarChar(tdekit_wire_tds::Length::Max),
        }
    }

    /// EXEC ('..'): a separate batch, in the same session.
    fn dynamic(&mut self, text: &str, frame: &Frame) -> Result<Signal> {
        let quoted = self.s.state.options.quoted_identifier;
        self.s.metered.disturb();
        let database = self.s.state.database.clone();
        let parsed = self.s.db.parse(text, quoted, &database);
        let compiled = parsed
            .and_then(|stmts| compile_with(Vec::new(), stmts, Origin::of(text, "", false)))
            .map_err(|at| located(at, ""))?;
        let called = self.body(&Arc::new(compiled), &[], "", frame.kind, None)?;
        Ok(match called.signal {
            Signal::Abort => Signal::Abort,
            Signal::Stop => Signal::Stop,
            _ => Signal::Next,
        })
    }

    /// Calls a procedure by its name.
    pub(crate) fn call(&mut self, name: &Name, given: &[Given], _: DoneKind) -> Result<Called> {
        self.s.metered.disturb();
        let short = name.object().to_lowercase();
        let system = name.part(1).is_none_or(|schema| {
            schema.eq_ignore_ascii_case("sys") || schema.eq_ignore_ascii_case("dbo")
        });
        if system && short == "sp_executesql" {
            return self.within(name.part(2), |run| run.executesql(given));
        }
        let current = self.s.state.database.clone();
        // one of a database never stands in for one of the system: who calls that may have more
        // rights than who made the other
        let known = system
            && (super::system_procedures::PROCEDURES.contains(&short.as_str())
                || crate::run::catalog::texts::procedure(&short).is_some());
        let found = match known {
            true => {
                name.part(2).map(|database| self.s.db.schema(database)).transpose()?;
                None
            }
            false => self.s.db.module(name, &current, "P")?,
        };
        // a temporary procedure is the session's own, and does what its caller may do
        let own = name.object().starts_with('#');
        let users = found.is_some() && !own;
        if users {
            let (_, database, stored) = self.s.db.place(name, &current)?;
            self.s.gate().admit_procedure(&database, &stored)?;
        } else if system && super::system_procedures::PROCEDURES.contains(&short.as_str()) {
            self.s.gate().admit_system_procedure(&short)?;
        }
        let found = found.or_else(|| {
            let text = system.then(|| crate::run::catalog::texts::procedure(&short)).flatten();
            text.map(str::to_owned)
        });
        let Some(text) = found else {
            if system {
                // it does what its caller may do, not what its caller's procedure reaches
                let chain = self.s.state.chain.take();
                let called = self.within(name.part(2), |run| {
                    super::system_procedures::system_procedure(run, &short, given)
                });
                self.s.state.chain = chain;
                if let Some(called) = called? {
                    return Ok(called);
                }
            }
            return Err(Error::NoProcedure { name: name.text() });
        };
        // a procedure's names are resolved in its own database
        let own = name.part(2).map_or_else(|| current.clone(), |part| self.database_named(part));
        let compiled = self.s.texts.procedure(name, &text, (&mut self.s.db, &own))?;
        let chain = users.then(|| own.clone());
        self.s.state.database = own;
        let called = self.body(&compiled, given, name.object(), DoneKind::InProcedure, chain);
        self.s.state.database = current;
        called
    }

    /// Runs a procedure of the system in the database that its name has, if it has one.
    fn within<T>(
        &mut self,
        named: Option<&str>,
        call: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let Some(named) = named else { return call(self) };
        self.s.db.schema(named)?;
        let database = self.database_named(named);
        let current = std::mem::replace(&mut self.s.state.database, database);
        let called = call(self);
        self.s.state.database = current;
        called
    }

    /// Returns the database's name as originally written.
    fn database_named(&self, name: &str) -> String {
        let known = self.s.db.host.databases().unwrap_or_default();
        let found = known.into_iter().find(|known| known.name.eq_ignore_ascii_case(name));
        found.map_or_else(|| name.to_owned(), |known| known.name)
    }

    /// `sp_executesql @stmt, @params, ...`.
    fn executesql(&mut self, given: &[Given]) -> Result<Called> {
        let is_national = |ty: &SqlType| matches!(ty, SqlType::NVarChar(_) | SqlType::NChar(_));
        let text_of = |arg: &Given| match arg {
            Given { ty, value: Some(Value::Null), .. } if is_national(ty) => Some(String::new()),
            Given { ty, value: Some(Value::Text(text)), .. } if is_national(ty) => {
                Some(text.to_string())
            }
            _ => None,
        };
        let unfit = |parameter: &'static str| move || Error::NotAStatement { parameter };
        let text = given.first().and_then(text_of).ok_or_else(unfit("@statement"))?;
        let declarations = match given.get(1) {
            Some(arg) => text_of(arg).ok_or_else(unfit("@params"))?,
            None => String::new(),
        };
        let rest = given.get(2..).unwrap_or_default();
        // it is a procedure itself, and its text runs one level deeper
        self.s.state.nest += 1;
        let called = self.execute(&text, &declarations, rest);
        self.s.state.nest = self.s.state.nest.saturating_sub(1);
        let mut called = called?;
        for (index, ..) in &mut called.outputs {
            *index += 2;
        }
        Ok(called)
    }

    /// Runs a text with declared parameters.
    pub(crate) fn execute(
        &mut self,
        text: &str,
        declarations: &str,
        given: &[Given],
    ) -> Result<Called> {
        let compiled = self.s.prepared(text, declarations).map_err(|at| located(at, ""))?;
        self.body(&compiled, given, "", DoneKind::InProcedure, None)
    }

    /// Runs a compiled body with its arguments. That of a user's procedure or of a trigger reaches
    /// what is in its database, the `chain`; a text does what its caller may do.
    pub(super) fn body(
        &mut self,
        compiled: &Arc<Compiled>,
        given: &[Given],
        procedure: &str,
        kind: DoneKind,
        chain: Option<String>,
    ) -> Result<Called> {
        if self.s.state.nest >= MAX_NEST {
            return Err(Error::NestLevel {});
        }
        let mut frame = Frame {
            vars: vec![Value::Null; compiled.program.variables.types.len()],
            variables: compiled.program.variables.clone(),
            kind,
            procedure: procedure.to_owned(),
            origin: Some(compiled.origin.clone()),
        };
        let (places, tables) = self.arguments(compiled, given, procedure, &mut frame)?;
        let options = self.s.state.options.clone();
        let database = self.s.state.database.clone();
        self.s.state.nest += 1;
        // a procedure or a text has its own scope
        let identity = self.s.state.identities.begin_scope();
        let level = self.s.state.nest;
        let chain = std::mem::replace(&mut self.s.state.chain, chain);
        let sees = self.s.db.fired.begin_body();
        let result = match self.put_tables(&compiled.params, given, &tables) {
            Ok(Signal::Next) => self.steps(&compiled.program.steps, &mut frame),
            ended => ended,
        };
        self.s.db.fired.end_body(sees);
        self.s.state.chain = chain;
        self.s.state.nest = level.saturating_sub(1);
        self.s.state.identities.end_scope(identity);
        // SET and USE inside of a procedure or of a text end with it
        if options.identity_insert != self.s.state.options.identity_insert {
            self.s.db.changed();
        }
        let language = self.s.state.options.dateformat.language;
        self.s.state.options = options;
        self.show_language(language);
        if self.s.state.database != database {
            let new = std::mem::replace(&mut self.s.state.database, database);
            let (new, old) = (self.s.state.database.clone(), new);
            self.sink.env_change(EnvChange::Database { new: &new, old: &old });
        }
        self.end_temporaries(level)?;
        let signal = result?;
        let status = match signal {
            Signal::Return(status) => status,
            _ => 0,
        };
        let mut outputs = Vec::new();
        for (index, arg) in given.iter().enumerate() {
            let (true, Some(slot)) = (arg.output, places.get(index).copied()) else { continue };
            let param = &compiled.params[slot];
            outputs.push((index, param.name.clone(), param.ty, frame.vars[slot].clone()));
        }
        Ok(Called { signal, status, outputs })
    }

    /// Drops the temporary tables of a batch, or of the text at this level of procedures, after its
    /// end.
    pub(crate) fn end_temporaries(&mut self, level: u32) -> Result<()> {
        self.s.state.cursors.end(level);
        let gone = self.s.db.take_ended(level);
        if self.s.state.transaction.is_doomed() {
            return Ok(());
        }
        for known in gone.into_iter().filter(|known| !known.lent) {
            if let Some(table) = self.s.db.stored("temp", "tempdb", &known.stored)? {
                self.drop_table(&table)?;
            }
        }
        Ok(())
    }

    /// Puts arguments into their slots; returns the slot of each.
    fn arguments(
        &mut self,
        compiled: &Compiled,
        given: &[Given],
        procedure: &str,
        frame: &mut Frame,
    ) -> Result<(Vec<usize>, Tables)> {
        let mut tables = Tables::new();
        let shown = if procedure.is_empty() { "" } else { procedure };
        let mut filled = vec![false; compiled.params.len()];
        let mut places = Vec::new();
        for (index, arg) in given.iter().enumerate() {
            let slot = match &arg.name {
                Some(name) => compiled
                    .params
                    .iter()
                    .position(|param| param.name.eq_ignore_ascii_case(name))
                    .ok_or_else(|| Error::NotAParameter {
                        procedure: shown.to_owned(),
                        name: name.clone(),
                    })?,
                None if index < compiled.params.len() => index,
                None => return Err(Error::TooManyArguments { procedure: shown.to_owned() }),
            };
            let param = &compiled.params[slot];
            if arg.output && !param.output {
                return Err(Error::NotOutput { name: param.name.clone() });
            }
            places.push(slot);
            if takes_table(param, arg)? {
                if let Some(of) = param.table().filter(|_| arg.table.is_some()) {
                    self.s.gate().admit_type(of, Right::Execute)?;
                }
                tables.push((slot, Some(index)));
                filled[slot] = true;
                continue;
            }
            if let Some(value) = &arg.value {
                let order = self.s.state.options.dateformat;
                frame.vars[slot] = convert::convert(value, arg.ty, param.ty, 0, order)?;
                filled[slot] = true;
            }
        }
        for (slot, param) in compiled.params.iter().enumerate() {
            if filled[slot] {
                continue;
            }
            if param.table().is_some() {
                tables.push((slot, None));
                continue;
            }
            match &param.default {
                Some(expr) => {
                    let lone = compile(
                        vec![crate::ast::Stmt {
                            line: 1,
                            span: (0, 0),
                            kind: Kind::Declare(vec![(
                                "@~default".to_owned(),
                                param.ty,
                                Some(expr.clone()),
                            )]),
                        }],
                        Variables::default(),
                    )
                    .map_err(|at| at.error)?;
                    if let Some(super::compile::Step {
                        op: super::compile::Op::Declare(_, code),
                        ..
                    }) = lone.steps.first()
                    {
                        frame.vars[slot] = self.value(code, frame)?;
                    }
                }
                None => {
                    return Err(Error::MissingParameter {
                        procedure: shown.to_owned(),
                        name: param.name.clone(),
                    });
                }
            }
        }
        Ok((places, tables))
    }
}
