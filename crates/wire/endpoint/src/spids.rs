//! Session IDs: no two connections have the same one at a time.

use std::sync::Mutex;

use crate::answer::lock;

/// The first and last ID of a user's session, as in SQL Server.
const FIRST: u16 = 51;
const LAST: u16 = 32_767;

/// The IDs in use.
pub(crate) struct Spids(Mutex<State>);

struct State {
    taken: Vec<bool>,
    next: u16,
}

impl Spids {
    pub(crate) fn new() -> Spids {
        let taken = vec![false; usize::from(LAST) + 1];
        Spids(Mutex::new(State { taken, next: FIRST }))
    }

    /// Takes an ID, approximately the least recently used one; `None` if all are in use.
    pub(crate) fn take(&self) -> Option<u16> {
        let mut state = lock(&self.0);
        let from = state.next;
        let mut found = (from..=LAST).chain(FIRST..from);
        let spid = found.find(|spid| state.taken.get(usize::from(*spid)) == Some(&false))?;
        if let Some(taken) = state.taken.get_mut(usize::from(spid)) {
            *taken = true;
        }
        state.next = if spid == LAST { FIRST } else { spid + 1 };
        Some(spid)
    }

    /// Returns an ID.
    pub(crate) fn give_back(&self, spid: u16) {
        if let Some(taken) = lock(&self.0).taken.get_mut(usize::from(spid)) {
            *taken = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_once() {
        let spids = Spids::new();
        let first: Vec<_> = (0..3).map(|_| spids.take()).collect();
        assert_eq!(first, [Some(51), Some(52), Some(53)]);
        spids.give_back(52);
        assert_eq!(spids.take(), Some(54), "others first");
        for spid in 55..=LAST {
            assert_eq!(spids.take(), Some(spid));
        }
        assert_eq!((spids.take(), spids.take()), (Some(52), None));
        spids.give_back(LAST);
        assert_eq!(spids.take(), Some(LAST));
    }
}
