//! The write-ahead log: a sealed header in two slots, then frames at a constant stride.
//!
//! SQLite's log is a 32-byte header and frames of 24 + page bytes. Ours maps frame for frame to
//! `WAL_HEADER_AREA_LEN` bytes of header and frames of `FRAME_PREFIX_LEN` + page bytes. A frame's
//! page is sealed as it will be in the main file, so that a checkpoint can copy it.

use tdekit_key_crypto::{NONCE_LEN, NonceSource, TAG_LEN};

use crate::aad::{Kind, place};
use crate::keys::{KeyRing, Purpose};
use crate::layout::{array, le32};
use crate::page::seal_of;
use crate::{FileKeys, PageError, PageSize, RESERVE_LEN};

/// Bytes of SQLite's own WAL header.
pub const SQLITE_WAL_HEADER_LEN: usize = 32;
/// Bytes of SQLite's own frame header.
pub const SQLITE_FRAME_HEADER_LEN: usize = 24;
/// Bytes before the first frame: two slots of the sealed header.
pub const WAL_HEADER_AREA_LEN: usize = 1024;
/// Bytes before the page in each frame.
pub const FRAME_PREFIX_LEN: usize = 72;

const MAGIC: [u8; 8] = *b"tdewal\0\x01";
const SLOT_LEN: usize = WAL_HEADER_AREA_LEN / 2;
const SEALED_HEADER: std::ops::Range<usize> = 72..72 + SQLITE_WAL_HEADER_LEN;
const SEALED_FRAME: std::ops::Range<usize> = 44..FRAME_PREFIX_LEN;
const FRAME_SECRET_LEN: usize = 28;

/// SQLite's 24 bytes of a frame header, and the known durability when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// SQLite's bytes: page number, commit size, salts, checksums.
    pub sqlite: [u8; SQLITE_FRAME_HEADER_LEN],
    /// Frames before this index were synced when the frame was written: damage there is not a torn
    /// write.
    pub durable_before: u32,
}

impl FrameHeader {
    /// Returns the number of the frame's page.
    pub fn page(&self) -> u32 {
        array(&self.sqlite, 0).map_or(0, u32::from_be_bytes)
    }

    /// Returns true if the frame ends a transaction: its commit size is not zero.
    pub fn commits(&self) -> bool {
        self.sqlite[4..8] != [0; 4]
    }

    /// Returns the salts, which distinguish a log's generations.
    pub fn salts(&self) -> &[u8] {
        &self.sqlite[8..16]
    }

    /// Returns true if SQLite will rewrite the header before it commits: salts and checksum are
    /// omitted. Salts alone may be zero in a valid header: in a log that SQLite begins after
    /// recovering an empty one.
    pub fn is_provisional(&self) -> bool {
        self.sqlite[8..] == [0; 16]
    }
}

/// Returns the bytes of one frame in the file.
pub fn frame_stride(size: PageSize) -> u64 {
    FRAME_PREFIX_LEN as u64 + u64::from(size.bytes())
}

/// Returns the offset in the file of frame `frame`, counted from 0.
pub fn frame_offset(size: PageSize, frame: u32) -> u64 {
    WAL_HEADER_AREA_LEN as u64 + u64::from(frame) * frame_stride(size)
}

/// Returns the page number in a frame's prefix: stored in the clear, authenticated by both seals.
pub fn prefix_page(prefix: &[u8]) -> u32 {
    array(prefix, 0).map_or(0, u32::from_be_bytes)
}

/// Seals and opens the headers of one WAL for one handle.
pub struct WalCodec {
    ring: KeyRing,
    nonces: NonceSource,
}

impl WalCodec {
    /// A codec for the WAL of the database that `keys` belong to.
    pub fn new(keys: FileKeys) -> Self {
        Self { ring: KeyRing::new(keys, Purpose::Wal), nonces: NonceSource::new() }
    }

    /// Replaces the keys by others of the same file: a version was added or dropped.
    pub fn set_keys(&mut self, keys: FileKeys) {
        self.ring.set_file(keys);
    }

