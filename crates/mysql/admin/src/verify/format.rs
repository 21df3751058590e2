//! The parts of MySQL's files that say what is encrypted. They need no key.
//!
//! Fields of InnoDB's tablespaces and redo log since MySQL 8.0.30, and of binary logs; the tests of
//! `crates/mysql/faults` read the files of a real server of version 9.7 by them. Numbers are
//! big-endian.

use std::ops::Range;

/// Length of the first page that [`Space::read`] needs: that of the smallest page.
pub const SMALLEST_PAGE: usize = 1024;
/// Length of a block of the redo log.
pub const REDO_BLOCK: usize = 512;
/// Blocks at the start of a file of the redo log that are its header.
pub const REDO_HEADER_BLOCKS: usize = 4;
/// The block of that header with the log's key (`LOG_ENCRYPTION`).
const REDO_KEY: Range<usize> = 2 * REDO_BLOCK..3 * REDO_BLOCK;
/// Length of the start of a binary log that [`BinaryLog::read`] needs.
pub const BINARY_LOG_HEAD: usize = 512;

/// Page size that a tablespace's flags do not name.
const USUAL_PAGE: usize = 16 * 1024;
const SPACE_ID: Range<usize> = 34..38;
const PAGE_TYPE: Range<usize> = 24..26;
/// `FIL_PAGE_TYPE_FSP_HDR`: the type of the first page.
const SPACE_HEADER: u16 = 8;
/// The field `FSP_SIZE`.
const PAGES: Range<usize> = 46..50;
const FLAGS: Range<usize> = 54..58;
/// Start of the array of extent descriptors in the first page. The key lies behind it.
const EXTENTS_AT: usize = 150;
/// The key's magic words, with their versions.
const KEY_MAGICS: [&[u8]; 3] = [b"lCA", b"lCB", b"lCC"];
const UUID_LEN: usize = 36;
/// Pages that are encrypted: `FIL_PAGE_ENCRYPTED`, `FIL_PAGE_COMPRESSED_AND_ENCRYPTED`,
/// `FIL_PAGE_ENCRYPTED_RTREE`.
const ENCRYPTED_PAGES: [u16; 3] = [15, 16, 17];
/// The bit of a redo block's length field that says that the block is encrypted.
const REDO_ENCRYPTED: u16 = 0x8000;
const BINARY_LOG: &[u8] = b"\xfebin";
const ENCRYPTED_BINARY_LOG: &[u8] = b"\xfdbin";

/// The header of a tablespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// Its number.
    pub id: u32,
    /// Number of its pages.
    pub pages: u32,
    /// Length of a page in the file, in bytes.
    pub page_size: usize,
    /// True if new pages are encrypted.
    pub is_encrypted: bool,
    /// The name of the master key that wraps its key, if the header has a key.
    pub master_key: Option<String>,
}

/// What a page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// All bytes are 0.
    Empty,
    /// Its type says that it is encrypted.
    Encrypted,
    /// Anything else.
    Clear,
}

/// The head of a binary log or a relay log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BinaryLog {
    /// In the clear.
    Clear,
    /// With the name of the key that wraps its key.
    Encrypted(String),
}

impl Space {
    /// Reads the first page; at least [`SMALLEST_PAGE`] bytes, and the whole page for the key.
    /// `None` if it is not the first page of a tablespace.
    #[must_use]
    pub fn read(page: &[u8]) -> Option<Self> {
        if half(page, PAGE_TYPE)? != SPACE_HEADER {
            return None;
        }
        let flags = number(page, FLAGS)?;
        let (zipped, plain) = ((flags >> 1) & 0xF, (flags >> 6) & 0xF);
        let page_size = match (zipped, plain) {
            (0, 0) => USUAL_PAGE,
            (0, shift @ 3..=7) => 512 << shift,
            (shift @ 1..=5, _) => 512 << shift,
            _ => return None,
        };
        Some(Self {
            id: number(page, SPACE_ID)?,
            pages: number(page, PAGES)?,
            page_size,
            is_encrypted: flags & (1 << 13) != 0,
            master_key: page.get(EXTENTS_AT..).and_then(master_key),
        })
    }
}

impl Page {
    /// Returns what a page of a tablespace shows.
    #[must_use]
    pub fn of(page: &[u8]) -> Self {
        if page.iter().all(|byte| *byte == 0) {
            return Self::Empty;
        }
        match half(page, PAGE_TYPE) {
            Some(kind) if ENCRYPTED_PAGES.contains(&kind) => Self::Encrypted,
            _ => Self::Clear,
        }
    }

