//! Paths into JSON: `[append] [lax | strict] $.name."other name"[0]`.

use super::reader::{Found, MAX_DEPTH, Reader, unquoted};
use crate::error::{Error, Result};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Name(String),
    Index(usize),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Path {
    pub(super) append: bool,
    pub(super) strict: bool,
    pub(super) steps: Vec<Step>,
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl Parser<'_> {
    fn error_at(&self, at: usize) -> Error {
        let character = self.text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or('.');
        let at = at.min(self.text.len());
        Error::JsonPath { character, position: self.text[..at].encode_utf16().count() }
    }

    /// Skips blanks and returns the character that follows.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\u{c}' | '\r');
        self.at = self.text.len() - rest.trim_start_matches(blank).len();
        self.text[self.at..].chars().next()
    }

    /// Skips a word that ends here.
    fn word(&mut self, word: &str) -> bool {
        self.peek();
        let Some(rest) = self.text[self.at..].strip_prefix(word) else { return false };
        if rest.starts_with(is_name) {
            return false;
        }
        self.at += word.len();
        true
    }

    fn steps(&mut self) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        loop {
            match self.peek() {
                None => return Ok(steps),
                Some('.') => {
                    self.at += 1;
                    steps.push(Step::Name(self.name()?));
                }
                Some('[') => {
                    self.at += 1;
                    steps.push(Step::Index(self.index()?));
                }
                Some(_) => return Err(self.error_at(self.at)),
            }
            if steps.len() > MAX_DEPTH {
                return Err(Error::JsonDeep {});
            }
        }
    }

    fn name(&mut self) -> Result<String> {
        let first = self.peek();
        let rest = &self.text[self.at..];
        if first == Some('"') {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let Some(end) = end else { return Err(self.error_at(self.text.len())) };
            self.at += end + 2;
            return Ok(unquoted(&rest[..end + 2]).into_owned());
        }
        let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        if length == 0 || first.is_some_and(|c| c.is_ascii_digit()) {
            return Err(self.error_at(self.at));
        }
        self.at += length;
        Ok(rest[..length].to_owned())
    }

    fn index(&mut self) -> Result<usize> {
        self.peek();
        let rest = &self.text[self.at..];
        let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
        let Ok(index) = digits.parse::<u32>() else {
            // one digit beyond those of the greatest number is the last that is read
            return Err(self.error_at(self.at + digits.len().min(11).saturating_sub(1)));
        };
        self.at += digits.len();
        if self.peek() != Some(']') {
            return Err(self.error_at(self.at));
        }
        self.at += 1;
        usize::try_from(index).map_err(|_| self.error_at(self.at))
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl Path {
    /// Parses a path; with `append`, that of `JSON_MODIFY`.
    ///
    /// # Errors
    /// 13607 at the first character that does not belong.
    pub(super) fn parse(text: &str, append: bool) -> Result<Path> {
        let mut parser = Parser { text, at: 0 };
        let append = append && parser.word("append");
        let strict = parser.word("strict");
        if !strict {
            parser.word("lax");
        }
        if parser.peek() != Some('$') {
            return Err(parser.error_at(parser.at));
        }
        parser.at += 1;
        Ok(Path { append, strict, steps: parser.steps()? })
    }
}

/// What a walk along a path came to.
enum Walk {
    Found(Found),
    /// Nothing is there, whatever follows in the text.
    Settled,
    /// Nothing was there so far.
    Missed,
}

/// Finds the value of a path in a document, and reads no further than SQL Server does to find it,
/// or to know that there is none.
///
/// # Errors
/// 13609 for text that is no JSON, as far as it is read.
pub(super) fn find(text: &str, steps: &[Step]) -> Result<Option<Found>> {
    let mut reader = Reader::open(text)?;
    match walk(&mut reader, steps)? {
        Walk::Found(found) => Ok(Some(found)),
        Walk::Settled => Ok(None),
        Walk::Missed => reader.end().map(|()| None),
    }
}

/// As [`find`], in a value of any kind that was read as a whole.
pub(super) fn find_within(value: &str, steps: &[Step]) -> Result<Option<Found>> {
    match walk(&mut Reader::new(value), steps)? {
        Walk::Found(found) => Ok(Some(found)),
        Walk::Settled | Walk::Missed => Ok(None),
    }
}

fn walk(reader: &mut Reader<'_>, steps: &[Step]) -> Result<Walk> {
    let Some((step, rest)) = steps.split_first() else {
        return Ok(Walk::Found(reader.value()?));
    };
    match (reader.peek(), step) {
        (Some(b'{'), Step::Name(name)) => {
            reader.enter()?;
            let mut more = reader.any(b'}')?;
            while more {
                let found = reader.name()?;
                reader.expect(b':')?;
                if unquoted(&reader.text[found]) == *name {
                    let walked = walk(reader, rest)?;
                    return step_on(reader, walked, b'}');
                }
                reader.value()?;
                more = reader.more(b'}')?;
            }
            Ok(Walk::Missed)
        }
        (Some(b'['), Step::Index(wanted)) => {
            reader.enter()?;
            let (mut at, mut more) = (0, reader.any(b']')?);
            while more {
                if at == *wanted {
                    let walked = walk(reader, rest)?;
                    return step_on(reader, walked, b']');
                }
                reader.value()?;
                at += 1;
                more = reader.more(b']')?;
            }
            Ok(Walk::Missed)
        }
        // the first member shows that the path leads nowhere
        (Some(b'{'), Step::Index(_)) => {
            reader.enter()?;
            if !reader.any(b'}')? {
                return Ok(Walk::Missed);
            }
            reader.name()?;
            Ok(Walk::Settled)
        }
        (Some(b'['), Step::Name(_)) => {
            reader.enter()?;
            if !reader.any(b']')? {
                return Ok(Walk::Missed);
            }
            if !matches!(reader.peek(), Some(b'{' | b'[')) {
                reader.value()?;
            }
            Ok(Walk::Settled)
        }
        _ => {
            reader.value()?;
            Ok(Walk::Missed)
        }
    }
}

/// Behind the member that the path names: where nothing was found in it, one token more is read.
fn step_on(reader: &mut Reader<'_>, walked: Walk, close: u8) -> Result<Walk> {
    if !matches!(walked, Walk::Missed) {
        return Ok(walked);
    }
    if !reader.more(close)? {
        return Ok(Walk::Missed);
    }
    if close == b'}' {
        reader.name()?;
    } else if reader.peek().is_none_or(|byte| byte == b']' || byte == b',') {
        return Err(reader.unexpected());
    }
    Ok(Walk::Settled)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_blanks_between_their_parts() {
        let name = |name: &str| Step::Name(name.to_owned());
        for (text, steps) in [
            ("$", vec![]),
            (" $.a ", vec![name("a")]),
            ("$ . a . c[ 0 ]", vec![name("a"), name("c"), Step::Index(0)]),
            ("lax$.a", vec![name("a")]),
            ("$.\"\"", vec![name("")]),
            ("$.\"a \\\" b\"[4294967295]", vec![name("a \" b"), Step::Index(4_294_967_295)]),
        ] {
            assert_eq!(Path::parse(text, false).unwrap().steps, steps, "{text}");
        }
        let path = Path::parse("append strict $.a", true).unwrap();
        assert!(path.append && path.strict);
        assert!(Path::parse("append $", false).is_err());
    }

    /// As SQL Server answers.
    #[test]
    fn bad_paths_are_told_by_their_place() {
        for (text, character, position) in [
            ("xyz", 'x', 0),
            ("$x", 'x', 1),
            ("$.a b", 'b', 4),
            ("$.a-b", '-', 3),
            ("$..a", '.', 2),
            ("$.9", '9', 2),
            ("$$", '$', 1),
            ("$.a[]", ']', 4),
            ("$.a[ ]", ']', 5),
            ("$[\"a\"]", '"', 2),
            ("$.\"a\"x", 'x', 5),
            ("$[a]", 'a', 2),
            ("$.a[-1]", '-', 4),
            ("$[1x]", 'x', 3),
            ("$.\"a", '.', 4),
            ("", '.', 0),
            ("$.", '.', 2),
            ("$[", '.', 2),
            ("$[0", '.', 3),
            ("lax ", '.', 4),
            ("laxx$.a", 'l', 0),
            ("$[4294967296]", '6', 11),
            ("$[99999999999999999999]", '9', 12),
        ] {
            let error = Path::parse(text, false).unwrap_err();
            assert_eq!(error, Error::JsonPath { character, position }, "{text}");
        }
    }

    fn found(text: &str, path: &str) -> Result<Option<String>> {
        let path = Path::parse(path, false).unwrap();
        Ok(find(text, &path.steps)?.map(|found| text[found.range].to_owned()))
    }

    /// As SQL Server answers: damage behind the value is not seen.
    #[test]
    fn no_more_is_read_than_the_path_needs() {
        for (text, path, expected) in [
            ("{\"a\":1}extra", "$.a", Some("1")),
            ("{\"a\":1,\"b\":{\"c\":2", "$.a", Some("1")),
            ("[1,2]]", "$[0]", Some("1")),
            ("{\"a\":{\"x\":1} bad", "$.a", Some("{\"x\":1}")),
            ("{} x", "$", Some("{}")),
            ("{\"a\":1, \"a\":2}", "$.a", Some("1")),
            ("{\"a\":1", "$[0]", None),
            ("{\"a\":{\"x\":1", "$.a[0]", None),
            ("[1,2", "$.a", None),
            ("[1 2]", "$.a", None),
            ("{\"a\":1,\"b\":}", "$.a.x", None),
            ("{\"a\":[1],\"b\":}", "$.a[5]", None),
            ("{\"a\":{\"z\":1},\"b\":}", "$.a.q", None),
            ("{\"\\u0061\":1}", "$.a", Some("1")),
        ] {
            assert_eq!(found(text, path).unwrap().as_deref(), expected, "{text} {path}");
        }
        for (text, path, character, position) in [
            ("{} x", "$.z", 'x', 3),
            ("{\"a\":1}extra", "$.z", 'e', 7),
            ("{x}", "$[0]", 'x', 1),
            ("{} x", "$[0]", 'x', 3),
            ("[,1]", "$.a", ',', 1),
            ("{\"a\":1", "$.a.x", '.', 6),
            ("{\"a\":1,}", "$.a.x", '}', 7),
            ("{\"a\":{\"z\":1}}extra", "$.a.q", 'e', 13),
            ("{\"a\":{\"x\":1", "$.a", '.', 11),
        ] {
            let error = found(text, path).unwrap_err();
            assert_eq!(error, Error::JsonText { character, position }, "{text} {path}");
        }
    }
}
