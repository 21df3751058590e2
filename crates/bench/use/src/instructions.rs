//! Instructions retired by this process, counted by the processor through `perf_event_open`.

use std::cell::RefCell;
use std::io;

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

thread_local! {
    /// Opened at the first reading; it also counts threads that begin after that.
    static COUNTER: RefCell<Option<Counting>> = const { RefCell::new(None) };
}

enum Counting {
    Open(Counter, &'static str),
    Refused(String),
}

/// Opens the counter, for user and kernel if allowed, else for user alone.
fn open() -> Counting {
    let attempt = |kernel: bool| -> io::Result<Counter> {
        let mut builder = Builder::new(Hardware::INSTRUCTIONS);
        builder.inherit(true);
        if kernel {
            builder.include_kernel();
        }
        let mut counter = builder.build()?;
        counter.enable()?;
        Ok(counter)
    };
    attempt(true)
        .map(|counter| Counting::Open(counter, "user and kernel"))
        .or_else(|_| attempt(false).map(|counter| Counting::Open(counter, "user")))
        .unwrap_or_else(|error| Counting::Refused(format!("not counted: {}", reason(&error))))
}

/// Returns the reason in words, with what allows it.
fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "the processor's counters cannot be read; a virtual machine has them if its host \
             passes them on"
                .to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => {
            "the processor's counters may not be read; `sysctl kernel.perf_event_paranoid=2` \
             allows it"
                .to_owned()
        }
        _ => format!("the processor's counters cannot be read: {error}"),
    }
}

fn with<T>(use_it: impl FnOnce(&mut Counting) -> T) -> T {
    COUNTER.with_borrow_mut(|counting| use_it(counting.get_or_insert_with(open)))
}

/// Returns the instructions of this thread and of those it started since the first call; `None` if
/// they cannot be counted.
#[must_use]
pub fn instructions() -> Option<u64> {
    with(|counting| match counting {
        Counting::Open(counter, _) => counter.read().ok(),
        Counting::Refused(_) => None,
    })
}

/// Returns the kind of counted instructions, or the reason why none are counted.
#[must_use]
pub fn instructions_scope() -> String {
    with(|counting| match counting {
        Counting::Open(_, scope) => (*scope).to_owned(),
        Counting::Refused(reason) => reason.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_says_what_helps() {
        let of = |number| reason(&io::Error::from_raw_os_error(number));
        assert!(of(libc::ENOENT).contains("virtual machine") && !of(libc::ENOENT).contains("os "));
        assert!(of(libc::EACCES).contains("perf_event_paranoid"));
        assert!(of(libc::ENOSYS).contains("Function not implemented"));
    }

    #[test]
    fn counted_or_refused_with_a_reason() {
        let work = || (0..100_000_u64).fold(1_u64, |sum, n| sum.wrapping_mul(31) ^ n);
        match instructions() {
            Some(before) => {
                assert_ne!(std::hint::black_box(work()), 0);
                assert!(instructions().unwrap() >= before + 100_000);
                assert!(instructions_scope().starts_with("user"));
            }
            None => assert!(
                instructions_scope().starts_with("not counted: "),
                "{}",
                instructions_scope()
            ),
        }
    }
}
