//! Conversion of a value from one type to another, as in CAST, CONVERT and assignments.

use tdekit_wire_tds::code_page::OWN_PAGE;
use tdekit_wire_tds::{Length, SqlType, Value};

use super::dateparse::{self, DateText, Order};
use super::datetime::{self, Moment};
use super::decimal::Dec;
use super::{Family, Val, arith, family, is_national, text, type_name};
use crate::error::{Error, Result};

/// The code pages of `char`, `varchar` and `text` on both sides of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodePages {
    pub(crate) from: u16,
    pub(crate) to: u16,
}

impl Default for CodePages {
    fn default() -> CodePages {
        CodePages { from: OWN_PAGE, to: OWN_PAGE }
    }
}

/// Converts in the server's code page. `style` is CONVERT's, 0 without one.
///
/// # Errors
/// As in SQL Server: 245, 8114, 8115, 220, 241, 242 and the like.
pub(crate) fn convert(
    value: &Value<'_>,
    from: SqlType,
    to: SqlType,
    style: i64,
    order: DateText,
) -> Result<Val> {
    convert_in(value, from, to, style, (order, CodePages::default()))
}

/// As [`convert`], between these code pages.
pub(crate) fn convert_in(
    value: &Value<'_>,
    from: SqlType,
    to: SqlType,
    style: i64,
    (order, pages): (DateText, CodePages),
) -> Result<Val> {
    use Family as F;
    if let Value::Variant(variant) = value {
        if to == SqlType::SqlVariant {
            return Ok(value.clone().into_owned());
        }
        return convert_in(&variant.value, variant.ty, to, style, (order, pages));
    }
    if matches!(value, Value::Null) {
        return Ok(Value::Null);
    }
    if from == to && !matches!(family(to), F::Text | F::Binary) {
        return Ok(value.clone().into_owned());
    }
    match family(to) {
        F::Int => to_int(value, from, to),
        F::Decimal => to_decimal(value, from, to),
        F::Money => to_money(value, from, to),
        F::Float => to_float(value, from, to),
        F::Text => to_text(value, from, to, style, (order, pages)),
        F::Binary => to_binary(value, from, to, style, pages),
        F::Temporal => to_temporal(value, from, to, style, order),
        F::Guid => to_guid(value, from),
        F::Variant => Ok(Value::Variant(Box::new(tdekit_wire_tds::Variant {
            ty: from,
            value: value.clone().into_owned(),
        }))),
    }
}

fn names(from: SqlType, to: SqlType) -> (String, String) {
    (type_name(from).to_owned(), type_name(to).to_owned())
}

fn no_way(from: SqlType, to: SqlType) -> Error {
    let (from, to) = names(from, to);
    Error::NoExplicit { from, to }
}

fn failed(value: &str, from: SqlType, to: SqlType) -> Error {
    let (from, to) = names(from, to);
    Error::BadConversion { from, value: value.chars().take(256).collect(), to }
}

fn converting(from: SqlType, to: SqlType) -> Error {
    let (from, to) = names(from, to);
    Error::ConvertingType { from, to }
}

fn numeric_overflow(from: SqlType, to: SqlType) -> Error {
    let (from, to) = names(from, to);
    Error::NumericOverflow { from, to }
}

fn int_value(int: i64, from: SqlType, to: SqlType) -> Result<Val> {
    if to == SqlType::Bit {
        return Ok(Value::Bit(int != 0));
    }
    match arith::int_in(int, to) {
        Some(int) => Ok(Value::Int(int)),
        None if to == SqlType::Int || family(from) != Family::Int => {
            Err(Error::ResultOverflow { to: type_name(to).to_owned() })
        }
        None => Err(Error::SmallOverflow { value: int, to: type_name(to).to_owned() }),
    }
}

#[allow(clippy::cast_possible_truncation)]
fn whole(value: f64) -> i128 {
    value.trunc() as i128
}

