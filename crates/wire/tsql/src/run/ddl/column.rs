//! ALTER TABLE ALTER COLUMN: type, length and nullability of a column.

use std::sync::Arc;

use rusqlite::types::{Value as Stored, ValueRef};
use tdekit_wire_tds::{Collation, Length, SqlType};

use super::super::db::failure;
use super::alter::computed_of;
use super::constraint::set_text;
use super::table::column_text;
use super::text::TableText;
use crate::ast::{ColumnDef, Filled};
use crate::error::{Error, Result};
use crate::functions::eval::assigned;
use crate::name::{ROW_ID, quote};
use crate::run::catalog::{Table, TableColumn};
use crate::run::state::Frame;
use crate::run::work::Run;
use crate::value::convert::CodePages;
use crate::value::{
    Family, bulk_bytes, family, implicit, is_national, is_text, length_of, storage, type_name,
};

/// Rows, and bytes of long values, that are converted at a time.
const CHUNK: usize = 1000;
const CHUNK_BYTES: usize = 16 << 20;

/// A value as it was stored. The column has its new type by now: where that is `float` or `real`,
/// SQLite gives integers, which exact numbers are stored as, as floating-point numbers.
#[allow(clippy::cast_possible_truncation)]
fn as_stored(value: ValueRef<'_>, old: SqlType) -> ValueRef<'_> {
    match value {
        ValueRef::Real(real) if family(old) != Family::Float => ValueRef::Integer(real as i64),
        other => other,
    }
}

impl Run<'_> {
    /// Changes a column as SQL Server does: what a key, an index, a CHECK or a DEFAULT uses is
    /// changed only where that loses nothing; values are converted as by an assignment.
    pub(super) fn alter_column(
        &mut self,
        table: &Arc<Table>,
        made: &ColumnDef,
        frame: &Frame,
    ) -> Result<()> {
        let Some(old) = table.column(&made.name) else {
            let (column, table) = (made.name.clone(), table.object_name());
            return Err(Error::NoColumn { change: "ALTER COLUMN", column, table });
        };
        for (filled, kind) in [(&old.filled, "ALTER"), (&made.filled, "ADD")] {
            let kind = match filled {
                Filled::Given => continue,
                Filled::Computed { .. } => "COMPUTED",
                Filled::Version if kind == "ADD" => {
                    return Err(Error::feature("ALTER COLUMN to it"));
                }
                Filled::Version => "timestamp",
            };
            return Err(Error::FixedColumn { column: old.name.clone(), kind });
        }
        let nullable = made.nullable != Some(false) && !old.identity;
        let change = Change { old, to: made.ty, collation: made.collation, nullable };
        if !change.is_any() {
            return Ok(());
        }
        if !implicit(old.ty, made.ty) {
            let (left, right) = (type_name(old.ty).to_owned(), type_name(made.ty).to_owned());
            return Err(Error::OperandClash { left, right });
        }
        self.refuse_users_of(table, &change, frame)?;
        if old.nullable && !nullable {
            let nulls = format!("SELECT 1 FROM {} WHERE {} IS NULL", table.sql(), quote(&old.name));
            if self.finds(&nulls, table)? {
                let (column, table) = (old.name.clone(), table.full_name());
                return Err(Error::CannotInsertNull { column, table, verb: "UPDATE".to_owned() });
            }
        }
        let made = ColumnDef {
            name: old.name.clone(),
            nullable: Some(nullable),
            constraints: Vec::new(),
            default: None,
            ..made.clone()
        };
        self.write_column(table, &made, change.keeps_values())?;
        if change.keeps_values() { Ok(()) } else { self.convert_column(table, &change) }
    }

    fn refuse_users_of(
        &mut self,
        table: &Arc<Table>,
        change: &Change<'_>,
        frame: &Frame,
    ) -> Result<()> {
        let grows = change.grows() && change.same_order();
        let (lossless, retyped) = (grows && change.same_null(), change.is_retyped());
        let column = &change.old.name;
        let named = self.named_constraints(table)?;
        let mut users = computed_of(table, column);
        for found in named.iter().filter(|found| found.uses(column)) {
            let counts = match found.kind.as_str() {
                "PK" | "F" => true,
                "UQ" | "C" => !lossless,
                "D" => retyped,
                _ => false,
            };
            if counts {
                users.push(("object", found.name.clone()));
            }
        }
        let is_key = self.primary_key(table)?.iter().any(|own| own.eq_ignore_ascii_case(column));
        if is_key && users.is_empty() {
            users.push(("object", table.object_name()));
        }
        if retyped || !grows {
            users.extend(self.indexes_on(table, column, &named, false)?);
        } else if !lossless {
            users.extend(self.indexes_on(table, column, &named, true)?);
        }
        self.refuse_used("ALTER COLUMN", column, &users, frame)
    }

    /// Writes the column's new definition into the table's text. SQLite's own DEFAULT, which rows
    /// from before the column need, stays if the rows stay as they are; otherwise it is written
    /// into these rows first.
    pub(super) fn write_column(
        &mut self,
        table: &Table,
        made: &ColumnDef,
        keep_default: bool,
    ) -> Result<()> {
        let refused = || Error::feature("ALTER COLUMN of a column that is written in this way");
        let sql = self.table_text(table)?;
        let mut text = TableText::parse(&sql).ok_or_else(refused)?;
        let found = text.column(&made.name).ok_or_else(refused)?;
        let mut item = column_text(made, false)?;
        match found.default {
            Some(default) if keep_default => item.push_str(&format!(" {default}")),
            Some(_) => {
                let column = quote(&made.name);
                let sql = format!("UPDATE {} SET {column} = {column}", table.sql());
                self.sql(&sql, &table.database)?;
            }
            None => {}
        }
        text.replace(found.item, &item);
        let own = quote(&table.schema);
        self.edit_schema(table, Some(&made.name), |connection| {
            set_text(connection, &own, table, &text.text())
        })
    }

    /// Converts every value of the column, under its new definition.
    fn convert_column(&mut self, table: &Table, change: &Change<'_>) -> Result<()> {
        let column = quote(&change.old.name);
        let read = format!(
            "SELECT {ROW_ID}, {column} FROM {} WHERE {ROW_ID} > ?1 ORDER BY {ROW_ID} LIMIT {CHUNK}",
            table.sql()
        );
        let write = format!("UPDATE {} SET {column} = ?2 WHERE {ROW_ID} = ?1", table.sql());
        let mut last = i64::MIN;
        loop {
            let rows = self.converted_rows(&read, last, table, change)?;
            let Some((end, _)) = rows.last() else { return Ok(()) };
            last = *end;
            let kernels = self.s.db.kernels.clone();
            let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
            let connection = self.s.db.connection()?;
            let mut statement = connection.prepare_cached(&write).map_err(fail)?;
            for (rowid, value) in &rows {
                statement.execute(rusqlite::params![rowid, value]).map_err(fail)?;
            }
        }
    }

    fn converted_rows(
        &mut self,
        read: &str,
        after: i64,
        table: &Table,
        change: &Change<'_>,
    ) -> Result<Vec<(i64, Stored)>> {
        let order = self.s.state.options.dateformat;
        let kernels = self.s.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        let (old, name) = (change.old, table.full_name());
        let (from, to) = (old.collation.code_page(), change.collation.code_page());
        let with = (order, CodePages { from, to });
        let connection = self.s.db.connection()?;
        let mut statement = connection.prepare_cached(read).map_err(fail)?;
        let mut rows = statement.query([after]).map_err(fail)?;
        let (mut converted, mut bytes) = (Vec::new(), 0);
        while bytes < CHUNK_BYTES
            && let Some(row) = rows.next().map_err(fail)?
        {
            let rowid = row.get(0).map_err(fail)?;
            let stored = as_stored(row.get_ref(1).map_err(fail)?, old.ty);
            let value = storage::load(stored, old.ty, &old.name)?;
            let value = assigned(&value, (old.ty, change.to), (&name, &old.name), with)?;
            bytes += bulk_bytes(&value);
            converted.push((rowid, storage::store(&value, change.to)?));
        }
        Ok(converted)
    }
}