    /// Returns what a block of the redo log shows. Blocks that were never written are empty.
    #[must_use]
    pub fn of_redo_block(block: &[u8]) -> Self {
        let (hdr_no, len) = (number(block, 0..4).unwrap_or(0), half(block, 4..6).unwrap_or(0));
        match (hdr_no, len) {
            (0, _) | (_, 0) => Self::Empty,
            (_, len) if len & REDO_ENCRYPTED != 0 => Self::Encrypted,
            _ => Self::Clear,
        }
    }
}

impl BinaryLog {
    /// Reads the head of a file, [`BINARY_LOG_HEAD`] bytes if it has as many. `None` if it is not a
    /// binary log.
    #[must_use]
    pub fn read(head: &[u8]) -> Option<Self> {
        if head.starts_with(BINARY_LOG) {
            return Some(Self::Clear);
        }
        // A version, then fields of a type, a length and a value; type 1 is the key's name.
        let [_, 1, len, fields @ ..] = head.strip_prefix(ENCRYPTED_BINARY_LOG)? else {
            return Some(Self::Encrypted(String::new()));
        };
        let name = fields.get(..usize::from(*len)).unwrap_or_default();
        Some(Self::Encrypted(String::from_utf8_lossy(name).into_owned()))
    }
}

/// Returns true if the first block of a file of the redo log can be its header: a format's number,
/// the LSN of a block, and the name of the program that made it (`log0constants.h`).
#[must_use]
pub fn is_redo_header(header: &[u8]) -> bool {
    const MOST_FORMAT: u32 = 255;
    let format = number(header, 0..4).unwrap_or(0);
    let start = RedoHeader::read(header).map_or(0, |header| header.start_lsn);
    let is_named = header.get(16).is_some_and(u8::is_ascii_graphic);
    (1..=MOST_FORMAT).contains(&format)
        && start > 0
        && start.is_multiple_of(REDO_BLOCK as u64)
        && is_named
}

/// Returns the name of the master key that wraps the redo log's key, by the header of one of its
/// files, [`REDO_HEADER_BLOCKS`] blocks. `None` if its blocks are in the clear.
#[must_use]
pub fn redo_master_key(header: &[u8]) -> Option<String> {
    header.get(REDO_KEY).and_then(master_key)
}

/// A header of the redo log (`log0constants.h`): the position of the file's first block, and the
/// newest checkpoint that it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedoHeader {
    /// The LSN of the first block behind the header.
    pub start_lsn: u64,
    /// The LSN from which the server recovers.
    pub checkpoint_lsn: u64,
}

impl RedoHeader {
    /// Reads a header of [`REDO_HEADER_BLOCKS`] blocks; `None` if it is shorter.
    #[must_use]
    pub fn read(header: &[u8]) -> Option<Self> {
        let long = |at: usize| Some(u64::from_be_bytes(header.get(at..at + 8)?.try_into().ok()?));
        // Checkpoints are written to the second and the fourth block in turn.
        let checkpoint_lsn = long(REDO_BLOCK + 8)?.max(long(3 * REDO_BLOCK + 8)?);
        Some(Self { start_lsn: long(8)?, checkpoint_lsn })
    }
}

/// Returns true if a block of the redo log is the one at an LSN, and not from an earlier use of the
/// file.
#[must_use]
pub fn is_redo_block_at(block: &[u8], lsn: u64) -> bool {
    const NUMBERS: u64 = 1 << 30;
    let wanted = 1 + lsn / REDO_BLOCK as u64 % NUMBERS;
    // The highest bit marks the first block of a write.
    number(block, 0..4).is_some_and(|own| u64::from(own & (u32::MAX >> 1)) == wanted)
}

/// Returns the name of the master key that wraps a tablespace's key: magic, the key's number, and,
/// but in the first version, the server's UUID.
fn master_key(page: &[u8]) -> Option<String> {
    let is_magic = |at: &usize| KEY_MAGICS.contains(&&page[*at..*at + 3]);
    let at = (0..page.len().saturating_sub(3 + 4 + UUID_LEN)).find(is_magic)?;
    let id = number(page, at + 3..at + 7)?;
    let uuid = std::str::from_utf8(page.get(at + 7..at + 7 + UUID_LEN)?).ok()?;
    let is_uuid = uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uuid.then(|| format!("INNODBKey-{uuid}-{id}"))
}