fn to_int(value: &Value<'_>, from: SqlType, to: SqlType) -> Result<Val> {
    match value {
        Value::Bit(bit) => int_value(i64::from(*bit), from, to),
        Value::Int(int) => int_value(*int, from, to),
        Value::Float(float) => {
            if to == SqlType::Bit {
                return Ok(Value::Bit(*float != 0.0));
            }
            let int = i64::try_from(whole(*float))
                .map_err(|_| Error::ResultOverflow { to: type_name(to).to_owned() })?;
            int_value(int, from, to)
        }
        Value::Decimal { unscaled, scale } => {
            if to == SqlType::Bit {
                return Ok(Value::Bit(*unscaled != 0));
            }
            let int = i64::try_from(Dec::new(*unscaled, *scale).truncated())
                .map_err(|_| numeric_overflow(from, to))?;
            int_value(int, from, to).map_err(|_| numeric_overflow(from, to))
        }
        Value::Money(money) => {
            if to == SqlType::Bit {
                return Ok(Value::Bit(*money != 0));
            }
            let dec = Dec::new(i128::from(*money), 4).rescale(0);
            let int = dec.and_then(|dec| i64::try_from(dec.unscaled).ok());
            int_value(int.ok_or_else(|| numeric_overflow(from, to))?, from, to)
        }
        Value::Text(found) => text_to_int(found, from, to),
        Value::Binary(bytes) => {
            let width = match to {
                SqlType::Bit | SqlType::TinyInt => 1,
                SqlType::SmallInt => 2,
                SqlType::Int => 4,
                _ => 8,
            };
            let tail = &bytes[bytes.len().saturating_sub(width)..];
            let raw = tail.iter().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
            let int = match to {
                SqlType::Bit => i64::from(raw != 0),
                SqlType::SmallInt => i64::from(u16::try_from(raw).unwrap_or(0).cast_signed()),
                SqlType::Int => i64::from(u32::try_from(raw).unwrap_or(0).cast_signed()),
                _ => raw.cast_signed(),
            };
            int_value(int, from, to)
        }
        Value::DateTime { .. } | Value::SmallDateTime { .. } => {
            let ticks = datetime::datetime_ticks(value).unwrap_or(0);
            // rounded to the nearest day
            let days = (ticks + 12_960_000).div_euclid(25_920_000);
            int_value(days, from, to)
        }
        _ => Err(no_way(from, to)),
    }
}

fn text_to_int(found: &str, from: SqlType, to: SqlType) -> Result<Val> {
    let trimmed = found.trim_matches(' ');
    if to == SqlType::Bit {
        if trimmed.eq_ignore_ascii_case("true") {
            return Ok(Value::Bit(true));
        }
        if trimmed.eq_ignore_ascii_case("false") {
            return Ok(Value::Bit(false));
        }
    }
    if trimmed.is_empty() {
        return int_value(0, from, to);
    }
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    // a sign alone is zero in SQL Server
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(match to {
            SqlType::BigInt => converting(from, to),
            _ => failed(found, from, to),
        });
    }
    let parsed = trimmed.parse::<i64>().ok();
    if to == SqlType::Bit {
        return Ok(Value::Bit(digits.bytes().any(|byte| byte != b'0')));
    }
    match parsed.and_then(|int| arith::int_in(int, to)) {
        Some(int) => Ok(Value::Int(int)),
        None => Err(match to {
            SqlType::BigInt => Error::NumericOverflow {
                from: type_name(from).to_owned(),
                to: type_name(to).to_owned(),
            },
            SqlType::Int => Error::IntOverflowText { value: found.to_owned() },
            _ => Error::SmallOverflowText {
                value: found.to_owned(),
                kind: type_name(from).to_owned(),
                to: if to == SqlType::TinyInt { "INT1" } else { "INT2" }.to_owned(),
            },
        }),
    }
}

fn dec_value(dec: Option<Dec>, from: SqlType, to: SqlType) -> Result<Val> {
    let dec = dec.ok_or_else(|| numeric_overflow(from, to))?;
    Ok(Value::Decimal { unscaled: dec.unscaled, scale: dec.scale })
}

fn to_decimal(value: &Value<'_>, from: SqlType, to: SqlType) -> Result<Val> {
    let SqlType::Decimal { precision, scale } = to else { return Err(no_way(from, to)) };
    let dec = match value {
        Value::Bit(bit) => Dec::new(i128::from(*bit), 0).to_type(precision, scale),
        Value::Int(int) => Dec::new(i128::from(*int), 0).to_type(precision, scale),
        Value::Money(money) => Dec::new(i128::from(*money), 4).to_type(precision, scale),
        Value::Decimal { unscaled, scale: own } => {
            Dec::new(*unscaled, *own).to_type(precision, scale)
        }
        Value::Float(float) => Dec::from_f64(*float, precision, scale),
        Value::Text(text) => {
            let dec = Dec::parse(text.trim()).ok_or_else(|| converting(from, to))?;
            dec.to_type(precision, scale)
        }
        Value::DateTime { .. } | Value::SmallDateTime { .. } => {
            let ticks = datetime::datetime_ticks(value).unwrap_or(0);
            let days = Dec::new(i128::from(ticks), 0).div(Dec::new(25_920_000, 0), 38, 20)?;
            days.to_type(precision, scale)
        }
        _ => return Err(no_way(from, to)),
    };
    dec_value(dec, from, to)
}

