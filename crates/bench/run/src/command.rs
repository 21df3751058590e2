//! Commands that the bench runs to prepare its sides.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::address::without_password;
use crate::error::{BenchError, Result};
use crate::interrupt;

/// Number of bytes kept of a command's output.
const LAST_WORDS: usize = 4096;

/// Runs a command to its end, without input. Its error has the last words of the command.
pub(crate) fn run(command: &mut Command) -> Result<Vec<u8>> {
    run_fed(command, &[])
}

/// As [`run`], with `input`, which must fit into a pipe: the command's output is read only after
/// it.
pub(crate) fn run_fed(command: &mut Command, input: &[u8]) -> Result<Vec<u8>> {
    let shown = shown(command);
    let started = |command: &mut Command| {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        // A command that ends before it has read everything reports the reason itself.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input));
        child.wait_with_output()
    };
    let output = started(command).map_err(BenchError::start(shown.as_str()))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    // Ctrl-C reaches the command as well; then its failure is not the cause.
    interrupt::check()?;
    Err(failed(shown, output.status, &String::from_utf8_lossy(&output.stderr)))
}

/// Returns the error of a command with this status and output.
pub(crate) fn failed(command: impl Into<String>, status: impl ToString, said: &str) -> BenchError {
    let (command, status) = (command.into(), status.to_string());
    BenchError::Command { command, status, stderr: last_lines(said) }
}

/// Reads everything and returns the end.
pub(crate) fn last_words(mut from: impl Read) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 512];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..count]);
        let surplus = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Returns the end of a command's output.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Returns the command line of this process in the syntax of a POSIX shell, without passwords.
/// Invalid Unicode in it is replaced.
pub(crate) fn own_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    shell_line(
        ["tdekit", "bench"].map(str::to_owned).into_iter().chain(words.map(without_password)),
    )
}

/// Returns a command line that a POSIX shell parses as these words.
pub(crate) fn shell_line(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().map(|word| shell_word(&word)).collect::<Vec<_>>().join(" ")
}

fn shell_word(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        for word in ["", "a b", "it's", "$HOME", "plain-1.db", "\"q\""] {
            let line = shell_line(["printf".to_owned(), "%s".to_owned(), word.to_owned()]);
            let said = run(Command::new("sh").arg("-c").arg(line)).unwrap();
            assert_eq!(String::from_utf8(said).unwrap(), word);
        }
    }

    #[test]
    fn a_failing_command_says_why() {
        let error = run(Command::new("sh").args(["-c", "echo because >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("because"), "{error}");
        let error = run(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert!(matches!(error, BenchError::Start { .. }));
    }

    #[test]
    fn a_command_gets_its_input_or_leaves_it() {
        assert_eq!(run_fed(&mut Command::new("cat"), b"words").unwrap(), b"words");
        assert_eq!(run(&mut Command::new("cat")).unwrap(), b"");
        assert_eq!(run_fed(&mut Command::new("true"), &[b'x'; 60_000]).unwrap(), b"");
    }
}
