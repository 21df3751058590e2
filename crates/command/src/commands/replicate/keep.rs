//! Removing what no rule keeps from the archive that a follower writes. It is done on a thread of
//! its own: no failure of it, and no slow store, stops the shipping.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tdekit_backup_run::archive::{ArchivePlace, Event};
use tdekit_backup_run::labels::now_ms;
use tdekit_backup_run::retention::{Pruned, Wanted as Asked, prune};
use tdekit_backup_run::{Root, RunError, date_of_ms};
use tdekit_console::{GlobalArgs, output};
use tdekit_sqlite_convert::Watch;

use super::exec::Alarm;
use super::follow::Wanted;
use crate::backup::report::size;
use crate::error::CommandError;

/// Time between two runs, without a new chain.
const EVERY: Duration = Duration::from_hours(1);
/// Wait after the first failure; it doubles with each, up to [`EVERY`].
const FIRST_WAIT: Duration = Duration::from_secs(10);

/// The state of the thread that prunes.
#[derive(Default)]
pub(super) struct Pruner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_due: bool,
    ends: bool,
}

/// Ends the thread, whatever became of the work beside it.
struct Ends<'a>(&'a Pruner);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.state().ends = true;
        self.0.changed.notify_all();
    }
}

/// Follows a database by `follow`, and prunes its archive if rules are given: once everything is
/// shipped, behind each new chain, and each hour; with `once`, at the end.
///
/// # Errors
/// Those of `follow`; with `once`, those of pruning.
pub(super) fn beside(
    wanted: &Wanted,
    once: bool,
    global: &GlobalArgs,
    follow: impl FnOnce(&Pruner) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let pruner = Pruner::default();
    if wanted.keep.is_empty() {
        return follow(&pruner);
    }
    if once {
        follow(&pruner)?;
        return Ok(pruner.prune(wanted, global)?);
    }
    thread::scope(|scope| {
        let _ends = Ends(&pruner);
        let named = thread::Builder::new().name("replicate keep".to_owned());
        let started = named.spawn_scoped(scope, || pruner.run(wanted, global));
        if let Err(error) = started {
            let archive = ArchivePlace::of(&wanted.to).shown();
            output::warning(format_args!("{archive} is not pruned: no thread for that: {error}"));
        }
        follow(&pruner)
    })
}

impl Pruner {
    /// Takes note of what the follower reports.
    pub(super) fn heed(&self, event: &Event) {
        if matches!(event, Event::Full { .. } | Event::UpToDate) {
            self.state().is_due = true;
            self.changed.notify_all();
        }
    }

    /// Prunes whenever it is due, until the follower ends.
    fn run(&self, wanted: &Wanted, global: &GlobalArgs) {
        let mut alarm = Alarm::of_pruning(wanted);
        let (mut next, mut failures) = (None, 0_u32);
        while self.wait_until(next) {
            let wait = match self.prune(wanted, global) {
                Ok(()) => {
                    alarm.goes();
                    failures = 0;
                    EVERY
                }
                Err(_) if self.state().ends => return,
                Err(error) => {
                    let doubled = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(failures));
                    let (wait, at) = (doubled.min(EVERY), date_of_ms(now_ms()));
                    failures = failures.saturating_add(1);
                    let archive = ArchivePlace::of(&wanted.to).shown();
                    output::warning(format_args!(
                        "{at} {archive} is not pruned: {error}; again in {} s",
                        wait.as_secs()
                    ));
                    alarm.failed(&error.to_string());
                    wait
                }
            };
            next = Some(Instant::now() + wait);
        }
    }

    /// Waits until it is due, at the latest until a time; returns false if the follower ends.
    fn wait_until(&self, next: Option<Instant>) -> bool {
        let mut state = self.state();
        loop {
            if state.ends {
                return false;
            }
            let left = next.map_or(EVERY, |next| next.saturating_duration_since(Instant::now()));
            if std::mem::take(&mut state.is_due) || left.is_zero() {
                return true;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Prunes, and says what was removed.
    fn prune(&self, wanted: &Wanted, global: &GlobalArgs) -> Result<(), RunError> {
        let root = Root::of_archive(&wanted.to)?;
        let asked = Asked { rules: wanted.keep, database: None, dry_run: false };
        let mut pruned: Pruned = prune(global, &root, &asked, self)?;
        let removed = pruned.media.iter().filter(|media| media.removed).count();
        if removed > 0 {
            output::note(format_args!(
                "{} {}: {removed} objects that no rule keeps were removed, {}",
                date_of_ms(now_ms()),
                ArchivePlace::of(&wanted.to).shown(),
                size(pruned.removed_bytes)
            ));
        }
        pruned.refuse_unfinished()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Pruner {
    fn stops(&self) -> bool {
        self.state().ends
    }
}
