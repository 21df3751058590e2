//! The progress bar, and the user's request to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tdekit_console::leave_prompt;
use tdekit_sqlite_convert::{Step, Watch};

const TEMPLATE: &str =
    "{msg:9} {bar:24} {percent:>3} %  {binary_bytes:>11} of {binary_total_bytes}  {eta}";

/// The exit code of a process that a second signal ends, as in shells for SIGINT.
const INTERRUPTED: i32 = 130;

static STOP: AtomicBool = AtomicBool::new(false);

/// Makes Ctrl-C, `SIGTERM` and `SIGHUP` end the work in order. A second one ends the process at
/// once, as the first does if no handler can be installed: that leaves a temporary file for the
/// next run to remove.
pub(crate) fn heed_signals() {
    let _ = ctrlc::set_handler(|| {
        // A prompt notices no signal, and work that blocks on a pipe not the first.
        if STOP.swap(true, Ordering::Relaxed) | leave_prompt() {
            std::process::exit(INTERRUPTED);
        }
    });
}

/// Returns the flag that becomes true when the user wants to stop.
pub(crate) fn stop_flag() -> &'static AtomicBool {
    &STOP
}

/// Lets a test build end as by `kill -9` after a step. Release builds lack the argument.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct StopAfter {
    /// Kill this process after a step
    #[cfg(debug_assertions)]
    #[arg(long, hide = true, value_name = "STEP")]
    stop_after: Option<Step>,
}

/// Shows the progress of work on a database on a terminal, and nothing elsewhere. The user's
/// signals stop the work.
#[derive(Default)]
pub(crate) struct Shown {
    bar: Mutex<Option<ProgressBar>>,
    stop_after: StopAfter,
}

impl Shown {
    /// As [`Shown::default`]; the process ends after the step in `stop_after`, if set.
    pub(crate) fn stopping_after(stop_after: StopAfter) -> Self {
        Self { bar: Mutex::default(), stop_after }
    }

    fn with_bar(&self, act: impl FnOnce(&mut Option<ProgressBar>)) {
        act(&mut self.bar.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Watch for Shown {
    fn stops(&self) -> bool {
        STOP.load(Ordering::Relaxed)
    }

    fn begins(&self, what: &str, total_bytes: Option<u64>) {
        let bar = ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr());
        match (total_bytes, ProgressStyle::with_template(TEMPLATE)) {
            (Some(_), Ok(style)) => bar.set_style(style),
            _ => bar.set_style(ProgressStyle::default_spinner()),
        }
        self.with_bar(|own| *own = Some(bar.with_message(what.to_owned())));
    }

    fn at(&self, done_bytes: u64) {
        self.with_bar(|bar| match bar {
            Some(bar) if bar.length().is_some() => bar.set_position(done_bytes),
            Some(bar) => bar.tick(),
            None => {}
        });
    }

    fn ends(&self) {
        self.with_bar(|bar| {
            if let Some(bar) = bar.take() {
                bar.finish_and_clear();
            }
        });
    }

    fn done(&self, step: Step) {
        #[cfg(debug_assertions)]
        if self.stop_after.stop_after == Some(step) {
            use rustix::process::{Signal, getpid, kill_process};
            let _ = kill_process(getpid(), Signal::KILL);
        }
        let _ = (step, self.stop_after);
    }
}
