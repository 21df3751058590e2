//! Context switches of this process, including those of threads that have ended.

use std::collections::HashMap;
use std::fs;
use std::sync::{Mutex, PoisonError};

/// The state of the threads so far.
#[derive(Default)]
struct Seen {
    /// Count of threads that have ended, as far as they were seen.
    ended: u64,
    /// Count of the others, by thread ID.
    alive: HashMap<String, u64>,
}

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

/// Returns voluntary and other switches (proc(5), status). The count never falls: a thread's last
/// seen count stays when it ends.
pub(super) fn context_switches() -> u64 {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.get_or_insert_default().add(threads())
}

impl Seen {
    /// Takes the counts of the current threads; returns the count of all threads ever seen.
    fn add(&mut self, now: HashMap<String, u64>) -> u64 {
        for (thread, &before) in &self.alive {
            // An ID may be reused for another thread, which starts at 0.
            if now.get(thread).is_none_or(|&count| count < before) {
                self.ended += before;
            }
        }
        self.alive = now;
        self.ended + self.alive.values().sum::<u64>()
    }
}

fn threads() -> HashMap<String, u64> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return HashMap::new() };
    let of = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let counts = status.lines().filter_map(|line| {
            let (name, count) = line.split_once(':')?;
            let counted = name.ends_with("voluntary_ctxt_switches");
            counted.then(|| count.trim().parse::<u64>().ok()).flatten()
        });
        Some((task.file_name().to_string_lossy().into_owned(), counts.sum()))
    };
    tasks.flatten().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_threads_switched_stays_counted() {
        let counts = |list: &[(&str, u64)]| {
            list.iter().map(|&(thread, count)| (thread.to_owned(), count)).collect()
        };
        let mut seen = Seen::default();
        assert_eq!(seen.add(counts(&[("1", 5), ("2", 7)])), 12);
        assert_eq!(seen.add(counts(&[("1", 6)])), 13, "2 has ended");
        assert_eq!(seen.add(counts(&[("1", 6), ("2", 3)])), 16, "2 is another thread");
        assert_eq!(seen.add(counts(&[("1", 1), ("2", 4)])), 18, "1 is another thread");
        assert!(context_switches() > 0);
    }
}
