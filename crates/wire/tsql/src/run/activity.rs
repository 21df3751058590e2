//! The current work of an engine's sessions: for `sys.dm_exec_requests` and the like, which any
//! session may query.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tdekit_wire_tds::Caller;

use super::holder::Locks;
use super::locks::Seen;
use super::meter::{Live, Used, thread_cpu_ns};
use crate::name::same;
use crate::value::datetime::{self, Moment};

/// A session.
#[derive(Debug, Clone)]
pub(crate) struct Activity {
    pub(crate) caller: Caller,
    /// Time of its connection.
    pub(crate) since: Moment,
    /// Time at which its last request began.
    pub(crate) started: Moment,
    pub(crate) database: String,
    pub(crate) isolation: String,
    pub(crate) trancount: i32,
    /// Time at which the open transaction began.
    pub(crate) began: Option<Moment>,
    /// The first word of the last request: SELECT, EXECUTE ...
    pub(crate) command: String,
    /// The running request.
    pub(crate) request: Option<Request>,
    /// Time at which its current WAITFOR began.
    delayed: Option<Instant>,
    /// The wait that it is in: in lists.
    pub(crate) wait: Option<Seen>,
    live: Arc<Live>,
}

/// A running request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    began: Instant,
    thread: i32,
    cpu_before_ns: u64,
}

impl Request {
    fn begin() -> Request {
        Request {
            began: Instant::now(),
            thread: rustix::thread::gettid().as_raw_nonzero().get(),
            cpu_before_ns: thread_cpu_ns(),
        }
    }
}

impl Activity {
    /// Returns what the session has used, up to the last completed statement; for a running request
    /// also the time up to now, if the kernel reports it.
    pub(crate) fn total(&self) -> Used {
        let total = self.live.total();
        let Some(request) = &self.request else { return total };
        let before = self.live.at_request();
        let running = self.cpu_ns().map(|cpu_ns| before.cpu_ns + cpu_ns);
        let elapsed = u64::try_from(request.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Used {
            cpu_ns: running.unwrap_or(0).max(total.cpu_ns),
            elapsed_ns: before.elapsed_ns.saturating_add(elapsed),
            ..total
        }
    }

    /// Returns the time at which the last request ended, if none is running.
    pub(crate) fn ended(&self) -> Option<Moment> {
        const DAY_TICKS: i64 = 864_000_000_000;
        let took = self.live.total().since(self.live.at_request());
        let took = i64::try_from(took.elapsed_ns / 100).unwrap_or(0);
        let ticks = self.started.ticks.saturating_add(took);
        let days = self.started.days + ticks / DAY_TICKS;
        let ended = Moment { days, ticks: ticks % DAY_TICKS, ..self.started };
        self.request.is_none().then_some(ended)
    }

    /// Returns the number of the system's thread that works on the running request.
    pub(crate) fn thread(&self) -> Option<i32> {
        self.request.as_ref().map(|request| request.thread)
    }

    /// Returns what the running request has used.
    pub(crate) fn of_request(&self) -> Used {
        self.total().since(self.live.at_request())
    }

    /// Returns the processor time of the running request; None if the kernel does not report it.
    fn cpu_ns(&self) -> Option<u64> {
        let request = self.request.as_ref()?;
        // the first figure is the time on the processor, by the clock that `begin` read
        let path = format!("/proc/self/task/{}/schedstat", request.thread);
        let text = std::fs::read_to_string(path).ok()?;
        let cpu_ns: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
        Some(cpu_ns.saturating_sub(request.cpu_before_ns))
    }
}

/// All sessions, by numbers of the engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activities(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    next: u64,
    sessions: BTreeMap<u64, Activity>,
}

/// A session's entry among them; removed when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    all: Activities,
    number: u64,
}

impl Activities {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(
        &self,
        caller: &Caller,
        database: &str,
        isolation: &str,
        live: Arc<Live>,
    ) -> Place {
        let now = datetime::now();
        let activity = Activity {
            caller: caller.clone(),
            since: now,
            started: now,
            database: database.to_owned(),
            isolation: isolation.to_owned(),
            trancount: 0,
            began: None,
            command: String::new(),
            request: None,
            delayed: None,
            wait: None,
            live,
        };
        let mut known = self.known();
        known.next += 1;
        let number = known.next;
        known.sessions.insert(number, activity);
        Place { all: self.clone(), number }
    }

    /// Returns true if a database is the current one of a session.
    pub(crate) fn is_current(&self, database: &str) -> bool {
        self.known().sessions.values().any(|own| same(&own.database, database))
    }

    /// Returns copies of all of them, with the lock that each waits for.
    pub(crate) fn list(&self, locks: &Locks) -> Vec<Activity> {
        let waits = locks.waits();
        let mut list: Vec<Activity> = self.known().sessions.values().cloned().collect();
        for own in &mut list {
            let alone = |wait_type| move |since| Seen { wait_type, since, blocker: None };
            let stalled = own.caller.stall.since().map(alone("ASYNC_NETWORK_IO"));
            let delayed = own.delayed.map(alone("WAITFOR"));
            own.wait = waits.get(&own.caller.spid).copied().or(stalled).or(delayed);
        }
        list
    }
}

impl Place {
    /// Returns the activities that contain this one.
    pub(crate) fn all(&self) -> &Activities {
        &self.all
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Activity)) {
        if let Some(activity) = self.all.known().sessions.get_mut(&self.number) {
            change(activity);
        }
    }

    /// Begins a request; returns the thread's processor time, and the time, at its beginning.
    pub(crate) fn begin(&self, now: Moment, command: &str) -> (u64, Instant) {
        let request = Request::begin();
        let begun = (request.cpu_before_ns, request.began);
        self.change(|activity| {
            activity.started = now;
            command.clone_into(&mut activity.command);
            activity.request = Some(request);
        });
        begun
    }

    /// Begins a WAITFOR, or ends one.
    pub(crate) fn delay(&self, since: Option<Instant>) {
        self.change(|activity| activity.delayed = since);
    }

    pub(crate) fn end(&self) {
        self.change(|activity| activity.request = None);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.known().sessions.remove(&self.number);
    }
}
