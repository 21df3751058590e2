//! Candidate statements of each type.

mod read;
mod write;

use fastrand::Rng;
use rusqlite::{Connection, params_from_iter};
use tdekit_sqlite_client::Value;

use super::sample::{Drawn, Sampled, key_condition, key_list, read_drawn};
use super::schema::{Table, quote};
use super::{Candidate, Scans};
use crate::job::{Operation, Planned, Variant};

/// Sets of values of a statement on one row; a block runs a quarter of them.
const POINT_VARIANTS: usize = 4 * POINT_BLOCK;
const POINT_BLOCK: usize = 40;
/// Sets of values of a statement on several rows; a block runs a quarter of them.
const RANGE_VARIANTS: usize = 4 * RANGE_BLOCK;
const RANGE_BLOCK: usize = 8;
/// Maximum number of rows that a range or an index condition changes.
const RANGE_ROWS: usize = 50;
/// Maximum number of rows that a full scan statement reads.
const SCAN_ROWS: u32 = 1_000_000;

/// How a statement finds its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One row by its key.
    Key,
    /// Rows by a secondary index.
    Index,
    /// A range of keys.
    Range,
    /// A range of an index.
    IndexRange,
    /// A range of rows with their parents.
    Join,
    /// All rows.
    Scan,
    /// One row by its key, changing an indexed column.
    IndexedColumn,
}

struct Builder<'a> {
    connection: &'a Connection,
    sampled: &'a Sampled,
    candidates: Vec<(usize, Candidate)>,
    /// Order among candidates of the same table.
    turn: usize,
}

/// A way for a statement to find rows.
struct Finder {
    kind: Kind,
    /// Such as `a row of T by its key`.
    what: String,
    /// The indexed column.
    column: Option<String>,
    /// Values of the condition, with the rows that it finds.
    sets: Vec<(Vec<Value>, Vec<Drawn>)>,
}

impl Finder {
    /// The condition, its parameters counted from `first`.
    fn condition(&self, table: &Table, first: usize) -> String {
        match (&self.column, self.kind) {
            (Some(column), _) => format!("{} = ?{first}", quote(column)),
            (None, Kind::Range) => {
                format!("{} BETWEEN ?{first} AND ?{}", key_list(table), first + 1)
            }
            (None, _) => key_condition(table, first),
        }
    }
}

/// Returns every candidate, alternating between tables, the largest table first. Statements that
/// cannot be derived because they need a collation or function of the application are noted.
pub(super) fn candidates(
    connection: &Connection,
    tables: &[Sampled],
    rng: &mut Rng,
    notes: &mut Vec<String>,
) -> Vec<Candidate> {
    let mut all = Vec::new();
    for sampled in tables {
        let mut builder = Builder { connection, sampled, candidates: Vec::new(), turn: 0 };
        builder.selects(tables);
        let name = &sampled.table.name;
        for (operation, derived) in [
            ("insert", builder.inserts(rng)),
            ("update", builder.updates(rng)),
            ("delete", builder.deletes()),
        ] {
            notes.extend(
                derived.err().map(|error| format!("Not every {operation} on {name}: {error}.")),
            );
        }
        all.extend(builder.candidates);
    }
    // Stable: within a turn the tables keep their order.
    all.sort_by_key(|(turn, _)| *turn);
    all.into_iter().map(|(_, candidate)| candidate).collect()
}

/// `REINDEX` of every index.
pub(super) fn reindex(tables: &[Table]) -> Vec<Planned> {
    let indexes = tables.iter().flat_map(|table| {
        table
            .indexes
            .iter()
            // The primary key of a table without rowid is the table itself, not an index.
            .filter(|index| !index.primary || table.key.rowid)
            .map(move |index| (table, index))
    });
    indexes
        .map(|(table, index)| Planned {
            operation: Operation::Reindex,
            table: table.name.clone(),
            what: format!("rebuild index {}", index.name),
            sql: format!("REINDEX main.{}", quote(&index.name)),
            undo_sql: None,
            variants: vec![Variant::default()],
            per_block: 1,
        })
        .collect()
}

/// Scans of the largest table.
pub(super) fn scans(tables: &[Sampled]) -> Option<Scans> {
    let largest = tables.first()?;
    let table = &largest.table;
    let (expression, _) = scan_expression(largest)?;
    let name = table.quoted();
    Some(Scans {
        table: table.name.clone(),
        rows: table.rows,
        sum_sql: format!("SELECT sum({expression}) FROM {name} NOT INDEXED"),
        count_sql: format!("SELECT count(*) FROM {name}"),
    })
}

/// Returns an expression to sum over a table, and the column in it: a number if a column has one,
/// outside every index if possible, else a length.
fn scan_expression(sampled: &Sampled) -> Option<(String, String)> {
    let numeric = |index: usize| {
        sampled
            .rows
            .iter()
            .all(|row| matches!(row.values.get(index), Some(Value::Int(_) | Value::Real(_))))
    };
    let columns: Vec<(usize, &str)> =
        sampled.table.writable().map(|column| column.name.as_str()).enumerate().collect();
    let best = columns.iter().rev().min_by_key(|(index, name)| {
        (!numeric(*index), sampled.table.is_indexed(name), sampled.table.is_unique(name))
    })?;
    let quoted = quote(best.1);
    let expression = if numeric(best.0) { quoted.clone() } else { format!("length({quoted})") };
    Some((expression, quoted))
}

