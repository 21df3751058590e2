//! The redo log, read for its encryption key, the checkpoint up to which every change has reached
//! the data files, and any later changes. The format is that of MariaDB 10.8 and newer
//! (`storage/innobase/include/log0log.h`, `mtr0types.h`, `log/log0recv.cc`).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use tdekit_mariadb::SYSTEM_KEY_ID;
use tdekit_mariadb::datafile::crc32c;

/// Name of the log in the server's directory.
pub(crate) const FILE_NAME: &str = "ib_logfile0";

/// Offset in the header of the key's number and version (`LOG_HEADER_CREATOR_END` of the server).
const KEY_AT: usize = 48;

/// Returns the version of key 1 that encrypts a log; `None` for a plain log, or one that cannot be
/// read here, such as another machine's.
pub(crate) fn key_version(path: &Path) -> Option<u32> {
    let mut header = [0; KEY_AT + 8];
    File::open(path).and_then(|mut file| file.read_exact(&mut header)).ok()?;
    let word = |at: usize| {
        header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
    };
    (word(KEY_AT)? == SYSTEM_KEY_ID).then(|| word(KEY_AT + 4)).flatten()
}

/// First bytes of a log, and of an encrypted one.
const PLAIN: [u8; 4] = *b"Phys";
const ENCRYPTED: [u8; 4] = [0xf0, 0x9f, 0x97, 0x9d];
/// Offset in the header of the LSN at which the file begins.
const FIRST_LSN_AT: usize = 8;
/// Offsets of the two checkpoints, and of the checksum in a checkpoint.
const CHECKPOINTS: [u64; 2] = [4096, 8192];
const CHECKPOINT_LEN: usize = 64;
const CHECKPOINT_CRC_AT: usize = 60;
/// Offset of the first mini-transaction, to which the log wraps when the file was filled.
const START: u64 = 12_288;
/// Maximum length of a mini-transaction (`MTR_SIZE_MAX`), and of its end: its mark, the IV of an
/// encrypted one, and the checksum.
const MAX_MINI_LEN: usize = 1 << 20;
const MAX_END_LEN: usize = 1 + 8 + 4;

/// A checkpoint: the data files have every change up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Its LSN. A page with a later one was changed since, and others may lack that change.
    pub(crate) lsn: u64,
    /// True if the log has no later change, as after a clean shutdown.
    pub(crate) at_rest: bool,
}

/// Returns the newest checkpoint of a log; `None` if there is no log, or one of another format.
pub(crate) fn checkpoint(path: &Path) -> Option<Checkpoint> {
    let file = File::open(path).ok()?;
    let len = file.metadata().ok()?.len();
    let mut header = [0; 16];
    file.read_exact_at(&mut header, 0).ok()?;
    let encrypted = match *header.first_chunk()? {
        PLAIN => false,
        ENCRYPTED => true,
        _ => return None,
    };
    let first_lsn = long(&header, FIRST_LSN_AT)?;
    let slots = CHECKPOINTS.iter().filter_map(|at| slot(&file, *at));
    let (lsn, end_lsn) = slots.filter(|(lsn, _)| *lsn >= first_lsn).max()?;
    let log = Log { file, capacity: len.checked_sub(START)?, first_lsn, encrypted };
    // The log records the checkpoint at `end_lsn`. At rest nothing else follows.
    let at_rest = lsn == end_lsn && log.mini(lsn).is_some_and(|end| log.mini(end).is_none());
    Some(Checkpoint { lsn, at_rest })
}

/// Returns a checkpoint's LSN and that of the log's record of it.
fn slot(file: &File, at: u64) -> Option<(u64, u64)> {
    let mut bytes = [0; CHECKPOINT_LEN];
    file.read_exact_at(&mut bytes, at).ok()?;
    let crc = crc32c(&bytes[..CHECKPOINT_CRC_AT]).to_be_bytes();
    let (lsn, end_lsn) = (long(&bytes, 0)?, long(&bytes, 8)?);
    (bytes[CHECKPOINT_CRC_AT..] == crc && end_lsn >= lsn).then_some((lsn, end_lsn))
}

struct Log {
    file: File,
    /// Number of bytes for mini-transactions.
    capacity: u64,
    first_lsn: u64,
    encrypted: bool,
}

impl Log {
    /// Returns the end of the mini-transaction that begins at `lsn`; `None` if there is none.
    fn mini(&self, lsn: u64) -> Option<u64> {
        let bytes = self.read(lsn, MAX_MINI_LEN + MAX_END_LEN).ok()?;
        let mut at = 0;
        while *bytes.get(at)? > 1 {
            at = record_end(&bytes, at)?;
        }
        // The mark shows whether the file was filled an even number of times.
        let mark = lsn.checked_add(at as u64)?;
        let turn = mark.checked_sub(self.first_lsn)?.checked_div(self.capacity)?;
        let nonce_len = if self.encrypted { 8 } else { 0 };
        let crc_at = at + 1 + nonce_len;
        let summed = [bytes.get(..at)?, bytes.get(at + 1..crc_at)?].concat();
        let is_whole = at > 0
            && u64::from(bytes[at]) == (turn + 1) % 2
            && bytes.get(crc_at..crc_at + 4)? == crc32c(&summed).to_be_bytes();
        is_whole.then(|| mark + (crc_at + 4 - at) as u64)
    }

