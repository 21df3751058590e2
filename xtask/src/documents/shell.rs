//! A shell on a separate terminal, like that of a user who types a document's commands.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::process::{kill_tree, run};

/// The answer to a prompt for a password.
const PASSWORD: &str = "a password for documents";
/// Time limit of a command.
const COMMAND_LIMIT: Duration = Duration::from_mins(10);
/// A character that no command prints; it encloses the exit code.
const MARK: char = '\u{1}';
/// The shell's loop: it reads paths of commands from the named pipe, separate from the terminal, so
/// that no command can read the shell's input.
const LOOP: &str = "exec 9<\"$1\"; set -o pipefail
while IFS= read -r -u 9 order; do source \"$order\" 9<&-; printf '\\001%d\\001' $?; done";

/// A running shell. When dropped, it is killed with everything that it started.
pub(super) struct Shell {
    child: Box<dyn Child + Send + Sync>,
    /// The terminal: closing it would hang up the shell.
    _terminal: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    screen: Receiver<Vec<u8>>,
    /// File with the shell's next command, and the pipe that announces it.
    order: PathBuf,
    orders: File,
}

/// A command's exit code and output.
pub(super) struct Ended {
    pub(super) exit_code: i32,
    pub(super) printed: String,
}

impl Shell {
    /// Starts a shell in `directory` with only `environment`; `own` is an empty directory for the
    /// shell's own files.
    ///
    /// # Errors
    /// When there is no terminal or no bash.
    pub(super) fn start(
        directory: &Path,
        own: &Path,
        environment: &[(&str, String)],
    ) -> Result<Self> {
        let pipe = own.join("orders");
        run(Command::new("mkfifo").arg(&pipe))?;
        let size = PtySize { rows: 50, cols: 200, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).context("open a terminal")?;
        let mut command = CommandBuilder::new("bash");
        command.args(["--noprofile", "--norc", "-c", LOOP, "bash"]);
        command.arg(&pipe);
        command.cwd(directory);
        command.env_clear();
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).context("start bash")?;
        drop(pair.slave);
        let mut screen = pair.master.try_clone_reader().context("read the terminal")?;
        let keyboard = pair.master.take_writer().context("write to the terminal")?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = vec![0; 65536];
            while let Ok(len @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..len].to_vec()).is_err() {
                    break;
                }
            }
        });
        // Opened for reading as well, so that it does not wait for the shell, nor end with it.
        let orders = File::options().read(true).write(true).open(&pipe).context("open the pipe")?;
        let order = own.join("order");
        Ok(Self { child, _terminal: pair.master, keyboard, screen: receiver, order, orders })
    }

    /// Runs a command and waits for its end; answers a password prompt.
    ///
    /// # Errors
    /// When it hangs, or ends the shell.
    pub(super) fn run(&mut self, command: &str) -> Result<Ended> {
        fs::write(&self.order, format!("{command}\n")).context("write the command")?;
        writeln!(self.orders, "{}", self.order.display())?;
        let begun = Instant::now();
        let mut bytes = Vec::new();
        let mut answered = 0;
        loop {
            let left = COMMAND_LIMIT.saturating_sub(begun.elapsed());
            match self.screen.recv_timeout(left) {
                Ok(more) => bytes.extend(more),
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the shell ended: {}", cleaned(&String::from_utf8_lossy(&bytes)))
                }
                Err(RecvTimeoutError::Timeout) => {
                    let printed = cleaned(&String::from_utf8_lossy(&bytes));
                    bail!("no end after {} s: {printed}", COMMAND_LIMIT.as_secs())
                }
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((printed, code)) = ended(&text) {
                return Ok(Ended { exit_code: code, printed: cleaned(printed) });
            }
            let asked = text.len();
            if asked > answered && asks_for_password(&text[answered..]) {
                answered = asked;
                writeln!(self.keyboard, "{PASSWORD}")?;
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(pid) = self.child.process_id() {
            kill_tree(pid);
        }
        // Fails only for a process that has ended.
        let _ = self.child.wait();
    }
}

fn ended(text: &str) -> Option<(&str, i32)> {
    let (rest, _) = text.rsplit_once(MARK)?;
    let (printed, code) = rest.rsplit_once(MARK)?;
    Some((printed, code.parse().ok()?))
}

fn asks_for_password(text: &str) -> bool {
    let line = text.rsplit('\n').next().unwrap_or_default().to_lowercase();
    line.ends_with(": ") && (line.contains("password") || line.ends_with("once more: "))
}

/// Returns the final text on the screen: without colours, and with the last state of an overwritten
/// line.
fn cleaned(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' && characters.next_if_eq(&'[').is_some() {
            for parameter in characters.by_ref() {
                if parameter.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            plain.push(character);
        }
    }
    let lines = plain.split('\n').map(|line| {
        let line = line.trim_end_matches('\r');
        line.rsplit('\r').next().unwrap_or(line).trim_end()
    });
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> (Shell, tempfile::TempDir) {
        let path = std::env::var("PATH").unwrap();
        let own = tempfile::tempdir().unwrap();
        (Shell::start(own.path(), own.path(), &[("PATH", path)]).unwrap(), own)
    }

    #[test]
    fn a_shell_keeps_its_state_and_tells_exit_codes() {
        let (mut shell, _own) = shell();
        assert_eq!(shell.run("here=1; false").unwrap().exit_code, 1);
        let ended = shell.run("echo \"it's $here\"; (exit 7) | cat").unwrap();
        assert_eq!((ended.exit_code, &*ended.printed), (7, "it's 1"));
    }

    #[test]
    fn a_password_is_typed_at_the_terminal() {
        let (mut shell, _own) = shell();
        let ended = shell.run("read -rsp 'Password: ' p </dev/tty; echo \"<$p>\"").unwrap();
        assert!(ended.printed.ends_with(&format!("<{PASSWORD}>")), "{}", ended.printed);
    }

    #[test]
    fn a_command_that_ends_the_shell_is_told() {
        let (mut shell, _own) = shell();
        assert!(shell.run("exit 3").is_err());
    }

    #[test]
    fn colours_and_progress_are_taken_away() {
        assert_eq!(cleaned("\u{1b}[1mten\u{1b}[0m\r\n 1 %\r 99 %\r\n"), "ten\n 99 %");
    }
}
