//! Watches running requests: notices a client that cancels or leaves, and has a clock by which
//! gathered output is sent before it has waited long. A single thread, which sleeps while nothing
//! runs. The kernel watches the sockets, so thousands of waiting requests cost nothing.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, TryLockError};
use std::thread;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::answer::{Signals, lock};
use crate::channel::Channel;
use crate::error::EndpointError;

/// The clock's unit: maximum time for which gathered tokens wait, and for which a cancel goes
/// unnoticed.
const TICK: Duration = Duration::from_millis(10);
/// Number of idle ticks after which it sleeps.
const TICKS_TO_SLEEP: u32 = 100;

/// A running request.
struct Running {
    channel: Arc<Mutex<Channel>>,
    signals: Arc<Signals>,
    /// True if the kernel knows its socket.
    is_known: bool,
}

struct State {
    poller: OwnedFd,
    clock: Arc<AtomicU64>,
    running: Mutex<Runs>,
    wake: Condvar,
    asleep: AtomicBool,
}

#[derive(Default)]
struct Runs {
    all: HashMap<u64, Running>,
    /// Requests whose sockets are checked with the next tick but one, and with the next: a request
    /// that is over by then costs nothing.
    young: Vec<u64>,
    due: Vec<u64>,
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
        let refused = |source| EndpointError::System { what: "a thread that watches", source };
        let poller = epoll::create(CreateFlags::CLOEXEC).map_err(|error| refused(error.into()))?;
        let state = Arc::new(State {
            poller,
            clock: Arc::default(),
            running: Mutex::default(),
            wake: Condvar::new(),
            asleep: AtomicBool::new(false),
        });
        let own = Arc::clone(&state);
        thread::Builder::new()
            .name("tds-ticker".to_owned())
            .spawn(move || own.run())
            .map_err(refused)?;
        Ok(Ticker { state })
    }

    /// Returns the tick counter, which advances while requests run.
    pub(crate) fn clock(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.state.clock)
    }

    pub(crate) fn watch(&self, channel: &Arc<Mutex<Channel>>, signals: &Arc<Signals>) -> Watched {
        let mut runs = lock(&self.state.running);
        let id = runs.next_id;
        runs.next_id += 1;
        let (channel, signals) = (Arc::clone(channel), Arc::clone(signals));
        runs.all.insert(id, Running { channel, signals, is_known: false });
        runs.young.push(id);
        drop(runs);
        if self.state.asleep.swap(false, Ordering::AcqRel) {
            self.state.wake.notify_one();
        }
        Watched { state: Arc::clone(&self.state), id }
    }

    /// Returns the number of running requests.
    pub(crate) fn running(&self) -> usize {
        lock(&self.state.running).all.len()
    }

    /// Cancels all running requests.
    pub(crate) fn cancel_all(&self) {
        for running in lock(&self.state.running).all.values() {
            running.signals.cancel();
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
        let Some(running) = lock(&self.state.running).all.remove(&self.id) else { return };
        if running.is_known {
            let stream = lock(&running.channel).stream();
            // It may be closed already.
            let _gone = epoll::delete(&self.state.poller, stream.as_fd());
        }
    }
}

impl State {
    fn run(&self) {
        let mut idle_ticks = 0;
        let mut events = Vec::with_capacity(256);
        loop {
            {
                let mut runs = lock(&self.running);
                if runs.stopped {
                    return;
                }
                if idle_ticks >= TICKS_TO_SLEEP && runs.all.is_empty() {
                    runs = self.sleep(runs);
                    idle_ticks = 0;
                }
                idle_ticks = if runs.all.is_empty() { idle_ticks + 1 } else { 0 };
                self.clock.fetch_add(1, Ordering::Relaxed);
                let due = std::mem::take(&mut runs.due);
                runs.due = std::mem::take(&mut runs.young);
                for id in due {
                    self.look(&mut runs, id);
                }
            }
            thread::sleep(TICK);
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            if epoll::wait(&self.poller, buffer, Some(&at_once)).is_ok() && !events.is_empty() {
                let mut runs = lock(&self.running);
                let seen = events.iter().map(|event| {
                    let epoll::Event { data, .. } = *event;
                    data.u64()
                });
                runs.due.extend(seen);
            }
        }
    }

    fn sleep<'a>(
        &'a self,
        mut runs: std::sync::MutexGuard<'a, Runs>,
    ) -> std::sync::MutexGuard<'a, Runs> {
        while runs.all.is_empty() && !runs.stopped {
            // A thread that adds a request from now on sees that it must wake this one. The flag is
            // set anew each time, since a request may be over before this thread runs.
            self.asleep.store(true, Ordering::Release);
            runs = match self.wake.wait(runs) {
                Ok(runs) => runs,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
        self.asleep.store(false, Ordering::Release);
        runs
    }

    /// Reads what the client has sent meanwhile, and makes the kernel report when it sends more.
    fn look(&self, runs: &mut Runs, id: u64) {
        let Some(running) = runs.all.get_mut(&id) else { return };
        // The thread that holds the channel writes to it, and listens itself when that blocks.
        let mut channel = match running.channel.try_lock() {
            Ok(channel) => channel,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return runs.due.push(id),
        };
        let gone = channel.fill().is_err() || channel.is_closed();
        if gone || channel.has_attention() {
            return running.signals.cancel();
        }
        if channel.is_full() {
            return runs.due.push(id);
        }
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        let (stream, data) = (channel.stream(), EventData::new_u64(id));
        let watched = match running.is_known {
            false => epoll::add(&self.poller, stream.as_fd(), data, flags),
            true => epoll::modify(&self.poller, stream.as_fd(), data, flags),
        };
        running.is_known |= watched.is_ok();
        drop(channel);
        if watched.is_err() {
            runs.due.push(id);
        }
    }
}
