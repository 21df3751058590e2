//! Binary logs that are read without their server.
//!
//! The encryption is implemented here a second time, from `docs/format/mariadb.md`.

use std::sync::Arc;

use tdekit_key_crypto::{CtrKey, OnlineKey, SecretBytes, hkdf_sha256};
use tdekit_mariadb::binlog::{Summary, decrypt_with};
use tdekit_mariadb::{Derivation, HANDLE_LEN, PluginError, SYSTEM_KEY_ID, ServerKey};

use crate::dek;

const MAGIC: [u8; 4] = *b"\xfebin";
const HEADER_LEN: usize = 19;
const LEN: std::ops::Range<usize> = 9..13;
const FORMAT_DESCRIPTION: u8 = 15;
const START_ENCRYPTION: u8 = 164;
const QUERY: u8 = 2;
/// A version of each derivation.
pub(crate) const VERSIONS: [(u32, Derivation); 3] =
    [(1, Derivation::Counter), (2, Derivation::Online), (3, Derivation::Gmac)];
const NONCE: [u8; 12] = [0x3C; 12];
/// Maximum length of an event made of a target's bytes.
const MOST: usize = 200;

/// A log: the bytes unchanged, and as the events of a whole log with and without checksums, plain,
/// encrypted in each way, and encrypted with one byte changed.
pub fn binlog(data: &[u8]) {
    let mut out = Vec::new();
    if read(data, &mut out).is_ok() {
        assert_eq!(out.len(), data.len(), "every event stays at its place");
    }
    assert!(out.len() <= data.len());
    for (checksums, version) in [(false, 0), (true, 0), (false, 1), (true, 1)] {
        let (plain, sealed) = logs(data, checksums, version);
        let mut out = Vec::new();
        let summary = read(&sealed, &mut out).unwrap();
        assert_eq!(summary.key_version, Some(VERSIONS[version].0));
        let head = head(checksums).len();
        let start = head..head + start(0, checksums, version).len();
        assert_eq!(out[..start.start], plain[..start.start]);
        assert_eq!(out[start.end..], plain[start.end..]);
        changed(data, &plain, sealed, (checksums, version));
    }
}

/// Changes one byte of a log, selected by the data's first bytes: it is refused or has no effect.
fn changed(data: &[u8], plain: &[u8], mut sealed: Vec<u8>, kind: (bool, usize)) {
    let (checksums, version) = kind;
    let Some(([low, high, change], _)) = data.split_first_chunk() else { return };
    let at = usize::from(u16::from_le_bytes([*low, *high])) % sealed.len();
    sealed[at] ^= change;
    let mut out = Vec::new();
    let Ok(summary) = read(&sealed, &mut out) else { return };
    assert_eq!(out.len(), sealed.len());
    let events = at >= head(checksums).len() + start(0, checksums, version).len();
    // CRC-32 detects every change within 32 bits. Of random plaintext from the online cipher it
    // detects all but one in 2^32.
    if *change != 0 && checksums && events && summary.key_version.is_some() {
        assert_eq!(out[at..], plain[at..], "a changed event was taken");
    }
}

fn read(log: &[u8], out: &mut Vec<u8>) -> Result<Summary, PluginError> {
    decrypt_with(&mut &*log, out, &server_key)
}

/// The versions of the server's key.
pub(crate) fn server_key(id: u32, version: u32) -> Result<ServerKey, PluginError> {
    match VERSIONS.iter().find(|one| (id, version) == (SYSTEM_KEY_ID, one.0)) {
        Some((_, derivation)) => Ok(ServerKey { secret: Arc::new(dek()), derivation: *derivation }),
        None => Err(PluginError::NoKey { id, version }),
    }
}

