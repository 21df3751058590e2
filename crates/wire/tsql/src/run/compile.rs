//! Compiles statements: variables to slots, expressions to typed trees, queries to plans that are
//! bound on first execution (names are resolved late, as in SQL Server).

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use tdekit_wire_tds::SqlType;

use super::{integers, tallies};
use crate::ast::cursor::{Cursor, CursorName, DeclareCursor, Fetch, FetchPlace};
use crate::ast::defined::UserType;
use crate::ast::{self, Action, Expr, Item, Kind, Query, Select, SetExpr, Stmt};
use crate::bind::labels::Labels;
use crate::bind::{Binder, TableOf, Variable, Variables};
use crate::error::{At, Error, Result};
use crate::functions::typing::convert;
use crate::plan::LookUp;
use crate::plan::scalar::Scalar;
use crate::plan::table::{Catalog, Sequence, Table};

/// A value: computed here, or by a query.
#[derive(Debug)]
pub(crate) enum Code {
    Ready(Box<Ready>),
    Query(Box<Lazy>),
}

/// An expression without a query.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) bound: Scalar,
    /// None if it looks up no object.
    pub(crate) looks_up: Option<LookUp>,
    /// The same as a program, if it consists of integers.
    pub(crate) integer: Option<integers::Program>,
    pub(crate) test: Option<integers::Test>,
}

/// A statement that is bound on first execution.
#[derive(Debug)]
pub(crate) struct Lazy {
    pub(crate) kind: Kind,
    pub(crate) plan: Mutex<Option<Planned>>,
    /// Its position in its text.
    pub(crate) span: (usize, usize),
    /// Resources it has used, once it has run.
    pub(crate) tally: Mutex<Option<tallies::Shared>>,
}

/// A plan with the state to which it was bound.
#[derive(Debug)]
pub(crate) struct Planned {
    /// The version of the catalog.
    pub(crate) version: u64,
    /// The current database.
    pub(crate) database: String,
    /// SET ROWCOUNT.
    pub(crate) row_limit: i64,
    /// The innermost running trigger, whose tables the statement may name.
    pub(crate) trigger: Option<Arc<str>>,
    pub(crate) bound: Arc<crate::run::plan::Bound>,
}

impl Lazy {
    fn new(kind: Kind, span: (usize, usize)) -> Lazy {
        Lazy { kind, plan: Mutex::new(None), span, tally: Mutex::new(None) }
    }
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) line: u32,
    pub(crate) op: Op,
    /// The numbers of the labels in it.
    pub(crate) labels: Range<u32>,
}

#[derive(Debug)]
pub(crate) enum Op {
    /// The initial value of a variable.
    Declare(usize, Code),
    Set(usize, Code),
    If(Code, Vec<Step>, Vec<Step>),
    While(Code, Vec<Step>),
    Block(Vec<Step>),
    Try(Vec<Step>, Vec<Step>),
    Break,
    Continue,
    Return(Option<Code>),
    Print(Code),
    Raiserror {
        parts: Vec<Code>,
        nowait: bool,
        set_error: bool,
        /// WITH LOG, which writes no log here.
        log: bool,
    },
    Throw(Option<(Code, Code, Code)>),
    Wait(bool, Code),
    Exec {
        exec: ast::Exec,
        args: Vec<Option<Code>>,
        text: Option<Code>,
        status: Option<usize>,
    },
    /// INSERT .. EXEC, whose call is an `Exec`.
    InsertExec {
        into: ast::Name,
        columns: Vec<String>,
        call: Box<Op>,
    },
    /// A query or a change.
    Data(Lazy),
    Cursor(CursorOp),
    Label,
    Goto(u32),
    /// Everything else.
    Act(Action),
    Nothing,
}

impl Op {
    /// Returns true for the steps of loops and branches: the time and the line are only noted for
    /// the rest.
    pub(crate) fn is_control(&self) -> bool {
        matches!(
            self,
            Op::Declare(..)
                | Op::Set(..)
                | Op::If(..)
                | Op::While(..)
                | Op::Block(_)
                | Op::Try(..)
                | Op::Break
                | Op::Continue
                | Op::Return(_)
                | Op::Label
                | Op::Goto(_)
                | Op::Nothing
        )
    }
}

