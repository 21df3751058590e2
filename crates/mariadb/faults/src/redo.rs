//! The redo log as seen with the file but without a key: mini-transactions, their records' kinds
//! and lengths, their encrypted parts, IVs and checksums (storage/innobase/log/log0crypt.cc,
//! log0recv.cc, mtr/mtr0mtr.cc of MariaDB 10.11).

use std::ops::Range;
use std::path::Path;

use crate::page::crc32c;

/// Offset of the first mini-transaction, to which the log wraps when the file was filled.
const START: usize = 12_288;
/// Offsets of the two checkpoints.
const CHECKPOINTS: [usize; 2] = [4096, 8192];
/// Offset in the header of the key's version.
const KEY_VERSION_AT: usize = 52;
/// The first bytes of a log whose mini-transactions are each encrypted as one.
const ENCRYPTED: [u8; 4] = [0xf0, 0x9f, 0x97, 0x9d];
/// Length of the IV after the mini-transaction.
const NONCE_BYTES: usize = 8;
const CRC_BYTES: usize = 4;

/// A redo log, read completely.
pub struct RedoLog {
    pub bytes: Vec<u8>,
    encrypted: bool,
}

/// A mini-transaction in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mini {
    /// From its first record to its end mark.
    pub records: Range<usize>,
    /// Ranges of the encrypted bytes: each record's content, without kind and length.
    pub contents: Vec<Range<usize>>,
    /// Kind and length of the first record, and the bytes after the end mark: the IV.
    pub iv: Vec<u8>,
    /// Offset of its checksum.
    crc_at: usize,
}

impl RedoLog {
    /// Reads a log; a plain one is read as well, for comparison.
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let encrypted = bytes[..4] == ENCRYPTED;
        assert!(encrypted || bytes[..4] == *b"Phys", "another format of the log");
        Self { bytes, encrypted }
    }

    /// Returns the version of key 1 that encrypts the log.
    pub fn key_version(&self) -> u32 {
        self.number(KEY_VERSION_AT)
    }

    /// Returns the mini-transactions from the newest checkpoint on. The log must not have been
    /// filled since its creation.
    pub fn minis(&self) -> Vec<Mini> {
        let long = |at: usize| u64::from_be_bytes(self.bytes[at..at + 8].try_into().unwrap());
        let first = long(8);
        let lsn = CHECKPOINTS.iter().map(|at| long(*at)).max().unwrap();
        let mut at = START + usize::try_from(lsn - first).unwrap();
        assert!(at < self.bytes.len(), "the log was filled");
        let mut found = Vec::new();
        while let Some(mini) = self.mini(at) {
            at = mini.crc_at + CRC_BYTES;
            found.push(mini);
        }
        found
    }

    /// Returns the mini-transaction at an offset, if its checksum is right.
    fn mini(&self, start: usize) -> Option<Mini> {
        let (mut at, mut contents) = (start, Vec::new());
        let mut first = 0;
        while *self.bytes.get(at)? > 1 {
            let (content, len) = self.length(at)?;
            if contents.is_empty() {
                first = content - at;
            }
            contents.push(content..content + len);
            at = content + len;
        }
        let records = start..at;
        let nonce = at + 1..at + 1 + if self.encrypted { NONCE_BYTES } else { 0 };
        let iv = [self.bytes.get(start..start + first)?, self.bytes.get(nonce.clone())?].concat();
        let mini = Mini { records, contents, iv, crc_at: nonce.end };
        let whole = self.bytes.get(mini.crc_at..mini.crc_at + CRC_BYTES)?;
        (!mini.contents.is_empty() && whole == self.crc(&mini)).then_some(mini)
    }

    /// Returns the offset of a record's content, and its length.
    fn length(&self, at: usize) -> Option<(usize, usize)> {
        let short = usize::from(self.bytes.get(at)? & 15);
        if short > 0 {
            return Some((at + 1, short));
        }
        let byte = |more: usize| self.bytes.get(at + 1 + more).map(|byte| usize::from(*byte));
        let lead = byte(0)?;
        let (len, number) = match lead {
            0..0x80 => (1, lead),
            0x80..0xc0 => (2, 0x80 + ((lead & 0x3f) << 8 | byte(1)?)),
            0xc0..0xe0 => (3, 0x4080 + ((lead & 0x1f) << 16 | byte(1)? << 8 | byte(2)?)),
            _ => return None,
        };
        Some((at + 1 + len, (number + 15).checked_sub(len)?))
    }

    fn crc(&self, mini: &Mini) -> [u8; CRC_BYTES] {
        // The end mark is excluded: it shows how often the log was filled.
        let nonce = &self.bytes[mini.records.end + 1..mini.crc_at];
        crc32c(&[&self.bytes[mini.records.clone()], nonce].concat()).to_be_bytes()
    }

    /// Returns the encrypted part of a mini-transaction, as one stream.
    pub fn content(&self, mini: &Mini) -> Vec<u8> {
        mini.contents.iter().flat_map(|range| &self.bytes[range.clone()]).copied().collect()
    }

    /// Changes bits of that stream from `offset` on, and corrects the checksum.
    pub fn flip(&mut self, mini: &Mini, offset: usize, bits: &[u8]) {
        let places: Vec<usize> = mini.contents.iter().cloned().flatten().collect();
        for (place, bits) in places[offset..].iter().zip(bits) {
            self.bytes[*place] ^= bits;
        }
        let crc = self.crc(mini);
        self.bytes[mini.crc_at..mini.crc_at + CRC_BYTES].copy_from_slice(&crc);
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }
}

impl Mini {
    /// Returns kinds and lengths, which are in the clear.
    pub fn shape(&self, log: &RedoLog) -> Vec<(u8, usize)> {
        let mut at = self.records.start;
        let mut shape = Vec::new();
        for content in &self.contents {
            shape.push((log.bytes[at] & 0xf0, content.len()));
            at = content.end;
        }
        shape
    }
}
