//! The limits of a statement.

use super::Binder;
use crate::error::{Error, Result};

/// Maximum number of expressions of one statement. Those that are bound repeatedly count each time:
/// CASE with an operand and BETWEEN bind theirs again and again.
const MAX_EXPRESSIONS: u32 = 400_000;
/// Maximum number of tables of one statement, with those inside of its views.
const MAX_TABLES: u32 = 256;
/// So many UNION ALL of a statement, those of its views among them, allow one more table each.
const MAX_UNIONS: u32 = 4000;
/// Recursion limit of a common table expression unless a statement sets another.
const DEFAULT_RECURSION: i64 = 100;

/// How much a statement may still have, and its limits of rows and of recursion.
#[derive(Debug)]
pub(super) struct Limits {
    /// Expressions that are left.
    expressions: u32,
    /// Tables that are left.
    tables: u32,
    /// UNION ALL that still allow a table each.
    unions: u32,
    recursion: i64,
    rows: Option<i64>,
}

impl Limits {
    /// Those of a statement, under SET ROWCOUNT if it is on.
    pub(super) fn new(rows: Option<i64>) -> Limits {
        Limits {
            expressions: MAX_EXPRESSIONS,
            tables: MAX_TABLES,
            unions: MAX_UNIONS,
            recursion: DEFAULT_RECURSION,
            rows,
        }
    }

    /// Counts expressions.
    pub(super) fn spend(&mut self, expressions: u32) -> Result<()> {
        let left = self.expressions.checked_sub(expressions);
        self.expressions = left.ok_or(Error::TooComplex {})?;
        Ok(())
    }

    /// Counts a table.
    pub(super) fn add_table(&mut self) -> Result<()> {
        self.tables = self.tables.checked_sub(1).ok_or(Error::TooManyTables {})?;
        Ok(())
    }

    /// Counts a UNION ALL, which allows one more table.
    pub(super) fn add_union(&mut self) {
        if self.unions > 0 {
            self.unions -= 1;
            self.tables += 1;
        }
    }

    /// OPTION (MAXRECURSION), 0 for no limit.
    pub(super) fn recursion(&self) -> i64 {
        self.recursion
    }

    /// SET ROWCOUNT, for changes.
    pub(super) fn rows(&self) -> Option<i64> {
        self.rows
    }
}

impl Binder<'_> {
    /// Binds a query under its OPTION (MAXRECURSION), if it has one.
    pub(super) fn with_recursion<T>(
        &mut self,
        most: Option<i64>,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let around = self.limits.recursion;
        self.limits.recursion = most.unwrap_or(around);
        let made = work(self);
        self.limits.recursion = around;
        made
    }

    /// Binds a change that SET ROWCOUNT does not limit.
    pub(super) fn without_row_limit<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let rows = self.limits.rows.take();
        let made = work(self);
        self.limits.rows = rows;
        made
    }
}