/// A statement about a cursor.
#[derive(Debug)]
pub(crate) enum CursorOp {
    Declare {
        name: CursorName,
        local: bool,
        scroll: bool,
        query: Arc<Lazy>,
    },
    /// DECLARE of a variable for one.
    Variable,
    Open(CursorName),
    Fetch {
        place: FetchPlace<Code>,
        from: CursorName,
        /// Slots and types of the variables.
        into: Option<Vec<Variable>>,
    },
    Close(CursorName),
    Deallocate(CursorName),
}

/// A compiled batch or procedure body.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) variables: Variables,
}

struct NoCatalog;

impl Catalog for NoCatalog {
    fn table(&mut self, _: &ast::Name) -> Result<Option<Arc<Table>>> {
        Ok(None)
    }

    fn sequence(&mut self, _: &ast::Name) -> Result<Option<Arc<Sequence>>> {
        Ok(None)
    }

    fn user_type(&mut self, _: &str, _: &str) -> Result<Option<Arc<UserType>>> {
        Ok(None)
    }

    fn identity_insert(&self, _: &Table) -> bool {
        false
    }
}

struct Compiler {
    variables: Variables,
    loops: usize,
    /// Numbers the tables of table variables.
    tables: usize,
    /// Position of the statement being compiled.
    span: (usize, usize),
    labels: Labels,
    /// Variables for cursors, in lower case.
    cursors: HashSet<String>,
}

/// Compiles a batch. `variables` are those that already exist: a procedure's parameters.
pub(crate) fn compile(stmts: Vec<Stmt>, variables: Variables) -> std::result::Result<Program, At> {
    let (loops, tables, span) = (0, 0, (0, 0));
    let (labels, cursors) = (Labels::of(&stmts)?, HashSet::new());
    let mut compiler = Compiler { variables, loops, tables, span, labels, cursors };
    let steps = compiler.steps(stmts)?;
    Ok(Program { steps, variables: compiler.variables })
}

/// Returns true if SQLite must help to compute an expression. A window function is not allowed
/// outside of a SELECT; a generated query around it must not hide that.
fn needs_query(expr: &Expr) -> bool {
    expr.any(&|part| match part {
        Expr::Next(..) => true,
        Expr::Var(name) => name.eq_ignore_ascii_case("@@DBTS"),
        // a function of a database
        Expr::Call(call) if call.name.0.len() > 1 => true,
        _ => part.query().is_some(),
    }) && !expr.any(&|part| matches!(part, Expr::Call(call) if call.over.is_some()))
}

fn select_one(expr: Expr, line: u32) -> Kind {
    let select = Select { items: vec![Item::Expr(expr, None)], ..Select::default() };
    let body = SetExpr::Select(Box::new(select));
    let query = Query {
        ctes: Vec::new(),
        body,
        order: Vec::new(),
        offset: None,
        json: None,
        xml: None,
        max_recursion: None,
        line,
    };
    Kind::Query(Box::new(query))
}

