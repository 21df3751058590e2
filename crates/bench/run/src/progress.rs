//! Progress: a bar on a terminal, elsewhere a line every half minute.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// Time between two lines without a terminal.
const EVERY: Duration = Duration::from_secs(30);

pub(crate) struct Progress {
    bar: ProgressBar,
    state: Arc<Mutex<State>>,
    /// Ends the lines when dropped; none on a terminal.
    lines: Mutex<Option<Sender<()>>>,
}

#[derive(Default)]
struct State {
    what: String,
    done: u64,
    rounds: u64,
    /// The earliest and the latest expected end.
    ends: Option<[Instant; 2]>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let progress = Self::of(ProgressBar::new_spinner());
        if progress.bar.is_hidden() {
            *progress.lines.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(lines(Arc::clone(&progress.state)));
        } else {
            progress.bar.enable_steady_tick(Duration::from_millis(200));
        }
        progress
    }

    /// Returns one without output, for work that takes no time.
    pub(crate) fn hidden() -> Self {
        Self::of(ProgressBar::hidden())
    }

    fn of(bar: ProgressBar) -> Self {
        Self { bar, state: Arc::default(), lines: Mutex::new(None) }
    }

    pub(crate) fn say(&self, what: impl Into<String>) {
        let what = what.into();
        locked(&self.state).what.clone_from(&what);
        self.bar.set_message(what);
    }

    /// Prints a permanent text, on a terminal and elsewhere.
    pub(crate) fn tell(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{}", text.trim_end()));
    }

    /// Switches from preparing to counting rounds.
    pub(crate) fn count(&self, rounds: u64) {
        let state = Arc::clone(&self.state);
        let left = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = out.write_str(&locked(&state).left(Instant::now()).unwrap_or_default());
        };
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {left} {msg:32!}") {
            self.bar.set_style(style.with_key("left", left));
        }
        self.bar.reset();
        self.bar.set_length(rounds);
        let mut state = locked(&self.state);
        (state.done, state.rounds, state.ends) = (0, rounds, None);
    }

    pub(crate) fn step(&self, rounds: u64) {
        locked(&self.state).done += rounds;
        self.bar.inc(rounds);
    }

    /// Sets how much longer it takes, at least and at most.
    pub(crate) fn expect(&self, left: [Duration; 2]) {
        let now = Instant::now();
        locked(&self.state).ends = Some(left.map(|left| now + left));
    }

    pub(crate) fn finish(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.bar.finish_and_clear();
    }
}

/// Starts writing a line every half minute, until the sender is dropped.
fn lines(state: Arc<Mutex<State>>) -> Sender<()> {
    let (stop, stopped) = mpsc::channel();
    std::thread::spawn(move || {
        while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{}", locked(&state).line(Instant::now()));
        }
    });
    stop
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// `57 of 120 rounds, 50 s to 2 min left: mix 4/3/3`.
    fn line(&self, now: Instant) -> String {
        let mut parts = Vec::new();
        if self.rounds > 0 {
            // Rounds beyond the first stage are not known before.
            parts.push(format!("{} of {} rounds", self.done, self.rounds.max(self.done)));
        }
        parts.extend(self.left(now));
        match parts.as_slice() {
            [] => self.what.clone(),
            _ => format!("{}: {}", parts.join(", "), self.what),
        }
    }

    /// `50 s to 2 min left`; none before the first estimate.
    fn left(&self, now: Instant) -> Option<String> {
        let [least, most] = self.ends?.map(|end| end.saturating_duration_since(now));
        let [short, long] = [least, most].map(rounded);
        Some(match least.is_zero() {
            _ if short == long => format!("about {long} left"),
            true => format!("at most {long} left"),
            false => format!("{short} to {long} left"),
        })
    }
}

/// Returns a time in words, rounded up so coarsely that it does not flicker.
fn rounded(time: Duration) -> String {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    match seconds {
        0..=90 => format!("{} s", seconds.div_ceil(10).max(1) * 10),
        _ => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_runs_and_how_long_it_takes() {
        let now = Instant::now();
        let mut state = State { what: "copying".to_owned(), ..State::default() };
        assert_eq!(state.line(now), "copying");
        (state.done, state.rounds) = (57, 120);
        assert_eq!(state.line(now), "57 of 120 rounds: copying");
        let mut left = |least, most| {
            state.ends = Some([least, most].map(|left| now + Duration::from_secs(left)));
            state.left(now).unwrap()
        };
        assert_eq!(left(44, 120), "50 s to 2 min left");
        assert_eq!(left(41, 49), "about 50 s left");
        assert_eq!(left(0, 200), "at most 4 min left");
        assert_eq!(left(0, 0), "about 10 s left");
        assert!(state.line(now).ends_with("about 10 s left: copying"), "{}", state.line(now));
    }

    #[test]
    fn a_run_ends_its_lines_and_counts_its_rounds() {
        let progress = Progress::new();
        progress.count(4);
        progress.step(3);
        progress.expect([Duration::from_secs(30); 2]);
        let counted = || {
            let state = locked(&progress.state);
            (state.done, state.rounds, state.ends.is_some())
        };
        assert_eq!(counted(), (3, 4, true));
        progress.count(2);
        assert_eq!(counted(), (0, 2, false));
        progress.finish();
        assert!(progress.lines.lock().unwrap().is_none());
    }
}
