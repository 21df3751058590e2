//! INSERT, UPDATE and DELETE statements, each with its undo statement.

use fastrand::Rng;
use tdekit_sqlite_client::Value;

use super::{Builder, Finder, Kind, POINT_VARIANTS};
use crate::derive::change::{different, fresh};
use crate::derive::sample::{Drawn, key_condition};
use crate::derive::schema::{Table, quote};
use crate::job::{Operation, Planned, Variant};

impl Builder<'_> {
    /// Copies of drawn rows under new keys.
    pub(super) fn inserts(&mut self, rng: &mut Rng) -> rusqlite::Result<()> {
        self.turn = 0;
        let table = &self.sampled.table;
        let columns = insert_columns(table);
        let undo = format!("DELETE FROM {} WHERE {}", table.quoted(), key_condition(table, 1));
        let sql = insert_sql(table, &columns);
        let mut last: Vec<i64> =
            columns.iter().map(|column| self.greatest(column)).collect::<rusqlite::Result<_>>()?;
        for round in 0..5 {
            let variants: Vec<Variant> = self
                .sampled
                .rows
                .iter()
                .cycle()
                .skip(round * POINT_VARIANTS)
                .take(POINT_VARIANTS)
                .filter_map(|row| copy_row(table, &columns, row, &mut last, rng))
                .collect();
            let what = format!("a row like another into {}", table.name);
            let planned =
                self.plan(Operation::Insert, what, sql.clone(), Some(undo.clone()), variants);
            self.push(Kind::Key, planned);
        }
        Ok(())
    }

    /// Returns the maximum integer in a column, 0 if there is none.
    fn greatest(&self, column: &str) -> rusqlite::Result<i64> {
        let column = quote(column);
        let sql = format!(
            "SELECT max({column}) FROM {} WHERE typeof({column}) = 'integer'",
            self.sampled.table.quoted()
        );
        let greatest: Option<i64> = self.connection.query_row(&sql, [], |row| row.get(0))?;
        Ok(greatest.unwrap_or(0))
    }

    pub(super) fn updates(&mut self, rng: &mut Rng) -> rusqlite::Result<()> {
        self.turn = 0;
        let table = &self.sampled.table;
        let (plain, indexed): (Vec<(usize, String)>, Vec<_>) = table
            .writable()
            .enumerate()
            .filter(|(_, column)| !table.is_unique(&column.name))
            .map(|(position, column)| (position, column.name.clone()))
            .partition(|(_, name)| !table.is_indexed(name));
        let by_key = self.by_key();
        for round in 0..4 {
            for (kind, columns) in [(Kind::Key, &plain), (Kind::IndexedColumn, &indexed)] {
                if let Some(column) = columns.get(round % columns.len().max(1)) {
                    let planned = self.update(column, &by_key, rng);
                    self.push(kind, planned);
                }
            }
        }
        let Some(column) = plain.first().or(indexed.first()) else { return Ok(()) };
        let planned = self.update(column, &self.by_range()?, rng);
        self.push(Kind::Range, planned);
        for indexed in self.index_columns() {
            // A condition on the changed column would not find the rows again.
            if indexed.0 != column.1 {
                let planned = self.update(column, &self.by_index(indexed)?, rng);
                self.push(Kind::Index, planned);
            }
        }
        Ok(())
    }

    /// Returns another row's value of the same column, so that checks and foreign keys hold; a
    /// changed one if all drawn rows are equal.
    fn other_value(&self, position: usize, old: &Value, rng: &mut Rng) -> Value {
        let rows = &self.sampled.rows;
        let start = rng.usize(..rows.len());
        rows.iter()
            .cycle()
            .skip(start)
            .take(rows.len())
            .filter_map(|row| row.values.get(position))
            .find(|value| *value != old)
            .cloned()
            .unwrap_or_else(|| different(old, rng))
    }

    /// Adds an update of one column of the rows that are found in this way; its undo sets each row
    /// by its key.
    fn update(
        &self,
        (position, column): &(usize, String),
        finder: &Finder,
        rng: &mut Rng,
    ) -> Planned {
        let table = &self.sampled.table;
        let set = |condition: String| {
            format!("UPDATE {} SET {} = ?1 WHERE {condition}", table.quoted(), quote(column))
        };
        let mut variants = Vec::new();
        for (condition, rows) in &finder.sets {
            let old = rows.first().and_then(|row| row.values.get(*position));
            let new = self.other_value(*position, old.unwrap_or(&Value::Null), rng);
            let parameters = std::iter::once(new).chain(condition.iter().cloned()).collect();
            variants.push(Variant { parameters, undo: old_values(*position, rows) });
        }
        let what = format!("{column} of {}", finder.what);
        let (sql, undo) = (set(finder.condition(table, 2)), set(key_condition(table, 2)));
        self.plan(Operation::Update, what, sql, Some(undo), variants)
    }

    pub(super) fn deletes(&mut self) -> rusqlite::Result<()> {
        self.turn = 0;
        let table = &self.sampled.table;
        let undo = insert_sql(table, &insert_columns(table));
        let mut finders = vec![self.by_key(), self.by_range()?];
        for indexed in self.index_columns() {
            finders.push(self.by_index(indexed)?);
        }
        for finder in finders {
            let sql =
                format!("DELETE FROM {} WHERE {}", table.quoted(), finder.condition(table, 1));
            let variant = |(parameters, rows): (Vec<Value>, Vec<Drawn>)| {
                let undo = rows.iter().map(|row| insert_values(table, row)).collect();
                Variant { parameters, undo }
            };
            let variants = finder.sets.into_iter().map(variant).collect();
            let planned =
                self.plan(Operation::Delete, finder.what, sql, Some(undo.clone()), variants);
            self.push(finder.kind, planned);
        }
        Ok(())
    }
}

