//! Threads that process work items one after the other, as many as needed up to a limit.
//!
//! A thread whose work waits, for a lock or for a client, declares that with [`while_waiting`] and
//! does not count against the limit meanwhile: the work that it waits for may be in the queue.
//! Afterwards it continues at once, since others may wait for something it holds; threads beyond
//! the limit then end with their work.
//!
//! The usual limit is a few threads per processor. With more, a thread that is woken with a lock
//! waits behind all of them for a processor, and everybody else for the lock. Work that takes long
//! does not count against this limit, so that short work never waits for it.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use crate::answer::lock;

/// Idle time after which a thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// Duration from which work does not count against the usual limit.
const LONG: Duration = Duration::from_millis(50);

/// Stack of a thread: what the parser, the binder and SQLite allow to be nested takes up to 3 MiB.
/// Only what was used is in memory.
const STACK_LEN: usize = 8 << 20;

/// Limits on a pool's threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Threads whose work is short.
    pub(crate) usual: usize,
    /// All working threads.
    pub(crate) working: usize,
    /// Threads whose work waits.
    pub(crate) waiting: usize,
}

/// A pool for work of type `T`.
pub(crate) struct Pool<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    queue: Mutex<Queue<T>>,
    wake: Condvar,
    name: &'static str,
    bounds: Bounds,
    /// Calls a lingering thread.
    call: OwnedFd,
    work: Box<dyn Fn(T) + Send + Sync>,
}

struct Queue<T> {
    items: Lanes<T>,
    threads: usize,
    idle: usize,
    /// Number of threads whose work waits. While there are any, there is another one that does not.
    waiting: usize,
    /// Number of threads that wait for more of the same work.
    lingering: usize,
    /// Number of threads that may currently work.
    allowed: usize,
    /// Start time of each work item in progress that does not wait.
    begun: HashMap<ThreadId, Instant>,
    stopped: bool,
}

/// Makes the eventfd with which a pool calls its threads; each call wakes one of them.
pub(crate) fn call() -> rustix::io::Result<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE)
}

impl<T: Send + 'static> Pool<T> {
    pub(crate) fn new(
        name: &'static str,
        bounds: Bounds,
        call: OwnedFd,
        work: impl Fn(T) + Send + Sync + 'static,
    ) -> Self {
        let queue = Queue {
            items: Lanes::default(),
            threads: 0,
            idle: 0,
            waiting: 0,
            lingering: 0,
            allowed: bounds.usual.max(1),
            begun: HashMap::new(),
            stopped: false,
        };
        Pool {
            inner: Arc::new(Inner {
                queue: Mutex::new(queue),
                wake: Condvar::new(),
                name,
                bounds,
                call,
                work: Box::new(work),
            }),
        }
    }

    /// Queues `item`, to be processed now or when a thread is free.
    pub(crate) fn submit(&self, item: T) {
        self.submit_for(None, item);
    }

    /// As [`Pool::submit`]; items for an address take turns with those for others.
    pub(crate) fn submit_for(&self, address: Option<IpAddr>, item: T) {
        let mut queue = lock(&self.inner.queue);
        if queue.stopped {
            return;
        }
        queue.items.push(address, item);
        if queue.idle >= queue.items.len() {
            drop(queue);
            self.inner.wake.notify_one();
        } else if queue.active() < queue.allowed {
            // If it fails, the work stays in the queue for the existing threads.
            self.inner.spawn(&mut queue);
        } else if queue.lingering > 0 {
            drop(queue);
            // One for each call; a surplus call ends somebody's lingering early.
            let _called = rustix::io::write(&self.inner.call, &1_u64.to_ne_bytes());
        }
    }

    /// Returns true if work waits for a thread.
    pub(crate) fn is_busy(&self) -> bool {
        let queue = lock(&self.inner.queue);
        !queue.items.is_empty() && queue.active() >= queue.allowed
    }

    /// Runs `wait`, in which a thread waits for more of the same work. The descriptor passed to it
    /// becomes readable when other work wants the thread.
    pub(crate) fn linger<R>(&self, wait: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
        lock(&self.inner.queue).lingering += 1;
        let result = wait(self.inner.call.as_fd());
        lock(&self.inner.queue).lingering -= 1;
        result
    }

    /// Lets others work beside those that have worked for long. Must be called every few hundredths
    /// of a second while the pool is busy.
    pub(crate) fn relieve(&self) {
        let Bounds { usual, working, .. } = self.inner.bounds;
        let mut queue = lock(&self.inner.queue);
        let long = queue.begun.values().filter(|begun| begun.elapsed() >= LONG).count();
        queue.allowed = (usual + long).min(working).max(1);
        let wanted = queue.items.len().min(queue.allowed.saturating_sub(queue.active()));
        for _ in queue.idle..wanted {
            self.inner.spawn(&mut queue);
        }
    }

    /// Removes queued items that are no longer wanted.
    pub(crate) fn extract_if(&self, unwanted: impl FnMut(&mut T) -> bool) -> Vec<T> {
        lock(&self.inner.queue).items.extract_if(unwanted)
    }

    /// Accepts no more work and drops the queued items.
    pub(crate) fn stop(&self) {
        let waiting = {
            let mut queue = lock(&self.inner.queue);
            queue.stopped = true;
            std::mem::take(&mut queue.items)
        };
        self.inner.wake.notify_all();
        drop(waiting);
    }
}

