//! The rollback journal: a header, then sealed extents in the order in which they were written.
//!
//! An extent has a run of the journal's bytes at a logical offset; a later extent overrides an
//! earlier one. Extents start at multiples of `SECTOR_LEN`, are padded with `PADDING`, and are
//! never rewritten: no write touches a sector with durable bytes.

use tdekit_key_crypto::{NONCE_LEN, NonceSource, TAG_LEN, sha256};

use crate::aad::{Kind, place};
use crate::keys::{KeyRing, Purpose};
use crate::layout::{array, le32};
use crate::{FileKeys, PageError};

/// Alignment of extents and of the header in the file, bytes.
pub const SECTOR_LEN: usize = 512;
/// Bytes of the header in the file: two copies, one sector each.
pub const JOURNAL_HEADER_LEN: usize = 2 * SECTOR_LEN;
/// Bytes before an extent's ciphertext.
pub const EXTENT_PREFIX_LEN: usize = 60;
/// Maximum number of bytes of one extent.
pub const MAX_EXTENT_LEN: usize = 256 * 1024;

const MAGIC: [u8; 8] = *b"tdejrnl\x01";
const HEADER_BODY_LEN: usize = 44;
const PADDING: u8 = 0xff;

/// The header of a journal file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// The database that the journal belongs to.
    pub file_id: [u8; 16],
    /// Version of the DEK that sealed the extents.
    pub key_version: u32,
    /// Random, part of every AAD: no extent fits another journal.
    pub salt: [u8; 16],
}

/// The place of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentPlace {
    /// Its number in the journal, from 0.
    pub index: u32,
    /// Extents below this number were synced before it was written: damage there is not a torn
    /// write.
    pub durable_before: u32,
    /// Offset in the journal as SQLite sees it.
    pub logical: u64,
}

/// The bytes at an extent's place, classified before any key is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// An extent.
    Extent {
        /// Its number in the journal, from 0.
        index: u32,
        /// Extents below this number had been synced when it was written.
        durable_before: u32,
        /// Offset in the journal as SQLite sees it.
        logical: u64,
        /// Number of bytes in the extent.
        len: usize,
    },
    /// Zeros, or fewer bytes than a prefix: nothing durable was written here.
    End,
    /// Neither: a written prefix that was damaged later.
    Damaged,
}

impl JournalHeader {
    /// Encodes both copies.
    pub fn encode(&self) -> [u8; JOURNAL_HEADER_LEN] {
        let mut out = [PADDING; JOURNAL_HEADER_LEN];
        for copy in out.chunks_exact_mut(SECTOR_LEN) {
            copy[..8].copy_from_slice(&MAGIC);
            copy[8..12].copy_from_slice(&self.key_version.to_le_bytes());
            copy[12..28].copy_from_slice(&self.file_id);
            copy[28..HEADER_BODY_LEN].copy_from_slice(&self.salt);
            let checksum = sha256(&[&copy[..HEADER_BODY_LEN]]);
            copy[HEADER_BODY_LEN..HEADER_BODY_LEN + 32].copy_from_slice(&checksum);
        }
        out
    }

    /// Decodes the first intact copy; `None` if neither is intact: no header was ever durable.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.chunks_exact(SECTOR_LEN).take(2).find_map(|copy| {
            let whole = copy.starts_with(&MAGIC)
                && array(copy, HEADER_BODY_LEN) == Some(sha256(&[&copy[..HEADER_BODY_LEN]]));
            whole.then_some(Self {
                key_version: le32(copy, 8),
                file_id: array(copy, 12)?,
                salt: array(copy, 28)?,
            })
        })
    }
}

/// Returns the bytes in the file of an extent of `len` bytes, including padding.
pub fn extent_span(len: usize) -> usize {
    (EXTENT_PREFIX_LEN + len).next_multiple_of(SECTOR_LEN)
}

