//! JSON text (RFC 8259) by its positions: parts are given as they are written, numbers with all of
//! their digits.
//!
//! It reads from left to right and no further than its caller needs, as SQL Server does: what
//! follows a value that was found may be damaged. A library that reads whole documents, or gives
//! numbers as `f64`, would do neither.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Error, Result};

/// The deepest nesting that SQL Server reads.
pub(super) const MAX_DEPTH: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Text,
    Number,
    Bool,
    Array,
    Object,
}

impl Kind {
    pub(super) fn is_container(self) -> bool {
        matches!(self, Kind::Array | Kind::Object)
    }
}

/// A value in its text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
}

#[derive(Debug)]
pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    /// The next byte.
    pub(super) at: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Reader<'t> {
        Reader { text, at: 0, depth: 0 }
    }

    /// Moves to the document: an object or an array.
    pub(super) fn open(text: &'t str) -> Result<Reader<'t>> {
        let mut reader = Reader::new(text);
        match reader.peek() {
            Some(b'{' | b'[') => Ok(reader),
            _ => Err(reader.unexpected()),
        }
    }

    /// The error for what stands here.
    pub(super) fn unexpected(&self) -> Error {
        self.unexpected_at(self.at)
    }

    fn unexpected_at(&self, at: usize) -> Error {
        let character = self.text[at..].chars().next().unwrap_or('.');
        let position = self.text[..at].encode_utf16().count();
        Error::JsonText { character, position }
    }

    /// Skips blanks and returns the byte that follows.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().take_while(|byte| blank(byte)).count();
        self.text.as_bytes().get(self.at).copied()
    }

    /// # Errors
    /// 13609 if another byte follows.
    pub(super) fn expect(&mut self, byte: u8) -> Result<()> {
        if self.peek() != Some(byte) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    /// Reads nothing but blanks to the end.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.peek().is_some() { Err(self.unexpected()) } else { Ok(()) }
    }

    /// Enters an object or an array.
    pub(super) fn enter(&mut self) -> Result<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(Error::JsonDeep {}) } else { Ok(()) }
    }

    /// Behind a member: true if another one follows, false behind the closing bracket.
    pub(super) fn more(&mut self, close: u8) -> Result<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Behind an opening bracket: true if a member follows.
    pub(super) fn any(&mut self, close: u8) -> Result<bool> {
        if self.peek() != Some(close) {
            return Ok(true);
        }
        self.more(close)
    }

    /// Reads the name of a member, and returns it as it is written, with its quotes.
    pub(super) fn name(&mut self) -> Result<Range<usize>> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected());
        }
        self.string()
    }

    /// Reads a value with all that is in it.
    pub(super) fn value(&mut self) -> Result<Found> {
        let start = match self.peek() {
            Some(_) => self.at,
            None => return Err(self.unexpected()),
        };
        let kind = match self.text.as_bytes()[start] {
            b'{' => {
                self.enter()?;
                let mut more = self.any(b'}')?;
                while more {
                    self.name()?;
                    self.expect(b':')?;
                    self.value()?;
                    more = self.more(b'}')?;
                }
                Kind::Object
            }
            b'[' => {
                self.enter()?;
                let mut more = self.any(b']')?;
                while more {
                    self.value()?;
                    more = self.more(b']')?;
                }
                Kind::Array
            }
            b'"' => {
                self.string()?;
                Kind::Text
            }
            _ => self.word()?,
        };
        Ok(Found { kind, range: start..self.at })
    }

    /// Reads a number or a literal; a bad one is an error at its first character.
    fn word(&mut self) -> Result<Kind> {
        let start = self.at;
        let ends = |byte: &u8| b" \t\n\r,:]}[{\"".contains(byte);
        let bytes = &self.text.as_bytes()[start..];
        let length = bytes.iter().take_while(|byte| !ends(byte)).count();
        let kind = match &bytes[..length] {
            b"null" => Kind::Null,
            b"true" | b"false" => Kind::Bool,
            number if is_number(number) => Kind::Number,
            _ => return Err(self.unexpected_at(start)),
        };
        self.at += length;
        Ok(kind)
    }

    /// Reads a string; a bad one is an error at its quote.
    fn string(&mut self) -> Result<Range<usize>> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        loop {
            match bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    let hex = |from: usize| {
                        let digits = bytes.get(from..from + 4);
                        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
                    };
                    at += match bytes.get(at + 1) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                        Some(b'u') if hex(at + 2) => 6,
                        _ => return Err(self.unexpected_at(start)),
                    };
                }
                Some(byte) if *byte >= b' ' => at += 1,
                _ => return Err(self.unexpected_at(start)),
            }
        }
        self.at = at + 1;
        Ok(start..self.at)
    }
}

fn is_number(bytes: &[u8]) -> bool {
    fn digits(bytes: &[u8]) -> (usize, &[u8]) {
        let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count, &bytes[count..])
    }
    let bytes = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let (count, mut rest) = digits(bytes);
    if count == 0 || count > 1 && bytes[0] == b'0' {
        return false;
    }
    if let [b'.', fraction @ ..] = rest {
        let (count, behind) = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = behind;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = match exponent {
            [b'+' | b'-', exponent @ ..] => exponent,
            exponent => exponent,
        };
        let (count, behind) = digits(exponent);
        return count > 0 && behind.is_empty();
    }
    rest.is_empty()
}

