//! DBCC CHECKCONSTRAINTS: rows that violate a CHECK or a foreign key.

use std::sync::Arc;

use rusqlite::types::Value as Stored;
use tdekit_wire_tds::{Length, SqlType, Value};

use super::super::db::failure;
use super::Ddl;
use super::rename::stored_name;
use super::table::offered;
use crate::error::{Error, Result};
use crate::functions::wanted::parts;
use crate::host::Rows;
use crate::name::quote;
use crate::run::catalog::facts::read_all;
use crate::run::catalog::model::{Named, Trust, schema_and_name};
use crate::run::catalog::{Table, TableColumn, TableKind};
use crate::value::dateparse::DateText;
use crate::value::{Family, Val, convert, family, storage};

/// Rows that are shown of a constraint, unless all are wanted.
const SHOWN: usize = 200;

/// The constraints to check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked {
    /// Disabled ones too.
    pub(crate) disabled: bool,
    /// All rows that violate them.
    pub(crate) all_rows: bool,
}

impl Checked {
    /// Returns true if a constraint is to be checked: the `only` one, if it is named.
    pub(crate) fn wants(self, constraint: &Named, only: Option<&str>) -> bool {
        let wanted = match only {
            Some(only) => constraint.name.eq_ignore_ascii_case(only),
            None => self.disabled || constraint.trust != Trust::Disabled,
        };
        wanted && matches!(constraint.kind.as_str(), "F" | "C")
    }

    /// Returns the number of rows that are shown of a constraint.
    pub(crate) fn most(self) -> usize {
        if self.all_rows { usize::MAX } else { SHOWN }
    }
}

impl Ddl<'_> {
    /// The tables, and the one constraint if it is named.
    pub(crate) fn tables_to_check(
        &mut self,
        named: Option<&str>,
    ) -> Result<(Vec<Arc<Table>>, Option<String>)> {
        let database = &self.state.database;
        let is_table = |table: &Arc<Table>| table.kind == TableKind::Table;
        let id: Option<i64> = named.and_then(|text| text.parse().ok());
        if let (Some(text), None) = (named, id) {
            let name = parts(text);
            if let Some(table) = self.find(&name)?.filter(is_table) {
                return Ok((vec![table], None));
            }
            let missing = || Error::CheckMissing { name: text.to_owned() };
            let owner = self.owner_of(&name)?.ok_or_else(missing)?;
            let table = self.find(&owner)?.ok_or_else(missing)?;
            return Ok((vec![table], Some(name.object().to_owned())));
        }
        let facts = read_all(self.db, database)?;
        let object = facts.objects.iter().find(|object| Some(object.id) == id);
        let only = object.filter(|object| object.parent != 0).map(|object| object.name.clone());
        let of = object.map(|object| if object.parent == 0 { object.id } else { object.parent });
        if of.is_none()
            && let Some(text) = named
        {
            return Err(Error::CheckMissing { name: text.to_owned() });
        }
        let schema = self.db.schema(database)?;
        let mut tables = Vec::new();
        for object in facts.objects.iter().filter(|own| own.kind == "U" && !own.hidden) {
            if of.is_none_or(|of| of == object.id) {
                let stored = stored_name(&object.schema, &object.name);
                let table = self.db.stored(&schema, database, &stored)?;
                tables.extend(table.filter(is_table));
            }
        }
        Ok((tables, only))
    }

    /// Returns these columns of rows that violate a constraint that no query checks, and no more
    /// rows than so many.
    pub(crate) fn violating_values(
        &mut self,
        table: &Arc<Table>,
        constraint: &Named,
        columns: &[&TableColumn],
        most: usize,
    ) -> Result<Vec<Vec<Stored>>> {
        let shown: Vec<String> =
            columns.iter().map(|column| format!("c.{}", quote(&column.name))).collect();
        let shown = shown.join(", ");
        let queries = if constraint.kind == "C" {
            let condition = crate::parse::check_condition(&constraint.text)?;
            let condition = self.inline_condition(&condition, offered(&table.columns))?;
            vec![format!("SELECT {shown} FROM {} AS c WHERE ({condition}) IS FALSE", table.sql())]
        } else {
            let keys = match &constraint.reference {
                Some(key) => vec![key.clone()],
                None => self.references_of(table, constraint)?,
            };
            let query = |key| self.orphans_of(&shown, table, &constraint.name, key);
            keys.iter().map(query).collect::<Result<Vec<_>>>()?
        };
        let kernels = self.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        let connection = self.db.connection()?;
        let mut found = Vec::new();
        for query in queries {
            let mut statement = connection.prepare(&query).map_err(fail)?;
            let mut rows = statement.query([]).map_err(fail)?;
            while found.len() < most
                && let Some(row) = rows.next().map_err(fail)?
            {
                let values = (0..columns.len()).map(|at| row.get(at));
                found.push(values.collect::<rusqlite::Result<_>>().map_err(fail)?);
            }
        }
        Ok(found)
    }
}

/// Returns the columns by which rows that violate a constraint are shown.
pub(crate) fn shown_columns<'t>(table: &'t Table, constraint: &Named) -> Vec<&'t TableColumn> {
    let used = |column: &&TableColumn| !column.is_computed() && constraint.uses(&column.name);
    let columns: Vec<&TableColumn> = table.columns.iter().filter(used).collect();
    match columns.is_empty() {
        true => table.columns.iter().filter(|column| !column.is_computed()).collect(),
        false => columns,
    }
}

/// Returns rows that violate a constraint as DBCC shows them.
pub(crate) fn shown_rows(
    table: &Table,
    constraint: &Named,
    columns: &[&TableColumn],
    rows: &[Vec<Stored>],
    order: DateText,
) -> Result<Vec<Vec<Val>>> {
    let (schema, name) = schema_and_name(&table.name);
    let of = [format!("{}.{}", bracketed(&schema), bracketed(&name)), bracketed(&constraint.name)];
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let mut parts = Vec::with_capacity(columns.len());
        for (stored, column) in row.iter().zip(columns) {
            let value = storage::load_owned(stored.into(), column.ty, &column.name)?;
            parts.push(assignment(column, &value, order)?);
        }
        let texts = of.iter().cloned().chain([parts.join(" AND ")]);
        found.push(texts.map(|text| Value::Text(text.into())).collect());
    }
    Ok(found)
}

/// Returns the result of DBCC CHECKCONSTRAINTS.
pub(crate) fn checked_rows(rows: Vec<Vec<Val>>) -> Rows {
    let text = SqlType::NVarChar(Length::Max);
    let columns = ["Table", "Constraint", "Where"].map(|name| (name.to_owned(), text));
    Rows { columns: columns.to_vec(), rows }
}

fn bracketed(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}

/// `[column] = 'value'`, for a WHERE.
fn assignment(column: &TableColumn, value: &Val, order: DateText) -> Result<String> {
    let name = bracketed(&column.name);
    let (style, quoted) = match family(column.ty) {
        Family::Temporal => (121, true),
        Family::Float => (3, true),
        Family::Money => (2, true),
        Family::Binary => (1, false),
        _ => (0, true),
    };
    let text = SqlType::NVarChar(Length::Max);
    Ok(match convert::convert(value, column.ty, text, style, order)? {
        Value::Text(text) if quoted => format!("{name} = '{}'", text.replace('\'', "''")),
        Value::Text(text) => format!("{name} = {text}"),
        _ => format!("{name} IS NULL"),
    })
}
