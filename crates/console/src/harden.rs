//! Keeps secrets out of core dumps, and makes errors reportable where the system would end the
//! process.

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Prevents core dumps of this process, whatever is configured, and prevents other processes of the
/// same user from attaching to it. A refusal has no other consequence.
pub fn no_core_dumps() {
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // A core pattern that pipes to a program ignores the limit, but not this.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Makes a write beyond the limit on the size of files fail, as on a full disk, instead of ending
/// the process: unfinished files are removed then. Threads inherit it from the first one.
pub fn outlive_size_limit() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    let _ = signals.thread_block();
}