/// Returns the text of a string that was read, from between its quotes. A half of a surrogate pair
/// becomes U+FFFD, as it has no place in text.
pub(super) fn unquoted(quoted: &str) -> Cow<'_, str> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let mut out = String::with_capacity(inner.len());
    let mut units: Vec<u16> = Vec::new();
    let mut rest = inner;
    while let Some(c) = rest.chars().next() {
        let escape = rest.as_bytes().get(1).copied().filter(|_| c == '\\');
        if escape == Some(b'u') {
            let digits = rest.get(2..6).unwrap_or_default();
            units.push(u16::from_str_radix(digits, 16).unwrap_or(0xfffd));
            rest = rest.get(6..).unwrap_or_default();
            continue;
        }
        out.push_str(&String::from_utf16_lossy(&units));
        units.clear();
        out.push(match escape {
            None => c,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(other) => char::from(other),
        });
        rest = &rest[if escape.is_some() { 2 } else { c.len_utf8() }..];
    }
    out.push_str(&String::from_utf16_lossy(&units));
    Cow::Owned(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Result<Found> {
        let mut reader = Reader::open(text)?;
        let found = reader.value()?;
        reader.end().map(|()| found)
    }

    /// Positions are those that SQL Server gives: of a token's first character, of the end as `.`.
    #[test]
    fn damage_is_told_by_its_place() {
        for (text, character, position) in [
            ("", '.', 0),
            ("   ", '.', 3),
            ("1", '1', 0),
            ("\"abc\"", '"', 0),
            ("{x}", 'x', 1),
            ("{\"a\":1", '.', 6),
            ("{\"a\":1,\"b\":}", '}', 11),
            ("{\"a\":1 \"b\":2}", '"', 7),
            ("{\"a\":1,}", '}', 7),
            ("[1,2,]", ']', 5),
            ("{\"a\":1x}", '1', 5),
            ("{\"a\":01}", '0', 5),
            ("{\"a\":+1}", '+', 5),
            ("{\"a\":tru", 't', 5),
            ("{\"a\":\"str", '"', 5),
            ("{\"a\":\"\t\"}", '"', 5),
            ("{\"a\":\"\\x\"}", '"', 5),
            ("{\"a", '"', 1),
            ("{\"a\"1}", '1', 4),
            ("{} x", 'x', 3),
            ("[\"\u{1f600}\"]x", 'x', 6),
        ] {
            assert_eq!(whole(text), Err(Error::JsonText { character, position }), "{text}");
        }
        let deep = "[".repeat(MAX_DEPTH + 1);
        assert_eq!(whole(&deep), Err(Error::JsonDeep {}));
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(whole(&deep).is_ok());
    }

    #[test]
    fn strings_lose_their_escapes() {
        for (quoted, text) in [
            ("\"a\"", "a"),
            ("\"\"", ""),
            (r#""a\"\\\/\b\f\n\r\t""#, "a\"\\/\u{8}\u{c}\n\r\t"),
            (r#""\u0041é\ud83d\ude00!\ud800""#, "Aé\u{1f600}!\u{fffd}"),
        ] {
            assert_eq!(unquoted(quoted), text);
        }
    }

    #[test]
    fn numbers_are_those_of_json() {
        for good in ["0", "-0", "1.10", "10e5", "1E-7", "-12.5e+3"] {
            assert!(is_number(good.as_bytes()), "{good}");
        }
        for bad in ["", "-", "01", ".5", "1.", "1e", "1e+", "+1", "0x1", "1a", "NaN"] {
            assert!(!is_number(bad.as_bytes()), "{bad}");
        }
    }

    /// SQLite's judgement of the same texts, by RFC 8259.
    #[test]
    fn documents_are_those_of_sqlite() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let mut valid = connection.prepare("SELECT json_valid(?1, 1)").unwrap();
        let seed = "{\"a\":[1,-2.50e+3,true,false,null,\"x\\n\\u00e9\"],\"b\":{},\"c\":[[]]} ";
        let alphabet: Vec<char> = "{}[]\",:\\ue-+.019tfnx \n\u{e9}".chars().collect();
        let mut random = fastrand::Rng::with_seed(7);
        let mut accepted = 0;
        for _ in 0..20_000 {
            let mut text: Vec<char> = seed.chars().collect();
            for _ in 0..random.usize(0..3) {
                let at = random.usize(0..text.len());
                match random.u8(0..3) {
                    0 => drop(text.remove(at)),
                    1 => text.insert(at, alphabet[random.usize(0..alphabet.len())]),
                    _ => text[at] = alphabet[random.usize(0..alphabet.len())],
                }
            }
            let text: String = text.into_iter().collect();
            let known: bool = valid.query_row([&text], |row| row.get(0)).unwrap();
            let known = known && text.trim_start().starts_with(['{', '[']);
            assert_eq!(whole(&text).is_ok(), known, "{text}");
            accepted += u32::from(known);
        }
        assert!(accepted > 1000, "{accepted}");
    }
}