    /// Seals SQLite's 32-byte header into both slots: `WAL_HEADER_AREA_LEN` bytes.
    pub fn seal_header(
        &mut self,
        sqlite: &[u8; SQLITE_WAL_HEADER_LEN],
    ) -> Result<Vec<u8>, PageError> {
        let mut area = vec![0; WAL_HEADER_AREA_LEN];
        let version = self.ring.file().current;
        for slot in area.chunks_exact_mut(SLOT_LEN) {
            let nonce = self.nonces.next()?;
            let aad = self.header_aad(version)?;
            slot[..8].copy_from_slice(&MAGIC);
            slot[8..12].copy_from_slice(&version.to_le_bytes());
            slot[16..32].copy_from_slice(&self.ring.file().file_id);
            slot[32..32 + NONCE_LEN].copy_from_slice(&nonce);
            let key = self.ring.get(version)?;
            let tag = key.seal(&nonce, &aad, sqlite, &mut slot[SEALED_HEADER])?;
            slot[56..56 + TAG_LEN].copy_from_slice(&tag);
        }
        Ok(area)
    }

    /// Opens SQLite's header; if both slots are intact, the one with the later checkpoint sequence.
    /// `None` if neither is intact: no log was ever begun durably.
    pub fn open_header(&mut self, area: &[u8]) -> Option<[u8; SQLITE_WAL_HEADER_LEN]> {
        let sequence = |h: &[u8; 32]| array(h, 12).map_or(0, u32::from_be_bytes);
        let mut best: Option<[u8; SQLITE_WAL_HEADER_LEN]> = None;
        for slot in area.chunks(SLOT_LEN).take(2) {
            if let Some(header) = self.open_slot(slot)
                && best.is_none_or(|b| sequence(&header).wrapping_sub(sequence(&b)) as i32 > 0)
            {
                best = Some(header);
            }
        }
        best
    }

    fn open_slot(&mut self, slot: &[u8]) -> Option<[u8; SQLITE_WAL_HEADER_LEN]> {
        if !slot.starts_with(&MAGIC) {
            return None;
        }
        let version = le32(slot, 8);
        let (nonce, tag) = (array(slot, 32)?, array(slot, 56)?);
        let aad = self.header_aad(version).ok()?;
        let mut header = [0; SQLITE_WAL_HEADER_LEN];
        let key = self.ring.get(version).ok()?;
        key.open(&nonce, &aad, slot.get(SEALED_HEADER)?, &tag, &mut header).ok()?;
        Some(header)
    }

    /// Seals the header of frame `frame` into `prefix`, bound to the sealed page after it.
    pub fn seal_frame(
        &mut self,
        frame: u32,
        header: &FrameHeader,
        sealed_page: &[u8],
        prefix: &mut [u8; FRAME_PREFIX_LEN],
    ) -> Result<(), PageError> {
        let page_seal = seal_of(sealed_page).ok_or(PageError::Frame { frame })?;
        let version = le32(page_seal, 40);
        let aad = self.frame_aad(frame, header.page(), version, page_seal)?;
        let nonce = self.nonces.next()?;
        let mut secret = [0; FRAME_SECRET_LEN];
        secret[..20].copy_from_slice(&header.sqlite[4..]);
        secret[20..24].copy_from_slice(&header.durable_before.to_le_bytes());
        prefix[..4].copy_from_slice(&header.sqlite[..4]);
        prefix[4..28].copy_from_slice(&nonce);
        let key = self.ring.get(version)?;
        let tag = key.seal(&nonce, &aad, &secret, &mut prefix[SEALED_FRAME])?;
        prefix[28..44].copy_from_slice(&tag);
        Ok(())
    }

    /// Opens the header of frame `frame`, given the prefix and the seal of the page after it.
    pub fn open_frame(
        &mut self,
        frame: u32,
        prefix: &[u8],
        page_seal: &[u8; RESERVE_LEN],
    ) -> Result<FrameHeader, PageError> {
        let broken = || PageError::Frame { frame };
        let (nonce, tag) =
            (array(prefix, 4).ok_or_else(broken)?, array(prefix, 28).ok_or_else(broken)?);
        let version = le32(page_seal, 40);
        let aad =
            self.frame_aad(frame, prefix_page(prefix), version, page_seal).map_err(|_| broken())?;
        let mut secret = [0; FRAME_SECRET_LEN];
        let sealed = prefix.get(SEALED_FRAME).ok_or_else(broken)?;
        let key = self.ring.get(version).map_err(|_| broken())?;
        key.open(&nonce, &aad, sealed, &tag, &mut secret).map_err(|_| broken())?;
        let mut sqlite = [0; SQLITE_FRAME_HEADER_LEN];
        sqlite[..4].copy_from_slice(&prefix[..4]);
        sqlite[4..].copy_from_slice(&secret[..20]);
        Ok(FrameHeader { sqlite, durable_before: le32(&secret, 20) })
    }

