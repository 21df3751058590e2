//! A thread that looks when transactions are committed, while the follower reads, ships or waits
//! for an object store.
//!
//! It has a connection of its own: that of the keeper is in use while a long log is read or copied.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::keeper::Keeper;
use super::marks::{Marks, look};
use crate::RunError;
use crate::output::lock;

/// Interval of looks at the index of the log. A look costs no system call.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// The thread. It ends when dropped.
pub(super) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    duty: Mutex<Duty>,
    changed: Condvar,
}

/// The thread's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Duty {
    /// It looks.
    #[default]
    Looks,
    /// It sleeps: the follower looks itself.
    Rests,
    /// It ends.
    Ends,
}

impl Watch {
    /// Begins to look through `keeper`, whose end leaves the log as it is.
    ///
    /// # Errors
    /// `Thread`.
    pub(super) fn start(keeper: Keeper, marks: &Arc<Mutex<Marks>>) -> Result<Self, RunError> {
        keeper.leave_log();
        let shared: Arc<Shared> = Arc::default();
        let (own, marks) = (Arc::clone(&shared), Arc::clone(marks));
        let thread = Builder::new().name("tdekit-watch".to_owned());
        let thread = thread.spawn(move || own.work(keeper, &marks));
        let thread = thread.map_err(|source| RunError::Thread { source })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Looks from now on, if `looks`, and rests otherwise.
    pub(super) fn looks(&self, looks: bool) {
        self.set(if looks { Duty::Looks } else { Duty::Rests });
    }

    fn set(&self, duty: Duty) {
        let before = std::mem::replace(&mut *lock(&self.shared.duty), duty);
        // One that looks finds that it rests by itself.
        if before != duty && duty != Duty::Rests {
            self.shared.changed.notify_one();
        }
    }

    /// Ends the thread and its connection.
    pub(super) fn end(&mut self) {
        self.set(Duty::Ends);
        if let Some(thread) = self.thread.take() {
            // It has nothing to return, also where it panicked.
            let _ = thread.join();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn work(&self, mut keeper: Keeper, marks: &Mutex<Marks>) {
        let mut duty = lock(&self.duty);
        loop {
            let woken = match *duty {
                Duty::Ends => return,
                Duty::Rests => self.changed.wait_while(duty, |duty| *duty == Duty::Rests),
                Duty::Looks => {
                    drop(duty);
                    look(marks, &mut keeper);
                    let (duty, looks) = (lock(&self.duty), |duty: &mut Duty| *duty == Duty::Looks);
                    let waited = self.changed.wait_timeout_while(duty, LOOK, looks);
                    Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
                }
            };
            duty = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
