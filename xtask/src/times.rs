//! Duration of each part of a run and of each test program, shown at its end, longest first.

use std::fmt::Write;
use std::time::{Duration, Instant};

/// Shorter ones are combined in one line.
const SHOWN_FROM: Duration = Duration::from_secs(2);

/// Names and durations, in the order in which they ended.
#[derive(Debug, Default)]
pub(crate) struct Times {
    taken: Vec<(String, Duration)>,
}

impl Times {
    /// Does `work`, and records its duration.
    pub(crate) fn of<T>(&mut self, name: &str, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = work();
        self.add(name.to_owned(), begun.elapsed());
        result
    }

    /// Adds one duration.
    pub(crate) fn add(&mut self, name: String, taken: Duration) {
        self.taken.push((name, taken));
    }

    /// Returns a line for each name, the longest first, below `title`; nothing if there is none.
    pub(crate) fn table(&self, title: &str) -> String {
        if self.taken.is_empty() {
            return String::new();
        }
        let mut sorted: Vec<_> = self.taken.iter().collect();
        sorted.sort_by_key(|(name, taken)| (std::cmp::Reverse(*taken), name.clone()));
        let mut table = format!("{title}, in seconds:\n");
        let (shown, short): (Vec<_>, Vec<_>) =
            sorted.into_iter().partition(|(_, taken)| *taken >= SHOWN_FROM);
        let mut line = |seconds: f64, name: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(table, "{seconds:8.1}  {name}");
        };
        for (name, taken) in shown {
            line(taken.as_secs_f64(), name);
        }
        if !short.is_empty() {
            let sum: Duration = short.iter().map(|(_, taken)| *taken).sum();
            line(sum.as_secs_f64(), &format!("{} shorter ones together", short.len()));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_comes_first_and_short_ones_are_summed() {
        let mut times = Times::default();
        for (name, ms) in [("a", 300), ("b", 2500), ("c", 61_000), ("d", 500)] {
            times.add(name.to_owned(), Duration::from_millis(ms));
        }
        let wanted =
            "parts, in seconds:\n    61.0  c\n     2.5  b\n     0.8  2 shorter ones together\n";
        assert_eq!(times.table("parts"), wanted);
        assert_eq!(Times::default().table("parts"), "");
        assert_eq!(times.of("e", || 7), 7);
        assert!(times.table("parts").contains("3 shorter"));
    }
}
