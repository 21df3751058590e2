//! Requests other than procedure calls: batches, and those of the transaction manager. Source:
//! MS-TDS 2.2.5.3, 2.2.6.7, 2.2.6.9.

use crate::error::Error;
use crate::reader::{Reader, put_utf16, utf16};
use crate::sink::{Isolation, Transaction};

/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 16;
const TRANSACTION_HEADER: u16 = 2;

/// The headers of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestHeaders {
    /// The transaction that the client assumes to be in, 0 for none.
    pub transaction: u64,
}

impl RequestHeaders {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<RequestHeaders, Error> {
        let what = "headers of a request";
        let total = from.u32(what)? as usize;
        let Some(length) = total.checked_sub(4) else {
            return Err(Error::Invalid { what, value: total as u64 });
        };
        let mut list = Reader::new(from.bytes(what, length)?);
        let mut found = RequestHeaders::default();
        for _ in 0..MAX_HEADERS {
            if list.is_empty() {
                return Ok(found);
            }
            let length = list.u32(what)? as usize;
            let kind = list.u16(what)?;
            let Some(length) = length.checked_sub(6) else {
                return Err(Error::Invalid { what, value: length as u64 });
            };
            let mut own = Reader::new(list.bytes(what, length)?);
            if kind == TRANSACTION_HEADER {
                found.transaction = own.u64(what)?;
                own.u32(what)?;
                own.end(what)?;
            }
        }
        match list.is_empty() {
            true => Ok(found),
            false => Err(Error::Trailing { what, bytes: list.rest().len() as u64 }),
        }
    }

    /// Appends the headers, for clients in tests.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&22_u32.to_le_bytes());
        out.extend_from_slice(&18_u32.to_le_bytes());
        out.extend_from_slice(&TRANSACTION_HEADER.to_le_bytes());
        out.extend_from_slice(&self.transaction.to_le_bytes());
        out.extend_from_slice(&1_u32.to_le_bytes());
    }
}

/// Reads a batch: headers and text.
///
/// # Errors
/// Headers with wrong lengths, or invalid text.
pub fn decode_batch(payload: &[u8]) -> Result<(RequestHeaders, String), Error> {
    let mut from = Reader::new(payload);
    let headers = RequestHeaders::read(&mut from)?;
    Ok((headers, utf16("text of a batch", from.rest())?))
}

/// Returns a batch, for clients in tests.
pub fn encode_batch(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    RequestHeaders::default().put(&mut out);
    put_utf16(&mut out, text);
    out
}

/// Returns a request of the transaction manager, for clients in tests: its number and the bytes
/// that follow.
pub fn encode_transaction(kind: u16, rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    RequestHeaders::default().put(&mut out);
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(rest);
    out
}

/// Reads a request of the transaction manager.
///
/// # Errors
/// Distributed transactions, which are not supported, and bytes that are not a request.
pub fn decode_transaction(payload: &[u8]) -> Result<(RequestHeaders, Transaction), Error> {
    let what = "request of the transaction manager";
    let mut from = Reader::new(payload);
    let headers = RequestHeaders::read(&mut from)?;
    let request = match from.u16(what)? {
        0 | 1 | 6 => return Err(Error::Unsupported { what: "a distributed transaction" }),
        5 => {
            let isolation = read_isolation(&mut from)?;
            let name = read_name(&mut from, |_| true)?;
            Transaction::Begin(isolation, name)
        }
        7 => {
            read_name(&mut from, ends_request)?;
            Transaction::Commit(read_next(&mut from)?)
        }
        8 => {
            let name = read_name(&mut from, ends_request)?;
            Transaction::Rollback(name, read_next(&mut from)?)
        }
        9 => Transaction::Save(read_name(&mut from, |_| true)?),
        other => return Err(Error::Invalid { what, value: other.into() }),
    };
    from.end(what)?;
    Ok((headers, request))
}

