//! CHECK conditions that call functions of the database. They are not in SQLite's own text of the
//! table: when a statement has changed its rows, a query finds those that violate them. So the
//! functions see the table as the statement leaves it.

use std::sync::Arc;

use rusqlite::types::Value as Stored;
use tdekit_wire_tds::{Column, SqlType};

use super::db::{Checks, View, failure};
use crate::ast::Expr;
use crate::ast::trigger::Event;
use crate::bind::check::concerns;
use crate::bind::{Binder, Variables};
use crate::error::{Error, Result};
use crate::name::{ROW_ID, quote};
use crate::plan::change::Statement;
use crate::plan::table::{Filled, TableColumn, TableKind};
use crate::plan::trigger::Changed;
use crate::render::{self, Rendered};
use crate::run::catalog::Table;
use crate::run::catalog::model::{Reference, Trust};
use crate::run::state::{Frame, Signal};
use crate::run::violated::conflict;
use crate::run::work::Run;

/// Returns the changes of a statement that leave rows.
fn written(events: &[(Event, Changed)]) -> impl Iterator<Item = (Event, &Changed)> {
    let events = events.iter().map(|(event, changed)| (*event, changed));
    events.filter(|(event, _)| *event != Event::Delete)
}

/// The column of the table with the numbers of changed rows.
const NUMBER: &str = "number";

