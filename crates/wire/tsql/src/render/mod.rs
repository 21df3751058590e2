//! SQLite's text of typed plans: the only place that writes a statement's text.

pub(crate) mod aggregates;
mod change;
pub(crate) mod failure;
pub(crate) mod kernels;
mod merge;
pub(crate) mod nested;
mod relation;
mod rows;
mod scalar;
pub(crate) mod sql;
pub(crate) mod sqlite;

use std::collections::HashMap;

use tdekit_wire_tds::{Column, SqlType, Value};

use crate::error::{Error, Result};
use crate::plan::Needs;
use crate::plan::change::Statement;
use crate::plan::scalar::Scalar;
use crate::value::storage;
pub(crate) use change::{Place, insert_of_row, update_of_row, update_versions};
use kernels::{Guard, Kernels};
pub(crate) use merge::Texts;
use sql::Sql;

/// A statement for SQLite, ready to run.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) sql: Sql,
    /// Values of its parameters, starting with `?1`; SQLite computes no part of them.
    pub(crate) params: Vec<Scalar>,
    pub(crate) columns: Vec<Column>,
    /// Keeps the kernels that the text calls.
    #[allow(dead_code)]
    guards: Vec<Guard>,
    pub(crate) needs: Needs,
}

/// Renders a statement, whose rows have these columns.
///
/// # Errors
/// If an expression reads too many values.
pub(crate) fn statement(
    statement: &Statement,
    columns: Vec<Column>,
    needs: Needs,
    kernels: &Kernels,
) -> Result<Rendered> {
    let mut renderer = Renderer::new(kernels, false);
    let mut sql = Sql::default();
    renderer.statement(statement, &mut sql)?;
    let Renderer { params, guards, .. } = renderer;
    Ok(Rendered { sql, params, columns, guards, needs })
}

/// Returns a condition as text that can stay in a schema: its constants are written out.
///
/// # Errors
/// For an expression that SQLite cannot compute on its own.
pub(crate) fn inline(condition: &Scalar, kernels: &Kernels) -> Result<String> {
    let mut renderer = Renderer::new(kernels, true);
    let mut sql = Sql::default();
    renderer.scalar(condition, &mut sql)?;
    if renderer.params.is_empty() { Ok(sql.into_text()) } else { Err(Error::feature("this CHECK")) }
}

/// Writes one statement, and collects its parameters and kernels.
struct Renderer<'k> {
    kernels: &'k Kernels,
    /// True if constants are written out and kernels are impossible: for text in a schema.
    inline: bool,
    params: Vec<Scalar>,
    /// Positions of variables among them.
    variables: HashMap<usize, usize>,
    guards: Vec<Guard>,
    /// Texts of parts that have copies.
    known: HashMap<usize, Sql>,
}

impl<'k> Renderer<'k> {
    fn new(kernels: &'k Kernels, inline: bool) -> Renderer<'k> {
        Renderer {
            kernels,
            inline,
            params: Vec::new(),
            variables: HashMap::new(),
            guards: Vec::new(),
            known: HashMap::new(),
        }
    }
}

/// Returns a constant as text, for definitions that stay in a schema.
pub(crate) fn literal(value: &Value<'_>, ty: SqlType) -> Result<String> {
    use rusqlite::types::Value as Stored;
    Ok(match storage::store(value, ty)? {
        Stored::Null => "NULL".to_owned(),
        Stored::Integer(int) => int.to_string(),
        Stored::Real(real) => format!("{real:e}"),
        Stored::Text(text) => {
            if text.contains('\0') {
                return Err(Error::feature("a zero character in a constraint"));
            }
            format!("'{}'", text.replace('\'', "''"))
        }
        Stored::Blob(bytes) => {
            let digits = hex::encode(bytes);
            format!("x'{digits}'")
        }
    })
}
