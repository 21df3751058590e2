//! A call: its arguments, its procedure, and its results.

use std::sync::Arc;

use tdekit_wire_tds::{Parameter, SqlType};

use super::compile::{Program, compile};
use super::state::Signal;
use super::tallies::Origin;
use crate::ast::ProcParam;
use crate::bind::Variables;
use crate::error::{Error, Result};
use crate::value::dateparse::Order;
use crate::value::{Val, convert};

/// An argument: name, type, value, true if OUTPUT is requested. None is DEFAULT.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) name: Option<String>,
    pub(crate) ty: SqlType,
    pub(crate) value: Option<Val>,
    pub(crate) output: bool,
}

impl From<&Parameter> for Given {
    fn from(parameter: &Parameter) -> Given {
        Given {
            name: (!parameter.name.is_empty()).then(|| parameter.name.clone()),
            ty: parameter.ty,
            value: (!parameter.default).then(|| parameter.value.clone()),
            output: parameter.output,
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
    pub(crate) fn given_as(mut self, parameters: &[Parameter], order: Order) -> Result<Called> {
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
}

/// Compiles a body with its parameters as the first variables.
pub(crate) fn compile_with(
    params: Vec<ProcParam>,
    stmts: Vec<crate::ast::Stmt>,
    origin: Origin,
) -> std::result::Result<Compiled, crate::error::At> {
    let mut variables = Variables::default();
    for param in &params {
        variables
            .declare(&param.name, param.ty)
            .map_err(|error| crate::error::At { error, line: 1 })?;
    }
    Ok(Compiled { params, program: compile(stmts, variables)?, origin: Arc::new(origin) })
}

/// Returns a syntax error of an inner text, with its own line.
pub(crate) fn located(at: crate::error::At, procedure: &str) -> Error {
    Error::Raised(Box::new(at.error.message(at.line, procedure)))
}
