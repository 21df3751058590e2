//! Reads of a mapped file that another program truncates in the meantime.
//!
//! When a page that is mapped but no longer in the file is read, the system raises SIGBUS, which
//! ends the process, and the process is the host's. So each mapping has a [`Mapped`], which has its
//! place and whether it is being read. The handler replaces the lost page by zeros, records that,
//! and lets the read continue; its reader then discards the bytes. Every other SIGBUS goes to the
//! previous handler. Nothing here takes a lock or allocates memory while a signal is handled.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, compiler_fence};
use std::sync::{Mutex, OnceLock, PoisonError};

/// One mapping of a file. It is used by one thread at a time, and the handler runs on that thread,
/// so stores here need only compiler ordering.
pub(crate) struct Mapped {
    start: AtomicUsize,
    len: AtomicUsize,
    reading: AtomicBool,
    lost: AtomicBool,
    next: *const Mapped,
}

// SAFETY: `next` is written before the value is shared, and points to one that lives for ever; all
// else is atomic.
unsafe impl Sync for Mapped {}

/// Every existing `Mapped`: the handler walks the list from here. None is ever freed.
static ALL: AtomicPtr<Mapped> = AtomicPtr::new(ptr::null_mut());
/// Those that are not in use by a file.
static FREE: Mutex<Vec<&'static Mapped>> = Mutex::new(Vec::new());
/// The previous handler of the signal; `None` if ours cannot be installed.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// The right to use a `Mapped`, which is returned on drop.
pub(crate) struct Guard(&'static Mapped);

impl Guard {
    /// Makes a guard for a file that is about to be mapped; `None` if a lost page cannot be
    /// survived.
    pub(crate) fn new() -> Option<Self> {
        if !is_installed() {
            return None;
        }
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Some(Self(free.unwrap_or_else(another)))
    }

    /// Returns the mapping, for a second reader of the file.
    pub(crate) fn mapped(&self) -> &'static Mapped {
        self.0
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.place(0, 0);
        self.0.lost.store(false, Ordering::Relaxed);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

impl Mapped {
    /// Records that the file's bytes are mapped from `start` to `start + len`. A length of 0 means
    /// that they are not, and must be set before they are unmapped: the addresses will have another
    /// owner.
    pub(crate) fn place(&self, start: usize, len: usize) {
        compiler_fence(Ordering::SeqCst);
        self.len.store(len, Ordering::Relaxed);
        self.start.store(start, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Runs `read`, which reads the mapping. Also returns whether a page was lost since the last
    /// query.
    #[inline]
    pub(crate) fn read<R>(&self, read: impl FnOnce() -> R) -> (R, bool) {
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                compiler_fence(Ordering::SeqCst);
                self.0.store(false, Ordering::Relaxed);
            }
        }
        self.reading.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let end = End(&self.reading);
        let result = read();
        drop(end);
        (result, self.is_lost())
    }

    /// Returns true if a page was lost and not dealt with.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Records that the lost page was dealt with.
    pub(crate) fn found(&self) {
        self.lost.store(false, Ordering::Relaxed);
    }

    fn holds(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Relaxed);
        self.reading.load(Ordering::Relaxed)
            && address.checked_sub(start).is_some_and(|at| at < self.len.load(Ordering::Relaxed))
    }
}

/// Returns true if our handler is the one that is called. A handler installed later need not call
/// ours.
pub(crate) fn is_installed() -> bool {
    if BEFORE.get_or_init(install).is_none() {
        return false;
    }
    current().is_some_and(|action| action.sa_sigaction == handler_address())
}

/// Adds a new one to the list.
fn another() -> &'static Mapped {
    let mapped = Box::leak(Box::new(Mapped {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        reading: AtomicBool::new(false),
        lost: AtomicBool::new(false),
        next: ptr::null(),
    }));
    let place: *mut Mapped = mapped;
    let mut head = ALL.load(Ordering::Acquire);
    loop {
        // SAFETY: it was made above, and nobody else has it before it is in the list.
        unsafe { (*place).next = head };
        match ALL.compare_exchange(head, place, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was leaked above, and nobody writes to it but through its atomics.
            Ok(_) => return unsafe { &*place },
            Err(other) => head = other,
        }
    }
}

fn handler_address() -> usize {
    let handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
    handler as usize
}

fn current() -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: with no new action the call only fills the place.
    let code = unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: filled on success.
    (code == 0).then(|| unsafe { action.assume_init() })
}

/// Installs the handler; returns the previous one.
fn install() -> Option<libc::sigaction> {
    let before = current()?;
    // SAFETY: a `sigaction` of zeros is valid: no handler, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler_address();
    action.sa_mask = before.sa_mask;
    // On the thread's own signal stack, if its runtime made one (Go requires that).
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | (before.sa_flags & libc::SA_NODEFER);
    // SAFETY: the handler keeps to what is safe in a signal, and lives for ever: the library is
    // never unloaded.
    let code = unsafe { libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) };
    (code == 0).then_some(before)
}

unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes a valid description.
    let (sent, address) = unsafe { ((*info).si_code <= 0, (*info).si_addr() as usize) };
    if !sent && replace_lost_page(address) {
        return;
    }
    // SAFETY: the arguments are the system's.
    unsafe { pass_on(signal, info, context, sent) };
}

/// Replaces the page at `address` by zeros, if it is being read; returns true if it was.
fn replace_lost_page(address: usize) -> bool {
    let mut next: *const Mapped = ALL.load(Ordering::Acquire);
    // SAFETY: the list's members live for ever.
    while let Some(mapped) = unsafe { next.as_ref() } {
        if mapped.holds(address) {
            // SAFETY: sysconf and errno's place have no precondition; the range is one page of a
            // mapping that its reader holds, and is private to this process from now on.
            let put = unsafe {
                let errno = *libc::__errno_location();
                let len = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
                let page = (address & !(len - 1)) as *mut c_void;
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
                let put = libc::mmap(page, len, libc::PROT_READ, flags, -1, 0);
                *libc::__errno_location() = errno;
                put
            };
            mapped.lost.store(true, Ordering::Relaxed);
            return put != libc::MAP_FAILED;
        }
        next = mapped.next;
    }
    false
}

/// Passes the signal to its previous handler.
///
/// # Safety
/// The arguments are those that the system passed to the handler.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, sent: bool) {
    let Some(Some(before)) = BEFORE.get() else { return };
    match before.sa_sigaction {
        libc::SIG_IGN if sent => {}
        // With the system's default in place, the instruction faults again when we return; a signal
        // that was sent is sent again.
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: both calls are allowed in a signal handler.
            unsafe {
                libc::sigaction(signal, before, ptr::null_mut());
                if sent {
                    libc::raise(signal);
                }
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: a handler that was installed with this flag has this signature.
            unsafe { std::mem::transmute::<usize, Handler>(handler)(signal, info, context) };
        }
        handler => {
            // SAFETY: a handler that was installed without the flag has this signature.
            unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(handler)(signal);
            }
        }
    }
}
