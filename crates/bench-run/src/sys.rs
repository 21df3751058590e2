//! Calls of the system that no library of ours wraps.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

/// CPU of a process, split by mode, and its context switches.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuSplit {
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    /// It waited.
    pub(crate) voluntary_switches: u64,
    /// It was put aside for another.
    pub(crate) involuntary_switches: u64,
}

/// `getrusage(RUSAGE_SELF)`: CPU of all threads with microseconds, and their context switches.
pub(crate) fn cpu_split() -> CpuSplit {
    split(&usage(libc::RUSAGE_SELF))
}

/// CPU of this process and of every process that it started and reaped, in nanoseconds.
pub(crate) fn family_cpu_ns() -> u64 {
    let sum = |who| {
        let found = split(&usage(who));
        found.user_ns + found.system_ns
    };
    sum(libc::RUSAGE_SELF) + sum(libc::RUSAGE_CHILDREN)
}

fn usage(who: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the place is valid for a `rusage`; the call fails only for a bad selector or place.
    // All-zero bytes are a valid `rusage`, so it may be read even then.
    unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    }
}

fn split(usage: &libc::rusage) -> CpuSplit {
    let nanoseconds = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let microseconds = u64::try_from(time.tv_usec).unwrap_or(0);
        seconds * 1_000_000_000 + microseconds * 1_000
    };
    let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
    CpuSplit {
        user_ns: nanoseconds(usage.ru_utime),
        system_ns: nanoseconds(usage.ru_stime),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
    }
}

/// The use that a process and its reaped descendants made of the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu: CpuSplit,
    /// Largest resident set of one of them; never less than that of the process that started it.
    pub(crate) peak_memory_bytes: u64,
    pub(crate) device_read_bytes: u64,
    pub(crate) device_write_bytes: u64,
}

/// Reaps a child: its status and what it used (`wait4`).
pub(crate) fn wait_with_usage(child: Child) -> std::io::Result<(ExitStatus, Usage)> {
    let pid = child.id().cast_signed();
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both places are valid for what the call writes.
        let waited = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if waited == pid {
            break;
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: all-zero bytes are a valid `rusage`, and the call succeeded.
    let usage = unsafe { usage.assume_init() };
    // getrusage(2): kibibytes, and blocks of 512 bytes.
    let units = |count: libc::c_long, bytes: u64| u64::try_from(count).unwrap_or(0) * bytes;
    let used = Usage {
        cpu: split(&usage),
        peak_memory_bytes: units(usage.ru_maxrss, 1024),
        device_read_bytes: units(usage.ru_inblock, 512),
        device_write_bytes: units(usage.ru_oublock, 512),
    };
    Ok((ExitStatus::from_raw(status), used))
}

/// Gives the command a session of its own: it has no terminal, and reads what it would ask there
/// from its input.
pub(crate) fn without_terminal(command: &mut Command) -> &mut Command {
    let leave = || {
        rustix::process::setsid()?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes one system call and takes no memory.
    unsafe { command.pre_exec(leave) }
}
