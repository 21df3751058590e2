//! Functions of text.

use std::borrow::Cow;

use tdekit_wire_tds::code_page::OWN_PAGE;
use tdekit_wire_tds::{Collation, Length, SqlType, Value};

use super::{bad_argument, number_arg, part_type, text_arg, text_type};
use crate::error::{Error, Result};
use crate::plan::func::{Func, Text};
use crate::plan::label::{Label, joined};
use crate::plan::scalar::{Node, Scalar};
use crate::value::collation::Order;
use crate::value::{
    Family, affordable, bulk_bytes, display_length, family, is_national, is_text, length_of, text,
};

#[allow(clippy::too_many_lines)]
pub(crate) fn bind(name: &str, func: Text, args: &[Scalar]) -> Result<Scalar> {
    let text_at = |at: usize| text_arg(&args[at], at + 1, name);
    let int_at = |at: usize| number_arg(&args[at], SqlType::Int, at + 1, name);
    let long = |ty| length_of(ty) == Some(Length::Max);
    let (ty, mut args) = match func {
        Text::Split => return Err(Error::NotAFunction { name: name.to_owned() }),
        Text::Ascii | Text::Unicode => (SqlType::Int, vec![text_at(0)?]),
        Text::Char => (SqlType::Char(1), vec![int_at(0)?]),
        Text::NChar => (SqlType::NChar(1), vec![int_at(0)?]),
        Text::CharIndex => {
            let (needle, found) = (text_at(0)?, text_at(1)?);
            let ty = if long(found.ty) { SqlType::BigInt } else { SqlType::Int };
            let mut bound = vec![needle, found];
            if args.len() == 3 {
                bound.push(int_at(2)?);
            }
            (ty, bound)
        }
        Text::PatIndex => {
            let (pattern, found) = (text_at(0)?, text_at(1)?);
            let ty = if long(found.ty) { SqlType::BigInt } else { SqlType::Int };
            (ty, vec![pattern, found])
        }
        Text::Concat | Text::ConcatWs => {
            let bound = (0..args.len()).map(text_at).collect::<Result<Vec<_>>>()?;
            (joined_type(&bound, func == Text::ConcatWs), bound)
        }
        Text::DataLength => {
            let ty = if long(args[0].ty) { SqlType::BigInt } else { SqlType::Int };
            (ty, args.to_vec())
        }
        Text::Len => {
            let found = text_at(0)?;
            (if long(found.ty) { SqlType::BigInt } else { SqlType::Int }, vec![found])
        }
        Text::Left | Text::Right => {
            let found = text_at(0)?;
            (part_type(found.ty), vec![found, int_at(1)?])
        }
        Text::Substring => {
            let found =
                if family(args[0].ty) == Family::Binary { args[0].clone() } else { text_at(0)? };
            (part_type(found.ty), vec![found, int_at(1)?, int_at(2)?])
        }
        Text::Lower | Text::Upper | Text::Reverse => {
            let found = text_at(0)?;
            (part_type(found.ty), vec![found])
        }
        Text::LTrim | Text::RTrim | Text::Trim => {
            if let Some(characters) = args.get(1).filter(|characters| long(characters.ty)) {
                return Err(bad_argument(characters.ty, 2, name));
            }
            let bound = (0..args.len()).map(text_at).collect::<Result<Vec<_>>>()?;
            (part_type(bound[0].ty), bound)
        }
        Text::Translate => {
            let found = text_at(0)?;
            (part_type(found.ty), vec![found, text_at(1)?, text_at(2)?])
        }
        Text::Replace => {
            let bound = vec![text_at(0)?, text_at(1)?, text_at(2)?];
            let wide = bound.iter().any(|arg| is_national(arg.ty));
            let max = bound.iter().any(|arg| long(arg.ty));
            (sized(wide, max), bound)
        }
        Text::Stuff => {
            let bound = vec![text_at(0)?, int_at(1)?, int_at(2)?, text_at(3)?];
            let wide = is_national(bound[0].ty) || is_national(bound[3].ty);
            (sized(wide, long(bound[0].ty) || long(bound[3].ty)), bound)
        }
        Text::Replicate => {
            let found = text_at(0)?;
            (sized(is_national(found.ty), long(found.ty)), vec![found, int_at(1)?])
        }
        Text::Space => (SqlType::VarChar(Length::Of(8000)), vec![int_at(0)?]),
        Text::Str => {
            let mut bound = vec![number_arg(&args[0], SqlType::Float, 1, name)?];
            for at in 1..args.len() {
                bound.push(int_at(at)?);
            }
            (SqlType::VarChar(Length::Of(8000)), bound)
        }
        Text::QuoteName => {
            let bound = (0..args.len()).map(text_at).collect::<Result<Vec<_>>>()?;
            (SqlType::NVarChar(Length::Of(258)), bound)
        }
        Text::CollationProperty => {
            (SqlType::NVarChar(Length::Of(128)), vec![text_at(0)?, text_at(1)?])
        }
        Text::ParseName => (SqlType::NVarChar(Length::Of(128)), vec![text_at(0)?, int_at(1)?]),
    };
    if func == Text::DataLength && family(args[0].ty) == Family::Variant {
        return Err(bad_argument(args[0].ty, 1, name));
    }
    let nullable = !matches!(func, Text::Concat | Text::ConcatWs);
    let label = compared_label(func, name, &mut args)?;
    let made = Scalar::new(ty, nullable, Node::Call(Func::Text(func), args));
    let made = match label {
        Some(label) if is_text(ty) => Scalar { label, ..made },
        _ => made,
    };
    Ok(crate::functions::typing::folded(made))
}