fn to_money(value: &Value<'_>, from: SqlType, to: SqlType) -> Result<Val> {
    let dec = match value {
        Value::Bit(bit) => Dec::new(i128::from(*bit), 0).rescale(4),
        Value::Int(int) => Dec::new(i128::from(*int), 0).rescale(4),
        Value::Money(money) => Some(Dec::new(i128::from(*money), 4)),
        Value::Decimal { unscaled, scale } => Dec::new(*unscaled, *scale).rescale(4),
        Value::Float(float) => Dec::from_f64(*float, 38, 4),
        Value::Text(text) => {
            let bare: String = text
                .trim()
                .chars()
                .filter(|c| !matches!(c, ',' | '$' | '\u{20ac}' | '\u{a3}'))
                .collect();
            if bare.is_empty() {
                return Ok(Value::Money(0));
            }
            Dec::parse(&bare).ok_or(Error::BadMoney {})?.rescale(4)
        }
        _ => return Err(no_way(from, to)),
    };
    let money = dec
        .and_then(|dec| i64::try_from(dec.unscaled).ok())
        .filter(|money| to == SqlType::Money || i32::try_from(*money).is_ok())
        .ok_or_else(|| numeric_overflow(from, to))?;
    Ok(Value::Money(money))
}

fn to_float(value: &Value<'_>, from: SqlType, to: SqlType) -> Result<Val> {
    #[allow(clippy::cast_precision_loss)]
    let float = match value {
        Value::Bit(bit) => f64::from(u8::from(*bit)),
        Value::Int(int) => *int as f64,
        Value::Float(float) => *float,
        Value::Decimal { unscaled, scale } => Dec::new(*unscaled, *scale).to_f64(),
        Value::Money(money) => *money as f64 / 10_000.0,
        Value::Text(text) => {
            let trimmed = text.trim();
            let plain =
                trimmed.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eEdD".contains(&byte));
            let normal = trimmed.replace(['d', 'D'], "e");
            let parsed = if trimmed.is_empty() { Some(0.0) } else { normal.parse::<f64>().ok() };
            parsed.filter(|_| plain).ok_or_else(|| converting(from, to))?
        }
        Value::DateTime { .. } | Value::SmallDateTime { .. } => {
            datetime::datetime_ticks(value).unwrap_or(0) as f64 / 25_920_000.0
        }
        _ => return Err(no_way(from, to)),
    };
    let float = if to == SqlType::Real { arith::real(float) } else { float };
    if float.is_finite() {
        Ok(Value::Float(float))
    } else {
        Err(Error::ResultOverflow { to: type_name(to).to_owned() })
    }
}

/// Formats as C's `%g` with `digits` significant digits, and exponents of three digits.
fn general(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let limit = i32::try_from(digits).unwrap_or(6);
    if exponent < -4 || exponent >= limit {
        let mantissa = trimmed(mantissa);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:03}", exponent.abs());
    }
    let places = usize::try_from(limit - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.places$}")).to_owned()
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// E-notation with this many digits after the decimal point.
fn exponential(value: f64, places: usize) -> String {
    let text = format!("{value:.places$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:03}", exponent.abs())
}

fn money_text(money: i64, style: i64) -> String {
    let dec = Dec::new(i128::from(money), 4);
    if style == 2 || style == 126 {
        return dec.to_string();
    }
    let text = dec.rescale(2).map_or_else(String::new, |dec| dec.to_string());
    if style != 1 {
        return text;
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, "00"));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}.{fraction}")
}

pub(crate) fn guid_text(guid: &[u8; 16]) -> String {
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut out = String::with_capacity(36);
    for (at, index) in order.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push_str(&format!("{:02X}", guid[*index]));
    }
    out
}

