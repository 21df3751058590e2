//! Binary logs as the server writes them with the plugin, decrypted without the server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)]

mod support;

use support::{Crypt, ENCRYPT, Functions, NOPAD, Plugin, make_store};
use tdekit_mariadb::binlog::decrypt;
use tdekit_mariadb::{Keyring, PluginError};

const NONCE: [u8; 12] = [0x3c; 12];

/// CRC-32 as in zlib, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// Makes an event at `offset`, with a checksum.
fn event(kind: u8, offset: usize, body: &[u8]) -> Vec<u8> {
    let len = 19 + body.len() + 4;
    let mut event = 0x1234_5678u32.to_le_bytes().to_vec();
    event.push(kind);
    event.extend(1u32.to_le_bytes());
    event.extend((len as u32).to_le_bytes());
    event.extend(((offset + len) as u32).to_le_bytes());
    event.extend([0, 0]);
    event.extend(body);
    event.extend(crc32(&event).to_le_bytes());
    event
}

/// Encrypts as `Log_event_writer` of the server does: in pieces, the length in the clear.
fn encrypted(functions: &Functions, handle: &[u8], offset: usize, plain: &[u8]) -> Vec<u8> {
    let mut iv = [0; 16];
    iv[..12].copy_from_slice(&NONCE);
    iv[12..].copy_from_slice(&(offset as u32).to_le_bytes());
    let call = Crypt { key: handle.to_vec(), iv, flags: ENCRYPT | NOPAD, id: 1, version: 1 };
    let mut plain = plain.to_vec();
    let len: [u8; 4] = plain[9..13].try_into().unwrap();
    plain.copy_within(..4, 9);
    let sealed = functions.pieces(0, &call, &[&plain[4..19], &plain[19..]]).unwrap();
    let mut event = sealed[5..9].to_vec();
    event.extend(sealed);
    event[9..13].copy_from_slice(&len);
    event
}

/// Returns a plain log with the event that describes its encryption, and the encrypted one.
fn logs(functions: &Functions) -> (Vec<u8>, Vec<u8>) {
    let handle = functions.get_key(1, 1).unwrap();
    let mut plain = vec![0xfe, b'b', b'i', b'n'];
    let mut description = vec![0; 57];
    description.push(1);
    plain.extend(event(15, plain.len(), &description));
    let start = [&[1, 1, 0, 0, 0][..], &NONCE].concat();
    plain.extend(event(164, plain.len(), &start));
    let mut sealed = plain.clone();
    for (kind, len) in [(163, 0), (162, 19), (2, 300), (16, 8), (4, 70_000), (3, 1)] {
        let body: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let one = event(kind, plain.len(), &body);
        sealed.extend(encrypted(functions, &handle, plain.len(), &one));
        plain.extend(one);
    }
    (plain, sealed)
}

#[test]
fn an_encrypted_log_is_read_and_a_damaged_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = make_store(dir.path());
    let plugin = Plugin::load();
    let (home, key) = (dir.path().join("store"), dir.path().join("key"));
    assert_eq!(plugin.init(&[("key_store", &home), ("key_file", &key)]), 0);
    let (plain, sealed) = logs(plugin.functions());
    let keyring = Keyring::of(store).unwrap();
    let read = |log: &[u8]| {
        let mut out = Vec::new();
        decrypt(&mut &log[..], &mut out, &keyring).map(|summary| (summary, out))
    };

    let (summary, out) = read(&sealed).unwrap();
    assert_eq!((summary.events, summary.key_version), (8, Some(1)));
    // The event that starts the encryption is replaced by one that readers skip.
    let at = 4 + 19 + 58 + 4;
    let len = 19 + 17 + 4;
    assert_eq!((out[at + 4], out[at + 17] & 0x80), (28, 0x80));
    let crc = crc32(&out[at..at + len - 4]).to_le_bytes();
    assert_eq!(out[at + len - 4..at + len], crc);
    assert_eq!((&out[..at], &out[at + len..]), (&plain[..at], &plain[at + len..]));

    // A plain log stays as it is.
    let without: Vec<u8> = plain[..at].to_vec();
    let (summary, same) = read(&without).unwrap();
    assert_eq!((summary.key_version, same), (None, without));

    let refused = |log: &[u8], what: &str| {
        let outcome = read(log);
        assert!(matches!(outcome, Err(PluginError::Binlog { .. })), "{what}: {outcome:?}");
    };
    for from in [at + len, at + len + 30, sealed.len() - 2] {
        let mut bad = sealed.clone();
        bad[from] ^= 1;
        refused(&bad, "a flipped bit");
        if from != at + len {
            refused(&sealed[..from], "a log that was cut");
        }
    }
    refused(b"", "nothing");
    refused(b"no binary log", "something else");
    let mut long = sealed.clone();
    long[at + len + 9..at + len + 13].copy_from_slice(&u32::MAX.to_le_bytes());
    refused(&long, "a length that none has");
    // A chosen change with its checksum: CRC-32 is linear, so this needs no key.
    let (first, second) = (at + len + 23, at + len + 23 + 42);
    let event = second..second + 19 + 300 + 4;
    for place in 19..event.len() - 4 {
        let mut change = vec![0; event.len()];
        change[place] = 0x0b;
        let crc = crc32(&change[..change.len() - 4]) ^ crc32(&vec![0; change.len() - 4]);
        change.splice(event.len() - 4.., crc.to_le_bytes());
        let changed = |log: &[u8]| -> Vec<u8> {
            let mut log = log.to_vec();
            log[event.clone()].iter_mut().zip(&change).for_each(|(byte, bits)| *byte ^= bits);
            log
        };
        refused(&changed(&sealed), "a chosen change");
        if place == 19 {
            // In a plain log, checksums do not detect it.
            let plain = changed(&plain);
            assert_eq!(plain[event.clone()][4], 2, "the event at {first} ends elsewhere");
            assert!(read(&plain[..at]).is_ok());
            let (body, sum) = plain[event.clone()].split_last_chunk().unwrap();
            assert_eq!(crc32(body).to_le_bytes(), *sum);
        }
    }
    let mut version = sealed;
    version[at + 20] = 9;
    assert!(matches!(read(&version), Err(PluginError::NoKey { version: 9, .. })));

    // Whatever the bytes are, the reader terminates, with an error or whole events.
    let mut seed = 1u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize
    };
    for _ in 0..300 {
        let mut log = version.clone();
        log[at + 20] = 1;
        log.truncate(at + len + next() % 2000);
        for _ in 0..1 + next() % 4 {
            let place = 4 + next() % (log.len() - 4);
            log[place] = next() as u8;
        }
        let _ = read(&log);
    }
}
