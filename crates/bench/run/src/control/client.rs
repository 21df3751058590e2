//! The client's side.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::order::Order;
use crate::error::{BenchError, Result};

/// The run answers between two blocks, one of which may be long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends an order to the running test, or to the one of process `run`, and returns its answer.
pub(crate) fn send(order: &Order, run: Option<u32>) -> Result<String> {
    let running = running(&super::directory()?)?;
    let chosen = match (run, running.as_slice()) {
        (None, [only]) => only,
        (None, []) => return Err(BenchError::NoRun { run: None }),
        (None, several) => {
            let runs = several.iter().map(|(process, _)| *process).collect();
            return Err(BenchError::SeveralRuns { runs });
        }
        (Some(wanted), all) => all
            .iter()
            .find(|(process, _)| *process == wanted)
            .ok_or(BenchError::NoRun { run: Some(wanted) })?,
    };
    ask(&chosen.1, order)
        .map_err(BenchError::file("cannot reach the run at", &chosen.1))?
        .map_err(|reason| BenchError::Refused { reason })
}

/// Returns the running tests of this user, by process. Sockets left by killed ones are removed.
fn running(directory: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let mut found = Vec::new();
    let entries =
        std::fs::read_dir(directory).map_err(BenchError::file("cannot list", directory))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(process) = name.strip_suffix(".sock").and_then(|name| name.parse().ok()) else {
            continue;
        };
        if Path::new(&format!("/proc/{process}")).exists() {
            found.push((process, path));
        } else {
            // If not removed now, it is already gone.
            let _gone = std::fs::remove_file(&path);
        }
    }
    found.sort();
    Ok(found)
}

/// Sends an order to a socket: the outer error is one of communication, the inner one a refusal by
/// the run.
pub(super) fn ask(path: &Path, order: &Order) -> std::io::Result<Result<String, String>> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_string(order)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    match BufReader::new(stream).read_line(&mut answer) {
        Ok(1..) => Ok(serde_json::from_str(&answer)?),
        _ => Ok(Err("the run has ended or does not answer".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_not_running() {
        let directory = tempfile::tempdir().unwrap();
        let dead = directory.path().join("4194999.sock");
        let own = directory.path().join(format!("{}.sock", std::process::id()));
        for path in [&dead, &own, &directory.path().join("other.txt")] {
            std::fs::write(path, "").unwrap();
        }
        let found = running(directory.path()).unwrap();
        assert_eq!(found, [(std::process::id(), own)]);
        assert!(!dead.exists());
    }
}
