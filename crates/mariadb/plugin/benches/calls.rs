//! The cost of the server's calls, through its interface: CPU time of the thread, the median of
//! many rounds. Pages and records of the redo log are also compared in pairs, round by round: the
//! ciphers of new keys with those of the first derivation (HCTR2, counter mode), and with the
//! server's own CBC.
//!
//! `cargo bench -p tdekit-mariadb-plugin`
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_precision_loss)]

mod server_cbc;
#[path = "../tests/support/mod.rs"]
mod support;

use std::ffi::c_void;
use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use server_cbc::ServerCbc;
use support::{Crypt, DECRYPT, ENCRYPT, Functions, NOPAD, Plugin, copy_fixture};

const ROUNDS: usize = 60;
/// CPU time of a round.
const ROUND: Duration = Duration::from_millis(10);
/// The part of a 16 KiB page that InnoDB has encrypted.
const PAGE: usize = 16384 - 30;

fn cpu() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Returns the time of one `work`, in nanoseconds, averaged over `many`.
fn round(many: u32, work: &mut dyn FnMut()) -> f64 {
    let begun = cpu();
    (0..many).for_each(|_| work());
    (cpu() - begun).as_nanos() as f64 / f64::from(many)
}

/// Returns the number of `work` calls that fill a round.
fn fill(work: &mut dyn FnMut()) -> u32 {
    let mut many = 1;
    while round(many, work) * f64::from(many) < ROUND.as_nanos() as f64 {
        many *= 2;
    }
    many
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Prints the time of one `work`.
fn time(name: &str, mut work: impl FnMut()) {
    let many = fill(&mut work);
    let times = sorted((0..ROUNDS).map(|_| round(many, &mut work)).collect());
    println!("{name:<40} {:>9.1} ns, least {:>9.1}", times[ROUNDS / 2], times[0]);
}

/// Prints the times of works that are done in turn, and the first's time relative to each other's:
/// the median of the rounds' ratios, and the interval that contains 95 of 100 such medians.
fn compare(name: &str, works: &mut [(&str, &mut dyn FnMut())]) {
    let many: Vec<u32> = works.iter_mut().map(|(_, work)| fill(work)).collect();
    let mut times = vec![Vec::new(); works.len()];
    for at in 0..ROUNDS {
        for turn in 0..works.len() {
            let one = (at + turn) % works.len();
            times[one].push(round(many[one], works[one].1));
        }
    }
    // The sign test's interval: its ends are this many standard deviations from the middle.
    let away = (1.96 * (ROUNDS as f64).sqrt() / 2.0).ceil() as usize;
    for (one, (of, _)) in works.iter().enumerate() {
        let ratios = times[0].iter().zip(&times[one]).map(|(first, other)| first / other);
        let (ratios, median) = (sorted(ratios.collect()), sorted(times[one].clone())[ROUNDS / 2]);
        let [low, middle, high] =
            [ROUNDS / 2 - away, ROUNDS / 2, ROUNDS / 2 + away].map(|at| ratios[at]);
        println!("{name:<34} {of:<8} {median:>8.1} ns, x{middle:.2} ({low:.2} to {high:.2})");
    }
}

/// Makes a call in pieces of these lengths, as the server does: its memory exists already.
fn pieces(functions: &Functions, call: &Crypt, input: &[u8], lengths: &[usize], out: &mut [u8]) {
    let mut memory = [0u64; 64];
    let ctx = memory.as_mut_ptr().cast::<c_void>();
    // SAFETY: the context is smaller than its memory (checked by the caller), the output is longer
    // than the input by the value of `length`, and the pieces are within both.
    unsafe {
        let (klen, iv) = (call.key.len() as u32, call.iv.as_ptr());
        let key = call.key.as_ptr();
        let begun = (functions.begin)(ctx, key, klen, iv, 16, call.flags, call.id, call.version);
        assert_eq!(begun, 0);
        let (mut from, mut to, mut len) = (0, 0, 0);
        for piece in lengths {
            let (source, place) = (input.as_ptr().add(from), out.as_mut_ptr().add(to));
            let done = (functions.update)(ctx, source, *piece as u32, place, &raw mut len);
            assert_eq!(done, 0);
            from += piece;
            to += len as usize;
        }
        assert_eq!((functions.finish)(ctx, out.as_mut_ptr().add(to), &raw mut len), 0);
    }
}

fn page_iv(space: u32, page: u32, lsn: u64) -> [u8; 16] {
    let mut iv = [0; 16];
    iv[..4].copy_from_slice(&space.to_le_bytes());
    iv[4..8].copy_from_slice(&page.to_le_bytes());
    iv[8..].copy_from_slice(&lsn.to_le_bytes());
    iv
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    // Version 1 of each key is of the first derivation, version 2 of the newest.
    let store = copy_fixture(1, dir.path());
    for id in [1, 2, 17] {
        store.rotate_server_key(id, "Fixture", None).unwrap();
    }
    let plugin = Plugin::load();
    let (home, key) = (dir.path().join("store"), dir.path().join("key"));
    assert_eq!(plugin.init(&[("key_store", &home), ("key_file", &key)]), 0);
    let functions = plugin.functions();
    // SAFETY: no precondition.
    assert!(unsafe { (functions.size)(1, 2) } as usize <= 512);

    let mut out = vec![0; PAGE + 64];
    let mut plain = vec![7; PAGE];
    plain[8..12].copy_from_slice(&9u32.to_be_bytes());
    plain[PAGE - 4..].copy_from_slice(&77u32.to_be_bytes());
    time("copy of a page", || out[..PAGE].copy_from_slice(black_box(&plain)));
    let call = |key: &[u8], flags, id| Crypt {
        key: key.to_vec(),
        iv: page_iv(9, 4, 77),
        flags,
        id,
        version: 2,
    };

    let page = call(&[1; 16], ENCRYPT | NOPAD, 17);
    compare_keys(functions, "page", &page, &plain, &[&[PAGE]]);
    let sealed = functions.crypt(&page, &plain).unwrap();
    let decrypt = Crypt { flags: DECRYPT | NOPAD, ..page };
    pieces(functions, &decrypt, &sealed, &[PAGE], &mut out);
    assert_eq!(out[..PAGE], plain);

    let record = call(&[2; 16], ENCRYPT | NOPAD, 1);
    compare_keys(functions, "redo log", &record, &plain, &RECORDS);
    let handle = functions.get_key(1, 2).unwrap();
    let event = call(&handle, ENCRYPT | NOPAD, 1);
    for lengths in [&[15, 64][..], &[15, 400]] {
        let name = format!("binary log, {lengths:?} bytes");
        time(&name, || pieces(functions, &event, &plain, lengths, &mut out));
    }
    let temporary = call(&[3; 16], ENCRYPT, 2);
    time("temporary file, 8192 bytes", || {
        pieces(functions, &temporary, &plain, &[8192], &mut out);
    });
    time("newest version", || {
        black_box(functions.latest_version(1));
    });
}

/// Lengths of a mini-transaction's pieces: whole blocks, then the rest.
const RECORDS: [&[usize]; 6] = [&[9], &[32], &[48, 9], &[144], &[256, 32, 9], &[256, 256, 512, 9]];

/// Compares messages with the ciphers of a new key and of an old one, in both directions.
fn compare_keys(
    functions: &Functions,
    name: &str,
    call: &Crypt,
    plain: &[u8],
    messages: &[&[usize]],
) {
    let cbc = ServerCbc::load();
    if cbc.is_none() {
        println!("no OpenSSL 3: not compared with the server's CBC");
    }
    for lengths in messages {
        let len = lengths.iter().sum();
        for (direction, encrypt) in [("encrypt", true), ("decrypt", false)] {
            let flags = if encrypt { ENCRYPT | NOPAD } else { DECRYPT | NOPAD };
            let new = Crypt { flags, ..call.clone() };
            let old = Crypt { version: 1, ..new.clone() };
            let sealed = functions.pieces(0, call, &[&plain[..len]]).unwrap();
            // An old key would not accept the page of a new one.
            let sealed_by_old =
                functions.pieces(0, &Crypt { version: 1, ..call.clone() }, &[&plain[..len]]);
            let (sealed_by_old, plain) = (sealed_by_old.unwrap(), &plain[..len]);
            let (input, input_of_old) =
                if encrypt { (plain, plain) } else { (&*sealed, &*sealed_by_old) };
            let room = vec![0; len + 64];
            let (mut one, mut other, mut third) = (room.clone(), room.clone(), room);
            let mut by_new = || pieces(functions, &new, input, lengths, &mut one);
            let mut by_old = || pieces(functions, &old, input_of_old, lengths, &mut other);
            let mut by_cbc = || {
                let Some(cbc) = &cbc else { return };
                cbc.call(&[2; 16], &new.iv, encrypt, plain, lengths, &mut third);
            };
            let mut works: Vec<(&str, &mut dyn FnMut())> =
                vec![("new key", &mut by_new), ("old key", &mut by_old)];
            if cbc.is_some() {
                works.push(("CBC", &mut by_cbc));
            }
            compare(&format!("{name}, {direction}, {lengths:?}"), &mut works);
        }
    }
}
