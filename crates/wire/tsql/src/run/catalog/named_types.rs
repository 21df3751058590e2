//! The user-defined types of a database in its catalog.

use crate::ast::{ColumnDef, Filled};
use crate::bind::{Binder, Variables};
use crate::error::Result;
use crate::name::{quote, schema_and_name};
use crate::run::catalog::model::{Facts, NamedType, Object, ObjectColumn, object_id};
use crate::run::catalog::named::has_table;
use crate::run::catalog::types::type_id;
use crate::run::catalog::user_types::{alias_of, stored_types, type_of};
use crate::run::catalog::{Table, TableColumn, TableKind};
use crate::run::db::{Db, View, failure};

impl Facts {
    /// Reads the types, and which columns of tables have one.
    pub(super) fn add_types(&mut self, db: &mut Db, database: &str, schema: &str) -> Result<()> {
        let kernels = db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, database);
        let connection = db.connection()?;
        let mut tables = Vec::new();
        for (stored, text) in stored_types(connection, schema).map_err(fail)? {
            let of = type_of(database, &stored, &text)?;
            let (id, mut table) = (type_id(&stored), 0);
            if let Some(made) = of.table() {
                table = object_id(&format!("TT~{stored}"));
                tables.push((table, stored.clone(), made.columns.clone()));
            }
            let alias = alias_of(&of);
            let (ty, nullable) =
                (alias.map(|(ty, _)| ty), alias.is_some_and(|(_, nullable)| nullable));
            self.types.push(NamedType { id, stored, ty, nullable, table });
        }
        if has_table(connection, schema, "tsql_alias").map_err(fail)? {
            let sql =
                format!("SELECT table_name, column_name, type FROM {}.tsql_alias", quote(schema));
            let mut statement = connection.prepare_cached(&sql).map_err(fail)?;
            let mut rows = statement.query([]).map_err(fail)?;
            while let Some(row) = rows.next().map_err(fail)? {
                let text = |at| row.get::<_, String>(at).map_err(fail);
                self.aliases.push((object_id(&text(0)?), text(1)?, type_id(&text(2)?)));
            }
        }
        for (id, stored, columns) in tables {
            self.add_table_type(db, database, (id, &stored), columns);
        }
        Ok(())
    }

    /// The object that has the columns of a table type.
    fn add_table_type(
        &mut self,
        db: &mut Db,
        database: &str,
        (object, stored): (i64, &str),
        columns: Vec<ColumnDef>,
    ) {
        let (_, shown) = schema_and_name(stored);
        let short: String = shown.chars().take(9).collect();
        let (schema, name) = ("sys".to_owned(), format!("TT_{short}_{object:08X}"));
        let (kind, parent, text, hidden) = ("TT", 0, None, false);
        self.objects.push(Object { id: object, schema, name, kind, parent, text, hidden });
        let mut all = Vec::new();
        for column in columns {
            let named = column.user_type.as_ref().map(crate::ast::Name::stored);
            let found = named.and_then(|named| self.types.iter().find(|own| own.is(&named)));
            let ty = found.and_then(|found| found.ty).unwrap_or(column.ty);
            let given = column.nullable.unwrap_or_else(|| found.is_none_or(|own| own.nullable));
            let alias = found.map(|found| found.id);
            let key = column
                .constraints
                .iter()
                .any(|made| matches!(made.kind, crate::ast::ConstraintKind::Primary(_)));
            let nullable = given && column.identity.is_none() && !key;
            self.aliases.extend(alias.map(|id| (object, column.name.clone(), id)));
            all.push(TableColumn {
                name: column.name,
                ty,
                nullable,
                identity: column.identity.is_some(),
                default: column.default,
                filled: column.filled,
                collation: column.collation,
            });
        }
        let table = Table {
            schema: "temp".to_owned(),
            database: database.to_owned(),
            name: stored.to_owned(),
            columns: all,
            kind: TableKind::Table,
        };
        for (id, column) in (1..).zip(&table.columns) {
            let mut column = column.clone();
            if let Filled::Computed { text, .. } = &column.filled {
                let variables = Variables::default();
                let mut view = View { db, database, identity_insert: None };
                let mut binder = Binder::new(&mut view, &variables);
                if let Ok(value) = binder.computed_value(&table, text, None) {
                    column.ty = value.ty;
                }
            }
            self.columns.push(ObjectColumn { object, id, column, identity: None, default_id: 0 });
        }
    }
}