impl Run<'_> {
    /// Returns the conditions of a table that are enabled, with their names.
    fn checks_of(&mut self, table: &Table) -> Result<Arc<Checks>> {
        let mut found = Vec::new();
        if table.schema == "temp" || table.kind != TableKind::Table {
            return Ok(Arc::new(found));
        }
        self.s.db.forget_old();
        let key = (table.schema.clone(), table.name.clone());
        if let Some(known) = self.s.db.checks.get(&key) {
            return Ok(known.clone());
        }
        for named in self.named_constraints(table)? {
            if named.kind == "C" && named.trust != Trust::Disabled {
                let condition = crate::parse::check_condition(&named.text)?;
                if crate::bind::check::calls_functions(&condition) {
                    found.push((named.name, condition));
                }
            }
        }
        let found = Arc::new(found);
        self.s.db.checks.insert(key, found.clone());
        Ok(found)
    }

    /// The table of the numbers of rows that are inserted, or updated.
    fn numbers(&self, event: Event) -> Arc<Table> {
        let column = TableColumn {
            name: NUMBER.to_owned(),
            ty: SqlType::BigInt,
            nullable: false,
            identity: false,
            default: None,
            filled: Filled::Given,
            collation: tdekit_wire_tds::Collation::default(),
        };
        Arc::new(Table {
            schema: "temp".to_owned(),
            database: "tempdb".to_owned(),
            name: format!("~changed:{}.{}", self.trigger_level(), event.word()),
            columns: vec![column],
            kind: TableKind::Table,
        })
    }

    /// Begins to note the rows that a statement inserts or updates; false if no condition of the
    /// table needs it.
    pub(super) fn note_rows(&mut self, table: &Table, events: &[(Event, Changed)]) -> Result<bool> {
        let writes = written(events).next().is_some();
        let concerned = |(_, condition): &(String, Expr)| {
            written(events).any(|(_, changed)| concerns(condition, changed))
        };
        if !writes || !self.checks_of(table)?.iter().any(concerned) {
            return Ok(false);
        }
        for (event, _) in written(events) {
            let into = self.numbers(event);
            let (own, name, word, on) = (into.sql(), self.noter(event), event.word(), table.sql());
            self.check_sql(&format!(
                "DROP TABLE IF EXISTS {own}; CREATE TABLE {own} (\"{NUMBER}\" INTEGER); \
                 CREATE TEMP TRIGGER {name} AFTER {word} ON {on} BEGIN INSERT INTO {} VALUES \
                 (NEW.{ROW_ID}); END",
                quote(&into.name)
            ))?;
        }
        Ok(true)
    }

    /// The temporary trigger that notes rows.
    fn noter(&self, event: Event) -> String {
        quote(&format!("~check:{}.{}", self.trigger_level(), event.word()))
    }

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
            let name = self.noter(event);
            self.check_sql(&format!("DROP TRIGGER temp.{name}"))?;
        }
        let verb = match events {
            [(Event::Insert, _)] => "INSERT",
            [(Event::Update, _)] => "UPDATE",
            _ => "MERGE",
        };
        let table = Arc::new(table.clone());
        let checks = self.checks_of(&table)?;
        for (event, changed) in written(events) {
            let among = self.numbers(event);
            for (name, condition) in checks.iter().filter(|(_, own)| concerns(own, changed)) {
                let (signal, violated) = self.violates(&table, condition, Some(&among))?;
                if violated {
                    return Err(self.violated_check(verb, name, &table));
                }
                if signal == Signal::Stop {
                    return Ok(signal);
                }
            }
            self.check_sql(&format!("DROP TABLE {}", among.sql()))?;
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
        let plan = self.violating(table, condition, &[], among)?;
        self.admit_plan(&plan.needs)?;
        let (signal, rows) = self.query(&plan, &Frame::empty(), &mut |_, _| Ok(Signal::Break))?;
        Ok((signal, rows > 0))
    }

    fn violating(
        &mut self,
        table: &Arc<Table>,
        condition: &Expr,
        shown: &[&TableColumn],
        among: Option<&Arc<Table>>,
    ) -> Result<Rendered> {
        let database = table.database.as_str();
        let kernels = self.s.db.kernels.clone();
        let variables = Variables::default();
        let mut view = View { db: &mut self.s.db, database, identity_insert: None };
        let mut binder = Binder::new(&mut view, &variables);
        let query = binder.violating(table, condition, shown, among)?;
        let column = |own: &&TableColumn| Column {
            name: own.name.clone(),
            ty: own.ty,
            nullable: own.nullable,
            generated: tdekit_wire_tds::Generated::No,
            collation: own.collation,
        };
        let columns = shown.iter().map(column).collect();
        render::statement(&Statement::Query(query), columns, binder.take_needs(), &kernels)
    }

    /// Checks that a condition of a table is valid, and that the login may use its functions.
    pub(super) fn admit_check(
        &mut self,
        table: &Arc<Table>,
        (condition, text): (&Expr, &str),
    ) -> Result<()> {
        let plan = self.violating(table, condition, &[], None)?;
        self.admit_plan(&plan.needs)?;
        self.admit_kept(text, table)
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
        let plan = self.violating(table, condition, shown, None)?;
        let (mut rows, width) = (Vec::new(), shown.len());
        self.query(&plan, &Frame::empty(), &mut |_, row| {
            let values = (0..width).map(|at| row.get(at)).collect::<rusqlite::Result<Vec<_>>>();
            rows.push(values.map_err(super::data::internal)?);
            Ok(Signal::Next)
        })?;
        Ok(rows)
    }

    /// Refuses a target of OUTPUT INTO with such a condition.
    ///
    /// # Errors
    /// 333.
    pub(super) fn refuse_checked(&mut self, table: &Table) -> Result<()> {
        match self.checks_of(table)?.first() {
            Some((name, _)) => {
                let name = name.clone();
                let table = table.object_name();
                Err(tdekit_wire_tds::messages::TriggerError::OutputChecked { table, name }.into())
            }
            None => Ok(()),
        }
    }

    /// Refuses a foreign key that changes rows of a table with such a condition: nobody would check
    /// those.
    pub(super) fn refuse_changing_key(&mut self, table: &Table) -> Result<()> {
        let named = self.named_constraints(table)?;
        let held = |own: &Reference| {
            own.on_update != "NO ACTION"
                || matches!(own.on_delete.as_str(), "SET NULL" | "SET DEFAULT")
        };
        let found = named.iter().filter_map(|own| own.reference.as_ref()).any(held)
            || self.all_references(table)?.iter().any(held);
        match found {
            true => Err(Error::feature("a CHECK with functions beside a key that changes rows")),
            false => Ok(()),
        }
    }

    fn all_references(&mut self, table: &Table) -> Result<Vec<Reference>> {
        let kernels = self.s.db.kernels.clone();
        crate::run::catalog::facts::foreign_keys(self.s.db.connection()?, table)
            .map_err(|error| failure(&kernels, &error, &table.database))
    }

    /// Returns true if a table has such a condition, enabled or not.
    pub(super) fn has_checks(&mut self, table: &Table) -> Result<bool> {
        for named in self.named_constraints(table)?.iter().filter(|named| named.kind == "C") {
            let condition = crate::parse::check_condition(&named.text)?;
            if crate::bind::check::calls_functions(&condition) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_sql(&mut self, sql: &str) -> Result<()> {
        let kernels = self.s.db.kernels.clone();
        let result = self.s.db.connection()?.execute_batch(sql);
        result.map_err(|error| failure(&kernels, &error, "tempdb"))
    }
}
