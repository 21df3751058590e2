//! Data blocks of a database: consecutive pages of a full set, changed pages of a differential
//! one.

use crate::bytes::Reader;
use crate::error::{MediaError, Part};

/// Bytes of a payload before the pages of a full set, or before the page numbers of a
/// differential one.
pub const PAGES_HEAD_LEN: usize = 8;

const NUMBER_LEN: usize = 4;

/// Returns the bytes before the pages of a full set's block. The pages follow, so that they can be
/// read straight into the payload's buffer.
#[must_use]
pub fn put_pages_head(first_page: u32) -> [u8; PAGES_HEAD_LEN] {
    let mut head = [0; PAGES_HEAD_LEN];
    head[4..].copy_from_slice(&first_page.to_le_bytes());
    head
}

/// A block of a full set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pages<'a> {
    /// Number of the first page, from 1.
    pub first_page: u32,
    /// Whole consecutive pages.
    pub bytes: &'a [u8],
}

impl<'a> Pages<'a> {
    /// Reads the payload of block `index`.
    ///
    /// # Errors
    /// [`MediaError::Truncated`], [`MediaError::Malformed`].
    pub fn decode(index: u64, payload: &'a [u8], page_size: u32) -> Result<Self, MediaError> {
        let part = Part::Block(index);
        let mut reader = Reader::new(part, payload);
        let (zero, first_page) = (reader.u32()?, reader.u32()?);
        let bytes = reader.take(reader.rest_len())?;
        let pages = pages_in(bytes.len(), page_size as usize);
        let numbered = first_page > 0
            && pages.is_some_and(|pages| first_page.checked_add(pages - 1).is_some());
        if zero != 0 || !numbered {
            return Err(MediaError::malformed(part, "it does not hold whole pages"));
        }
        Ok(Self { first_page, bytes })
    }
}

/// Returns the number of pages, at least one.
fn pages_in(bytes: usize, each: usize) -> Option<u32> {
    let pages = bytes.checked_div(each)?;
    u32::try_from(pages).ok().filter(|pages| *pages > 0 && pages_len(*pages, each) == bytes)
}

fn pages_len(pages: u32, each: usize) -> usize {
    usize::try_from(pages).map_or(usize::MAX, |pages| pages.saturating_mul(each))
}

/// A block of a differential set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangedPages<'a> {
    numbers: &'a [u8],
    bytes: &'a [u8],
    page_size: usize,
}

impl<'a> ChangedPages<'a> {
    /// Reads the payload of block `index`.
    ///
    /// # Errors
    /// [`MediaError::Truncated`], [`MediaError::Malformed`].
    pub fn decode(index: u64, payload: &'a [u8], page_size: u32) -> Result<Self, MediaError> {
        let part = Part::Block(index);
        let page_size = page_size as usize;
        let mut reader = Reader::new(part, payload);
        let (count, zero) = (reader.u32()?, reader.u32()?);
        let whole = pages_in(reader.rest_len(), page_size.saturating_add(NUMBER_LEN));
        if zero != 0 || whole != Some(count) {
            return Err(MediaError::malformed(part, "it does not hold whole pages"));
        }
        let numbers = reader.take(pages_len(count, NUMBER_LEN))?;
        let bytes = reader.take(reader.rest_len())?;
        let block = Self { numbers, bytes, page_size };
        let mut before = 0;
        for (number, _) in block.iter() {
            if number <= before {
                return Err(MediaError::malformed(part, "its page numbers do not ascend"));
            }
            before = number;
        }
        Ok(block)
    }

    /// Returns the pages with their numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let numbers = self.numbers.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        numbers.zip(self.bytes.chunks_exact(self.page_size.max(1)))
    }

    /// Returns the first and last page number.
    #[must_use]
    pub fn bounds(&self) -> (u32, u32) {
        let number = |bytes: Option<&[u8; 4]>| bytes.copied().map_or(0, u32::from_le_bytes);
        (number(self.numbers.first_chunk()), number(self.numbers.last_chunk()))
    }
}

/// Collects changed pages until a block is full.
#[derive(Debug)]
pub struct ChangedPagesBuilder {
    page_size: usize,
    room: usize,
    numbers: Vec<u8>,
    bytes: Vec<u8>,
}

impl ChangedPagesBuilder {
    /// Makes a builder for blocks of a set with these sizes.
    #[must_use]
    pub fn new(block_size: u32, page_size: u32) -> Self {
        let page_size = page_size as usize;
        let room = (block_size as usize / page_size.saturating_add(NUMBER_LEN)).max(1);
        Self { page_size, room, numbers: Vec::new(), bytes: Vec::new() }
    }

    /// Adds a page, whose number must be greater than those before.
    ///
    /// # Errors
    /// [`MediaError::Malformed`] for a page of another size, a number that does not ascend, or if
    /// the block is full.
    pub fn push(&mut self, number: u32, page: &[u8]) -> Result<(), MediaError> {
        let last = self.numbers.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if page.len() != self.page_size || number <= last || self.is_full() {
            return Err(MediaError::malformed(Part::AnyBlock, "a page does not go behind these"));
        }
        self.numbers.extend_from_slice(&number.to_le_bytes());
        self.bytes.extend_from_slice(page);
        Ok(())
    }

    /// Returns true if no further page fits into the block.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.numbers.len() / NUMBER_LEN >= self.room
    }

    /// Returns true if there is no page yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Writes the payload into `out`, which is emptied first, and starts a new block. Returns the
    /// first page number.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> u32 {
        let count = u32::try_from(self.numbers.len() / NUMBER_LEN).unwrap_or(u32::MAX);
        let first = self.numbers.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        out.clear();
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.numbers);
        out.extend_from_slice(&self.bytes);
        self.numbers.clear();
        self.bytes.clear();
        first
    }
}
