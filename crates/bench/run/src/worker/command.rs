//! A command, run and measured. The worker is a small process that starts nothing else, so that the
//! largest resident set that the kernel reports is the command's own: it counts from the size of
//! the process that started it.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Advice, fadvise, fdatasync};
use tdekit_system_use::{die_with_parent, wait, wall_ns};

use crate::command::last_words;
use crate::error::{BenchError, Result};
use crate::job::{Ran, RunSpec};
use crate::subject::{file_bytes, files_below};

pub(super) fn run(spec: &RunSpec) -> Result<Ran> {
    for path in &spec.drop_cached {
        files_below(path)?.iter().try_for_each(|path| write_out(path, true))?;
    }
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.arguments)
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let start = wall_ns();
    let mut child = die_with_parent(&mut command)
        .spawn()
        .map_err(BenchError::file("cannot start", &spec.program))?;
    let words = child.stderr.take().map(last_words).unwrap_or_default();
    let finished = wait(child).map_err(BenchError::file("cannot wait for", &spec.program))?;
    let status = finished.status;
    let output = if status.success() { files_below(&spec.output)? } else { Vec::new() };
    output.iter().try_for_each(|path| write_out(path, false))?;
    let elapsed_ns = wall_ns() - start;
    let output_bytes = output.iter().map(|path| file_bytes(path)).sum::<Result<u64>>()?;
    Ok(Ran {
        elapsed_ns,
        used: finished.used,
        peak_memory_bytes: finished.peak_memory_bytes,
        output_bytes,
        failure: (!status.success()).then(|| status.to_string()),
        stderr: words,
    })
}

/// Writes a file's dirty pages out, and drops its pages from the system's cache if asked; then no
/// connection of this process may have it open: closing our descriptor would release its locks.
pub(super) fn write_out(path: &Path, drop: bool) -> Result<()> {
    let file = File::open(path).map_err(BenchError::file("cannot open", path))?;
    fdatasync(&file).map_err(|errno| BenchError::file("cannot write out", path)(errno.into()))?;
    if drop {
        fadvise(&file, 0, None, Advice::DontNeed)
            .map_err(|errno| BenchError::file("cannot drop cached pages of", path)(errno.into()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, output: &Path) -> RunSpec {
        RunSpec {
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into(), "sh".into(), output.into()],
            environment: vec![("GREETING".into(), "hello".into())],
            drop_cached: Vec::new(),
            output: output.to_owned(),
        }
    }

    #[test]
    fn a_command_is_measured_with_its_children() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("out");
        let ran = run(&shell("printf %s \"$GREETING\" | cat > \"$1\"", &output)).unwrap();
        assert_eq!((ran.failure, ran.output_bytes), (None, 5));
        assert!(ran.elapsed_ns > 0 && ran.peak_memory_bytes > 0);
        let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; : > \"$1\"";
        let ran = run(&shell(burn, &output)).unwrap();
        assert!(ran.used.user_ns > 1_000_000, "{ran:?}");
    }

    #[test]
    fn directories_are_counted_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("repository");
        let script = "mkdir -p \"$1/a/b\"; printf 12 > \"$1/a/x\"; printf 345 > \"$1/a/b/y\"";
        let mut spec = shell(script, &output);
        assert_eq!(run(&spec).unwrap().output_bytes, 5);
        spec.drop_cached = vec![output.clone()];
        assert_eq!(run(&spec).unwrap().output_bytes, 5);
    }

    #[test]
    fn how_a_command_failed_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let output = &directory.path().join("not there");
        let ran = run(&shell("echo because >&2; exit 6", output)).unwrap();
        assert!(ran.failure.unwrap().contains('6'));
        assert_eq!(ran.stderr, "because\n");
        let ran = run(&shell("kill -KILL $$", output)).unwrap();
        assert!(ran.failure.unwrap().contains("signal: 9"));
        // Success without the expected output is an error.
        assert!(matches!(run(&shell("true", output)), Err(BenchError::File { .. })));
        let mut spec = shell("true", output);
        spec.program = "no-such-program-anywhere".into();
        assert!(matches!(run(&spec), Err(BenchError::File { doing: "cannot start", .. })));
    }
}
