//! Scalar functions of a database, bound: their statements over variables.

use std::sync::{Arc, OnceLock, Weak};

use tdekit_wire_tds::SqlType;

use super::change::Statement;
use super::cursor::CursorStep;
use super::scalar::{Node, Scalar};
use super::table::Table;
use crate::ast::CreateTable;

/// A scalar function.
#[derive(Debug)]
pub(crate) struct Routine {
    /// The name that errors in it have, without a schema, as those of procedures.
    pub(crate) name: String,
    /// The number of its parameters, which are its first variables.
    pub(crate) params: usize,
    /// The number of its variables.
    pub(crate) variables: usize,
    /// Its value is NULL if an argument is.
    pub(crate) null_on_null: bool,
    /// The variable that has `@@ROWCOUNT`.
    pub(crate) row_count: usize,
    /// The variable that has `@@FETCH_STATUS`, if it has cursors.
    pub(crate) fetch_status: Option<usize>,
    /// The table that it fills, and whose rows it gives as one text.
    pub(crate) fills: Option<Arc<Local>>,
    /// Empty its table variables, before its steps and after them: they keep no memory.
    pub(crate) emptied: Vec<Change>,
    pub(crate) steps: Lines,
}

/// Statements with their lines.
pub(crate) type Lines = Vec<(u32, Step)>;

#[derive(Debug)]
pub(crate) enum Step {
    Set(usize, Source),
    If(Source, Lines, Lines),
    While(Source, Lines),
    Break,
    Continue,
    /// A label of this number.
    Label(u32),
    Goto(u32),
    Cursor(Box<CursorStep>),
    Return(Source),
    /// A change of one of its tables.
    Change(Box<Change>),
    /// SELECT of assignments: for each row, these variables get values over its columns.
    Each(Box<Reader>, Vec<(usize, Scalar)>),
}

/// A change of a table variable.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) reader: Reader,
    /// INSERT, UPDATE or DELETE.
    pub(crate) verb: &'static str,
    pub(crate) table: Arc<Local>,
    /// True if it takes identity values.
    pub(crate) identity: bool,
}

/// A table variable of a function.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) table: Arc<Table>,
    /// Its definition, with the types of computed columns; the name is the variable's.
    pub(crate) made: CreateTable,
    /// The variable that has the next value of the identity column.
    pub(crate) next: usize,
}

/// A value of a step, over its variables.
#[derive(Debug)]
pub(crate) enum Source {
    Plain(Scalar),
    /// By a query of one row and one column.
    Read(Box<Reader>),
}

impl Source {
    pub(super) fn part(&self) -> Part<'_> {
        match self {
            Source::Plain(value) => Part::Plain(value),
            Source::Read(reader) => Part::Reader(reader),
        }
    }
}

/// A statement of SQLite within a function, over the variables of the function.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) statement: Statement,
    /// Types of its columns.
    pub(crate) types: Vec<SqlType>,
    /// The number of its text, once it is written.
    pub(crate) text: OnceLock<i64>,
}

impl Reader {
    pub(crate) fn new(statement: Statement, types: Vec<SqlType>) -> Reader {
        Reader { statement, types, text: OnceLock::new() }
    }
}

/// What a function consists of, within its branches and loops too.
pub(crate) enum Part<'r> {
    Plain(&'r Scalar),
    Reader(&'r Reader),
}

impl Routine {
    /// Calls `see` with each value and each statement.
    pub(crate) fn parts<'r>(&'r self, see: &mut dyn FnMut(Part<'r>)) {
        self.emptied.iter().for_each(|change| see(Part::Reader(&change.reader)));
        parts(&self.steps, see);
    }

    /// Returns true if it reads tables, by itself or by functions that it calls.
    pub(crate) fn reads(&self) -> bool {
        let mut found = false;
        self.parts(&mut |part| match part {
            Part::Reader(_) => found = true,
            Part::Plain(value) => value.walk(&mut |inner| {
                found |= matches!(&inner.node, Node::Invoke(invoked) if invoked.is_reader());
                !found
            }),
        });
        found
    }
}

/// Returns the place of the statement that is a label, or in which it stands.
pub(crate) fn place_of(steps: &Lines, label: u32) -> Option<usize> {
    steps.iter().position(|(_, step)| match step {
        Step::Label(number) => *number == label,
        Step::If(_, then, otherwise) => {
            place_of(then, label).or_else(|| place_of(otherwise, label)).is_some()
        }
        Step::While(_, inner) => place_of(inner, label).is_some(),
        _ => false,
    })
}

fn parts<'r>(steps: &'r Lines, see: &mut dyn FnMut(Part<'r>)) {
    for (_, step) in steps {
        match step {
            Step::Set(_, value) | Step::Return(value) => see(value.part()),
            Step::If(test, then, otherwise) => {
                see(test.part());
                parts(then, see);
                parts(otherwise, see);
            }
            Step::While(test, inner) => {
                see(test.part());
                parts(inner, see);
            }
            Step::Each(reader, assigned) => {
                see(Part::Reader(reader));
                assigned.iter().for_each(|(_, value)| see(Part::Plain(value)));
            }
            Step::Change(change) => see(Part::Reader(&change.reader)),
            Step::Cursor(step) => step.parts(see),
            Step::Break | Step::Continue | Step::Label(_) | Step::Goto(_) => {}
        }
    }
}

/// A call of a scalar function, whose routine is known once it is bound: it may call itself.
#[derive(Debug, Clone)]
pub(crate) enum Callee {
    /// A call that keeps the routine.
    Own(Arc<OnceLock<Routine>>),
    /// A call within the routine, by itself or by a function that it calls.
    Within(Weak<OnceLock<Routine>>),
}

impl PartialEq for Callee {
    /// Equals its copies.
    fn eq(&self, other: &Callee) -> bool {
        match (self, other) {
            (Callee::Own(a), Callee::Own(b)) => Arc::ptr_eq(a, b),
            (Callee::Within(a), Callee::Within(b)) => Weak::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// A call of a scalar function.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Invoked {
    pub(crate) callee: Callee,
    /// The call of a statement: behind its arguments are the values that the session gives to all
    /// functions which it reaches, GETDATE() among them.
    pub(crate) outermost: bool,
    /// True if it reads tables.
    pub(crate) reads: bool,
    pub(crate) args: Vec<Scalar>,
}

impl Invoked {
    /// Returns true for a call of a function outside of it, which reads tables.
    fn is_reader(&self) -> bool {
        self.reads && matches!(self.callee, Callee::Own(_))
    }
}
