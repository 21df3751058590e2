//! The header area: two slots, each a complete header with its own sequence number and MAC.

use tdekit_key_crypto::{Algorithm, SecretBytes, hmac_sha256, sha256, verify_hmac_sha256};

use crate::keys::{Purpose, derive};
use crate::layout::{array, le32};
use crate::{HEADER_AREA_LEN, PageError, PageSize, SLOT_COUNT, SLOT_LEN};

/// First bytes of each slot.
pub const MAGIC: [u8; 16] = *b"tdekit database\0";
/// The first bytes of a new file, written alone and replaced by the first slot at the very end. A
/// file that begins with them and ends before the first page is a database whose creation was
/// interrupted.
pub const CREATION_MARK: [u8; 16] = *b"\xf7tdekit creating";
/// Number of bytes that a disk writes atomically.
const WORD_LEN: usize = 8;
/// The newest format version that this build reads and writes.
pub const FORMAT_VERSION: u16 = 3;
/// The version of a database without anything that an older build would have to know.
const FIRST_VERSION: u16 = 1;
/// The version of a database with features.
const FEATURES_VERSION: u16 = 2;
/// Offset of the features, and the only known bit.
const FEATURES_AT: usize = 54;
const FEATURE_FRESHNESS: u8 = 1;
/// Maximum number of DEK versions in a header.
pub const MAX_DEKS: usize = 8;
/// Maximum number of certificates for one DEK version.
pub const MAX_RECIPIENTS: usize = 16;

const FIXED_LEN: usize = 72;
const CHECK_LEN: usize = 32;
/// Bytes of a DEK version before its wrapped copies. In the last format version, the algorithm and
/// a zero are added.
const DEK_FIXED_LEN: usize = 46;
const DEK_ALGORITHM_LEN: usize = 2;

/// One version of the DEK, wrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DekEntry {
    /// Version, from 1.
    pub version: u32,
    /// Creation time, seconds since 1970-01-01 UTC.
    pub created_unix_s: u64,
    /// The algorithm used with it.
    pub algorithm: Algorithm,
    /// HKDF of the DEK: the key that a recipient unwraps must match it.
    pub commitment: [u8; 32],
    /// One wrapped copy per certificate, in the encoding of `docs/format/keystore.md`.
    pub recipients: Vec<Vec<u8>>,
}

/// A database header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Incremented with each slot written; the intact slot with the highest sequence is in force.
    pub sequence: u64,
    /// Random identity of the file, part of every AAD.
    pub file_id: [u8; 16],
    /// Algorithm of the version that new seals use; the header's MAC is under a key for it.
    pub algorithm: Algorithm,
    /// Page size at the time of writing: a hint, since page 1 authenticates its own size.
    pub page_size: PageSize,
    /// Version of the DEK that new seals use.
    pub current: u32,
    /// True if the seals of its pages are listed and anchored. This raises the format version,
    /// because a build that does not know it would write pages that the list lacks.
    pub freshness: bool,
    /// All versions that pages may name.
    pub deks: Vec<DekEntry>,
}

impl Header {
    /// Returns the entry of version `version`.
    pub fn dek(&self, version: u32) -> Option<&DekEntry> {
        self.deks.iter().find(|d| d.version == version)
    }

    /// Returns the format version that the header is written with.
    pub fn format_version(&self) -> u16 {
        if self.has_one_algorithm() {
            if self.freshness { FEATURES_VERSION } else { FIRST_VERSION }
        } else {
            FORMAT_VERSION
        }
    }

    /// Returns the algorithms that pages may be sealed with, beginning with that of the current
    /// version.
    pub fn algorithms(&self) -> Vec<Algorithm> {
        let mut found = vec![self.algorithm];
        for dek in &self.deks {
            if !found.contains(&dek.algorithm) {
                found.push(dek.algorithm);
            }
        }
        found
    }

    /// Returns true if all versions use the current one's algorithm, which builds expect that know
    /// no other format.
    fn has_one_algorithm(&self) -> bool {
        self.deks.iter().all(|dek| dek.algorithm == self.algorithm)
    }

