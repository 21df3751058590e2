//! What a call of the server costs, through the interface that it uses: CPU of the thread, the
//! median of many rounds.
//!
//! `cargo bench -p tdekit-rest-mariadb`
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_precision_loss)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::ffi::c_void;
use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use support::{Crypt, DECRYPT, ENCRYPT, Functions, NOPAD, Plugin, make_store};

const ROUNDS: usize = 60;
/// CPU of a round.
const ROUND: Duration = Duration::from_millis(10);
/// What InnoDB has encrypted of a page of 16 KiB.
const PAGE: usize = 16384 - 30;

fn cpu() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Prints the time of one `work`.
fn time(name: &str, mut work: impl FnMut()) {
    let mut many = 1;
    let round = |many: u32, work: &mut dyn FnMut()| {
        let begun = cpu();
        (0..many).for_each(|_| work());
        cpu() - begun
    };
    while round(many, &mut work) < ROUND {
        many *= 2;
    }
    let mut times: Vec<f64> =
        (0..ROUNDS).map(|_| round(many, &mut work).as_nanos() as f64 / f64::from(many)).collect();
    times.sort_by(f64::total_cmp);
    println!("{name:<40} {:>9.1} ns, least {:>9.1}", times[ROUNDS / 2], times[0]);
}

/// A call in pieces of these lengths, as the server makes it: its memory is there already.
fn pieces(functions: &Functions, call: &Crypt, input: &[u8], lengths: &[usize], out: &mut [u8]) {
    let mut memory = [0u64; 64];
    let ctx = memory.as_mut_ptr().cast::<c_void>();
    // SAFETY: the context is smaller than its memory (checked by the caller), the output longer
    // than the input by what `length` tells, and the pieces lie within both.
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
    let _store = make_store(dir.path());
    let plugin = Plugin::load();
    let (home, key) = (dir.path().join("store"), dir.path().join("key"));
    assert_eq!(plugin.init(&[("key_store", &home), ("key_file", &key)]), 0);
    let functions = plugin.functions();
    // SAFETY: no precondition.
    assert!(unsafe { (functions.size)(1, 1) } as usize <= 512);

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
        version: 1,
    };

    let encrypt = call(&[1; 16], ENCRYPT | NOPAD, 17);
    time("page, encrypt", || pieces(functions, &encrypt, &plain, &[PAGE], &mut out));
    let sealed = functions.crypt(&encrypt, &plain).unwrap();
    let decrypt = Crypt { flags: DECRYPT | NOPAD, ..encrypt };
    time("page, decrypt", || pieces(functions, &decrypt, &sealed, &[PAGE], &mut out));
    assert_eq!(out[..PAGE], plain);

    let log = call(&[2; 16], ENCRYPT | NOPAD, 1);
    for lengths in [&[16][..], &[64], &[144], &[256], &[256, 256, 512, 9]] {
        let name = format!("redo log, {lengths:?} bytes");
        time(&name, || pieces(functions, &log, &plain, lengths, &mut out));
    }
    let handle = functions.get_key(1, 1).unwrap();
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