/// Reads the prefix that starts `bytes`.
pub fn read_prefix(bytes: &[u8]) -> Prefix {
    let Some(prefix) = bytes.first_chunk::<EXTENT_PREFIX_LEN>() else { return Prefix::End };
    if prefix.iter().all(|&b| b == 0) {
        return Prefix::End;
    }
    let (len, logical) = (le32(prefix, 0), array(prefix, 8).map(u64::from_le_bytes));
    match (usize::try_from(len), logical) {
        (Ok(len), Some(logical)) if (1..=MAX_EXTENT_LEN).contains(&len) => Prefix::Extent {
            index: le32(prefix, 4),
            durable_before: le32(prefix, 56),
            logical,
            len,
        },
        _ => Prefix::Damaged,
    }
}

/// Returns true if an extent that does not open was partially written: some whole sector of it is
/// zero, which newly extended files read as and ciphertext with its padding never is.
pub fn looks_torn(extent: &[u8]) -> bool {
    extent.chunks_exact(SECTOR_LEN).any(|sector| sector.iter().all(|&b| b == 0))
}

/// Seals and opens the extents of one journal for one handle.
pub struct JournalCodec {
    ring: KeyRing,
    nonces: NonceSource,
}

impl JournalCodec {
    /// A codec for journals of the database that `keys` belong to.
    pub fn new(keys: FileKeys) -> Self {
        Self { ring: KeyRing::new(keys, Purpose::Journal), nonces: NonceSource::new() }
    }

    /// Replaces the keys by others of the same file: a version was added or dropped.
    pub fn set_keys(&mut self, keys: FileKeys) {
        self.ring.set_file(keys);
    }

    /// Makes the header of a new journal, with a fresh salt.
    pub fn new_header(&mut self) -> Result<JournalHeader, PageError> {
        let mut salt = [0; 16];
        tdekit_key_crypto::random_bytes(&mut salt)?;
        let file = self.ring.file();
        Ok(JournalHeader { file_id: file.file_id, key_version: file.current, salt })
    }

    /// Makes the header of a new journal whose salt ends with `mark`: it applies only to the state
    /// with that mark.
    pub fn marked_header(&mut self, mark: [u8; 8]) -> Result<JournalHeader, PageError> {
        let mut header = self.new_header()?;
        header.salt[8..].copy_from_slice(&mark);
        Ok(header)
    }

    /// Appends a sealed extent to `out`, padded to a sector.
    pub fn seal(
        &mut self,
        header: &JournalHeader,
        place: &ExtentPlace,
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), PageError> {
        let too_large = PageError::Size { size: plain.len() as u64, what: "a journal extent" };
        let len = match u32::try_from(plain.len()) {
            Ok(len) if (1..=MAX_EXTENT_LEN).contains(&plain.len()) => len,
            _ => return Err(too_large),
        };
        let nonce = self.nonces.next()?;
        let aad = self.aad(header, place, len)?;
        let start = out.len();
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&place.index.to_le_bytes());
        out.extend_from_slice(&place.logical.to_le_bytes());
        out.extend_from_slice(&nonce);
        out.resize(start + extent_span(plain.len()), PADDING);
        out[start + 56..start + EXTENT_PREFIX_LEN]
            .copy_from_slice(&place.durable_before.to_le_bytes());
        let ciphertext = start + EXTENT_PREFIX_LEN..start + EXTENT_PREFIX_LEN + plain.len();
        let key = self.ring.get(header.key_version)?;
        let tag = key.seal(&nonce, &aad, plain, &mut out[ciphertext])?;
        out[start + 40..start + 56].copy_from_slice(&tag);
        Ok(())
    }

    /// Opens extent number `expected` (prefix and ciphertext in `extent`) into `plain`.
    pub fn open(
        &mut self,
        header: &JournalHeader,
        expected: u32,
        extent: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<(), PageError> {
        let broken = || PageError::Extent { index: u64::from(expected) };
        let Prefix::Extent { index, durable_before, logical, len } = read_prefix(extent) else {
            return Err(broken());
        };
        if index != expected {
            return Err(broken());
        }
        let ciphertext =
            extent.get(EXTENT_PREFIX_LEN..EXTENT_PREFIX_LEN + len).ok_or_else(broken)?;
        let nonce: [u8; NONCE_LEN] = array(extent, 16).ok_or_else(broken)?;
        let tag: [u8; TAG_LEN] = array(extent, 40).ok_or_else(broken)?;
        let place = ExtentPlace { index, durable_before, logical };
        let aad = self.aad(header, &place, le32(extent, 0)).map_err(|_| broken())?;
        plain.clear();
        plain.resize(len, 0);
        let key = self.ring.get(header.key_version).map_err(|_| broken())?;
        key.open(&nonce, &aad, ciphertext, &tag, plain).map_err(|_| broken())
    }

    fn aad(
        &self,
        header: &JournalHeader,
        extent: &ExtentPlace,
        len: u32,
    ) -> Result<[u8; 64], PageError> {
        let version = header.key_version;
        let algorithm = self.ring.file().algorithm(version)?;
        let mut aad = [0; 64];
        let start = place(&header.file_id, len, version, 0, algorithm, Kind::Journal, 0);
        aad[..32].copy_from_slice(&start);
        aad[32..48].copy_from_slice(&header.salt);
        aad[48..52].copy_from_slice(&extent.index.to_le_bytes());
        aad[52..56].copy_from_slice(&extent.durable_before.to_le_bytes());
        aad[56..].copy_from_slice(&extent.logical.to_le_bytes());
        Ok(aad)
    }
}

