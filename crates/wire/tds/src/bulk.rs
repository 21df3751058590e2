//! The rows of INSERT BULK, read as they arrive: a load is one message of any length. Source:
//! MS-TDS 2.2.6.1.

use crate::Collation;
use crate::error::Error;
use crate::reader::Reader;
use crate::token::MAX_COLUMNS;
use crate::type_info::TypeInfo;
use crate::types::{Column, Generated, SqlType, Value};
use crate::value_read::{Place, read_value};

const COLMETADATA: u8 = 0x81;
const ROW: u8 = 0xD1;
const NBCROW: u8 = 0xD2;
const DONE: u8 = 0xFD;
const DONE_REST_BYTES: usize = 12;
/// Size of DONE with a row count of 4 bytes, as before TDS 7.2; mssql-python ends so.
const OLD_DONE_REST_BYTES: usize = 8;
/// Number of consumed bytes that are still kept; beyond it, the rest moves to the front.
const SLACK_BYTES: usize = 64 * 1024;

/// The next item of a load.
#[derive(Debug, Clone, PartialEq)]
pub enum BulkItem {
    /// More bytes are needed.
    Missing,
    /// The columns, before the first row.
    Columns(Vec<Column>),
    /// A row.
    Row(Vec<Value<'static>>),
    /// The end.
    End,
}

/// Reads a load.
#[derive(Debug)]
pub struct BulkReader {
    bytes: Vec<u8>,
    at: usize,
    columns: Option<Vec<(SqlType, TypeInfo)>>,
    ended: bool,
    most_bytes: usize,
    /// Number of bytes before which a try is pointless: a long value in many packets would be read
    /// again and again.
    try_at: usize,
}

impl BulkReader {
    /// Creates a reader for rows of at most `most_bytes`.
    pub fn new(most_bytes: usize) -> Self {
        let bytes = Vec::new();
        BulkReader { bytes, at: 0, columns: None, ended: false, most_bytes, try_at: 0 }
    }

    /// Takes the next bytes of the message.
    ///
    /// # Errors
    /// A row that is too long.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.at > SLACK_BYTES {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
        let length = self.bytes.len() - self.at;
        if length > self.most_bytes.saturating_mul(2) {
            let (length, limit) = (length as u64, self.most_bytes as u64);
            return Err(Error::TooLong { what: "row of a bulk load", length, limit });
        }
        Ok(())
    }

    /// Returns the next item. `whole` is true once all bytes of the message are there.
    ///
    /// # Errors
    /// Bytes that have a wrong length or are not a row, and a message that ends too early.
    pub fn next(&mut self, whole: bool) -> Result<BulkItem, Error> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if self.ended {
            return match (rest.len(), whole) {
                (0, _) => Ok(BulkItem::End),
                (bytes, _) => Err(Error::Trailing { what: "bulk load", bytes: bytes as u64 }),
            };
        }
        if rest.is_empty() && whole && self.columns.is_some() {
            // Some clients omit the closing DONE.
            self.ended = true;
            return Ok(BulkItem::End);
        }
        if !whole && rest.len() < self.try_at {
            return Ok(BulkItem::Missing);
        }
        let mut from = Reader::new(rest);
        match read_item(&mut from, &mut self.columns) {
            Ok(item) => {
                let bytes = from.rest().len();
                self.at = self.bytes.len() - bytes;
                self.try_at = 0;
                self.ended = item == BulkItem::End;
                if self.ended && bytes > 0 {
                    return Err(Error::Trailing { what: "bulk load", bytes: bytes as u64 });
                }
                Ok(item)
            }
            Err(_)
                if whole
                    && self.columns.is_some()
                    && rest.first() == Some(&DONE)
                    && rest.len() == 1 + OLD_DONE_REST_BYTES =>
            {
                self.at = self.bytes.len();
                self.ended = true;
                Ok(BulkItem::End)
            }
            Err(error) if error.is_truncated() && !whole => {
                if rest.len() > self.most_bytes {
                    let (length, limit) = (rest.len() as u64, self.most_bytes as u64);
                    return Err(Error::TooLong { what: "row of a bulk load", length, limit });
                }
                self.try_at = rest.len() + rest.len() / 2;
                Ok(BulkItem::Missing)
            }
            Err(error) => Err(error),
        }
    }
}

type Columns = Option<Vec<(SqlType, TypeInfo)>>;

fn read_item(from: &mut Reader<'_>, columns: &mut Columns) -> Result<BulkItem, Error> {
    let what = "token of a bulk load";
    match (from.u8(what)?, columns.as_deref()) {
        (COLMETADATA, None) => {
            let (named, types) = read_columns(from)?;
            *columns = Some(types);
            Ok(BulkItem::Columns(named))
        }
        (ROW, Some(columns)) => {
            let value = |(_, info): &(_, TypeInfo)| read_value(from, *info, Place::Row);
            Ok(BulkItem::Row(columns.iter().map(value).collect::<Result<_, _>>()?))
        }
        (NBCROW, Some(columns)) => {
            let bits = from.bytes(what, columns.len().div_ceil(8))?.to_vec();
            let value = |(at, (_, info)): (usize, &(_, TypeInfo))| match bits
                .get(at / 8)
                .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
            {
                true => Ok(Value::Null),
                false => read_value(from, *info, Place::Row),
            };
            Ok(BulkItem::Row(columns.iter().enumerate().map(value).collect::<Result<_, _>>()?))
        }
        (DONE, Some(_)) => {
            from.bytes(what, DONE_REST_BYTES)?;
            Ok(BulkItem::End)
        }
        (other, _) => Err(Error::Invalid { what, value: other.into() }),
    }
}

