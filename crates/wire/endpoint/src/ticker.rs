//! Watches requests that run: hears a client that cancels, and sees that gathered output does not
//! wait long. One thread for all, which sleeps as long as nothing runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, TryLockError};
use std::thread;
use std::time::Duration;

use crate::answer::{Signals, lock};
use crate::channel::Channel;
use crate::error::EndpointError;

/// How often it looks: the longest that gathered tokens wait, and that a cancel is not heard.
const TICK: Duration = Duration::from_millis(10);
/// It sleeps after so many ticks in which nothing ran.
const TICKS_TO_SLEEP: u32 = 100;

/// A request that runs.
struct Running {
    id: u64,
    channel: Arc<Mutex<Channel>>,
    signals: Arc<Signals>,
}

#[derive(Default)]
struct State {
    running: Mutex<Runs>,
    wake: Condvar,
    asleep: AtomicBool,
}

#[derive(Default)]
struct Runs {
    list: Vec<Running>,
    next_id: u64,
    stopped: bool,
}

/// Watches requests.
pub(crate) struct Ticker {
    state: Arc<State>,
}

/// A request is watched as long as this lives.
pub(crate) struct Watched {
    state: Arc<State>,
    id: u64,
}

impl Ticker {
    pub(crate) fn start() -> Result<Ticker, EndpointError> {
        let state = Arc::new(State::default());
        let own = Arc::clone(&state);
        thread::Builder::new()
            .name("tds-ticker".to_owned())
            .spawn(move || own.run())
            .map_err(|source| EndpointError::System { what: "a thread", source })?;
        Ok(Ticker { state })
    }

    pub(crate) fn watch(&self, channel: &Arc<Mutex<Channel>>, signals: &Arc<Signals>) -> Watched {
        let mut runs = lock(&self.state.running);
        let id = runs.next_id;
        runs.next_id += 1;
        let (channel, signals) = (Arc::clone(channel), Arc::clone(signals));
        runs.list.push(Running { id, channel, signals });
        drop(runs);
        if self.state.asleep.swap(false, Ordering::AcqRel) {
            self.state.wake.notify_one();
        }
        Watched { state: Arc::clone(&self.state), id }
    }

    /// Requests that run.
    pub(crate) fn running(&self) -> usize {
        lock(&self.state.running).list.len()
    }

    /// Cancels all that runs.
    pub(crate) fn cancel_all(&self) {
        for running in &lock(&self.state.running).list {
            running.signals.cancel.store(true, Ordering::Release);
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        lock(&self.state.running).stopped = true;
        self.state.wake.notify_one();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut runs = lock(&self.state.running);
        if let Some(at) = runs.list.iter().position(|running| running.id == self.id) {
            runs.list.swap_remove(at);
        }
    }
}

impl State {
    fn run(&self) {
        let mut idle_ticks = 0;
        // Those that ran at the last tick too: a request that is over within one costs nothing.
        let mut seen: Vec<u64> = Vec::new();
        loop {
            let mut runs = lock(&self.running);
            if runs.stopped {
                return;
            }
            if idle_ticks >= TICKS_TO_SLEEP && runs.list.is_empty() {
                while runs.list.is_empty() && !runs.stopped {
                    // A thread that adds a request from now on sees that it must wake this one. The
                    // flag is set anew each time, since a request may be over before this thread
                    // runs.
                    self.asleep.store(true, Ordering::Release);
                    runs = match self.wake.wait(runs) {
                        Ok(runs) => runs,
                        Err(poisoned) => poisoned.into_inner(),
                    };
                }
                self.asleep.store(false, Ordering::Release);
                idle_ticks = 0;
                drop(runs);
            } else {
                idle_ticks = if runs.list.is_empty() { idle_ticks + 1 } else { 0 };
                for running in runs.list.iter().filter(|running| seen.contains(&running.id)) {
                    running.look();
                }
                seen.clear();
                seen.extend(runs.list.iter().map(|running| running.id));
                drop(runs);
            }
            thread::sleep(TICK);
        }
    }
}

impl Running {
    fn look(&self) {
        self.signals.flush.store(true, Ordering::Relaxed);
        // The thread that holds the channel writes to it, and listens by itself when that is stuck.
        let mut channel = match self.channel.try_lock() {
            Ok(channel) => channel,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let gone = channel.fill().is_err() || channel.is_closed();
        if gone || channel.has_attention() {
            self.signals.cancel.store(true, Ordering::Release);
        }
    }
}
