//! Keeps secrets out of core dumps, and lets failures be told where the system would end the
//! process.

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Has the kernel write no core dump of this process, whatever is configured, and lets no other
/// process of the same user attach to it. A refusal changes nothing else.
pub fn no_core_dumps() {
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // A core pattern that pipes to a program does not heed the limit; this it does.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Has a write beyond the limit on the size of files fail, as on a full disk, and not end the
/// process: what was begun is removed then. Threads have it from the first one.
pub fn outlive_size_limit() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    let _ = signals.thread_block();
}
