//! Short answers as values: the bench's queries on a server's own counters and views. Integers, BIT
//! and NVARCHAR are supported; a statement must convert everything else.
//!
//! Source: MS-TDS 2.2.5.4 (types), 2.2.7.4 (COLMETADATA), 2.2.7.13 (NBCROW), 2.2.7.19 (ROW).

use crate::error::TdsError;
use crate::tokens::{Token, next_token, utf16};

const COLUMNS: u8 = 0x81;
const ROW: u8 = 0xD1;
const ROW_WITH_NULLS: u8 = 0xD2;
/// A result without metadata, or a length without a value.
const NONE: u16 = 0xFFFF;
/// In place of a maximum length: the value is chunked.
const CHUNKED: u16 = 0xFFFF;
const CHUNKED_NULL: u64 = u64::MAX;

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// NULL.
    Null,
    /// An integer or a bit.
    Int(i64),
    /// Text.
    Text(String),
}

impl Value {
    /// Returns the integer, if it is one.
    #[must_use]
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A parsed answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Rows of all results, in order.
    pub rows: Vec<Vec<Value>>,
    /// The server's notices: number and text.
    pub notices: Vec<(i32, String)>,
}

impl Answer {
    /// Returns the first value of the first row, if it is an integer.
    #[must_use]
    pub fn int(&self) -> Option<i64> {
        self.rows.first()?.first()?.int()
    }
}

/// Encoding of a column's values.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A fixed number of bytes, never NULL.
    Fixed(usize),
    /// A one-byte length, then an integer.
    Sized,
    /// A two-byte length, then UTF-16.
    Text,
    /// Chunks of UTF-16.
    LongText,
}

/// Reads a whole answer.
///
/// # Errors
/// The server's first error; an unsupported type; tokens that are longer than the answer.
pub(crate) fn answer(payload: &[u8]) -> Result<Answer, TdsError> {
    let mut found = Answer::default();
    let mut columns: Vec<Kind> = Vec::new();
    let mut rest = payload;
    while !rest.is_empty() {
        let (token, behind) = next_token(rest)?;
        rest = match token {
            Token::Info(number, words) => {
                found.notices.push((number, words));
                behind
            }
            Token::Other => behind,
            Token::Unknown(COLUMNS) => {
                let mut at = Reader(behind);
                columns = at.columns()?;
                at.0
            }
            Token::Unknown(kind @ (ROW | ROW_WITH_NULLS)) => {
                let mut at = Reader(behind);
                found.rows.push(at.row(&columns, kind == ROW_WITH_NULLS)?);
                at.0
            }
            Token::Unknown(kind) => return Err(unread(&format!("token {kind:#04x}"))),
        };
    }
    Ok(found)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], TdsError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], TdsError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or_else(cut)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, TdsError> {
        self.number::<1>().map(|[byte]| byte)
    }

    fn short(&mut self) -> Result<u16, TdsError> {
        self.number().map(u16::from_le_bytes)
    }

    fn columns(&mut self) -> Result<Vec<Kind>, TdsError> {
        let count = self.short()?;
        if count == NONE {
            return Ok(Vec::new());
        }
        (0..count).map(|_| self.column()).collect()
    }

    fn column(&mut self) -> Result<Kind, TdsError> {
        // User type and flags.
        self.take(6)?;
        let kind = match self.byte()? {
            0x30 | 0x32 => Kind::Fixed(1),
            0x34 => Kind::Fixed(2),
            0x38 => Kind::Fixed(4),
            0x7F => Kind::Fixed(8),
            0x26 | 0x68 => {
                self.byte()?;
                Kind::Sized
            }
            0xE7 | 0xEF => {
                let most = self.short()?;
                // The collation.
                self.take(5)?;
                if most == CHUNKED { Kind::LongText } else { Kind::Text }
            }
            other => return Err(unread(&format!("a column of type {other:#04x}"))),
        };
        let units = usize::from(self.byte()?);
        self.take(units * 2)?;
        Ok(kind)
    }

    fn row(&mut self, columns: &[Kind], with_nulls: bool) -> Result<Vec<Value>, TdsError> {
        let nulls = if with_nulls { self.take(columns.len().div_ceil(8))? } else { &[] };
        let is_null = |at: usize| nulls.get(at / 8).is_some_and(|byte| byte & (1 << (at % 8)) != 0);
        let value = |(at, kind): (usize, &Kind)| {
            if is_null(at) { Ok(Value::Null) } else { self.value(*kind) }
        };
        columns.iter().enumerate().map(value).collect()
    }

    fn value(&mut self, kind: Kind) -> Result<Value, TdsError> {
        match kind {
            Kind::Fixed(bytes) => integer(self.take(bytes)?),
            Kind::Sized => match usize::from(self.byte()?) {
                0 => Ok(Value::Null),
                bytes => integer(self.take(bytes)?),
            },
            Kind::Text => match self.short()? {
                NONE => Ok(Value::Null),
                bytes => Ok(Value::Text(utf16(self.take(usize::from(bytes))?))),
            },
            Kind::LongText => self.chunks(),
        }
    }

    fn chunks(&mut self) -> Result<Value, TdsError> {
        if u64::from_le_bytes(self.number()?) == CHUNKED_NULL {
            return Ok(Value::Null);
        }
        let mut bytes = Vec::new();
        loop {
            let length = u32::from_le_bytes(self.number()?);
            if length == 0 {
                return Ok(Value::Text(utf16(&bytes)));
            }
            bytes.extend_from_slice(self.take(length as usize)?);
        }
    }
}

