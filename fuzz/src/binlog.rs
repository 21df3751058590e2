//! Binary logs that are read without their server.
//!
//! The encryption is written here a second time, from `docs/format/mariadb.md`.

use std::sync::Arc;

use tdekit_key_crypto::{CtrKey, SecretBytes, hkdf_sha256};
use tdekit_mariadb::binlog::{Summary, decrypt_with};
use tdekit_mariadb::{HANDLE_LEN, PluginError, SYSTEM_KEY_ID};

use crate::dek;

const MAGIC: [u8; 4] = *b"\xfebin";
const HEADER_LEN: usize = 19;
const LEN: std::ops::Range<usize> = 9..13;
const FORMAT_DESCRIPTION: u8 = 15;
const START_ENCRYPTION: u8 = 164;
const QUERY: u8 = 2;
const VERSION: u32 = 1;
const NONCE: [u8; 12] = [0x3C; 12];
/// Longest event that a target's bytes become.
const MOST: usize = 200;

/// A log: the bytes as they are, and as the events of a whole log with and without checksums,
/// plain, encrypted, and encrypted with one byte changed.
pub fn binlog(data: &[u8]) {
    let mut out = Vec::new();
    if read(data, &mut out).is_ok() {
        assert_eq!(out.len(), data.len(), "every event stays at its place");
    }
    assert!(out.len() <= data.len());
    for checksums in [false, true] {
        let (plain, sealed) = logs(data, checksums);
        let mut out = Vec::new();
        let summary = read(&sealed, &mut out).unwrap();
        assert_eq!(summary.key_version, Some(VERSION));
        let start = head(checksums).len()..head(checksums).len() + start(0, checksums).len();
        assert_eq!(out[..start.start], plain[..start.start]);
        assert_eq!(out[start.end..], plain[start.end..]);
        changed(data, &plain, sealed, checksums);
    }
}

/// One byte of a log changed, where the data's first bytes say: it is refused or does not matter.
fn changed(data: &[u8], plain: &[u8], mut sealed: Vec<u8>, checksums: bool) {
    let Some(([low, high, change], _)) = data.split_first_chunk() else { return };
    let at = usize::from(u16::from_le_bytes([*low, *high])) % sealed.len();
    sealed[at] ^= change;
    let mut out = Vec::new();
    let Ok(summary) = read(&sealed, &mut out) else { return };
    assert_eq!(out.len(), sealed.len());
    let events = at >= head(checksums).len() + start(0, checksums).len();
    // CRC-32 finds every change within 32 bits.
    if *change != 0 && checksums && events && summary.key_version.is_some() {
        assert_eq!(out[at..], plain[at..], "a changed event was taken");
    }
}

fn read(log: &[u8], out: &mut Vec<u8>) -> Result<Summary, PluginError> {
    decrypt_with(&mut &*log, out, &|id, version| {
        if (id, version) == (SYSTEM_KEY_ID, VERSION) {
            Ok(Arc::new(dek()))
        } else {
            Err(PluginError::NoKey { id, version })
        }
    })
}

/// The beginning of a log that does, or does not, have checksums.
fn head(checksums: bool) -> Vec<u8> {
    let mut body = vec![0; 57];
    body.push(u8::from(checksums));
    // The event that describes the format has a checksum in either case.
    [&MAGIC[..], &event(FORMAT_DESCRIPTION, MAGIC.len(), &body, true)].concat()
}

/// The event that begins the encryption.
fn start(offset: usize, checksums: bool) -> Vec<u8> {
    let body = [&[1][..], &VERSION.to_le_bytes(), &NONCE].concat();
    event(START_ENCRYPTION, offset, &body, checksums)
}

/// A plain log whose events hold `data`, and the same encrypted from its second event on.
pub(crate) fn logs(data: &[u8], checksums: bool) -> (Vec<u8>, Vec<u8>) {
    let mut plain = head(checksums);
    plain.extend(start(plain.len(), checksums));
    let mut sealed = plain.clone();
    let key = stream_key();
    for body in data.chunks(MOST).take(8) {
        let one = event(QUERY, plain.len(), body, checksums);
        sealed.extend(encrypt(&key, plain.len(), &one));
        plain.extend(one);
    }
    (plain, sealed)
}

/// An event at `offset`.
fn event(kind: u8, offset: usize, body: &[u8], checksum: bool) -> Vec<u8> {
    let len = HEADER_LEN + body.len() + if checksum { 4 } else { 0 };
    let number = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let mut event = vec![9, 9, 9, 9, kind, 1, 0, 0, 0];
    event.extend(number(len));
    event.extend(number(offset + len));
    event.extend([0, 0]);
    event.extend(body);
    if checksum {
        event.extend(crc32(&event).to_le_bytes());
    }
    event
}

fn encrypt(key: &CtrKey, offset: usize, plain: &[u8]) -> Vec<u8> {
    let mut iv = [0; 16];
    iv[..12].copy_from_slice(&NONCE);
    iv[12..].copy_from_slice(&u32::try_from(offset).unwrap().to_le_bytes());
    let mut moved = plain.to_vec();
    moved.copy_within(..4, LEN.start);
    let mut sealed = vec![0; moved.len()];
    key.apply(&mut key.stream(&iv, 0), &moved[4..], &mut sealed[4..]).unwrap();
    sealed.copy_within(LEN, 0);
    sealed[LEN].copy_from_slice(&plain[LEN]);
    sealed
}

/// The key of streams under the handle.
fn stream_key() -> CtrKey {
    let derive = |of: u8, salt: &[u8]| {
        let mut out = SecretBytes::new_zeroed(HANDLE_LEN).unwrap();
        let (id, version) = (SYSTEM_KEY_ID.to_le_bytes(), VERSION.to_le_bytes());
        let info: [&[u8]; 4] = [b"tdekit mariadb v1 ", &[of], &id, &version];
        hkdf_sha256(dek().expose(), salt, &info, out.expose_mut()).unwrap();
        out
    };
    CtrKey::new(derive(2, derive(0, &[]).expose()).expose()).unwrap()
}

/// CRC-32 as zlib has it, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 }
        })
    })
}

/// Logs that the reader reads to the end.
pub(crate) fn seeds() -> Vec<crate::seeds::Seed> {
    let body = vec![0x41; MOST + 50];
    [true, false].map(|checksums| ("binlog", logs(&body, checksums).1)).into()
}

#[cfg(test)]
pub(crate) fn is_read(seed: &[u8]) -> bool {
    read(seed, &mut Vec::new()).is_ok_and(|summary| summary.events == 4)
}
