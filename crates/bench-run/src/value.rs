//! A SQLite value that travels to a worker as JSON.

use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};

/// One of SQLite's five storage classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    /// Written in hexadecimal.
    #[serde(with = "hex::serde")]
    Blob(Vec<u8>),
}

impl Value {
    /// Copies a value out of a row. `None` for what could not be bound again unchanged after its
    /// way: text that is not UTF-8, and infinities.
    pub(crate) fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
        Some(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) if number.is_finite() => Self::Real(number),
            ValueRef::Real(_) => return None,
            ValueRef::Text(bytes) => Self::Text(std::str::from_utf8(bytes).ok()?.to_owned()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        })
    }

    /// Bytes that the value takes on its way, roughly.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Null | Self::Integer(_) | Self::Real(_) => 8,
            Self::Text(text) => text.len(),
            Self::Blob(bytes) => bytes.len() * 2,
        }
    }

    /// The same, to be bound.
    pub(crate) fn borrowed(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(self.borrowed()))
    }
}
