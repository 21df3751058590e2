//! JSON_MODIFY: the document's text with one value changed; all else stays as it is written.

use std::ops::Range;

use super::path::{Path, Step, find, find_within};
use super::reader::{Found, Kind, Reader, unquoted};
use super::write::quoted;
use crate::error::{Error, Result};

/// Returns the document with this value, as JSON, at a path; None is SQL's NULL.
///
/// # Errors
/// 13609 for text that is no JSON, 13608, 13619 and 13621 for the path.
pub(super) fn modify(text: &str, path: &Path, new: Option<&str>) -> Result<String> {
    let Some((last, parents)) = path.steps.split_last() else {
        if !path.append {
            return Err(Error::JsonModifyPath {});
        }
        check(text)?;
        let Some(root) = find(text, &[])? else { return Ok(text.to_owned()) };
        return append(text, Some(&root), path, new);
    };
    let Some(parent) = find(text, parents)? else {
        return missing(text, path);
    };
    let inner = &text[parent.range.clone()];
    let fits = match last {
        Step::Name(_) => parent.kind == Kind::Object,
        Step::Index(_) => parent.kind == Kind::Array,
    };
    if !fits {
        return missing(text, path);
    }
    check(text)?;
    let found = find_within(inner, std::slice::from_ref(last))?.map(|found| {
        let start = parent.range.start;
        Found { kind: found.kind, range: found.range.start + start..found.range.end + start }
    });
    if path.append && (found.is_some() || path.strict) {
        return append(text, found.as_ref(), path, new);
    }
    match (found, last) {
        (Some(found), Step::Name(name)) if new.is_none() && !path.strict => {
            Ok(without(text, &parent, name, &found)?)
        }
        (Some(found), _) => Ok(replaced(text, found.range, new.unwrap_or("null"))),
        (None, Step::Name(name)) if !path.strict => {
            let Some(new) = new else { return Ok(text.to_owned()) };
            let mut member = String::new();
            quoted(name, &mut member);
            member.push(':');
            if path.append {
                member.extend(["[", new, "]"]);
            } else {
                member.push_str(new);
            }
            Ok(with_last(text, &parent, &member))
        }
        (None, _) => missing(text, path),
    }
}

/// Reads the whole document.
fn check(text: &str) -> Result<()> {
    let mut reader = Reader::open(text)?;
    reader.value()?;
    reader.end()
}

fn missing(text: &str, path: &Path) -> Result<String> {
    if path.strict { Err(Error::JsonMissing {}) } else { Ok(text.to_owned()) }
}

fn append(text: &str, array: Option<&Found>, path: &Path, new: Option<&str>) -> Result<String> {
    match array {
        None => missing(text, path),
        Some(array) if array.kind == Kind::Array => {
            Ok(with_last(text, array, new.unwrap_or("null")))
        }
        Some(_) if path.strict => Err(Error::JsonNoArray {}),
        Some(_) => Ok(text.to_owned()),
    }
}

fn replaced(text: &str, range: Range<usize>, new: &str) -> String {
    [&text[..range.start], new, &text[range.end..]].concat()
}

/// The text with a last member in an object or array.
fn with_last(text: &str, container: &Found, member: &str) -> String {
    let inner = &text[container.range.start + 1..container.range.end - 1];
    let at = container.range.start + 1 + inner.trim_end().len();
    let comma = if inner.trim().is_empty() { "" } else { "," };
    [&text[..at], comma, member, &text[at..]].concat()
}

/// The text without a member of an object, and without one comma beside it.
fn without(text: &str, object: &Found, name: &str, value: &Found) -> Result<String> {
    let mut reader = Reader::new(text);
    reader.at = object.range.start;
    reader.enter()?;
    // behind the member before, or the bracket
    let mut before = reader.at;
    let mut first = true;
    let mut more = reader.any(b'}')?;
    while more {
        let start = reader.peek().map_or(before, |_| reader.at);
        let found = reader.name()?;
        reader.expect(b':')?;
        let found_value = reader.value()?;
        let end = reader.at;
        if found_value.range == value.range && unquoted(&text[found]) == *name {
            let last = reader.peek() == Some(b'}');
            return Ok(match (first, last) {
                (true, true) => replaced(text, start..end, ""),
                // with the comma behind it, and the blanks up to the next one
                (true, false) => {
                    reader.more(b'}')?;
                    reader.peek();
                    replaced(text, start..reader.at, "")
                }
                (false, _) => replaced(text, before..end, ""),
            });
        }
        (before, first) = (end, false);
        more = reader.more(b'}')?;
    }
    Ok(text.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn modified(text: &str, path: &str, new: Option<&str>) -> Result<String> {
        modify(text, &Path::parse(path, true).unwrap(), new)
    }

    #[test]
    fn the_rest_stays_as_written() {
        for (text, path, new, expected) in [
            ("{ \"a\" : 1.10 , \"b\" : 2 } ", "$.a", Some("3"), "{ \"a\" : 3 , \"b\" : 2 } "),
            ("{\"a\":{\"b\":\"X\"}}", "$.a.b", Some("\"Y\""), "{\"a\":{\"b\":\"Y\"}}"),
            ("[1,2,3]", "append $", Some("4"), "[1,2,3,4]"),
            ("[ ]", "append $", Some("4"), "[4 ]"),
            ("[1,2,3]", "$[1]", Some("99"), "[1,99,3]"),
            ("[1,2,3]", "$[3]", Some("4"), "[1,2,3]"),
            ("[1,2,3]", "$[1]", None, "[1,null,3]"),
            ("{\"a\":1}", "$.b", Some("2"), "{\"a\":1,\"b\":2}"),
            ("{}", "$.b", Some("2"), "{\"b\":2}"),
            ("{\"a\":1,\"b\":2}", "$.b", None, "{\"a\":1}"),
            ("{\"a\":1, \"b\":2}", "$.a", None, "{\"b\":2}"),
            ("{\"a\":1}", "$.a", None, "{}"),
            ("{\"a\":1,\"b\":2,\"c\":3}", "$.b", None, "{\"a\":1,\"c\":3}"),
            ("{\"a\":1}", "$.b", None, "{\"a\":1}"),
            ("{\"a\":1}", "strict $.a", None, "{\"a\":null}"),
            ("{\"a\":[1]}", "append $.a", Some("2"), "{\"a\":[1,2]}"),
            ("{\"a\":1}", "append $.b", Some("2"), "{\"a\":1,\"b\":[2]}"),
            ("{\"a\":1}", "append $.a", Some("2"), "{\"a\":1}"),
            ("{\"a\":1}", "$.b.c", Some("2"), "{\"a\":1}"),
            ("[1,2]extra", "$.a", Some("2"), "[1,2]extra"),
        ] {
            assert_eq!(modified(text, path, new).unwrap(), expected, "{text} {path}");
        }
        for (text, path, error) in [
            ("{\"a\":1}", "strict $.b", Error::JsonMissing {}),
            ("[1,2]", "strict $[5]", Error::JsonMissing {}),
            ("{\"a\":1}", "append strict $.b", Error::JsonMissing {}),
            ("{\"a\":1}", "append strict $.a", Error::JsonNoArray {}),
            ("{\"a\":1}", "$", Error::JsonModifyPath {}),
            ("1", "$.a", Error::JsonText { character: '1', position: 0 }),
            ("{} x", "$.a", Error::JsonText { character: 'x', position: 3 }),
            ("{\"a\":1}extra", "$.a", Error::JsonText { character: 'e', position: 7 }),
        ] {
            assert_eq!(modified(text, path, Some("2")), Err(error), "{text} {path}");
        }
    }
}