    /// Reads the log's bytes from `lsn` on, at most `len`.
    fn read(&self, lsn: u64, len: usize) -> io::Result<Vec<u8>> {
        let len = u64::try_from(len).unwrap_or(u64::MAX).min(self.capacity);
        let at = (lsn - self.first_lsn).checked_rem(self.capacity).unwrap_or(0);
        let before_end = len.min(self.capacity - at);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let (head, tail) = bytes.split_at_mut(usize::try_from(before_end).unwrap_or(0));
        self.file.read_exact_at(head, START + at)?;
        self.file.read_exact_at(tail, START)?;
        Ok(bytes)
    }
}

/// Returns the end of the record that begins at `at`.
fn record_end(bytes: &[u8], at: usize) -> Option<usize> {
    let byte = |at: usize| bytes.get(at).map(|byte| usize::from(*byte));
    let short = byte(at)? & 15;
    if short > 0 {
        return Some(at + 1 + short);
    }
    let more = match byte(at + 1)? {
        lead @ 0..0x80 => lead,
        lead @ 0x80..0xc0 => 0x80 + ((lead & 0x3f) << 8 | byte(at + 2)?),
        lead @ 0xc0..0xe0 => 0x4080 + ((lead & 0x1f) << 16 | byte(at + 2)? << 8 | byte(at + 3)?),
        _ => return None,
    };
    Some(at + 1 + 15 + more)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a log with a capacity of 64 bytes that begins at LSN 1000, with a checkpoint at `lsn`.
    fn log(lsn: u64, encrypted: bool) -> Vec<u8> {
        let mut bytes = vec![0; 12_288 + 64];
        bytes[..4].copy_from_slice(if encrypted { &ENCRYPTED } else { &PLAIN });
        bytes[8..16].copy_from_slice(&1000_u64.to_be_bytes());
        let mut slot = [lsn.to_be_bytes(), lsn.to_be_bytes()].concat();
        slot.resize(60, 0);
        bytes[8192..8252].copy_from_slice(&slot);
        bytes[8252..8256].copy_from_slice(&crc32c(&slot).to_be_bytes());
        bytes
    }

    /// Writes a mini-transaction of one record; returns its end.
    fn mini(log: &mut [u8], lsn: u64, encrypted: bool) -> u64 {
        let record = [0xf3, 0, 0, 7];
        let nonce = &[9; 8][..if encrypted { 8 } else { 0 }];
        let turn = (lsn + 4 - 1000) / 64;
        let crc = crc32c(&[&record[..], nonce].concat()).to_be_bytes();
        let mark = [u8::from(turn.is_multiple_of(2))];
        let all = [&record[..], &mark[..], nonce, &crc[..]].concat();
        for (place, byte) in all.iter().enumerate() {
            let at = (lsn - 1000 + place as u64) % 64;
            log[12_288 + usize::try_from(at).unwrap()] = *byte;
        }
        lsn + all.len() as u64
    }

    #[test]
    fn the_checkpoint_tells_whether_the_log_is_at_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        assert_eq!(checkpoint(&path), None);
        // In the file's first pass, and across its end.
        for (lsn, encrypted) in [(1010, false), (1010, true), (1060, false), (1130, true)] {
            let mut bytes = log(lsn, encrypted);
            let told = |bytes: &[u8]| {
                std::fs::write(&path, bytes).unwrap();
                checkpoint(&path)
            };
            // Without the record of the checkpoint the log is not as a clean shutdown leaves it.
            assert_eq!(told(&bytes), Some(Checkpoint { lsn, at_rest: false }));
            let end = mini(&mut bytes, lsn, encrypted);
            assert_eq!(told(&bytes), Some(Checkpoint { lsn, at_rest: true }));
            mini(&mut bytes, end, encrypted);
            assert_eq!(told(&bytes), Some(Checkpoint { lsn, at_rest: false }));
            bytes[8200] ^= 1;
            assert_eq!(told(&bytes), None);
        }
    }

    #[test]
    fn the_version_stands_in_the_header() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        assert_eq!(key_version(&path), None);
        let mut header = vec![0; 512];
        for (bytes, version) in [([0; 8], None), ([0, 0, 0, 1, 0, 0, 1, 3], Some(259))] {
            header[48..56].copy_from_slice(&bytes);
            std::fs::write(&path, &header).unwrap();
            assert_eq!(key_version(&path), version);
        }
        std::fs::write(&path, &header[..55]).unwrap();
        assert_eq!(key_version(&path), None);
    }
}
