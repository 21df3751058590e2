//! Distinguishes our own calls into the VFS below from those that bypass us.

use std::cell::Cell;

thread_local! {
    /// Number of our own calls into the VFS below that are running on this thread.
    static OURS: Cell<u32> = const { Cell::new(0) };
}

/// Returns true if a call of ours into the VFS below is running on this thread.
pub(crate) fn is_open() -> bool {
    OURS.with(Cell::get) > 0
}

/// Runs a call of ours into the VFS below, which may pass several guards.
pub(crate) fn unguarded<R>(f: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            OURS.with(|depth| depth.set(depth.get().saturating_sub(1)));
        }
    }
    OURS.with(|depth| depth.set(depth.get().saturating_add(1)));
    let _leave = Leave;
    f()
}
