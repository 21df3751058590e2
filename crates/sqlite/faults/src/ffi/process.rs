//! fork, for single-threaded programs.

use std::io;

use crate::error::{Error, Result};

/// The two sides of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The new process; it must end with [`exit_now`].
    Child,
    /// The old process, with the child's id.
    Parent(i32),
}

/// Forks this process, which must be single-threaded.
///
/// # Errors
/// [`Error::Setup`] if there are more threads or the system refuses.
pub fn fork() -> Result<Side> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(Error::Setup(format!("fork with {threads} threads")));
    }
    // SAFETY: with a single thread no lock is held that the child would miss.
    match unsafe { libc::fork() } {
        -1 => Err(Error::Setup(io::Error::last_os_error().to_string())),
        0 => Ok(Side::Child),
        pid => Ok(Side::Parent(pid)),
    }
}

/// Ends a forked child at once, without the handlers that belong to its parent.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no precondition.
    unsafe { libc::_exit(code) }
}

/// Waits for a forked child and returns its exit code, or `None` when a signal ended it.
///
/// # Errors
/// [`Error::Setup`] if `pid` is not a child of this process.
pub fn wait(pid: i32) -> Result<Option<i32>> {
    let mut status = 0;
    // SAFETY: `status` is a place for the result.
    if unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid {
        return Err(Error::Setup(io::Error::last_os_error().to_string()));
    }
    Ok(libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)))
}
