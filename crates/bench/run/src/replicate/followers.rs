//! The followers as processes: how each is started, what it ships, how it restores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tdekit_private_mariadb::find_on_path;
use tdekit_system_use::{die_with_parent, has_ended};

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
/// Longest wait for a follower's first object, and for its end.
const READY: Duration = Duration::from_secs(120);
const GRACE: Duration = Duration::from_secs(10);
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

    /// Returns true if it ships.
    pub(super) fn ships(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// Starts following `database`, and waits until the first state of it is in `archive`.
    pub(super) fn start(&self, database: &Path, archive: &Path) -> Result<Option<Running>> {
        let mut command = match self {
            Self::Nobody => return Ok(None),
            Self::Ours { tdekit, keys } => {
                let mut command = key_store::command(tdekit, keys);
                command.arg("replicate").arg(database).arg("--to").arg(archive);
                command.args(["--certificate", CERTIFICATE, "--every", "1s", "--quiet"]);
                command
            }
            Self::Litestream(program) => {
                let mut command = Command::new(program);
                command.arg("replicate").arg(database).arg(url(archive));
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let shown = format!("{command:?}");
        let child = die_with_parent(&mut command).spawn();
        let mut running = Running { child: child.map_err(BenchError::start(shown.as_str()))? };
        let begun = Instant::now();
        while self.objects(archive)?.is_empty() {
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

    /// Returns what is in an archive, finished objects alone, with their sizes.
    pub(super) fn objects(&self, archive: &Path) -> Result<BTreeMap<PathBuf, u64>> {
        let mut found = BTreeMap::new();
        let mut directories = vec![archive.to_owned()];
        while let Some(directory) = directories.pop() {
            // It may be made, or removed, at this moment.
            for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = entry.file_name().to_string_lossy().into_owned();
                let Ok(facts) = entry.metadata() else { continue };
                if facts.is_dir() {
                    // Where tdekit makes its objects.
                    if !name.starts_with("tdekit-new.") {
                        directories.push(path);
                    }
                } else if name.ends_with(".tdekit") || name.ends_with(".ltx") {
                    found.insert(path, facts.len());
                }
            }
        }
        Ok(found)
    }

    /// Returns true for an object that holds new transactions, and not earlier ones once more.
    pub(super) fn is_new(&self, object: &Path) -> bool {
        match self {
            Self::Litestream(_) => {
                object.parent().and_then(Path::file_name).is_some_and(|level| level == "0")
            }
            Self::Nobody | Self::Ours { .. } => true,
        }
    }

    /// Restores the last state to a new file; `checked` with SQLite's check of it, which is part of
    /// our command and not of Litestream's.
    pub(super) fn restore(&self, archive: &Path, to: &Path, checked: bool) -> Result<()> {
        match self {
            Self::Nobody => Ok(()),
            Self::Ours { tdekit, keys } => {
                let mut command = key_store::command(tdekit, keys);
                command.arg("restore").arg(archive).args(["--at", "latest", "--plain"]);
                command.args((!checked).then_some("--no-check"));
                run(command.arg("--to").arg(to)).map(drop)
            }
            Self::Litestream(program) => {
                let mut command = Command::new(program);
                run(command.arg("restore").arg("-o").arg(to).arg(url(archive))).map(drop)?;
                if checked { writers::check(to) } else { Ok(()) }
            }
        }
    }
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
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

fn url(archive: &Path) -> String {
    format!("file://{}", archive.display())
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
    fn finished_objects_count_and_compactions_are_not_new() {
        let archive = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = archive.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, [0; 7]).unwrap();
            path
        };
        let ours = put("0000000000000001.tdekit");
        let new = put("ltx/0/0000000000000002-0000000000000002.ltx");
        let compacted = put("ltx/1/0000000000000001-0000000000000002.ltx");
        put("tdekit-new.77/0000000000000002.tdekit");
        put("ltx/0/0000000000000003-0000000000000003.ltx.tmp");
        let litestream = Follower::Litestream(PathBuf::new());
        let found = litestream.objects(archive.path()).unwrap();
        let wanted: BTreeMap<_, _> = [&ours, &new, &compacted].map(|path| (path.clone(), 7)).into();
        assert_eq!(found, wanted);
        assert!(litestream.is_new(&new) && !litestream.is_new(&compacted));
        assert!(Follower::Nobody.is_new(&ours) && !Follower::Nobody.ships());
    }
}
