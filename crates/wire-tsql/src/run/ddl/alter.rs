//! ALTER TABLE.

use std::sync::Arc;

use tdekit_wire_tds::Value;

use super::super::Frame;
use super::super::db::View;
use super::super::exec::Run;
use super::index::{index_key, index_name};
use super::table::{NamedConstraint, column_text, marked};
use crate::ast::{AlterTable, ColumnDef, Constraint, ConstraintKind, Name};
use crate::bind::{Binder, Variables, quote};
use crate::catalog::facts::made_name;
use crate::catalog::{Table, TableColumn, TableKind};
use crate::emit::eval::eval;
use crate::emit::literal;
use crate::error::{Error, Result};
use crate::value::storage;

impl Run<'_> {
    pub(super) fn alter_table(&mut self, name: &Name, change: &AlterTable) -> Result<()> {
        let table = self.find(name)?.ok_or_else(|| Error::AlterMissing { name: name.text() })?;
        if table.kind != TableKind::Table {
            return Err(Error::AlterMissing { name: name.text() });
        }
        self.define(&table.schema.clone(), |run| match change {
            AlterTable::DropColumn(columns) => {
                for column in columns {
                    let sql = format!("ALTER TABLE {} DROP COLUMN {}", table.sql(), quote(column));
                    run.sql(&sql, &table.database)?;
                }
                Ok(())
            }
            AlterTable::Add(columns, constraints) => {
                for column in columns {
                    run.add_column(&table, column)?;
                }
                constraints.iter().try_for_each(|made| run.add_constraint(&table, made))
            }
        })
    }

    fn add_column(&mut self, table: &Arc<Table>, column: &ColumnDef) -> Result<()> {
        if table.column(&column.name).is_some() {
            let (name, table) = (column.name.clone(), table.name.clone());
            return Err(Error::DuplicateColumn { name, table });
        }
        if column.identity.is_some() || !column.constraints.is_empty() {
            return Err(Error::unsupported("ALTER TABLE ADD of a column with a constraint"));
        }
        let mut text = column_text(column, false)?;
        if column.nullable == Some(false) {
            // rows that are there get the value that the DEFAULT has now
            text.push_str(&format!(" DEFAULT {}", self.default_now(table, column)?));
        }
        let sql = format!("ALTER TABLE {} ADD COLUMN {text}", table.sql());
        self.sql(&sql, &table.database)?;
        self.note_columns(&table.schema, &table.name, std::slice::from_ref(column))?;
        let Some(default) = &column.default else { return Ok(()) };
        let name = column.default_name.clone();
        let name = name.unwrap_or_else(|| made_name("DF", &table.name, &column.name));
        let (columns, text) = (vec![column.name.clone()], default.clone());
        self.note_constraints(
            &table.schema,
            &table.name,
            &[NamedConstraint { name, kind: "D", columns, text }],
        )
    }

    fn default_now(&mut self, table: &Arc<Table>, column: &ColumnDef) -> Result<String> {
        if column.default.is_none() {
            return Err(Error::unsupported("ALTER TABLE ADD of a NOT NULL column without DEFAULT"));
        }
        let described = TableColumn {
            name: column.name.clone(),
            ty: column.ty,
            nullable: false,
            identity: false,
            default: column.default.clone(),
        };
        let kernels = self.s.db.kernels.clone();
        let database = self.s.state.database.clone();
        let variables = Variables::default();
        let mut view = View { db: &mut self.s.db, database: &database, identity_insert: None };
        let mut binder = Binder::new(&mut view, &variables, &kernels);
        let bound = binder.default(table, &described)?;
        let mut pure = true;
        bound.walk(&mut |part| {
            let call = matches!(&part.node, crate::bind::Node::Call(func, _) if func.is_random());
            pure &= !call;
            pure
        });
        if !pure {
            return Err(Error::unsupported(
                "ALTER TABLE ADD with a DEFAULT of another value a row",
            ));
        }
        let value =
            self.with_env(&Frame::empty(), |env| eval(&bound, env).map(Value::into_owned))?;
        if value == Value::Null {
            return Err(Error::unsupported("ALTER TABLE ADD of a NOT NULL column without DEFAULT"));
        }
        literal(&value, column.ty)
    }

    /// UNIQUE: an index beside the table, whose own text SQLite does not change.
    fn add_constraint(&mut self, table: &Arc<Table>, constraint: &Constraint) -> Result<()> {
        let ConstraintKind::Unique(columns) = &constraint.kind else {
            return Err(Error::unsupported("ALTER TABLE ADD of a constraint that is not UNIQUE"));
        };
        let mut keys = Vec::new();
        for (name, down) in columns {
            let column =
                table.column(name).ok_or_else(|| Error::InvalidColumn { name: name.clone() })?;
            if !storage::comparable(column.ty) {
                let ty = crate::value::type_name(column.ty);
                return Err(Error::feature(format!("a key of type {ty}")));
            }
            keys.push(index_key(&column.name, column.ty, column.nullable, *down));
        }
        let joined: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let name = constraint.name.clone();
        let name = name.unwrap_or_else(|| made_name("UQ", &table.name, &joined.join("_")));
        let sql = format!(
            "CREATE UNIQUE INDEX {}.{} ON {} ({})",
            quote(&table.schema),
            quote(&index_name(&table.name, &name)),
            quote(&table.name),
            keys.join(", ")
        );
        self.sql(&sql, &table.database)
            .map_err(|error| self.constraint(error, table, tdekit_wire_tds::Command::OTHER))?;
        let named =
            NamedConstraint { name, kind: "UQ", columns: marked(columns), text: String::new() };
        self.note_constraints(&table.schema, &table.name, &[named])
    }
}
