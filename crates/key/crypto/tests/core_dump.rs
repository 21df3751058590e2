//! No key is in memory that a core dump would include.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};

use tdekit_key_crypto::gcm::GcmKey;
use tdekit_key_crypto::wrap::{unwrap_key, wrap_key};
use tdekit_key_crypto::{Algorithm, NonceSource, SealingKey, SecretBytes};

/// Mappings that a core dump would include: writable, and not marked "dd" (do not dump).
fn dumped_mappings() -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut current = None;
    for line in fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        if let Some((start, end)) = first.split_once('-') {
            let parse = |digits| u64::from_str_radix(digits, 16);
            if let (Ok(start), Ok(end)) = (parse(start), parse(end)) {
                current = second.starts_with("rw").then_some((start, end));
            }
        } else if first == "VmFlags:" && !line.split_whitespace().any(|flag| flag == "dd") {
            found.extend(current.take());
        }
    }
    assert!(found.len() > 3, "heap, stack and data at least");
    found
}

/// Addresses at which `secret` begins in the memory that a core dump would include.
fn occurrences(secret: &SecretBytes) -> Vec<u64> {
    let mut memory = File::open("/proc/self/mem").unwrap();
    // Secret pages, so that the pieces read do not become a match themselves.
    let mut piece = SecretBytes::new_zeroed(1 << 16).unwrap();
    let mut found = Vec::new();
    for (start, end) in dumped_mappings() {
        let mut at = start;
        while at < end {
            let len = piece.len().min((end - at) as usize);
            let bytes = &mut piece.expose_mut()[..len];
            memory.seek(SeekFrom::Start(at)).unwrap();
            if memory.read_exact(bytes).is_err() {
                break;
            }
            let here = bytes.windows(16).zip(at..).filter(|(w, _)| *w == &secret.expose()[..16]);
            found.extend(here.map(|(_, address)| address));
            // Pieces overlap, to find matches across the edge of two.
            at += if len == piece.len() { len as u64 - 16 } else { len as u64 };
        }
    }
    found
}

#[test]
fn keys_in_use_are_not_in_a_core_dump() {
    for &algorithm in Algorithm::all().iter().filter(|a| a.seals_pages()) {
        let key = SecretBytes::random(algorithm.key_len()).unwrap();
        let mut sealing = SealingKey::new(algorithm, key.expose()).unwrap();
        let mut sources = [NonceSource::new(), NonceSource::new()];
        let (page, mut sealed) = ([1; 512], [0; 512]);
        for at in 0..10 {
            let nonce = sources[at % 2].next().unwrap();
            sealing.seal(&nonce, b"aad", &page, &mut sealed).unwrap();
        }
        assert_eq!(occurrences(&key), [], "{algorithm}");
        drop(sealing);
        assert_eq!(occurrences(&key), [], "{algorithm} after its use");
    }
}

#[test]
fn a_prepared_key_leaves_no_copy() {
    let key = SecretBytes::random(GcmKey::KEY_LEN).unwrap();
    let prepared = GcmKey::new(key.expose()).unwrap();
    prepared.seal(&[1; GcmKey::IV_LEN], b"aad", &[1; 512], &mut [0; 512]).unwrap();
    assert_eq!(occurrences(&key), []);
}

#[test]
fn a_wrapping_key_leaves_no_copy() {
    let wrapping_key = SecretBytes::random(32).unwrap();
    let key = SecretBytes::random(32).unwrap();
    let wrapped = wrap_key(wrapping_key.expose(), key.expose()).unwrap();
    let unwrapped = unwrap_key(wrapping_key.expose(), &wrapped).unwrap();
    assert!(unwrapped.ct_eq(key.expose()));
    assert_eq!(occurrences(&wrapping_key), []);
    assert_eq!(occurrences(&key), []);
}

/// The search finds an ordinary copy.
#[test]
fn a_plain_copy_is_found() {
    let secret = SecretBytes::random(32).unwrap();
    assert_eq!(occurrences(&secret), []);
    let copy = std::hint::black_box(secret.expose().to_vec());
    // A search that runs in parallel may hold what it read of the copy.
    assert!(occurrences(&secret).contains(&(copy.as_ptr() as u64)));
}
