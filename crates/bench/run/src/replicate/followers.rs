//! The followers as processes: how each is started, what it ships, how it restores.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tdekit_private_mariadb::find_on_path;
use tdekit_system_use::{Moment, die_with_parent, has_ended};

use super::archives::{Archive, Objects, is_compacted};
use super::writers;
use crate::command::{failed, last_words, run};
use crate::error::{BenchError, Result};
use crate::interrupt;
use crate::key_store::{self, CERTIFICATE, KeyEnvironment};
use crate::peers::cache_directory;
use crate::private;
use crate::tools::Tools;

/// The version of Litestream that is built.
const LITESTREAM: &str = "v0.5.18";
const MODULE: &str = "github.com/benbjohnson/litestream/cmd/litestream";
/// Names a program to use instead.
const VARIABLE: &str = "TDEKIT_LITESTREAM";
/// Longest wait for a follower's first object, a full set of the database; until it rests; and for
/// its end.
const READY: Duration = Duration::from_secs(600);
const REST: Duration = Duration::from_secs(600);
const GRACE: Duration = Duration::from_secs(30);
/// A follower that has shipped nothing for so long, and has used less of the processors than this
/// share, has shipped everything: while a large object is made and sent no other one appears.
const QUIET: Duration = Duration::from_millis(2_500);
const BUSY_SHARE: u32 = 5;
/// Interval of looks at an archive.
pub(super) const LOOK: Duration = Duration::from_millis(2);

/// What follows the database on a side.
#[derive(Debug, Clone)]
pub(super) enum Follower {
    Nobody,
    Ours { tdekit: PathBuf, keys: KeyEnvironment },
    Litestream(PathBuf),
}

/// A running follower. Dropping it ends the process.
pub(super) struct Running {
    child: Child,
}

impl Follower {
    pub(super) fn ours(tools: &Tools, keys: &KeyEnvironment) -> Self {
        Self::Ours { tdekit: tools.tdekit.clone(), keys: keys.clone() }
    }

    /// Returns Litestream, built by Go's own client where it is not there yet; the reason where it
    /// cannot be.
    pub(super) fn litestream() -> Result<(Self, String), String> {
        let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let path = match named {
            Some(path) => PathBuf::from(path),
            None => build().map_err(|error| error.to_string())?,
        };
        let said = run(Command::new(&path).arg("version")).map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        // A program that was built by `go install` does not know its version.
        let version = if said.contains('.') { said } else { LITESTREAM.to_owned() };
        Ok((Self::Litestream(path), version))
    }

    /// Returns true if these are all objects that it makes of the first state. Litestream writes
    /// that once more, when it compacts for the first time, half a minute later at most: by chance
    /// before writers begin, or while they write.
    fn has_begun(&self, objects: &Objects) -> bool {
        match self {
            Self::Litestream(_) => objects.keys().any(|name| is_compacted(name)),
            Self::Nobody | Self::Ours { .. } => !objects.is_empty(),
        }
    }

