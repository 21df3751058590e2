//! Threads that take one piece of work after the other, as many as are needed up to a bound.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::answer::lock;

/// A thread that has had no work for so long ends.
const IDLE: Duration = Duration::from_secs(10);

/// A pool for work of type `T`.
pub(crate) struct Pool<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    queue: Mutex<Queue<T>>,
    wake: Condvar,
    name: &'static str,
    most_threads: usize,
    work: Box<dyn Fn(T) + Send + Sync>,
}

struct Queue<T> {
    waiting: VecDeque<T>,
    threads: usize,
    idle: usize,
    stopped: bool,
}

impl<T: Send + 'static> Pool<T> {
    pub(crate) fn new(
        name: &'static str,
        most_threads: usize,
        work: impl Fn(T) + Send + Sync + 'static,
    ) -> Self {
        let queue = Queue { waiting: VecDeque::new(), threads: 0, idle: 0, stopped: false };
        Pool {
            inner: Arc::new(Inner {
                queue: Mutex::new(queue),
                wake: Condvar::new(),
                name,
                most_threads: most_threads.max(1),
                work: Box::new(work),
            }),
        }
    }

    /// Has `item` worked on, now or when a thread is free.
    pub(crate) fn submit(&self, item: T) {
        let mut queue = lock(&self.inner.queue);
        if queue.stopped {
            return;
        }
        queue.waiting.push_back(item);
        if queue.idle >= queue.waiting.len() {
            drop(queue);
            self.inner.wake.notify_one();
            return;
        }
        if queue.threads < self.inner.most_threads {
            queue.threads += 1;
            drop(queue);
            let inner = Arc::clone(&self.inner);
            let name = self.inner.name.to_owned();
            let spawned = thread::Builder::new().name(name).spawn(move || inner.run());
            if spawned.is_err() {
                // The work stays in the queue for the threads that there are.
                lock(&self.inner.queue).threads -= 1;
            }
        }
    }

    /// Whether work waits for a thread.
    pub(crate) fn is_busy(&self) -> bool {
        let queue = lock(&self.inner.queue);
        !queue.waiting.is_empty() && queue.threads >= self.inner.most_threads
    }

    /// Takes no more work and forgets what waits.
    pub(crate) fn stop(&self) {
        let waiting = {
            let mut queue = lock(&self.inner.queue);
            queue.stopped = true;
            std::mem::take(&mut queue.waiting)
        };
        self.inner.wake.notify_all();
        drop(waiting);
    }
}

impl<T> Inner<T> {
    fn run(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(item) = queue.waiting.pop_front() {
                drop(queue);
                // A fault in one piece of work ends that piece, not the thread.
                let _fault = catch_unwind(AssertUnwindSafe(|| (self.work)(item)));
                queue = lock(&self.queue);
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
            if timeout.timed_out() && queue.waiting.is_empty() {
                break;
            }
        }
        queue.threads -= 1;
    }
}
