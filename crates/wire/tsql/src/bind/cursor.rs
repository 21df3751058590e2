//! Cursors of a function. They are local: no other place knows them.

use std::collections::HashMap;

use tdekit_wire_tds::SqlType;
use tdekit_wire_tds::messages::{CursorError, DefinedError};

use super::Binder;
use super::query::{Asked, OutColumn};
use super::routine::Body;
use crate::ast::cursor::{Cursor, CursorName, DeclareCursor, Fetch};
use crate::ast::{Expr, SetExpr};
use crate::error::{Error, Result};
use crate::functions::typing::convert;
use crate::plan::change::Statement;
use crate::plan::cursor::{CursorOp, CursorStep};
use crate::plan::routine::{Reader, Source};
use crate::plan::scalar::{Node, Scalar};
use crate::value::{implicit, type_name};

/// The cursors that a function declares, by their names in lower case: numbers, and columns.
pub(super) type Cursors = HashMap<String, (usize, Vec<Scalar>)>;

impl Binder<'_> {
    pub(super) fn cursor_step(&mut self, cursor: &Cursor, body: &mut Body) -> Result<CursorStep> {
        let (name, op) = match cursor {
            Cursor::Declare(declared) => (&declared.name, self.declared_step(declared, body)?),
            Cursor::Variable(_) => return Err(variable()),
            Cursor::Open(name) => (name, CursorOp::Open),
            Cursor::Close(name) => (name, CursorOp::Close),
            Cursor::Deallocate(name) => (name, CursorOp::Deallocate),
            Cursor::Fetch(fetch) => (&fetch.from, self.fetch_step(fetch, body)?),
        };
        let (at, _) = find(&body.cursors, name)?;
        Ok(CursorStep { at: *at, name: name.name.clone(), op })
    }

    fn declared_step(&mut self, declared: &DeclareCursor, body: &mut Body) -> Result<CursorOp> {
        let DeclareCursor { name, scroll, query, .. } = declared;
        if name.is_variable() {
            return Err(variable());
        }
        if matches!(&query.body, SetExpr::Select(select) if select.into.is_some()) {
            return Err(DefinedError::SideEffect { name: "SELECT INTO".to_owned() }.into());
        }
        if query.is_document() {
            return Err(Error::feature("a cursor of a document in a function"));
        }
        let bound = self.query(query, Asked::of_statement(false))?;
        let column = |(at, column): (usize, &OutColumn)| {
            let value = Scalar::new(column.ty, true, Node::Arg(at));
            Scalar { label: column.label, ..value }
        };
        let columns: Vec<Scalar> = bound.columns.iter().enumerate().map(column).collect();
        let types: Vec<SqlType> = columns.iter().map(|column| column.ty).collect();
        let count = body.cursors.len();
        let key = name.name.to_lowercase();
        let (_, known) = body.cursors.entry(key).or_insert_with(|| (count, columns.clone()));
        if *known != columns {
            return Err(Error::feature("two cursors of one name in a function"));
        }
        let own = self.expansion.parameters_mut().filter(|own| own.fetch_status().is_none());
        if let Some(own) = own {
            own.set_fetch_status(body.hidden(SqlType::Int));
        }
        let reader = Box::new(Reader::new(Statement::Query(bound.query), types));
        Ok(CursorOp::Declare { scroll: *scroll, reader })
    }

    fn fetch_step(&mut self, fetch: &Fetch, body: &Body) -> Result<CursorOp> {
        let Fetch { place, from, into } = fetch;
        let (_, columns) = find(&body.cursors, from)?;
        let Some(into) = into else { return Err(DefinedError::ReturnsRows {}.into()) };
        if into.len() != columns.len() {
            return Err(CursorError::IntoCount {}.into());
        }
        let mut assigned = Vec::new();
        for (name, column) in into.iter().zip(columns) {
            let variable = self.assigned_variable(name)?;
            if !implicit(column.ty, variable.ty) {
                let name = |ty| type_name(ty).to_owned();
                let (from, to) = (name(column.ty), name(variable.ty));
                return Err(CursorError::NoConversion { from, to }.into());
            }
            assigned.push((variable.slot, convert(column.clone(), variable.ty)?));
        }
        let number = |expr: &Expr| -> Result<Source> {
            let number = self.scalar(expr)?;
            Ok(Source::Plain(convert(number, SqlType::BigInt)?))
        };
        Ok(CursorOp::Fetch { place: place.map(number)?, into: assigned })
    }
}

fn variable() -> Error {
    Error::feature("a variable for a cursor in a function")
}

fn find<'c>(cursors: &'c Cursors, name: &CursorName) -> Result<&'c (usize, Vec<Scalar>)> {
    if name.is_variable() {
        return Err(variable());
    }
    let found = cursors.get(&name.name.to_lowercase()).filter(|_| !name.global);
    found.ok_or_else(|| CursorError::Missing { name: name.name.clone() }.into())
}
