//! OPENJSON: the members of a document as rows, in an array of arrays that SQLite reads.

use std::fmt::Write;

use base64::Engine;
use rusqlite::types::Value as Stored;
use tdekit_wire_tds::{Length, SqlType, Value};

use super::path::{Path, find, find_within};
use super::reader::{Found, Kind, Reader, unquoted};
use crate::error::{Error, Result};
use crate::plan::scalar::Scalar;
use crate::value::dateparse::DateText;
use crate::value::{convert, is_national, length_of, storage, text};

/// A column of WITH.
struct Column {
    path: Path,
    ty: SqlType,
    /// AS JSON.
    json: bool,
}

/// Returns the rows for a document, a path, and three values for each column of WITH: its path, a
/// NULL of its type, whether it is JSON. Without columns, a row is key, value and type.
///
/// # Errors
/// 13607 and 13609 for the texts, 13608, 13611 and 13624 for strict paths, and those of
/// conversions.
pub(super) fn rows(
    values: &[Value<'_>],
    args: &[Scalar],
    order: DateText,
) -> Result<Value<'static>> {
    let [Value::Text(text), Value::Text(path), ..] = values else { return Ok(Value::Null) };
    let path = Path::parse(path, false)?;
    let columns = columns(values, args)?;
    let found = find(text, &path.steps)?;
    let found = match found {
        Some(found) if found.kind.is_container() => found,
        Some(_) if path.strict => return Err(Error::JsonNotOpened {}),
        None if path.strict => return Err(Error::JsonMissing {}),
        _ => return Ok(Value::Null),
    };
    let mut out = String::from("[");
    let source = &text[found.range.clone()];
    if columns.is_empty() {
        each(source, found.kind, &mut |at, name, member| {
            out.push_str(if at > 0 { ",[" } else { "[" });
            match name {
                Some(name) => cell(&Stored::Text(unquoted(name).into_owned()), &mut out)?,
                None => cell(&Stored::Text(at.to_string()), &mut out)?,
            }
            out.push(',');
            cell(&scalar(source, member).map_or(Stored::Null, Stored::Text), &mut out)?;
            let _ = write!(out, ",{}]", number(member.kind));
            Ok(())
        })?;
    } else {
        let mut row = |at: usize, source: &str| {
            out.push_str(if at > 0 { ",[" } else { "[" });
            for (at, column) in columns.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                cell(&value(source, column, order)?, &mut out)?;
            }
            out.push(']');
            Ok(())
        };
        if found.kind == Kind::Array {
            each(source, found.kind, &mut |at, _, member| row(at, &source[member.range.clone()]))?;
        } else {
            row(0, source)?;
        }
    }
    out.push(']');
    Ok(Value::Text(out.into()))
}

fn columns(values: &[Value<'_>], args: &[Scalar]) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    for (values, args) in values[2..].chunks(3).zip(args[2..].chunks(3)) {
        let ([Value::Text(path), _, Value::Bit(json)], [_, typed, _]) = (values, args) else {
            return Err(Error::Internal { detail: "a column of OPENJSON".to_owned() });
        };
        columns.push(Column { path: Path::parse(path, false)?, ty: typed.ty, json: *json });
    }
    Ok(columns)
}

/// What is done for each member: its position, its name with quotes, its value.
type Each<'a> = dyn FnMut(usize, Option<&str>, &Found) -> Result<()> + 'a;

/// Calls `see` with each member.
fn each(text: &str, kind: Kind, see: &mut Each<'_>) -> Result<()> {
    let close = if kind == Kind::Array { b']' } else { b'}' };
    let mut reader = Reader::open(text)?;
    reader.enter()?;
    let mut more = reader.any(close)?;
    let mut at = 0;
    while more {
        let name = match kind {
            Kind::Object => {
                let name = reader.name()?;
                reader.expect(b':')?;
                Some(&text[name])
            }
            _ => None,
        };
        let found = reader.value()?;
        see(at, name, &found)?;
        at += 1;
        more = reader.more(close)?;
    }
    Ok(())
}

/// Numbers of OPENJSON's column `type`.
fn number(kind: Kind) -> u8 {
    match kind {
        Kind::Null => 0,
        Kind::Text => 1,
        Kind::Number => 2,
        Kind::Bool => 3,
        Kind::Array => 4,
        Kind::Object => 5,
    }
}

/// A value's text: of a string, what is between its quotes.
pub(super) fn scalar(source: &str, found: &Found) -> Option<String> {
    let written = &source[found.range.clone()];
    match found.kind {
        Kind::Null => None,
        Kind::Text => Some(unquoted(written).into_owned()),
        _ => Some(written.to_owned()),
    }
}

/// The value of a column in a member, as it is stored.
fn value(source: &str, column: &Column, order: DateText) -> Result<Stored> {
    let Column { path, ty, json } = column;
    let Some(found) = find_within(source, &path.steps)? else {
        return if path.strict { Err(Error::JsonMissing {}) } else { Ok(Stored::Null) };
    };
    let Some(written) = scalar(source, &found) else { return Ok(Stored::Null) };
    if *json {
        return match found.kind.is_container() {
            true => Ok(Stored::Text(written)),
            false if path.strict => Err(Error::JsonNoObject {}),
            false => Ok(Stored::Null),
        };
    }
    if found.kind.is_container() {
        return if path.strict { Err(Error::JsonNoScalar {}) } else { Ok(Stored::Null) };
    }
    if let SqlType::Binary(_) | SqlType::VarBinary(_) = ty {
        let bytes = base64::engine::general_purpose::STANDARD.decode(written.as_bytes());
        let bytes = bytes.map_err(|_| Error::JsonBase64 {})?;
        if matches!(length_of(*ty), Some(Length::Of(n)) if bytes.len() > usize::from(n)) {
            return Err(Error::JsonBinaryLong {});
        }
        let from = SqlType::VarBinary(Length::Max);
        let bytes = convert::convert(&Value::Binary(bytes.into()), from, *ty, 0, order)?;
        return storage::store(&bytes, *ty);
    }
    if let Some(Length::Of(n)) = length_of(*ty)
        && text::units(&written, is_national(*ty)) > usize::from(n)
    {
        return if path.strict { Err(Error::JsonLong {}) } else { Ok(Stored::Null) };
    }
    let from = SqlType::NVarChar(Length::Max);
    let converted = convert::convert(&Value::Text(written.into()), from, *ty, 0, order)?;
    storage::store(&converted, *ty)
}

/// Writes a value for SQLite's JSON: bytes in hexadecimal, a float as the integer of its bits.
fn cell(stored: &Stored, out: &mut String) -> Result<()> {
    match stored {
        Stored::Null => out.push_str("null"),
        Stored::Integer(int) => {
            let _ = write!(out, "{int}");
        }
        Stored::Real(real) => {
            let _ = write!(out, "{}", real.to_bits().cast_signed());
        }
        Stored::Blob(bytes) => {
            let _ = write!(out, "\"{}\"", hex::encode(bytes));
        }
        Stored::Text(text) if text.contains('\0') => {
            return Err(Error::feature("OPENJSON of text with the character 0"));
        }
        Stored::Text(text) => super::write::quoted(text, out),
    }
    Ok(())
}
