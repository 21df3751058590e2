//! System views that are filled here: their columns, and the sources of their rows.

mod absent;
mod collations;
pub(crate) mod figures;
mod keys;
mod languages;
pub(crate) mod machine;
mod objects;
mod principals;
pub(crate) mod properties;
mod server;
pub(crate) mod space;
mod tasks;
pub(crate) mod types;
mod usage;

use tdekit_wire_tds::{Length, SqlType, Value};

use crate::error::Result;
use crate::host::Database;
use crate::run::activity::Activity;
use crate::run::catalog::model::Facts;
use crate::run::db::Db;
use crate::run::tallies::Tallies;
use crate::value::Val;

/// A row of a view.
pub(crate) type Row = Vec<Val>;
/// Names and types.
pub(crate) type Columns = &'static [(&'static str, SqlType)];

/// The server's state other than its databases.
pub(crate) struct Server {
    pub(crate) databases: Vec<Database>,
    pub(crate) sessions: Vec<Activity>,
    pub(crate) tallies: Tallies,
}

/// Source of a view's rows.
pub(crate) enum Source {
    /// Nothing of this kind exists.
    Empty,
    Server(fn(&Server) -> Vec<Row>),
    Facts(fn(&Facts) -> Vec<Row>),
    /// More of a database than its catalog.
    Read(fn(&mut Db, &str, &Facts) -> Result<Vec<Row>>),
}

/// A view that is filled here.
pub(crate) struct View {
    pub(crate) name: &'static str,
    pub(crate) columns: Columns,
    pub(crate) source: Source,
}

pub(crate) const NAME: SqlType = SqlType::NVarChar(Length::Of(128));
pub(crate) const LONG: SqlType = SqlType::NVarChar(Length::Max);
pub(crate) const DESC: SqlType = SqlType::NVarChar(Length::Of(60));
pub(crate) const INT: SqlType = SqlType::Int;
pub(crate) const SMALL: SqlType = SqlType::SmallInt;
pub(crate) const TINY: SqlType = SqlType::TinyInt;
pub(crate) const BIT: SqlType = SqlType::Bit;
pub(crate) const TIME: SqlType = SqlType::DateTime;
pub(crate) const BIG: SqlType = SqlType::BigInt;

pub(crate) fn text(value: impl Into<String>) -> Val {
    Value::Text(value.into().into())
}

pub(crate) fn int(value: impl Into<i64>) -> Val {
    Value::Int(value.into())
}

pub(crate) fn bit(value: bool) -> Val {
    Value::Bit(value)
}

pub(crate) fn some(value: Option<i64>) -> Val {
    value.map_or(Value::Null, Value::Int)
}

/// Returns 2000-01-01: SQLite keeps no creation times.
pub(crate) fn epoch() -> Val {
    Value::DateTime { days: 36_524, ticks: 0 }
}

/// Returns all views.
pub(crate) fn all() -> impl Iterator<Item = &'static View> {
    let own = objects::VIEWS.iter().chain(keys::VIEWS).chain(server::VIEWS).chain(figures::VIEWS);
    own.chain(machine::VIEWS)
        .chain(space::VIEWS)
        .chain(properties::VIEWS)
        .chain(principals::VIEWS)
        .chain(tasks::VIEWS)
        .chain(types::VIEWS)
        .chain(usage::VIEWS)
        .chain(absent::VIEWS)
        .chain(collations::VIEWS)
        .chain(languages::VIEWS)
}

/// Returns the view of this lower-case name.
pub(crate) fn find(name: &str) -> Option<&'static View> {
    all().find(|view| view.name == name)
}