/// A change of a column.
struct Change<'a> {
    old: &'a TableColumn,
    to: SqlType,
    collation: Collation,
    nullable: bool,
}

impl Change<'_> {
    fn is_any(&self) -> bool {
        self.old.ty != self.to || !self.same_null() || !self.same_order()
    }

    fn same_null(&self) -> bool {
        self.old.nullable == self.nullable
    }

    /// True for the same collation, if both are text.
    fn same_order(&self) -> bool {
        !is_text(self.old.ty) || !is_text(self.to) || self.old.collation == self.collation
    }

    /// True if texts have the same bytes under both collations.
    fn same_page(&self) -> bool {
        let pages = [self.old.collation, self.collation].map(Collation::code_page);
        self.same_order() || pages[0] == pages[1] || is_national(self.to)
    }

    /// True if the type itself changes, and not its length, precision or scale alone.
    fn is_retyped(&self) -> bool {
        type_name(self.old.ty) != type_name(self.to)
    }

    /// True for the same type with at least the same length.
    fn grows(&self) -> bool {
        let longer = match (length_of(self.old.ty), length_of(self.to)) {
            (Some(Length::Of(old)), Some(Length::Of(new))) => new >= old,
            (Some(_), Some(Length::Max)) => true,
            _ => false,
        };
        let varies = matches!(type_name(self.to), "varchar" | "nvarchar" | "varbinary");
        self.old.ty == self.to || !self.is_retyped() && varies && longer
    }

    /// True if the stored values are right under the new type.
    fn keeps_values(&self) -> bool {
        let whole = [SqlType::TinyInt, SqlType::SmallInt, SqlType::Int, SqlType::BigInt];
        let rank = |ty: SqlType| whole.iter().position(|known| *known == ty);
        let widens = family(self.old.ty) == family(self.to)
            && rank(self.old.ty).zip(rank(self.to)).is_some_and(|(old, new)| new >= old);
        (self.grows() || widens) && self.same_page()
    }
}
