//! INSERT, UPDATE and DELETE statements, each with what takes it back.

use fastrand::Rng;

use super::{Builder, Kind, POINT_VARIANTS, RANGE_ROWS};
use crate::derive::change::{different, fresh};
use crate::derive::sample::{Drawn, key_condition, key_list};
use crate::derive::schema::{Table, quote};
use crate::job::{Operation, Planned, Variant};
use crate::value::Value;

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

    /// Greatest integer in a column, 0 without one.
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
        let groups = [(Kind::Key, &plain), (Kind::IndexedColumn, &indexed)];
        for round in 0..4 {
            for (kind, columns) in groups {
                if let Some((position, column)) = columns.get(round % columns.len().max(1)) {
                    let planned = self.update_by_key(*position, column, rng);
                    self.push(kind, planned);
                }
            }
        }
        let Some((position, column)) = plain.first().or(indexed.first()) else { return Ok(()) };
        let planned = self.update_range(*position, column, rng)?;
        self.push(Kind::Range, planned);
        for (condition, place) in self.index_columns() {
            // A condition on the changed column would not find the rows again.
            if condition != *column {
                let planned = self.update_by_index(*position, column, (&condition, place), rng)?;
                self.push(Kind::Index, planned);
            }
        }
        Ok(())
    }

    /// Another row's value of the same column, so that checks and foreign keys hold; a changed one
    /// when all drawn rows are alike.
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

    fn set(&self, column: &str, condition: &str) -> String {
        let (table, column) = (self.sampled.table.quoted(), quote(column));
        format!("UPDATE {table} SET {column} = ?1 WHERE {condition}")
    }

    fn set_by_key(&self, column: &str) -> String {
        self.set(column, &key_condition(&self.sampled.table, 2))
    }

    fn update_by_key(&self, position: usize, column: &str, rng: &mut Rng) -> Planned {
        let sql = self.set_by_key(column);
        let mut variants = Vec::new();
        for row in self.sampled.rows.iter().take(POINT_VARIANTS) {
            let Some(old) = row.values.get(position) else { continue };
            let with_key = |value: Value| {
                std::iter::once(value).chain(row.key.iter().cloned()).collect::<Vec<_>>()
            };
            let parameters = with_key(self.other_value(position, old, rng));
            variants.push(Variant { parameters, undo: vec![with_key(old.clone())] });
        }
        let what = format!("{column} of a row of {} by its key", self.sampled.table.name);
        self.plan(Operation::Update, what, sql.clone(), Some(sql), variants)
    }

    fn update_range(
        &self,
        position: usize,
        column: &str,
        rng: &mut Rng,
    ) -> rusqlite::Result<Planned> {
        let table = &self.sampled.table;
        let groups =
            self.key_ranges()?.into_iter().map(|(low, high, rows)| (vec![low, high], rows));
        let variants = self.updates_of(position, groups, rng);
        let sql = self.set(column, &format!("{} BETWEEN ?2 AND ?3", key_list(table)));
        let what = format!("{column} of up to {RANGE_ROWS} rows of {} by key range", table.name);
        Ok(self.plan(Operation::Update, what, sql, Some(self.set_by_key(column)), variants))
    }

    fn update_by_index(
        &self,
        position: usize,
        column: &str,
        condition: (&str, usize),
        rng: &mut Rng,
    ) -> rusqlite::Result<Planned> {
        let table = &self.sampled.table;
        let groups = self.index_groups(condition)?;
        let groups = groups.into_iter().map(|(value, rows)| (vec![value], rows));
        let variants = self.updates_of(position, groups, rng);
        let sql = self.set(column, &format!("{} = ?2", quote(condition.0)));
        let what = format!("{column} of rows of {} by index on {}", table.name, condition.0);
        Ok(self.plan(Operation::Update, what, sql, Some(self.set_by_key(column)), variants))
    }

    /// A variant for each condition's values: another value for its rows, and the old ones back.
    fn updates_of(
        &self,
        position: usize,
        groups: impl Iterator<Item = (Vec<Value>, Vec<Drawn>)>,
        rng: &mut Rng,
    ) -> Vec<Variant> {
        let variant = |(condition, rows): (Vec<Value>, Vec<Drawn>)| {
            let old = rows.first().and_then(|row| row.values.get(position)).unwrap_or(&Value::Null);
            let new = self.other_value(position, old, rng);
            let parameters = std::iter::once(new).chain(condition).collect();
            Variant { parameters, undo: old_values(position, &rows) }
        };
        groups.map(variant).collect()
    }

    pub(super) fn deletes(&mut self) -> rusqlite::Result<()> {
        self.turn = 0;
        let table = &self.sampled.table;
        let (name, label) = (table.quoted(), table.name.clone());
        let columns = insert_columns(table);
        let undo_sql = Some(insert_sql(table, &columns));
        let whole = |row: &Drawn| insert_values(table, row);
        let all = |rows: &[Drawn]| rows.iter().map(whole).collect();
        let sql = format!("DELETE FROM {name} WHERE {}", key_condition(table, 1));
        let rows = self.sampled.rows.iter().take(POINT_VARIANTS);
        let variants = rows
            .map(|row| Variant { parameters: row.key.clone(), undo: vec![whole(row)] })
            .collect();
        let what = format!("a row of {label} by its key");
        let by_key = self.plan(Operation::Delete, what, sql, undo_sql.clone(), variants);
        let ranges = self.key_ranges()?;
        let variants = ranges
            .into_iter()
            .map(|(low, high, rows)| Variant { parameters: vec![low, high], undo: all(&rows) })
            .collect();
        let key = key_list(table);
        let sql = format!("DELETE FROM {name} WHERE {key} BETWEEN ?1 AND ?2");
        let what = format!("up to {RANGE_ROWS} rows of {label} by key range");
        let range = self.plan(Operation::Delete, what, sql, undo_sql.clone(), variants);
        let mut by_index = Vec::new();
        for (column, position) in self.index_columns() {
            let groups = self.index_groups((&column, position))?;
            let variants = groups
                .into_iter()
                .map(|(value, rows)| Variant { parameters: vec![value], undo: all(&rows) })
                .collect();
            let sql = format!("DELETE FROM {name} WHERE {} = ?1", quote(&column));
            let what = format!("rows of {label} by index on {column}");
            by_index.push(self.plan(Operation::Delete, what, sql, undo_sql.clone(), variants));
        }
        self.push(Kind::Key, by_key);
        self.push(Kind::Range, range);
        by_index.into_iter().for_each(|planned| self.push(Kind::Index, planned));
        Ok(())
    }
}

/// Undo values of an update: the old value, then the key.
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
