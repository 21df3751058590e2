//! SELECT statements.

use tdekit_sqlite_client::Value;

use super::{Builder, Kind, POINT_VARIANTS, RANGE_VARIANTS, SCAN_ROWS, scan_expression};
use crate::derive::sample::{Drawn, Sampled, key_condition, key_list};
use crate::derive::schema::{ForeignKey, Table, quote};
use crate::job::{Operation, Variant};

impl Builder<'_> {
    pub(super) fn selects(&mut self, tables: &[Sampled]) {
        self.turn = 0;
        let table = &self.sampled.table;
        let (name, label) = (table.quoted(), table.name.clone());
        let by_key = self.variants(POINT_VARIANTS, |row| Some(row.key.clone()));
        let sql = format!("SELECT * FROM {name} WHERE {}", key_condition(table, 1));
        self.select(Kind::Key, format!("a row of {label} by its key"), sql, by_key);
        for (column, position) in self.index_columns() {
            let values = |row: &Drawn| {
                row.values.get(position).filter(|value| **value != Value::Null).cloned()
            };
            let quoted = quote(&column);
            let sql = format!("SELECT * FROM {name} WHERE {quoted} = ?1 LIMIT 100");
            let variants = self.variants(POINT_VARIANTS, |row| Some(vec![values(row)?]));
            let what = format!("rows of {label} by index on {column}");
            self.select(Kind::Index, what, sql, variants);
            let sql = format!(
                "SELECT count(*), min({quoted}), max({quoted}) FROM (SELECT {quoted} FROM {name} \
                 WHERE {quoted} >= ?1 ORDER BY {quoted} LIMIT 1000)"
            );
            let variants = self.variants(RANGE_VARIANTS, |row| Some(vec![values(row)?]));
            let what = format!("aggregate over 1,000 entries of the index on {column} of {label}");
            self.select(Kind::IndexRange, what, sql, variants);
        }
        self.select_ranges(tables);
    }

    fn select(&mut self, kind: Kind, what: String, sql: String, variants: Vec<Variant>) {
        let planned = self.plan(Operation::Select, what, sql, None, variants);
        self.push(kind, planned);
    }

    fn select_ranges(&mut self, tables: &[Sampled]) {
        let table = &self.sampled.table;
        let (name, label) = (table.quoted(), table.name.clone());
        let list = key_list(table);
        let numbers: Vec<String> =
            (1..=table.key.columns.len()).map(|number| format!("?{number}")).collect();
        let sql = format!(
            "SELECT * FROM {name} WHERE ({list}) >= ({}) ORDER BY {list} LIMIT 100",
            numbers.join(", ")
        );
        let variants = self.variants(RANGE_VARIANTS, |row| Some(row.key.clone()));
        let what = format!("100 rows of {label} from a key on");
        self.select(Kind::Range, what, sql, variants);
        for foreign_key in &table.foreign_keys {
            if let Some((what, sql)) = join(table, foreign_key, tables) {
                let variants = self
                    .variants(RANGE_VARIANTS, |row| row.key.first().cloned().map(|key| vec![key]));
                self.select(Kind::Join, what, sql, variants);
            }
        }
        if let Some((expression, column)) = scan_expression(self.sampled) {
            let sql = format!(
                "SELECT count(*), sum({expression}) FROM \
                 (SELECT {column} FROM {name} NOT INDEXED LIMIT {SCAN_ROWS})"
            );
            let what = format!("aggregate over all rows of {label}, up to 1,000,000");
            self.select(Kind::Scan, what, sql, vec![Variant::default()]);
        }
    }
}

/// Fifty rows with their parents.
fn join(table: &Table, foreign_key: &ForeignKey, tables: &[Sampled]) -> Option<(String, String)> {
    let parent = tables
        .iter()
        .map(|sampled| &sampled.table)
        .find(|other| other.name.eq_ignore_ascii_case(&foreign_key.parent))?;
    let targets = if foreign_key.parent_columns.is_empty() {
        &parent.key.columns
    } else {
        &foreign_key.parent_columns
    };
    if targets.len() != foreign_key.columns.len() {
        return None;
    }
    let terms: Vec<String> = foreign_key
        .columns
        .iter()
        .zip(targets)
        .map(|(own, target)| format!("parent.{} = child.{}", quote(target), quote(own)))
        .collect();
    let first = quote(table.key.columns.first()?);
    let sql = format!(
        "SELECT * FROM {} AS child JOIN {} AS parent ON {} WHERE child.{first} >= ?1 \
         ORDER BY child.{first} LIMIT 50",
        table.quoted(),
        parent.quoted(),
        terms.join(" AND ")
    );
    Some((format!("50 rows of {} with their {}", table.name, parent.name), sql))
}
