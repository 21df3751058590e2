//! Types and values: names, precedence, arithmetic, conversion, storage.

pub(crate) mod arith;
pub(crate) mod collation;
pub(crate) mod convert;
pub(crate) mod dateparse;
pub(crate) mod datetime;
pub(crate) mod decimal;
pub(crate) mod language;
pub(crate) mod sequence;
pub(crate) mod storage;
pub(crate) mod text;

use tdekit_wire_tds::{Length, SqlType, Value};

use crate::error::{Error, Result};

/// A value with owned bytes.
pub(crate) type Val = Value<'static>;

/// The family of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Int,
    Decimal,
    Money,
    Float,
    Text,
    Binary,
    Temporal,
    Guid,
    Variant,
}

/// A size too small for a check.
const LITTLE_BYTES: usize = 64 << 10;

/// Checks that there is room for this many bytes: called before a value of a size chosen by the
/// client is made.
pub(crate) fn affordable(bytes: usize) -> crate::error::Result<()> {
    if bytes >= LITTLE_BYTES {
        tdekit_wire_tds::memory::room(bytes)?;
    }
    Ok(())
}

/// Returns the size of text and of binary values in bytes; others are small.
pub(crate) fn bulk_bytes(value: &Value<'_>) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        Value::Variant(variant) => bulk_bytes(&variant.value),
        _ => 0,
    }
}

pub(crate) fn family(ty: SqlType) -> Family {
    use SqlType as T;
    match ty {
        T::Bit | T::TinyInt | T::SmallInt | T::Int | T::BigInt => Family::Int,
        T::Decimal { .. } => Family::Decimal,
        T::Money | T::SmallMoney => Family::Money,
        T::Real | T::Float => Family::Float,
        T::Char(_) | T::VarChar(_) | T::NChar(_) | T::NVarChar(_) | T::Text | T::NText | T::Xml => {
            Family::Text
        }
        T::Binary(_) | T::VarBinary(_) | T::Image => Family::Binary,
        T::Date
        | T::Time(_)
        | T::DateTime
        | T::SmallDateTime
        | T::DateTime2(_)
        | T::DateTimeOffset(_) => Family::Temporal,
        T::UniqueIdentifier => Family::Guid,
        T::SqlVariant => Family::Variant,
    }
}

pub(crate) fn is_numeric(ty: SqlType) -> bool {
    matches!(family(ty), Family::Int | Family::Decimal | Family::Money | Family::Float)
}

pub(crate) fn is_text(ty: SqlType) -> bool {
    family(ty) == Family::Text
}

/// Returns true if it consists of UTF-16 units rather than bytes.
pub(crate) fn is_national(ty: SqlType) -> bool {
    use SqlType as T;
    matches!(ty, T::NChar(_) | T::NVarChar(_) | T::NText | T::Xml)
}

/// Returns the name as in SQL Server's messages.
pub(crate) fn type_name(ty: SqlType) -> &'static str {
    use SqlType as T;
    match ty {
        T::Bit => "bit",
        T::TinyInt => "tinyint",
        T::SmallInt => "smallint",
        T::Int => "int",
        T::BigInt => "bigint",
        T::Real => "real",
        T::Float => "float",
        T::Decimal { .. } => "numeric",
        T::Money => "money",
        T::SmallMoney => "smallmoney",
        T::Char(_) => "char",
        T::VarChar(_) => "varchar",
        T::NChar(_) => "nchar",
        T::NVarChar(_) => "nvarchar",
        T::Binary(_) => "binary",
        T::VarBinary(_) => "varbinary",
        T::Text => "text",
        T::NText => "ntext",
        T::Image => "image",
        T::Xml => "xml",
        T::Date => "date",
        T::Time(_) => "time",
        T::DateTime => "datetime",
        T::SmallDateTime => "smalldatetime",
        T::DateTime2(_) => "datetime2",
        T::DateTimeOffset(_) => "datetimeoffset",
        T::UniqueIdentifier => "uniqueidentifier",
        T::SqlVariant => "sql_variant",
    }
}

/// Returns the type as in a declaration.
pub(crate) fn declaration(ty: SqlType) -> String {
    use SqlType as T;
    let name = type_name(ty);
    match ty {
        T::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        T::Char(n) | T::NChar(n) | T::Binary(n) => format!("{name}({n})"),
        T::VarChar(length) | T::NVarChar(length) | T::VarBinary(length) => match length {
            Length::Of(n) => format!("{name}({n})"),
            Length::Max => format!("{name}(max)"),
        },
        T::Time(scale) | T::DateTime2(scale) | T::DateTimeOffset(scale) => {
            format!("{name}({scale})")
        }
        _ => name.to_owned(),
    }
}

