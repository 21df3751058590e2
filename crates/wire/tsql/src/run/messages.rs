//! Text of PRINT and RAISERROR.

use tdekit_wire_tds::{Length, SqlType, Value};

use crate::error::{Error, Result};
use crate::value::dateparse::DateText;
use crate::value::{Val, convert, text};

/// Returns a value as shown in messages, with at most this many characters.
pub(crate) fn shown(value: &Value<'_>, limit: usize) -> String {
    shown_as(value, limit, DateText::default())
}

/// As [`shown`], with dates as a session writes them.
pub(crate) fn shown_as(value: &Value<'_>, limit: usize, dates: DateText) -> String {
    let ty = match value {
        Value::Null => return String::new(),
        Value::Text(found) => return text::slice(found, 0, limit, true).unwrap_or_default(),
        Value::Bit(_) => SqlType::Bit,
        Value::Int(_) => SqlType::BigInt,
        Value::Float(_) => SqlType::Float,
        Value::Decimal { scale, .. } => SqlType::Decimal { precision: 38, scale: *scale },
        Value::Money(_) => SqlType::Money,
        Value::Binary(_) => SqlType::VarBinary(Length::Max),
        Value::Date(_) => SqlType::Date,
        Value::Time(_) => SqlType::Time(7),
        Value::DateTime { .. } => SqlType::DateTime,
        Value::SmallDateTime { .. } => SqlType::SmallDateTime,
        Value::DateTime2 { .. } => SqlType::DateTime2(7),
        Value::DateTimeOffset { .. } => SqlType::DateTimeOffset(7),
        Value::Guid(_) => SqlType::UniqueIdentifier,
        Value::Variant(variant) => return shown_as(&variant.value, limit, dates),
    };
    match convert::convert(value, ty, SqlType::NVarChar(Length::Max), 0, dates) {
        Ok(Value::Text(text)) => text.into_owned(),
        _ => String::new(),
    }
}

fn wrong(at: usize) -> Error {
    Error::BadSubstitution { at }
}

/// RAISERROR's format: `%d %i %u %o %x %X %s %%` with flags, width and precision.
pub(crate) fn format(format: &str, args: &[Val]) -> Result<String> {
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    let mut next = 0;
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut flags = String::new();
        while let Some(flag @ ('-' | '+' | '0' | '#' | ' ')) = chars.peek().copied() {
            flags.push(flag);
            chars.next();
        }
        let number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut digits = String::new();
            while let Some(digit) = chars.peek().filter(|c| c.is_ascii_digit()) {
                digits.push(*digit);
                chars.next();
            }
            digits.parse::<usize>().ok().map(|width| width.min(2047))
        };
        let width = number(&mut chars).unwrap_or(0);
        let precision = if chars.peek() == Some(&'.') {
            chars.next();
            number(&mut chars)
        } else {
            None
        };
        if chars.peek() == Some(&'I') {
            // I64
            chars.next();
            chars.next();
            chars.next();
        } else if matches!(chars.peek(), Some('l' | 'h')) {
            chars.next();
        }
        let Some(kind) = chars.next() else { break };
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = args.get(next);
        next += 1;
        let text = match (kind, value) {
            (_, None | Some(Value::Null)) => "(null)".to_owned(),
            ('s', Some(Value::Text(text))) => match precision {
                Some(most) => text.chars().take(most).collect(),
                None => text.to_string(),
            },
            ('d' | 'i' | 'u', Some(Value::Int(int))) => {
                if flags.contains('+') && *int >= 0 {
                    format!("+{int}")
                } else {
                    int.to_string()
                }
            }
            ('x', Some(Value::Int(int))) => format!("{int:x}"),
            ('X', Some(Value::Int(int))) => format!("{int:X}"),
            ('o', Some(Value::Int(int))) => format!("{int:o}"),
            _ => return Err(wrong(next)),
        };
        if flags.contains('-') {
            out.push_str(&format!("{text:<width$}"));
        } else if flags.contains('0') && kind != 's' {
            out.push_str(&format!("{text:0>width$}"));
        } else {
            out.push_str(&format!("{text:>width$}"));
        }
    }
    Ok(out)
}
