//! Functions of a database: their definitions, and calls of them in FROM.

use std::cell::RefCell;
use std::sync::Arc;

use tdekit_wire_tds::SqlType;
use tdekit_wire_tds::messages::{DefinedError, TriggerError};

use super::Parser;
use crate::ast::cursor::Cursor;
use crate::ast::defined::{CreateFunction, Filling, FunctionBody, FunctionCall, Steps, UserType};
use crate::ast::{
    Action, Child, CreateTable, Cte, Expr, Insert, Kind, Name, ProcParam, Query, Source, Stmt,
    TableRef,
};
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

/// What a function gives.
enum Returned {
    /// The rows of its query.
    Rows,
    Value(SqlType),
    /// The rows of a table variable.
    Table(Box<CreateTable>),
}

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

    /// The rest of CREATE FUNCTION or ALTER FUNCTION.
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
        let returns = self.returned(&params)?;
        let scalar = matches!(returns, Returned::Value(_));
        let (mut bound, mut null_on_null) = (false, false);
        if self.eat("WITH") {
            loop {
                let null = self.eat_words(&["RETURNS", "NULL"]);
                if scalar && (null || self.eat("CALLED")) {
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
            Returned::Rows => {
                self.expect("RETURN")?;
                let query = self.subquery_body()?;
                check_body(&query)?;
                FunctionBody::Query(Box::new(query))
            }
            Returned::Value(returns) => {
                self.types = &no_type;
                let stmts = self.function_steps(true)?;
                FunctionBody::Steps(Steps { returns, null_on_null, stmts })
            }
            Returned::Table(table) => {
                self.types = &no_type;
                let stmts = self.function_steps(false)?;
                FunctionBody::Filled(Box::new(Filling { table: *table, stmts }))
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

    /// What is behind RETURNS.
    fn returned(&mut self, params: &[ProcParam]) -> Result<Returned> {
        if self.eat("TABLE") {
            return Ok(Returned::Rows);
        }
        if params.iter().any(|param| param.user_type.is_some()) {
            return Err(Error::feature("a user-defined type in a function of statements"));
        }
        if matches!(self.tok(), Tok::Var(_)) {
            let name = self.variable()?;
            self.expect("TABLE")?;
            let table = self.table_body(Name(vec![name]))?;
            return Ok(Returned::Table(Box::new(table)));
        }
        self.returned_type().map(Returned::Value)
    }

    fn returned_type(&mut self) -> Result<SqlType> {
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

    /// BEGIN, the statements of a function that gives a value or fills a table, END.
    fn function_steps(&mut self, value: bool) -> Result<Vec<Stmt>> {
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
            self.check_step(stmt, value)?;
        }
        match stmts.last().map(|last| &last.kind) {
            Some(Kind::Return(_)) => Ok(stmts),
            _ => Err(DefinedError::NoLastReturn {}.into()),
        }
    }

    /// Refuses statements that a function may not have.
    fn check_step(&self, stmt: &Stmt, value: bool) -> Result<()> {
        match &stmt.kind {
            Kind::Declare(variables) => {
                variables.iter().filter_map(|(.., value)| value.as_ref()).try_for_each(check_expr)
            }
            Kind::Return(Some(_)) if !value => Err(TriggerError::ReturnsValue {}.into()),
            Kind::Return(None) if value => Err(DefinedError::ReturnsNothing {}.into()),
            Kind::Set(_, _, value) | Kind::Return(Some(value)) => check_expr(value),
            Kind::If(test, then, otherwise) => {
                check_expr(test)?;
                self.check_step(then, value)?;
                otherwise.as_ref().map_or(Ok(()), |otherwise| self.check_step(otherwise, value))
            }
            Kind::While(test, inner) => {
                check_expr(test)?;
                self.check_step(inner, value)
            }
            Kind::Block(stmts) => stmts.iter().try_for_each(|inner| self.check_step(inner, value)),
            Kind::Query(query) => check_body(query),
            Kind::Break | Kind::Continue | Kind::Nothing | Kind::Return(None) => Ok(()),
            Kind::Label(_) | Kind::Goto(_) => Ok(()),
            Kind::Cursor(cursor) => match &**cursor {
                Cursor::Declare(declared) => check_body(&declared.query),
                _ => Ok(()),
            },
            Kind::Act(Action::DeclareTable(_)) => Ok(()),
            Kind::Act(Action::DeclareTyped(_)) => {
                Err(Error::feature("a user-defined type in a function of statements"))
            }
            Kind::Insert(insert) if is_variable(&insert.target) => check_insert(insert),
            Kind::Update(update) if is_variable(&update.target) || !update.from.is_empty() => {
                let sets = update.sets.iter().filter_map(|(.., value)| value.as_ref());
                sets.chain(&update.filter).try_for_each(check_expr)?;
                check_tables(&update.ctes, &update.from)
            }
            Kind::Delete(delete) if is_variable(&delete.target) || !delete.from.is_empty() => {
                delete.filter.iter().try_for_each(check_expr)?;
                check_tables(&delete.ctes, &delete.from)
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

fn is_variable(name: &Name) -> bool {
    name.object().starts_with('@')
}

fn check_insert(insert: &Insert) -> Result<()> {
    check_tables(&insert.ctes, &[])?;
    match &insert.source {
        Source::Values(rows) => rows.iter().flatten().flatten().try_for_each(check_expr),
        Source::Query(query) => check_body(query),
        Source::Exec(_) => Err(DefinedError::SideEffect { name: "INSERT EXEC".to_owned() }.into()),
        Source::Defaults => Ok(()),
    }
}

fn check_tables(ctes: &[Cte], tables: &[TableRef]) -> Result<()> {
    ctes.iter().try_for_each(|cte| check_body(&cte.query))?;
    let mut result = Ok(());
    tables.iter().for_each(|table| table.children(&mut |child| check_child(child, &mut result)));
    result
}

/// Refuses what a function may not do.
fn check_body(query: &Query) -> Result<()> {
    let mut result = Ok(());
    query.children(&mut |child| check_child(child, &mut result));
    result
}

fn check_child(child: Child<'_>, result: &mut Result<()>) {
    if result.is_ok() {
        *result = match child {
            Child::Table(name) if name.object().starts_with('#') => {
                Err(DefinedError::TemporaryTable {}.into())
            }
            Child::Table(_) => Ok(()),
            Child::Query(query) => check_body(query),
            Child::Expr(expr) => check_expr(expr),
        };
    }
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