/// The collation of a function that compares its texts; its first argument gets it.
fn compared_label(func: Text, name: &str, args: &mut [Scalar]) -> Result<Option<Label>> {
    let compares = match func {
        Text::CharIndex | Text::PatIndex | Text::Replace | Text::Translate => true,
        Text::LTrim | Text::RTrim | Text::Trim => args.len() > 1,
        _ => false,
    };
    if !compares {
        return Ok(None);
    }
    let label = joined(&*args, "function");
    label.compared(&name.to_lowercase())?;
    if let Some(first) = args.first_mut() {
        first.label = label;
    }
    Ok(Some(label))
}

fn sized(national: bool, max: bool) -> SqlType {
    match (national, max) {
        (true, true) => SqlType::NVarChar(Length::Max),
        (true, false) => SqlType::NVarChar(Length::Of(4000)),
        (false, true) => SqlType::VarChar(Length::Max),
        (false, false) => SqlType::VarChar(Length::Of(8000)),
    }
}

fn joined_type(args: &[Scalar], separated: bool) -> SqlType {
    let national = args.iter().any(|arg| is_national(arg.ty));
    let mut sum = 0_usize;
    for (at, arg) in args.iter().enumerate() {
        match length_of(arg.ty) {
            Some(Length::Max) => return sized(national, true),
            Some(Length::Of(n)) => {
                let times = if separated && at == 0 { args.len().saturating_sub(2) } else { 1 };
                sum += usize::from(n) * times;
            }
            None => sum += usize::from(display_length(arg.ty)),
        }
    }
    let limit = if national { 4000 } else { 8000 };
    let length = Length::Of(u16::try_from(sum.clamp(1, limit)).unwrap_or(4000));
    let like = if national { SqlType::NText } else { SqlType::Text };
    text_type(like, length)
}

fn str_of<'v>(value: &'v Value<'_>) -> &'v str {
    match value {
        Value::Text(text) => text,
        _ => "",
    }
}

fn int_of(value: &Value<'_>) -> i64 {
    match value {
        Value::Int(int) => *int,
        _ => 0,
    }
}

fn owned(text: String) -> Value<'static> {
    Value::Text(Cow::Owned(text))
}

fn index(at: usize) -> Value<'static> {
    Value::Int(i64::try_from(at).unwrap_or(i64::MAX))
}

