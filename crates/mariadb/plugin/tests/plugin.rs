//! The built library, driven through the server's interface.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)]

mod support;

use std::ffi::{CStr, c_int};
use std::fs;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use support::{Crypt, DECRYPT, ENCRYPT, Functions, INVALID, NOPAD, Plugin, make_store};
use tdekit_key_store::Unlocked;
use tempfile::TempDir;

struct Server {
    _dir: TempDir,
    store: Mutex<Unlocked>,
    plugin: Plugin,
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let store = Mutex::new(make_store(dir.path()));
        let plugin = Plugin::load();
        let (home, key) = (dir.path().join("store"), dir.path().join("key"));
        let options = [("key_store", home.as_path()), ("key_file", key.as_path())];
        assert_eq!(plugin.init(&options), 0);
        Server { _dir: dir, store, plugin }
    })
}

fn functions() -> &'static Functions {
    server().plugin.functions()
}

/// Returns the IV that InnoDB makes for a page.
fn page_iv(space: u32, page: u32, lsn: u64) -> [u8; 16] {
    let mut iv = [0; 16];
    iv[..4].copy_from_slice(&space.to_le_bytes());
    iv[4..8].copy_from_slice(&page.to_le_bytes());
    iv[8..].copy_from_slice(&lsn.to_le_bytes());
    iv
}

/// Returns the part of a full page that InnoDB has encrypted.
fn page(space: u32, lsn: u64, fill: u8) -> Vec<u8> {
    let mut page = vec![fill; 16384 - 30];
    page[8..12].copy_from_slice(&space.to_be_bytes());
    page[16350..].copy_from_slice(&(lsn as u32).to_be_bytes());
    page
}

/// Encrypts a mini-transaction of less than 256 bytes, in the server's pieces.
fn mini(call: &Crypt, bytes: &[u8]) -> Vec<u8> {
    let (whole, rest) = bytes.split_at(bytes.len() / 16 * 16);
    functions().pieces(0, call, &[whole, rest]).unwrap()
}

fn call(key: &[u8], iv: [u8; 16], flags: i32, id: u32) -> Crypt {
    Crypt { key: key.to_vec(), iv, flags, id, version: 1 }
}

#[test]
fn the_plugin_is_described_as_the_server_expects() {
    let plugin = &server().plugin;
    let version = plugin.symbol::<c_int>(b"_maria_plugin_interface_version_\0");
    let size = plugin.symbol::<c_int>(b"_maria_sizeof_struct_st_plugin_\0");
    assert_eq!((*version, *size), (0x010f, size_of::<support::Declaration>() as c_int));
    let declaration = plugin.declaration();
    assert_eq!((declaration.kind, declaration.maturity), (9, 5));
    // SAFETY: the names are terminated, and the list of plugins has a second, empty one.
    unsafe {
        assert_eq!(CStr::from_ptr(declaration.name), c"tdekit");
        assert!(CStr::from_ptr(declaration.version_info).to_str().unwrap().contains('.'));
        let end = &*(&raw const *declaration).add(1);
        assert!(end.info.is_null() && end.name.is_null());
        let mut at = declaration.variables;
        let mut names = Vec::new();
        while let Some(variable) = (*at).as_ref() {
            assert_eq!(variable.flags, 0x0205);
            names.push(CStr::from_ptr(variable.name).to_str().unwrap());
            at = at.add(1);
        }
        assert_eq!(names, ["key_store", "password_file", "key_file", "certificate", "page_size"]);
    }
    assert_eq!(functions().interface_version, 0x0300);
}

#[test]
fn keys_are_found_by_number_and_version() {
    let functions = functions();
    assert_eq!(functions.latest_version(1), 1);
    assert_eq!(functions.latest_version(3), INVALID);
    let handle = functions.get_key(1, 1).unwrap();
    assert_eq!(handle.len(), 32);
    assert_ne!(handle, functions.get_key(2, 1).unwrap());
    assert_eq!(functions.get_key(1, 99), Err(INVALID));
    assert_eq!(functions.get_key(4, 1), Err(INVALID));
    assert_eq!(functions.get_key(1, 0), Err(INVALID));
    let mut len = 31;
    // SAFETY: without a buffer, or with too short a one, only the length is written.
    unsafe {
        assert_eq!((functions.key)(1, 1, std::ptr::null_mut(), &raw mut len), 0);
        assert_eq!(len, 32);
        let (mut short, mut len) = ([0; 16], 16);
        assert_eq!((functions.key)(1, 1, short.as_mut_ptr(), &raw mut len), 100);
        assert_eq!((short, len), ([0; 16], 32));
    }
    // The handle differs from the key in the store.
    let store = server().store.lock().unwrap();
    let keys = store.store().server_keys().unwrap().unwrap();
    assert_ne!(handle, store.server_key(&keys, 1, 1).unwrap().unwrap().expose());
}

