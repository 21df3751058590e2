//! Reading values that clients send: parameters and rows of a bulk load.

use std::borrow::Cow;

use crate::code_page::{self, UTF8_PAGE};
use crate::error::Error;
use crate::reader::{Reader, utf16};
use crate::type_info::{COLLATION, Layout, TypeInfo, code, sized, time_bytes, with_scale};
use crate::types::{
    DATETIME_TICKS_PER_DAY, Length, MAX_PRECISION, MAX_TIME_SCALE, SqlType, TICKS_PER_DAY, Value,
    Variant,
};

const MAX_DAYS: u32 = 3_652_058;
const PARTS_NULL: u64 = u64::MAX;
const PARTS_UNKNOWN: u64 = u64::MAX - 1;
const SHORT_NULL: u16 = u16::MAX;
const LONG_NULL: u32 = u32::MAX;

/// Place of a value: `text`, `ntext` and `image` differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Parameter,
    Row,
}

/// Reads a value of type `info`.
pub(crate) fn read_value(
    from: &mut Reader<'_>,
    info: TypeInfo,
    place: Place,
) -> Result<Value<'static>, Error> {
    match value_bytes(from, info, place)? {
        Some(bytes) => value_of(info, bytes),
        None => Ok(Value::Null),
    }
}

/// Reads the bytes of a value, whatever they hold, which leads to the start of the next one; none
/// for NULL.
pub(crate) fn value_bytes<'a>(
    from: &mut Reader<'a>,
    info: TypeInfo,
    place: Place,
) -> Result<Option<Cow<'a, [u8]>>, Error> {
    let what = "value";
    let length = match info.layout {
        Layout::Nothing => return Ok(None),
        Layout::Fixed(bytes) => bytes.into(),
        Layout::Byte => match from.u8(what)? {
            0 => return Ok(None),
            length => length.into(),
        },
        Layout::Short => match from.u16(what)? {
            SHORT_NULL => return Ok(None),
            length => length.into(),
        },
        Layout::Parts => return read_parts(from),
        Layout::Long => {
            if place == Place::Row {
                let pointer = from.u8(what)?;
                if pointer == 0 {
                    return Ok(None);
                }
                from.bytes(what, usize::from(pointer) + 8)?;
            }
            match from.u32(what)? {
                LONG_NULL => return Ok(None),
                length => length as usize,
            }
        }
        Layout::Variant => match from.u32(what)? {
            0 => return Ok(None),
            length => length as usize,
        },
    };
    Ok(Some(Cow::Borrowed(from.bytes(what, length)?)))
}

/// Decodes the value from bytes of type `info`.
pub(crate) fn value_of(info: TypeInfo, bytes: Cow<'_, [u8]>) -> Result<Value<'static>, Error> {
    match info.layout {
        Layout::Nothing => Ok(Value::Null),
        Layout::Fixed(_) => scalar(info.ty, &bytes),
        Layout::Byte if !is_long(info.ty) => scalar(info.ty, &bytes),
        Layout::Short => {
            within(info.ty, bytes.len())?;
            text_or_binary(info, bytes)
        }
        Layout::Byte | Layout::Parts | Layout::Long => text_or_binary(info, bytes),
        Layout::Variant => read_variant(&mut Reader::new(&bytes)),
    }
}

fn is_long(ty: SqlType) -> bool {
    matches!(
        ty,
        SqlType::Char(_) | SqlType::VarChar(_) | SqlType::Binary(_) | SqlType::VarBinary(_)
    )
}

/// Checks that the length of a value is within that of its type.
fn within(ty: SqlType, length: usize) -> Result<(), Error> {
    let most = match ty {
        SqlType::Char(most)
        | SqlType::VarChar(Length::Of(most))
        | SqlType::Binary(most)
        | SqlType::VarBinary(Length::Of(most)) => most,
        SqlType::NChar(units) | SqlType::NVarChar(Length::Of(units)) => units.saturating_mul(2),
        _ => return Ok(()),
    };
    if length > most.into() {
        let (length, limit) = (length as u64, most.into());
        return Err(Error::TooLong { what: "value", length, limit });
    }
    Ok(())
}

/// Reads a `(max)` value, or none for NULL. A single chunk is not copied.
fn read_parts<'a>(from: &mut Reader<'a>) -> Result<Option<Cow<'a, [u8]>>, Error> {
    let what = "chunk of a value";
    let told = from.u64(what)?;
    if told == PARTS_NULL {
        return Ok(None);
    }
    let mut whole = Cow::Borrowed(&[][..]);
    loop {
        let length = from.u32(what)? as usize;
        if length == 0 {
            break;
        }
        let part = from.bytes(what, length)?;
        if whole.is_empty() {
            whole = Cow::Borrowed(part);
        } else {
            whole.to_mut().extend_from_slice(part);
        }
    }
    if told != PARTS_UNKNOWN && told != whole.len() as u64 {
        return Err(Error::Invalid { what: "length of a value in chunks", value: told });
    }
    Ok(Some(whole))
}

