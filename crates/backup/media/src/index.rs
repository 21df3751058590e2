//! The index after a set's blocks.

use crate::Digest;
use crate::block::{BLOCK_HEADER_LEN, BlockHeader, BlockKind};
use crate::bytes::Reader;
use crate::error::{MediaError, Part};
use crate::header::{Base, SetHeader, SetKind, Source};
use crate::payload::{
    LOG_CHANGE_LEN, LogForm, MAP_PAGES_PER_BLOCK, PAGES_HEAD_LEN, WHOLE_LOG_ENTRY_LEN,
};
use crate::trailer::Trailer;
use tdekit_key_crypto::sha256;

/// Length of an entry in bytes.
pub const INDEX_ENTRY_LEN: usize = 32;
/// Bytes of an index before its entries.
pub const INDEX_HEAD_LEN: usize = 8;

pub(crate) const MAGIC: [u8; 4] = *b"tidx";

const PART: Part = Part::Index;

/// A block's entry in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// Offset of the block's header from the record's first byte.
    pub offset: u64,
    /// The block's checksum.
    pub checksum: u64,
    /// Length of the payload in bytes.
    pub payload_len: u32,
    /// Length of the stored bytes after the header.
    pub stored_len: u32,
    /// The kind of the block's content.
    pub kind: BlockKind,
    /// True if it is compressed.
    pub compressed: bool,
    /// First page number of a database's data block and of a page map; for a data block of a log
    /// set the number of its first transaction, from 1; otherwise 0.
    pub first_page: u32,
}

impl IndexEntry {
    pub(crate) fn of(header: &BlockHeader, first_page: u32) -> Self {
        Self {
            offset: 0,
            checksum: header.checksum,
            payload_len: header.payload_len,
            stored_len: header.stored_len,
            kind: header.kind,
            compressed: header.compressed,
            first_page,
        }
    }

    /// Returns the length of header and stored bytes.
    #[must_use]
    pub fn block_len(&self) -> u64 {
        BLOCK_HEADER_LEN as u64 + u64::from(self.stored_len)
    }

    /// Checks the header of the block at the place that the index has for block `index`.
    ///
    /// # Errors
    /// [`MediaError::BlockOrder`]; [`MediaError::Disagreement`].
    pub fn check(&self, index: u64, header: &BlockHeader) -> Result<(), MediaError> {
        if header.index != index {
            return Err(MediaError::BlockOrder { expected: index, found: header.index });
        }
        let of_header = Self { offset: self.offset, ..Self::of(header, self.first_page) };
        if of_header == *self {
            return Ok(());
        }
        Err(MediaError::Disagreement { what: "a block's header and its entry in the index" })
    }

    fn encode(&self) -> [u8; INDEX_ENTRY_LEN] {
        let mut out = [0; INDEX_ENTRY_LEN];
        out[..8].copy_from_slice(&self.offset.to_le_bytes());
        out[8..16].copy_from_slice(&self.checksum.to_le_bytes());
        out[16..20].copy_from_slice(&self.payload_len.to_le_bytes());
        out[20..24].copy_from_slice(&self.stored_len.to_le_bytes());
        out[24] = self.kind.id();
        out[25] = self.kind.flags(self.compressed);
        out[28..].copy_from_slice(&self.first_page.to_le_bytes());
        out
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, MediaError> {
        let (offset, checksum) = (reader.u64()?, reader.u64()?);
        let (payload_len, stored_len) = (reader.u32()?, reader.u32()?);
        let (kind, flags) = (reader.u8()?, reader.u8()?);
        let (kind, compressed) = BlockKind::from_id_and_flags(PART, kind, flags)?;
        reader.zeros(2)?;
        let first_page = reader.u32()?;
        Ok(Self { offset, checksum, payload_len, stored_len, kind, compressed, first_page })
    }
}

/// The index of a set in one family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Index {
    /// One for each block, in order.
    pub entries: Vec<IndexEntry>,
}

impl Index {
    /// Returns the length in bytes of an index with this number of entries.
    #[must_use]
    pub const fn encoded_len(entries: u64) -> u64 {
        entries.saturating_mul(INDEX_ENTRY_LEN as u64).saturating_add(INDEX_HEAD_LEN as u64)
    }

