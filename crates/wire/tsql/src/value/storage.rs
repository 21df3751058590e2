//! Values in SQLite: lossless, and in SQL Server's comparison order.
//!
//! | type | stored |
//! |---|---|
//! | bit to bigint | INTEGER |
//! | decimal to 18 digits, money | INTEGER, unscaled |
//! | decimal above | BLOB, 16 bytes, big-endian, sign bit turned |
//! | real, float | REAL |
//! | text | TEXT |
//! | binary | BLOB |
//! | date | INTEGER, days since 0001-01-01 |
//! | time | INTEGER, 100 ns units |
//! | datetime | INTEGER, 1/300 s since 1900-01-01 |
//! | smalldatetime | INTEGER, minutes since 1900-01-01 |
//! | datetime2 | INTEGER, 100 ns units since 0001-01-01 |
//! | datetimeoffset | BLOB, UTC as datetime2 in 8 bytes, then the offset in 2 |
//! | uniqueidentifier | BLOB, bytes in the order that SQL Server compares them in |

use std::borrow::Cow;

use rusqlite::types::{ToSqlOutput, Value as Stored, ValueRef};
use tdekit_wire_tds::{Collation, Length, SqlType, Value};

use super::datetime::cut_ticks;
use super::decimal::Dec;
use super::{Family, Val, declaration, family, is_text};
use crate::error::{Error, Result};

/// Prefix of declared types that T-SQL created.
pub(crate) const MARK: &str = "tsql ";
/// Between the type and a collation that is not the server's.
pub(crate) const COLLATED: &str = " collate ";
/// Maximum precision for which a decimal is an INTEGER.
const SMALL_PRECISION: u8 = 18;
const DAY: i64 = 864_000_000_000;
const DATETIME_DAY: i64 = 25_920_000;
/// The order in which SQL Server compares the bytes of a `uniqueidentifier`.
const GUID_ORDER: [usize; 16] = [10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3];

/// Returns the type as declared in SQLite's schema.
pub(crate) fn declared(ty: SqlType) -> String {
    match ty {
        // keeps the affinity TEXT
        SqlType::Xml => format!("{MARK}xml text"),
        _ => format!("{MARK}{}", declaration(ty)),
    }
}

/// Returns the type of a column as declared in SQLite's schema.
pub(crate) fn declared_column(ty: SqlType, collation: Collation) -> String {
    let declared = declared(ty);
    match is_text(ty) && collation != Collation::default() {
        true => format!("{declared}{COLLATED}{}", collation.name()),
        false => declared,
    }
}

fn wide(unscaled: i128) -> Vec<u8> {
    (unscaled.cast_unsigned() ^ (1 << 127)).to_be_bytes().to_vec()
}

/// Returns the value as stored in SQLite; it must already be of the type.
pub(crate) fn store(value: &Value<'_>, ty: SqlType) -> Result<Stored> {
    Ok(match value {
        Value::Null => Stored::Null,
        Value::Bit(bit) => Stored::Integer(i64::from(*bit)),
        Value::Int(int) | Value::Money(int) => Stored::Integer(*int),
        Value::Float(float) => Stored::Real(*float),
        Value::Decimal { unscaled, scale } => {
            let SqlType::Decimal { precision, scale: wanted } = ty else {
                return Err(internal("decimal"));
            };
            let dec = Dec::new(*unscaled, *scale)
                .to_type(precision, wanted)
                .ok_or(Error::ResultOverflow { to: "numeric".to_owned() })?;
            match i64::try_from(dec.unscaled) {
                Ok(small) if precision <= SMALL_PRECISION => Stored::Integer(small),
                _ => Stored::Blob(wide(dec.unscaled)),
            }
        }
        Value::Text(text) => Stored::Text(text.to_string()),
        Value::Binary(bytes) => Stored::Blob(bytes.to_vec()),
        Value::Date(days) => Stored::Integer(i64::from(*days)),
        Value::Time(ticks) => Stored::Integer(i64::try_from(*ticks).map_err(|_| internal("time"))?),
        Value::DateTime { days, ticks } => {
            Stored::Integer(i64::from(*days) * DATETIME_DAY + i64::from(*ticks))
        }
        Value::SmallDateTime { days, minutes } => {
            Stored::Integer(i64::from(*days) * 1440 + i64::from(*minutes))
        }
        Value::DateTime2 { days, ticks } => {
            let ticks = i64::try_from(*ticks).map_err(|_| internal("datetime2"))?;
            Stored::Integer(i64::from(*days) * DAY + ticks)
        }
        Value::DateTimeOffset { days, ticks, offset_min } => {
            let mut bytes = (u64::from(*days) * DAY.unsigned_abs() + ticks).to_be_bytes().to_vec();
            bytes.extend_from_slice(&offset_min.to_be_bytes());
            Stored::Blob(bytes)
        }
        Value::Guid(guid) => Stored::Blob(GUID_ORDER.iter().map(|at| guid[*at]).collect()),
        Value::Variant(_) => return Err(Error::feature("a stored sql_variant")),
    })
}

fn internal(what: &str) -> Error {
    Error::Internal { detail: format!("a value is no {what}") }
}