type NamedColumns = (Vec<Column>, Vec<(SqlType, TypeInfo)>);

fn read_columns(from: &mut Reader<'_>) -> Result<NamedColumns, Error> {
    let what = "columns of a bulk load";
    let count = usize::from(from.u16(what)?);
    if count == 0 || count > MAX_COLUMNS {
        return Err(Error::Invalid { what, value: count as u64 });
    }
    let (mut named, mut types) = (Vec::new(), Vec::new());
    for _ in 0..count {
        from.u32(what)?;
        let flags = from.u16(what)?;
        let info = TypeInfo::read(from)?;
        if matches!(info.ty, SqlType::Text | SqlType::NText | SqlType::Image) {
            read_table_name(from)?;
        }
        let name = from.b_varchar("name of a column")?;
        let (nullable, generated) = (flags & 0x01 != 0, Generated::of_flags(flags));
        named.push(Column {
            name,
            ty: info.ty,
            nullable,
            generated,
            collation: Collation::of_bytes(info.collation).unwrap_or_default(),
        });
        types.push((info.ty, info));
    }
    Ok((named, types))
}

/// Reads the table name of a `text` column. Clients differ: some write its name, some a count of
/// parts first. A part that is not empty shows the difference, as no name has 256 units or more.
fn read_table_name(from: &mut Reader<'_>) -> Result<(), Error> {
    let what = "table of a column";
    match from.rest() {
        [_, 0, ..] => {
            from.us_varchar(what)?;
        }
        _ => {
            for _ in 0..from.u8(what)? {
                from.us_varchar(what)?;
            }
        }
    }
    Ok(())
}

/// A load, for clients in tests.
///
/// # Errors
/// Values that do not fit their columns.
pub fn encode_bulk(columns: &[Column], rows: &[Vec<Value<'_>>]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    crate::token::put_columns(&mut out, columns)?;
    for row in rows {
        crate::token::put_row(&mut out, columns, row, true)?;
    }
    out.push(DONE);
    out.extend_from_slice(&[0; DONE_REST_BYTES]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::types::Length;

    fn columns() -> Vec<Column> {
        let column = |name: &str, ty| Column {
            name: name.into(),
            ty,
            nullable: true,
            generated: Generated::No,
            collation: Collation::default(),
        };
        vec![column("a", SqlType::Int), column("b", SqlType::NVarChar(Length::Max))]
    }

    fn rows() -> Vec<Vec<Value<'static>>> {
        let long = Value::Text(Cow::Owned("x".repeat(10_000)));
        vec![
            vec![Value::Int(1), Value::Text(Cow::Borrowed("one"))],
            vec![Value::Null, long],
            vec![Value::Int(3), Value::Null],
        ]
    }

    fn read_all(bytes: &[u8], step: usize) -> Result<Vec<BulkItem>, Error> {
        let mut reader = BulkReader::new(1 << 20);
        let mut items = Vec::new();
        let mut parts = bytes.chunks(step).peekable();
        while let Some(part) = parts.next() {
            reader.push(part)?;
            let whole = parts.peek().is_none();
            loop {
                match reader.next(whole)? {
                    BulkItem::Missing => break,
                    BulkItem::End => {
                        items.push(BulkItem::End);
                        break;
                    }
                    item => items.push(item),
                }
            }
        }
        Ok(items)
    }

    #[test]
    fn a_load_is_read_however_it_is_cut() {
        let bytes = encode_bulk(&columns(), &rows()).unwrap();
        let whole = read_all(&bytes, bytes.len()).unwrap();
        assert_eq!(whole.len(), 5);
        assert_eq!(whole[0], BulkItem::Columns(columns()));
        for step in [1, 2, 3, 7, 100, 5000] {
            assert_eq!(read_all(&bytes, step).unwrap(), whole, "{step}");
        }
    }

    #[test]
    fn a_load_that_ends_within_a_row_is_refused() {
        let bytes = encode_bulk(&columns(), &rows()).unwrap();
        assert!(read_all(&bytes[..bytes.len() - 15], 100).is_err());
        assert!(read_all(&[&bytes[..], &[1]].concat(), 100).is_err(), "bytes behind the end");
        assert!(read_all(&bytes[..3], 100).is_err());
        assert!(read_all(&[ROW, 1], 100).is_err(), "a row before the columns");
    }

    #[test]
    fn an_end_as_before_tds_7_2_is_taken() {
        let bytes = encode_bulk(&columns(), &rows()).unwrap();
        let older = &bytes[..bytes.len() + OLD_DONE_REST_BYTES - DONE_REST_BYTES];
        assert_eq!(read_all(older, 100).unwrap(), read_all(&bytes, 100).unwrap());
    }

    #[test]
    fn a_row_without_end_is_not_kept() {
        let bytes = encode_bulk(&columns(), &rows()).unwrap();
        let mut reader = BulkReader::new(4096);
        let pushed = bytes.chunks(512).try_for_each(|part| {
            reader.push(part)?;
            while reader.next(false)? != BulkItem::Missing {}
            Ok::<(), Error>(())
        });
        assert!(matches!(pushed, Err(Error::TooLong { .. })));
    }
}
