//! One function for each parser of stored bytes and of a client's, to be called with arbitrary
//! bytes.
//!
//! A function returns if the parser keeps its promise and panics if it does not: no panic of its
//! own, no memory beyond its limits, decoded values encode to the same bytes, and a sealed unit
//! with any bit changed does not open. libFuzzer calls them (`fuzz_targets/`), and so do the tests
//! of this package on stable Rust.
// A target reports a finding by a panic, which libFuzzer and the test harness expect.
#![allow(clippy::panic, clippy::unwrap_used)]

mod binlog;
mod datafile;
mod media;
mod mysql;
mod script_output;
pub mod seeds;
mod tsql;
mod wire;
mod wire_seeds;

pub use binlog::binlog;
pub use datafile::datafile;
pub use media::{media, media_block};
pub use mysql::{mysql_files, mysql_keyring};
pub use script_output::script_output;
pub use tsql::tsql;
pub use wire::{tds_login, tds_packet, tds_rpc, tds_token};

use tdekit_key_crypto::{Algorithm, SecretBytes, sha256};
use tdekit_key_store::{AuditRecord, FORMAT_VERSION, MAGIC, StoreFile, WrappedDek};
use tdekit_sqlite_page::fresh;
use tdekit_sqlite_page::header::{self, Header, decode_slot, read_slots};
use tdekit_sqlite_page::journal::{
    EXTENT_PREFIX_LEN, ExtentPlace, JournalCodec, JournalHeader, looks_torn, read_prefix,
};
use tdekit_sqlite_page::page::{PageCodec, seal_of};
use tdekit_sqlite_page::wal::{FRAME_PREFIX_LEN, FrameHeader, WAL_HEADER_AREA_LEN, WalCodec};
use tdekit_sqlite_page::{DekVersion, FileKeys, PageSize, RESERVE_LEN, SLOT_LEN};

const DIGEST_BYTES: usize = 32;
const MAC_BYTES: usize = 32;
/// Position of the file's length in a store file's header.
const STORE_LENGTH: std::ops::Range<usize> = 20..24;
/// Position of the body's length in a database header's slot.
const SLOT_LENGTH: std::ops::Range<usize> = 20..22;

/// A key store: the bytes unchanged, and as the content of a file with a correct frame.
pub fn keystore(data: &[u8]) {
    keystore_file(data);
    for version in 1..=FORMAT_VERSION {
        keystore_file(&framed_keystore(data, version));
    }
}

/// Returns a store file around `data`: a correct length, a correct digest, and an arbitrary MAC.
fn framed_keystore(data: &[u8], version: u16) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&version.to_le_bytes());
    file.extend_from_slice(&[0; 6]);
    file.extend_from_slice(data);
    let length = u32::try_from(file.len() + DIGEST_BYTES + MAC_BYTES).unwrap_or(u32::MAX);
    file[STORE_LENGTH].copy_from_slice(&length.to_le_bytes());
    let digest = sha256(&[&file]);
    file.extend_from_slice(&digest);
    file.extend_from_slice(&[0xA5; MAC_BYTES]);
    file
}

fn keystore_file(bytes: &[u8]) {
    let Ok(file) = StoreFile::decode(bytes) else { return };
    let (_, mac) = StoreFile::split_mac(bytes).unwrap();
    let again = file.encode(|_| Ok(*mac)).unwrap();
    assert!(again == bytes, "a store that decodes encodes to the same bytes");
}

/// A line of the audit log.
pub fn audit_log(data: &[u8]) {
    let Ok((record, mac)) = AuditRecord::decode(data) else { return };
    // The original may have been written differently, and encode to a line that is too long.
    let Ok(again) = record.encode(&mac) else { return };
    let line = again.strip_suffix(b"\n").unwrap();
    assert!(!line.contains(&b'\n'), "an entry is one line");
    assert_eq!(AuditRecord::decode(line).unwrap(), (record, mac));
}

/// A wrapped key.
pub fn wrapped_dek(data: &[u8]) {
    let Ok((wrapped, length)) = WrappedDek::decode(data) else { return };
    assert_eq!(wrapped.encode().unwrap(), data[..length]);
    assert_eq!(wrapped.encoded_len(), length);
}

/// The header of a database: the bytes unchanged, and as the body of a slot with a correct
/// checksum.
pub fn header(data: &[u8]) {
    database_header(data);
    database_header(&framed_slot(data));
}

/// Returns a header slot around `data`: a correct length and a correct checksum, without a MAC.
fn framed_slot(data: &[u8]) -> Vec<u8> {
    let mut slot = header::MAGIC.to_vec();
    slot.extend_from_slice(data);
    slot.truncate(SLOT_LEN - 2 * DIGEST_BYTES);
    if slot.len() >= SLOT_LENGTH.end {
        let length = u16::try_from(slot.len()).unwrap();
        slot[SLOT_LENGTH].copy_from_slice(&length.to_le_bytes());
    }
    let checksum = sha256(&[&slot]);
    slot.extend_from_slice(&checksum);
    slot
}

