//! Freshness: the current seals of a database's pages, and the anchor that pins them.
//!
//! A list beside the database has the tag of each page: a snapshot, then one record per commit.
//! Each record's digest covers the digest before it. The anchor, kept separately in the key store,
//! has the last digest and, for a write-ahead log, the digest of its frames.

use tdekit_key_crypto::{TAG_LEN, sha256};

use crate::layout::{array, le32};
use crate::{PageError, RESERVE_LEN};

/// Bytes of one slot of the anchor: a sector. Its checksum reveals a torn slot.
pub const ANCHOR_SLOT_LEN: usize = 512;
/// Bytes of an anchor: two slots for the list, two for the log.
pub const ANCHOR_LEN: usize = 4 * ANCHOR_SLOT_LEN;
/// The length of a digest.
pub const DIGEST_LEN: usize = 32;
/// The tag of a page's seal.
pub type Tag = [u8; TAG_LEN];
/// A digest of the list or of a log.
pub type Digest = [u8; DIGEST_LEN];
/// Identifies one generation of a write-ahead log.
pub type LogId = [u8; 16];

const ANCHOR_MAGIC: [u8; 8] = *b"tdefrsh\x01";
const LIST_MAGIC: [u8; 16] = *b"tdekit seals\0\0\0\x01";
const LIST_HEAD_LEN: usize = 36;
const RECORD_HEAD_LEN: usize = 8;
const ENTRY_LEN: usize = 4 + TAG_LEN;
const CHECK_AT: usize = ANCHOR_SLOT_LEN - DIGEST_LEN;

/// Frames of a log that must exist: the first `frames`, with this digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogMark {
    /// The generation; zeros for none.
    pub id: LogId,
    /// Number of frames.
    pub frames: u32,
    /// `LogDigest` over them; zeros for no frame.
    pub digest: Digest,
}

/// A state of the list: its bytes up to `len`, and the digest over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListMark {
    /// Bytes.
    pub len: u64,
    /// Digest of the last record.
    pub digest: Digest,
}

/// The anchor's half that pins the main file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListAnchor {
    /// Incremented with each write.
    pub sequence: u64,
    /// Number of the file that has the list: 0 or 1.
    pub file: u8,
    /// Freshness is being switched: the header may say either.
    pub switching: bool,
    /// Bytes of the snapshot.
    pub snapshot_len: u64,
    /// The committed state.
    pub base: ListMark,
    /// The state after a transaction over several databases that may be committed: it is, unless
    /// its journal is rolled back.
    pub prepared: Option<ListMark>,
    /// Frames that pages of the main file come from.
    pub copied: LogMark,
}

/// The anchor's half that pins the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogAnchor {
    /// Incremented with each write.
    pub sequence: u64,
    /// The frames.
    pub mark: LogMark,
}

/// Returns the tag in a page's reserved bytes.
pub fn tag_of(seal: &[u8; RESERVE_LEN]) -> Tag {
    array(seal, RESERVE_LEN - 8 - TAG_LEN).unwrap_or_default()
}

/// Encodes a snapshot of the list: the tags of pages 1, 2, ...
pub fn encode_snapshot(file_id: &[u8; 16], tags: &[Tag]) -> Result<Vec<u8>, PageError> {
    let too_many = |_| PageError::Size { size: tags.len() as u64, what: "a list of seals" };
    let count = u32::try_from(tags.len()).map_err(too_many)?;
    let mut out = Vec::with_capacity(LIST_HEAD_LEN + tags.len() * TAG_LEN);
    out.extend_from_slice(&LIST_MAGIC);
    out.extend_from_slice(file_id);
    out.extend_from_slice(&count.to_le_bytes());
    for tag in tags {
        out.extend_from_slice(tag);
    }
    Ok(out)
}

/// Returns true if a file with this beginning is a list of seals, of any version, or an empty one
/// whose creation was interrupted.
#[must_use]
pub fn is_list(head: &[u8]) -> bool {
    head.is_empty() || head.starts_with(b"tdekit seals")
}