    /// Encodes one slot, `SLOT_LEN` bytes, with checksum and MAC under the current DEK.
    pub fn encode_slot(&self, dek: &SecretBytes) -> Result<Vec<u8>, PageError> {
        let mut slot = self.encode_body()?;
        let checksum = sha256(&[&slot]);
        let mac = hmac_sha256(&self.mac_key(dek)?, &[&slot, &checksum]);
        slot.extend_from_slice(&checksum);
        slot.extend_from_slice(&mac);
        slot.resize(SLOT_LEN, 0);
        Ok(slot)
    }

    /// Encodes the whole header area: this header in slot 0 and, one sequence later, in slot 1.
    pub fn encode_area(&self, dek: &SecretBytes) -> Result<Vec<u8>, PageError> {
        let mut area = self.encode_slot(dek)?;
        let second = Self { sequence: self.sequence + 1, ..self.clone() };
        area.extend(second.encode_slot(dek)?);
        Ok(area)
    }

    /// Checks the slot's MAC and the key's commitment with the unwrapped current DEK.
    pub fn verify(&self, dek: &SecretBytes, area: &[u8]) -> Result<(), PageError> {
        let entry = self.dek(self.current).ok_or(PageError::KeyMismatch)?;
        if entry.algorithm != self.algorithm
            || commitment(dek, &self.file_id, entry.algorithm)? != entry.commitment
        {
            return Err(PageError::KeyMismatch);
        }
        let key = self.mac_key(dek)?;
        let authentic = area.chunks_exact(SLOT_LEN).take(SLOT_COUNT).any(|slot| {
            matches!(decode_slot(slot), Ok((header, end)) if header == *self
            && array::<32>(slot, end + CHECK_LEN).is_some_and(|mac| {
                verify_hmac_sha256(&key, &[&slot[..end + CHECK_LEN]], &mac)
            }))
        });
        if authentic { Ok(()) } else { Err(PageError::KeyMismatch) }
    }

    fn mac_key(&self, dek: &SecretBytes) -> Result<[u8; 32], PageError> {
        let mut key = [0; 32];
        derive(dek, &self.file_id, Purpose::HeaderMac, self.algorithm, &mut key)?;
        Ok(key)
    }

    fn encode_body(&self) -> Result<Vec<u8>, PageError> {
        let mut body = Vec::with_capacity(SLOT_LEN);
        body.extend_from_slice(&MAGIC);
        body.extend_from_slice(&self.format_version().to_le_bytes());
        body.push(self.algorithm.id());
        body.push(self.page_size.log2());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(&self.sequence.to_le_bytes());
        body.extend_from_slice(&self.file_id);
        body.extend_from_slice(&self.current.to_le_bytes());
        body.extend_from_slice(&count(self.deks.len(), MAX_DEKS, "keys in a header")?);
        body.resize(FIXED_LEN, 0);
        body[FEATURES_AT] = if self.freshness { FEATURE_FRESHNESS } else { 0 };
        for dek in &self.deks {
            body.extend_from_slice(&dek.version.to_le_bytes());
            body.extend_from_slice(&dek.created_unix_s.to_le_bytes());
            body.extend_from_slice(&dek.commitment);
            let recipients = dek.recipients.len();
            body.extend_from_slice(&count(recipients, MAX_RECIPIENTS, "certificates of a key")?);
            if !self.has_one_algorithm() {
                body.extend_from_slice(&[dek.algorithm.id(), 0]);
            }
            for recipient in &dek.recipients {
                body.extend_from_slice(&count(recipient.len(), 1024, "a wrapped key")?);
                body.extend_from_slice(recipient);
            }
        }
        let length = body.len();
        let available = SLOT_LEN - 2 * CHECK_LEN;
        if length > available {
            return Err(PageError::HeaderFull { needed: length, available });
        }
        let length = count(length, SLOT_LEN, "a header")?;
        body[20..22].copy_from_slice(&length);
        Ok(body)
    }
}

