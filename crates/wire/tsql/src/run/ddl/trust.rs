//! Constraints that rows may violate: WITH NOCHECK, CHECK CONSTRAINT and NOCHECK CONSTRAINT.
//!
//! A disabled constraint is not in the table's text in SQLite; `tsql_unchecked` has the rest of a
//! foreign key's definition, and `tsql_constraint` the condition of a CHECK.

use std::sync::Arc;

use super::super::db::{Db, failure};
use super::Ddl;
use super::edit::set_text;
use super::foreign::{Parent, foreign_text, orphans};
use super::table::offered;
use super::text::TableText;
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::Table;
use crate::run::catalog::facts::foreign_keys;
use crate::run::catalog::model::{Named, Reference, SEPARATOR, Trust};
use crate::run::violated::conflict;

impl Ddl<'_> {
    /// Returns the constraints of these names, or all, that a statement enables or disables. The
    /// error of a name is the first of two: the statement ends with another.
    pub(super) fn switched(
        &mut self,
        table: &Table,
        names: &[String],
        (enable, check): (bool, bool),
    ) -> Result<std::result::Result<Vec<Named>, Error>> {
        let all = self.db.named_constraints(table)?;
        let may = |found: &&Named| matches!(found.kind.as_str(), "F" | "C");
        let mut wanted: Vec<Named> = Vec::new();
        for name in names {
            let same = |found: &&Named| found.name.eq_ignore_ascii_case(name);
            if let Some(found) = all.iter().filter(may).find(same) {
                wanted.push(found.clone());
                continue;
            }
            let known = self.has_constraint(table, name)?;
            let by_sqlite = known && !all.iter().any(|found| same(&found));
            if by_sqlite && enable && !check {
                // one of a table that SQLite made: it is enabled
                continue;
            }
            let name = name.clone();
            return Ok(Err(match known {
                _ if by_sqlite => {
                    Error::feature("a change of a constraint that T-SQL has not made")
                }
                true => Error::NoSwitch { name },
                false => Error::NoConstraint { name },
            }));
        }
        if names.is_empty() {
            wanted.extend(all.into_iter().filter(|found| may(&found)));
        }
        Ok(Ok(wanted))
    }

    pub(super) fn disable(&mut self, table: &Arc<Table>, found: &Named) -> Result<()> {
        if found.trust == Trust::Disabled {
            return Ok(());
        }
        let reference = match found.kind.as_str() {
            "F" => Some(self.reference_of(table, found)?),
            _ => None,
        };
        if !found.is_by_query()? {
            let sql = format!("ALTER TABLE {} DROP CONSTRAINT {}", table.sql(), quote(&found.name));
            self.db.sql(&sql, &table.database)?;
        }
        self.note_trust(table, &found.name, Trust::Disabled, reference.as_ref())
    }

    /// Returns the definition of a foreign key that SQLite enforces.
    fn reference_of(&mut self, table: &Table, found: &Named) -> Result<Reference> {
        let mut same = self.references_of(table, found)?.into_iter();
        match (same.next(), same.next()) {
            (Some(key), None) => Ok(key),
            _ => Err(Error::feature("NOCHECK CONSTRAINT of one of two keys of the same columns")),
        }
    }

    /// Returns the foreign keys of the same columns that SQLite enforces.
    pub(super) fn references_of(&mut self, table: &Table, found: &Named) -> Result<Vec<Reference>> {
        let kernels = self.db.kernels.clone();
        let keys = foreign_keys(self.db.connection()?, table)
            .map_err(|error| failure(&kernels, &error, &table.database))?;
        let own =
            |key: &Reference| key.columns.iter().map(|(from, _)| from).eq(found.columns.iter());
        Ok(keys.into_iter().filter(own).collect())
    }

    /// Enables a constraint. One that is by a query has been checked before, if it is to be.
    pub(super) fn enable(&mut self, table: &Arc<Table>, found: &Named, check: bool) -> Result<()> {
        if found.trust == Trust::Full {
            return Ok(());
        }
        let disabled = found.trust == Trust::Disabled;
        if found.is_by_query()? {
            // it is not in the table's text
        } else if found.kind == "C" {
            let condition = crate::parse::check_condition(&found.text)?;
            let condition = self.inline_condition(&condition, offered(&table.columns))?;
            if check {
                self.refuse_violations(table, &found.name, &condition)?;
            }
            if disabled {
                let text = format!("CONSTRAINT {} CHECK ({condition})", quote(&found.name));
                self.add_item(table, &text)?;
            }
        } else {
            let key = match &found.reference {
                Some(key) => key.clone(),
                None => self.reference_of(table, found)?,
            };
            if check {
                self.refuse_orphans(table, &found.name, &key)?;
            }
            if disabled {
                let action = |action: &str| (action != "NO ACTION").then(|| action.to_owned());
                let (delete, update) = (action(&key.on_delete), action(&key.on_update));
                let actions = [delete.as_deref(), update.as_deref()];
                let parents: Vec<String> =
                    key.columns.iter().filter_map(|(_, there)| there.clone()).collect();
                let text = foreign_text(&found.name, &found.columns, &key.table, &parents, actions);
                self.add_item(table, &text)?;
            }
        }
        let trust = if check { Trust::Full } else { Trust::Untrusted };
        self.note_trust(table, &found.name, trust, None)
    }

    /// Returns the query for rows that violate a foreign key; it reads `shown` of each.
    pub(super) fn orphans_of(
        &mut self,
        shown: &str,
        table: &Table,
        name: &str,
        key: &Reference,
    ) -> Result<String> {
        let there = self.db.stored(&table.schema, &table.database, &key.table)?;
        let there = there.ok_or_else(|| Error::ForeignTable {
            key: name.to_owned(),
            table: key.table.clone(),
        })?;
        let named: Vec<String> =
            key.columns.iter().filter_map(|(_, there)| there.clone()).collect();
        let columns = if named.is_empty() { self.primary_key(&there)? } else { named };
        let own: Vec<String> = key.columns.iter().map(|(from, _)| from.clone()).collect();
        let parent = Parent { name: there.name.clone(), columns };
        Ok(orphans(shown, table, &own, &there, &parent))
    }

    /// Fails with 547 if a row violates a condition.
    pub(super) fn refuse_violations(
        &mut self,
        table: &Table,
        name: &str,
        condition: &str,
    ) -> Result<()> {
        let violated = format!("SELECT 1 FROM {} WHERE ({condition}) IS FALSE", table.sql());
        if self.finds(&violated, table)? {
            return Err(conflict("ALTER TABLE", "CHECK", name, table, &[]));
        }
        Ok(())
    }

    /// Fails with 547 if a row violates a foreign key.
    fn refuse_orphans(&mut self, table: &Table, name: &str, key: &Reference) -> Result<()> {
        let orphans = self.orphans_of("1", table, name, key)?;
        if !self.finds(&orphans, table)? {
            return Ok(());
        }
        let there = self.db.stored(&table.schema, &table.database, &key.table)?;
        let columns: Vec<String> =
            key.columns.iter().filter_map(|(_, there)| there.clone()).collect();
        let there = there.as_deref().unwrap_or(table);
        Err(conflict("ALTER TABLE", "FOREIGN KEY", name, there, &columns))
    }

    /// Adds a constraint to the table's text; no row is read.
    pub(super) fn add_item(&mut self, table: &Table, item: &str) -> Result<()> {
        let sql = self.table_text(table)?;
        let mut text = TableText::parse(&sql).ok_or_else(|| {
            Error::feature("ALTER TABLE ADD to a table that is written in this way")
        })?;
        text.add(item);
        let schema = quote(&table.schema);
        self.edit_schema(table, None, |connection| {
            set_text(connection, &schema, table, &text.text())
        })
    }

    /// Notes what is known of a constraint.
    pub(super) fn note_trust(
        &mut self,
        table: &Table,
        name: &str,
        trust: Trust,
        key: Option<&Reference>,
    ) -> Result<()> {
        self.db.own_table(&table.schema, "tsql_unchecked")?;
        let own = quote(&table.schema);
        if trust == Trust::Full {
            let sql =
                format!("DELETE FROM {own}.tsql_unchecked WHERE table_name = ?1 AND name = ?2");
            return self.noted(&sql, [&table.name, name], table);
        }
        let kernels = self.db.kernels.clone();
        let disabled = trust == Trust::Disabled;
        let parents = key.map(|key| {
            let there = key.columns.iter().filter_map(|(_, there)| there.clone());
            there.collect::<Vec<_>>().join(&SEPARATOR.to_string())
        });
        let parent = key.map(|key| &key.table);
        let actions = (key.map(|key| &key.on_delete), key.map(|key| &key.on_update));
        let sql = format!(
            "INSERT OR REPLACE INTO {own}.tsql_unchecked VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
        );
        let with =
            rusqlite::params![table.name, name, disabled, parent, parents, actions.0, actions.1];
        let result = self.db.connection()?.execute(&sql, with);
        result.map(|_| ()).map_err(|error| failure(&kernels, &error, &table.database))
    }
}

impl Db {
    /// Makes SQLite ignore every CHECK, or heed them again.
    pub(in crate::run) fn ignore_checks(&mut self, on: bool, database: &str) -> Result<()> {
        let word = if on { "ON" } else { "OFF" };
        self.execute(&format!("PRAGMA ignore_check_constraints = {word}"), database)
    }
}
