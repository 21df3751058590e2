//! A gate for each database file: opening it and replacing it exclude each other.
//!
//! A file is replaced by a rename. A connection that opened the old one just before would continue
//! to write to it, and nobody would ever read that.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tdekit_wire_tds::messages::ServerError;
use tdekit_wire_tsql::Error;

/// Maximum wait of an opening for a replacement, and the reverse.
const WAIT: Duration = Duration::from_secs(3);

/// Databases by their names in lower case.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    replaced: HashSet<String>,
    opened: HashMap<String, usize>,
}

/// A database's file is being opened as long as this lives.
pub(crate) struct Opening {
    gate: Arc<Gate>,
    name: String,
}

/// A database's file is being replaced as long as this lives.
pub(crate) struct Replacing {
    gate: Arc<Gate>,
    name: String,
}

impl Gate {
    /// Starts opening a database's file.
    ///
    /// # Errors
    /// 952 while it is being replaced.
    pub(crate) fn open(self: &Arc<Self>, database: &str) -> Result<Opening, Error> {
        let name = database.to_lowercase();
        let mut state = self.wait(|state| !state.replaced.contains(&name));
        if state.replaced.contains(&name) {
            return Err(ServerError::Replaced { name: database.to_owned() }.into());
        }
        *state.opened.entry(name.clone()).or_default() += 1;
        Ok(Opening { gate: Arc::clone(self), name })
    }

    /// Starts replacing a database's file; `None` while somebody opens or replaces it.
    pub(crate) fn replace(self: &Arc<Self>, database: &str) -> Option<Replacing> {
        let name = database.to_lowercase();
        if !self.lock().replaced.insert(name.clone()) {
            return None;
        }
        let replacing = Replacing { gate: Arc::clone(self), name };
        let opened = self.wait(|state| !state.opened.contains_key(&replacing.name));
        let free = !opened.opened.contains_key(&replacing.name);
        drop(opened);
        free.then_some(replacing)
    }

    /// Waits until `done` returns true, with a time limit.
    fn wait(&self, done: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_timeout_while(self.lock(), WAIT, |state| !done(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        if let Some(count) = state.opened.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                state.opened.remove(&self.name);
            }
        }
        self.gate.changed.notify_all();
    }
}

impl Drop for Replacing {
    fn drop(&mut self) {
        self.gate.lock().replaced.remove(&self.name);
        self.gate.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_file_is_opened_or_replaced() {
        let gate = Arc::new(Gate::default());
        let first = gate.open("A").unwrap();
        let second = gate.open("a").unwrap();
        let other = gate.replace("b").unwrap();
        assert!(gate.replace("B").is_none(), "two at a time");
        // A replacement waits until nobody is opening the file.
        let replacing = thread::scope(|scope| {
            let replaced = scope.spawn(|| gate.replace("A"));
            drop((first, second));
            replaced.join().unwrap().unwrap()
        });
        // And opening waits for replacing.
        thread::scope(|scope| {
            let opened = scope.spawn(|| gate.open("A").map(drop));
            drop(replacing);
            opened.join().unwrap().unwrap();
        });
        assert_eq!(gate.open("b").err().map(|failed| failed.code().0), Some(952));
        drop(other);
        assert!(gate.open("b").is_ok() && gate.replace("c").is_some());
    }
}
