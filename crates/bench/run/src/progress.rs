//! Progress, shown on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};

pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        Self { bar }
    }

    /// Returns one without output, for work that takes no time.
    pub(crate) fn hidden() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    pub(crate) fn say(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// Prints a permanent text, on a terminal and elsewhere.
    pub(crate) fn tell(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{}", text.trim_end()));
    }

    /// Switches from preparing to counting rounds.
    pub(crate) fn count(&self, rounds: u64) {
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta} {msg:32!}") {
            self.bar.set_style(style);
        }
        self.bar.reset();
        self.bar.set_length(rounds);
    }

    pub(crate) fn step(&self, rounds: u64) {
        self.bar.inc(rounds);
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
