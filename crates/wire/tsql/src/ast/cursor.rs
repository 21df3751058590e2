//! Statements about cursors.

use super::{Expr, Query};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cursor {
    /// DECLARE of a cursor, or SET of a variable to a new one.
    Declare(DeclareCursor),
    /// DECLARE of a variable for one.
    Variable(String),
    Open(CursorName),
    Fetch(Fetch),
    Close(CursorName),
    Deallocate(CursorName),
}

/// A cursor's name, or the name of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CursorName {
    pub(crate) name: String,
    /// GLOBAL before the name.
    pub(crate) global: bool,
}

impl CursorName {
    pub(crate) fn is_variable(&self) -> bool {
        self.name.starts_with('@')
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeclareCursor {
    pub(crate) name: CursorName,
    pub(crate) local: bool,
    pub(crate) scroll: bool,
    pub(crate) query: Box<Query>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fetch {
    pub(crate) place: FetchPlace<Expr>,
    pub(crate) from: CursorName,
    /// Variables of INTO.
    pub(crate) into: Option<Vec<String>>,
}

/// The row that FETCH gives, with its number as it is written or compiled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FetchPlace<N> {
    Next,
    Prior,
    First,
    Last,
    Absolute(N),
    Relative(N),
}

impl<N> FetchPlace<N> {
    /// The word of the statement, as error 16911 shows it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            FetchPlace::Next => "next",
            FetchPlace::Prior => "prior",
            FetchPlace::First => "first",
            FetchPlace::Last => "last",
            FetchPlace::Absolute(_) => "absolute",
            FetchPlace::Relative(_) => "relative",
        }
    }

    /// Converts the number.
    pub(crate) fn map<M, E>(
        &self,
        convert: impl FnOnce(&N) -> Result<M, E>,
    ) -> Result<FetchPlace<M>, E> {
        Ok(match self {
            FetchPlace::Next => FetchPlace::Next,
            FetchPlace::Prior => FetchPlace::Prior,
            FetchPlace::First => FetchPlace::First,
            FetchPlace::Last => FetchPlace::Last,
            FetchPlace::Absolute(number) => FetchPlace::Absolute(convert(number)?),
            FetchPlace::Relative(number) => FetchPlace::Relative(convert(number)?),
        })
    }
}

impl FetchPlace<i64> {
    /// Returns the number of the row, from the current one among `count`: 0 before the first, one
    /// more than `count` behind the last.
    pub(crate) fn from(&self, at: i64, count: i64) -> i64 {
        let to = match self {
            FetchPlace::Next => at + 1,
            FetchPlace::Prior => at - 1,
            FetchPlace::First => 1,
            FetchPlace::Last => count,
            FetchPlace::Absolute(number @ 0..) => *number,
            FetchPlace::Absolute(number) => number.saturating_add(count + 1),
            FetchPlace::Relative(number) => number.saturating_add(at),
        };
        to.clamp(0, count + 1)
    }
}
