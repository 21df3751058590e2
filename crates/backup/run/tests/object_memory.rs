//! Memory of a backup to a store and back, alone in its process so that it can be measured.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "it/object_common/mod.rs"]
mod object_common;

use object_common::{TRAILER, server};
use tdekit_backup_run::{AppendAt, MediaSource, ObjectMedia, ObjectOptions, ObjectTarget, Target};

const CHUNK: usize = 1 << 20;
const CHUNKS: usize = 192;
/// Two pieces of 8 MiB being sent and one being filled, and the needs of the client.
const MOST_KIB: u64 = 48 << 10;

/// Returns the peak memory of this process, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn memory_does_not_grow_with_the_set() {
    let Some(server) = server("memory") else { return };
    let options = ObjectOptions { piece_bytes: 8 << 20, ..server.options() };
    let address = server.address("a.bak");
    let mut chunk = vec![0; CHUNK];
    let before = peak_kib();
    let mut target = ObjectTarget::new(&address, &options).unwrap();
    let mut append = target.append(AppendAt::New { replace: false }).unwrap();
    for number in 0..CHUNKS {
        chunk[..8].copy_from_slice(&(number as u64).to_le_bytes());
        append.write(&chunk).unwrap();
    }
    append.publish(TRAILER).unwrap();
    drop((append, target));
    let written = peak_kib() - before;
    let media = ObjectMedia::open(&address, &options).unwrap();
    for number in 0..CHUNKS {
        media.read_at(0, (number * CHUNK) as u64, &mut chunk).unwrap();
        assert_eq!(chunk[..8], (number as u64).to_le_bytes());
    }
    let read = peak_kib() - before;
    assert!(written < MOST_KIB && read < MOST_KIB, "{written} KiB written, {read} KiB read");
}
