//! Worker processes from the driver's side.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::de::DeserializeOwned;
use tdekit_system_use::has_ended;

use crate::command::{failed, last_words};
use crate::error::{BenchError, Result};
use crate::interrupt;
use crate::job::{DatabaseState, Ran, Request, RunSpec};
use crate::key_store::{self, KeyEnvironment};

/// Time for a worker to end after its input ended.
const GRACE: Duration = Duration::from_secs(5);

/// Reads a program's output lines in the background, converted by `each`. It reads to the end even
/// if nobody waits: a program whose output is not read would eventually block.
pub(crate) fn read_lines<T: Send + 'static>(
    output: Option<ChildStdout>,
    each: impl Fn(String) -> T + Send + 'static,
) -> Receiver<T> {
    let (sender, lines) = channel();
    if let Some(output) = output {
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let _nobody_waits = sender.send(each(String::from_utf8_lossy(&line).into_owned()));
            }
        });
    }
    lines
}

/// Waits for the next line; none when the output has ended. A stop request ends the waiting, and so
/// does a failure of the periodic action.
pub(crate) fn next_line<T>(
    lines: &Receiver<T>,
    meanwhile: &mut dyn FnMut() -> Result<()>,
) -> Result<Option<T>> {
    loop {
        interrupt::check()?;
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => return Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => meanwhile()?,
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

/// A running worker. Dropping it ends the process.
pub(crate) struct WorkerProcess {
    side: String,
    child: Child,
    input: Option<ChildStdin>,
    replies: Receiver<String>,
    /// Reads its error output, and returns the end of it.
    errors: Option<JoinHandle<String>>,
    reaped: bool,
    /// Kind of instructions that it counts, or the reason why none; known after setup.
    pub(crate) instructions: String,
}

impl WorkerProcess {
    /// Starts `program bench-worker` with further environment variables.
    pub(crate) fn start(program: &Path, side: &str, environment: &KeyEnvironment) -> Result<Self> {
        let mut child = key_store::command(program, environment)
            .arg("bench-worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A separate process group: Ctrl-C on the terminal reaches the driver alone, which then
            // decides what to keep.
            .process_group(0)
            .spawn()
            .map_err(BenchError::start(format!("{} bench-worker", program.display())))?;
        interrupt::left().groups.extend(Pid::from_raw(child.id().cast_signed()));
        let input = child.stdin.take();
        let replies = read_lines(child.stdout.take(), |line| line);
        let errors = child.stderr.take().map(|stderr| std::thread::spawn(|| last_words(stderr)));
        let (side, instructions) = (side.to_owned(), String::new());
        Ok(Self { side, child, input, replies, errors, reaped: false, instructions })
    }

    /// Sends a request without waiting for its reply.
    pub(crate) fn send(&mut self, request: &Request) -> Result<()> {
        let mut line =
            serde_json::to_string(request).map_err(|error| BenchError::WorkerFailed {
                side: self.side.clone(),
                message: format!("the request cannot be written: {error}"),
            })?;
        line.push('\n');
        let sent = self.input.as_mut().map(|input| input.write_all(line.as_bytes()));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(self.lost()),
        }
    }

    /// Waits for the next reply; a stop request or the worker's end ends the waiting.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.receive_while(&mut || Ok(()))
    }

    /// As [`Self::receive`], with a periodic action.
    pub(crate) fn receive_while<T: DeserializeOwned>(
        &mut self,
        meanwhile: &mut dyn FnMut() -> Result<()>,
    ) -> Result<T> {
        let Some(line) = next_line(&self.replies, meanwhile)? else { return Err(self.lost()) };
        let side = || self.side.clone();
        serde_json::from_str::<Result<T, String>>(&line)
            .map_err(|error| BenchError::WorkerLost {
                side: side(),
                detail: format!("it answered nonsense: {error}"),
            })?
            .map_err(|message| BenchError::WorkerFailed { side: side(), message })
    }

    /// Sends a request and waits for its reply, whose type is in [`Request`].
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T> {
        self.send(request)?;
        self.receive()
    }

    /// Sends a request without an answer.
    pub(crate) fn do_it(&mut self, request: &Request) -> Result<()> {
        self.ask(request)
    }

    /// Opens the database that later requests work on.
    pub(crate) fn open(&mut self, path: &Path, on_open: Vec<String>) -> Result<DatabaseState> {
        self.ask(&Request::Open { path: path.to_owned(), on_open })
    }

    /// Runs a command to its end and fails unless it succeeded.
    pub(crate) fn run(&mut self, spec: &RunSpec) -> Result<Ran> {
        let ran: Ran = self.ask(&Request::Run(spec.clone()))?;
        match ran.failure {
            None => Ok(ran),
            Some(status) => Err(failed(spec.shown(), status, &ran.stderr)),
        }
    }

    fn lost(&mut self) -> BenchError {
        self.input = None;
        let status = self.end(GRACE);
        // All processes that could write there have ended.
        let words = self.errors.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        let words = words.trim();
        let ended = status.unwrap_or_else(|| "it does not answer".to_owned());
        let detail = if words.is_empty() { ended } else { format!("{ended}; {words}") };
        BenchError::WorkerLost { side: self.side.clone(), detail }
    }
}

impl WorkerProcess {
    /// Waits for the end of the process, kills the rest of its group, such as a command that it
    /// runs, and reaps it. Returns its status in words, `None` if it had to be killed.
    fn end(&mut self, grace: Duration) -> Option<String> {
        let ended = has_ended(&self.child, grace);
        // The worker leads its group, and is not reaped yet: the group's number is still its own.
        if let (false, Some(group)) = (self.reaped, Pid::from_raw(self.child.id().cast_signed())) {
            // The group may be empty by now.
            let _ = kill_process_group(group, Signal::KILL);
            interrupt::left().groups.retain(|one| *one != group);
        }
        let status = self.child.wait();
        self.reaped = true;
        status.ok().filter(|_| ended).map(|status| status.to_string())
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.input = None;
        let grace = if interrupt::check().is_err() { Duration::ZERO } else { GRACE };
        if !self.reaped {
            self.end(grace);
        }
    }
}