/// Returns the maximum number of bytes that a function needs: its separated characters, and its
/// result.
fn needed(func: Text, values: &[Value<'_>]) -> usize {
    let given = values.iter().map(bulk_bytes).fold(0, usize::saturating_add);
    let bytes = |at: usize| values.get(at).map_or(0, bulk_bytes);
    let more = match func {
        Text::Replicate => {
            let count = values.get(1).map_or(0, int_of);
            return bytes(0).saturating_mul(usize::try_from(count).unwrap_or(0));
        }
        Text::Replace => (bytes(0) / bytes(1).max(1)).saturating_mul(bytes(2)),
        Text::ConcatWs => bytes(0).saturating_mul(values.len()),
        _ => 0,
    };
    given.saturating_mul(6).saturating_add(more)
}

pub(crate) fn compute<'e>(
    func: Text,
    values: &[Value<'e>],
    args: &[Scalar],
    ty: SqlType,
) -> Result<Value<'e>> {
    affordable(needed(func, values))?;
    match func {
        Text::Concat => {
            return Ok(cut(values.iter().map(str_of).collect(), ty));
        }
        Text::ConcatWs => {
            let parts: Vec<&str> =
                values[1..].iter().filter(|value| **value != Value::Null).map(str_of).collect();
            return Ok(cut(parts.join(str_of(&values[0])), ty));
        }
        Text::Split => {
            let order = Order::of(args.first().map(Scalar::collation).unwrap_or_default());
            return super::split::pieces(&values[0], &values[1], &order);
        }
        _ => {}
    }
    if values.contains(&Value::Null) {
        // STUFF inserts nothing for NULL
        if !(func == Text::Stuff && values[..3].iter().all(|value| *value != Value::Null)) {
            return Ok(Value::Null);
        }
    }
    let national = args.first().is_some_and(|arg| is_national(arg.ty));
    let collation = args.first().map(Scalar::collation).unwrap_or_default();
    let order = || Order::of(collation);
    let first = str_of(&values[0]);
    Ok(match func {
        Text::Ascii => first.chars().next().map_or(Value::Null, |c| {
            let page = if national { OWN_PAGE } else { collation.code_page() };
            let bytes = text::to_bytes(c.encode_utf8(&mut [0; 4]), page);
            Value::Int(i64::from(bytes.first().copied().unwrap_or(b'?')))
        }),
        Text::Unicode => {
            first.encode_utf16().next().map_or(Value::Null, |unit| Value::Int(i64::from(unit)))
        }
        Text::Char => u8::try_from(int_of(&values[0]))
            .map_or(Value::Null, |byte| owned(text::from_1252(byte).to_string())),
        Text::NChar => u32::try_from(int_of(&values[0]))
            .ok()
            .filter(|code| *code < 0x1_0000)
            .and_then(char::from_u32)
            .map_or(Value::Null, |c| owned(c.to_string())),
        Text::Len => index(text::units(first.trim_end_matches(' '), national)),
        Text::DataLength => index(data_length(&values[0], args[0].ty, collation)),
        Text::Lower => owned(lower(first, collation)),
        Text::Upper => owned(upper(first, collation)),
        Text::LTrim | Text::RTrim | Text::Trim => {
            owned(trimmed(func, first, values.get(1).map(str_of), &order()).to_owned())
        }
        Text::Reverse => owned(first.chars().rev().collect()),
        Text::Left | Text::Right => side(func, first, int_of(&values[1]), national)?,
        Text::Substring => substring(values, national)?,
        Text::CharIndex => char_index(values, national, &order()),
        Text::PatIndex => pat_index(first, str_of(&values[1]), &order()),
        Text::Replace => cut(replace(first, str_of(&values[1]), str_of(&values[2]), &order()), ty),
        Text::Translate => translate(first, str_of(&values[1]), str_of(&values[2]), &order())?,
        Text::Stuff => stuff(values, national, ty)?,
        Text::Replicate => {
            let count = int_of(&values[1]);
            let Ok(count) = usize::try_from(count) else { return Ok(Value::Null) };
            if first.len().saturating_mul(count) > i32::MAX.unsigned_abs() as usize {
                return Err(Error::ResultOverflow { to: "varchar".to_owned() });
            }
            // a text longer than the type is truncated later: one repetition more is enough
            let enough = 8000 / first.len().max(1) + 1;
            let long = length_of(ty) == Some(Length::Max);
            cut(first.repeat(if long { count } else { count.min(enough) }), ty)
        }
        Text::Space => {
            let Ok(count) = usize::try_from(int_of(&values[0])) else { return Ok(Value::Null) };
            owned(" ".repeat(count.min(8000)))
        }
        Text::Str => str_function(values),
        Text::QuoteName => quote_name(first, values.get(1).map_or("[", str_of)),
        Text::CollationProperty => collation_property(first, str_of(&values[1])),
        Text::ParseName => parse_name(first, int_of(&values[1])),
        Text::Concat | Text::ConcatWs | Text::Split => Value::Null,
    })
}

/// Returns true if the letters i and I are two letters.
fn is_turkish(collation: Collation) -> bool {
    collation.locale() == "tr"
}

fn collation_property(name: &str, property: &str) -> Value<'static> {
    let Some(of) = Collation::parse(name) else { return Value::Null };
    owned(match property.to_lowercase().as_str() {
        "codepage" => of.code_page().to_string(),
        "lcid" => of.lcid().to_string(),
        "comparisonstyle" => of.comparison_style().to_string(),
        "version" => of.version().to_string(),
        "tdscollation" => format!("0x{}", hex::encode_upper(of.bytes())),
        _ => return Value::Null,
    })
}