fn number(bytes: &[u8], at: Range<usize>) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: Range<usize>) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "5b1e3d0a-8a3c-11f0-9d53-0242ac110002";

    #[test]
    fn the_redo_logs_key_is_in_its_third_block() {
        let mut header = vec![0; REDO_BLOCK * REDO_HEADER_BLOCKS];
        assert_eq!(redo_master_key(&header), None);
        let info = [b"lCC", &1_u32.to_be_bytes()[..], UUID.as_bytes()].concat();
        header[1072..1072 + info.len()].copy_from_slice(&info);
        assert_eq!(redo_master_key(&header), Some(format!("INNODBKey-{UUID}-1")));
        assert_eq!(redo_master_key(&header[..1100]), None);
        assert!(!is_redo_header(&header));
        header[3] = 6;
        header[8..16].copy_from_slice(&8192_u64.to_be_bytes());
        header[16..21].copy_from_slice(b"MySQL");
        assert!(is_redo_header(&header));
        assert!(!is_redo_header(&header[..1100]));
        for (at, byte) in [(0, 1), (3, 0), (15, 1), (14, 0), (16, 0)] {
            let mut other = header.clone();
            other[at] = byte;
            if at == 14 {
                other[8..16].fill(0);
            }
            assert!(!is_redo_header(&other), "{at}");
        }
    }

    fn first_page(flags: u32, key: bool) -> Vec<u8> {
        let mut page = vec![0; USUAL_PAGE];
        page[PAGE_TYPE].copy_from_slice(&SPACE_HEADER.to_be_bytes());
        page[SPACE_ID].copy_from_slice(&7_u32.to_be_bytes());
        page[FLAGS].copy_from_slice(&flags.to_be_bytes());
        if key {
            let info = [b"lCC", &3_u32.to_be_bytes()[..], UUID.as_bytes()].concat();
            page[10_390..10_390 + info.len()].copy_from_slice(&info);
        }
        page
    }

    #[test]
    fn a_first_page_names_size_and_key() {
        let space = |page: &[u8]| Space::read(page).unwrap();
        let plain = space(&first_page(0x4021, false));
        assert_eq!((plain.id, plain.page_size, plain.is_encrypted), (7, 16_384, false));
        assert_eq!(plain.master_key, None);
        let encrypted = space(&first_page(0x4021 | 1 << 13, true));
        assert!(encrypted.is_encrypted);
        assert_eq!(encrypted.master_key.unwrap(), format!("INNODBKey-{UUID}-3"));
        for (flags, size) in [(3 << 6, 4096), (7 << 6, 65_536), (4 << 1, 8192), (1 << 1, 1024)] {
            assert_eq!(space(&first_page(flags, false)).page_size, size);
        }
        assert_eq!(Space::read(&first_page(1 << 6, false)), None);
        assert_eq!(Space::read(b"short"), None);
        assert_eq!(Space::read(&b"text".repeat(9000)), None);
    }

    #[test]
    fn pages_blocks_and_logs_show_whether_they_are_encrypted() {
        let mut page = vec![0; 64];
        assert_eq!(Page::of(&page), Page::Empty);
        for (kind, wanted) in [(15, Page::Encrypted), (17, Page::Encrypted), (17_855, Page::Clear)]
        {
            page[PAGE_TYPE].copy_from_slice(&u16::to_be_bytes(kind));
            assert_eq!(Page::of(&page), wanted);
        }
        let block = |len: u16| [&9_u32.to_be_bytes()[..], &len.to_be_bytes()].concat();
        assert_eq!(Page::of_redo_block(&block(0x8200)), Page::Encrypted);
        assert_eq!(Page::of_redo_block(&block(0x0200)), Page::Clear);
        assert_eq!(Page::of_redo_block(&[0; 512]), Page::Empty);
        assert_eq!(BinaryLog::read(b"\xfebin...."), Some(BinaryLog::Clear));
        let named = BinaryLog::Encrypted("abc".to_owned());
        assert_eq!(BinaryLog::read(b"\xfdbin\x01\x01\x03abcrest"), Some(named));
        let cut = BinaryLog::Encrypted(String::new());
        assert_eq!(BinaryLog::read(b"\xfdbin\x01\x01\x09abc"), Some(cut));
        assert_eq!(BinaryLog::read(b"text"), None);
    }
}