impl Builder<'_> {
    fn push(&mut self, kind: Kind, planned: Planned) {
        if !planned.variants.is_empty() {
            self.candidates.push((self.turn, Candidate { kind, planned }));
            self.turn += 1;
        }
    }

    fn plan(
        &self,
        operation: Operation,
        what: String,
        sql: String,
        undo_sql: Option<String>,
        variants: Vec<Variant>,
    ) -> Planned {
        let table = self.sampled.table.name.clone();
        let several = variants.iter().any(|variant| variant.undo.len() > 1);
        let per_block =
            if several || variants.len() <= RANGE_VARIANTS { RANGE_BLOCK } else { POINT_BLOCK };
        Planned { operation, table, what, sql, undo_sql, variants, per_block }
    }

    /// Returns one variant for each of the first drawn rows that have one.
    fn variants(&self, most: usize, make: impl Fn(&Drawn) -> Option<Vec<Value>>) -> Vec<Variant> {
        let made = self.sampled.rows.iter().filter_map(make).take(most);
        made.map(|parameters| Variant { parameters, undo: Vec::new() }).collect()
    }

    fn position(&self, column: &str) -> Option<usize> {
        self.sampled.table.writable().position(|own| own.name == column)
    }

    /// Returns the leading columns of the secondary indexes without duplicates, with their position
    /// in a drawn row.
    fn index_columns(&self) -> Vec<(String, usize)> {
        let mut columns: Vec<(String, usize)> = Vec::new();
        for index in self.sampled.table.indexes.iter().filter(|index| !index.partial) {
            if let Some(Some(column)) = index.columns.first()
                && let Some(position) = self.position(column)
                && !columns.iter().any(|(known, _)| known == column)
            {
                columns.push((column.clone(), position));
            }
        }
        columns
    }

    /// Single rows by their keys.
    fn by_key(&self) -> Finder {
        let rows = self.sampled.rows.iter().take(POINT_VARIANTS);
        Finder {
            kind: Kind::Key,
            what: format!("a row of {} by its key", self.sampled.table.name),
            column: None,
            sets: rows.map(|row| (row.key.clone(), vec![row.clone()])).collect(),
        }
    }

    /// Ranges of a single-column key, starting at drawn rows: first and last key. No range for a
    /// key of several columns.
    fn by_range(&self) -> rusqlite::Result<Finder> {
        let table = &self.sampled.table;
        let key = key_list(table);
        // At most half of a small table, so that the other half remains.
        let most = (table.rows / 2).clamp(1, RANGE_ROWS as u64);
        let sql = format!(
            "SELECT {} FROM {} WHERE {key} >= ?1 ORDER BY {key} LIMIT {most}",
            Sampled::row_columns(table),
            table.quoted()
        );
        let from = if table.key.columns.len() == 1 { RANGE_VARIANTS } else { 0 };
        let mut sets = Vec::new();
        for row in self.sampled.rows.iter().take(from) {
            let Some(rows) = self.rows_of(&sql, &row.key)? else { continue };
            if let Some((first, last)) = rows.first().zip(rows.last()) {
                sets.push(([first.key.clone(), last.key.clone()].concat(), rows));
            }
        }
        let what = format!("up to {RANGE_ROWS} rows of {} by key range", table.name);
        Ok(Finder { kind: Kind::Range, what, column: None, sets })
    }

    /// Values of an indexed column, at this position in a drawn row, that few rows share.
    fn by_index(&self, (column, position): (String, usize)) -> rusqlite::Result<Finder> {
        let table = &self.sampled.table;
        let sql = format!(
            "SELECT {} FROM {} WHERE {} = ?1 LIMIT {}",
            Sampled::row_columns(table),
            table.quoted(),
            quote(&column),
            RANGE_ROWS + 1
        );
        let mut sets: Vec<(Vec<Value>, Vec<Drawn>)> = Vec::new();
        let values = self.sampled.rows.iter().filter_map(|row| row.values.get(position));
        for value in values.filter(|value| **value != Value::Null) {
            let value = std::slice::from_ref(value);
            if sets.len() == RANGE_VARIANTS || sets.iter().any(|(known, _)| known == value) {
                continue;
            }
            if let Some(rows) = self.rows_of(&sql, value)?
                && (1..=RANGE_ROWS).contains(&rows.len())
            {
                sets.push((value.to_vec(), rows));
            }
        }
        let what = format!("rows of {} by index on {column}", table.name);
        Ok(Finder { kind: Kind::Index, what, column: Some(column), sets })
    }

    /// Returns the rows of a query; `None` if one is too large.
    fn rows_of(&self, sql: &str, values: &[Value]) -> rusqlite::Result<Option<Vec<Drawn>>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params_from_iter(values))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            match read_drawn(row, self.sampled.table.key.columns.len())? {
                Some(drawn) => rows.push(drawn),
                None => return Ok(None),
            }
        }
        Ok(Some(rows))
    }
}
