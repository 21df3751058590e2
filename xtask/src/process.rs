//! Running other programs: every command line is shown before it runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

/// A file that only the workspace's root directory has.
const OF_ROOT: &str = "xtask/Cargo.toml";

/// Finds the workspace's root directory, at or above the current directory. A build that was copied
/// with its tree works on the copy.
///
/// # Errors
/// When the current directory is not within a checkout.
pub(crate) fn find_root() -> Result<PathBuf> {
    let here = std::env::current_dir().context("find the current directory")?;
    let root = here.ancestors().find(|directory| directory.join(OF_ROOT).is_file());
    root.map(Path::to_path_buf).context("run this within a checkout of tdekit")
}

/// The workspace's root directory; `main` has found it by [`find_root`].
pub(crate) fn root() -> PathBuf {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| find_root().unwrap_or_else(|_| PathBuf::from("."))).clone()
}

/// Cargo's target directory.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// Returns the cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// A command line as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = command.get_program();
    let is_cargo = std::env::var_os("CARGO").is_some_and(|cargo| cargo == program);
    let program = if is_cargo { OsStr::new("cargo") } else { program };
    let words = std::iter::once(program).chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Shows and runs `command`; its output goes to our own.
///
/// # Errors
/// When it cannot be started, or ends with a failure.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", shown(command));
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if status.success() { Ok(()) } else { bail!("`{}` failed: {status}", shown(command)) }
}

/// Shows and runs `command`, and shows its standard output after its end, whether it succeeded or
/// not.
///
/// # Errors
/// When it cannot be started, or ends with a failure; the error contains its error output.
pub(crate) fn run_kept(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", shown(command));
    let output = captured(command)?;
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    succeeded(command, &output)
}

/// Shows and runs `command`; its output is shown only if it fails.
///
/// # Errors
/// When it cannot be started, or ends with a failure; the error contains its output.
pub(crate) fn run_quietly(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", shown(command));
    output(command).map(drop)
}

/// Runs `command` and returns its output, without the last line's end.
///
/// # Errors
/// When it cannot be started or ends with a failure; the error contains its error output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = captured(command)?;
    succeeded(command, &output)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Runs `command` and returns its status and output.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn captured(command: &mut Command) -> Result<Output> {
    command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))
}

fn succeeded(command: &Command, output: &Output) -> Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    bail!("`{}` failed: {}: {}", shown(command), output.status, said.trim())
}

/// Kills a process and its descendants; one that has ended is not an error.
pub(crate) fn kill_tree(pid: u32) {
    // Stopped first, so that it starts nothing while its children are read.
    signal("-STOP", pid);
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_ascii_whitespace().filter_map(|word| word.parse().ok()) {
            kill_tree(child);
        }
    }
    signal("-KILL", pid);
}

fn signal(name: &str, pid: u32) {
    // Fails only for a process that has ended.
    let _ =
        Command::new("kill").args([name, "--", &pid.to_string()]).stderr(Stdio::null()).status();
}

/// The path of the program `name` on the search path.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_shown_quoted() {
        let mut command = Command::new("sqlite3");
        command.args(["app.db", "SELECT 'a'", ""]);
        assert_eq!(shown(&command), r"sqlite3 app.db 'SELECT '\''a'\''' ''");
    }

    #[test]
    fn a_failure_tells_its_command_and_what_it_said() {
        let error = output(Command::new("sh").args(["-c", "echo broken >&2; exit 3"]));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("broken") && text.contains('3') && text.contains("sh -c"), "{text}");
    }

    #[test]
    fn programs_are_found_on_the_path_only() {
        assert!(find_program("sh").is_some());
        assert_eq!(find_program("no-such-program-of-tdekit"), None);
    }
}
