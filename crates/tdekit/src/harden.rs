//! Keeps secrets out of core dumps.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Has the kernel write no core dump of this process, whatever is configured, and lets no other
/// process of the same user attach to it. A refusal changes nothing else.
pub(crate) fn no_core_dumps() {
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // A core pattern that pipes to a program does not heed the limit; this it does.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}