fn read_isolation(from: &mut Reader<'_>) -> Result<Isolation, Error> {
    let what = "isolation level";
    Ok(match from.u8(what)? {
        0 => Isolation::Current,
        1 => Isolation::ReadUncommitted,
        2 => Isolation::ReadCommitted,
        3 => Isolation::RepeatableRead,
        4 => Isolation::Serializable,
        5 => Isolation::Snapshot,
        other => return Err(Error::Invalid { what, value: other.into() }),
    })
}

/// Returns true if a request ends with the bytes that follow a name of COMMIT or ROLLBACK.
fn ends_request(rest: &[u8]) -> bool {
    matches!(rest, [0] | [1, _, ..])
}

/// Reads a name. Clients differ: its length is in units (go-mssqldb) or bytes (tedious). The bytes
/// that must follow it show which.
fn read_name(from: &mut Reader<'_>, rest_fits: impl Fn(&[u8]) -> bool) -> Result<String, Error> {
    let what = "name of a transaction";
    let length = usize::from(from.u8(what)?);
    let fits = |bytes: usize| from.rest().get(bytes..).is_some_and(&rest_fits);
    let in_units = fits(length * 2);
    let bytes = if in_units || !fits(length) { length * 2 } else { length };
    utf16(what, from.bytes(what, bytes)?)
}

/// Reads the end of COMMIT and ROLLBACK: whether another transaction begins at once.
fn read_next(from: &mut Reader<'_>) -> Result<Option<Isolation>, Error> {
    let what = "flags of a transaction";
    match from.u8(what)? {
        0 => Ok(None),
        1 => {
            let isolation = read_isolation(from)?;
            read_name(from, |_| true)?;
            Ok(Some(isolation))
        }
        other => Err(Error::Invalid { what, value: other.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read() {
        let (headers, text) = decode_batch(&encode_batch("SELECT 'Ω'")).unwrap();
        assert_eq!((headers.transaction, text.as_str()), (0, "SELECT 'Ω'"));
    }

    #[test]
    fn headers_that_lie_are_refused() {
        let good = encode_batch("");
        for (at, value) in [(0, 3), (0, 200), (0, 0x8000_0000_u32), (4, 5), (4, 19), (4, 17)] {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
            assert!(decode_batch(&bad).is_err(), "{at} {value}");
        }
        for length in 0..good.len() {
            assert!(decode_batch(&good[..length]).is_err(), "{length}");
        }
        let mut many = (4 + 6 * 17_u32).to_le_bytes().to_vec();
        many.extend([6, 0, 0, 0, 9, 0].repeat(17));
        assert!(decode_batch(&many).is_err());
        assert!(decode_batch(&[&good[..], b"a"].concat()).is_err(), "half a unit");
    }

    #[test]
    fn names_are_read_in_units_and_in_bytes() {
        let name = [b'a', 0, b'b', 0];
        let request = |kind, parts: &[&[u8]]| {
            decode_transaction(&encode_transaction(kind, &parts.concat())).unwrap().1
        };
        for length in [2, 4] {
            let begin = request(5, &[&[2, length], &name]);
            assert_eq!(begin, Transaction::Begin(Isolation::ReadCommitted, "ab".into()));
            assert_eq!(request(9, &[&[length], &name]), Transaction::Save("ab".into()));
            let rollback = request(8, &[&[length], &name, &[0]]);
            assert_eq!(rollback, Transaction::Rollback("ab".into(), None));
        }
        assert_eq!(request(7, &[&[0, 0]]), Transaction::Commit(None));
        let next = request(7, &[&[0, 1, 4, 0]]);
        assert_eq!(next, Transaction::Commit(Some(Isolation::Serializable)));
    }

    #[test]
    fn bad_requests_are_refused() {
        for (kind, rest) in
            [(0, &[][..]), (6, &[]), (77, &[]), (5, &[9, 0]), (5, &[2]), (7, &[0, 2]), (9, &[200])]
        {
            let bytes = encode_transaction(kind, rest);
            assert!(decode_transaction(&bytes).is_err(), "{kind} {rest:?}");
        }
    }
}
