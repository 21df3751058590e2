//! Calls of the system that no library of ours wraps.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// CPU of the own process, split by mode.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuSplit {
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
}

/// `getrusage(RUSAGE_SELF)`: user and system CPU of all threads, with microseconds.
pub(crate) fn cpu_split() -> CpuSplit {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the place is valid for a `rusage`; the call fails only for a bad selector or place.
    // All-zero bytes are a valid `rusage`, so it may be read even then.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let nanoseconds = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let microseconds = u64::try_from(time.tv_usec).unwrap_or(0);
        seconds * 1_000_000_000 + microseconds * 1_000
    };
    CpuSplit { user_ns: nanoseconds(usage.ru_utime), system_ns: nanoseconds(usage.ru_stime) }
}
