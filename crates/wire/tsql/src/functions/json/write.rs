//! Values as JSON text, for FOR JSON and JSON_MODIFY.

use base64::Engine;
use std::borrow::Cow;
use std::fmt::Write;

use tdekit_wire_tds::{Length, SqlType, Value};

use crate::error::Result;
use crate::value::dateparse::DateText;
use crate::value::{Family, convert, family, is_text};

/// Writes a string with its quotes, and SQL Server's escapes.
pub(crate) fn quoted(text: &str, out: &mut String) {
    out.push('"');
    escaped(text, out);
    out.push('"');
}

fn escaped(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' | '\\' | '/' => out.extend(['\\', c]),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
}

/// Writes a value as FOR JSON does: numbers with all digits of their type, dates as ISO 8601, bytes
/// in Base64.
///
/// # Errors
/// If it has no text.
pub(super) fn value(value: &Value<'_>, ty: SqlType, out: &mut String) -> Result<()> {
    if let Value::Variant(variant) = value {
        return self::value(&variant.value, variant.ty, out);
    }
    match value {
        Value::Null => out.push_str("null"),
        Value::Bit(bit) => out.push_str(if *bit { "true" } else { "false" }),
        Value::Text(text) => quoted(text, out),
        Value::Binary(bytes) => {
            out.push('"');
            base64::engine::general_purpose::STANDARD.encode_string(bytes, out);
            // the slash of Base64 as well
            let start = out.rfind('"').map_or(0, |at| at + 1);
            let coded = out.split_off(start);
            escaped(&coded, out);
            out.push('"');
        }
        _ => {
            let text = plain(value, ty)?;
            if crate::value::is_numeric(ty) {
                out.push_str(&text);
            } else {
                quoted(&text, out);
            }
        }
    }
    Ok(())
}

/// A number, a date or an identifier as text: numbers with all digits of their type, dates as ISO
/// 8601.
///
/// # Errors
/// If it has no text.
pub(in crate::functions) fn plain(value: &Value<'_>, ty: SqlType) -> Result<String> {
    let style = match (family(ty), ty) {
        (_, SqlType::Real) => 1,
        (Family::Float, _) => 2,
        (Family::Temporal, _) if !matches!(ty, SqlType::Time(_)) => 126,
        (_, SqlType::Money | SqlType::SmallMoney) => 2,
        _ => 0,
    };
    let to = SqlType::NVarChar(Length::Max);
    Ok(match convert::convert(value, ty, to, style, DateText::default())? {
        Value::Text(text) => without_zero_fraction(&text, ty),
        _ => String::new(),
    })
}

/// Dates lose a fraction of nothing but zeros; an offset of zero is Z.
fn without_zero_fraction(text: &str, ty: SqlType) -> String {
    if family(ty) != Family::Temporal {
        return text.to_owned();
    }
    let (time, offset) = match ty {
        SqlType::DateTimeOffset(_) => match text.rfind(['+', '-', 'Z']) {
            Some(at) => text.split_at(at),
            None => (text, ""),
        },
        _ => (text, ""),
    };
    let time = match time.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|digit| digit == b'0') => whole,
        _ => time,
    };
    let offset = if offset == "+00:00" { "Z" } else { offset };
    format!("{}{}", time.trim_end(), offset)
}

/// Returns true if JSON_MODIFY takes a value of this type.
pub(super) fn is_plain(ty: SqlType) -> bool {
    let old = matches!(ty, SqlType::Text | SqlType::NText | SqlType::Xml);
    is_text(ty) && !old || crate::value::is_numeric(ty) || ty == SqlType::Bit
}

/// Returns the members of an object, without its brackets: names, whether each value is JSON, and
/// values. With `nested`, a dot in a name opens an object; members of one follow each other.
///
/// # Errors
/// If a value has no text.
pub(super) fn members(
    members: &[(Cow<'_, str>, bool, &Value<'_>, SqlType)],
    nulls: bool,
    nested: bool,
) -> Result<String> {
    let mut out = String::new();
    let mut open: Vec<&str> = Vec::new();
    // true if the object that is open has a member
    let mut begun = false;
    for (name, json, found, ty) in members {
        if **found == Value::Null && !nulls {
            continue;
        }
        let parts: Vec<&str> = if nested { name.split('.').collect() } else { vec![name] };
        let Some((last, objects)) = parts.split_last() else { continue };
        let common = open.iter().zip(objects).take_while(|(a, b)| a == b).count();
        for _ in common..open.len() {
            out.push('}');
        }
        open.truncate(common);
        if begun {
            out.push(',');
        }
        for object in &objects[common..] {
            quoted(object, &mut out);
            out.push_str(":{");
            open.push(object);
        }
        begun = true;
        quoted(last, &mut out);
        out.push(':');
        match found {
            Value::Text(text) if *json => out.push_str(text),
            found => value(found, *ty, &mut out)?,
        }
    }
    for _ in &open {
        out.push('}');
    }
    Ok(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_with_dots_open_objects() {
        let one = Value::Int(1);
        let member = |name: &'static str| (Cow::Borrowed(name), false, &one, SqlType::Int);
        for (names, nested, expected) in [
            (&["a", "b"][..], true, r#""a":1,"b":1"#),
            (&["x.a", "x.b", "c"], true, r#""x":{"a":1,"b":1},"c":1"#),
            (&["x.y.a", "x.b"], true, r#""x":{"y":{"a":1},"b":1}"#),
            (&["a.b.c.d"], true, r#""a":{"b":{"c":{"d":1}}}"#),
            (&["x.y.a", "x.z.a"], true, r#""x":{"y":{"a":1},"z":{"a":1}}"#),
            (&["x.a"], false, r#""x.a":1"#),
        ] {
            let list: Vec<_> = names.iter().map(|name| member(name)).collect();
            assert_eq!(members(&list, false, nested).unwrap(), expected);
        }
    }
}