/// Returns the undo values of an update: the old value, then the key.
fn old_values(position: usize, rows: &[Drawn]) -> Vec<Vec<Value>> {
    rows.iter()
        .filter_map(|row| {
            let old = row.values.get(position)?.clone();
            Some(std::iter::once(old).chain(row.key.iter().cloned()).collect())
        })
        .collect()
}

/// Columns of an INSERT of a whole row, with a hidden key first.
fn insert_columns(table: &Table) -> Vec<String> {
    let hidden = table.key.columns.iter().filter(|_| table.key.hidden).cloned();
    hidden.chain(table.writable().map(|column| column.name.clone())).collect()
}

/// Values of [`insert_columns`].
fn insert_values(table: &Table, row: &Drawn) -> Vec<Value> {
    let hidden = row.key.iter().filter(|_| table.key.hidden);
    hidden.chain(&row.values).cloned().collect()
}

fn insert_sql(table: &Table, columns: &[String]) -> String {
    let names: Vec<String> = columns.iter().map(|name| quote(name)).collect();
    let numbers: Vec<String> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
    format!("INSERT INTO {}({}) VALUES ({})", table.quoted(), names.join(", "), numbers.join(", "))
}

/// A drawn row under a new key, with a fresh value in one column of each unique index.
fn copy_row(
    table: &Table,
    columns: &[String],
    row: &Drawn,
    last: &mut [i64],
    rng: &mut Rng,
) -> Option<Variant> {
    let mut values = insert_values(table, row);
    let place = |name: &String| columns.iter().position(|column| column == name);
    let mut changed: Vec<usize> = Vec::new();
    let mut unique: Vec<Vec<usize>> = vec![table.key.columns.iter().filter_map(place).collect()];
    unique.extend(
        table
            .indexes
            .iter()
            .filter(|index| index.unique)
            .map(|index| index.columns.iter().flatten().filter_map(place).collect()),
    );
    let is_reference =
        |index: usize| table.foreign_keys.iter().any(|key| key.columns.contains(&columns[index]));
    for group in unique {
        if group.iter().any(|index| changed.contains(index)) {
            continue;
        }
        // A foreign key's column must keep a parent's value, if another can change instead.
        let best = group
            .into_iter()
            .filter(|index| values[*index] != Value::Null)
            .min_by_key(|index| is_reference(*index));
        if let Some(index) = best {
            values[index] = fresh(&values[index], last.get_mut(index)?, rng)?;
            changed.push(index);
        }
    }
    let key = table
        .key
        .columns
        .iter()
        .map(|name| place(name).map(|index| values[index].clone()))
        .collect::<Option<Vec<Value>>>()?;
    Some(Variant { parameters: values, undo: vec![key] })
}
