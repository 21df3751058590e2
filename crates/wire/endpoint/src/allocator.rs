//! Memory that the C library's allocator keeps although it is unused.
#![allow(unsafe_code)]

/// Returns freed memory to the system, as far as the allocator can. By itself it keeps free memory
/// between blocks in use, which many resting sessions leave behind.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: glibc's `malloc_trim` takes any number, from any thread, at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
