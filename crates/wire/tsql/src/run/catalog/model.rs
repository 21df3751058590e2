//! Models of a database's objects, and the construction of their names and ids.

use super::TableColumn;
use std::sync::Arc;

use tdekit_wire_tds::SqlType;

use crate::bind::check::calls_functions;
use crate::host::{Database, Login};
use crate::lex::{Tok, lex};
pub(crate) use crate::name::schema_and_name;
use crate::plan::trigger::Trigger;
use crate::run::gate::Rights;
use crate::value::sequence::Steps;

/// Our own tables that name a table of the database.
pub(crate) const OWN: [&str; 8] = [
    "tsql_global",
    "tsql_identity",
    "tsql_default",
    "tsql_column",
    "tsql_alias",
    "tsql_constraint",
    "tsql_unchecked",
    "tsql_trigger",
];

/// Suffix of the name of a unique index over columns that may be NULL: the index beside it.
pub(crate) const NULLS: &str = "\u{1f}null";

/// Separator between the names of columns in `tsql_constraint`.
pub(crate) const SEPARATOR: char = '\u{1f}';

/// The schema of a noted constraint, which is its table's, with its dot; empty for dbo. Names of
/// constraints are unique within a schema.
pub(crate) const CONSTRAINT_SCHEMA: &str =
    "substr(table_name, 1, instr(table_name, '.')) COLLATE NOCASE";

/// Splits the name of a constraint, as an object of its name would be stored, into
/// [`CONSTRAINT_SCHEMA`] and the rest.
pub(crate) fn constraint_place(stored: &str) -> (&str, &str) {
    stored.split_at(stored.find('.').map_or(0, |at| at + 1))
}

/// Suffix of the name of a descending column in `tsql_constraint`.
pub(crate) const DESCENDING: char = '\u{1e}';

/// Suffix of the name of a column in `tsql_constraint` that an index includes beside its key.
pub(crate) const INCLUDED: char = '\u{1d}';

/// A table, view, procedure or constraint.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) id: i64,
    pub(crate) schema: String,
    pub(crate) name: String,
    /// `U`, `V`, `P`, `IF`, `FN`, `SO`, `TT`, `TR`, `PK`, `UQ`, `F`, `C` or `D`.
    pub(crate) kind: &'static str,
    /// The table of a constraint or trigger, else 0.
    pub(crate) parent: i64,
    /// The text of a view, procedure or trigger.
    pub(crate) text: Option<String>,
    /// A temporary table, seen from another database than tempdb.
    pub(crate) hidden: bool,
}

/// A column of a table or view; `id` from 1.
#[derive(Debug, Clone)]
pub(crate) struct ObjectColumn {
    pub(crate) object: i64,
    pub(crate) id: i64,
    pub(crate) column: TableColumn,
    /// Seed, increment and last value.
    pub(crate) identity: Option<(i64, i64, Option<i64>)>,
    pub(crate) default_id: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) object: i64,
    /// 0 for the rows of a table without a primary key, 1 for that key, 2 and up for others.
    pub(crate) id: i64,
    pub(crate) name: Option<String>,
    pub(crate) unique: bool,
    pub(crate) primary: bool,
    pub(crate) constraint: bool,
    /// Column of the key, and true if descending.
    pub(crate) columns: Vec<(i64, bool)>,
    /// The columns of INCLUDE.
    pub(crate) included: Vec<i64>,
    /// The condition of a filtered index, as T-SQL.
    pub(crate) filter: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct ForeignKey {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) object: i64,
    pub(crate) parent: i64,
    /// Column of the child, column of the parent.
    pub(crate) columns: Vec<(i64, i64)>,
    pub(crate) on_delete: String,
    pub(crate) on_update: String,
    pub(crate) trust: Trust,
}

/// What is known of a table's rows and a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Trust {
    /// All rows fulfil it.
    #[default]
    Full,
    /// New rows fulfil it; others were not checked.
    Untrusted,
    /// It is not enforced.
    Disabled,
}

/// A CHECK or DEFAULT with its text.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) object: i64,
    /// 0 for a CHECK of the whole table.
    pub(crate) column: i64,
    /// All columns that it names.
    pub(crate) columns: Vec<i64>,
    pub(crate) text: String,
    pub(crate) trust: Trust,
}

#[derive(Debug, Clone)]
pub(crate) struct ProcedureParameter {
    pub(crate) object: i64,
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) output: bool,
    /// The number of its user-defined type, and true if that is a table.
    pub(crate) user_type: Option<(i64, bool)>,
}

/// A sequence as `tsql_sequence` has it.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// Of this definition: another one, by CREATE or ALTER, has another number.
    pub(crate) id: i64,
    pub(crate) ty: SqlType,
    pub(crate) start: i64,
    /// The first value after CREATE or RESTART.
    pub(crate) base: i64,
    /// The last value since then.
    pub(crate) last: Option<i64>,
    /// None for NO CACHE; the size, if one was given. It changes nothing here.
    pub(crate) cache: Option<Option<i64>>,
    pub(crate) rule: Steps,
}

impl Stored {
    pub(crate) fn next(&self) -> Option<i64> {
        match self.last {
            None => Some(self.base),
            Some(last) => self.rule.after(last),
        }
    }
}