/// Little-endian; one byte is unsigned.
fn integer(bytes: &[u8]) -> Result<Value, TdsError> {
    let value = match *bytes {
        [byte] => i64::from(byte),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => return Err(unread("an integer of an odd length")),
    };
    Ok(Value::Int(value))
}

fn unread(what: &str) -> TdsError {
    TdsError::Protocol { what: format!("its answer holds {what}, which is not read") }
}

fn cut() -> TdsError {
    TdsError::Protocol { what: "a row is longer than its answer".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_double::{done, error_token};

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    /// INT, BIGINT that may be NULL, NVARCHAR(40), NVARCHAR(MAX).
    fn columns() -> Vec<u8> {
        let mut out = vec![COLUMNS, 4, 0];
        let types: [&[u8]; 4] = [
            &[0x38],
            &[0x26, 8],
            &[0xE7, 80, 0, 9, 4, 0xD0, 0, 0x34],
            &[0xE7, 0xFF, 0xFF, 9, 4, 0xD0, 0, 0x34],
        ];
        for kind in types {
            out.extend([0; 6]);
            out.extend(kind);
            out.push(1);
            out.extend(wide("x"));
        }
        out
    }

    fn row() -> Vec<u8> {
        let mut out = vec![ROW];
        out.extend((-7_i32).to_le_bytes());
        out.push(8);
        out.extend(5_000_000_000_i64.to_le_bytes());
        out.extend([4, 0]);
        out.extend(wide("ab"));
        out.extend(4_u64.to_le_bytes());
        out.extend(2_u32.to_le_bytes());
        out.extend(wide("c"));
        out.extend(2_u32.to_le_bytes());
        out.extend(wide("d"));
        out.extend(0_u32.to_le_bytes());
        out
    }

    #[test]
    fn values_of_every_type_are_read() {
        let nulls = [&[ROW_WITH_NULLS, 0b1110][..], &9_i32.to_le_bytes()].concat();
        let payload = [columns(), row(), nulls, done(0x10, 2)].concat();
        let found = answer(&payload).unwrap();
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(
            found.rows,
            [
                vec![Value::Int(-7), Value::Int(5_000_000_000), text("ab"), text("cd")],
                vec![Value::Int(9), Value::Null, Value::Null, Value::Null],
            ]
        );
        assert_eq!(found.int(), Some(-7));
    }

    #[test]
    fn an_error_behind_rows_is_told_with_its_number() {
        let payload =
            [columns(), row(), error_token(3201, "Cannot open backup device."), done(2, 0)];
        let error = answer(&payload.concat()).unwrap_err();
        assert!(matches!(error, TdsError::ServerSaid { number: 3201, .. }), "{error}");
    }

    #[test]
    fn answers_that_are_cut_or_strange_are_refused() {
        let payload = [columns(), row()].concat();
        for length in columns().len() + 1..payload.len() {
            assert!(answer(&payload[..length]).is_err(), "{length}");
        }
        let mut strange = columns();
        strange[9] = 0x3E;
        assert!(matches!(answer(&strange), Err(TdsError::Protocol { .. })));
        assert!(answer(&[0x42]).is_err());
    }
}