/// Runs `wait`, in which the work of this thread blocks. Returns `None`, with nothing run, if so
/// many wait that no thread would be left for the rest.
pub(crate) fn while_waiting<R>(wait: impl FnOnce() -> R) -> Option<R> {
    // A wait within a wait, or one outside of a pool, changes nothing.
    let Some(pool) = POOL.with_borrow_mut(Option::take) else { return Some(wait()) };
    if !pool.begin_wait() {
        POOL.set(Some(pool));
        return None;
    }
    let _ends = Waiting(Some(pool));
    Some(wait())
}

thread_local! {
    /// The pool to which this thread belongs.
    static POOL: RefCell<Option<Arc<dyn Waits>>> = const { RefCell::new(None) };
}

trait Waits {
    fn begin_wait(&self) -> bool;
    fn end_wait(&self);
}

/// The work of a thread waits as long as this lives.
struct Waiting(Option<Arc<dyn Waits>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(pool) = &self.0 {
            pool.end_wait();
        }
        POOL.set(self.0.take());
    }
}

impl<T: Send + 'static> Waits for SharedInner<T> {
    fn begin_wait(&self) -> bool {
        let mut queue = lock(&self.0.queue);
        if queue.waiting >= self.0.bounds.waiting.max(1) {
            return false;
        }
        queue.waiting += 1;
        queue.begun.remove(&thread::current().id());
        let room = queue.active() < queue.allowed && queue.idle == 0;
        let wanted = queue.active() == 0 || !queue.items.is_empty() && room;
        if wanted && !self.0.spawn(&mut queue) && queue.active() == 0 {
            queue.waiting -= 1;
            queue.begun.insert(thread::current().id(), Instant::now());
            return false;
        }
        true
    }

    fn end_wait(&self) {
        let mut queue = lock(&self.0.queue);
        queue.waiting -= 1;
        queue.begun.insert(thread::current().id(), Instant::now());
    }
}

/// The pool as seen by its threads.
struct SharedInner<T>(Arc<Inner<T>>);

impl<T> Queue<T> {
    /// Number of threads that do not wait.
    fn active(&self) -> usize {
        self.threads - self.waiting
    }
}

/// The queued items, in a lane for each address: lanes take turns, and each keeps its order.
struct Lanes<T> {
    lanes: VecDeque<(Option<IpAddr>, VecDeque<T>)>,
    length: usize,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Lanes { lanes: VecDeque::new(), length: 0 }
    }
}

impl<T> Lanes<T> {
    fn len(&self) -> usize {
        self.length
    }

    fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn push(&mut self, address: Option<IpAddr>, item: T) {
        self.length += 1;
        match self.lanes.iter_mut().find(|(lane, _)| *lane == address) {
            Some((_, lane)) => lane.push_back(item),
            None => self.lanes.push_back((address, VecDeque::from([item]))),
        }
    }

    fn pop(&mut self) -> Option<T> {
        let (address, mut lane) = self.lanes.pop_front()?;
        let item = lane.pop_front();
        if !lane.is_empty() {
            self.lanes.push_back((address, lane));
        }
        self.length -= usize::from(item.is_some());
        item
    }

    fn extract_if(&mut self, mut unwanted: impl FnMut(&mut T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for (_, lane) in &mut self.lanes {
            for mut item in std::mem::take(lane) {
                if unwanted(&mut item) {
                    taken.push(item);
                } else {
                    lane.push_back(item);
                }
            }
        }
        self.lanes.retain(|(_, lane)| !lane.is_empty());
        self.length -= taken.len();
        taken
    }
}

impl<T: Send + 'static> Inner<T> {
    /// Starts one more thread, if the system allows it.
    fn spawn(self: &Arc<Self>, queue: &mut Queue<T>) -> bool {
        let inner = Arc::clone(self);
        let builder = thread::Builder::new().name(self.name.to_owned()).stack_size(STACK_LEN);
        let spawned = builder.spawn(move || {
            POOL.set(Some(Arc::new(SharedInner(Arc::clone(&inner)))));
            inner.run();
        });
        queue.threads += usize::from(spawned.is_ok());
        spawned.is_ok()
    }

