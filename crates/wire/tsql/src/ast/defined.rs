//! User-defined types, indexes and functions, and calls of functions in FROM.

use std::sync::Arc;

use tdekit_wire_tds::SqlType;

use super::{ConstraintKind, CreateTable, Expr, Name, ProcParam, Query, Stmt};

/// CREATE TYPE.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CreateType {
    pub(crate) name: Name,
    pub(crate) kind: TypeKind,
    /// The statement's text.
    pub(crate) text: String,
}

/// CREATE INDEX.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CreateIndex {
    pub(crate) name: String,
    pub(crate) table: Name,
    pub(crate) unique: bool,
    /// The key: each column with true if it is descending.
    pub(crate) columns: Vec<(String, bool)>,
    /// The columns of INCLUDE.
    pub(crate) included: Vec<String>,
    /// The condition, and its text as written.
    pub(crate) filter: Option<(Expr, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TypeKind {
    /// Another name of a type; columns without NULL or NOT NULL get its own.
    Alias {
        ty: SqlType,
        nullable: bool,
    },
    Table(Box<CreateTable>),
}

/// A user-defined type of a database.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UserType {
    /// The database's own name.
    pub(crate) database: String,
    /// The name in `tsql_type`.
    pub(crate) name: String,
    pub(crate) kind: TypeKind,
}

impl UserType {
    /// Returns the columns of a table type.
    pub(crate) fn table(&self) -> Option<&CreateTable> {
        match &self.kind {
            TypeKind::Table(table) => Some(table),
            TypeKind::Alias { .. } => None,
        }
    }

    /// Stands for a type of this name in a text that is only looked at.
    pub(crate) fn stand_in(name: &Name) -> UserType {
        let kind = TypeKind::Alias { ty: SqlType::Int, nullable: true };
        UserType { database: String::new(), name: name.stored(), kind }
    }

    pub(crate) fn is_stand_in(&self) -> bool {
        self.database.is_empty()
    }

    /// Returns true if both are the same type of the same database.
    pub(crate) fn is(&self, other: &UserType) -> bool {
        self.name.eq_ignore_ascii_case(&other.name)
            && self.database.eq_ignore_ascii_case(&other.database)
    }
}

impl ProcParam {
    /// Returns its type, if that is a table.
    pub(crate) fn table(&self) -> Option<&Arc<UserType>> {
        self.user_type.as_ref().filter(|of| of.table().is_some())
    }
}

impl CreateTable {
    /// Returns true for a column of the primary key.
    pub(crate) fn is_primary(&self, column: &str) -> bool {
        let is_it = |name: &str| name.eq_ignore_ascii_case(column);
        let own = self.columns.iter().filter(|made| is_it(&made.name));
        let mut own = own.flat_map(|made| &made.constraints);
        let among = self.constraints.iter().any(|made| match &made.kind {
            ConstraintKind::Primary(columns) => columns.iter().any(|(name, _)| is_it(name)),
            _ => false,
        });
        among || own.any(|made| matches!(made.kind, ConstraintKind::Primary(_)))
    }
}

/// `DECLARE @t` of a table type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeclareTyped {
    /// With the variable's name, or that of the table that holds it.
    pub(crate) table: CreateTable,
    pub(crate) of: Arc<UserType>,
}

/// CREATE FUNCTION.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CreateFunction {
    pub(crate) name: Name,
    pub(crate) params: Vec<ProcParam>,
    pub(crate) body: FunctionBody,
    /// WITH SCHEMABINDING.
    pub(crate) bound: bool,
    /// CREATE, ALTER, CREATE OR ALTER.
    pub(crate) may_create: bool,
    pub(crate) may_replace: bool,
    /// The statement's text.
    pub(crate) text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FunctionBody {
    /// RETURNS TABLE AS RETURN.
    Query(Box<Query>),
    /// RETURNS of a value.
    Steps(Steps),
    /// RETURNS of a table variable.
    Filled(Box<Filling>),
}

/// The statements of a function that fills a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filling {
    /// With the variable's name.
    pub(crate) table: CreateTable,
    pub(crate) stmts: Vec<Stmt>,
}

/// The statements of a scalar function.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Steps {
    pub(crate) returns: SqlType,
    /// RETURNS NULL ON NULL INPUT.
    pub(crate) null_on_null: bool,
    pub(crate) stmts: Vec<Stmt>,
}

impl CreateFunction {
    /// Returns the statements of a scalar function.
    pub(crate) fn steps(&self) -> Option<&Steps> {
        match &self.body {
            FunctionBody::Steps(steps) => Some(steps),
            FunctionBody::Query(_) | FunctionBody::Filled(_) => None,
        }
    }

    /// Its type in `sys.objects` and `tsql_module`.
    pub(crate) fn letters(&self) -> &'static str {
        match self.body {
            FunctionBody::Query(_) => "IF",
            FunctionBody::Steps(_) => "FN",
            FunctionBody::Filled(_) => "TF",
        }
    }
}

/// A call of a function of the database in FROM.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FunctionCall {
    pub(crate) name: Name,
    /// None is DEFAULT.
    pub(crate) args: Vec<Option<Expr>>,
    pub(crate) alias: String,
    /// New names of its columns, or none.
    pub(crate) columns: Vec<String>,
}

/// A call of a table-valued function of SQL Server itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableCall {
    /// In upper case, without its schema.
    pub(crate) function: String,
    /// As written before the schema.
    pub(crate) database: Option<String>,
    pub(crate) args: Vec<Expr>,
    /// WITH of OPENJSON.
    pub(crate) schema: Vec<JsonColumn>,
    pub(crate) alias: String,
    /// New names of its columns, or none.
    pub(crate) columns: Vec<String>,
}

/// A column of WITH behind OPENJSON.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonColumn {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    /// None for the member of the column's name.
    pub(crate) path: Option<String>,
    /// AS JSON.
    pub(crate) json: bool,
}
