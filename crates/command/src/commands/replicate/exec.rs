//! A command of the user's that is run when a failure begins and when it ends.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tdekit_backup_run::archive::{ArchivePlace, Event};
use tdekit_console::output;

use super::follow::Wanted;

/// Time after which the command is killed.
const LIMIT: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(100);
/// Beginnings of the names of variables that may hold secrets: the command does not get them.
const OURS: [&str; 5] = ["TDEKIT_", "AWS_", "AZURE_", "GOOGLE_", "VAULT_"];

/// The command, and whether the last thing that it was told is a failure.
pub(super) struct Alarm<'a> {
    wanted: &'a Wanted,
    /// The events of a failure and of its end.
    events: [&'static str; 2],
    fails: bool,
}

impl<'a> Alarm<'a> {
    pub(super) fn new(wanted: &'a Wanted) -> Self {
        Self { wanted, events: ["failure", "recovery"], fails: false }
    }

    /// For failures to prune the archive, which are no failures to ship.
    pub(super) fn of_pruning(wanted: &'a Wanted) -> Self {
        Self { wanted, events: ["prune-failure", "prune-recovery"], fails: false }
    }

    /// Takes note of what a follower reports.
    pub(super) fn heed(&mut self, event: &Event) {
        match event {
            Event::Failed(error, _) => self.failed(&error.to_string()),
            Event::UpToDate => self.goes(),
            _ => {}
        }
    }

    /// Runs the command if nothing failed before.
    pub(super) fn failed(&mut self, error: &str) {
        if !self.fails {
            self.fails = true;
            self.run(self.events[0], error);
        }
    }

    /// Runs the command if something failed before.
    pub(super) fn goes(&mut self) {
        if self.fails {
            self.fails = false;
            self.run(self.events[1], "");
        }
    }

    /// Starts the command in a process group of its own, and waits for it on another thread. Names
    /// and errors are in variables, and no part of what the shell reads.
    fn run(&self, event: &str, error: &str) {
        let Some(command) = &self.wanted.exec else { return };
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        for (name, _) in std::env::vars_os() {
            if OURS.iter().any(|ours| name.as_encoded_bytes().starts_with(ours.as_bytes())) {
                shell.env_remove(name);
            }
        }
        shell.env("TDEKIT_EVENT", event).env("TDEKIT_DATABASE", &self.wanted.database);
        let archive = ArchivePlace::of(&self.wanted.to).shown();
        shell.env("TDEKIT_ARCHIVE", archive).env("TDEKIT_ERROR", error.replace('\0', " "));
        let started = shell.spawn();
        match started {
            Ok(child) => {
                let waiter = std::thread::Builder::new().name("replicate exec".to_owned());
                // Without a thread, the command is left to itself.
                let _ = waiter.spawn(move || wait(child));
            }
            Err(error) => output::warning(format_args!("--exec cannot be started: {error}")),
        }
    }
}

/// Waits for the end, and kills the command and what it started after [`LIMIT`].
fn wait(mut child: Child) {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return,
            Ok(Some(status)) => {
                return output::warning(format_args!("--exec ended with {status}"));
            }
            Ok(None) if begun.elapsed() < LIMIT => sleep(LOOK),
            Ok(None) => {
                if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                let limit = LIMIT.as_secs();
                return output::warning(format_args!("--exec was killed after {limit} s"));
            }
            Err(_) => return,
        }
    }
}
