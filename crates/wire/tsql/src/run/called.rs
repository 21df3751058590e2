//! A call: its arguments, its procedure, and its results.

use std::sync::Arc;

use tdekit_wire_tds::messages::DefinedError;
use tdekit_wire_tds::{Parameter, SqlType};

use super::compile::{Program, compile};
use super::state::Signal;
use super::tallies::Origin;
use super::typed::{GivenTable, Typed, declare_parameters};
use crate::ast::{Action, Kind, ProcParam, Stmt};
use crate::error::{At, Error, Result};
use crate::value::dateparse::DateText;
use crate::value::{Val, convert};

/// The number of the error for a change of a READONLY parameter.
const READ_ONLY: i32 = 10700;

/// An argument: name, type, value, true if OUTPUT is requested. None is DEFAULT.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) name: Option<String>,
    pub(crate) ty: SqlType,
    pub(crate) value: Option<Val>,
    pub(crate) output: bool,
    /// A table, in place of a value.
    pub(crate) table: Option<GivenTable>,
}

impl From<&Parameter> for Given {
    fn from(parameter: &Parameter) -> Given {
        Given {
            name: (!parameter.name.is_empty()).then(|| parameter.name.clone()),
            ty: parameter.ty,
            value: (!parameter.default && parameter.table.is_none())
                .then(|| parameter.value.clone()),
            output: parameter.output,
            table: parameter.table.clone().map(GivenTable::Sent),
        }
    }
}

/// The result of a call.
pub(crate) struct Called {
    pub(crate) signal: Signal,
    pub(crate) status: i32,
    /// Index in `Given`, name, type and value of every OUTPUT argument.
    pub(crate) outputs: Vec<(usize, String, SqlType, Val)>,
}

impl Called {
    /// Returns the outputs in the types of the client's parameters.
    ///
    /// # Errors
    /// If a value does not convert.
    pub(crate) fn given_as(mut self, parameters: &[Parameter], order: DateText) -> Result<Called> {
        for (index, _, ty, value) in &mut self.outputs {
            if let Some(wanted) = parameters.get(*index).map(|given| given.ty)
                && wanted != *ty
            {
                *value = convert::convert(value, *ty, wanted, 0, order)?;
                *ty = wanted;
            }
        }
        Ok(self)
    }
}

/// A procedure's parameters and body, compiled.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) params: Vec<ProcParam>,
    pub(crate) program: Program,
    pub(crate) origin: Arc<Origin>,
    pub(crate) typed: Typed,
}

/// Compiles a body with its parameters as the first variables.
pub(crate) fn compile_with(
    params: Vec<ProcParam>,
    (stmts, typed): (Vec<Stmt>, Typed),
    origin: Origin,
) -> std::result::Result<Compiled, At> {
    let variables = declare_parameters(&params).map_err(|error| At { error, line: 1 })?;
    Ok(Compiled { params, program: compile(stmts, variables)?, origin: Arc::new(origin), typed })
}

/// Checks at its definition that a procedure names each parameter once, does not change its
/// table-valued parameters, and stays in its database.
pub(crate) fn check_body(params: &[ProcParam], body: &[Stmt]) -> Result<()> {
    let variables = declare_parameters(params)?;
    refuse_use(body, "")?;
    if params.iter().all(|param| param.table().is_none()) {
        return Ok(());
    }
    match compile(body.to_vec(), variables) {
        Err(at) if at.error.code().0 == READ_ONLY => Err(located(at, "")),
        _ => Ok(()),
    }
}

/// Refuses USE in the body of a module.
///
/// # Errors
/// 154, with its line.
pub(crate) fn refuse_use(body: &[Stmt], module: &str) -> Result<()> {
    for stmt in body {
        if matches!(stmt.kind, Kind::Act(Action::Use(_))) {
            let error = DefinedError::UsesDatabase {}.into();
            return Err(located(At { error, line: stmt.line }, module));
        }
        let mut result = Ok(());
        stmt.children(&mut |inner| {
            if result.is_ok() {
                result = refuse_use(std::slice::from_ref(inner), module);
            }
        });
        result?;
    }
    Ok(())
}

/// Returns a syntax error of an inner text, with its own line.
pub(crate) fn located(at: At, procedure: &str) -> Error {
    Error::Raised(Box::new(at.error.message(at.line, procedure)))
}