/// Returns the tags of a snapshot; `None` if it is not one of this file with exactly this length.
pub fn decode_snapshot(file_id: &[u8; 16], bytes: &[u8]) -> Option<Vec<Tag>> {
    let tags = bytes.get(LIST_HEAD_LEN..)?;
    let head = bytes.starts_with(&LIST_MAGIC) && array::<16>(bytes, 16)? == *file_id;
    let (tags, rest) = tags.as_chunks::<TAG_LEN>();
    let whole = rest.is_empty() && usize::try_from(le32(bytes, 32)).ok() == Some(tags.len());
    (head && whole).then(|| tags.to_vec())
}

/// Encodes a record: the file now has `pages` pages, with the new tags `tags`.
pub fn encode_record(
    pages: u32,
    tags: impl ExactSizeIterator<Item = (u32, Tag)>,
) -> Result<Vec<u8>, PageError> {
    let too_many = |_| PageError::Size { size: u64::from(u32::MAX), what: "a record of seals" };
    let count = u32::try_from(tags.len()).map_err(too_many)?;
    let mut out = Vec::with_capacity(RECORD_HEAD_LEN + tags.len() * ENTRY_LEN);
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&pages.to_le_bytes());
    for (page, tag) in tags {
        out.extend_from_slice(&page.to_le_bytes());
        out.extend_from_slice(&tag);
    }
    Ok(out)
}

/// Applies the record at the start of `bytes` to `tags`, and returns its length; `None` if it is
/// incomplete or names a page that the file does not have.
pub fn apply_record(bytes: &[u8], tags: &mut Vec<Tag>) -> Option<usize> {
    let head = bytes.get(..RECORD_HEAD_LEN)?;
    let (count, pages) = (le32(head, 0), le32(head, 4));
    let len = usize::try_from(count).ok()?.checked_mul(ENTRY_LEN)?.checked_add(RECORD_HEAD_LEN)?;
    let entries = bytes.get(RECORD_HEAD_LEN..len)?;
    // New pages have an entry each, so the list grows by no more entries than the record has.
    let pages = usize::try_from(pages).ok()?;
    if pages > tags.len().checked_add(usize::try_from(count).ok()?)? {
        return None;
    }
    tags.resize(pages, Tag::default());
    for entry in entries.chunks_exact(ENTRY_LEN) {
        let at = usize::try_from(le32(entry, 0)).ok()?.checked_sub(1)?;
        *tags.get_mut(at)? = array(entry, 4)?;
    }
    Some(len)
}

/// Returns the digest of a snapshot.
pub fn snapshot_digest(snapshot: &[u8]) -> Digest {
    sha256(&[b"tdekit snapshot", snapshot])
}

/// Returns the digest of the list with one more record.
pub fn record_digest(before: &Digest, record: &[u8]) -> Digest {
    sha256(&[b"tdekit record", before, record])
}

/// Returns the identifier of a log: a digest of SQLite's header of it.
pub fn log_id(header: &[u8]) -> LogId {
    array(&sha256(&[b"tdekit log", header]), 0).unwrap_or_default()
}

/// Returns the digest of a log with one more frame: its sealed header and the seal of its page.
pub fn frame_digest(before: &Digest, prefix: &[u8], seal: &[u8; RESERVE_LEN]) -> Digest {
    sha256(&[b"tdekit frame", before, prefix, seal])
}

/// Returns the end of a rollback journal's salt, which lets it undo only what follows this state.
pub fn journal_mark(base: &Digest) -> [u8; 8] {
    array(&sha256(&[b"tdekit journal", base]), 0).unwrap_or_default()
}

fn put_log(out: &mut [u8], mark: &LogMark) {
    out[..16].copy_from_slice(&mark.id);
    out[16..20].copy_from_slice(&mark.frames.to_le_bytes());
    out[20..52].copy_from_slice(&mark.digest);
}

fn get_log(bytes: &[u8], at: usize) -> Option<LogMark> {
    let (id, digest) = (array(bytes, at)?, array(bytes, at + 20)?);
    Some(LogMark { id, frames: le32(bytes, at + 16), digest })
}

fn put_list(out: &mut [u8], mark: &ListMark) {
    out[..8].copy_from_slice(&mark.len.to_le_bytes());
    out[8..40].copy_from_slice(&mark.digest);
}

fn get_list(bytes: &[u8], at: usize) -> Option<ListMark> {
    Some(ListMark { len: u64::from_le_bytes(array(bytes, at)?), digest: array(bytes, at + 8)? })
}