#[test]
fn pages_come_back_and_changed_ones_do_not() {
    let functions = functions();
    let (space, lsn) = (77, 0x12_3456_789a);
    let plain = page(space, lsn, 3);
    let encrypt = call(&[1; 16], page_iv(space, 5, lsn), ENCRYPT | NOPAD, 17);
    let decrypt = Crypt { flags: DECRYPT | NOPAD, ..encrypt.clone() };
    let sealed = functions.crypt(&encrypt, &plain).unwrap();
    assert_eq!(sealed.len(), plain.len());
    assert_eq!(functions.crypt(&decrypt, &sealed).unwrap(), plain);
    for at in [0, 8, 100, 8000, 16353] {
        let mut changed = sealed.clone();
        changed[at] ^= 0x40;
        assert_eq!(functions.crypt(&decrypt, &changed), Err(-1), "{at}");
    }
    for iv in [page_iv(78, 5, lsn), page_iv(space, 6, lsn), page_iv(space, 5, lsn + 1)] {
        assert_eq!(functions.crypt(&Crypt { iv, ..decrypt.clone() }, &sealed), Err(-1));
    }
    for other in [
        Crypt { key: vec![2; 16], ..decrypt.clone() },
        Crypt { id: 1, ..decrypt.clone() },
        Crypt { version: 9, ..decrypt.clone() },
        Crypt { id: 9, ..decrypt.clone() },
    ] {
        assert_eq!(functions.crypt(&other, &sealed), Err(-1));
    }
    // The same page elsewhere, and with the same IV again.
    let elsewhere = Crypt { iv: page_iv(space, 6, lsn), ..encrypt.clone() };
    assert_ne!(functions.crypt(&elsewhere, &plain).unwrap(), sealed);
    let mut other = plain.clone();
    other[9000] ^= 1;
    let again = functions.crypt(&encrypt, &other).unwrap();
    let equal = again.iter().zip(&sealed).filter(|(a, b)| a == b).count();
    assert!(equal < 200, "{equal} bytes of {} are equal", sealed.len());
}

/// Shows that the gaps named in the threat model exist.
#[test]
fn a_compressed_page_says_nothing_of_its_place() {
    let functions = functions();
    let encrypt = call(&[3; 16], page_iv(80, 1, 9), ENCRYPT | NOPAD, 17);
    let decrypt = Crypt { flags: DECRYPT | NOPAD, ..encrypt.clone() };
    let mut sealed = functions.crypt(&encrypt, &vec![1; 4096 - 30]).unwrap();
    sealed[50] ^= 1;
    let opened = functions.crypt(&decrypt, &sealed).unwrap();
    // We do not report the change, but it leaves no bit as it was.
    let equal = opened.iter().filter(|byte| **byte == 1).count();
    assert!(equal < 100, "{equal}");
}

#[test]
fn records_of_any_length_come_back() {
    let functions = functions();
    for len in (0..70).chain([255, 512, 8146, 16384 - 30, 16384 - 42, 1 << 20]) {
        let plain: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        let encrypt = call(&[4; 16], [len as u8; 16], ENCRYPT | NOPAD, 1);
        let sealed = functions.crypt(&encrypt, &plain).unwrap();
        assert_eq!(sealed.len(), len);
        let decrypt = Crypt { flags: DECRYPT | NOPAD, ..encrypt };
        assert_eq!(functions.crypt(&decrypt, &sealed).unwrap(), plain, "{len}");
    }
}

#[test]
fn streams_come_in_any_pieces() {
    let functions = functions();
    let handle = functions.get_key(1, 1).unwrap();
    let encrypt = call(&handle, [6; 16], ENCRYPT | NOPAD, 1);
    let plain: Vec<u8> = (0..1000).map(|at| at as u8).collect();
    let whole = functions.crypt(&encrypt, &plain).unwrap();
    assert_ne!(whole, plain);
    let pieces = [&plain[..15], &plain[15..15], &plain[15..32], &plain[32..777], &plain[777..]];
    assert_eq!(functions.pieces(3, &encrypt, &pieces).unwrap(), whole);
    let decrypt = Crypt { flags: DECRYPT | NOPAD, ..encrypt };
    assert_eq!(functions.crypt(&decrypt, &whole).unwrap(), plain);
}

