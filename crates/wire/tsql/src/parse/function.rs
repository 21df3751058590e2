//! Functions of a database: their definitions, and calls of them in FROM.

use std::cell::RefCell;
use std::sync::Arc;

use tdekit_wire_tds::SqlType;
use tdekit_wire_tds::messages::DefinedError;

use super::Parser;
use crate::ast::defined::{CreateFunction, FunctionBody, FunctionCall, Steps, UserType};
use crate::ast::{Action, Child, Expr, Kind, Name, ProcParam, Query, Stmt, TableRef};
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
        let listed = NOT_COVERED.iter().any(|own| own.eq_ignore_ascii_case(name.object()));
        if listed && name.0.len() == 1 {
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
        let returns = if self.eat("TABLE") { None } else { Some(self.returned_type(&params)?) };
        let (mut bound, mut null_on_null) = (false, false);
        if self.eat("WITH") {
            loop {
                let null = self.eat_words(&["RETURNS", "NULL"]);
                if returns.is_some() && (null || self.eat("CALLED")) {
                    self.expect_words(&["ON", "NULL", "INPUT"])?;
                    null_on_null |= null;
                } else {
                    match self.word()?.as_str() {
                        "SCHEMABINDING" => bound = true,
                        word => return Err(Error::unsupported(format!("FUNCTION WITH {word}"))),
                    }
                }
                if !self.eat_op(",") {
                    break;
                }
            }
        }
        self.eat("AS");
        let body = match returns {
            None => {
                self.expect("RETURN")?;
                let query = self.subquery_body()?;
                check_body(&query)?;
                FunctionBody::Query(Box::new(query))
            }
            Some(returns) => {
                self.types = &no_type;
                let stmts = self.function_steps()?;
                FunctionBody::Steps(Steps { returns, null_on_null, stmts })
            }
        };
        self.eat_op(";");
        if *self.tok() != Tok::End {
            return Err(self.unexpected());
        }
        let text = self.text.get(start..).unwrap_or_default().to_owned();
        let made = CreateFunction { name, params, body, bound, may_create, may_replace, text };
        Ok(Kind::Act(Action::CreateFunction(Box::new(made))))
    }

    /// The type behind RETURNS.
    fn returned_type(&mut self, params: &[ProcParam]) -> Result<SqlType> {
        if matches!(self.tok(), Tok::Var(_)) {
            return Err(Error::unsupported("FUNCTION RETURNS @table"));
        }
        if params.iter().any(|param| param.user_type.is_some()) {
            return Err(Error::feature("a user-defined type in a scalar function"));
        }
        let (ty, named) = self.column_type()?;
        let large = matches!(ty, SqlType::Text | SqlType::NText | SqlType::Image);
        if large || matches!(ty, SqlType::Xml | SqlType::SqlVariant) {
            let ty = crate::value::type_name(ty);
            return Err(Error::feature(format!("a function that returns {ty}")));
        }
        match named {
            None => Ok(ty),
            Some(_) => Err(Error::feature("a user-defined type in a scalar function")),
        }
    }

    /// BEGIN, the statements of a scalar function, END.
    fn function_steps(&mut self) -> Result<Vec<Stmt>> {
        self.expect("BEGIN")?;
        let mut stmts = Vec::new();
        while !self.eat("END") {
            if *self.tok() == Tok::End {
                return Err(self.unexpected());
            }
            if !self.eat_op(";") {
                stmts.push(self.statement()?);
            }
        }
        for stmt in &stmts {
            self.check_step(stmt)?;
        }
        match stmts.last().map(|last| &last.kind) {
            Some(Kind::Return(_)) => Ok(stmts),
            _ => Err(DefinedError::NoLastReturn {}.into()),
        }
    }

    /// Refuses statements that a function may not have.
    fn check_step(&self, stmt: &Stmt) -> Result<()> {
        match &stmt.kind {
            Kind::Declare(variables) => {
                variables.iter().filter_map(|(.., value)| value.as_ref()).try_for_each(check_expr)
            }
            Kind::Set(_, _, value) | Kind::Return(Some(value)) => check_expr(value),
            Kind::If(test, then, otherwise) => {
                check_expr(test)?;
                self.check_step(then)?;
                otherwise.as_ref().map_or(Ok(()), |otherwise| self.check_step(otherwise))
            }
            Kind::While(test, inner) => {
                check_expr(test)?;
                self.check_step(inner)
            }
            Kind::Block(stmts) => stmts.iter().try_for_each(|inner| self.check_step(inner)),
            Kind::Query(query) => check_body(query),
            Kind::Break | Kind::Continue | Kind::Nothing => Ok(()),
            Kind::Return(None) => Err(DefinedError::ReturnsNothing {}.into()),
            Kind::Act(Action::DeclareTable(_) | Action::DeclareTyped(_)) => {
                Err(Error::feature("a table variable in a scalar function"))
            }
            _ => {
                let text = self.text.get(stmt.span.0..).unwrap_or_default().trim_start();
                let word: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
                Err(DefinedError::SideEffect { name: word.to_ascii_uppercase() }.into())
            }
        }
    }
}

/// Finds no user-defined type in the body of a scalar function: its text is read without the
/// database's types.
fn no_type(name: &Name) -> Result<Option<Arc<UserType>>> {
    Err(Error::feature(format!("the type {} in a scalar function", name.text())))
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
