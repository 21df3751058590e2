//! Bounded reading and writing of little-endian fields.

use crate::error::StoreError;

/// Reads fields from the front of a byte string; every length is checked before memory is
/// allocated.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], StoreError> {
        match self.rest.split_at_checked(len) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(StoreError::corrupt(field, "the file ends inside it")),
        }
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], StoreError> {
        let (head, tail) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or_else(|| StoreError::corrupt(field, "the file ends inside it"))?;
        self.rest = tail;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, StoreError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, StoreError> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, StoreError> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, StoreError> {
        self.array(field).map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self, field: &'static str) -> Result<i64, StoreError> {
        self.array(field).map(i64::from_le_bytes)
    }

    /// Reads a byte string after a 16-bit length, of at most `max` bytes.
    pub(crate) fn short(
        &mut self,
        max: usize,
        field: &'static str,
    ) -> Result<&'a [u8], StoreError> {
        let len = usize::from(self.u16(field)?);
        if len > max {
            return Err(StoreError::corrupt(
                field,
                format!("{len} bytes, where {max} is the most"),
            ));
        }
        self.take(len, field)
    }

    pub(crate) fn end(&self, field: &'static str) -> Result<(), StoreError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(StoreError::corrupt(field, format!("{left} bytes too many"))),
        }
    }
}

/// Appends `bytes` after their 16-bit length.
///
/// The callers limit byte strings to far below 64 KiB.
pub(crate) fn put_short(
    out: &mut Vec<u8>,
    bytes: &[u8],
    field: &'static str,
) -> Result<(), StoreError> {
    let len = u16::try_from(bytes.len())
        .map_err(|_| StoreError::corrupt(field, "too long to be written"))?;
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}