/// As the server encrypts the transactions between two flushes of its log: one IV for all. Counter
/// mode revealed all of them to anyone who knew one.
#[test]
fn records_under_one_iv_share_their_beginnings_only() {
    let encrypt = call(&[0x53; 16], [7; 16], ENCRYPT | NOPAD, 1);
    let row = |n: u32| format!("the same head of 32 bytes or more: row {n:08}, balance {n:010}");
    let sealed = |n| mini(&encrypt, row(n).as_bytes());
    let (known, known_sealed) = (row(1), sealed(1));
    for n in 2..300 {
        let (plain, sealed) = (row(n), sealed(n));
        // Up to the block in which they differ they are equal, as are the plaintexts.
        assert_eq!(sealed[..32], known_sealed[..32]);
        let guessed: Vec<u8> = (0..sealed.len())
            .map(|at| sealed[at] ^ known_sealed[at] ^ known.as_bytes()[at])
            .collect();
        let right = guessed[48..].iter().zip(&plain.as_bytes()[48..]).filter(|(a, b)| a == b);
        assert!(right.count() < 8, "row {n}");
    }
}

/// A change of known text is noise from its block on; before it nothing changes.
#[test]
fn a_chosen_change_of_a_record_is_noise() {
    let encrypt = call(&[0x54; 16], [8; 16], ENCRYPT | NOPAD, 1);
    let decrypt = Crypt { flags: DECRYPT | NOPAD, ..encrypt.clone() };
    let plain =
        b"account 00000017 balance 0000000100 of somebody, and what follows 89abcdef".to_vec();
    let sealed = mini(&encrypt, &plain);
    for at in 0..plain.len() {
        let mut bad = sealed.clone();
        bad[at] ^= b'0' ^ b'9';
        let opened = mini(&decrypt, &bad);
        let block = at / 16 * 16;
        assert_eq!(opened[..block], plain[..block]);
        let mut chosen = plain.clone();
        chosen[at] ^= b'0' ^ b'9';
        assert_ne!(opened[block..], chosen[block..], "byte {at}");
        if block + 16 < plain.len() {
            let kept = opened[block..].iter().zip(&plain[block..]).filter(|(a, b)| a == b);
            assert!(kept.count() < 8, "byte {at}");
        }
    }
}

/// As the server encrypts a mini-transaction: whole blocks, at most 256 bytes, then the rest.
#[test]
fn the_redo_log_comes_in_pieces_that_differ_when_it_is_read() {
    let functions = functions();
    let encrypt = call(&[0x51; 16], [7; 16], ENCRYPT | NOPAD, 1);
    let decrypt = Crypt { flags: DECRYPT | NOPAD, ..encrypt.clone() };
    let plain: Vec<u8> = (0..1003).map(|at| (at * 3) as u8).collect();
    let written =
        [&plain[..16], &plain[16..272], &plain[272..528], &plain[528..992], &plain[992..]];
    let sealed = functions.pieces(0, &encrypt, &written).unwrap();
    assert_eq!(sealed.len(), plain.len());
    let read = [&sealed[..256], &sealed[256..512], &sealed[512..992], &sealed[992..]];
    assert_eq!(functions.pieces(0, &decrypt, &read).unwrap(), plain);
    let tiny = functions.crypt(&encrypt, &plain[..9]).unwrap();
    assert_eq!(functions.crypt(&decrypt, &tiny).unwrap(), plain[..9]);
}

#[test]
fn temporary_files_are_sealed() {
    let functions = functions();
    let encrypt = call(&[8; 16], page_iv(0, 0, 4), ENCRYPT, 2);
    let decrypt = Crypt { flags: DECRYPT, ..encrypt.clone() };
    for len in [0, 1, 4096, 32768] {
        let plain = vec![7; len];
        let mut sealed = functions.crypt(&encrypt, &plain).unwrap();
        assert_eq!(sealed.len(), len + 16);
        assert_eq!(functions.crypt(&decrypt, &sealed).unwrap(), plain);
        let other = Crypt { iv: page_iv(0, 0, 4 | 1 << 40), ..decrypt.clone() };
        assert!(functions.crypt(&other, &sealed).is_err());
        sealed[len / 2] ^= 1;
        assert!(functions.crypt(&decrypt, &sealed).is_err());
        assert!(functions.crypt(&decrypt, &sealed[..15]).is_err());
    }
}

#[test]
fn odd_calls_are_refused_and_harm_nothing() {
    let functions = functions();
    let encrypt = call(&[0x31; 16], [1; 16], ENCRYPT | NOPAD, 1);
    let two = functions.pieces(0, &encrypt, &[&[0; 100], &[0; 16]]);
    assert_eq!(two, Err(-1));
    let long = Crypt { key: vec![0; 33], ..encrypt.clone() };
    assert_eq!(functions.crypt(&long, &[0; 16]), Err(-1));
    // SAFETY: no byte is read for a length of 0.
    unsafe {
        let mut memory = vec![0u8; (functions.size)(1, 1) as usize];
        let (ctx, null) = (memory.as_mut_ptr().cast(), std::ptr::null());
        assert_eq!((functions.begin)(ctx, null, 0, null, 0, 0, 1, 1), -1);
        assert_eq!((functions.begin)(ctx, null, 0, [0; 16].as_ptr(), 16, 0, 1, 1), 0);
    }
    assert_eq!(functions.crypt(&encrypt, &[0; 16]).unwrap().len(), 16);
}