fn lower(found: &str, collation: Collation) -> String {
    match is_turkish(collation) {
        true => found.replace('I', "ı").replace('İ', "i").to_lowercase(),
        false => found.to_lowercase(),
    }
}

/// Characters whose upper case is more than one stay as they are.
fn upper(found: &str, collation: Collation) -> String {
    let turkish = is_turkish(collation);
    let one = |c: char| {
        let mut mapped = c.to_uppercase();
        match (c, mapped.next(), mapped.next()) {
            ('i', ..) if turkish => 'İ',
            (_, Some(one), None) => one,
            _ => c,
        }
    };
    found.chars().map(one).collect()
}

fn data_length(value: &Value<'_>, ty: SqlType, collation: Collation) -> usize {
    match value {
        Value::Text(found) if is_national(ty) => text::units(found, true) * 2,
        Value::Text(found) => text::page_bytes(found, collation.code_page()),
        Value::Binary(bytes) => bytes.len(),
        _ => match ty {
            SqlType::Bit | SqlType::TinyInt => 1,
            SqlType::SmallInt => 2,
            SqlType::Int | SqlType::Real | SqlType::SmallMoney | SqlType::SmallDateTime => 4,
            SqlType::Date => 3,
            SqlType::UniqueIdentifier => 16,
            SqlType::Decimal { precision, .. } => match precision {
                0..=9 => 5,
                10..=19 => 9,
                20..=28 => 13,
                _ => 17,
            },
            SqlType::Time(scale) => 3 + usize::from(scale > 2) + usize::from(scale > 4),
            SqlType::DateTime2(scale) => 6 + usize::from(scale > 2) + usize::from(scale > 4),
            SqlType::DateTimeOffset(scale) => 8 + usize::from(scale > 2) + usize::from(scale > 4),
            _ => 8,
        },
    }
}

/// Truncates to the type's length, as functions do without an error.
fn cut(found: String, ty: SqlType) -> Value<'static> {
    let national = is_national(ty);
    if let Some(Length::Of(n)) = length_of(ty)
        && text::units(&found, national) > usize::from(n)
        && let Ok(shorter) = text::slice(&found, 0, usize::from(n), national)
    {
        return owned(shorter);
    }
    owned(found)
}

/// Without characters, blanks are trimmed.
fn trimmed<'t>(func: Text, found: &'t str, given: Option<&str>, order: &Order) -> &'t str {
    let among = |c: char| match given {
        None => c == ' ',
        Some(given) => given.chars().any(|known| order.same(known, c)),
    };
    match func {
        Text::LTrim => found.trim_start_matches(among),
        Text::RTrim => found.trim_end_matches(among),
        _ => found.trim_matches(among),
    }
}

fn side(func: Text, found: &str, count: i64, national: bool) -> Result<Value<'static>> {
    let Ok(count) = usize::try_from(count) else {
        return Err(if func == Text::Left { Error::BadSubstring {} } else { Error::BadRight {} });
    };
    let start = match func {
        Text::Left => 0,
        _ => text::units(found, national).saturating_sub(count),
    };
    text::slice(found, start, count, national).map(owned)
}

