//! Collects a set's record while its blocks are written: offsets, index, trailer.

use tdekit_key_crypto::sha256;

use crate::block::BlockKind;
use crate::error::{MediaError, Part};
use crate::header::{RecordKind, RecordPlace, SetHeader};
use crate::index::{Index, IndexEntry};
use crate::keys::SetKeys;
use crate::trailer::{TRAILER_LEN, Trailer};

/// The content of a set's record so far.
#[derive(Debug)]
pub struct SetBuilder {
    set: SetHeader,
    trailer: Trailer,
    index: Index,
}

impl SetBuilder {
    /// Starts a record after the header, whose bytes are `header`.
    ///
    /// # Errors
    /// [`MediaError::Limit`] for a header that is too long.
    pub fn new(set: &SetHeader, place: &RecordPlace, header: &[u8]) -> Result<Self, MediaError> {
        let trailer = Trailer::of_header(RecordKind::Set, place.ordinal, header, 0)?;
        let index = Index::default();
        Ok(Self { set: set.clone(), trailer, index })
    }

    /// Returns the index of the next block.
    #[must_use]
    pub fn next_index(&self) -> u64 {
        self.trailer.blocks
    }

    /// Returns the offset of the next block from the record's first byte.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        u64::from(self.trailer.header_len) + self.trailer.stored_bytes
    }

    /// Adds the block whose entry [`crate::BlockSealer::seal`] returned, and returns its offset
    /// from the record's first byte. Blocks are added in the order of their indexes; the last is
    /// the metadata.
    pub fn push(&mut self, mut entry: IndexEntry) -> u64 {
        entry.offset = self.next_offset();
        self.trailer.blocks += 1;
        self.trailer.stored_bytes += entry.block_len();
        if entry.kind == BlockKind::Data {
            self.trailer.data_bytes += u64::from(entry.payload_len);
        }
        self.index.entries.push(entry);
        entry.offset
    }

    /// Returns index and trailer, which follow the last block. `data_blocks` counts those of all
    /// families. A writer makes everything before the trailer durable before it writes the trailer.
    ///
    /// # Errors
    /// [`MediaError::Disagreement`] and others if the blocks differ from the header's promise;
    /// [`MediaError::Limit`].
    pub fn finish(
        mut self,
        data_blocks: u64,
        finished_ms: i64,
        keys: Option<&SetKeys>,
    ) -> Result<(Vec<u8>, [u8; TRAILER_LEN]), MediaError> {
        let index = self.index.encode()?;
        self.trailer.data_blocks = data_blocks;
        self.trailer.finished_ms = finished_ms;
        self.trailer.pages = self.set.source.pages();
        self.trailer.index_offset = self.next_offset();
        self.trailer.index_len = index.len() as u64;
        self.trailer.index_sha256 = sha256(&[&index]);
        let end = self.trailer.index_offset.checked_add(self.trailer.index_len);
        let len = end.and_then(|end| end.checked_add(TRAILER_LEN as u64));
        let too_long = || MediaError::malformed(Part::Trailer, "its lengths do not add up");
        self.trailer.record_len = len.ok_or_else(too_long)?;
        if keys.map(SetKeys::algorithm) != self.set.algorithm {
            return Err(MediaError::Disagreement { what: "the key and the set's algorithm" });
        }
        let trailer = self.trailer.encode(keys)?;
        self.index.check(&self.set, &self.trailer)?;
        Ok((index, trailer))
    }
}
