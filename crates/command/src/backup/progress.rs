//! Progress of a run: a bar on a terminal, lines on request.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tdekit_backup_run::{Progress, Run};

use crate::progress::stop_flag;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TEMPLATE: &str = "{msg:9} {bar:24} {percent:>3} %  {decimal_bytes_per_sec:>13}  {eta} left";
const STREAM_TEMPLATE: &str = "{msg:9} {decimal_bytes:>11}  {decimal_bytes_per_sec:>13}";
/// A stream has no percentage; a line is printed each time this many more bytes are done.
const STREAM_STEP_BYTES: u64 = 1 << 30;

/// Shows the progress of a run.
pub(crate) struct Reporter {
    bar: ProgressBar,
    begun: Instant,
    lines: Option<Mutex<Lines>>,
}

/// Determines when the next line is due.
struct Lines {
    percents: u64,
    next: u64,
}

impl Reporter {
    /// Makes a bar named `what` on a terminal, and lines on standard error after every `percents`
    /// of the work, if given.
    pub(crate) fn new(what: &'static str, percents: Option<u8>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let lines = percents.map(|percents| {
            let percents = u64::from(percents.max(1));
            Mutex::new(Lines { percents, next: percents })
        });
        set_template(&bar, STREAM_TEMPLATE);
        Self { bar: bar.with_message(what), begun: Instant::now(), lines }
    }

    /// Updates the progress.
    pub(crate) fn at(&self, progress: Progress) {
        if let Some(total) = progress.total_bytes
            && self.bar.length() != Some(total)
        {
            set_template(&self.bar, TEMPLATE);
            self.bar.set_length(total);
        }
        self.bar.set_position(progress.done_bytes);
        if let Some(lines) = &self.lines {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(line) = lines.line(progress, self.begun.elapsed()) {
                self.bar.suspend(|| tdekit_console::output::note(&line));
            }
        }
    }

    /// Removes the bar; returns the duration of the run.
    pub(crate) fn end(self) -> Duration {
        self.bar.finish_and_clear();
        self.begun.elapsed()
    }
}

/// Returns the settings of a run that the user's signals stop. `report` is [`Reporter::at`].
pub(crate) fn run<'a>(
    threads: usize,
    throttle_bytes_per_s: Option<u64>,
    report: &'a (dyn Fn(Progress) + Sync),
) -> Run<'a> {
    let (progress, cancel) = (Some(report), Some(stop_flag()));
    Run { threads, throttle_bytes_per_s, progress, cancel, lift: None }
}

impl Lines {
    /// Returns the line that is due, if any.
    fn line(&mut self, progress: Progress, elapsed: Duration) -> Option<String> {
        let done = progress.done_bytes;
        let rate = rate(done, elapsed);
        let megabytes = rate / 1e6;
        let Some(total) = progress.total_bytes.filter(|total| *total > 0) else {
            let step = done / STREAM_STEP_BYTES * self.percents;
            if step < self.next {
                return None;
            }
            self.next = step + self.percents;
            return Some(format!("{} MB processed, {megabytes:.1} MB/s", done / 1_000_000));
        };
        let percent = (u128::from(done.min(total)) * 100 / u128::from(total)).try_into();
        let percent: u64 = percent.unwrap_or(100);
        if percent < self.next {
            return None;
        }
        self.next = percent / self.percents * self.percents + self.percents;
        #[allow(clippy::cast_precision_loss)]
        let left = if rate > 0.0 { total.saturating_sub(done) as f64 / rate } else { 0.0 };
        Some(format!("{percent} percent processed, {megabytes:.1} MB/s, {left:.0} s left"))
    }
}

/// Returns the bytes per second.
pub(crate) fn rate(bytes: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    #[allow(clippy::cast_precision_loss)]
    if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 }
}

fn set_template(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_every_so_many_percents() {
        let mut lines = Lines { percents: 10, next: 10 };
        let mut at = |done_bytes| {
            let progress = Progress { done_bytes, total_bytes: Some(1000), media_bytes: 0 };
            lines.line(progress, Duration::from_secs(1))
        };
        assert_eq!(at(99), None);
        assert_eq!(at(100).unwrap(), "10 percent processed, 0.0 MB/s, 9 s left");
        assert_eq!(at(150), None);
        assert!(at(470).unwrap().starts_with("47 percent"));
        assert_eq!(at(499), None);
        assert!(at(1000).unwrap().starts_with("100 percent"));
        assert_eq!(at(1000), None);
    }

    #[test]
    fn a_stream_has_a_line_for_each_gibibyte() {
        let mut lines = Lines { percents: 10, next: 10 };
        let mut at = |done_bytes| {
            let progress = Progress { done_bytes, total_bytes: None, media_bytes: 0 };
            lines.line(progress, Duration::from_secs(2)).is_some()
        };
        let gibibyte = STREAM_STEP_BYTES;
        let told = [gibibyte - 1, gibibyte, gibibyte + 5, 3 * gibibyte, 3 * gibibyte + 1];
        assert_eq!(told.map(&mut at), [false, true, false, true, false]);
    }
}
