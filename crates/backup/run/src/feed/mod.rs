//! Sources of the payloads of a set's blocks.

mod changed;
mod full;
mod log;
mod stream;

pub(crate) use changed::{BaseMap, ChangedFeed};
pub(crate) use full::FullFeed;
pub(crate) use log::LogSource;
pub(crate) use stream::StreamFeed;

use tdekit_backup_media::payload::MAP_PAGES_PER_BLOCK;
use tdekit_backup_media::{BlockKind, Family};
use tdekit_key_crypto::fingerprint::{FINGERPRINT_LEN, PageFingerprint};

use crate::RunError;

/// Number of pages of a map block.
pub(crate) const GROUP: u32 = 65_536;
const _: () = assert!(GROUP as usize == MAP_PAGES_PER_BLOCK);

/// The fingerprint of a page.
pub(crate) type Print = [u8; FINGERPRINT_LEN];

/// Buffers that one worker keeps between blocks.
pub(crate) struct Scratch {
    /// The payload of the block.
    pub(crate) payload: Vec<u8>,
    /// Pages to compare.
    pub(crate) pages: Vec<u8>,
    /// The map's key, if the set has a page map.
    pub(crate) fingerprint: Option<PageFingerprint>,
}

impl Scratch {
    /// Returns the fingerprints of whole pages; none if the set has no page map.
    fn prints(&self, pages: &[u8], page_len: usize) -> Result<Vec<Print>, RunError> {
        let Some(fingerprint) = &self.fingerprint else { return Ok(Vec::new()) };
        let prints = pages.chunks_exact(page_len).map(|page| fingerprint.of(page));
        Ok(prints.collect::<Result<_, _>>()?)
    }
}

/// A block whose payload is in the scratch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) kind: BlockKind,
    pub(crate) family: u16,
    /// Number of the block in its family.
    pub(crate) index: u64,
    /// First page, for the index of the set.
    pub(crate) first_page: u32,
    /// Bytes of the source in the block that were not counted yet.
    pub(crate) source_bytes: u64,
}

/// Distributes blocks to several threads. A thread that takes a block must have it written: the
/// blocks after it wait for it.
pub(crate) trait Feed: Sync {
    /// Puts the next block's payload into the scratch; `None` if there are no more.
    fn next(&self, scratch: &mut Scratch) -> Result<Option<Job>, RunError>;
}

/// Assigns the numbers of blocks.
pub(crate) struct Numbers {
    /// Number of the next block, by family.
    next: Vec<u64>,
    data_blocks: u64,
}

impl Numbers {
    pub(crate) fn new(families: u16) -> Self {
        Self { next: vec![0; usize::from(families.max(1))], data_blocks: 0 }
    }

    fn families(&self) -> u16 {
        u16::try_from(self.next.len()).unwrap_or(u16::MAX)
    }

    fn job(&mut self, kind: BlockKind, family: u16, first_page: u32) -> Job {
        let mut index = 0;
        if let Some(next) = self.next.get_mut(usize::from(family)) {
            index = *next;
            *next += 1;
        }
        Job { kind, family, index, first_page, source_bytes: 0 }
    }

    /// Returns the next data block: they are distributed to the families in turn.
    pub(crate) fn data(&mut self, first_page: u32) -> Job {
        let family = Family::of_block(self.data_blocks, self.families());
        self.data_blocks += 1;
        self.job(BlockKind::Data, family, first_page)
    }

    /// Returns a block of the page map: they are all in family 0.
    fn map(&mut self, first_page: u32) -> Job {
        self.job(BlockKind::PageMap, 0, first_page)
    }
}