fn database_header(slot: &[u8]) {
    let mut area = slot.to_vec();
    area.resize(2 * SLOT_LEN, 0);
    let of_area = read_slots(&area);
    let Ok((header, length)) = decode_slot(slot) else { return };
    assert!(length <= slot.len());
    if slot.len() <= SLOT_LEN {
        assert_eq!(of_area.unwrap(), header, "the area has this one slot");
    }
    assert!(header.verify(&dek(), &area).is_err(), "nobody signed it with this key");
    // Decoding accepts longer wrapped keys than are written: a newer program may add data.
    if let Ok(again) = header.encode_slot(&dek()) {
        assert_eq!(decode_slot(&again).unwrap().0, Header { ..header });
    }
}

/// A page: nothing opens except what was sealed, with any change.
pub fn page(data: &[u8]) {
    let (number, change) = split_number(data);
    for algorithm in ALGORITHMS {
        let mut codec = PageCodec::new(keys(algorithm));
        let mut plain = vec![7; 1024];
        plain[1024 - RESERVE_LEN..].fill(0);
        let (mut sealed, mut opened) = (vec![0; 1024], vec![1; 1024]);
        codec.seal(number, &plain, &mut sealed).unwrap();
        let changed = change_bytes(&mut sealed, change);
        let result = codec.open(number, &sealed, &mut opened);
        assert_eq!(result.is_err(), changed, "{algorithm:?}");
        if changed {
            assert!(opened.iter().all(|byte| *byte == 0), "no unauthenticated byte");
        } else {
            assert_eq!(opened, plain);
        }
    }
    // As a page of any size that the format has, and of others.
    let mut codec = PageCodec::new(keys(Algorithm::Aes256));
    let mut opened = vec![0; change.len()];
    assert!(codec.open(number, change, &mut opened).is_err());
}

/// A write-ahead log: its header and a frame, unchanged and changed.
pub fn wal(data: &[u8]) {
    let (frame, change) = split_number(data);
    let mut codec = WalCodec::new(keys(Algorithm::Aes256));
    assert_eq!(codec.open_header(change), None);
    let sealed_page = page_of(1024);
    let seal = *seal_of(&sealed_page).unwrap();
    assert!(codec.open_frame(frame, change, &seal).is_err());

    let mut area = codec.seal_header(&[3; 32]).unwrap();
    change_bytes(&mut area, change);
    assert!(matches!(codec.open_header(&area), None | Some([3, ..])));
    assert_eq!(area.len(), WAL_HEADER_AREA_LEN);

    let mut sqlite = [5; 24];
    sqlite[..4].copy_from_slice(&frame.to_be_bytes());
    let header = FrameHeader { sqlite, durable_before: frame };
    let mut prefix = [0; FRAME_PREFIX_LEN];
    codec.seal_frame(frame, &header, &sealed_page, &mut prefix).unwrap();
    let changed = change_bytes(&mut prefix, change);
    let result = codec.open_frame(frame, &prefix, &seal);
    assert_eq!(result.is_err(), changed);
    if let Ok(opened) = result {
        assert_eq!(opened, header);
    }
}

/// The list of a database's seals and its anchor.
pub fn fresh(data: &[u8]) {
    let Some((file_id, rest)) = data.split_first_chunk::<16>() else { return };
    if let Some(list) = fresh::ListAnchor::decode(rest, file_id) {
        let (_, slot) = list.encode(file_id);
        assert_eq!(fresh::ListAnchor::decode(&slot, file_id), Some(list));
    }
    let _ = fresh::LogAnchor::decode(rest, file_id);
    let mut tags = fresh::decode_snapshot(file_id, rest).unwrap_or_default();
    let (known, mut rest) = (tags.len(), rest);
    while let Some(used) = fresh::apply_record(rest, &mut tags) {
        rest = &rest[used..];
    }
    // It does not grow by more than the records hold.
    assert!(tags.len() <= known + data.len());
}