impl Compiler {
    fn bind(&mut self, work: impl FnOnce(&mut Binder<'_>) -> Result<Scalar>) -> Result<Code> {
        let mut none = NoCatalog;
        let mut binder = Binder::new(&mut none, &self.variables);
        let bound = work(&mut binder)?;
        let looks_up = binder.take_needs().looks_up;
        let (integer, test) = (integers::Program::of(&bound), integers::Test::of(&bound));
        Ok(Code::Ready(Box::new(Ready { bound, looks_up, integer, test })))
    }

    /// Compiles a value, converted to a type if one is given.
    fn value(&mut self, expr: &Expr, ty: Option<SqlType>, line: u32) -> Result<Code> {
        if needs_query(expr) {
            let expr = match ty {
                Some(ty) => Expr::Convert(Box::new(expr.clone()), ty, None, false),
                None => expr.clone(),
            };
            return Ok(Code::Query(Box::new(Lazy::new(select_one(expr, line), self.span))));
        }
        self.bind(|binder| {
            let bound = binder.scalar(expr)?;
            match ty {
                Some(ty) => convert(bound, ty),
                None => Ok(bound),
            }
        })
    }

    fn test(&mut self, expr: &Expr, line: u32) -> Result<Code> {
        if needs_query(expr) {
            let one = Expr::Int("1".to_owned());
            let zero = Box::new(Expr::Int("0".to_owned()));
            let case = Expr::Case(None, vec![(expr.clone(), one)], Some(zero));
            return Ok(Code::Query(Box::new(Lazy::new(select_one(case, line), self.span))));
        }
        self.bind(|binder| binder.condition(expr))
    }

    fn steps(&mut self, stmts: Vec<Stmt>) -> std::result::Result<Vec<Step>, At> {
        let mut steps = Vec::new();
        for stmt in stmts {
            self.step(stmt, &mut steps)?;
        }
        Ok(steps)
    }

    fn one(&mut self, stmt: Stmt) -> std::result::Result<Vec<Step>, At> {
        self.steps(vec![stmt])
    }

    #[allow(clippy::too_many_lines)]
    fn step(&mut self, stmt: Stmt, out: &mut Vec<Step>) -> std::result::Result<(), At> {
        let line = stmt.line;
        let first_label = self.labels.met;
        // for IF and WHILE, the condition: their statements count separately
        self.span = match &stmt.kind {
            Kind::If(_, inner, _) | Kind::While(_, inner) => (stmt.span.0, inner.span.0),
            _ => stmt.span,
        };
        let at = |error: Error| At { error, line };
        let op = match stmt.kind {
            Kind::Declare(vars) => {
                for (name, ty, value) in vars {
                    let code = value
                        .map(|expr| self.value(&expr, Some(ty), line))
                        .transpose()
                        .map_err(at)?;
                    if self.cursors.contains(&name.to_lowercase()) {
                        return Err(at(Error::DuplicateVariable { name }));
                    }
                    let slot = self.variables.declare(&name, ty).map_err(at)?;
                    if let Some(code) = code {
                        let labels = first_label..first_label;
                        out.push(Step { line, op: Op::Declare(slot, code), labels });
                    }
                }
                return Ok(());
            }
            Kind::Act(Action::DeclareTable(mut table)) => {
                table.name = self.table_variable(&table.name, None).map_err(at)?;
                Op::Act(Action::DeclareTable(table))
            }
            Kind::Act(Action::DeclareTyped(mut made)) => {
                let of = Some(made.of.clone());
                made.table.name = self.table_variable(&made.table.name, of).map_err(at)?;
                Op::Act(Action::DeclareTyped(made))
            }
            Kind::Set(name, op, expr) => {
                let variable = self.variables.find(&name).map_err(at)?;
                let expr = match op {
                    Some(op) => Expr::Binary(op, Box::new(Expr::Var(name)), Box::new(expr)),
                    None => expr,
                };
                let code = self.value(&expr, Some(variable.ty), line).map_err(at)?;
                Op::Set(variable.slot, code)
            }
            Kind::If(test, then, otherwise) => {
                let test = self.test(&test, line).map_err(at)?;
                let then = self.one(*then)?;
                let otherwise = match otherwise {
                    Some(otherwise) => self.one(*otherwise)?,
                    None => Vec::new(),
                };
                Op::If(test, then, otherwise)
            }
            Kind::While(test, body) => {
                let test = self.test(&test, line).map_err(at)?;
                self.loops += 1;
                let body = self.one(*body);
                self.loops -= 1;
                Op::While(test, body?)
            }
            Kind::Block(stmts) => Op::Block(self.steps(stmts)?),
            Kind::Try(tried, caught) => {
                let scope = self.labels.enter_try();
                let tried = self.steps(tried)?;
                self.labels.enter_catch(scope);
                let caught = self.steps(caught)?;
                self.labels.leave();
                Op::Try(tried, caught)
            }
            Kind::Label(_) => {
                self.labels.meet();
                Op::Label
            }
            Kind::Goto(name) => Op::Goto(self.labels.target(&name).map_err(at)?),
            Kind::Cursor(cursor) => Op::Cursor(self.cursor(*cursor, line).map_err(at)?),
            Kind::Break if self.loops == 0 => return Err(at(Error::BreakOutside {})),
            Kind::Continue if self.loops == 0 => return Err(at(Error::ContinueOutside {})),
            Kind::Break => Op::Break,
            Kind::Continue => Op::Continue,
            Kind::Return(value) => {
                let code = value
                    .map(|expr| self.value(&expr, Some(SqlType::Int), line))
                    .transpose()
                    .map_err(at)?;
                Op::Return(code)
            }
            Kind::Print(expr) => Op::Print(self.value(&expr, None, line).map_err(at)?),
            Kind::Raiserror { message, severity, state, args, options } => {
                let mut parts = Vec::new();
                for expr in [message, severity, state].iter().chain(&args) {
                    parts.push(self.value(expr, None, line).map_err(at)?);
                }
                let has = |name: &str| options.iter().any(|option| option == name);
                let (nowait, set_error) = (has("NOWAIT"), has("SETERROR"));
                Op::Raiserror { parts, nowait, set_error, log: has("LOG") }
            }
            Kind::Throw(None) => Op::Throw(None),
            Kind::Throw(Some((number, message, state))) => {
                let number = self.value(&number, Some(SqlType::Int), line).map_err(at)?;
                let message = self.value(&message, None, line).map_err(at)?;
                let state = self.value(&state, Some(SqlType::Int), line).map_err(at)?;
                Op::Throw(Some((number, message, state)))
            }
            Kind::Wait { delay, time } => {
                Op::Wait(delay, self.value(&time, None, line).map_err(at)?)
            }
            Kind::Exec(exec) => self.exec(*exec, line).map_err(at)?,
            Kind::Query(_)
            | Kind::Insert(_)
            | Kind::Update(_)
            | Kind::Delete(_)
            | Kind::Merge(_) => match self.changes_nothing_readonly(stmt.kind).map_err(at)? {
                Kind::Insert(insert) if matches!(insert.source, ast::Source::Exec(_)) => {
                    self.insert_exec(*insert, line).map_err(at)?
                }
                kind => Op::Data(Lazy::new(kind, self.span)),
            },
            Kind::Nothing => Op::Nothing,
            Kind::Act(action) => Op::Act(action),
        };
        out.push(Step { line, op, labels: first_label..self.labels.met });
        Ok(())
    }

    /// Declares a table variable; returns the name of the table that holds it.
    fn table_variable(&mut self, name: &ast::Name, of: Option<Arc<UserType>>) -> Result<ast::Name> {
        let name = name.object().to_owned();
        let key = name.to_lowercase();
        self.tables += 1;
        let real = format!("#{name}~{}", self.tables);
        let known = self.variables.tables.insert(key.clone(), real.clone());
        if known.is_some() || self.is_declared(&name) {
            return Err(Error::DuplicateVariable { name });
        }
        let typed = of.map(|of| TableOf { of, readonly: false });
        self.variables.typed.extend(typed.map(|typed| (key, typed)));
        Ok(ast::Name(vec![real]))
    }

    /// Returns true if a variable of this name, not of a table, is declared.
    fn is_declared(&self, name: &str) -> bool {
        self.variables.find(name).is_ok() || self.cursors.contains(&name.to_lowercase())
    }

    fn cursor(&mut self, cursor: Cursor, line: u32) -> Result<CursorOp> {
        Ok(match cursor {
            Cursor::Declare(DeclareCursor { name, local, scroll, query }) => {
                self.known_cursor(&name)?;
                let query = Arc::new(Lazy::new(Kind::Query(query), self.span));
                CursorOp::Declare { name, local, scroll, query }
            }
            Cursor::Variable(name) => {
                let key = name.to_lowercase();
                if self.is_declared(&name) || self.variables.tables.contains_key(&key) {
                    return Err(Error::DuplicateVariable { name });
                }
                self.cursors.insert(key);
                CursorOp::Variable
            }
            Cursor::Open(name) => CursorOp::Open(self.known_cursor(&name).map(|()| name)?),
            Cursor::Close(name) => CursorOp::Close(self.known_cursor(&name).map(|()| name)?),
            Cursor::Deallocate(name) => {
                CursorOp::Deallocate(self.known_cursor(&name).map(|()| name)?)
            }
            Cursor::Fetch(Fetch { place, from, into }) => {
                self.known_cursor(&from)?;
                let place = place.map(|number| self.value(number, Some(SqlType::BigInt), line))?;
                let into = into.map(|names| {
                    names.iter().map(|name| self.variables.find(name)).collect::<Result<_>>()
                });
                CursorOp::Fetch { place, from, into: into.transpose()? }
            }
        })
    }

    /// Refuses a variable that is not declared for a cursor.
    fn known_cursor(&self, name: &CursorName) -> Result<()> {
        match name.is_variable() && !self.cursors.contains(&name.name.to_lowercase()) {
            true => Err(Error::UndeclaredVariable { name: name.name.clone() }),
            false => Ok(()),
        }
    }

    /// Returns the change, unless it is one of a READONLY parameter.
    fn changes_nothing_readonly(&self, kind: Kind) -> Result<Kind> {
        let (target, into) = match &kind {
            Kind::Insert(insert) => (&insert.target, &insert.output_into),
            Kind::Update(update) => (&update.target, &update.output_into),
            Kind::Delete(delete) => (&delete.target, &delete.output_into),
            Kind::Merge(merge) => (&merge.target, &merge.output_into),
            _ => return Ok(kind),
        };
        self.variables.refuse_readonly(target)?;
        match into {
            Some(into) => self.variables.refuse_readonly(&into.target).map(|()| kind),
            None => Ok(kind),
        }
    }

    /// Compiles INSERT .. EXEC: the call, and the target of its rows.
    fn insert_exec(&mut self, mut insert: ast::Insert, line: u32) -> Result<Op> {
        if !insert.output.is_empty() || !insert.ctes.is_empty() {
            return Err(Error::unsupported("OUTPUT or WITH of INSERT .. EXEC"));
        }
        let source = std::mem::replace(&mut insert.source, ast::Source::Defaults);
        let ast::Source::Exec(exec) = source else {
            return Err(Error::Syntax { near: "EXEC".to_owned() });
        };
        let call = self.exec(*exec, line)?;
        Ok(Op::InsertExec { into: insert.target, columns: insert.columns, call: Box::new(call) })
    }

    fn exec(&mut self, exec: ast::Exec, line: u32) -> Result<Op> {
        let mut args = Vec::new();
        for arg in &exec.args {
            let code = match &arg.value {
                // the interpreter passes the table
                Some(Expr::Var(name))
                    if self.variables.tables.contains_key(&name.to_lowercase()) =>
                {
                    None
                }
                Some(expr) => Some(self.value(expr, None, line)?),
                None => None,
            };
            if arg.output && !matches!(arg.value, Some(Expr::Var(_))) {
                return Err(Error::Syntax { near: "OUTPUT".to_owned() });
            }
            args.push(code);
        }
        let text = match &exec.target {
            ast::ExecTarget::Text(expr) => Some(self.value(expr, None, line)?),
            ast::ExecTarget::Variable(name) => {
                Some(self.value(&Expr::Var(name.clone()), None, line)?)
            }
            ast::ExecTarget::Procedure(_) => None,
        };
        let status = match &exec.status {
            Some(name) => Some(self.variables.find(name)?.slot),
            None => None,
        };
        Ok(Op::Exec { exec, args, text, status })
    }
}
