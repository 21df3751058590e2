//! Rows of a table, drawn at random.

use fastrand::Rng;
use rusqlite::{Connection, Row, params_from_iter};
use tdekit_sqlite_client::Value;

use super::schema::{Table, quote};

/// Number of rows drawn of each table.
const ROWS: usize = 480;
/// Number of tables from which statements are derived: the largest.
const TABLES: usize = 12;
/// Maximum size of a drawn row; statements are sent to workers as text.
const ROW_BYTES: usize = 64 * 1024;

/// A table with drawn rows, at least one.
#[derive(Debug)]
pub(super) struct Sampled {
    pub(super) table: Table,
    pub(super) rows: Vec<Drawn>,
    /// Rows times the drawn rows' mean size.
    pub(super) bytes: usize,
}

/// A row: its key and its writable columns, in the table's order.
#[derive(Debug, Clone)]
pub(super) struct Drawn {
    pub(super) key: Vec<Value>,
    pub(super) values: Vec<Value>,
}

impl Drawn {
    fn size(&self) -> usize {
        self.values.iter().map(size).sum()
    }
}

/// Returns the approximate size of a value in bytes.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Int(_) | Value::Real(_) => 8,
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len() * 2,
    }
}

impl Sampled {
    /// Columns of a [`Drawn`]: key, then writable ones.
    pub(super) fn row_columns(table: &Table) -> String {
        let key = table.key.columns.iter().map(|name| quote(name));
        let own = table.writable().map(|column| quote(&column.name));
        key.chain(own).collect::<Vec<_>>().join(", ")
    }
}

/// Condition `key = ?n` for a single row, parameters counted from `first`.
pub(super) fn key_condition(table: &Table, first: usize) -> String {
    let terms: Vec<String> = (first..)
        .zip(&table.key.columns)
        .map(|(number, name)| format!("{} = ?{number}", quote(name)))
        .collect();
    terms.join(" AND ")
}

/// The key's columns as one expression for comparing and sorting.
pub(super) fn key_list(table: &Table) -> String {
    table.key.columns.iter().map(|name| quote(name)).collect::<Vec<_>>().join(", ")
}

/// Draws rows of the largest tables, largest first.
pub(super) fn tables(
    connection: &Connection,
    tables: Vec<Table>,
    rng: &mut Rng,
    notes: &mut Vec<String>,
) -> rusqlite::Result<Vec<Sampled>> {
    let mut sampled = Vec::new();
    for table in tables {
        let rows = match draw(connection, &table, rng) {
            Ok(rows) => rows,
            Err(error) => {
                notes.push(format!("Table {} is left out: {error}.", table.name));
                continue;
            }
        };
        if rows.is_empty() {
            notes.push(format!("Table {} is left out: its rows are too large.", table.name));
            continue;
        }
        let mean = rows.iter().map(Drawn::size).sum::<usize>() / rows.len();
        let bytes = usize::try_from(table.rows).unwrap_or(usize::MAX).saturating_mul(mean.max(1));
        sampled.push(Sampled { table, rows, bytes });
    }
    sampled.sort_by(|one, other| {
        other.bytes.cmp(&one.bytes).then_with(|| one.table.name.cmp(&other.table.name))
    });
    if sampled.len() > TABLES {
        notes.push(format!(
            "Statements are derived from the {TABLES} largest of {} tables.",
            sampled.len()
        ));
        sampled.truncate(TABLES);
    }
    Ok(sampled)
}

fn draw(connection: &Connection, table: &Table, rng: &mut Rng) -> rusqlite::Result<Vec<Drawn>> {
    let keys = if table.key.rowid && table.rows > 10 * ROWS as u64 {
        probe_rowids(connection, table, rng)?
    } else {
        scan_keys(connection, table, rng)?
    };
    let sql = format!(
        "SELECT {} FROM {} WHERE {}",
        Sampled::row_columns(table),
        table.quoted(),
        key_condition(table, 1)
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = Vec::with_capacity(keys.len());
    for key in keys {
        let mut found = statement.query(params_from_iter(&key))?;
        if let Some(row) = found.next()?
            && let Some(drawn) = read_drawn(row, table.key.columns.len())?
        {
            rows.push(drawn);
        }
    }
    Ok(rows)
}

/// Reads a row of [`Sampled::row_columns`]; `None` if it is too large.
pub(super) fn read_drawn(row: &Row<'_>, key_columns: usize) -> rusqlite::Result<Option<Drawn>> {
    let mut values = Vec::new();
    let mut bytes = 0;
    for index in 0..row.as_ref().column_count() {
        let value = Value::from(row.get_ref(index)?);
        bytes += size(&value);
        if bytes > ROW_BYTES {
            return Ok(None);
        }
        values.push(value);
    }
    let own = values.split_off(key_columns.min(values.len()));
    Ok(Some(Drawn { key: values, values: own }))
}

/// The next row at or after random rowids; repeated ones are dropped.
fn probe_rowids(
    connection: &Connection,
    table: &Table,
    rng: &mut Rng,
) -> rusqlite::Result<Vec<Vec<Value>>> {
    let key = key_list(table);
    let name = table.quoted();
    let (low, high): (i64, i64) =
        connection.query_row(&format!("SELECT min({key}), max({key}) FROM {name}"), [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let mut next = connection
        .prepare(&format!("SELECT {key} FROM {name} WHERE {key} >= ?1 ORDER BY {key} LIMIT 1"))?;
    let mut found = Vec::with_capacity(ROWS);
    for _ in 0..ROWS {
        found.push(next.query_row([rng.i64(low..=high)], |row| row.get::<_, i64>(0))?);
    }
    found.sort_unstable();
    found.dedup();
    rng.shuffle(&mut found);
    Ok(found.into_iter().map(|rowid| vec![Value::Int(rowid)]).collect())
}

/// A reservoir over all keys.
fn scan_keys(
    connection: &Connection,
    table: &Table,
    rng: &mut Rng,
) -> rusqlite::Result<Vec<Vec<Value>>> {
    let sql = format!("SELECT {} FROM {}", key_list(table), table.quoted());
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut kept: Vec<Vec<Value>> = Vec::with_capacity(ROWS);
    let mut seen = 0_usize;
    while let Some(row) = rows.next()? {
        let key: Vec<Value> = (0..table.key.columns.len())
            .map(|index| row.get_ref(index).map(Value::from))
            .collect::<rusqlite::Result<_>>()?;
        seen += 1;
        if kept.len() < ROWS {
            kept.push(key);
        } else {
            let place = rng.usize(..seen);
            if let Some(slot) = kept.get_mut(place) {
                *slot = key;
            }
        }
    }
    rng.shuffle(&mut kept);
    Ok(kept)
}