#[cfg(test)]
mod tests {
    use tdekit_key_crypto::Algorithm;

    use super::*;
    use crate::page::tests::keys;

    #[test]
    fn an_extent_opens_only_at_its_place_in_its_journal() {
        let mut codec = JournalCodec::new(keys(Algorithm::Aes256, 1));
        let header = codec.new_header().unwrap();
        assert_eq!(JournalHeader::decode(&header.encode()), Some(header));
        let (mut out, mut plain) = (Vec::new(), Vec::new());
        let place = ExtentPlace { index: 4, durable_before: 3, logical: 512 };
        codec.seal(&header, &place, b"some bytes", &mut out).unwrap();
        assert_eq!(out.len(), SECTOR_LEN);
        let prefix = Prefix::Extent { index: 4, durable_before: 3, logical: 512, len: 10 };
        assert_eq!(read_prefix(&out), prefix);
        codec.open(&header, 4, &out, &mut plain).unwrap();
        assert_eq!(plain, b"some bytes");
        assert!(codec.open(&header, 5, &out, &mut plain).is_err());
        let other = codec.new_header().unwrap();
        assert!(codec.open(&other, 4, &out, &mut plain).is_err());
    }

    #[test]
    fn a_flipped_bit_is_damage_and_never_the_end() {
        let mut codec = JournalCodec::new(keys(Algorithm::Aes256, 1));
        let header = codec.new_header().unwrap();
        let (mut out, mut plain) = (Vec::new(), Vec::new());
        let place = ExtentPlace { index: 0, durable_before: 0, logical: 0 };
        codec.seal(&header, &place, &[0; 700], &mut out).unwrap();
        for bit in 0..(EXTENT_PREFIX_LEN + 700) * 8 {
            out[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(read_prefix(&out), Prefix::End, "bit {bit}");
            assert!(codec.open(&header, 0, &out, &mut plain).is_err(), "bit {bit}");
            assert!(!looks_torn(&out));
            out[bit / 8] ^= 1 << (bit % 8);
        }
        out[SECTOR_LEN..].fill(0);
        assert!(looks_torn(&out));
    }

    #[test]
    fn either_copy_of_the_header_serves() {
        let mut codec = JournalCodec::new(keys(Algorithm::Aes256, 1));
        let header = codec.new_header().unwrap();
        let whole = header.encode();
        for bit in 0..JOURNAL_HEADER_LEN * 8 {
            let mut damaged = whole;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(JournalHeader::decode(&damaged), Some(header), "bit {bit}");
        }
        assert_eq!(JournalHeader::decode(&[0; JOURNAL_HEADER_LEN]), None);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(0u8.., 0..600)) {
            let mut codec = JournalCodec::new(keys(Algorithm::Aes256, 1));
            let header = codec.new_header().unwrap();
            let _ = (JournalHeader::decode(&bytes), read_prefix(&bytes), looks_torn(&bytes));
            let _ = codec.open(&header, 0, &bytes, &mut Vec::new());
        }
    }
}
