//! Memory that sessions may hold: each one, and all together.
//!
//! Memory is counted where it is allocated: by the process's allocator ([`Counting`]) and by
//! SQLite's. A thread counts for the session that it serves, if any. A Rust allocator cannot
//! refuse, so code that is about to allocate much asks [`room`] first, and code that allocates
//! little but often asks from time to time.

mod allocator;

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

pub use allocator::Counting;

/// Number of bytes that a thread counts before it publishes them.
const BATCH_BYTES: i64 = 64 << 10;
/// When all together hold too much, a session may still grow up to this size.
const SMALL_BYTES: i64 = 1 << 20;
/// Drop in size that justifies returning memory to the system.
const FALL_BYTES: i64 = 32 << 20;

static MOST_OF_SESSION: AtomicI64 = AtomicI64::new(i64::MAX);
static MOST_OF_ALL: AtomicI64 = AtomicI64::new(i64::MAX);
static HELD: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

thread_local! {
    /// Bytes held by the active session.
    static OWN: Cell<i64> = const { Cell::new(0) };
    static AT_WORK: Cell<bool> = const { Cell::new(false) };
    /// Bytes that it may hold now.
    static MOST: Cell<i64> = const { Cell::new(i64::MAX) };
    /// Bytes that are not yet published.
    static UNTOLD: Cell<i64> = const { Cell::new(0) };
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// There is no room for the requested bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the memory that sessions may hold is used up")]
pub struct OutOfMemory;

/// Sets the bounds for one session and for the whole process.
pub fn set_limits(session_bytes: u64, all_bytes: u64) {
    MOST_OF_SESSION.store(signed(session_bytes), Ordering::Relaxed);
    MOST_OF_ALL.store(signed(all_bytes), Ordering::Relaxed);
}

/// Returns the number of bytes held in all, as far as they are counted.
pub fn held_bytes() -> u64 {
    u64::try_from(HELD.load(Ordering::Relaxed)).unwrap_or(0)
}

/// Counts memory that this thread has allocated.
pub fn took(bytes: usize) {
    count(signed(bytes as u64));
}

/// Counts memory that this thread has freed.
pub fn gave(bytes: usize) {
    count(-signed(bytes as u64));
}

/// Checks that the active session may allocate this many more bytes.
///
/// # Errors
/// [`OutOfMemory`]; nothing has been allocated then.
pub fn room(bytes: usize) -> Result<(), OutOfMemory> {
    if !AT_WORK.get() {
        return Ok(());
    }
    let wanted = signed(bytes as u64);
    let own = OWN.get().saturating_add(wanted);
    let all = HELD.load(Ordering::Relaxed).saturating_add(UNTOLD.get()).saturating_add(wanted);
    let fits = all <= MOST_OF_ALL.load(Ordering::Relaxed) || own <= SMALL_BYTES;
    if own <= MOST.get() && fits {
        return Ok(());
    }
    REFUSED.set(true);
    MOST.set(MOST.get().max(most_after(OWN.get())));
    Err(OutOfMemory)
}

/// Returns the maximum for a session that already holds `own` bytes: at the bound it has room to
/// clean up, in the refused request and in those that follow, up to a quarter beyond it.
fn most_after(own: i64) -> i64 {
    let most = MOST_OF_SESSION.load(Ordering::Relaxed);
    most.max(own.saturating_add(most / 8).min(most.saturating_add(most / 4)))
}

/// Returns true if this thread was refused memory since the last call.
pub fn was_refused() -> bool {
    REFUSED.take()
}

/// Returns true if much less is held than at the peak since the last true result.
pub fn has_fallen() -> bool {
    let held = HELD.load(Ordering::Relaxed);
    let fell = PEAK.load(Ordering::Relaxed) - held >= FALL_BYTES;
    if fell {
        PEAK.store(held, Ordering::Relaxed);
    }
    fell
}

/// The memory that a session holds.
#[derive(Debug, Default)]
pub struct Account {
    held: AtomicI64,
}

/// While this exists, the thread counts for an account.
#[derive(Debug)]
pub struct AtWork<'a> {
    account: &'a Account,
    before: (i64, bool, i64),
}

impl Account {
    /// Has this thread count for the account.
    pub fn work(&self) -> AtWork<'_> {
        let before = (OWN.get(), AT_WORK.get(), MOST.get());
        // This thread may have freed memory allocated by threads that count for no session.
        let own = self.held.load(Ordering::Relaxed).max(0);
        OWN.set(own);
        let most = MOST_OF_SESSION.load(Ordering::Relaxed);
        MOST.set(if own > most / 8 * 7 { most_after(own) } else { most });
        AT_WORK.set(true);
        REFUSED.set(false);
        AtWork { account: self, before }
    }

    /// Resets the account: the session has freed all its memory, whatever was counted.
    pub fn clear(&self) {
        self.held.store(0, Ordering::Relaxed);
    }

    /// Returns the number of bytes that it holds.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.held.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.account.held.store(OWN.get(), Ordering::Relaxed);
        tell();
        OWN.set(self.before.0);
        AT_WORK.set(self.before.1);
        MOST.set(self.before.2);
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Allocates nothing itself: an allocator calls it.
fn count(by: i64) {
    OWN.set(OWN.get().saturating_add(by));
    let untold = UNTOLD.get().saturating_add(by);
    UNTOLD.set(untold);
    if untold.abs() >= BATCH_BYTES {
        tell();
    }
}

/// Publishes this thread's counts; called before a thread can end, so that nothing is lost.
fn tell() {
    let untold = UNTOLD.take();
    let held = HELD.fetch_add(untold, Ordering::Relaxed).saturating_add(untold);
    PEAK.fetch_max(held, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_its_own_account_and_the_thread_its_own() {
        // The only test of this process that sets limits.
        set_limits(100 << 20, 1 << 40);
        let (one, other) = (Account::default(), Account::default());
        assert_eq!(room(usize::MAX), Ok(()));
        {
            let _work = one.work();
            took(60 << 20);
            assert_eq!((room(40 << 20), room(41 << 20)), (Ok(()), Err(OutOfMemory)));
            assert_eq!((was_refused(), was_refused()), (true, false));
            took(40 << 20);
            // A little more is allowed, to clean up.
            assert_eq!((room(1), room(13 << 20)), (Err(OutOfMemory), Err(OutOfMemory)));
            assert_eq!((room(12 << 20), room(13 << 20)), (Ok(()), Err(OutOfMemory)));
            took(24 << 20);
            assert_eq!(room(2 << 20), Err(OutOfMemory));
            assert_eq!(room(2 << 20), Err(OutOfMemory));
            gave(64 << 20);
            {
                let _other = other.work();
                assert_eq!((room(100 << 20), room(101 << 20)), (Ok(()), Err(OutOfMemory)));
            }
            assert_eq!(room(66 << 20), Err(OutOfMemory));
        }
        assert_eq!((one.bytes(), other.bytes()), (60 << 20, 0));
        set_limits(100 << 20, 50 << 20);
        {
            let _work = other.work();
            // The sum is too large: sessions that hold little continue.
            assert_eq!((room(1 << 20), room(2 << 20)), (Ok(()), Err(OutOfMemory)));
        }
        {
            let _work = one.work();
            assert_eq!(room(1), Err(OutOfMemory));
            gave(60 << 20);
            assert_eq!(room(40 << 20), Ok(()));
        }
        assert!(has_fallen());
        assert!(!has_fallen());
    }
}
