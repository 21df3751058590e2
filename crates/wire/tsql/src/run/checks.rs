//! CHECK conditions that call functions of the database. They are not in SQLite's own text of the
//! table: when a statement has changed its rows, a query finds those that violate them. So the
//! functions see the table as the statement leaves it.

use std::sync::Arc;

use rusqlite::types::Value as Stored;

use super::conditions::{checks_of, noter, numbers, violating, written};
use super::data::internal;
use crate::ast::Expr;
use crate::ast::trigger::Event;
use crate::bind::check::concerns;
use crate::error::{Error, Result};
use crate::plan::table::TableColumn;
use crate::plan::trigger::Changed;
use crate::run::catalog::Table;
use crate::run::state::{Frame, Signal};
use crate::run::violated::{conflict, violated_check};
use crate::run::work::Run;

impl Run<'_> {
    /// Checks the rows that have been noted.
    ///
    /// # Errors
    /// 547.
    pub(super) fn check_rows(
        &mut self,
        table: &Table,
        events: &[(Event, Changed)],
    ) -> Result<Signal> {
        for (event, _) in written(events) {
            let name = noter(&self.s.db, event);
            self.s.db.execute(&format!("DROP TRIGGER temp.{name}"), "tempdb")?;
        }
        let verb = match events {
            [(Event::Insert, _)] => "INSERT",
            [(Event::Update, _)] => "UPDATE",
            _ => "MERGE",
        };
        let table = Arc::new(table.clone());
        let checks = checks_of(&mut self.s.db, &table)?;
        for (event, changed) in written(events) {
            let among = numbers(&self.s.db, event);
            for (name, condition) in checks.iter().filter(|(_, own)| concerns(own, changed)) {
                let (signal, violated) = self.violates(&table, condition, Some(&among))?;
                if violated {
                    return Err(violated_check(&mut self.s.db, verb, name, &table));
                }
                if signal == Signal::Stop {
                    return Ok(signal);
                }
            }
            self.s.db.execute(&format!("DROP TABLE {}", among.sql()), "tempdb")?;
        }
        Ok(Signal::Next)
    }

    /// Returns true if a row of a table violates a condition.
    fn violates(
        &mut self,
        table: &Arc<Table>,
        condition: &Expr,
        among: Option<&Arc<Table>>,
    ) -> Result<(Signal, bool)> {
        let plan = violating(&mut self.s.db, table, condition, &[], among)?;
        self.s.gate().admit_plan(&plan.needs)?;
        let (signal, rows) = self.query(&plan, &Frame::empty(), &mut |_, _| Ok(Signal::Break))?;
        Ok((signal, rows > 0))
    }

    /// Fails with 547 if a row that is there violates a condition.
    pub(super) fn refuse_violating(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        condition: &Expr,
    ) -> Result<()> {
        match self.violates(table, condition, None)? {
            (_, true) => Err(conflict("ALTER TABLE", "CHECK", name, table, &[])),
            (Signal::Stop, _) => Err(Error::Internal { detail: "cancelled".to_owned() }),
            _ => Ok(()),
        }
    }

    /// Returns these columns of the rows that violate a condition.
    pub(super) fn violating_rows(
        &mut self,
        table: &Arc<Table>,
        condition: &Expr,
        shown: &[&TableColumn],
    ) -> Result<Vec<Vec<Stored>>> {
        let plan = violating(&mut self.s.db, table, condition, shown, None)?;
        let (mut rows, width) = (Vec::new(), shown.len());
        self.query(&plan, &Frame::empty(), &mut |_, row| {
            let values = (0..width).map(|at| row.get(at)).collect::<rusqlite::Result<Vec<_>>>();
            rows.push(values.map_err(internal)?);
            Ok(Signal::Next)
        })?;
        Ok(rows)
    }
}
