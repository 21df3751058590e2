//! Functions of a database: their definitions, and calls of them in FROM.

use std::cell::RefCell;

use tdekit_wire_tds::messages::DefinedError;

use super::Parser;
use crate::ast::defined::{CreateFunction, FunctionCall};
use crate::ast::{Action, Child, Expr, Kind, Name, Query, TableRef};
use crate::error::{Error, Result};
use crate::lex::Tok;

/// Functions of SQL Server itself that are not covered.
const NOT_COVERED: &[&str] = &[
    "CHANGETABLE",
    "CONTAINSTABLE",
    "FREETEXTTABLE",
    "GENERATE_SERIES",
    "OPENDATASOURCE",
    "OPENQUERY",
    "OPENROWSET",
    "OPENXML",
    "PREDICT",
];

/// Functions that have another value each time.
const SIDE_EFFECTS: &[&str] = &["NEWID", "NEWSEQUENTIALID", "RAND"];

impl Parser<'_> {
    /// The arguments of a function and its alias, behind the name.
    pub(super) fn function_call(&mut self, name: Name) -> Result<TableRef> {
        let system = name.part(1).is_some_and(|schema| schema.eq_ignore_ascii_case("sys"));
        let listed = NOT_COVERED.iter().any(|own| own.eq_ignore_ascii_case(name.object()));
        if system || listed && name.0.len() == 1 {
            return Err(Error::feature(format!("table-valued function {}", name.text())));
        }
        let mut args = Vec::new();
        self.expect_op("(")?;
        if !self.is_op(")") {
            args = self.commas(|parser| match parser.eat("DEFAULT") {
                true => Ok(None),
                false => parser.expression().map(Some),
            })?;
        }
        self.expect_op(")")?;
        let alias = self.table_alias()?;
        let named = alias.is_some() && self.is_op("(");
        let columns = if named { self.list(Self::identifier)? } else { Vec::new() };
        let alias = alias.unwrap_or_else(|| name.object().to_owned());
        Ok(TableRef::Called(Box::new(FunctionCall { name, args, alias, columns })))
    }

    /// The rest of CREATE FUNCTION or ALTER FUNCTION: one that is a query.
    pub(super) fn create_function(
        &mut self,
        start: usize,
        may_create: bool,
        may_replace: bool,
    ) -> Result<Kind> {
        let name = self.name()?;
        self.expect_op("(")?;
        let params = self.parameters()?;
        if let Some(param) = params.iter().find(|param| param.output) {
            return Err(Error::Syntax { near: param.name.clone() });
        }
        self.expect_op(")")?;
        self.expect("RETURNS")?;
        if !self.eat("TABLE") {
            return Err(Error::unsupported("FUNCTION other than RETURNS TABLE AS RETURN"));
        }
        let mut bound = false;
        if self.eat("WITH") {
            for option in self.commas(Self::word)? {
                match option.as_str() {
                    "SCHEMABINDING" => bound = true,
                    _ => return Err(Error::unsupported(format!("FUNCTION WITH {option}"))),
                }
            }
        }
        self.eat("AS");
        self.expect("RETURN")?;
        let query = self.subquery_body()?;
        self.eat_op(";");
        if *self.tok() != Tok::End {
            return Err(self.unexpected());
        }
        check_body(&query)?;
        let text = self.text.get(start..).unwrap_or_default().to_owned();
        let made = CreateFunction { name, params, query, bound, may_create, may_replace, text };
        Ok(Kind::Act(Action::CreateFunction(Box::new(made))))
    }
}

/// Refuses what a function may not do.
fn check_body(query: &Query) -> Result<()> {
    let mut result = Ok(());
    query.children(&mut |child| {
        if result.is_ok() {
            result = match child {
                Child::Table(name) if name.object().starts_with('#') => {
                    Err(DefinedError::TemporaryTable {}.into())
                }
                Child::Table(_) => Ok(()),
                Child::Query(query) => check_body(query),
                Child::Expr(expr) => check_expr(expr),
            };
        }
    });
    result
}

fn check_expr(expr: &Expr) -> Result<()> {
    let found = RefCell::new(Ok(()));
    expr.any(&|part| {
        let result = match part {
            Expr::Next(..) => Err(Error::NextHere {}),
            Expr::Call(call) => {
                let name = call.name.object().to_ascii_uppercase();
                match SIDE_EFFECTS.contains(&name.as_str()) {
                    true => Err(DefinedError::SideEffect { name: name.to_lowercase() }.into()),
                    false => Ok(()),
                }
            }
            part => part.query().map_or(Ok(()), check_body),
        };
        let stop = result.is_err();
        if stop {
            *found.borrow_mut() = result;
        }
        stop
    });
    found.into_inner()
}