/// Returns the commitment stored beside a wrapped DEK: HKDF of the DEK under the purpose
/// "commitment".
pub fn commitment(
    dek: &SecretBytes,
    file_id: &[u8; 16],
    algorithm: Algorithm,
) -> Result<[u8; 32], PageError> {
    let mut out = [0; 32];
    derive(dek, file_id, Purpose::Commitment, algorithm, &mut out)?;
    Ok(out)
}

/// Returns the range of a slot's bytes with its sequence number and the file's ID.
pub const fn slot_id() -> std::ops::Range<usize> {
    24..48
}

/// Returns true if a file that starts with `bytes` (16 or more) is an encrypted database.
pub fn is_encrypted(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Returns true if a file is a database whose creation was interrupted: `bytes` are the whole file,
/// or the first of more than `HEADER_AREA_LEN`.
pub fn is_unfinished(bytes: &[u8]) -> bool {
    let torn_mark = bytes.len() >= WORD_LEN && CREATION_MARK.starts_with(bytes);
    torn_mark || (bytes.starts_with(&CREATION_MARK) && bytes.len() as u64 <= HEADER_AREA_LEN)
}

/// Reads the header area and returns the intact slot with the highest sequence number. Checks the
/// checksums but not the MAC, which needs the key (`Header::verify`).
pub fn read_slots(area: &[u8]) -> Result<Header, PageError> {
    let mut headers = read_all_slots(area)?;
    headers.truncate(1);
    headers.pop().ok_or(PageError::Header { reason: "no slot is whole" })
}

/// Returns the headers of all intact slots, the highest sequence number first; at least one.
pub fn read_all_slots(area: &[u8]) -> Result<Vec<Header>, PageError> {
    if (area.len() as u64) < HEADER_AREA_LEN {
        return Err(PageError::Header { reason: "the file ends inside the header" });
    }
    let mut headers = Vec::with_capacity(SLOT_COUNT);
    let mut failure = PageError::Header { reason: "no slot starts with the magic" };
    for slot in area.chunks_exact(SLOT_LEN).take(SLOT_COUNT) {
        match decode_slot(slot) {
            Ok((header, _)) => headers.push(header),
            Err(e @ PageError::FutureVersion { .. }) => failure = e,
            Err(e) if !matches!(failure, PageError::FutureVersion { .. }) => failure = e,
            Err(_) => {}
        }
    }
    headers.sort_by_key(|header| std::cmp::Reverse(header.sequence));
    if headers.is_empty() { Err(failure) } else { Ok(headers) }
}

/// Decodes one slot; also returns the length of its body.
pub fn decode_slot(slot: &[u8]) -> Result<(Header, usize), PageError> {
    let malformed = |reason| PageError::Header { reason };
    if !is_encrypted(slot) {
        return Err(malformed("the magic is missing"));
    }
    let length = array(slot, 20).map_or(0, |b| usize::from(u16::from_le_bytes(b)));
    let body = slot.get(..length).ok_or(malformed("the length points outside the slot"))?;
    let checksum: [u8; 32] =
        array(slot, length).ok_or(malformed("the length points outside the slot"))?;
    if length < FIXED_LEN || sha256(&[body]) != checksum {
        return Err(malformed("the checksum does not match"));
    }
    let version = array(body, 16).map_or(0, u16::from_le_bytes);
    if version > FORMAT_VERSION {
        return Err(PageError::FutureVersion { found: version, supported: FORMAT_VERSION });
    }
    let features = if version > FIRST_VERSION { body[FEATURES_AT] } else { 0 };
    if features & !FEATURE_FRESHNESS != 0 {
        return Err(malformed("it has features that this build does not know"));
    }
    let algorithm = algorithm_of(body[18])?;
    let page_size = PageSize::new(1u64.checked_shl(u32::from(body[19])).unwrap_or(0))?;
    let shared = (version < FORMAT_VERSION).then_some(algorithm);
    let deks = decode_deks(body, shared)?.ok_or(malformed("the key entries are malformed"))?;
    let header = Header {
        sequence: array(body, 24).map_or(0, u64::from_le_bytes),
        file_id: array(body, 32).ok_or(malformed("the body is short"))?,
        algorithm,
        page_size,
        current: le32(body, 48),
        freshness: features & FEATURE_FRESHNESS != 0,
        deks,
    };
    if header.dek(header.current).is_some_and(|dek| dek.algorithm != algorithm) {
        return Err(malformed("it names two algorithms for its current key"));
    }
    Ok((header, length))
}

fn algorithm_of(id: u8) -> Result<Algorithm, PageError> {
    let known = Algorithm::from_id(id).filter(|algorithm| algorithm.seals_pages());
    known.ok_or(PageError::UnknownAlgorithm { id })
}

/// Decodes the DEK versions, which all have the algorithm `shared`, or otherwise their own. `None`
/// if they are malformed.
fn decode_deks(body: &[u8], shared: Option<Algorithm>) -> Result<Option<Vec<DekEntry>>, PageError> {
    let u16_at = |at: usize| array(body, at).map(|b| usize::from(u16::from_le_bytes(b)));
    let Some(deks) = u16_at(52).filter(|&n| n <= MAX_DEKS) else { return Ok(None) };
    let mut at = FIXED_LEN;
    let mut entries = Vec::with_capacity(deks);
    for _ in 0..deks {
        let algorithm = match (shared, body.get(at + DEK_FIXED_LEN)) {
            (Some(algorithm), _) => algorithm,
            (None, Some(id)) => algorithm_of(*id)?,
            (None, None) => return Ok(None),
        };
        let fixed = DEK_FIXED_LEN + if shared.is_some() { 0 } else { DEK_ALGORITHM_LEN };
        let Some((entry, next)) = decode_dek(body, at, fixed, algorithm) else { return Ok(None) };
        entries.push(entry);
        at = next;
    }
    Ok((at == body.len()).then_some(entries))
}

/// Decodes the DEK version at `at`, whose wrapped copies begin `fixed` bytes later, and returns it
/// with the offset of its end.
fn decode_dek(
    body: &[u8],
    at: usize,
    fixed: usize,
    algorithm: Algorithm,
) -> Option<(DekEntry, usize)> {
    let u16_at = |at: usize| array(body, at).map(|b| usize::from(u16::from_le_bytes(b)));
    let version = u32::from_le_bytes(array(body, at)?);
    let created_unix_s = u64::from_le_bytes(array(body, at + 4)?);
    let commitment = array(body, at + 12)?;
    let count = u16_at(at + 44).filter(|&n| n <= MAX_RECIPIENTS)?;
    let mut next = at + fixed;
    let mut recipients = Vec::with_capacity(count);
    for _ in 0..count {
        let length = u16_at(next)?;
        recipients.push(body.get(next + 2..next + 2 + length)?.to_vec());
        next += 2 + length;
    }
    Some((DekEntry { version, created_unix_s, algorithm, commitment, recipients }, next))
}

fn count(n: usize, max: usize, what: &'static str) -> Result<[u8; 2], PageError> {
    match u16::try_from(n) {
        Ok(value) if n <= max => Ok(value.to_le_bytes()),
        _ => Err(PageError::Size { size: n as u64, what }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dek() -> SecretBytes {
        SecretBytes::from_slice(&[9; 32]).unwrap()
    }

    fn header() -> Header {
        let file_id = [3; 16];
        let commitment = commitment(&dek(), &file_id, Algorithm::Aes256).unwrap();
        Header {
            sequence: 1,
            file_id,
            algorithm: Algorithm::Aes256,
            page_size: PageSize::new(4096).unwrap(),
            current: 1,
            freshness: false,
            deks: vec![DekEntry {
                version: 1,
                created_unix_s: 1_700_000_000,
                algorithm: Algorithm::Aes256,
                commitment,
                recipients: vec![vec![1; 470], vec![2; 470]],
            }],
        }
    }

    #[test]
    fn the_intact_slot_with_the_highest_sequence_is_in_force() {
        let mut area = header().encode_area(&dek()).unwrap();
        let read = read_slots(&area).unwrap();
        assert_eq!(read, Header { sequence: 2, ..header() });
        read.verify(&dek(), &area).unwrap();
        area[SLOT_LEN + 40] ^= 1;
        let read = read_slots(&area).unwrap();
        assert_eq!(read, header());
        read.verify(&dek(), &area).unwrap();
        area[40] ^= 1;
        assert!(read_slots(&area).is_err());
    }

    #[test]
    fn only_the_mark_makes_an_unfinished_database() {
        for len in [8, 15, 16, 17, 8192, 16384] {
            let mut file = vec![7; len];
            let marked = len.min(CREATION_MARK.len());
            file[..marked].copy_from_slice(&CREATION_MARK[..marked]);
            assert!(is_unfinished(&file), "{len}");
            for foreign in [vec![0; len], vec![7; len], b"a text, and not ours".to_vec()] {
                assert!(!is_unfinished(&foreign));
            }
        }
        assert!(!is_unfinished(&[]));
        assert!(!is_unfinished(&CREATION_MARK[..7]));
        let mut longer = CREATION_MARK.to_vec();
        longer.resize(16385, 0);
        assert!(!is_unfinished(&longer));
        assert!(!is_unfinished(&header().encode_area(&dek()).unwrap()));
    }

    #[test]
    fn a_wrong_key_and_a_forged_slot_are_refused() {
        let area = header().encode_area(&dek()).unwrap();
        let read = read_slots(&area).unwrap();
        assert!(read.verify(&SecretBytes::from_slice(&[8; 32]).unwrap(), &area).is_err());
        let forged = Header { sequence: 9, page_size: PageSize::new(1024).unwrap(), ..header() };
        let mut area = area;
        let slot = forged.encode_slot(&SecretBytes::from_slice(&[8; 32]).unwrap()).unwrap();
        area[..SLOT_LEN].copy_from_slice(&slot);
        let read = read_slots(&area).unwrap();
        assert!(matches!(read.verify(&dek(), &area), Err(PageError::KeyMismatch)));
    }

    #[test]
    fn every_flipped_bit_leaves_the_same_header_or_none() {
        let mut area = header().encode_area(&dek()).unwrap();
        let (_, body) = decode_slot(&area).unwrap();
        for bit in 0..(body + 64) * 8 {
            area[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_slots(&area).unwrap().file_id, [3; 16], "bit {bit}");
            area[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn freshness_alone_raises_the_version() {
        for (freshness, version) in [(false, 1), (true, 2)] {
            let header = Header { freshness, ..header() };
            let mut slot = header.encode_slot(&dek()).unwrap();
            assert_eq!(slot[16..18], [version, 0]);
            let (read, length) = decode_slot(&slot).unwrap();
            assert_eq!(read, header);
            slot[FEATURES_AT] |= 2;
            let checksum = sha256(&[&slot[..length]]);
            slot[length..length + 32].copy_from_slice(&checksum);
            // The first version has zeros there that nobody reads.
            assert_eq!(decode_slot(&slot).is_ok(), !freshness);
        }
    }

    /// A header during a key change to another algorithm.
    fn changing() -> Header {
        let (algorithm, mut changing) = (Algorithm::Aegis256X2, header());
        let commitment = commitment(&dek(), &changing.file_id, algorithm).unwrap();
        let recipients = vec![vec![3; 470]];
        let created_unix_s = 1_800_000_000;
        let new = DekEntry { version: 2, created_unix_s, algorithm, commitment, recipients };
        changing.deks.push(new);
        Header { algorithm, current: 2, ..changing }
    }

    #[test]
    fn another_algorithm_raises_the_version_until_the_older_key_is_gone() {
        for freshness in [false, true] {
            let header = Header { freshness, ..changing() };
            let area = header.encode_area(&dek()).unwrap();
            assert_eq!(area[16..19], [3, 0, Algorithm::Aegis256X2.id()]);
            let read = read_slots(&area).unwrap();
            assert_eq!(read, Header { sequence: 2, ..header.clone() });
            read.verify(&dek(), &area).unwrap();
            assert_eq!(read.algorithms(), [Algorithm::Aegis256X2, Algorithm::Aes256]);
            let done = Header { deks: header.deks[1..].to_vec(), ..header };
            let slot = done.encode_slot(&dek()).unwrap();
            assert_eq!(slot[16..18], [1 + u8::from(freshness), 0]);
            assert_eq!(decode_slot(&slot).unwrap().0, done);
        }
    }

    #[test]
    fn a_changing_header_has_the_bytes_that_another_program_computes() {
        let vectors = include_str!("../../../../tests/vectors/tdekit-header.json");
        for freshness in [false, true] {
            let header = Header { freshness, ..changing() };
            let slot = header.encode_slot(&dek()).unwrap();
            let digest = hex::encode(sha256(&[&slot]));
            let vector = format!("\"features\": {}", u8::from(freshness));
            let vector = vectors.lines().find(|line| line.contains(&vector)).unwrap();
            assert!(vector.contains(&digest), "{digest}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_changing_header_is_noticed() {
        let mut area = changing().encode_area(&dek()).unwrap();
        area.copy_within(..SLOT_LEN, SLOT_LEN);
        let (_, body) = decode_slot(&area).unwrap();
        for bit in 0..(body + 64) * 8 {
            for slot in [0, SLOT_LEN] {
                area[slot + bit / 8] ^= 1 << (bit % 8);
            }
            let noticed = read_slots(&area).and_then(|read| read.verify(&dek(), &area));
            assert!(noticed.is_err(), "bit {bit}");
            for slot in [0, SLOT_LEN] {
                area[slot + bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn two_algorithms_for_the_current_key_and_foreign_ones_are_refused() {
        let mut slot = changing().encode_slot(&dek()).unwrap();
        let (_, length) = decode_slot(&slot).unwrap();
        for (at, id) in [(18, Algorithm::Aes256.id()), (FIXED_LEN + DEK_FIXED_LEN, 99)] {
            let known = std::mem::replace(&mut slot[at], id);
            let checksum = sha256(&[&slot[..length]]);
            slot[length..length + 32].copy_from_slice(&checksum);
            assert!(decode_slot(&slot).is_err(), "{at}");
            slot[at] = known;
        }
    }

    #[test]
    fn a_future_version_is_named() {
        let mut area = header().encode_area(&dek()).unwrap();
        for slot in area.chunks_exact_mut(SLOT_LEN) {
            let length = usize::from(u16::from_le_bytes(array(slot, 20).unwrap()));
            slot[16..18].copy_from_slice(&7u16.to_le_bytes());
            let checksum = sha256(&[&slot[..length]]);
            slot[length..length + 32].copy_from_slice(&checksum);
        }
        assert!(matches!(read_slots(&area), Err(PageError::FutureVersion { found: 7, .. })));
    }

    #[test]
    fn truncated_and_oversized_headers_are_errors() {
        let area = header().encode_area(&dek()).unwrap();
        for length in [0, 1, 15, 16, 100, SLOT_LEN, area.len() - 1] {
            assert!(read_slots(&area[..length]).is_err());
        }
        let mut big = header();
        big.deks[0].recipients = vec![vec![0; 1000]; 9];
        assert!(matches!(big.encode_area(&dek()), Err(PageError::HeaderFull { .. })));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(0u8.., 0..600),
                                       magic: bool) {
            if magic {
                bytes.splice(0..0, MAGIC);
            }
            let _ = decode_slot(&bytes);
            bytes.resize(SLOT_LEN * 2, 0);
            let _ = read_slots(&bytes);
        }
    }
}