/// A rollback journal: its header and an extent, unchanged and changed.
pub fn journal(data: &[u8]) {
    let (index, change) = split_number(data);
    let mut codec = JournalCodec::new(keys(Algorithm::Aes256));
    let own = codec.new_header().unwrap();
    let mut header = own.encode();
    change_bytes(&mut header, change);
    assert!(JournalHeader::decode(&header).is_none_or(|found| found == own));
    if let Some(found) = JournalHeader::decode(change) {
        assert_eq!(JournalHeader::decode(&found.encode()), Some(found));
    }
    let (mut extent, mut plain) = (Vec::new(), Vec::new());
    let _ = (read_prefix(change), looks_torn(change));
    assert!(codec.open(&own, index, change, &mut plain).is_err());

    let place = ExtentPlace { index, durable_before: index / 2, logical: u64::from(index) * 512 };
    codec.seal(&own, &place, &[9; 700], &mut extent).unwrap();
    let sealed = extent.clone();
    change_bytes(&mut extent, change);
    match codec.open(&own, index, &extent, &mut plain) {
        Ok(()) => {
            assert_eq!(plain, [9; 700]);
            let end = EXTENT_PREFIX_LEN + 700;
            assert_eq!(extent[..end], sealed[..end], "only the padding may differ");
        }
        Err(_) => assert_ne!(extent, sealed),
    }
}

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Aes256, Algorithm::Aes128, Algorithm::Aegis256X2];

fn dek() -> SecretBytes {
    SecretBytes::from_slice(&[9; 32]).unwrap()
}

fn keys(algorithm: Algorithm) -> FileKeys {
    let versions = vec![DekVersion { version: 1, algorithm, dek: std::sync::Arc::new(dek()) }];
    FileKeys { file_id: [4; 16], current: 1, versions }
}

/// Returns bytes in the form of a sealed page of key version 1.
fn page_of(bytes: u64) -> Vec<u8> {
    let size = PageSize::new(bytes).unwrap();
    let mut page = vec![0x5A; size.len()];
    let version = size.usable() + 40;
    page[version..version + 4].copy_from_slice(&1_u32.to_le_bytes());
    page
}

/// Returns the first four bytes as a number, and the rest.
fn split_number(data: &[u8]) -> (u32, &[u8]) {
    match data.split_first_chunk() {
        Some((number, rest)) => (u32::from_le_bytes(*number), rest),
        None => (0, data),
    }
}

/// Combines `change` into `bytes` by exclusive or; returns true if that changed anything.
fn change_bytes(bytes: &mut [u8], change: &[u8]) -> bool {
    for (byte, change) in bytes.iter_mut().zip(change) {
        *byte ^= change;
    }
    change.iter().take(bytes.len()).any(|change| *change != 0)
}

#[cfg(test)]
mod tests {
    use tdekit_backup_media::RecordHeader;

    use super::*;

    fn read_request(seed: &[u8]) -> bool {
        use tdekit_wire_tds::request::decode_transaction;
        tdekit_wire_tds::rpc::decode_rpc(seed).is_ok() || decode_transaction(seed).is_ok()
    }

    fn read_packets(seed: &[u8]) -> bool {
        use tdekit_wire_tds::packet::PacketHeader;
        use tdekit_wire_tds::prelogin::PreLogin;
        PacketHeader::decode(seed).is_ok_and(|header| header.is_some())
            || PreLogin::decode(seed).is_ok()
    }

    fn read_media(seed: &[u8]) -> bool {
        let file = [&seeds::media_header(), seed].concat();
        media::scan(&file).is_ok_and(|scanned| scanned.records.len() == 3)
            || RecordHeader::decode(&media::framed_header(seed)).is_ok()
            || media::reads_log(seed)
    }

    /// Otherwise the fuzzer and the tests would start from bytes that are refused at once.
    #[test]
    fn seeds_are_read_to_the_end() {
        for (target, seed) in seeds::seeds() {
            let read = match target {
                "keystore" => StoreFile::decode(&framed_keystore(&seed, FORMAT_VERSION)).is_ok(),
                "audit_log" => AuditRecord::decode(&seed).is_ok(),
                "wrapped_dek" => WrappedDek::decode(&seed).is_ok(),
                "header" => decode_slot(&framed_slot(&seed)).is_ok(),
                "media" => read_media(&seed),
                "binlog" => binlog::is_read(&seed),
                "datafile" => datafile::is_read(&seed),
                "mysql_files" => mysql::is_read_file(&seed),
                "mysql_keyring" => mysql::is_read_keyring(&seed),
                "tds_packet" => read_packets(&seed),
                "tds_login" => tdekit_wire_tds::login::Login::decode(&seed).is_ok(),
                "tds_rpc" => read_request(&seed),
                "tds_token" => tdekit_wire_tds::answer::decode_answer(&seed).is_ok(),
                "script_output" => script_output::is_whole(&seed),
                "tsql" => {
                    let text = String::from_utf8(seed).unwrap();
                    // Statements, or the parameters of some.
                    let declared = format!("CREATE PROCEDURE p {text} AS SELECT 1");
                    let is_read = |text: &str| tdekit_wire_tsql::check_syntax(text).is_ok();
                    is_read(&text) || is_read(&declared)
                }
                _ => false,
            };
            assert!(read, "{target}");
        }
    }
}