/// Data type precedence: the greater number wins.
fn rank(ty: SqlType) -> u8 {
    use SqlType as T;
    match ty {
        T::SqlVariant => 30,
        T::Xml => 29,
        T::DateTimeOffset(_) => 28,
        T::DateTime2(_) => 27,
        T::DateTime => 26,
        T::SmallDateTime => 25,
        T::Date => 24,
        T::Time(_) => 23,
        T::Float => 22,
        T::Real => 21,
        T::Decimal { .. } => 20,
        T::Money => 19,
        T::SmallMoney => 18,
        T::BigInt => 17,
        T::Int => 16,
        T::SmallInt => 15,
        T::TinyInt => 14,
        T::Bit => 13,
        T::NText => 12,
        T::Text => 11,
        T::Image => 10,
        T::UniqueIdentifier => 9,
        T::NVarChar(_) => 8,
        T::NChar(_) => 7,
        T::VarChar(_) => 6,
        T::Char(_) => 5,
        T::VarBinary(_) => 4,
        T::Binary(_) => 3,
    }
}

/// Returns the precision and scale of a number as a decimal.
pub(crate) fn as_decimal(ty: SqlType) -> Option<(u8, u8)> {
    use SqlType as T;
    Some(match ty {
        T::Bit => (1, 0),
        T::TinyInt => (3, 0),
        T::SmallInt => (5, 0),
        T::Int => (10, 0),
        T::BigInt => (19, 0),
        T::Money => (19, 4),
        T::SmallMoney => (10, 4),
        T::Decimal { precision, scale } => (precision, scale),
        _ => return None,
    })
}

/// Returns the length of a character or binary type.
pub(crate) fn length_of(ty: SqlType) -> Option<Length> {
    use SqlType as T;
    Some(match ty {
        T::Char(n) | T::NChar(n) | T::Binary(n) => Length::Of(n),
        T::VarChar(length) | T::NVarChar(length) | T::VarBinary(length) => length,
        T::Text | T::NText | T::Image | T::Xml => Length::Max,
        _ => return None,
    })
}

fn longer(a: Length, b: Length) -> Length {
    match (a, b) {
        (Length::Of(a), Length::Of(b)) => Length::Of(a.max(b)),
        _ => Length::Max,
    }
}

/// Returns the number of characters of a value of this type as text.
pub(crate) fn display_length(ty: SqlType) -> u16 {
    use SqlType as T;
    match ty {
        T::Bit => 1,
        T::TinyInt => 3,
        T::SmallInt => 6,
        T::Int => 12,
        T::BigInt => 24,
        T::Decimal { .. } => 41,
        T::Real | T::Float => 53,
        T::Money | T::SmallMoney => 30,
        T::UniqueIdentifier => 36,
        T::DateTimeOffset(_) => 34,
        _ => 30,
    }
}

/// Returns the type to which both sides of an operator, or all branches of a CASE, are converted.
///
/// # Errors
/// 206 if there is none.
pub(crate) fn common_type(a: SqlType, b: SqlType) -> Result<SqlType> {
    use SqlType as T;
    if a == b {
        return Ok(a);
    }
    let (high, low) = if rank(a) >= rank(b) { (a, b) } else { (b, a) };
    if !implicit(low, high) {
        let (left, right) = (type_name(a).to_owned(), type_name(b).to_owned());
        return Err(Error::OperandClash { left, right });
    }
    let merged = match (high, low) {
        (T::Decimal { .. }, _) => match (as_decimal(high), as_decimal(low)) {
            (Some((p1, s1)), Some((p2, s2))) => {
                let scale = s1.max(s2);
                let whole = (p1 - s1).max(p2 - s2);
                let precision = (whole + scale).min(38);
                let scale = scale.min(38 - whole.min(38));
                T::Decimal { precision, scale }
            }
            _ => high,
        },
        (T::NVarChar(_) | T::NChar(_) | T::VarChar(_) | T::Char(_), _)
            if is_text(low) || family(low) == Family::Binary =>
        {
            let (Some(first), Some(second)) = (length_of(high), length_of(low)) else {
                return Ok(high);
            };
            let length = longer(first, second);
            match (high, low) {
                (T::NChar(_), T::NChar(_) | T::Char(_) | T::Binary(_))
                | (T::Char(_), T::Char(_) | T::Binary(_)) => match units_of(high, length) {
                    Length::Of(n) if is_national(high) => T::NChar(n),
                    Length::Of(n) => T::Char(n),
                    Length::Max => high,
                },
                _ if is_national(high) => T::NVarChar(units(length)),
                _ => T::VarChar(length),
            }
        }
        (T::VarBinary(_) | T::Binary(_), T::VarBinary(_) | T::Binary(_)) => {
            match (length_of(high), length_of(low)) {
                (Some(first), Some(second)) => match (high, low) {
                    (T::Binary(a), T::Binary(b)) => T::Binary(a.max(b)),
                    _ => T::VarBinary(longer(first, second)),
                },
                _ => high,
            }
        }
        // all digits of a second of the other type are kept; datetime has three
        (T::DateTime2(a), T::DateTime2(b) | T::Time(b)) => T::DateTime2(a.max(b)),
        (T::DateTime2(a), T::DateTime) => T::DateTime2(a.max(3)),
        (T::DateTimeOffset(a), T::DateTimeOffset(b) | T::DateTime2(b) | T::Time(b)) => {
            T::DateTimeOffset(a.max(b))
        }
        (T::DateTimeOffset(a), T::DateTime) => T::DateTimeOffset(a.max(3)),
        (T::Time(a), T::Time(b)) => T::Time(a.max(b)),
        _ => high,
    };
    Ok(merged)
}

