//! Child processes: resource usage after their end, and their binding to the parent.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::usage::Use;

/// A child that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Resource usage of it and its reaped descendants.
    pub used: Use,
    /// Largest resident set of one of them; never less than that of the process that started it.
    pub peak_memory_bytes: u64,
}

/// Reaps a child (`wait4`).
///
/// # Errors
/// The system's, for a process that is not a child of this one any more.
pub fn wait(child: Child) -> io::Result<Finished> {
    let pid = child.id().cast_signed();
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both places are valid for what the call writes.
        let waited = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if waited == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: all-zero bytes are a valid `rusage`, and the call succeeded.
    let usage = unsafe { usage.assume_init() };
    // getrusage(2): kibibytes.
    let peak_memory_bytes = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
    let status = ExitStatus::from_raw(status);
    Ok(Finished { status, used: Use::from(&usage), peak_memory_bytes })
}

/// Waits for the end of a process without reaping it.
#[must_use]
pub fn has_ended(child: &Child, grace: Duration) -> bool {
    let Some(pid) = Pid::from_raw(child.id().cast_signed()) else { return true };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let start = Instant::now();
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Ok(None) if start.elapsed() < grace => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(None) => return false,
            _ => return true,
        }
    }
}

/// Makes the kernel kill the command when the thread that starts it ends.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let ask = || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes one system call and takes no memory.
    unsafe { command.pre_exec(ask) }
}

/// Gives the command a separate session: it has no terminal, and reads from its input what it would
/// prompt for there.
pub fn without_terminal(command: &mut Command) -> &mut Command {
    let leave = || {
        rustix::process::setsid()?;
        Ok(())
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(leave) }
}