#[test]
fn a_context_lies_anywhere_and_buffers_may_be_one() {
    let functions = functions();
    let handle = functions.get_key(1, 1).unwrap();
    for key in [&[5; 16][..], &handle] {
        let encrypt = call(key, [2; 16], ENCRYPT | NOPAD, 1);
        let expected = functions.crypt(&encrypt, &[9; 100]).unwrap();
        for shift in 1..33 {
            assert_eq!(functions.crypt_at(shift, &encrypt, &[9; 100]).unwrap(), expected);
        }
        let mut buffer = [9; 100];
        // SAFETY: the buffers have the lengths passed; the plugin takes input and output that are
        // the same.
        unsafe {
            let mut memory = vec![0u8; (functions.size)(1, 1) as usize];
            let (ctx, klen) = (memory.as_mut_ptr().cast(), key.len() as u32);
            let (iv, flags) = ([2; 16], ENCRYPT | NOPAD);
            assert_eq!((functions.begin)(ctx, key.as_ptr(), klen, iv.as_ptr(), 16, flags, 1, 1), 0);
            let (at, mut len) = (buffer.as_mut_ptr(), 0);
            assert_eq!((functions.update)(ctx, at, 100, at, &raw mut len), 0);
            let mut rest = 0;
            assert_eq!((functions.finish)(ctx, at.add(len as usize), &raw mut rest), 0);
            assert_eq!(len + rest, 100);
        }
        assert_eq!(buffer.to_vec(), expected);
    }
}

#[test]
fn threads_share_the_keys() {
    let functions = functions();
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            scope.spawn(move || {
                // More keys than are kept prepared, and some that all threads use.
                for round in 0..2000u32 {
                    let shared = round % 3 == 0;
                    let number = if shared { round % 5 } else { thread << 20 | round };
                    let key: Vec<u8> = (0..4)
                        .flat_map(|_| number.wrapping_mul(0x9e37_79b1).to_le_bytes())
                        .collect();
                    let encrypt = call(&key, page_iv(1, round, 7), ENCRYPT | NOPAD, 17);
                    let plain = vec![thread as u8; 100 + (round % 50) as usize];
                    let sealed = functions.crypt(&encrypt, &plain).unwrap();
                    let decrypt = Crypt { flags: DECRYPT | NOPAD, ..encrypt };
                    assert_eq!(functions.crypt(&decrypt, &sealed).unwrap(), plain);
                }
            });
        }
    });
}

#[test]
fn a_new_version_is_seen_and_the_old_one_stays() {
    let functions = functions();
    let store = server().store.lock().unwrap();
    let before = functions.latest_version(2);
    let old = functions.get_key(2, before).unwrap();
    store.rotate_server_key(2, "Server", None).unwrap();
    let begun = Instant::now();
    while functions.latest_version(2) == before {
        assert!(begun.elapsed() < Duration::from_secs(20), "the new version is not seen");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(functions.latest_version(2), before + 1);
    assert_ne!(functions.get_key(2, before + 1).unwrap(), old);
    assert_eq!(functions.get_key(2, before).unwrap(), old);

    // Restoring an older file, or removing it, changes nothing.
    let path = store.store().server_keys_path();
    let good = fs::read(&path).unwrap();
    for bad in [Some(b"damaged".as_slice()), None] {
        match bad {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        std::thread::sleep(Duration::from_millis(1100));
        assert_eq!(functions.latest_version(2), before + 1);
        assert_eq!(functions.get_key(2, before).unwrap(), old);
        fs::write(&path, &good).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_change_of_a_page_is_refused(
        space: u32,
        number: u32,
        lsn in 0u64..1 << 56,
        at in 0usize..16354,
        bit in 0u8..8,
        len in prop::sample::select(vec![16384usize - 30]),
    ) {
        let functions = functions();
        let mut plain = page(space, lsn, 1);
        plain.truncate(len);
        let encrypt = call(&[0x77; 16], page_iv(space, number, lsn), ENCRYPT | NOPAD, 17);
        let decrypt = Crypt { flags: DECRYPT | NOPAD, ..encrypt.clone() };
        let mut sealed = functions.crypt(&encrypt, &plain).unwrap();
        prop_assert_eq!(functions.crypt(&decrypt, &sealed).unwrap(), plain);
        sealed[at] ^= 1 << bit;
        prop_assert_eq!(functions.crypt(&decrypt, &sealed), Err(-1));
    }
}
