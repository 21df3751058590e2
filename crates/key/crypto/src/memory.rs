//! FFI: dedicated pages for secrets, kept out of swap and core dumps.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use zeroize::Zeroize;

use crate::CryptoError;

/// A private mapping of whole pages that holds one secret.
///
/// Locked in memory where the system's limit allows it (best effort) and, on Linux, left out of
/// core dumps. Wiped before it is unmapped or given to the next secret.
pub(crate) struct SecretPages {
    mapping: Mapping,
    len: usize,
}

/// Mappings of one page that are kept for the next secret, because mapping and locking cost
/// microseconds. All their bytes are zero. The lock is only tried, never waited for: in the child
/// of a fork it may be held for ever.
static SPARE: Mutex<Vec<Mapping>> = Mutex::new(Vec::new());

const MAX_SPARE: usize = 16;

/// True if the system has refused to lock a secret's pages.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Returns true if the secrets of this process are locked in memory, so that none gets into swap.
/// They are not locked where `RLIMIT_MEMLOCK` is too small and the process may not exceed it.
#[must_use]
pub fn secrets_are_locked() -> bool {
    // If no secret has been made yet, this one gives the answer.
    let tried = SecretPages::new(1);
    tried.is_ok() && !REFUSED.load(Ordering::Relaxed)
}

impl SecretPages {
    /// Maps `len` zero bytes.
    ///
    /// # Errors
    /// [`CryptoError::Memory`] when the system has no memory.
    pub(crate) fn new(len: usize) -> Result<Self, CryptoError> {
        let page_len = page_len();
        let mapped_len = len
            .max(1)
            .checked_next_multiple_of(page_len)
            .ok_or(CryptoError::Memory { len, os_error: libc::ENOMEM })?;
        if mapped_len == page_len
            && let Ok(mut spare) = SPARE.try_lock()
            && let Some(mapping) = spare.pop()
        {
            return Ok(Self { mapping, len });
        }
        Mapping::new(mapped_len)
            .map(|mapping| Self { mapping, len })
            .map_err(|os_error| CryptoError::Memory { len, os_error })
    }

    /// The secret's bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping has at least `len` readable bytes as long as `self` lives.
        unsafe { slice::from_raw_parts(self.mapping.start.as_ptr(), self.len) }
    }

    /// The secret's bytes, writable.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and `&mut self` makes the borrow the only one.
        unsafe { slice::from_raw_parts_mut(self.mapping.start.as_ptr(), self.len) }
    }

    /// Drops the bytes from `len` on, wiping them.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.as_mut_slice()[len..].zeroize();
            self.len = len;
        }
    }
}

impl Drop for SecretPages {
    fn drop(&mut self) {
        // Bytes past `len` are zero: they were never written, or `truncate` wiped them.
        self.as_mut_slice().zeroize();
        if self.mapping.len == page_len()
            && let Ok(mut spare) = SPARE.try_lock()
            && spare.len() < MAX_SPARE
        {
            spare.push(std::mem::replace(&mut self.mapping, Mapping::EMPTY));
        }
    }
}

/// A value that holds secrets, in pages of its own. It is moved there from the stack, where a copy
/// remains until it is overwritten.
pub(crate) struct SecretBox<T> {
    pages: SecretPages,
    owned: PhantomData<T>,
}

impl<T> SecretBox<T> {
    /// # Errors
    /// [`CryptoError::Memory`] when the system has no memory.
    pub(crate) fn new(value: T) -> Result<Self, CryptoError> {
        const { assert!(align_of::<T>() <= 4096) };
        let mut pages = SecretPages::new(size_of::<T>())?;
        // SAFETY: the pages have room for a `T` and start at a page's boundary, which is aligned
        // enough (asserted above); nothing else is in them.
        unsafe { pages.as_mut_slice().as_mut_ptr().cast::<T>().write(value) };
        Ok(Self { pages, owned: PhantomData })
    }
}

impl<T> Deref for SecretBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `new` put a `T` there, which is dropped with `self` only. The pointer is taken
        // from the mapping itself, so a `T` may change what it holds behind a shared reference.
        unsafe { self.pages.mapping.start.cast::<T>().as_ref() }
    }
}

impl<T> DerefMut for SecretBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes the borrow the only one.
        unsafe { self.pages.mapping.start.cast::<T>().as_mut() }
    }
}

impl<T> Drop for SecretBox<T> {
    fn drop(&mut self) {
        // SAFETY: `new` put a `T` there, and nobody uses it after this.
        unsafe { self.pages.mapping.start.cast::<T>().drop_in_place() };
    }
}

/// Pages of the system, unmapped on drop.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    const EMPTY: Self = Self { start: NonNull::dangling(), len: 0 };

    /// Maps `len` zero bytes, or returns `errno`.
    fn new(len: usize) -> Result<Self, i32> {
        let os_error = || std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        // SAFETY: a new anonymous private mapping at an address the kernel chooses touches no
        // memory that exists.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(os_error());
        }
        // SAFETY: `start` and `len` are the mapping just made. Both calls only advise; a refusal (a
        // small RLIMIT_MEMLOCK) leaves the secret usable, which is the contract.
        unsafe {
            if libc::mlock(start, len) != 0 {
                REFUSED.store(true, Ordering::Relaxed);
            }
            #[cfg(target_os = "linux")]
            libc::madvise(start, len, libc::MADV_DONTDUMP);
        }
        NonNull::new(start.cast::<u8>()).map(|start| Self { start, len }).ok_or_else(os_error)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping is ours alone and no borrow outlives its owner; unmapping
            // unlocks it.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

// SAFETY: the mapping belongs to one owner, as a Box<[u8]> does; it has no tie to a thread.
unsafe impl Send for Mapping {}
// SAFETY: shared references only read.
unsafe impl Sync for Mapping {}

/// Length of the system's pages.
fn page_len() -> usize {
    static PAGE_LEN: OnceLock<usize> = OnceLock::new();
    *PAGE_LEN.get_or_init(|| {
        // SAFETY: sysconf has no precondition.
        let len = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) });
        len.ok().filter(|len| len.is_power_of_two()).unwrap_or(4096)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_holds_its_value_and_drops_it_once() {
        use std::sync::Arc;

        let counted = Arc::new(());
        let held = SecretBox::new((5u64, Arc::clone(&counted), Mutex::new(3))).unwrap();
        assert_eq!((held.0, Arc::strong_count(&counted)), (5, 2));
        *held.2.lock().unwrap() += 1;
        assert_eq!(*held.2.lock().unwrap(), 4);
        drop(held);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn a_spare_page_comes_back_zeroed() {
        for round in 0..100u8 {
            let mut pages: Vec<_> = (0..20).map(|_| SecretPages::new(4096).unwrap()).collect();
            for page in &mut pages {
                assert_eq!(page.as_slice(), [0; 4096], "round {round}");
                page.as_mut_slice().fill(0xa5);
                page.truncate(usize::from(round) * 40);
            }
        }
    }
}