    fn header_aad(&self, version: u32) -> Result<[u8; 32], PageError> {
        let file = self.ring.file();
        let algorithm = file.algorithm(version)?;
        Ok(place(&file.file_id, 0, version, 0, algorithm, Kind::WalHeader, 0))
    }

    fn frame_aad(
        &self,
        frame: u32,
        page: u32,
        version: u32,
        page_seal: &[u8; RESERVE_LEN],
    ) -> Result<[u8; 80], PageError> {
        let file = self.ring.file();
        let algorithm = file.algorithm(version)?;
        let mut aad = [0; 80];
        let start = place(&file.file_id, frame, version, page, algorithm, Kind::WalFrame, 0);
        aad[..32].copy_from_slice(&start);
        aad[32..].copy_from_slice(page_seal);
        Ok(aad)
    }
}

#[cfg(test)]
mod tests {
    use tdekit_key_crypto::Algorithm;

    use super::*;
    use crate::page::tests::keys;

    fn header(page: u32) -> FrameHeader {
        let mut sqlite = [5; 24];
        sqlite[..4].copy_from_slice(&page.to_be_bytes());
        FrameHeader { sqlite, durable_before: 3 }
    }

    #[test]
    fn the_header_survives_the_loss_of_either_slot() {
        let mut codec = WalCodec::new(keys(Algorithm::Aes256, 1));
        let area = codec.seal_header(&[7; 32]).unwrap();
        for bit in 0..WAL_HEADER_AREA_LEN * 8 {
            let mut damaged = area.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(codec.open_header(&damaged), Some([7; 32]), "bit {bit}");
        }
        assert_eq!(codec.open_header(&[0; WAL_HEADER_AREA_LEN]), None);
        assert_eq!(codec.open_header(&area[..SLOT_LEN]), Some([7; 32]));
        assert_eq!(codec.open_header(&area[..60]), None);
        assert_eq!(WalCodec::new(keys(Algorithm::Aes256, 2)).open_header(&area), None);
    }

    #[test]
    fn of_two_generations_the_later_is_in_force() {
        let mut codec = WalCodec::new(keys(Algorithm::Aes256, 1));
        let (mut old, mut new) = ([7; 32], [7; 32]);
        old[12..16].copy_from_slice(&4u32.to_be_bytes());
        new[12..16].copy_from_slice(&5u32.to_be_bytes());
        let (a, b) = (codec.seal_header(&old).unwrap(), codec.seal_header(&new).unwrap());
        for (first, second) in [(&a, &b), (&b, &a)] {
            let mixed = [&first[..SLOT_LEN], &second[SLOT_LEN..]].concat();
            assert_eq!(codec.open_header(&mixed), Some(new));
        }
    }

    #[test]
    fn a_frame_opens_only_at_its_place_with_its_page() {
        let mut codec = WalCodec::new(keys(Algorithm::Aegis256X2, 1));
        let mut page = vec![1; 1024];
        page[1016..1020].copy_from_slice(&1u32.to_le_bytes());
        let mut prefix = [0; FRAME_PREFIX_LEN];
        codec.seal_frame(8, &header(2), &page, &mut prefix).unwrap();
        let seal = *seal_of(&page).unwrap();
        assert_eq!(codec.open_frame(8, &prefix, &seal).unwrap(), header(2));
        assert!(codec.open_frame(9, &prefix, &seal).is_err());
        let mut other = seal;
        other[0] ^= 1;
        assert!(codec.open_frame(8, &prefix, &other).is_err());
        for bit in 0..FRAME_PREFIX_LEN * 8 {
            prefix[bit / 8] ^= 1 << (bit % 8);
            assert!(codec.open_frame(8, &prefix, &seal).is_err(), "bit {bit}");
            prefix[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