fn slot(kind: u8, file_id: &[u8; 16], sequence: u64) -> [u8; ANCHOR_SLOT_LEN] {
    let mut out = [0; ANCHOR_SLOT_LEN];
    out[..8].copy_from_slice(&ANCHOR_MAGIC);
    out[8] = kind;
    out[16..24].copy_from_slice(&sequence.to_le_bytes());
    out[24..40].copy_from_slice(file_id);
    out
}

fn finish(mut slot: [u8; ANCHOR_SLOT_LEN]) -> [u8; ANCHOR_SLOT_LEN] {
    let check = sha256(&[&slot[..CHECK_AT]]);
    slot[CHECK_AT..].copy_from_slice(&check);
    slot
}

fn is_whole(slot: &[u8], kind: u8, file_id: &[u8; 16]) -> bool {
    slot.starts_with(&ANCHOR_MAGIC)
        && slot.get(8) == Some(&kind)
        && array::<16>(slot, 24).as_ref() == Some(file_id)
        && slot.get(..CHECK_AT).map(|body| sha256(&[body])) == array(slot, CHECK_AT)
}

impl ListAnchor {
    /// Encodes a slot, and returns its offset in the anchor.
    pub fn encode(&self, file_id: &[u8; 16]) -> (u64, [u8; ANCHOR_SLOT_LEN]) {
        let mut out = slot(1, file_id, self.sequence);
        out[9] = self.file;
        out[10] = u8::from(self.prepared.is_some());
        out[11] = u8::from(self.switching);
        out[40..48].copy_from_slice(&self.snapshot_len.to_le_bytes());
        put_list(&mut out[48..88], &self.base);
        put_list(&mut out[88..128], &self.prepared.unwrap_or_default());
        put_log(&mut out[128..180], &self.copied);
        ((self.sequence % 2) * ANCHOR_SLOT_LEN as u64, finish(out))
    }

    /// Returns the later of the intact slots.
    pub fn decode(anchor: &[u8], file_id: &[u8; 16]) -> Option<Self> {
        let slots = anchor.chunks_exact(ANCHOR_SLOT_LEN).take(2);
        let whole = slots.filter(|slot| is_whole(slot, 1, file_id));
        whole.filter_map(Self::read).max_by_key(|found| found.sequence)
    }

    fn read(slot: &[u8]) -> Option<Self> {
        Some(Self {
            sequence: u64::from_le_bytes(array(slot, 16)?),
            file: slot[9] & 1,
            switching: slot[11] == 1,
            snapshot_len: u64::from_le_bytes(array(slot, 40)?),
            base: get_list(slot, 48)?,
            prepared: if slot[10] == 1 { Some(get_list(slot, 88)?) } else { None },
            copied: get_log(slot, 128)?,
        })
    }
}

impl LogAnchor {
    /// Encodes a slot, and returns its offset in the anchor.
    pub fn encode(&self, file_id: &[u8; 16]) -> (u64, [u8; ANCHOR_SLOT_LEN]) {
        let mut out = slot(2, file_id, self.sequence);
        put_log(&mut out[40..92], &self.mark);
        ((2 + self.sequence % 2) * ANCHOR_SLOT_LEN as u64, finish(out))
    }

    /// Returns the later of the intact slots.
    pub fn decode(anchor: &[u8], file_id: &[u8; 16]) -> Option<Self> {
        let slots = anchor.chunks_exact(ANCHOR_SLOT_LEN).skip(2).take(2);
        let whole = slots.filter(|slot| is_whole(slot, 2, file_id));
        whole.filter_map(Self::read).max_by_key(|found| found.sequence)
    }

    fn read(slot: &[u8]) -> Option<Self> {
        let sequence = u64::from_le_bytes(array(slot, 16)?);
        Some(Self { sequence, mark: get_log(slot, 40)? })
    }
}

