//! Connections made from several threads.

use std::sync::atomic::{AtomicU32, Ordering};

use tdekit_system_use::Use;

use super::tds::{Connection, Dialer};
use crate::error::{BenchError, Result};
use crate::interrupt;

/// Opens `count` connections, `threads` at a time, and passes each to `each`. Returns the CPU usage
/// of the threads.
///
/// # Errors
/// That of the first connection that fails; no further one is begun then.
pub(super) fn dial(
    dialer: &Dialer,
    count: u32,
    threads: u32,
    each: &(dyn Fn(Connection) + Sync),
) -> Result<Use> {
    let left = AtomicU32::new(count);
    let work = || {
        let next = |left: u32| left.checked_sub(1);
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok() {
            let opened = interrupt::check().and_then(|()| Ok(dialer.open()?));
            match opened {
                Ok(connection) => each(connection),
                Err(error) => {
                    left.store(0, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        // A new thread has used nothing.
        Ok(Use::of_this_thread())
    };
    let used: Vec<Result<Use>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.min(count)).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(lost()))).collect()
    });
    let mut sum = Use::default();
    for used in used {
        sum.add(&used?);
    }
    Ok(sum)
}

fn lost() -> BenchError {
    let detail = "a thread of the bench ended".to_owned();
    BenchError::WorkerLost { side: "connections".to_owned(), detail }
}
