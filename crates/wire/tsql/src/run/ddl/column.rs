//! ALTER TABLE ALTER COLUMN: type, length and nullability of a column.

use rusqlite::types::{Value as Stored, ValueRef};
use tdekit_wire_tds::{Collation, Length, SqlType};

use super::super::db::failure;
use super::Ddl;
use super::edit::set_text;
use super::table::{NamedConstraint, column_text, note_constraints};
use super::text::TableText;
use crate::ast::{ColumnDef, Filled};
use crate::error::{Error, Result};
use crate::functions::eval::assigned;
use crate::name::{ROW_ID, quote};
use crate::run::catalog::model::{Index, Named, names, schema_and_name};
use crate::run::catalog::{Table, TableColumn};
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

impl Ddl<'_> {
    /// Returns the column that ALTER TABLE adds, with the types that it names or computes.
    pub(super) fn column_to_add(&mut self, table: &Table, made: &ColumnDef) -> Result<ColumnDef> {
        if table.column(&made.name).is_some() {
            let (name, table) = (made.name.clone(), table.name.clone());
            return Err(Error::DuplicateColumn { name, table });
        }
        if made.identity.is_some() {
            return Err(Error::unsupported("ALTER TABLE ADD of an IDENTITY column"));
        }
        let mut column = made.clone();
        let (schema, database) = (&table.schema, &table.database);
        self.resolve_columns(std::slice::from_mut(&mut column), (schema, database), false)?;
        self.give_type(table, &mut column)?;
        if column.filled != Filled::Version {
            self.check_defaults(schema, database, &table.name, std::slice::from_ref(&column))?;
        }
        Ok(column)
    }

    /// Records a column that was added and filled. One that takes no NULL could not be added as
    /// such if it was filled row by row: it is `narrowed` now.
    pub(super) fn note_added(
        &mut self,
        table: &Table,
        column: &ColumnDef,
        narrowed: bool,
    ) -> Result<()> {
        if narrowed {
            self.write_column(table, column, true)?;
        }
        self.note_columns(&table.schema, &table.name, std::slice::from_ref(column))?;
        let Some(default) = &column.default else { return Ok(()) };
        let columns = vec![column.name.clone()];
        let given = column.default_name.as_deref();
        let name = self.constraint_name(table, given, "DF", &columns)?;
        let text = default.clone();
        let named = NamedConstraint { name, kind: "D", columns, text };
        note_constraints(self.db, &table.schema, &table.name, &[named])
    }

    /// A `rowversion` column: rows that are there get versions.
    pub(super) fn add_version(&mut self, table: &Table, column: &ColumnDef) -> Result<()> {
        if table.version().is_some() {
            return Err(Error::VersionTwice { table: schema_and_name(&table.name).1 });
        }
        let nullable = ColumnDef { nullable: Some(true), ..column.clone() };
        let text = column_text(&nullable, false)?;
        let sql = format!("ALTER TABLE {} ADD COLUMN {text}", table.sql());
        self.ignoring_checks(|ddl| ddl.db.sql(&sql, &table.database))?;
        self.note_columns(&table.schema, &table.name, std::slice::from_ref(column))?;
        self.db.changed();
        let made = self.db.stored(&table.schema, &table.database, &table.name)?;
        match made {
            Some(made) => self.fill_versions(&made, &column.name),
            None => Ok(()),
        }
    }

    /// Returns the change that a column's new definition is; None if it changes nothing.
    pub(super) fn changed_column<'t>(
        &mut self,
        table: &'t Table,
        made: &ColumnDef,
    ) -> Result<Option<Change<'t>>> {
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
            return Ok(None);
        }
        if !implicit(old.ty, made.ty) {
            let (left, right) = (type_name(old.ty).to_owned(), type_name(made.ty).to_owned());
            return Err(Error::OperandClash { left, right });
        }
        Ok(Some(change))
    }

    /// Changes a column as SQL Server does, where nothing uses it that stands against the change:
    /// values are converted as by an assignment.
    pub(super) fn alter_column(
        &mut self,
        table: &Table,
        made: &ColumnDef,
        change: &Change<'_>,
    ) -> Result<()> {
        let (old, nullable) = (change.old, change.nullable);
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
        if change.keeps_values() { Ok(()) } else { self.convert_column(table, change) }
    }

    /// Returns what stands against a change: a key, an index, a CHECK or a DEFAULT that uses the
    /// column, unless the change loses nothing.
    pub(super) fn users_of(&mut self, table: &Table, change: &Change<'_>) -> Result<Vec<User>> {
        let grows = change.grows() && change.same_order();
        let (lossless, retyped) = (grows && change.same_null(), change.is_retyped());
        let column = &change.old.name;
        let named = self.db.named_constraints(table)?;
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
        Ok(users)
    }

    /// Returns what uses a column that is to be dropped.
    pub(super) fn users_of_dropped(&mut self, table: &Table, name: &str) -> Result<Vec<User>> {
        let named = self.db.named_constraints(table)?;
        let objects = named.iter().filter(|found| found.kind != "I" && found.uses(name));
        let objects = objects.map(|found| ("object", found.name.clone()));
        let objects = objects.chain(computed_of(table, name));
        Ok(objects.chain(self.indexes_on(table, name, &named, false)?).collect())
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
                self.db.sql(&sql, &table.database)?;
            }
            None => {}
        }
        text.replace(found.item, &item);
        let own = quote(&table.schema);
        self.edit_schema(table, Some(&made.name), |connection| {
            set_text(connection, &own, table, &text.text())
        })
    }

    /// Returns the indexes that contain a column or have it in their condition, except those of
    /// constraints; only unique ones if so asked.
    fn indexes_on(
        &mut self,
        table: &Table,
        column: &str,
        named: &[Named],
        unique: bool,
    ) -> Result<Vec<User>> {
        let kernels = self.db.kernels.clone();
        let all = crate::run::catalog::facts::indexes(self.db.connection()?, table, named)
            .map_err(|error| failure(&kernels, &error, &table.database))?;
        let at = (1..).zip(&table.columns).find(|(_, own)| own.name == column).map(|(at, _)| at);
        let in_filter = |index: &Index| {
            let own = named.iter().find(|found| Some(&found.name) == index.name.as_ref());
            own.is_some_and(|found| found.uses(column))
        };
        let has = |index: &Index| {
            let used = index.columns.iter().any(|(own, _)| Some(*own) == at) || in_filter(index);
            !index.constraint && (index.unique || !unique) && used
        };
        let found = all.into_iter().filter(has).filter_map(|index| index.name);
        Ok(found.map(|name| ("index", name)).collect())
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
            let kernels = self.db.kernels.clone();
            let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
            let connection = self.db.connection()?;
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
        let order = self.state.options.dateformat;
        let kernels = self.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        let (old, name) = (change.old, table.full_name());
        let (from, to) = (old.collation.code_page(), change.collation.code_page());
        let with = (order, CodePages { from, to });
        let connection = self.db.connection()?;
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

/// Returns the computed columns that use a column.
pub(super) fn computed_of(table: &Table, name: &str) -> Vec<User> {
    let uses = |own: &&TableColumn| match &own.filled {
        Filled::Computed { text, .. } => names(text, name),
        _ => false,
    };
    table.columns.iter().filter(uses).map(|own| ("column", own.name.clone())).collect()
}

/// Something that uses a column: its kind as messages name it, and its name.
pub(super) type User = (&'static str, String);

/// A change of a column.
pub(super) struct Change<'a> {
    old: &'a TableColumn,
    to: SqlType,
    collation: Collation,
    nullable: bool,
}

impl Change<'_> {
    /// Returns the name of the column.
    pub(super) fn column(&self) -> &str {
        &self.old.name
    }

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
