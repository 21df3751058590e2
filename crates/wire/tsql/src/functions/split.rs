//! STRING_SPLIT: the pieces of a text, as the JSON array that SQLite's `json_each` reads.

use std::fmt::Write;

use tdekit_wire_tds::Value;

use crate::error::{Error, Result};
use crate::value::collation::Order;

/// Returns the pieces between separators, in their order; NULL if there are none.
///
/// # Errors
/// 214 for a separator that is not one character, 40512 where SQL Server's behaviour is unknown: a
/// letter beside the same one in another case, the character of code 0.
pub(super) fn pieces(
    found: &Value<'_>,
    separator: &Value<'_>,
    order: &Order,
) -> Result<Value<'static>> {
    let separator = match separator {
        Value::Text(text) if text.encode_utf16().count() == 1 => text.chars().next(),
        _ => None,
    };
    let separator = separator.ok_or(Error::SplitSeparator {})?;
    let Value::Text(found) = found else { return Ok(Value::Null) };
    let mut array = String::with_capacity(found.len() + 4);
    array.push_str("[\"");
    for c in found.chars() {
        if c == separator {
            array.push_str("\",\"");
            continue;
        }
        if order.same(c, separator) {
            return Err(Error::feature(format!("STRING_SPLIT by {separator} of text with {c}")));
        }
        match c {
            '\0' => return Err(Error::feature("STRING_SPLIT of text with the character 0")),
            '"' | '\\' => array.extend(['\\', c]),
            '\u{1}'..='\u{1f}' => {
                let _ = write!(array, "\\u{:04x}", u32::from(c));
            }
            _ => array.push(c),
        }
    }
    array.push_str("\"]");
    Ok(Value::Text(array.into()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn split(found: &str, separator: &str) -> Result<String> {
        let (found, separator) = (Value::Text(found.into()), Value::Text(separator.into()));
        pieces(&found, &separator, &Order::default()).map(|value| match value {
            Value::Text(array) => array.into_owned(),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn pieces_are_quoted() {
        assert_eq!(split("a,,b", ",").unwrap(), r#"["a","","b"]"#);
        assert_eq!(split("", ",").unwrap(), r#"[""]"#);
        assert_eq!(split("\"\\\t\u{7f}é", "|").unwrap(), "[\"\\\"\\\\\\u0009\u{7f}é\"]");
        assert_eq!(split("a\"b", "\"").unwrap(), r#"["a","b"]"#);
        assert_eq!(split("1x2", "x").unwrap(), r#"["1","2"]"#);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for separator in ["", ", ", "😀"] {
            assert_eq!(split("a", separator), Err(Error::SplitSeparator {}));
        }
        assert!(matches!(split("1X2x3", "x"), Err(Error::NotSupportedFeature { .. })));
        assert!(matches!(split("a\0b", ","), Err(Error::NotSupportedFeature { .. })));
        let null = pieces(&Value::Null, &Value::Text(",".into()), &Order::default());
        assert_eq!(null.unwrap(), Value::Null);
        let none = pieces(&Value::Null, &Value::Null, &Order::default());
        assert_eq!(none, Err(Error::SplitSeparator {}));
    }
}