fn text_or_binary(info: TypeInfo, bytes: Cow<'_, [u8]>) -> Result<Value<'static>, Error> {
    let what = "text of a value";
    let text = match info.ty {
        SqlType::NChar(_) | SqlType::NVarChar(_) | SqlType::NText => utf16(what, &bytes)?,
        SqlType::Xml => read_xml(&bytes)?,
        SqlType::Char(_) | SqlType::VarChar(_) | SqlType::Text if info.page() == UTF8_PAGE => {
            String::from_utf8(bytes.into_owned()).map_err(|_| Error::NotText { what })?
        }
        SqlType::Char(_) | SqlType::VarChar(_) | SqlType::Text => {
            code_page::decode(info.page(), &bytes)
        }
        _ => return Ok(Value::Binary(Cow::Owned(bytes.into_owned()))),
    };
    Ok(Value::Text(Cow::Owned(text)))
}

/// Decodes xml, which comes in UTF-16, with or without a byte order mark, or in UTF-8 with a
/// declaration.
fn read_xml(bytes: &[u8]) -> Result<String, Error> {
    let what = "xml";
    match bytes {
        [0xFF, 0xFE, rest @ ..] => utf16(what, rest),
        [b'<', next, ..] if *next != 0 => {
            String::from_utf8(bytes.to_vec()).map_err(|_| Error::NotText { what })
        }
        _ => utf16(what, bytes),
    }
}

/// Decodes a value of a fixed-size type from all of `bytes`.
fn scalar(ty: SqlType, bytes: &[u8]) -> Result<Value<'static>, Error> {
    let mut from = Reader::new(bytes);
    let value = read_scalar(ty, &mut from)?;
    from.end("value")?;
    Ok(value)
}

fn read_scalar(ty: SqlType, from: &mut Reader<'_>) -> Result<Value<'static>, Error> {
    let what = "value";
    Ok(match ty {
        SqlType::Bit => Value::Bit(from.u8(what)? != 0),
        SqlType::TinyInt => Value::Int(from.u8(what)?.into()),
        SqlType::SmallInt => Value::Int(i64::from(from.u16(what)?.cast_signed())),
        // A parameter of a type with several sizes may be of a smaller size itself.
        SqlType::Int => Value::Int(from.i32(what)?.into()),
        SqlType::BigInt => Value::Int(from.u64(what)?.cast_signed()),
        SqlType::Real => finite(f32::from_bits(from.u32(what)?).into())?,
        SqlType::Float => finite(f64::from_bits(from.u64(what)?))?,
        SqlType::SmallMoney => Value::Money(from.i32(what)?.into()),
        SqlType::Money => {
            let high = from.i32(what)?;
            let low = from.u32(what)?;
            Value::Money(i64::from(high) << 32 | i64::from(low))
        }
        SqlType::Decimal { scale, .. } => read_decimal(scale, from)?,
        SqlType::DateTime => {
            let days = from.i32(what)?;
            let ticks = from.u32(what)?;
            // From 1753-01-01 to 9999-12-31.
            if !(-53_690..=2_958_463).contains(&days) || ticks >= DATETIME_TICKS_PER_DAY {
                return Err(Error::Invalid { what: "datetime", value: ticks.into() });
            }
            Value::DateTime { days, ticks }
        }
        SqlType::SmallDateTime => {
            let days = from.u16(what)?;
            let minutes = from.u16(what)?;
            if minutes >= 1440 {
                return Err(Error::Invalid { what: "smalldatetime", value: minutes.into() });
            }
            Value::SmallDateTime { days, minutes }
        }
        SqlType::Date => Value::Date(read_days(from)?),
        SqlType::Time(scale) => Value::Time(read_ticks(scale, from)?),
        SqlType::DateTime2(scale) => {
            let ticks = read_ticks(scale, from)?;
            Value::DateTime2 { days: read_days(from)?, ticks }
        }
        SqlType::DateTimeOffset(scale) => {
            let ticks = read_ticks(scale, from)?;
            let days = read_days(from)?;
            let offset_min = from.u16(what)?.cast_signed();
            if offset_min.unsigned_abs() > 840 {
                let value = u64::from(offset_min.unsigned_abs());
                return Err(Error::Invalid { what: "offset of a datetimeoffset", value });
            }
            Value::DateTimeOffset { days, ticks, offset_min }
        }
        SqlType::UniqueIdentifier => match from.bytes(what, 16)?.first_chunk() {
            Some(guid) => Value::Guid(*guid),
            None => Value::Null,
        },
        _ => return Err(Error::Unfit { ty }),
    })
}

fn finite(float: f64) -> Result<Value<'static>, Error> {
    if !float.is_finite() {
        return Err(Error::Invalid { what: "float", value: float.to_bits() });
    }
    Ok(Value::Float(float))
}

