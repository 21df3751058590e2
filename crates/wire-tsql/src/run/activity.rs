//! The current work of an engine's sessions: behind `sys.dm_exec_requests` and its kind, which any
//! session may ask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use tdekit_wire_tds::Caller;

use crate::value::datetime::{self, Moment};

/// A session.
#[derive(Debug, Clone)]
pub(crate) struct Activity {
    pub(crate) caller: Caller,
    /// When it connected.
    pub(crate) since: Moment,
    /// When its last request began.
    pub(crate) started: Moment,
    pub(crate) database: String,
    pub(crate) isolation: String,
    pub(crate) trancount: i32,
    /// The first word of the last request: SELECT, EXECUTE ...
    pub(crate) command: String,
    /// The request that runs.
    pub(crate) request: Option<Request>,
}

/// A request that runs.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    began: Instant,
    thread: i32,
    cpu_before_ns: u64,
}

impl Request {
    fn begin() -> Request {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let ns = u64::try_from(time.tv_nsec).unwrap_or(0);
        Request {
            began: Instant::now(),
            thread: rustix::thread::gettid().as_raw_nonzero().get(),
            cpu_before_ns: seconds * 1_000_000_000 + ns,
        }
    }
}

impl Activity {
    /// CPU time of the request that runs; None where the kernel does not tell.
    pub(crate) fn cpu_ms(&self) -> Option<i64> {
        let request = self.request.as_ref()?;
        // the first figure is the time on the processor, of the clock that `begin` read
        let path = format!("/proc/self/task/{}/schedstat", request.thread);
        let text = std::fs::read_to_string(path).ok()?;
        let cpu_ns: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
        i64::try_from(cpu_ns.saturating_sub(request.cpu_before_ns) / 1_000_000).ok()
    }

    pub(crate) fn elapsed_ms(&self) -> i64 {
        let elapsed = self.request.as_ref().map(|request| request.began.elapsed());
        elapsed.map_or(0, |elapsed| i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
    }
}

/// All sessions, by numbers of the engine's own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activities(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    next: u64,
    sessions: BTreeMap<u64, Activity>,
}

/// A session's place among them; it leaves with it.
#[derive(Debug)]
pub(crate) struct Place {
    all: Activities,
    number: u64,
}

impl Activities {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, caller: &Caller, database: &str, isolation: &str) -> Place {
        let now = datetime::now();
        let activity = Activity {
            caller: caller.clone(),
            since: now,
            started: now,
            database: database.to_owned(),
            isolation: isolation.to_owned(),
            trancount: 0,
            command: String::new(),
            request: None,
        };
        let mut known = self.known();
        known.next += 1;
        let number = known.next;
        known.sessions.insert(number, activity);
        Place { all: self.clone(), number }
    }

    /// Copies of all of them.
    pub(crate) fn list(&self) -> Vec<Activity> {
        self.known().sessions.values().cloned().collect()
    }
}

impl Place {
    /// The activities that this is one of.
    pub(crate) fn all(&self) -> &Activities {
        &self.all
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Activity)) {
        if let Some(activity) = self.all.known().sessions.get_mut(&self.number) {
            change(activity);
        }
    }

    pub(crate) fn begin(&self, now: Moment, command: &str) {
        let request = Request::begin();
        self.change(|activity| {
            activity.started = now;
            command.clone_into(&mut activity.command);
            activity.request = Some(request);
        });
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