fn to_text(
    value: &Value<'_>,
    from: SqlType,
    to: SqlType,
    style: i64,
    (order, pages): (DateText, CodePages),
) -> Result<Val> {
    let (full, cut) = match value {
        Value::Text(text) => return fit_text(text, from, to, pages.to),
        Value::Bit(bit) => (if *bit { "1" } else { "0" }.to_owned(), false),
        Value::Int(int) => (int.to_string(), false),
        Value::Decimal { unscaled, scale } => (Dec::new(*unscaled, *scale).to_string(), false),
        Value::Float(float) => {
            let real = from == SqlType::Real;
            let text = match style {
                0 | 128 | 129 => general(*float, 6),
                1 => exponential(*float, 7),
                2 => exponential(*float, 15),
                3 => general(*float, if real { 9 } else { 17 }),
                _ => return Err(bad_style(style, from)),
            };
            (text, false)
        }
        Value::Money(money) => (money_text(*money, style), false),
        Value::Guid(guid) => {
            if let Some(Length::Of(n)) = super::length_of(to)
                && n < 36
            {
                return Err(Error::TextTooShort { to: "uniqueidentifier".to_owned() });
            }
            (guid_text(guid), true)
        }
        Value::Binary(bytes) => {
            let text = match style {
                1 => format!("0x{}", hex::encode_upper(bytes)),
                2 => hex::encode_upper(bytes),
                _ if is_national(to) => {
                    let units: Vec<u16> = bytes
                        .chunks(2)
                        .map(|pair| u16::from_le_bytes([pair[0], *pair.get(1).unwrap_or(&0)]))
                        .collect();
                    String::from_utf16(&units).map_err(|_| converting(from, to))?
                }
                _ => bytes.iter().map(|byte| text::from_1252(*byte)).collect(),
            };
            (text, true)
        }
        _ => {
            let Some(moment) = datetime::moment(value) else { return Err(no_way(from, to)) };
            let default = match from {
                SqlType::DateTime | SqlType::SmallDateTime => 0,
                _ => 121,
            };
            let style = if style == 0 { default } else { style };
            let text = dateparse::format(moment, from, style, order.language);
            (text.ok_or_else(|| bad_style(style, from))?, true)
        }
    };
    if let Some(Length::Of(n)) = super::length_of(to)
        && full.len() > usize::from(n)
        && !cut
    {
        // an integer that is too long becomes a star; other numbers are an error
        if family(from) == Family::Int && !is_national(to) {
            return fit_text("*", SqlType::VarChar(Length::Max), to, pages.to);
        }
        return Err(Error::NumericOverflow {
            from: if family(from) == Family::Int { "expression" } else { type_name(from) }
                .to_owned(),
            to: type_name(to).to_owned(),
        });
    }
    fit_text(&full, SqlType::VarChar(Length::Max), to, pages.to)
}

fn bad_style(style: i64, from: SqlType) -> Error {
    Error::BadStyle { style, from: type_name(from).to_owned() }
}

/// Truncates text to the type's length, pads `char` and `nchar` with blanks.
fn fit_text(found: &str, from: SqlType, to: SqlType, page: u16) -> Result<Val> {
    let national = is_national(to);
    if to == SqlType::Xml {
        if from != SqlType::Xml && found.contains(['<', '&']) {
            return Err(Error::feature("xml with elements or references"));
        }
        return Ok(Value::Text(found.replace("\r\n", "\n").into()));
    }
    let text = if national { found.into() } else { text::narrowed(found, page) };
    let Some(Length::Of(n)) = super::length_of(to) else {
        return Ok(Value::Text(text.into_owned().into()));
    };
    let n = usize::from(n);
    let measured = |text: &str| match national {
        true => text::units(text, true),
        false => text::page_bytes(text, page),
    };
    let mut text = match measured(&text) > n {
        true if national => text::slice(&text, 0, n, true)?,
        true => text::fitting(&text, page, n).to_owned(),
        false => text.into_owned(),
    };
    let units = measured(&text);
    if matches!(to, SqlType::Char(_) | SqlType::NChar(_)) && units < n {
        text.extend(std::iter::repeat_n(' ', n - units));
    }
    Ok(Value::Text(text.into()))
}

fn to_binary(
    value: &Value<'_>,
    from: SqlType,
    to: SqlType,
    style: i64,
    pages: CodePages,
) -> Result<Val> {
    let (bytes, left) = match value {
        Value::Binary(bytes) => (bytes.to_vec(), false),
        Value::Text(found) if style == 1 || style == 2 => {
            let digits = if style == 1 { found.strip_prefix("0x").unwrap_or("?") } else { found };
            (hex::decode(digits).map_err(|_| converting(from, to))?, false)
        }
        Value::Text(found) if is_national(from) => {
            (found.encode_utf16().flat_map(u16::to_le_bytes).collect(), false)
        }
        Value::Text(found) => (text::to_bytes(found, pages.from), false),
        Value::Bit(bit) => (vec![u8::from(*bit)], true),
        Value::Int(int) => {
            let width = match from {
                SqlType::TinyInt => 1,
                SqlType::SmallInt => 2,
                SqlType::Int => 4,
                _ => 8,
            };
            (int.to_be_bytes()[8 - width..].to_vec(), true)
        }
        Value::Guid(guid) => (guid.to_vec(), false),
        Value::Money(money) if from == SqlType::Money => (money.to_be_bytes().to_vec(), true),
        _ => return Err(Error::feature(format!("{} as binary", type_name(from)))),
    };
    let Some(Length::Of(n)) = super::length_of(to) else {
        return Ok(Value::Binary(bytes.into()));
    };
    let n = usize::from(n);
    let mut bytes = bytes;
    if bytes.len() > n {
        bytes = if left { bytes[bytes.len() - n..].to_vec() } else { bytes[..n].to_vec() };
    }
    if matches!(to, SqlType::Binary(_)) && bytes.len() < n {
        let missing = n - bytes.len();
        if left {
            bytes.splice(0..0, std::iter::repeat_n(0, missing));
        } else {
            bytes.extend(std::iter::repeat_n(0, missing));
        }
    }
    Ok(Value::Binary(bytes.into()))
}

