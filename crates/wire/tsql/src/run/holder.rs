//! A session's interface to the locks: it takes them, waits for them and releases them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tdekit_wire_tds::Sink;

use super::locks::{Known, Mode, Owner, Resource, Seen, Wanted};

/// Maximum time between two checks of a waiting session, which is woken when its state changes.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// Outcome of a lock request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted {
        waited: bool,
    },
    TimedOut,
    Cancelled,
    Deadlock,
    /// Too many sessions are waiting.
    Crowded,
}

/// The locks of an engine's sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Locks(Arc<Mutex<Known>>);

/// A session's part in them; its locks are released when this is dropped.
#[derive(Debug)]
pub(crate) struct Holder {
    all: Locks,
    session: u64,
    /// Databases whose write locks it has.
    writes: Vec<String>,
}

impl Locks {
    pub(crate) fn enter(&self, spid: u16) -> Holder {
        let session = self.known().enter(spid);
        Holder { all: self.clone(), session, writes: Vec::new() }
    }

    /// Returns the sessions that wait for locks, by their numbers for clients.
    pub(crate) fn waits(&self) -> HashMap<u16, Seen> {
        self.known().waits()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holder {
    /// Returns the locks of all sessions.
    pub(crate) fn all(&self) -> &Locks {
        &self.all
    }

    /// Takes an application lock; waits up to `limit` (None: for ever).
    pub(crate) fn acquire(
        &self,
        (resource, mode, owner): (&Resource, Mode, Owner),
        limit: Option<Duration>,
        sink: &mut dyn Sink,
    ) -> Outcome {
        self.get(&Wanted::Application(resource.clone(), mode, owner), limit, sink)
    }

    /// Takes the write locks of databases, all at once, in the order of the sessions' requests.
    pub(crate) fn acquire_writes(
        &mut self,
        mut databases: Vec<String>,
        limit: Option<Duration>,
        sink: &mut dyn Sink,
    ) -> Outcome {
        databases.retain(|name| !self.writes.contains(name));
        if databases.is_empty() {
            return Outcome::Granted { waited: false };
        }
        let wanted = Wanted::Databases(databases);
        let outcome = self.get(&wanted, limit, sink);
        if let (Outcome::Granted { .. }, Wanted::Databases(databases)) = (outcome, wanted) {
            self.writes.extend(databases);
        }
        outcome
    }

    /// Releases the write locks of databases for which `kept` is false.
    pub(crate) fn release_writes(&mut self, kept: &dyn Fn(&str) -> bool) {
        if !self.writes.is_empty() {
            self.writes = self.all.known().release_writes(self.session, &self.writes, kept);
        }
    }

    /// Releases an application lock, once for each time it was taken. Returns false if it is not
    /// held.
    pub(crate) fn release(&self, resource: &Resource, owner: Owner) -> bool {
        self.all.known().release(self.session, resource, owner)
    }

    /// Releases the application locks that end with the transaction, or all.
    pub(crate) fn release_all(&self, owner: Option<Owner>) {
        self.all.known().release_all(self.session, owner);
    }

    fn get(&self, wanted: &Wanted, limit: Option<Duration>, sink: &mut dyn Sink) -> Outcome {
        let start = Instant::now();
        if self.all.known().take(self.session, wanted) {
            return Outcome::Granted { waited: false };
        }
        if limit.is_some_and(|limit| limit.is_zero()) {
            return Outcome::TimedOut;
        }
        // no output may wait together with the session; sent before it has a place in the queue,
        // since the client may not be reading
        sink.flush();
        if !self.all.known().wait(self.session, wanted.clone(), thread::current()) {
            return Outcome::Deadlock;
        }
        let _ends = Waits(self);
        let mut outcome = Outcome::Crowded;
        let sink = &*sink;
        sink.waiting(&mut || outcome = self.wait(wanted, start, limit, sink));
        outcome
    }

    fn wait(
        &self,
        wanted: &Wanted,
        start: Instant,
        limit: Option<Duration>,
        sink: &dyn Sink,
    ) -> Outcome {
        loop {
            if self.all.known().take(self.session, wanted) {
                return Outcome::Granted { waited: true };
            }
            if sink.cancelled() {
                return Outcome::Cancelled;
            }
            let left = limit.map_or(LOOK, |limit| limit.saturating_sub(start.elapsed()));
            if left.is_zero() {
                return Outcome::TimedOut;
            }
            thread::park_timeout(left.min(LOOK));
        }
    }
}

/// While this exists, a session is among those that wait.
struct Waits<'a>(&'a Holder);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.all.known().end_wait(self.0.session);
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.release_writes(&|_| false);
        let mut known = self.all.known();
        known.release_all(self.session, None);
        known.leave(self.session);
    }
}