fn substring(values: &[Value<'_>], national: bool) -> Result<Value<'static>> {
    let (start, count) = (int_of(&values[1]), int_of(&values[2]));
    if count < 0 {
        return Err(Error::BadSubstring {});
    }
    let end = start.saturating_add(count).max(1);
    let start = start.max(1);
    let from = usize::try_from(start - 1).unwrap_or(usize::MAX);
    let count = usize::try_from((end - start).max(0)).unwrap_or(0);
    match &values[0] {
        Value::Binary(bytes) => {
            let from = from.min(bytes.len());
            let to = from.saturating_add(count).min(bytes.len());
            Ok(Value::Binary(Cow::Owned(bytes[from..to].to_vec())))
        }
        found => text::slice(str_of(found), from, count, national).map(owned),
    }
}

/// Converts a position in characters to one in the text's units.
fn unit_position(chars: &[char], at: usize, national: bool) -> usize {
    if national { chars[..at].iter().map(|c| c.len_utf16()).sum() } else { at }
}

fn char_index(values: &[Value<'_>], national: bool, order: &Order) -> Value<'static> {
    let needle: Vec<char> = str_of(&values[0]).chars().collect();
    let chars: Vec<char> = str_of(&values[1]).chars().collect();
    let start = values.get(2).map_or(1, int_of).max(1) - 1;
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    if start > chars.len() {
        return Value::Int(0);
    }
    match text::find(&chars, &needle, start, order) {
        Some(at) => index(unit_position(&chars, at, national) + 1),
        None => Value::Int(0),
    }
}

fn pat_index(pattern: &str, found: &str, order: &Order) -> Value<'static> {
    let chars: Vec<char> = found.chars().collect();
    let Some(open) = pattern.strip_prefix('%') else {
        return Value::Int(i64::from(text::like(found, pattern, None, order)));
    };
    for at in 0..=chars.len() {
        let tail: String = chars[at..].iter().collect();
        if text::like(&tail, open, None, order) {
            return index(at + 1);
        }
    }
    Value::Int(0)
}

fn replace(found: &str, from: &str, to: &str, order: &Order) -> String {
    let (chars, needle): (Vec<char>, Vec<char>) = (found.chars().collect(), from.chars().collect());
    let mut out = String::with_capacity(found.len());
    let mut at = 0;
    while let Some(next) = text::find(&chars, &needle, at, order) {
        out.extend(&chars[at..next]);
        out.push_str(to);
        at = next + needle.len();
        if out.len() > i32::MAX.unsigned_abs() as usize || at + needle.len() > chars.len() {
            break;
        }
    }
    out.extend(&chars[at..]);
    out
}

/// Replaces each character of `from` by the one of `to` at the same position.
fn translate(found: &str, from: &str, to: &str, order: &Order) -> Result<Value<'static>> {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    if from.len() != to.len() {
        return Err(Error::TranslateLengths {});
    }
    let one = |c: char| {
        let at = from.iter().position(|known| order.same(*known, c));
        at.map_or(c, |at| to[at])
    };
    Ok(owned(found.chars().map(one).collect()))
}

fn stuff(values: &[Value<'_>], national: bool, ty: SqlType) -> Result<Value<'static>> {
    let found = str_of(&values[0]);
    let (start, count) = (int_of(&values[1]), int_of(&values[2]));
    let units = text::units(found, national);
    let (Ok(start), Ok(count)) = (usize::try_from(start), usize::try_from(count)) else {
        return Ok(Value::Null);
    };
    if start == 0 || start > units {
        return Ok(Value::Null);
    }
    let head = text::slice(found, 0, start - 1, national)?;
    let tail = text::slice(found, (start - 1).saturating_add(count), usize::MAX, national)?;
    Ok(cut(format!("{head}{}{tail}", str_of(&values[3])), ty))
}

fn str_function(values: &[Value<'_>]) -> Value<'static> {
    let Value::Float(number) = values[0] else { return Value::Null };
    let length = values.get(1).map_or(10, int_of);
    let places = values.get(2).map_or(0, int_of);
    let (Ok(length), Ok(places)) = (usize::try_from(length), usize::try_from(places)) else {
        return Value::Null;
    };
    if length == 0 || length > 8000 {
        return Value::Null;
    }
    let places = places.min(16);
    let rounded =
        crate::value::decimal::Dec::from_f64(number, 38, u8::try_from(places).unwrap_or(0))
            .map_or_else(|| format!("{number:.places$}"), |dec| dec.to_string());
    let whole = rounded.split('.').next().map_or(0, str::len);
    if whole > length {
        return owned("*".repeat(length));
    }
    let shown: String = rounded.chars().take(length).collect();
    let shown = shown.strip_suffix('.').unwrap_or(&shown);
    owned(format!("{shown:>length$}"))
}

fn quote_name(found: &str, mark: &str) -> Value<'static> {
    if text::units(found, true) > 128 {
        return Value::Null;
    }
    let (open, close) = match mark.chars().next() {
        Some('[' | ']') => ('[', ']'),
        Some('"') => ('"', '"'),
        Some('\'') => ('\'', '\''),
        Some('(' | ')') => ('(', ')'),
        Some('{' | '}') => ('{', '}'),
        Some('<' | '>') => ('<', '>'),
        Some('`') => ('`', '`'),
        _ => return Value::Null,
    };
    let inner = found.replace(close, &format!("{close}{close}"));
    owned(format!("{open}{inner}{close}"))
}

fn parse_name(found: &str, part: i64) -> Value<'static> {
    let parts: Vec<&str> = found.split('.').collect();
    if parts.len() > 4 || !(1..=4).contains(&part) {
        return Value::Null;
    }
    let back = usize::try_from(part).unwrap_or(1);
    match parts.len().checked_sub(back).and_then(|at| parts.get(at)) {
        Some(name) if !name.is_empty() => {
            owned(name.trim_start_matches('[').trim_end_matches(']').to_owned())
        }
        _ => Value::Null,
    }
}
