//! Full sets that are made at the same time by one process.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A full set uses all cores, and memory for each of their threads.
const MOST: usize = 2;

/// Lets so many begin. Who does not get in goes on with other work and asks again: nobody waits.
#[derive(Debug, Default)]
pub struct Gate {
    inside: AtomicUsize,
}

/// A place inside.
pub(super) struct Permit<'a>(&'a Gate);

impl Gate {
    /// Takes a place, until the value is dropped; `None` if all are taken.
    pub(super) fn enter(&self) -> Option<Permit<'_>> {
        let more = |inside: usize| (inside < MOST).then_some(inside + 1);
        let entered = self.inside.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        entered.ok().map(|_| Permit(self))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_most_are_inside() {
        let gate = Gate::default();
        let mut inside: Vec<_> = (0..MOST).map(|_| gate.enter().unwrap()).collect();
        assert!(gate.enter().is_none());
        inside.pop();
        assert!(gate.enter().is_some() && gate.enter().is_some());
    }
}