/// Encodes a new anchor: the list's snapshot in file 0, and no log.
pub fn encode_anchor(
    file_id: &[u8; 16],
    snapshot: &[u8],
    sequence: u64,
    switching: bool,
) -> Vec<u8> {
    let base = ListMark { len: snapshot.len() as u64, digest: snapshot_digest(snapshot) };
    let list = ListAnchor {
        sequence,
        file: 0,
        switching,
        snapshot_len: base.len,
        base,
        prepared: None,
        copied: LogMark::default(),
    };
    let log = LogAnchor { sequence, mark: LogMark::default() };
    let mut out = vec![0; ANCHOR_LEN];
    for (at, slot) in [list.encode(file_id), log.encode(file_id)] {
        let at = usize::try_from(at).unwrap_or(0);
        out[at..at + ANCHOR_SLOT_LEN].copy_from_slice(&slot);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: [u8; 16] = [3; 16];

    fn put(anchor: &mut [u8], at: u64, slot: &[u8]) {
        let at = usize::try_from(at).unwrap();
        anchor[at..at + slot.len()].copy_from_slice(slot);
    }

    fn anchor() -> ListAnchor {
        ListAnchor {
            sequence: 7,
            file: 1,
            switching: true,
            snapshot_len: 100,
            base: ListMark { len: 200, digest: [1; 32] },
            prepared: Some(ListMark { len: 300, digest: [2; 32] }),
            copied: LogMark { id: [4; 16], frames: 5, digest: [6; 32] },
        }
    }

    #[test]
    fn the_later_whole_slot_counts_and_no_flipped_bit_passes() {
        let mut bytes = vec![0; ANCHOR_LEN];
        let old = ListAnchor { sequence: 6, prepared: None, ..anchor() };
        for (at, slot) in [anchor().encode(&FILE), old.encode(&FILE)] {
            put(&mut bytes, at, &slot);
        }
        assert_eq!(ListAnchor::decode(&bytes, &FILE), Some(anchor()));
        assert_eq!(ListAnchor::decode(&bytes, &[9; 16]), None);
        for bit in 0..ANCHOR_SLOT_LEN * 8 {
            let at = ANCHOR_SLOT_LEN + bit / 8;
            bytes[at] ^= 1 << (bit % 8);
            assert_eq!(ListAnchor::decode(&bytes, &FILE), Some(old), "bit {bit}");
            bytes[at] ^= 1 << (bit % 8);
        }
        let mark = LogMark { id: [1; 16], frames: 9, digest: [8; 32] };
        let log = LogAnchor { sequence: 4, mark };
        let (at, slot) = log.encode(&FILE);
        put(&mut bytes, at, &slot);
        assert_eq!(LogAnchor::decode(&bytes, &FILE), Some(log));
    }

    #[test]
    fn a_list_is_its_snapshot_and_its_records() {
        let snapshot = encode_snapshot(&FILE, &[[1; 16], [2; 16]]).unwrap();
        let mut tags = decode_snapshot(&FILE, &snapshot).unwrap();
        assert_eq!(tags, [[1; 16], [2; 16]]);
        assert_eq!(decode_snapshot(&[9; 16], &snapshot), None);
        assert_eq!(decode_snapshot(&FILE, &snapshot[..snapshot.len() - 1]), None);
        let entries = [(2, [7; 16]), (3, [8; 16])];
        let record = encode_record(3, entries.into_iter()).unwrap();
        assert_eq!(apply_record(&record, &mut tags), Some(record.len()));
        assert_eq!(tags, [[1; 16], [7; 16], [8; 16]]);
        let cut = encode_record(1, std::iter::empty()).unwrap();
        assert_eq!(apply_record(&cut, &mut tags), Some(8));
        assert_eq!(tags, [[1; 16]]);
    }

    #[test]
    fn records_of_foreign_bytes_are_refused() {
        let mut tags = vec![[1; 16]];
        for bytes in [&[][..], &[1; 7], &[255; 8], &[255; 400]] {
            assert_eq!(apply_record(bytes, &mut tags), None);
        }
        let grows = encode_record(9, [(9, [0; 16])].into_iter()).unwrap();
        assert_eq!(apply_record(&grows, &mut tags), None);
        let outside = encode_record(1, [(0, [0; 16])].into_iter()).unwrap();
        assert_eq!(apply_record(&outside, &mut tags), None);
    }

    #[test]
    fn digests_depend_on_all_that_came_before() {
        let (a, b) = (record_digest(&[0; 32], b"x"), record_digest(&[1; 32], b"x"));
        assert_ne!(a, b);
        assert_ne!(record_digest(&a, b"y"), record_digest(&b, b"y"));
        assert_ne!(journal_mark(&a), journal_mark(&b));
        assert_ne!(log_id(&[1; 32]), log_id(&[2; 32]));
        assert_ne!(frame_digest(&a, &[1; 72], &[2; 48]), frame_digest(&a, &[1; 72], &[3; 48]));
    }
}
