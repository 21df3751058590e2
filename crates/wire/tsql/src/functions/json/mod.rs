//! JSON functions. Their texts, positions and errors are SQL Server's: a document is an object or
//! an array, paths are lax unless they say strict.

mod modify;
mod path;
mod reader;
mod rows;
mod write;

use std::borrow::Cow;

use tdekit_wire_tds::{Length, SqlType, Value};

use super::{bad_argument, text_arg};
use crate::error::{Error, Result};
use crate::plan::func::{Func, Json};
use crate::plan::scalar::{Node, Scalar};
use crate::value::dateparse::DateText;
use crate::value::{affordable, bulk_bytes, text};
use path::{Path, find};
use reader::{Kind, Reader};
pub(super) use write::plain;
pub(crate) use write::quoted;

/// The longest value of JSON_VALUE, in characters.
const LONGEST: usize = 4000;
const ANY: SqlType = SqlType::NVarChar(Length::Max);

/// The length of the rows in which FOR JSON is sent, in characters.
const ROW: usize = 2033;

/// Binds a JSON function.
///
/// # Errors
/// 8116 for an argument of another type.
pub(super) fn bind(name: &str, func: Json, args: &[Scalar]) -> Result<Scalar> {
    let text_at = |at: usize| text_arg(&args[at], at + 1, name);
    let mut bound = vec![text_at(0)?];
    let (ty, func) = match func {
        Json::Value => (SqlType::NVarChar(Length::Of(4000)), func),
        Json::Test => (SqlType::Int, func),
        Json::Modify { .. } => {
            let new = &args[2];
            if !write::is_plain(new.ty) {
                return Err(bad_argument(new.ty, 3, name));
            }
            (ANY, Json::Modify { json: is_json(new) })
        }
        _ => (ANY, func),
    };
    if args.len() > 1 {
        bound.push(text_at(1)?);
    }
    bound.extend(args.iter().skip(2).cloned());
    Ok(Scalar::new(ty, true, Node::Call(Func::Json(func), bound)))
}

/// Returns true for an expression whose text is JSON: FOR JSON and JSON_MODIFY take it as it is.
pub(crate) fn is_json(scalar: &Scalar) -> bool {
    match &scalar.node {
        Node::Call(Func::Json(Json::Query | Json::Modify { .. }), _) => true,
        Node::Call(Func::Json(Json::Document { array }), _) => *array,
        Node::Query(subquery) => subquery.0.only_item().is_some_and(is_json),
        _ => false,
    }
}

pub(super) fn compute(
    func: Json,
    values: &[Value<'_>],
    args: &[Scalar],
    order: DateText,
) -> Result<Value<'static>> {
    let given = values.iter().map(bulk_bytes).fold(0, usize::saturating_add);
    affordable(given.saturating_mul(2))?;
    let (first, second) = (values.first(), values.get(1));
    match (func, first, second) {
        (Json::Members { nulls, nested }, ..) => members(values, args, nulls, nested),
        (Json::Rows, ..) => rows::rows(values, args, order),
        (Json::Document { array }, Some(Value::Text(objects)), root) => {
            Ok(document(objects, array, root))
        }
        (Json::Pieces, Some(Value::Text(found)), _) => pieces(found),
        (Json::Test, Some(Value::Text(found)), _) => {
            let mut reader = Reader::new(found);
            let valid = matches!(reader.peek(), Some(b'{' | b'['))
                && reader.value().is_ok()
                && reader.end().is_ok();
            Ok(Value::Int(valid.into()))
        }
        (Json::Value, Some(Value::Text(found)), Some(Value::Text(path))) => value(found, path),
        (Json::Query, Some(Value::Text(found)), None) => query(found, "$"),
        (Json::Query, Some(Value::Text(found)), Some(Value::Text(path))) => query(found, path),
        (Json::Modify { json }, Some(Value::Text(found)), Some(Value::Text(path))) => {
            let path = Path::parse(path, true)?;
            let mut new = String::new();
            let new = match (values.get(2), args.get(2)) {
                (None | Some(Value::Null), _) | (_, None) => None,
                (Some(Value::Text(found)), _) if json => Some(&**found),
                (Some(found), Some(arg)) => {
                    write::value(found, arg.ty, &mut new)?;
                    Some(&*new)
                }
            };
            Ok(owned(modify::modify(found, &path, new)?))
        }
        _ => Ok(Value::Null),
    }
}

fn owned(text: String) -> Value<'static> {
    Value::Text(Cow::Owned(text))
}

fn value(found: &str, path: &str) -> Result<Value<'static>> {
    let path = Path::parse(path, false)?;
    let Some(value) = find(found, &path.steps)? else { return missing(&path) };
    if value.kind.is_container() {
        return if path.strict { Err(Error::JsonNoScalar {}) } else { Ok(Value::Null) };
    }
    match rows::scalar(found, &value) {
        Some(text) if text::units(&text, true) > LONGEST => match path.strict {
            true => Err(Error::JsonLong {}),
            false => Ok(Value::Null),
        },
        text => Ok(text.map_or(Value::Null, owned)),
    }
}

fn query(found: &str, path: &str) -> Result<Value<'static>> {
    let path = Path::parse(path, false)?;
    let Some(value) = find(found, &path.steps)? else { return missing(&path) };
    match value.kind {
        Kind::Array | Kind::Object => Ok(owned(found[value.range].to_owned())),
        Kind::Null => Ok(Value::Null),
        _ if path.strict => Err(Error::JsonNoObject {}),
        _ => Ok(Value::Null),
    }
}

fn missing(path: &Path) -> Result<Value<'static>> {
    if path.strict { Err(Error::JsonMissing {}) } else { Ok(Value::Null) }
}

/// The members of a row of FOR JSON, from three values each: name, whether it is JSON, value.
fn members(
    values: &[Value<'_>],
    args: &[Scalar],
    nulls: bool,
    nested: bool,
) -> Result<Value<'static>> {
    let mut list = Vec::new();
    for (values, args) in values.chunks(3).zip(args.chunks(3)) {
        if let ([Value::Text(name), json, value], [_, _, arg]) = (values, args) {
            list.push((Cow::Borrowed(&**name), *json == Value::Bit(true), value, arg.ty));
        }
    }
    write::members(&list, nulls, nested).map(owned)
}

/// The objects of all rows, with what is around them.
fn document(objects: &str, array: bool, root: Option<&Value<'_>>) -> Value<'static> {
    let mut out = String::with_capacity(objects.len() + 16);
    if let Some(Value::Text(root)) = root {
        out.push('{');
        write::quoted(root, &mut out);
        out.push(':');
    }
    let (open, close) = if array { ("[", "]") } else { ("", "") };
    out.extend([open, objects, close]);
    if let Some(Value::Text(_)) = root {
        out.push('}');
    }
    owned(out)
}

/// The rows in which a document is sent, as an array that SQLite reads.
fn pieces(document: &str) -> Result<Value<'static>> {
    let mut out = String::with_capacity(document.len() + document.len() / 8);
    out.push('[');
    let (mut start, mut count) = (0, 0);
    for (at, c) in document.char_indices() {
        if count + c.len_utf16() > ROW {
            write::quoted(&document[start..at], &mut out);
            out.push(',');
            (start, count) = (at, 0);
        }
        count += c.len_utf16();
    }
    write::quoted(&document[start..], &mut out);
    out.push(']');
    affordable(out.len())?;
    Ok(owned(out))
}