    /// Encodes the index.
    ///
    /// # Errors
    /// [`MediaError::Limit`] for more entries than 2^32 - 1.
    pub fn encode(&self) -> Result<Vec<u8>, MediaError> {
        let count = self.entries.len() as u64;
        MediaError::check_limit(PART, "entries", count, u32::MAX.into())?;
        let mut out = Vec::with_capacity(INDEX_HEAD_LEN + INDEX_ENTRY_LEN * self.entries.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        for entry in &self.entries {
            out.extend_from_slice(&entry.encode());
        }
        Ok(out)
    }

    /// Reads a whole index. `Self::check` compares it with its trailer.
    ///
    /// # Errors
    /// [`MediaError::Truncated`], [`MediaError::Damaged`], [`MediaError::Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Self, MediaError> {
        let mut reader = Reader::new(PART, bytes);
        if reader.array()? != MAGIC {
            return Err(MediaError::damaged(PART, "no index begins here"));
        }
        let count = reader.u32()?;
        let needed = Self::encoded_len(count.into());
        let available = bytes.len() as u64;
        if available < needed {
            return Err(MediaError::Truncated { part: PART, needed, available });
        }
        let mut entries = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        for _ in 0..count {
            entries.push(IndexEntry::decode(&mut reader)?);
        }
        reader.end()?;
        Ok(Self { entries })
    }
}

impl Index {
    /// Reads the index of a set and checks it: its digest, and that header, entries and trailer
    /// agree. Afterwards every block has one place, number and length of data blocks are as
    /// required for the set's kind, and a page map covers every page. It remains to check each
    /// block against its entry ([`IndexEntry::check`]).
    ///
    /// # Errors
    /// [`MediaError::Damaged`], [`MediaError::Disagreement`], and those of [`Self::decode`].
    pub fn open(bytes: &[u8], set: &SetHeader, trailer: &Trailer) -> Result<Self, MediaError> {
        if sha256(&[bytes]) != trailer.index_sha256 {
            return Err(MediaError::damaged(PART, "its digest is not the trailer's"));
        }
        let index = Self::decode(bytes)?;
        index.check(set, trailer)?;
        Ok(index)
    }

    /// Returns the SHA-256 of an encoded index, for a trailer.
    #[must_use]
    pub fn digest(encoded: &[u8]) -> Digest {
        sha256(&[encoded])
    }

    pub(crate) fn check(&self, set: &SetHeader, trailer: &Trailer) -> Result<(), MediaError> {
        let rules = set.block_rules();
        let mut plan = Plan::new(set, trailer);
        let mut offset = u64::from(trailer.header_len);
        for (entry, at) in self.entries.iter().zip(1_u64..) {
            plan.rule(entry.offset == offset, "blocks and their offsets")?;
            offset = offset.saturating_add(entry.block_len());
            let lens = (entry.payload_len, entry.stored_len);
            rules.check_lens(Part::Block(at - 1), entry.kind, entry.compressed, lens)?;
            let last = at == self.entries.len() as u64;
            plan.rule((entry.kind == BlockKind::Metadata) == last, "the last block and its kind")?;
            plan.add(entry)?;
        }
        plan.rule(self.entries.len() as u64 == trailer.blocks, "the count of blocks")?;
        plan.rule(offset == trailer.index_offset, "blocks and the place of the index")?;
        plan.end()
    }
}

/// The state against which the next entries are checked.
struct Plan<'a> {
    set: &'a SetHeader,
    trailer: &'a Trailer,
    /// Data blocks seen in this family.
    data: u64,
    data_bytes: u64,
    /// Minimum first page of the next data block of a differential set, or first transaction of a
    /// log set's.
    next_page: u64,
    /// First page of the next map block.
    next_map_page: u64,
}

impl<'a> Plan<'a> {
    fn new(set: &'a SetHeader, trailer: &'a Trailer) -> Self {
        Self { set, trailer, data: 0, data_bytes: 0, next_page: 1, next_map_page: 1 }
    }

    fn rule(&self, holds: bool, what: &'static str) -> Result<(), MediaError> {
        if holds { Ok(()) } else { Err(MediaError::Disagreement { what }) }
    }

    fn add(&mut self, entry: &IndexEntry) -> Result<(), MediaError> {
        match entry.kind {
            BlockKind::Metadata => self.rule(entry.first_page == 0, "metadata and a page number"),
            BlockKind::PageMap => self.add_map(entry),
            BlockKind::Data => {
                match (self.set.source, self.set.kind) {
                    (Source::Stream, _) => self.add_piece(entry)?,
                    (Source::Database { page_size, pages }, SetKind::Full) => {
                        self.add_pages(entry, page_size, pages)?;
                    }
                    (
                        Source::Database { page_size, .. },
                        SetKind::Differential(Base { .. }) | SetKind::LogState(Base { .. }),
                    ) => {
                        self.add_changed_pages(entry, page_size)?;
                    }
                    (Source::Database { page_size, .. }, SetKind::Log(link)) => {
                        self.add_log(entry, page_size, (link.transactions, link.form))?;
                    }
                }
                self.data += 1;
                self.data_bytes += u64::from(entry.payload_len);
                Ok(())
            }
        }
    }

