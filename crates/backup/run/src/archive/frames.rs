//! The frames of a write-ahead log as SQLite sees them
//! (<https://www.sqlite.org/fileformat2.html#walformat>).

/// Length of the log's header in bytes.
pub(super) const HEADER_LEN: usize = 32;
/// Length of a frame's header in bytes.
pub(super) const FRAME_HEADER_LEN: usize = 24;

/// The magic number without its last bit, which says that checksums read big-endian integers.
const MAGIC: u32 = 0x377F_0682;

/// The header of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogHeader {
    pub(super) page_size: u32,
    pub(super) salts: [u8; 8],
    pub(super) big_endian: bool,
    pub(super) checksum: [u32; 2],
}

impl LogHeader {
    /// Reads a header; `None` if it is not one, or its checksum does not match.
    pub(super) fn decode(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        let magic = be(bytes, 0);
        let header = Self {
            page_size: match be(bytes, 8) {
                1 => 65_536,
                size => size,
            },
            salts: *bytes.get(16..24)?.first_chunk()?,
            big_endian: magic & 1 != 0,
            checksum: [be(bytes, 24), be(bytes, 28)],
        };
        let sum = sum(header.big_endian, [0; 2], bytes.get(..24)?);
        (magic & !1 == MAGIC && sum == header.checksum).then_some(header)
    }
}

/// A frame whose salts and checksum hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) page: u32,
    /// Pages of the database after the transaction that the frame ends, else 0.
    pub(super) commit: u32,
    /// The checksum of the log up to and with this frame.
    pub(super) checksum: [u32; 2],
}

impl Frame {
    /// Reads the whole frame `bytes`, behind frames with the checksum `before`.
    pub(super) fn decode(header: &LogHeader, before: [u32; 2], bytes: &[u8]) -> Option<Self> {
        let (head, page) = bytes.split_at_checked(FRAME_HEADER_LEN)?;
        let checksum = sum(header.big_endian, before, head.get(..8)?);
        let checksum = sum(header.big_endian, checksum, page);
        let stored = [be(head, 16), be(head, 20)];
        let frame = Self { page: be(head, 0), commit: be(head, 4), checksum };
        let right = head.get(8..16)? == header.salts && stored == checksum && frame.page > 0;
        right.then_some(frame)
    }
}

/// Continues a checksum over `bytes`, a multiple of 8 (there, "Checksum algorithm").
pub(super) fn sum(big_endian: bool, before: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    // A loop of its own for each order: each byte of the log goes through it.
    match big_endian {
        true => sum_of(u32::from_be_bytes, before, bytes),
        false => sum_of(u32::from_le_bytes, before, bytes),
    }
}

fn sum_of(number: impl Fn([u8; 4]) -> u32, [mut a, mut b]: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    for pair in bytes.as_chunks::<8>().0 {
        let [p, q, r, s, t, u, v, w] = *pair;
        a = a.wrapping_add(number([p, q, r, s])).wrapping_add(b);
        b = b.wrapping_add(number([t, u, v, w])).wrapping_add(a);
    }
    [a, b]
}

fn be(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..at.saturating_add(4)).and_then(|bytes| bytes.first_chunk());
    field.copied().map_or(0, u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn a_log_of_sqlite_is_read_and_no_flipped_bit_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(
            "PRAGMA page_size=512; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;
             CREATE TABLE t(x); INSERT INTO t VALUES(1); INSERT INTO t VALUES(zeroblob(600));",
        )
        .unwrap();
        let log = std::fs::read(dir.path().join("a.db-wal")).unwrap();
        let header = LogHeader::decode(log.first_chunk().unwrap()).unwrap();
        assert_eq!(header.page_size, 512);
        let (mut checksum, mut commits) = (header.checksum, Vec::new());
        for frame in log[HEADER_LEN..].chunks(FRAME_HEADER_LEN + 512) {
            for bit in 0..frame.len() * 8 {
                let mut wrong = frame.to_vec();
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Frame::decode(&header, checksum, &wrong), None, "{bit}");
            }
            let found = Frame::decode(&header, checksum, frame).unwrap();
            checksum = found.checksum;
            commits.extend((found.commit > 0).then_some(found.commit));
        }
        assert_eq!(commits, [2, 2, 3]);
        for bit in 0..HEADER_LEN * 8 {
            let mut wrong: [u8; HEADER_LEN] = *log.first_chunk().unwrap();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(LogHeader::decode(&wrong), None, "{bit}");
        }
    }
}
