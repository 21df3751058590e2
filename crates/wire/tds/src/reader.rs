//! Reading numbers, bytes and text from a message, never beyond its end.

use crate::error::Error;

/// The rest of a message.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, what: &'static str, length: usize) -> Result<&'a [u8], Error> {
        match self.rest.split_at_checked(length) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => {
                Err(Error::Truncated { what, need: length as u64, have: self.rest.len() as u64 })
            }
        }
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        match self.rest.split_first_chunk::<N>() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(*bytes)
            }
            None => Err(Error::Truncated { what, need: N as u64, have: self.rest.len() as u64 }),
        }
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, Error> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u16_be(&mut self, what: &'static str) -> Result<u16, Error> {
        Ok(u16::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn i32(&mut self, what: &'static str) -> Result<i32, Error> {
        Ok(i32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Reads text of `units` UTF-16 units.
    pub(crate) fn utf16(&mut self, what: &'static str, units: usize) -> Result<String, Error> {
        utf16(what, self.bytes(what, units.saturating_mul(2))?)
    }

    /// Reads text preceded by its count of units in one byte.
    pub(crate) fn b_varchar(&mut self, what: &'static str) -> Result<String, Error> {
        let units = self.u8(what)?;
        self.utf16(what, usize::from(units))
    }

    /// Reads text preceded by its count of units in two bytes.
    pub(crate) fn us_varchar(&mut self, what: &'static str) -> Result<String, Error> {
        let units = self.u16(what)?;
        self.utf16(what, usize::from(units))
    }

    /// Checks that nothing is left.
    pub(crate) fn end(&self, what: &'static str) -> Result<(), Error> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(Error::Trailing { what, bytes: bytes as u64 }),
        }
    }
}

/// Decodes text in UTF-16, little-endian.
pub(crate) fn utf16(what: &'static str, bytes: &[u8]) -> Result<String, Error> {
    let (units, odd) = bytes.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(Error::NotText { what });
    }
    let mut text = String::with_capacity(units.len());
    for unit in char::decode_utf16(units.iter().map(|unit| u16::from_le_bytes(*unit))) {
        text.push(unit.map_err(|_| Error::NotText { what })?);
    }
    Ok(text)
}

/// Appends text in UTF-16, little-endian; returns the number of units.
pub(crate) fn put_utf16(out: &mut Vec<u8>, text: &str) -> usize {
    let start = out.len();
    out.reserve(text.len() * 2);
    if text.is_ascii() {
        out.extend(text.bytes().flat_map(|byte| [byte, 0]));
    } else {
        out.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    }
    (out.len() - start) / 2
}

/// Appends text preceded by its count of units in one byte; truncated at 255 units.
pub(crate) fn put_b_varchar(out: &mut Vec<u8>, text: &str) {
    let at = out.len();
    out.push(0);
    let units = put_cut(out, text, usize::from(u8::MAX));
    if let (Some(place), Ok(units)) = (out.get_mut(at), u8::try_from(units)) {
        *place = units;
    }
}

/// Appends text preceded by its count of units in two bytes; truncated at `most` units.
pub(crate) fn put_us_varchar(out: &mut Vec<u8>, text: &str, most: u16) {
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    let units = put_cut(out, text, usize::from(most));
    patch_u16(out, at, units);
}

/// Writes `value` over two bytes that were reserved for it.
pub(crate) fn patch_u16(out: &mut [u8], at: usize, value: usize) {
    if let (Some(place), Ok(value)) = (out.get_mut(at..at + 2), u16::try_from(value)) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// Appends the whole characters of `text` that fit into `most` units; returns the number of units.
fn put_cut(out: &mut Vec<u8>, text: &str, most: usize) -> usize {
    let mut units = 0;
    let mut end = 0;
    for (at, char) in text.char_indices() {
        if units + char.len_utf16() > most {
            break;
        }
        units += char.len_utf16();
        end = at + char.len_utf8();
    }
    put_utf16(out, text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_no_byte_beyond_the_end() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u16("number").unwrap(), 0x0201);
        let error = reader.u32("number").unwrap_err();
        assert_eq!(error, Error::Truncated { what: "number", need: 4, have: 1 });
        assert_eq!(reader.u8("number").unwrap(), 3);
        assert!(reader.end("message").is_ok());
    }

    #[test]
    fn a_lone_surrogate_is_no_text() {
        assert!(utf16("text", &[0, 0xD8]).is_err());
        assert!(utf16("text", b"a").is_err());
        assert_eq!(utf16("text", &[0x3D, 0xD8, 0x00, 0xDE]).unwrap(), "\u{1F600}");
    }

    #[test]
    fn text_is_cut_at_whole_characters() {
        let mut out = Vec::new();
        put_us_varchar(&mut out, "a\u{1F600}b", 2);
        assert_eq!(out, [1, 0, b'a', 0]);
        let mut out = Vec::new();
        put_b_varchar(&mut out, &"x".repeat(300));
        assert_eq!((out[0], out.len()), (255, 511));
    }
}