/// A user-defined type.
#[derive(Debug, Clone)]
pub(crate) struct NamedType {
    pub(crate) id: i64,
    /// The name in `tsql_type`.
    pub(crate) stored: String,
    /// None for a table type.
    pub(crate) ty: Option<SqlType>,
    pub(crate) nullable: bool,
    /// The object with the columns of a table type.
    pub(crate) table: i64,
}

impl NamedType {
    /// Returns true if this is its name in `tsql_type`.
    pub(crate) fn is(&self, stored: &str) -> bool {
        self.stored.eq_ignore_ascii_case(stored)
    }
}

/// One database.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) database: String,
    /// Schemas other than the fixed ones.
    pub(crate) schemas: Vec<String>,
    pub(crate) objects: Vec<Object>,
    pub(crate) columns: Vec<ObjectColumn>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) foreign_keys: Vec<ForeignKey>,
    pub(crate) checks: Vec<Rule>,
    pub(crate) defaults: Vec<Rule>,
    pub(crate) parameters: Vec<ProcedureParameter>,
    pub(crate) sequences: Vec<(i64, Stored)>,
    pub(crate) types: Vec<NamedType>,
    /// Columns of alias types: the object, the column's name, the number of the type.
    pub(crate) aliases: Vec<(i64, String, i64)>,
    /// With their ids.
    pub(crate) triggers: Vec<(i64, Trigger)>,
}

/// The state in which functions look up objects: the databases, and those that were read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) current: String,
    pub(crate) login: String,
    pub(crate) databases: Vec<Database>,
    /// Nothing of a database that the login may not enter.
    pub(crate) read: Vec<Facts>,
    pub(crate) logins: Vec<Login>,
    /// The rights in the current database, and in others if they are asked for.
    pub(crate) entered: Vec<Arc<Rights>>,
}

/// A constraint, or an index, as stored in `tsql_constraint`.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) name: String,
    /// `PK`, `UQ`, `F`, `C`, `D`; `I` for an index.
    pub(crate) kind: String,
    pub(crate) columns: Vec<String>,
    pub(crate) descending: Vec<bool>,
    /// The columns of an index that are not in its key.
    pub(crate) included: Vec<String>,
    pub(crate) text: String,
    pub(crate) trust: Trust,
    /// Of a disabled foreign key.
    pub(crate) reference: Option<Reference>,
}

/// A foreign key as SQLite knows it, or as `tsql_unchecked` keeps it.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    /// The parent's name in SQLite.
    pub(crate) table: String,
    /// Column of the child, column of the parent; none for its primary key's.
    pub(crate) columns: Vec<(String, Option<String>)>,
    pub(crate) on_update: String,
    pub(crate) on_delete: String,
}

impl Named {
    /// Returns true for a CHECK that calls functions: it is not in SQLite's text of the table.
    pub(crate) fn is_by_query(&self) -> crate::error::Result<bool> {
        Ok(self.kind == "C" && calls_functions(&crate::parse::check_condition(&self.text)?))
    }

    /// Returns true if it has a column, or names it in its condition: a CHECK of a table and a
    /// filtered index have no list of those.
    pub(crate) fn uses(&self, column: &str) -> bool {
        let is_condition = matches!(self.kind.as_str(), "C" | "I");
        let mut all = self.columns.iter().chain(&self.included);
        all.any(|own| own.eq_ignore_ascii_case(column))
            || (is_condition && names(&self.text, column))
    }
}

/// Returns true if a text of T-SQL names a column.
pub(crate) fn names(condition: &str, column: &str) -> bool {
    let Ok(tokens) = lex(condition, true) else { return false };
    let is_name = |tok: &Tok| match tok {
        Tok::Word(name) | Tok::Quoted(name) => name.eq_ignore_ascii_case(column),
        _ => false,
    };
    tokens.windows(2).any(|pair| is_name(&pair[0].tok) && pair[1].tok != Tok::Op("("))
}

/// Returns the name of a constraint that was not named.
pub(crate) fn made_name(kind: &str, table: &str, column: &str) -> String {
    let hash = object_id(&format!("{kind}~{table}~{column}"));
    let (_, table) = schema_and_name(table);
    let short = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    match kind {
        "PK" | "UQ" => format!("{kind}__{}__{hash:08X}", short(&table, 9)),
        _ => format!("{kind}__{}__{}__{hash:08X}", short(&table, 9), short(column, 9)),
    }
}

/// Returns the number of an object: the same for the same name.
pub(crate) fn object_id(name: &str) -> i64 {
    let mut hash = 0x811c_9dc5_u32;
    for byte in name.to_lowercase().bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    i64::from(hash & 0x3fff_ffff) + 1000
}

/// Schemas of every database, with their ids.
pub(crate) const FIXED: &[(&str, i64)] =
    &[("dbo", 1), ("guest", 2), ("INFORMATION_SCHEMA", 3), ("sys", 4)];

/// The id of a schema: fixed for the usual ones.
pub(crate) fn schema_id(schema: &str) -> i64 {
    let fixed = FIXED.iter().find(|(name, _)| name.eq_ignore_ascii_case(schema));
    fixed.map_or_else(|| object_id(schema), |(_, id)| *id)
}
