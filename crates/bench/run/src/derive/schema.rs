//! Tables, columns, keys, indexes and foreign keys of a database.

use rusqlite::types::Type;
use rusqlite::{Connection, Row};

/// The tables of a database, and notes on excluded ones.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) tables: Vec<Table>,
    pub(super) notes: Vec<String>,
}

/// An ordinary table with at least one row.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) rows: u64,
    pub(super) columns: Vec<Column>,
    pub(super) key: Key,
    pub(super) indexes: Vec<Index>,
    pub(super) foreign_keys: Vec<ForeignKey>,
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    /// True if computed by SQLite, and so not writable.
    pub(super) generated: bool,
}

/// The key that identifies a row.
#[derive(Debug)]
pub(super) struct Key {
    /// Column names; for a rowid without a named column, one of its built-in names.
    pub(super) columns: Vec<String>,
    /// True if the key is the rowid, an integer.
    pub(super) rowid: bool,
    /// True if the key is the rowid and no column shows it.
    pub(super) hidden: bool,
}

#[derive(Debug)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) unique: bool,
    pub(super) partial: bool,
    /// Names of the indexed columns, `None` for an expression.
    pub(super) columns: Vec<Option<String>>,
    /// True if created by `PRIMARY KEY`.
    pub(super) primary: bool,
}

#[derive(Debug)]
pub(super) struct ForeignKey {
    pub(super) parent: String,
    pub(super) columns: Vec<String>,
    /// Referenced columns; empty for the parent's primary key.
    pub(super) parent_columns: Vec<String>,
}

/// Returns an identifier as SQL.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Table {
    pub(super) fn quoted(&self) -> String {
        quote(&self.name)
    }

    /// Returns the columns that a statement may write, including the key's.
    pub(super) fn writable(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| !column.generated)
    }

    /// Returns true if an index other than a partial one begins with `column`.
    pub(super) fn is_indexed(&self, column: &str) -> bool {
        self.indexes.iter().any(|index| index.columns.iter().flatten().any(|name| name == column))
    }

    /// Returns true if a unique index or the key contains `column`.
    pub(super) fn is_unique(&self, column: &str) -> bool {
        self.key.columns.iter().any(|name| name == column)
            || self
                .indexes
                .iter()
                .any(|index| index.unique && index.columns.iter().flatten().any(|n| n == column))
    }
}

/// Reads the main schema. Views, virtual tables with their shadow tables, and SQLite's own tables
/// are excluded; so are tables without rows.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<Schema> {
    let mut schema = Schema::default();
    let mut list = connection.prepare(
        "SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main' \
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
    let entries: Vec<(String, String, bool)> = list
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    let mut left_out = [("view", 0), ("virtual", 0), ("shadow", 0)];
    for (name, kind, without_rowid) in entries {
        if let Some((_, count)) = left_out.iter_mut().find(|(left, _)| *left == kind) {
            *count += 1;
            continue;
        }
        match read_table(connection, &name, without_rowid) {
            Ok(Ok(table)) => schema.tables.push(table),
            Ok(Err(reason)) => schema.notes.push(format!("Table {name} is left out: {reason}.")),
            // A table may need a collation or function of its application.
            Err(error) => schema.notes.push(format!("Table {name} is left out: {error}.")),
        }
    }
    for (kind, count) in left_out.into_iter().filter(|(_, count)| *count > 0) {
        schema.notes.push(format!("Left out: {count} of type {kind}."));
    }
    Ok(schema)
}

/// Reads one table; the inner error is the reason why it is unusable.
fn read_table(
    connection: &Connection,
    name: &str,
    without_rowid: bool,
) -> rusqlite::Result<Result<Table, &'static str>> {
    let rows: i64 =
        connection
            .query_row(&format!("SELECT count(*) FROM {}", quote(name)), [], |row| row.get(0))?;
    let rows = u64::try_from(rows).unwrap_or(0);
    if rows == 0 {
        return Ok(Err("it is empty"));
    }
    let mut info = connection
        .prepare("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?1) ORDER BY cid")?;
    let all: Vec<(String, String, u32, u32)> = info
        .query_map([name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<Result<_, _>>()?;
    let indexes = read_indexes(connection, name)?;
    let columns: Vec<Column> = all
        .iter()
        .map(|(name, _, _, hidden)| Column { name: name.clone(), generated: *hidden >= 2 })
        .collect();
    let Some(key) = find_key(&all, &indexes, without_rowid) else {
        return Ok(Err("its columns hide its rowid"));
    };
    let foreign_keys = read_foreign_keys(connection, name)?;
    Ok(Ok(Table { name: name.to_owned(), rows, columns, key, indexes, foreign_keys }))
}

/// Returns the key's columns. A rowid table is identified by its rowid, under the name of its
/// `INTEGER PRIMARY KEY` column or a built-in one that no column hides. `None` if all are hidden.
fn find_key(
    columns: &[(String, String, u32, u32)],
    indexes: &[Index],
    without_rowid: bool,
) -> Option<Key> {
    let mut primary: Vec<(u32, &String, &String)> = columns
        .iter()
        .filter(|(_, _, position, _)| *position > 0)
        .map(|(name, kind, position, _)| (*position, name, kind))
        .collect();
    primary.sort_unstable();
    if without_rowid {
        let columns = primary.iter().map(|(_, name, _)| (*name).clone()).collect();
        return Some(Key { columns, rowid: false, hidden: false });
    }
    if let [(_, name, kind)] = primary.as_slice()
        && kind.eq_ignore_ascii_case("INTEGER")
        && !indexes.iter().any(|index| index.primary)
    {
        return Some(Key { columns: vec![(*name).clone()], rowid: true, hidden: false });
    }
    let built_in = ["rowid", "_rowid_", "oid"]
        .into_iter()
        .find(|built_in| !columns.iter().any(|(name, ..)| name.eq_ignore_ascii_case(built_in)))?;
    Some(Key { columns: vec![built_in.to_owned()], rowid: true, hidden: true })
}

fn read_indexes(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Index>> {
    let mut list = connection.prepare(
        "SELECT name, \"unique\", origin, partial, (SELECT json_group_array(name ORDER BY seqno) \
         FROM pragma_index_info(list.name)) FROM pragma_index_list(?1) AS list",
    )?;
    let index = |row: &Row<'_>| {
        Ok(Index {
            name: row.get(0)?,
            unique: row.get(1)?,
            primary: row.get::<_, String>(2)? == "pk",
            partial: row.get(3)?,
            columns: names(row, 4)?,
        })
    };
    list.query_map([table], index)?.collect()
}

fn read_foreign_keys(connection: &Connection, table: &str) -> rusqlite::Result<Vec<ForeignKey>> {
    let mut list = connection.prepare(
        "SELECT \"table\", json_group_array(\"from\" ORDER BY seq), \
         json_group_array(\"to\" ORDER BY seq) FROM pragma_foreign_key_list(?1) GROUP BY id \
         ORDER BY id",
    )?;
    let key = |row: &Row<'_>| {
        let known = |names: Vec<Option<String>>| names.into_iter().flatten().collect();
        Ok(ForeignKey {
            parent: row.get(0)?,
            columns: known(names(row, 1)?),
            parent_columns: known(names(row, 2)?),
        })
    };
    list.query_map([table], key)?.collect()
}

/// Reads a column with a list of names as JSON.
fn names(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<Option<String>>> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}
