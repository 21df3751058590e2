//! The aggregate that makes a JSON array of rows, for `json_each` to give them again.

use std::fmt::Write as _;

use rusqlite::functions::{Aggregate, Context};
use rusqlite::types::ValueRef;

use crate::error::{Error, Result};
use crate::functions::json::quoted;
use crate::render::kernels::Kernels;

/// Rows as arrays. The first argument has the kind of each column: `p` for integers and text, `b`
/// for bytes, `r` for floats.
pub(crate) struct RowArray {
    pub(crate) kernels: Kernels,
}

impl RowArray {
    fn failed(&self, error: Error) -> rusqlite::Error {
        let text = error.to_string();
        self.kernels.fail(error);
        rusqlite::Error::UserFunctionError(text.into())
    }
}

impl Aggregate<String, String> for RowArray {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<String> {
        Ok("[".to_owned())
    }

    fn step(&self, ctx: &mut Context<'_>, out: &mut String) -> rusqlite::Result<()> {
        let kinds: String = ctx.get(0)?;
        out.push_str(if out.len() > 1 { ",[" } else { "[" });
        for (at, kind) in kinds.chars().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write(ctx.get_raw(at + 1), kind, out).map_err(|error| self.failed(error))?;
        }
        out.push(']');
        crate::value::affordable(out.len()).map_err(|error| self.failed(error))
    }

    fn finalize(&self, _: &mut Context<'_>, out: Option<String>) -> rusqlite::Result<String> {
        let mut out = out.unwrap_or_else(|| "[".to_owned());
        out.push(']');
        Ok(out)
    }
}

/// Writes a value so that reading it gives the same one.
fn write(value: ValueRef<'_>, kind: char, out: &mut String) -> Result<()> {
    let unfit = || Error::Internal { detail: "a value of another kind in APPLY".to_owned() };
    match (value, kind) {
        (ValueRef::Null, _) => out.push_str("null"),
        (ValueRef::Integer(int), 'p') => {
            let _ = write!(out, "{int}");
        }
        (ValueRef::Text(text), 'p') => {
            let text = std::str::from_utf8(text).map_err(|_| unfit())?;
            if text.contains('\0') {
                return Err(Error::feature("text with the character 0 in APPLY"));
            }
            quoted(text, out);
        }
        (ValueRef::Blob(bytes), 'b') => {
            let _ = write!(out, "\"{}\"", hex::encode(bytes));
        }
        (ValueRef::Real(real), 'r') => {
            let _ = write!(out, "{}", real.to_bits().cast_signed());
        }
        #[allow(clippy::cast_precision_loss)]
        (ValueRef::Integer(int), 'r') => {
            let _ = write!(out, "{}", (int as f64).to_bits().cast_signed());
        }
        _ => return Err(unfit()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_by_their_kind() {
        let written = |value, kind| {
            let mut out = String::new();
            write(value, kind, &mut out).map(|()| out)
        };
        for (value, kind, expected) in [
            (ValueRef::Null, 'b', "null"),
            (ValueRef::Integer(i64::MIN), 'p', "-9223372036854775808"),
            (ValueRef::Text(b"a\"b\\"), 'p', r#""a\"b\\""#),
            (ValueRef::Blob(&[0, 255]), 'b', r#""00ff""#),
            (ValueRef::Real(-0.0), 'r', "-9223372036854775808"),
        ] {
            assert_eq!(written(value, kind).unwrap(), expected);
        }
        assert!(written(ValueRef::Text(b"a\0"), 'p').is_err());
        assert!(written(ValueRef::Blob(b"a"), 'p').is_err());
        assert!(written(ValueRef::Real(1.5), 'p').is_err());
    }
}