fn read_decimal(scale: u8, from: &mut Reader<'_>) -> Result<Value<'static>, Error> {
    let what = "decimal";
    let positive = match from.u8(what)? {
        0 => false,
        1 => true,
        other => return Err(Error::Invalid { what: "sign of a decimal", value: other.into() }),
    };
    let digits = from.rest();
    if digits.is_empty() || digits.len() > 16 {
        let (length, limit) = (digits.len() as u64, 16);
        return Err(Error::TooLong { what, length, limit });
    }
    from.bytes(what, digits.len())?;
    let magnitude = digits.iter().rev().fold(0_u128, |all, byte| all << 8 | u128::from(*byte));
    let limit = 10_u128.pow(MAX_PRECISION.into());
    let unscaled = match i128::try_from(magnitude) {
        Ok(unscaled) if magnitude < limit => unscaled,
        _ => return Err(Error::Invalid { what, value: u64::MAX }),
    };
    Ok(Value::Decimal { unscaled: if positive { unscaled } else { -unscaled }, scale })
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

fn read_days(from: &mut Reader<'_>) -> Result<u32, Error> {
    let days = little_endian(from.bytes("date", 3)?);
    match u32::try_from(days) {
        Ok(days) if days <= MAX_DAYS => Ok(days),
        _ => Err(Error::Invalid { what: "date", value: days }),
    }
}

fn read_ticks(scale: u8, from: &mut Reader<'_>) -> Result<u64, Error> {
    let told = little_endian(from.bytes("time", time_bytes(scale).into())?);
    let ticks = told * 10_u64.pow(u32::from(MAX_TIME_SCALE.saturating_sub(scale)));
    if ticks >= TICKS_PER_DAY {
        return Err(Error::Invalid { what: "time", value: told });
    }
    Ok(ticks)
}

fn read_variant(from: &mut Reader<'_>) -> Result<Value<'static>, Error> {
    let what = "variant";
    let base = from.u8(what)?;
    let length = from.u8(what)?;
    let mut properties = Reader::new(from.bytes(what, length.into())?);
    let info = variant_type(base, &mut properties)?;
    properties.end(what)?;
    let bytes = from.rest();
    let value = match info.layout {
        Layout::Short => text_or_binary(info, Cow::Borrowed(bytes))?,
        _ => scalar(info.ty, bytes)?,
    };
    Ok(Value::Variant(Box::new(Variant { ty: info.ty, value })))
}

fn variant_type(base: u8, properties: &mut Reader<'_>) -> Result<TypeInfo, Error> {
    let what = "type of a variant";
    let ty = match base {
        code::BIT => SqlType::Bit,
        code::INT1 => SqlType::TinyInt,
        code::INT2 => SqlType::SmallInt,
        code::INT4 => SqlType::Int,
        code::INT8 => SqlType::BigInt,
        code::FLOAT4 => SqlType::Real,
        code::FLOAT8 => SqlType::Float,
        code::MONEY => SqlType::Money,
        code::MONEY4 => SqlType::SmallMoney,
        code::DATETIME => sized(code::DATETIMEN, 8)?,
        code::DATETIME4 => sized(code::DATETIMEN, 4)?,
        code::GUID => SqlType::UniqueIdentifier,
        code::DATEN => SqlType::Date,
        code::TIMEN | code::DATETIME2N | code::DATETIMEOFFSETN => {
            with_scale(base, properties.u8(what)?)?
        }
        code::DECIMALN | code::NUMERICN => {
            let precision = properties.u8(what)?;
            let scale = properties.u8(what)?;
            if precision == 0 || precision > MAX_PRECISION || scale > precision {
                return Err(Error::Invalid { what, value: precision.into() });
            }
            SqlType::Decimal { precision, scale }
        }
        code::BIGVARBINARY | code::BIGBINARY => {
            let most = properties.u16(what)?;
            return Ok(TypeInfo::plain(SqlType::VarBinary(Length::Of(most)), Layout::Short));
        }
        code::BIGVARCHAR | code::BIGCHAR | code::NVARCHAR | code::NCHAR => {
            let collation = properties.bytes(what, 5)?;
            let collation = collation.first_chunk().copied().unwrap_or(COLLATION);
            let most = properties.u16(what)?;
            let ty = match base {
                code::BIGVARCHAR | code::BIGCHAR => SqlType::VarChar(Length::Of(most)),
                _ => SqlType::NVarChar(Length::Of(most / 2)),
            };
            return Ok(TypeInfo { ty, layout: Layout::Short, collation });
        }
        other => return Err(Error::Invalid { what, value: other.into() }),
    };
    Ok(TypeInfo::plain(ty, Layout::Byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::type_info::put_type_info;
    use crate::value_write::put_value;

    fn text(text: &str) -> Value<'static> {
        Value::Text(Cow::Owned(text.to_owned()))
    }

    fn binary(bytes: &[u8]) -> Value<'static> {
        Value::Binary(Cow::Owned(bytes.to_vec()))
    }

    fn variant(ty: SqlType, value: Value<'static>) -> (SqlType, Value<'static>) {
        (SqlType::SqlVariant, Value::Variant(Box::new(Variant { ty, value })))
    }

    fn there_and_back(ty: SqlType, value: &Value<'_>) -> Result<Value<'static>, Error> {
        let mut out = Vec::new();
        put_type_info(&mut out, ty)?;
        put_value(&mut out, ty, value)?;
        let mut from = Reader::new(&out);
        let info = TypeInfo::read(&mut from)?;
        assert_eq!(info.ty, ty);
        let value = read_value(&mut from, info, Place::Row)?;
        from.end("value")?;
        Ok(value)
    }

    fn decimal(unscaled: i128, scale: u8) -> Value<'static> {
        Value::Decimal { unscaled, scale }
    }

    fn values() -> Vec<(SqlType, Value<'static>)> {
        let long = "x".repeat(20_000);
        let digits = 10_i128.pow(38) - 1;
        vec![
            (SqlType::Bit, Value::Bit(true)),
            (SqlType::TinyInt, Value::Int(255)),
            (SqlType::SmallInt, Value::Int(-32_768)),
            (SqlType::Int, Value::Int(i32::MIN.into())),
            (SqlType::BigInt, Value::Int(i64::MIN)),
            (SqlType::Real, Value::Float(0.5)),
            (SqlType::Float, Value::Float(-1e300)),
            (SqlType::Money, Value::Money(i64::MIN)),
            (SqlType::Money, Value::Money(12_345_678_901_234)),
            (SqlType::SmallMoney, Value::Money(-1)),
            (SqlType::Decimal { precision: 38, scale: 10 }, decimal(-digits, 10)),
            (SqlType::Decimal { precision: 9, scale: 2 }, decimal(999_999_999, 2)),
            (SqlType::Decimal { precision: 19, scale: 0 }, decimal(0, 0)),
            (SqlType::Char(3), text("ab ")),
            (SqlType::VarChar(Length::Of(8000)), text("é€")),
            (SqlType::VarChar(Length::Max), text(&long)),
            (SqlType::NChar(3), text("\u{1F600} ")),
            (SqlType::NVarChar(Length::Of(4000)), text("")),
            (SqlType::NVarChar(Length::Max), text("")),
            (SqlType::NVarChar(Length::Max), text(&long)),
            (SqlType::Binary(2), binary(&[1, 0])),
            (SqlType::VarBinary(Length::Of(5)), binary(&[])),
            (SqlType::VarBinary(Length::Max), binary(&[9; 9000])),
            (SqlType::Text, text("text")),
            (SqlType::NText, text("Ωtext")),
            (SqlType::Image, binary(&[1, 2, 3])),
            (SqlType::Xml, text("<a/>")),
            (SqlType::Date, Value::Date(MAX_DAYS)),
            (SqlType::Time(7), Value::Time(TICKS_PER_DAY - 1)),
            (SqlType::Time(0), Value::Time(10_000_000)),
            (SqlType::DateTime, Value::DateTime { days: -53_690, ticks: 25_919_999 }),
            (SqlType::SmallDateTime, Value::SmallDateTime { days: 65_535, minutes: 1439 }),
            (SqlType::DateTime2(3), Value::DateTime2 { days: 1, ticks: 10_000 }),
            (
                SqlType::DateTimeOffset(7),
                Value::DateTimeOffset { days: 7, ticks: 1, offset_min: -840 },
            ),
            (SqlType::UniqueIdentifier, Value::Guid([7; 16])),
            variant(SqlType::Int, Value::Int(-7)),
            variant(SqlType::Decimal { precision: 5, scale: 2 }, decimal(-100, 2)),
            variant(SqlType::NVarChar(Length::Of(10)), text("Ω")),
            variant(SqlType::VarChar(Length::Of(10)), text("é")),
            variant(SqlType::VarBinary(Length::Of(10)), binary(&[1])),
            variant(SqlType::DateTime2(7), Value::DateTime2 { days: 1, ticks: 1 }),
        ]
    }

    #[test]
    fn every_type_goes_there_and_back() {
        for (ty, value) in values() {
            assert_eq!(there_and_back(ty, &value).unwrap(), value, "{ty:?}");
            assert_eq!(there_and_back(ty, &Value::Null).unwrap(), Value::Null, "{ty:?}");
        }
    }

    #[test]
    fn every_cut_is_truncated() {
        for (ty, value) in values() {
            let mut out = Vec::new();
            put_type_info(&mut out, ty).unwrap();
            put_value(&mut out, ty, &value).unwrap();
            for length in (0..out.len()).rev().take(40) {
                let mut from = Reader::new(&out[..length]);
                let read = TypeInfo::read(&mut from)
                    .and_then(|info| read_value(&mut from, info, Place::Row));
                assert!(read.unwrap_err().is_truncated(), "{ty:?} {length}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let unfit = [
            (SqlType::TinyInt, Value::Int(-1)),
            (SqlType::Int, Value::Int(1 << 31)),
            (SqlType::Int, text("1")),
            (SqlType::Float, Value::Float(f64::NAN)),
            (SqlType::Real, Value::Float(1e300)),
            (SqlType::SmallMoney, Value::Money(1 << 31)),
            (SqlType::Decimal { precision: 3, scale: 1 }, decimal(1000, 1)),
            (SqlType::Decimal { precision: 3, scale: 1 }, decimal(101, 2)),
            (SqlType::VarChar(Length::Of(2)), text("abc")),
            (SqlType::NVarChar(Length::Of(1)), text("\u{1F600}")),
            (SqlType::Date, Value::Date(MAX_DAYS + 1)),
            (SqlType::Time(0), Value::Time(1)),
            (SqlType::Time(7), Value::Time(TICKS_PER_DAY)),
        ];
        for (ty, value) in unfit {
            assert_eq!(there_and_back(ty, &value), Err(Error::Unfit { ty }), "{value:?}");
        }
    }

    #[test]
    fn decimals_take_the_scale_of_their_column() {
        let ty = SqlType::Decimal { precision: 10, scale: 3 };
        assert_eq!(there_and_back(ty, &decimal(15, 1)).unwrap(), decimal(1500, 3));
        assert_eq!(there_and_back(ty, &decimal(15_000, 4)).unwrap(), decimal(1500, 3));
        assert_eq!(there_and_back(ty, &Value::Int(2)).unwrap(), decimal(2000, 3));
    }

    #[test]
    fn chunks_that_lie_are_refused() {
        let parts = |told: u64, chunks: &[&[u8]]| {
            let mut bytes = told.to_le_bytes().to_vec();
            for chunk in chunks {
                bytes.extend(u32::try_from(chunk.len()).unwrap().to_le_bytes());
                bytes.extend_from_slice(chunk);
            }
            bytes.extend([0; 4]);
            read_parts(&mut Reader::new(&bytes)).map(|all| all.map(Cow::into_owned))
        };
        assert_eq!(parts(3, &[b"ab", b"c"]).unwrap().unwrap(), b"abc");
        assert_eq!(parts(PARTS_UNKNOWN, &[b"ab", b"c"]).unwrap().unwrap(), b"abc");
        assert!(parts(2, &[b"ab", b"c"]).is_err());
        assert!(parts(1 << 31, &[b"ab"]).is_err());
        // No memory is allocated for a chunk that claims to have 2^31 bytes.
        let lying = [&PARTS_UNKNOWN.to_le_bytes()[..], &(1_u32 << 31).to_le_bytes()].concat();
        assert!(read_parts(&mut Reader::new(&lying)).unwrap_err().is_truncated());
    }
}