    /// Returns the number of the next data block over all families.
    fn number(&self) -> u64 {
        let family = self.set.family;
        self.data.saturating_mul(family.count.into()).saturating_add(family.index.into())
    }

    fn add_piece(&self, entry: &IndexEntry) -> Result<(), MediaError> {
        let last = self.number().saturating_add(1) == self.trailer.data_blocks;
        let whole = entry.payload_len == self.set.block_size;
        self.rule((last || whole) && entry.first_page == 0, "the pieces of the stream")
    }

    fn add_pages(&self, entry: &IndexEntry, page_size: u32, pages: u32) -> Result<(), MediaError> {
        let per_block = u64::from(self.set.pages_per_block());
        let before = self.number().saturating_mul(per_block);
        let here = u64::from(pages).saturating_sub(before).min(per_block);
        let bytes = PAGES_HEAD_LEN as u64 + here * u64::from(page_size);
        let right = here > 0
            && u64::from(entry.first_page) == before + 1
            && u64::from(entry.payload_len) == bytes;
        self.rule(right, "the pages of a block and its place")
    }

    fn add_changed_pages(&mut self, entry: &IndexEntry, page_size: u32) -> Result<(), MediaError> {
        let each = 4 + u64::from(page_size);
        let bytes = u64::from(entry.payload_len).saturating_sub(PAGES_HEAD_LEN as u64);
        let first = u64::from(entry.first_page);
        let end = first + bytes / each;
        let right = bytes > 0
            && bytes.is_multiple_of(each)
            && first >= self.next_page
            && end <= u64::from(self.trailer.pages) + 1;
        self.next_page = end;
        self.rule(right, "the changed pages of blocks")
    }

    /// The first block begins with the first transaction; each later one goes on with the
    /// transaction that the block before ended in, or with a later one.
    fn add_log(
        &mut self,
        entry: &IndexEntry,
        page_size: u32,
        (transactions, form): (u32, LogForm),
    ) -> Result<(), MediaError> {
        let bytes = u64::from(entry.payload_len).saturating_sub(PAGES_HEAD_LEN as u64);
        let first = u64::from(entry.first_page);
        let begins = if self.data == 0 { first == 1 } else { first >= self.next_page };
        let holds_pages = match form {
            LogForm::Whole => {
                let each = WHOLE_LOG_ENTRY_LEN as u64 + u64::from(page_size);
                bytes > 0 && bytes.is_multiple_of(each)
            }
            LogForm::Changes => bytes >= LOG_CHANGE_LEN as u64,
        };
        let right = holds_pages && begins && first <= u64::from(transactions);
        self.next_page = first;
        self.rule(right, "the transactions of blocks")
    }

    fn add_map(&mut self, entry: &IndexEntry) -> Result<(), MediaError> {
        let bytes = u64::from(entry.payload_len).saturating_sub(PAGES_HEAD_LEN as u64);
        let pages = bytes / 16;
        let right = bytes.is_multiple_of(16)
            && (1..=MAP_PAGES_PER_BLOCK as u64).contains(&pages)
            && u64::from(entry.first_page) == self.next_map_page
            && self.set.family.index == 0;
        self.next_map_page += pages;
        self.rule(right, "the blocks of the page map")
    }

    fn end(&self) -> Result<(), MediaError> {
        let (set, trailer) = (self.set, self.trailer);
        self.rule(self.data == set.family.share(trailer.data_blocks), "the count of data blocks")?;
        self.rule(self.data_bytes == trailer.data_bytes, "the bytes of data blocks")?;
        self.rule(trailer.pages == set.source.pages(), "header and trailer on the pages")?;
        if let (Source::Database { pages, .. }, SetKind::Full) = (set.source, set.kind) {
            let blocks = pages.div_ceil(set.pages_per_block().max(1));
            self.rule(trailer.data_blocks == u64::from(blocks), "data blocks and pages")?;
        }
        if let SetKind::Log(_) = set.kind {
            self.rule(trailer.data_blocks > 0, "a log set and its data blocks")?;
        }
        let mapped = set.has_page_map && set.family.index == 0;
        let mapped_pages = if mapped { u64::from(trailer.pages) } else { 0 };
        self.rule(self.next_map_page == mapped_pages + 1, "the page map and the pages")
    }
}
