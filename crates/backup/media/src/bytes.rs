//! Bounded reading and writing of little-endian fields.

use crate::error::{MediaError, Part};

/// Reads the fields of a part from its front.
pub(crate) struct Reader<'a> {
    part: Part,
    rest: &'a [u8],
    read: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(part: Part, bytes: &'a [u8]) -> Self {
        Self { part, rest: bytes, read: 0 }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], MediaError> {
        let Some((head, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.truncated(len));
        };
        self.advance(len, rest);
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], MediaError> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.truncated(N));
        };
        self.advance(N, rest);
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, MediaError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, MediaError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, MediaError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, MediaError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, MediaError> {
        self.array().map(i64::from_le_bytes)
    }

    /// Reads bytes after a 16-bit length, at most `limit` of them.
    pub(crate) fn short(
        &mut self,
        what: &'static str,
        limit: usize,
    ) -> Result<&'a [u8], MediaError> {
        let len = usize::from(self.u16()?);
        MediaError::check_limit(self.part, what, len as u64, limit as u64)?;
        self.take(len)
    }

    /// Reads text after a 16-bit length: UTF-8 without control characters.
    pub(crate) fn text(&mut self, what: &'static str, limit: usize) -> Result<String, MediaError> {
        let bytes = self.short(what, limit)?;
        let text = str::from_utf8(bytes)
            .map_err(|_| MediaError::malformed(self.part, "text is not UTF-8"))?;
        check_text(self.part, text)?;
        Ok(text.to_owned())
    }

    /// Reads bytes that are zero in this version.
    pub(crate) fn zeros(&mut self, len: usize) -> Result<(), MediaError> {
        if self.take(len)?.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        Err(MediaError::malformed(self.part, "a reserved byte is not zero"))
    }

    pub(crate) fn end(&self) -> Result<(), MediaError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(MediaError::malformed(self.part, "bytes follow its last field"))
    }

    pub(crate) fn rest_len(&self) -> usize {
        self.rest.len()
    }

    fn advance(&mut self, len: usize, rest: &'a [u8]) {
        self.rest = rest;
        self.read += len as u64;
    }

    fn truncated(&self, len: usize) -> MediaError {
        MediaError::Truncated {
            part: self.part,
            needed: self.read + len as u64,
            available: self.read + self.rest.len() as u64,
        }
    }
}

/// Refuses control characters, which could change a terminal's display.
fn check_text(part: Part, text: &str) -> Result<(), MediaError> {
    if text.chars().any(char::is_control) {
        return Err(MediaError::malformed(part, "text has a control character"));
    }
    Ok(())
}

/// Appends bytes after their 16-bit length.
pub(crate) fn put_short(
    out: &mut Vec<u8>,
    part: Part,
    what: &'static str,
    bytes: &[u8],
    limit: usize,
) -> Result<(), MediaError> {
    let limit = limit.min(usize::from(u16::MAX));
    MediaError::check_limit(part, what, bytes.len() as u64, limit as u64)?;
    out.extend_from_slice(&u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

/// Appends text after its 16-bit length.
pub(crate) fn put_text(
    out: &mut Vec<u8>,
    part: Part,
    what: &'static str,
    text: &str,
    limit: usize,
) -> Result<(), MediaError> {
    check_text(part, text)?;
    put_short(out, part, what, text.as_bytes(), limit)
}