/// Converts a length to the units of a type of this kind.
fn units_of(ty: SqlType, length: Length) -> Length {
    if is_national(ty) { units(length) } else { length }
}

/// Converts a length in bytes of `varchar` to one of `nvarchar`.
pub(crate) fn units(length: Length) -> Length {
    match length {
        Length::Of(n) => Length::Of(n.min(4000)),
        Length::Max => Length::Max,
    }
}

/// Returns true if a value of `from` converts to `to` implicitly.
pub(crate) fn implicit(from: SqlType, to: SqlType) -> bool {
    use Family as F;
    use SqlType as T;
    if matches!(from, T::Text | T::NText) && !is_text(to) {
        return false;
    }
    if matches!(from, T::Image) && family(to) != F::Binary {
        return false;
    }
    match (family(from), family(to)) {
        (a, b) if a == b => !matches!((from, to), (T::Date, T::Time(_)) | (T::Time(_), T::Date)),
        (F::Int | F::Decimal | F::Money | F::Float, F::Int | F::Decimal | F::Money | F::Float) => {
            true
        }
        (F::Int | F::Decimal | F::Float, F::Text) => !matches!(to, T::Text | T::NText | T::Xml),
        (F::Money, F::Text) => !matches!(to, T::Text | T::NText | T::Xml),
        (F::Text, F::Int | F::Decimal | F::Float) => from != T::Xml,
        (F::Text, F::Money | F::Temporal | F::Guid) => from != T::Xml,
        (F::Temporal | F::Guid, F::Text) => !matches!(to, T::Text | T::NText | T::Xml),
        (F::Int | F::Decimal | F::Money, F::Temporal) => {
            matches!(to, T::DateTime | T::SmallDateTime)
        }
        (F::Float, F::Temporal) => matches!(to, T::DateTime | T::SmallDateTime),
        (F::Int | F::Decimal | F::Money, F::Binary) => to != T::Image,
        (F::Binary, F::Int | F::Decimal | F::Money) => true,
        (F::Binary, F::Text | F::Guid) => to != T::Xml && to != T::NText && to != T::Text,
        (F::Binary, F::Temporal) => matches!(to, T::DateTime | T::SmallDateTime),
        (F::Guid, F::Binary) => true,
        (_, F::Variant) => !matches!(length_of(from), Some(Length::Max)),
        _ => false,
    }
}

/// Returns true if CAST and CONVERT can convert a value of `from` to `to`.
pub(crate) fn explicit(from: SqlType, to: SqlType) -> bool {
    use Family as F;
    if implicit(from, to) {
        return true;
    }
    match (family(from), family(to)) {
        (F::Temporal, F::Temporal) => false,
        (F::Temporal, F::Int | F::Decimal | F::Money | F::Float) => {
            matches!(from, SqlType::DateTime | SqlType::SmallDateTime)
        }
        (F::Text, F::Text | F::Binary) => true,
        (F::Int | F::Decimal | F::Money | F::Float, F::Text) => to != SqlType::Xml,
        (F::Float, F::Binary) => true,
        (F::Variant, _) => true,
        _ => false,
    }
}

/// Returns true if the value is NULL.
pub(crate) fn is_null(value: &Value<'_>) -> bool {
    matches!(value, Value::Null)
}