    fn run(&self) {
        let own = thread::current().id();
        let mut queue = lock(&self.queue);
        loop {
            if queue.active() > queue.allowed {
                // Work that waited has resumed.
                break;
            }
            if let Some(item) = queue.items.pop() {
                queue.begun.insert(own, Instant::now());
                drop(queue);
                // A panic in one work item ends that item, not the thread.
                let _fault = catch_unwind(AssertUnwindSafe(|| (self.work)(item)));
                queue = lock(&self.queue);
                queue.begun.remove(&own);
                continue;
            }
            if queue.stopped {
                break;
            }
            queue.idle += 1;
            let (woken, timeout) = match self.wake.wait_timeout(queue, IDLE) {
                Ok(woken) => woken,
                Err(poisoned) => poisoned.into_inner(),
            };
            queue = woken;
            queue.idle -= 1;
            let is_last = queue.waiting > 0 && queue.active() == 1;
            if timeout.timed_out() && queue.items.is_empty() && !is_last {
                break;
            }
        }
        queue.threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lingers_is_called() {
        let (say, said) = std::sync::mpsc::channel();
        let pool = Arc::new_cyclic(|pool: &std::sync::Weak<Pool<bool>>| {
            let own = pool.clone();
            let bounds = Bounds { usual: 1, working: 1, waiting: 1 };
            Pool::new("test", bounds, call().unwrap(), move |lingers| {
                let Some(pool) = own.upgrade() else { return };
                say.send(lingers).unwrap();
                if lingers {
                    let mut word = [0; 8];
                    let called = |call: BorrowedFd<'_>| {
                        while rustix::io::read(call, &mut word).is_err() {
                            thread::yield_now();
                        }
                    };
                    pool.linger(called);
                }
            })
        });
        let next = || said.recv_timeout(Duration::from_secs(20)).unwrap();
        pool.submit(true);
        assert!(next());
        while lock(&pool.inner.queue).lingering == 0 {
            thread::yield_now();
        }
        pool.submit(false);
        assert!(!next());
    }

    /// Work that waits until it is released, or that releases one that waits.
    enum Work {
        Wait,
        LetGo,
    }

    #[test]
    fn who_waits_keeps_no_place_from_who_is_waited_for() {
        let (begin, begun) = std::sync::mpsc::channel();
        let gate = Arc::new((Mutex::new(0), Condvar::new()));
        let own = Arc::clone(&gate);
        let pool = Pool::new(
            "test",
            Bounds { usual: 1, working: 1, waiting: 3 },
            call().unwrap(),
            move |work| match work {
                Work::Wait => {
                    let waited = while_waiting(|| {
                        begin.send(true).unwrap();
                        let mut open = lock(&own.0);
                        while *open == 0 {
                            open = own.1.wait(open).unwrap();
                        }
                        *open -= 1;
                    });
                    begin.send(waited.is_some()).unwrap();
                }
                Work::LetGo => {
                    *lock(&own.0) += 1;
                    own.1.notify_one();
                }
            },
        );
        let next = || begun.recv_timeout(Duration::from_secs(20)).unwrap();
        for _ in 0..3 {
            pool.submit(Work::Wait);
            assert!(next(), "three may wait at a time");
        }
        pool.submit(Work::Wait);
        assert!(!next(), "the fourth is refused and blocks nobody");
        for _ in 0..3 {
            pool.submit(Work::LetGo);
            assert!(next());
        }
        let queue = lock(&pool.inner.queue);
        assert_eq!(queue.waiting, 0);
    }

    #[test]
    fn work_that_takes_long_holds_up_no_other() {
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let ends = Mutex::new(ends);
        let (say, said) = std::sync::mpsc::channel();
        let pool = Pool::new(
            "test",
            Bounds { usual: 1, working: 2, waiting: 1 },
            call().unwrap(),
            move |long| {
                say.send(long).unwrap();
                if long {
                    let _ended = lock(&ends).recv();
                }
            },
        );
        let next = || said.recv_timeout(Duration::from_secs(20)).unwrap();
        pool.submit(true);
        assert!(next());
        pool.submit(false);
        pool.relieve();
        assert!(pool.is_busy(), "not long yet");
        thread::sleep(LONG);
        pool.relieve();
        assert!(!next());
        drop(end);
    }

    #[test]
    fn addresses_take_turns_and_each_keeps_its_order() {
        let [loud, quiet] = [1, 2].map(|last| Some(IpAddr::from([10, 0, 0, last])));
        let mut lanes = Lanes::default();
        for item in 0..5 {
            lanes.push(loud, item);
        }
        lanes.push(quiet, 100);
        lanes.push(quiet, 101);
        assert_eq!(lanes.extract_if(|item| *item == 2), [2]);
        assert_eq!(lanes.len(), 6);
        let order: Vec<_> = std::iter::from_fn(|| lanes.pop()).collect();
        assert_eq!(order, [0, 100, 1, 101, 3, 4]);
        assert!(lanes.is_empty());
    }
}
