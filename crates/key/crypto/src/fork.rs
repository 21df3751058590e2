//! FFI: detects that this process is a forked child of the process that drew a value.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Returns a number that changes in a forked child.
///
/// A holder of random bytes for later use keeps this number with them, and drops the bytes when it
/// has changed. It never repeats within one line of descent. Two mechanisms detect a fork: a
/// `pthread_atfork` handler, and on Linux a page that the kernel wipes in every child
/// (`MADV_WIPEONFORK`), which also detects a bare `clone`.
#[must_use]
pub fn fork_generation() -> u64 {
    REGISTERED.call_once(register);
    let sentinel = SENTINEL.load(Ordering::Relaxed);
    // SAFETY: the pointer is null or to a page that `register` mapped, aligned, zero-filled and
    // never unmapped.
    if let Some(sentinel) = unsafe { sentinel.as_ref() }
        && sentinel.load(Ordering::Relaxed) == 0
    {
        // Two threads of a child may both get here; the second increment does no harm.
        GENERATION.fetch_add(1, Ordering::SeqCst);
        sentinel.store(1, Ordering::SeqCst);
    }
    GENERATION.load(Ordering::Relaxed)
}

static REGISTERED: Once = Once::new();
static GENERATION: AtomicU64 = AtomicU64::new(1);
static SENTINEL: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
}

fn register() {
    // SAFETY: `in_child` is a static function that only touches an atomic, as a handler that runs
    // between fork and exec must. Its failure (no memory) leaves the sentinel page.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    #[cfg(target_os = "linux")]
    map_sentinel();
}

#[cfg(target_os = "linux")]
fn map_sentinel() {
    const PAGE_LEN: usize = size_of::<AtomicU64>();
    // SAFETY: a new anonymous private mapping; it is kept only when the kernel (4.14 or newer)
    // promises to wipe it in children, and then never unmapped, so the reference stays valid.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            PAGE_LEN,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return;
        }
        if libc::madvise(page, PAGE_LEN, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, PAGE_LEN);
            return;
        }
        let sentinel = page.cast::<AtomicU64>();
        (*sentinel).store(1, Ordering::SeqCst);
        SENTINEL.store(sentinel, Ordering::SeqCst);
    }
}