    /// Starts following `database`, and waits until the first state of it is in `archive`.
    pub(super) fn start(&self, database: &Path, archive: &Archive) -> Result<Option<Running>> {
        let mut command = match self {
            Self::Nobody => return Ok(None),
            Self::Ours { tdekit, keys } => {
                let mut command = key_store::command(tdekit, keys);
                command.arg("replicate").arg(database).arg("--to").arg(archive.address());
                command.args(["--certificate", CERTIFICATE, "--every", "1s", "--quiet"]);
                command
            }
            Self::Litestream(program) => {
                let mut command = litestream(program);
                command.arg("replicate").arg(database).arg(archive.url());
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let shown = format!("{command:?}");
        let child = die_with_parent(&mut command).spawn();
        let mut running = Running { child: child.map_err(BenchError::start(shown.as_str()))? };
        let begun = Instant::now();
        while !self.has_begun(&archive.objects()?) {
            interrupt::check()?;
            if has_ended(&running.child, Duration::ZERO) || begun.elapsed() > READY {
                let said = running.child.stderr.take().map(last_words).unwrap_or_default();
                return Err(failed(shown, "no first object", &said));
            }
            sleep(LOOK);
        }
        // What it says is read to the end: a full pipe would stop it.
        let stderr = running.child.stderr.take();
        drop(stderr.map(|stderr| std::thread::spawn(|| last_words(stderr))));
        Ok(Some(running))
    }

    /// Restores the last state to a new file; `checked` with SQLite's check of it, which is part of
    /// our command and not of Litestream's.
    pub(super) fn restore(&self, archive: &Archive, to: &Path, checked: bool) -> Result<()> {
        match self {
            Self::Nobody => Ok(()),
            Self::Ours { tdekit, keys } => {
                let mut command = key_store::command(tdekit, keys);
                command.arg("restore").arg(archive.address()).args(["--at", "latest", "--plain"]);
                command.args((!checked).then_some("--no-check"));
                run(command.arg("--to").arg(to)).map(drop)
            }
            Self::Litestream(program) => {
                let mut command = litestream(program);
                run(command.arg("restore").arg("-o").arg(to).arg(archive.url())).map(drop)?;
                if checked { writers::check(to) } else { Ok(()) }
            }
        }
    }
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until everything is shipped, and returns the objects that were there meanwhile. One
    /// that was removed since was shipped all the same.
    pub(super) fn settle(&self, archive: &Archive) -> Result<Objects> {
        let begun = Instant::now();
        let mut found = archive.objects()?;
        let (mut since, mut used) = (Instant::now(), Moment::of(self.pid()));
        while since.elapsed() < QUIET {
            interrupt::check()?;
            sleep(QUIET / 25);
            let now = archive.objects()?;
            let is_new = now.keys().any(|name| !found.contains_key(name));
            found.extend(now);
            let current = Moment::of(self.pid());
            let busy = current.since(&used).map(|used| Duration::from_nanos(used.cpu_ns));
            let Some(busy) = busy else {
                return Err(BenchError::option("--experiment replicate", "a follower ended"));
            };
            if is_new || busy > QUIET / BUSY_SHARE {
                (since, used) = (Instant::now(), current);
            }
            if begun.elapsed() > REST {
                let reason = "a follower is busy ten minutes after the last transaction";
                return Err(BenchError::option("--experiment replicate", reason));
            }
        }
        Ok(found)
    }

    /// Has it end in order.
    pub(super) fn stop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        if !has_ended(&self.child, GRACE) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Its client of S3 refuses this variable beside a transport of its own, which it always has.
const NOT_TAKEN: &str = "AWS_CA_BUNDLE";

fn litestream(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove(NOT_TAKEN);
    command
}

/// Builds the pinned version, once, into the directory of the bench's peers.
fn build() -> Result<PathBuf> {
    let cache = cache_directory()?.join(format!("litestream-{LITESTREAM}"));
    let path = cache.join("litestream");
    if path.is_file() {
        return Ok(path);
    }
    if find_on_path("go").is_none() {
        let remedy = format!("install Go, or name the program with {VARIABLE}");
        return Err(BenchError::ToolMissing { name: "Litestream".to_owned(), remedy });
    }
    if let Some(parent) = cache.parent() {
        private::make(parent)?;
    }
    private::make(&cache)?;
    let mut go = Command::new("go");
    go.arg("install").arg(format!("{MODULE}@{LITESTREAM}")).env("GOBIN", &cache);
    run(go.env_remove("GOFLAGS"))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn litestream_has_begun_when_it_has_compacted_the_first_state() {
        let objects = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 7)).collect();
        let litestream = Follower::Litestream(PathBuf::new());
        let snapshot = ["0000/0000000000000001-0000000000000001.ltx", "0009/1-1.ltx"];
        assert!(!litestream.has_begun(&objects(&snapshot)));
        assert!(litestream.has_begun(&objects(&[snapshot[0], "0001/1-1.ltx"])));
        assert!(litestream.has_begun(&objects(&["ltx/0/1-1.ltx", "ltx/1/1-1.ltx"])));
        let ours = Follower::Ours { tdekit: PathBuf::new(), keys: Vec::new() };
        assert!(!ours.has_begun(&objects(&[])));
        assert!(ours.has_begun(&objects(&["0000000000000001.tdekit"])));
    }
}