fn to_temporal(
    value: &Value<'_>,
    from: SqlType,
    to: SqlType,
    style: i64,
    how: DateText,
) -> Result<Val> {
    let moment = match value {
        Value::Text(text) => {
            let order = match style {
                0 => how.order,
                1 | 10 | 101 | 110 => Order::Mdy,
                3 | 4 | 5 | 103 | 104 | 105 => Order::Dmy,
                2 | 11 | 102 | 111 => Order::Ymd,
                _ => how.order,
            };
            // Their fraction has three digits. SQL Server also refuses additional zeros; they are
            // accepted here, since drivers that write for datetime2 send them.
            let old = matches!(to, SqlType::DateTime | SqlType::SmallDateTime);
            if old && dateparse::fraction_digits(text) > 3 {
                return Err(Error::BadDateTime {});
            }
            let how = DateText { order, ..how };
            let found = match old && style == 0 {
                true => dateparse::parse_datetime(text, how),
                false => dateparse::parse(text, how),
            };
            found.ok_or(Error::BadDateTime {})?
        }
        Value::Bit(_)
        | Value::Int(_)
        | Value::Decimal { .. }
        | Value::Float(_)
        | Value::Money(_) => {
            if !matches!(to, SqlType::DateTime | SqlType::SmallDateTime) {
                return Err(no_way(from, to));
            }
            return number_to_datetime(value, from, to);
        }
        Value::Date(_) if matches!(to, SqlType::Time(_)) => return Err(no_way(from, to)),
        Value::Time(_) if to == SqlType::Date => return Err(no_way(from, to)),
        _ if matches!(to, SqlType::DateTime | SqlType::SmallDateTime) => {
            datetime::moment(value).ok_or_else(|| no_way(from, to))?
        }
        _ => datetime::exact_moment(value).ok_or_else(|| no_way(from, to))?,
    };
    // a type without an offset keeps the local time
    let moment = match to {
        SqlType::DateTimeOffset(_) => moment,
        _ => Moment { offset_min: 0, ..moment },
    };
    datetime::to_type(moment, to, type_name(from))
}

fn number_to_datetime(value: &Value<'_>, from: SqlType, to: SqlType) -> Result<Val> {
    let Value::Float(days) = to_float(value, from, SqlType::Float)? else {
        return Err(no_way(from, to));
    };
    let overflow = || Error::ResultOverflow { to: type_name(to).to_owned() };
    let ticks = i64::try_from(whole((days * 25_920_000.0).round())).map_err(|_| overflow())?;
    let made = datetime::from_datetime_ticks(ticks).ok_or_else(overflow)?;
    if to == SqlType::DateTime {
        return Ok(made);
    }
    let moment = datetime::moment(&made).ok_or_else(overflow)?;
    datetime::to_type(moment, to, type_name(from)).map_err(|_| overflow())
}

fn to_guid(value: &Value<'_>, from: SqlType) -> Result<Val> {
    match value {
        Value::Binary(bytes) => {
            let mut guid = [0; 16];
            for (to, byte) in guid.iter_mut().zip(bytes.iter()) {
                *to = *byte;
            }
            Ok(Value::Guid(guid))
        }
        Value::Text(text) => {
            let bare = text.trim_start_matches('{');
            let groups: Vec<&str> = bare.get(..36).ok_or(Error::BadGuid {})?.split('-').collect();
            let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
            if lengths != [8, 4, 4, 4, 12] {
                return Err(Error::BadGuid {});
            }
            let digits = groups.concat();
            let mut guid = [0; 16];
            let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
            for (at, index) in order.iter().enumerate() {
                let pair = digits.get(2 * at..2 * at + 2).ok_or(Error::BadGuid {})?;
                guid[*index] = u8::from_str_radix(pair, 16).map_err(|_| Error::BadGuid {})?;
            }
            Ok(Value::Guid(guid))
        }
        _ => Err(no_way(from, SqlType::UniqueIdentifier)),
    }
}
