//! Memory that the C library's allocator holds though nobody uses it.
#![allow(unsafe_code)]

/// Gives memory that was freed back to the system, as far as the allocator can. By itself it keeps
/// free memory between blocks in use: many sessions that were put to rest leave much of that.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: glibc's `malloc_trim` takes any number, from any thread, at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
