//! Writing values after the types of their columns. Source: MS-TDS 2.2.5.5.

use crate::code_page::{self, OWN_PAGE};
use crate::error::Error;
use crate::reader::{patch_u16, put_utf16};
use crate::type_info::{COLLATION, code, decimal_bytes, time_bytes};
use crate::types::{
    DATETIME_TICKS_PER_DAY, Length, MAX_TIME_SCALE, SqlType, TICKS_PER_DAY, Value, Variant,
};

/// The last day of the calendar, 9999-12-31.
const MAX_DAYS: u32 = 3_652_058;
const PARTS_NULL: [u8; 8] = [0xFF; 8];
/// Maximum size of a `(max)` value, in bytes.
const MAX_LONG_BYTES: usize = 0x7FFF_FFFF;
/// Pointer of sixteen bytes and time of eight, which `text`, `ntext` and `image` have in rows.
const TEXT_POINTER: [u8; 25] = [
    16, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
    0xFF, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// Appends a value of type `ty`. On failure, the appended bytes are unusable.
///
/// # Errors
/// A value that the type cannot represent exactly.
pub fn put_value(out: &mut Vec<u8>, ty: SqlType, value: &Value<'_>) -> Result<(), Error> {
    put_in_page(out, ty, value, OWN_PAGE)
}

/// As [`put_value`], with `char`, `varchar` and `text` in this code page. Characters that a page of
/// several bytes has no room for are left out.
pub(crate) fn put_in_page(
    out: &mut Vec<u8>,
    ty: SqlType,
    value: &Value<'_>,
    page: u16,
) -> Result<(), Error> {
    match value {
        Value::Null => put_null(out, ty),
        Value::Text(text) => return put_text(out, ty, text, page),
        Value::Binary(bytes) => return put_binary(out, ty, bytes),
        Value::Variant(variant) if ty == SqlType::SqlVariant => return put_variant(out, variant),
        _ => {
            let at = out.len();
            out.push(0);
            put_scalar(out, ty, value)?;
            let length = u8::try_from(out.len() - at - 1).map_err(|_| Error::Unfit { ty })?;
            if let Some(place) = out.get_mut(at) {
                *place = length;
            }
        }
    }
    Ok(())
}

fn put_null(out: &mut Vec<u8>, ty: SqlType) {
    match ty {
        SqlType::VarChar(Length::Max)
        | SqlType::NVarChar(Length::Max)
        | SqlType::VarBinary(Length::Max)
        | SqlType::Xml => out.extend_from_slice(&PARTS_NULL),
        SqlType::Char(_)
        | SqlType::VarChar(_)
        | SqlType::NChar(_)
        | SqlType::NVarChar(_)
        | SqlType::Binary(_)
        | SqlType::VarBinary(_) => out.extend_from_slice(&[0xFF, 0xFF]),
        SqlType::SqlVariant => out.extend_from_slice(&[0; 4]),
        // A length of 0, or a pointer of length 0.
        _ => out.push(0),
    }
}

/// Appends a value of a type that has a length in one byte, without that byte.
fn put_scalar(out: &mut Vec<u8>, ty: SqlType, value: &Value<'_>) -> Result<(), Error> {
    let unfit = Error::Unfit { ty };
    match (ty, value) {
        (SqlType::Bit, Value::Bit(bit)) => out.push(u8::from(*bit)),
        (SqlType::Bit, Value::Int(int @ (0 | 1))) => out.push(u8::from(*int == 1)),
        (SqlType::TinyInt, Value::Int(int)) => out.push(u8::try_from(*int).map_err(|_| unfit)?),
        (SqlType::SmallInt, Value::Int(int)) => {
            out.extend(i16::try_from(*int).map_err(|_| unfit)?.to_le_bytes());
        }
        (SqlType::Int, Value::Int(int)) => {
            out.extend(i32::try_from(*int).map_err(|_| unfit)?.to_le_bytes());
        }
        (SqlType::BigInt, Value::Int(int)) => out.extend(int.to_le_bytes()),
        (SqlType::Real, Value::Float(float)) => {
            #[expect(clippy::cast_possible_truncation, reason = "a real was widened before")]
            let real = *float as f32;
            if !real.is_finite() {
                return Err(unfit);
            }
            out.extend(real.to_le_bytes());
        }
        (SqlType::Float, Value::Float(float)) if float.is_finite() => {
            out.extend(float.to_le_bytes());
        }
        (SqlType::Decimal { precision, scale }, Value::Decimal { unscaled, scale: own }) => {
            return put_decimal(out, precision, scale, *unscaled, *own);
        }
        (SqlType::Decimal { precision, scale }, Value::Int(int)) => {
            return put_decimal(out, precision, scale, i128::from(*int), 0);
        }
        (SqlType::Money, Value::Money(money)) => {
            // The upper half comes first.
            out.extend(money.to_le_bytes().into_iter().cycle().skip(4).take(8));
        }
        (SqlType::SmallMoney, Value::Money(money)) => {
            out.extend(i32::try_from(*money).map_err(|_| unfit)?.to_le_bytes());
        }
        (SqlType::UniqueIdentifier, Value::Guid(guid)) => out.extend(guid),
        (SqlType::DateTime, Value::DateTime { days, ticks }) if *ticks < DATETIME_TICKS_PER_DAY => {
            out.extend(days.to_le_bytes());
            out.extend(ticks.to_le_bytes());
        }
        (SqlType::SmallDateTime, Value::SmallDateTime { days, minutes }) if *minutes < 1440 => {
            out.extend(days.to_le_bytes());
            out.extend(minutes.to_le_bytes());
        }
        (SqlType::Date, Value::Date(days)) => put_days(out, ty, *days)?,
        (SqlType::Time(scale), Value::Time(ticks)) => put_ticks(out, ty, scale, *ticks)?,
        (SqlType::DateTime2(scale), Value::DateTime2 { days, ticks }) => {
            put_ticks(out, ty, scale, *ticks)?;
            put_days(out, ty, *days)?;
        }
        (SqlType::DateTimeOffset(scale), Value::DateTimeOffset { days, ticks, offset_min })
            if offset_min.unsigned_abs() <= 840 =>
        {
            put_ticks(out, ty, scale, *ticks)?;
            put_days(out, ty, *days)?;
            out.extend(offset_min.to_le_bytes());
        }
        _ => return Err(unfit),
    }
    Ok(())
}

fn put_days(out: &mut Vec<u8>, ty: SqlType, days: u32) -> Result<(), Error> {
    if days > MAX_DAYS {
        return Err(Error::Unfit { ty });
    }
    out.extend(days.to_le_bytes().into_iter().take(3));
    Ok(())
}

fn put_ticks(out: &mut Vec<u8>, ty: SqlType, scale: u8, ticks: u64) -> Result<(), Error> {
    let unit = 10_u64.pow(u32::from(MAX_TIME_SCALE.saturating_sub(scale)));
    if ticks >= TICKS_PER_DAY || !ticks.is_multiple_of(unit) {
        return Err(Error::Unfit { ty });
    }
    let bytes = usize::from(time_bytes(scale));
    out.extend((ticks / unit).to_le_bytes().into_iter().take(bytes));
    Ok(())
}

fn put_decimal(
    out: &mut Vec<u8>,
    precision: u8,
    scale: u8,
    unscaled: i128,
    own_scale: u8,
) -> Result<(), Error> {
    let unfit = Error::Unfit { ty: SqlType::Decimal { precision, scale } };
    let magnitude = unscaled.unsigned_abs();
    let magnitude = if own_scale <= scale {
        power_of_ten(scale - own_scale).and_then(|power| magnitude.checked_mul(power))
    } else {
        power_of_ten(own_scale - scale)
            .and_then(|power| magnitude.is_multiple_of(power).then(|| magnitude / power))
    };
    let limit = power_of_ten(precision);
    match (magnitude, limit) {
        (Some(magnitude), Some(limit)) if magnitude < limit => {
            out.push(u8::from(unscaled >= 0));
            let bytes = usize::from(decimal_bytes(precision)) - 1;
            out.extend(magnitude.to_le_bytes().into_iter().take(bytes));
            Ok(())
        }
        _ => Err(unfit),
    }
}

fn power_of_ten(exponent: u8) -> Option<u128> {
    10_u128.checked_pow(exponent.into())
}

fn put_text(out: &mut Vec<u8>, ty: SqlType, text: &str, page: u16) -> Result<(), Error> {
    let within = |most: u16| match page {
        OWN_PAGE => usize::MAX,
        _ => usize::from(most),
    };
    match ty {
        SqlType::Char(bytes) => {
            let put = |out: &mut Vec<u8>| code_page::put(out, page, text, within(bytes));
            put_padded(out, ty, bytes, b" ", put)
        }
        SqlType::NChar(units) => {
            let bytes = units.saturating_mul(2);
            put_padded(out, ty, bytes, b" \0", |out| put_utf16(out, text) * 2)
        }
        SqlType::VarChar(Length::Of(most)) => {
            put_short(out, ty, most, |out| code_page::put(out, page, text, within(most)))
        }
        SqlType::NVarChar(Length::Of(most)) => {
            put_short(out, ty, most.saturating_mul(2), |out| put_utf16(out, text) * 2)
        }
        SqlType::VarChar(Length::Max) => {
            put_parts(out, ty, |out| code_page::put(out, page, text, usize::MAX))
        }
        SqlType::NVarChar(Length::Max) | SqlType::Xml => {
            put_parts(out, ty, |out| put_utf16(out, text) * 2)
        }
        SqlType::Text => put_long(out, ty, |out| code_page::put(out, page, text, usize::MAX)),
        SqlType::NText => put_long(out, ty, |out| put_utf16(out, text) * 2),
        _ => Err(Error::Unfit { ty }),
    }
}

fn put_binary(out: &mut Vec<u8>, ty: SqlType, bytes: &[u8]) -> Result<(), Error> {
    let put = |out: &mut Vec<u8>| {
        out.extend_from_slice(bytes);
        bytes.len()
    };
    match ty {
        SqlType::Binary(length) => put_padded(out, ty, length, b"\0", put),
        SqlType::VarBinary(Length::Of(most)) => put_short(out, ty, most, put),
        SqlType::VarBinary(Length::Max) => put_parts(out, ty, put),
        SqlType::Image => put_long(out, ty, put),
        _ => Err(Error::Unfit { ty }),
    }
}

/// Appends a value with its length in two bytes.
fn put_short(
    out: &mut Vec<u8>,
    ty: SqlType,
    most: u16,
    put: impl FnOnce(&mut Vec<u8>) -> usize,
) -> Result<(), Error> {
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    let length = put(out);
    if length > usize::from(most) {
        return Err(Error::Unfit { ty });
    }
    patch_u16(out, at, length);
    Ok(())
}

/// As [`put_short`], padded to `length`.
fn put_padded(
    out: &mut Vec<u8>,
    ty: SqlType,
    length: u16,
    pad: &[u8],
    put: impl FnOnce(&mut Vec<u8>) -> usize,
) -> Result<(), Error> {
    put_short(out, ty, length, |out| {
        let own = put(out);
        let missing = usize::from(length).saturating_sub(own);
        out.extend(pad.iter().cycle().take(missing));
        own + missing
    })
}

/// Appends a `(max)` value: its length, one chunk, the end.
fn put_parts(
    out: &mut Vec<u8>,
    ty: SqlType,
    put: impl FnOnce(&mut Vec<u8>) -> usize,
) -> Result<(), Error> {
    let at = out.len();
    out.extend_from_slice(&[0; 12]);
    let length = put(out);
    let whole = long_length(ty, length)?;
    if let Some(place) = out.get_mut(at..at + 8) {
        place.copy_from_slice(&u64::from(whole).to_le_bytes());
    }
    if length == 0 {
        // The chunk of length 0 is already the end.
        return Ok(());
    }
    if let Some(place) = out.get_mut(at + 8..at + 12) {
        place.copy_from_slice(&whole.to_le_bytes());
    }
    out.extend_from_slice(&[0; 4]);
    Ok(())
}

/// Appends a value of `text`, `ntext` or `image`.
fn put_long(
    out: &mut Vec<u8>,
    ty: SqlType,
    put: impl FnOnce(&mut Vec<u8>) -> usize,
) -> Result<(), Error> {
    out.extend_from_slice(&TEXT_POINTER);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    let length = put(out);
    let length = long_length(ty, length)?;
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    Ok(())
}

fn long_length(ty: SqlType, bytes: usize) -> Result<u32, Error> {
    match u32::try_from(bytes) {
        Ok(length) if bytes <= MAX_LONG_BYTES => Ok(length),
        _ => Err(Error::Unfit { ty }),
    }
}

/// Appends a variant: the total length, the type with its properties, the value without its length.
fn put_variant(out: &mut Vec<u8>, variant: &Variant<'_>) -> Result<(), Error> {
    let Variant { ty, value } = variant;
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    match (ty, value) {
        (_, Value::Null | Value::Variant(_)) => return Err(Error::Unfit { ty: *ty }),
        (_, Value::Text(text)) => {
            let unit_bytes = put_variant_text_type(out, *ty)?;
            let length = match unit_bytes {
                1 => code_page::put(out, OWN_PAGE, text, usize::MAX),
                _ => put_utf16(out, text) * 2,
            };
            short_variant(*ty, length)?;
        }
        (SqlType::Binary(most) | SqlType::VarBinary(Length::Of(most)), Value::Binary(bytes)) => {
            let fixed = matches!(ty, SqlType::Binary(_));
            out.extend([if fixed { code::BIGBINARY } else { code::BIGVARBINARY }, 2]);
            out.extend(most.to_le_bytes());
            out.extend_from_slice(bytes);
            short_variant(*ty, bytes.len())?;
        }
        _ => {
            put_variant_scalar_type(out, *ty)?;
            put_scalar(out, *ty, value)?;
        }
    }
    let length = u32::try_from(out.len() - at - 4).map_err(|_| Error::Unfit { ty: *ty })?;
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    Ok(())
}

fn short_variant(ty: SqlType, bytes: usize) -> Result<(), Error> {
    if bytes > usize::from(crate::types::MAX_SHORT_BYTES) {
        return Err(Error::Unfit { ty });
    }
    Ok(())
}

/// Appends the type of a text in a variant; returns the size of a unit in bytes.
fn put_variant_text_type(out: &mut Vec<u8>, ty: SqlType) -> Result<u8, Error> {
    let (code, most, unit_bytes) = match ty {
        SqlType::Char(most) => (code::BIGCHAR, most, 1),
        SqlType::VarChar(Length::Of(most)) => (code::BIGVARCHAR, most, 1),
        SqlType::NChar(units) => (code::NCHAR, units.saturating_mul(2), 2),
        SqlType::NVarChar(Length::Of(units)) => (code::NVARCHAR, units.saturating_mul(2), 2),
        _ => return Err(Error::Unfit { ty }),
    };
    out.extend([code, 7]);
    out.extend_from_slice(&COLLATION);
    out.extend(most.to_le_bytes());
    Ok(unit_bytes)
}

fn put_variant_scalar_type(out: &mut Vec<u8>, ty: SqlType) -> Result<(), Error> {
    match ty {
        SqlType::Bit => out.extend([code::BIT, 0]),
        SqlType::TinyInt => out.extend([code::INT1, 0]),
        SqlType::SmallInt => out.extend([code::INT2, 0]),
        SqlType::Int => out.extend([code::INT4, 0]),
        SqlType::BigInt => out.extend([code::INT8, 0]),
        SqlType::Real => out.extend([code::FLOAT4, 0]),
        SqlType::Float => out.extend([code::FLOAT8, 0]),
        SqlType::Money => out.extend([code::MONEY, 0]),
        SqlType::SmallMoney => out.extend([code::MONEY4, 0]),
        SqlType::DateTime => out.extend([code::DATETIME, 0]),
        SqlType::SmallDateTime => out.extend([code::DATETIME4, 0]),
        SqlType::UniqueIdentifier => out.extend([code::GUID, 0]),
        SqlType::Date => out.extend([code::DATEN, 0]),
        SqlType::Time(scale) => out.extend([code::TIMEN, 1, scale]),
        SqlType::DateTime2(scale) => out.extend([code::DATETIME2N, 1, scale]),
        SqlType::DateTimeOffset(scale) => out.extend([code::DATETIMEOFFSETN, 1, scale]),
        SqlType::Decimal { precision, scale } => {
            out.extend([code::NUMERICN, 2, precision, scale]);
        }
        _ => return Err(Error::Unfit { ty }),
    }
    Ok(())
}
