//! A task of this program that runs beside the others, for work that leaves a processor idle.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::process::{kill_tree, shown, target_dir};
use crate::tally::Tally;

/// A running task. One that is dropped before it was waited for is killed with all it started.
pub(crate) struct Beside {
    name: &'static str,
    child: Child,
    log: PathBuf,
    ended: bool,
}

impl Beside {
    /// Starts `cargo xtask WORDS`. What it says is kept and shown by [`Beside::finish`]; its tally
    /// has it under `name`.
    ///
    /// # Errors
    /// When it cannot be started, or its log cannot be made.
    pub(crate) fn start(name: &'static str, words: &[&str]) -> Result<Self> {
        // This program, even when a build has put another file in the place of its own.
        Self::start_command(name, Command::new("/proc/self/exe").args(words))
    }

    fn start_command(name: &'static str, command: &mut Command) -> Result<Self> {
        let log = target_dir().join("beside").join(name).with_extension("log");
        fs::create_dir_all(log.parent().context("no directory")?)?;
        let file = File::create(&log).with_context(|| format!("make {}", log.display()))?;
        eprintln!("$ {} >{} 2>&1 &", shown(command), log.display());
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("start {}", shown(command)))?;
        Ok(Self { name, child, log, ended: false })
    }

    /// Waits for the end, and shows what the task said.
    ///
    /// # Errors
    /// When its log cannot be read. That it failed is in the tally.
    pub(crate) fn finish(mut self) -> Result<Tally> {
        let status = self.child.wait()?;
        self.ended = true;
        let said = fs::read(&self.log).with_context(|| format!("read {}", self.log.display()))?;
        let said = String::from_utf8_lossy(&said);
        eprint!("{said}");
        let mut tally = Tally::default();
        if status.success() {
            tally.passed += 1;
        } else {
            tally.fail(self.name.to_owned(), &format!("{said}\n{status}"));
        }
        Ok(tally)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.ended {
            kill_tree(self.child.id());
            // Fails only for a process that somebody has waited for.
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(name: &'static str, script: &str) -> Beside {
        Beside::start_command(name, Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn a_task_that_fails_is_a_failure_with_its_last_words() {
        let tally = beside("fails", "echo begun; echo broken >&2; exit 3").finish().unwrap();
        assert_eq!((tally.passed, tally.failures.as_slice()), (0, &["fails".to_owned()][..]));
        let account = &tally.accounts[0];
        assert!(account.contains("begun") && account.contains("broken"), "{account}");
        assert!(account.contains("exit status: 3"), "{account}");
        assert_eq!(beside("passes", "exit 0").finish().unwrap().passed, 1);
    }

    #[test]
    fn a_task_that_is_left_is_killed_with_its_children() {
        let begun = std::time::Instant::now();
        let left = beside("left", "sh -c 'sleep 600; true'; true");
        drop(left);
        assert!(begun.elapsed() < std::time::Duration::from_mins(1));
    }
}
