//! Following many databases in one process. One that fails does not stop the others.

use std::path::Path;
use std::thread;

use tdekit_backup_run::archive::wait_after;
use tdekit_backup_run::database::source::EncryptionChoice;
use tdekit_console::{Failure, GlobalArgs, output};
use tdekit_key_crypto::{Algorithm, Kind};

use super::again::{follow, is_for_good, report, stops, wait_to_follow};
use super::config;
use super::exec::Alarm;
use super::follow::{Shared, Wanted, tell};
use crate::backup::many::worst;
use crate::backup::value::warn_of_legacy;
use crate::error::CommandError;

/// Follows the databases of a configuration until the process is told to stop; with `once`, ships
/// what is there.
///
/// # Errors
/// Those of the configuration; `NotShipped` with the worst kind of what failed last.
pub(super) fn run(
    file: &Path,
    (once, quiet): (bool, bool),
    global: &GlobalArgs,
) -> Result<(), CommandError> {
    let all = config::read_to_follow(file)?;
    let legacy = |choice: &EncryptionChoice| {
        matches!(choice, EncryptionChoice::Algorithm(Algorithm::TripleDes3Key))
    };
    warn_of_legacy(all.iter().filter_map(|wanted| wanted.encryption).find(legacy));
    let shared = Shared::new(global, all.len());
    let shared = &shared;
    let failures: Vec<Kind> = thread::scope(|scope| {
        let start = |(index, wanted)| {
            let follower = move || One { wanted, index, shared, once, quiet }.follow();
            let name = format!("replicate {index}");
            thread::Builder::new().name(name).spawn_scoped(scope, follower)
        };
        let threads: Vec<_> = all.iter().enumerate().map(start).collect();
        let end = |thread: std::io::Result<thread::ScopedJoinHandle<'_, _>>| match thread {
            Ok(thread) => thread.join().unwrap_or(Some(Kind::Io)),
            Err(error) => {
                output::note(format_args!("error: a thread could not be started: {error}"));
                Some(Kind::Io)
            }
        };
        threads.into_iter().filter_map(end).collect()
    });
    match worst(&failures) {
        Some(kind) => {
            Err(CommandError::NotShipped { kind, failed: failures.len(), all: all.len() })
        }
        None => Ok(()),
    }
}

/// One of the databases.
struct One<'a> {
    wanted: &'a Wanted,
    index: usize,
    shared: &'a Shared<'a>,
    once: bool,
    quiet: bool,
}

impl One<'_> {
    /// Follows it, and begins again after failures. Returns the kind of the last one, if it ends
    /// with one.
    fn follow(&self) -> Option<Kind> {
        let name = self.wanted.database.display().to_string();
        let who = format!("{}: ", output::single(&name));
        let (mut failures, mut alarm) = (0, Alarm::new(self.wanted));
        loop {
            let mut shipped = false;
            let mut heed = |event| {
                shipped = true;
                tell(self.wanted, &who, self.quiet, &event);
            };
            let which = (self.index, self.once);
            let shared = (self.shared, who.as_str());
            let ended = follow(self.wanted, which, shared, &mut alarm, &mut heed);
            let Err(error) = ended else { return None };
            if shipped {
                failures = 0;
            }
            let for_good = self.once || is_for_good(&error) || stops();
            let wait = wait_after(failures);
            failures = failures.saturating_add(1);
            report(&error, &who, (!for_good).then_some(wait));
            if for_good || !wait_to_follow(self.wanted, wait) {
                return Some(error.kind());
            }
        }
    }
}