/// A key of `len` bytes derived from a version of the server's key for `of`, under the key that the
/// server passes.
pub(crate) fn derive(version: usize, of: u8, passed: &[u8], len: usize) -> SecretBytes {
    let (number, derivation) = VERSIONS[version];
    let mut out = SecretBytes::new_zeroed(len).unwrap();
    let (id, number) = (SYSTEM_KEY_ID.to_le_bytes(), number.to_le_bytes());
    let label: &[u8] = match derivation {
        Derivation::Counter => b"tdekit mariadb v1 ",
        Derivation::Online => b"tdekit mariadb v2 ",
        Derivation::Gmac => b"tdekit mariadb v3 ",
    };
    let info: [&[u8]; 4] = [label, &[of], &id, &number];
    hkdf_sha256(dek().expose(), passed, &info, out.expose_mut()).unwrap();
    out
}

/// The beginning of a log with or without checksums.
fn head(checksums: bool) -> Vec<u8> {
    let mut body = vec![0; 57];
    body.push(u8::from(checksums));
    // The format description event has a checksum in either case.
    [&MAGIC[..], &event(FORMAT_DESCRIPTION, MAGIC.len(), &body, true)].concat()
}

/// The event that starts the encryption.
fn start(offset: usize, checksums: bool, version: usize) -> Vec<u8> {
    let body = [&[1][..], &VERSIONS[version].0.to_le_bytes(), &NONCE].concat();
    event(START_ENCRYPTION, offset, &body, checksums)
}

/// A plain log whose events hold `data`, and the same encrypted from its second event on.
fn logs(data: &[u8], checksums: bool, version: usize) -> (Vec<u8>, Vec<u8>) {
    let mut plain = head(checksums);
    plain.extend(start(plain.len(), checksums, version));
    let mut sealed = plain.clone();
    let key = StreamKey::of(version);
    for body in data.chunks(MOST).take(8) {
        let one = event(QUERY, plain.len(), body, checksums);
        sealed.extend(key.encrypt(plain.len(), &one));
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

/// The key of streams under the handle.
enum StreamKey {
    Counter(CtrKey),
    Online(OnlineKey),
}

impl StreamKey {
    fn of(version: usize) -> Self {
        let handle = derive(version, 0, &[], HANDLE_LEN);
        let key = |len| derive(version, 2, handle.expose(), len);
        let (_, derivation) = VERSIONS[version];
        match derivation {
            Derivation::Counter => Self::Counter(CtrKey::new(key(32).expose()).unwrap()),
            Derivation::Online | Derivation::Gmac => {
                Self::Online(OnlineKey::new(key(80).expose()).unwrap())
            }
        }
    }

    fn encrypt(&self, offset: usize, plain: &[u8]) -> Vec<u8> {
        let mut iv = [0; 16];
        iv[..12].copy_from_slice(&NONCE);
        iv[12..].copy_from_slice(&u32::try_from(offset).unwrap().to_le_bytes());
        let mut moved = plain.to_vec();
        moved.copy_within(..4, LEN.start);
        let mut sealed = vec![0; moved.len()];
        let (input, output) = (&moved[4..], &mut sealed[4..]);
        match self {
            Self::Counter(key) => key.apply(&mut key.stream(&iv, 0), input, output).unwrap(),
            Self::Online(key) => {
                let mut stream = key.encryptor(&iv);
                let (whole, tail) = output.split_at_mut(input.len() / 16 * 16);
                key.update(&mut stream, input, whole).unwrap();
                key.finish(&mut stream, tail).unwrap();
            }
        }
        sealed.copy_within(LEN, 0);
        sealed[LEN].copy_from_slice(&plain[LEN]);
        sealed
    }
}

/// CRC-32 as in zlib, bit by bit.
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
    let kinds = [(true, 0), (false, 0), (true, 1)];
    kinds.map(|(checksums, version)| ("binlog", logs(&body, checksums, version).1)).into()
}

#[cfg(test)]
pub(crate) fn is_read(seed: &[u8]) -> bool {
    read(seed, &mut Vec::new()).is_ok_and(|summary| summary.events == 4)
}