/// Returns the value that SQLite stores; `column` is for messages only.
pub(crate) fn load<'a>(stored: ValueRef<'a>, ty: SqlType, column: &str) -> Result<Value<'a>> {
    let value = match (stored, family(ty)) {
        (ValueRef::Null, _) => Some(Value::Null),
        (ValueRef::Integer(int), _) => integer(int, ty),
        (ValueRef::Real(real), Family::Float) => real.is_finite().then_some(Value::Float(real)),
        (ValueRef::Real(real), Family::Text) => Some(Value::Text(Cow::Owned(real.to_string()))),
        (ValueRef::Text(bytes), Family::Text) => match String::from_utf8_lossy(bytes) {
            Cow::Borrowed(text) => Some(Value::Text(Cow::Borrowed(text))),
            Cow::Owned(_) => None,
        },
        (ValueRef::Blob(bytes), Family::Binary) => Some(Value::Binary(Cow::Borrowed(bytes))),
        (ValueRef::Blob(bytes), _) => blob(bytes, ty),
        _ => None,
    };
    value.ok_or_else(|| Error::WrongStorage {
        column: column.to_owned(),
        found: format!("{:?}", stored.data_type()).to_uppercase(),
        expected: super::type_name(ty).to_owned(),
    })
}

fn integer(int: i64, ty: SqlType) -> Option<Value<'static>> {
    use SqlType as T;
    Some(match ty {
        T::Bit => Value::Bit(int != 0),
        T::TinyInt => Value::Int(i64::from(u8::try_from(int).ok()?)),
        T::SmallInt => Value::Int(i64::from(i16::try_from(int).ok()?)),
        T::Int => Value::Int(i64::from(i32::try_from(int).ok()?)),
        T::BigInt => Value::Int(int),
        T::Decimal { precision, scale } if precision <= SMALL_PRECISION => {
            Value::Decimal { unscaled: i128::from(int), scale }
        }
        T::Money | T::SmallMoney => Value::Money(int),
        #[allow(clippy::cast_precision_loss)]
        T::Float | T::Real => Value::Float(int as f64),
        T::Date => Value::Date(u32::try_from(int).ok().filter(|days| *days <= 3_652_058)?),
        T::Time(scale) => {
            let ticks = u64::try_from(int).ok().filter(|ticks| *ticks < DAY.unsigned_abs())?;
            Value::Time(cut_ticks(ticks, scale))
        }
        T::DateTime => Value::DateTime {
            days: i32::try_from(int.div_euclid(DATETIME_DAY)).ok()?,
            ticks: u32::try_from(int.rem_euclid(DATETIME_DAY)).ok()?,
        },
        T::SmallDateTime => Value::SmallDateTime {
            days: u16::try_from(int.div_euclid(1440)).ok()?,
            minutes: u16::try_from(int.rem_euclid(1440)).ok()?,
        },
        T::DateTime2(scale) => Value::DateTime2 {
            days: u32::try_from(int.div_euclid(DAY)).ok()?,
            ticks: cut_ticks(u64::try_from(int.rem_euclid(DAY)).ok()?, scale),
        },
        // a column without affinity in a table that SQLite created
        T::NVarChar(Length::Max) => Value::Text(Cow::Owned(int.to_string())),
        _ => return None,
    })
}

fn blob(bytes: &[u8], ty: SqlType) -> Option<Value<'static>> {
    match ty {
        SqlType::Decimal { scale, .. } => {
            let bytes: [u8; 16] = bytes.try_into().ok()?;
            let unscaled = (u128::from_be_bytes(bytes) ^ (1 << 127)).cast_signed();
            Some(Value::Decimal { unscaled, scale })
        }
        SqlType::UniqueIdentifier => {
            let stored: [u8; 16] = bytes.try_into().ok()?;
            let mut guid = [0; 16];
            for (byte, at) in stored.iter().zip(GUID_ORDER) {
                guid[at] = *byte;
            }
            Some(Value::Guid(guid))
        }
        SqlType::DateTimeOffset(scale) => {
            let moment = u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
            let offset_min = i16::from_be_bytes(bytes.get(8..10)?.try_into().ok()?);
            Some(Value::DateTimeOffset {
                days: u32::try_from(moment / DAY.unsigned_abs()).ok()?,
                ticks: cut_ticks(moment % DAY.unsigned_abs(), scale),
                offset_min,
            })
        }
        _ => None,
    }
}

/// Converts a value for binding and for results of functions.
pub(crate) fn output(value: &Value<'_>, ty: SqlType) -> Result<ToSqlOutput<'static>> {
    store(value, ty).map(ToSqlOutput::Owned)
}

/// Returns true if SQLite's own comparison orders the type's values correctly.
pub(crate) fn comparable(ty: SqlType) -> bool {
    !matches!(
        ty,
        SqlType::VarBinary(_)
            | SqlType::DateTimeOffset(_)
            | SqlType::SqlVariant
            | SqlType::Image
            | SqlType::Text
            | SqlType::NText
            | SqlType::Xml
    )
}

/// Returns the value with owned bytes.
pub(crate) fn load_owned(stored: ValueRef<'_>, ty: SqlType, column: &str) -> Result<Val> {
    load(stored, ty, column).map(Value::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that does not fit its column's type could not be sent.
    #[test]
    fn what_is_stored_finer_than_its_type_is_cut() {
        let last = DAY - 1;
        let loaded = |ty| load(ValueRef::Integer(last), ty, "c").unwrap();
        assert_eq!(loaded(SqlType::Time(0)), Value::Time(863_990_000_000));
        let cut = Value::DateTime2 { days: 0, ticks: 863_999_990_000 };
        assert_eq!(loaded(SqlType::DateTime2(3)), cut);
        let mut stored = last.unsigned_abs().to_be_bytes().to_vec();
        stored.extend(60_i16.to_be_bytes());
        let cut = Value::DateTimeOffset { days: 0, ticks: 863_999_990_000, offset_min: 60 };
        assert_eq!(load(ValueRef::Blob(&stored), SqlType::DateTimeOffset(3), "c").unwrap(), cut);
    }
}
