//! A forked child never produces a nonce that its parent also produces.
//!
//! No test harness: a bare clone in a program with several threads may copy the allocator's lock
//! while another thread holds it, and the child would then wait for ever.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, clippy::unwrap_used)]

use std::io::Read;
use std::os::fd::FromRawFd;

use tdekit_key_crypto::{NONCE_LEN, NonceSource, fork_generation};

const NONCES: usize = 200;

/// Runs `child` in a forked child and returns what it wrote.
fn in_child(fork: impl Fn() -> libc::c_long, child: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let mut pipe = [0; 2];
    // SAFETY: the child only computes, writes to the pipe and leaves by _exit; descriptors are
    // the ones that pipe(2) gave.
    unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let pid = fork();
        assert!(pid >= 0);
        if pid == 0 {
            let bytes = child();
            let written = libc::write(pipe[1], bytes.as_ptr().cast(), bytes.len());
            libc::_exit(i32::from(written.unsigned_abs() != bytes.len()));
        }
        libc::close(pipe[1]);
        let mut bytes = Vec::new();
        std::fs::File::from_raw_fd(pipe[0]).read_to_end(&mut bytes).unwrap();
        let mut status = 0;
        libc::waitpid(libc::pid_t::try_from(pid).unwrap(), &raw mut status, 0);
        assert_eq!(status, 0);
        bytes
    }
}

fn draw(source: &mut NonceSource) -> Vec<u8> {
    (0..NONCES).flat_map(|_| source.next().unwrap()).collect()
}

fn check(fork: impl Fn() -> libc::c_long) {
    let mut source = NonceSource::new();
    let before = source.next().unwrap();
    let generation = fork_generation();

    let from_child = in_child(&fork, || {
        let mut bytes = draw(&mut source);
        bytes.extend(fork_generation().to_le_bytes());
        bytes
    });
    let (child_nonces, child_generation) = from_child.split_at(NONCES * NONCE_LEN);
    let parent_nonces = draw(&mut source);

    assert_ne!(child_generation, generation.to_le_bytes());
    assert_eq!(fork_generation(), generation, "the parent goes on as before");
    assert_eq!(parent_nonces[..12], before[..12], "the parent keeps its run");
    for child in child_nonces.chunks(NONCE_LEN) {
        assert_ne!(child[..12], before[..12], "the child kept the parent's prefix");
        for parent in parent_nonces.chunks(NONCE_LEN) {
            assert_ne!(child[12..], parent[12..], "the child kept the parent's batch");
        }
    }
}

fn main() {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    assert_eq!(threads, 1, "a fork copies one thread only");
    let tests: [(&str, fn()); 3] = [
        ("child_of_fork_draws_other_nonces", child_of_fork_draws_other_nonces),
        ("child_of_bare_clone_draws_other_nonces", child_of_bare_clone_draws_other_nonces),
        ("siblings_and_grandchildren_differ", siblings_and_grandchildren_differ),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
}

fn child_of_fork_draws_other_nonces() {
    // SAFETY: `in_child` keeps the child to what is safe after fork.
    check(|| unsafe { libc::c_long::from(libc::fork()) });
}

/// A bare `clone` runs no `pthread_atfork` handler.
fn child_of_bare_clone_draws_other_nonces() {
    // SAFETY: with SIGCHLD alone and no stack, clone(2) does what fork(2) does.
    check(|| unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) });
}

/// Two children of one parent, and a grandchild, all differ.
fn siblings_and_grandchildren_differ() {
    let mut source = NonceSource::new();
    source.next().unwrap();
    // SAFETY: as above.
    let fork = || unsafe { libc::c_long::from(libc::fork()) };
    let first = in_child(fork, || draw(&mut source));
    let second = in_child(fork, || {
        let mut own = draw(&mut source);
        own.extend(in_child(fork, || draw(&mut source)));
        own
    });
    let mut prefixes: Vec<_> =
        [&first[..], &second[..]].concat().chunks(NONCE_LEN).map(|n| n[..12].to_vec()).collect();
    prefixes.sort();
    prefixes.dedup();
    assert_eq!(prefixes.len(), 3);
}
