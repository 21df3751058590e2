//! Threads that take one piece of work after the other, as many as are needed up to a bound.

use std::collections::VecDeque;
use std::net::IpAddr;
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
    waiting: Lanes<T>,
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
        let queue = Queue { waiting: Lanes::default(), threads: 0, idle: 0, stopped: false };
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
        self.submit_for(None, item);
    }

    /// As [`Pool::submit`]; who waits for an address takes turns with those who wait for others.
    pub(crate) fn submit_for(&self, address: Option<IpAddr>, item: T) {
        let mut queue = lock(&self.inner.queue);
        if queue.stopped {
            return;
        }
        queue.waiting.push(address, item);
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

    /// Removes waiting items that are not wanted any more.
    pub(crate) fn extract_if(&self, unwanted: impl FnMut(&mut T) -> bool) -> Vec<T> {
        lock(&self.inner.queue).waiting.extract_if(unwanted)
    }

    /// Takes no more work and drops the waiting items.
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

/// The waiting items, in a lane for each address: lanes take turns, and each keeps its order.
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

impl<T> Inner<T> {
    fn run(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(item) = queue.waiting.pop() {
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

#[cfg(test)]
mod tests {
    use super::*;

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
