//! Worker processes as the driver sees them.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::interrupt;
use crate::job::{DatabaseState, Reply, Request};
use crate::measure::Cost;

/// Last words of a worker that are kept for an error.
const LAST_WORDS: usize = 4096;
/// Time that a worker gets to end after its input ended.
const GRACE: Duration = Duration::from_secs(5);

/// A running worker. Dropping it ends the process.
pub(super) struct WorkerProcess {
    side: String,
    child: Child,
    input: Option<ChildStdin>,
    replies: Receiver<String>,
    errors: Arc<Mutex<Vec<u8>>>,
}

impl WorkerProcess {
    /// Starts `program bench-worker` with further environment variables.
    pub(super) fn start(
        program: &Path,
        side: &str,
        environment: &[(OsString, OsString)],
    ) -> Result<Self, BenchError> {
        let mut child = Command::new(program)
            .arg("bench-worker")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: Ctrl-C on the terminal reaches the driver alone, which then
            // decides what to keep.
            .process_group(0)
            .spawn()
            .map_err(|source| BenchError::Start {
                command: format!("{} bench-worker", program.display()),
                source,
            })?;
        let input = child.stdin.take();
        let (sender, replies) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let errors = Arc::new(Mutex::new(Vec::new()));
        if let Some(mut stderr) = child.stderr.take() {
            let errors = Arc::clone(&errors);
            std::thread::spawn(move || {
                let mut buffer = [0; 512];
                while let Ok(count @ 1..) = stderr.read(&mut buffer) {
                    let mut kept = errors.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend_from_slice(&buffer[..count]);
                    let surplus = kept.len().saturating_sub(LAST_WORDS);
                    kept.drain(..surplus);
                }
            });
        }
        Ok(Self { side: side.to_owned(), child, input, replies, errors })
    }

    /// Sends a request without waiting for its reply.
    pub(super) fn send(&mut self, request: &Request) -> Result<(), BenchError> {
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

    /// Waits for the next reply; a stop request or the worker's death ends the waiting.
    pub(super) fn receive(&mut self) -> Result<Reply, BenchError> {
        let line = loop {
            interrupt::check()?;
            match self.replies.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
            }
        };
        match serde_json::from_str(&line) {
            Ok(Reply::Failed { message }) => {
                Err(BenchError::WorkerFailed { side: self.side.clone(), message })
            }
            Ok(reply) => Ok(reply),
            Err(error) => Err(BenchError::WorkerLost {
                side: self.side.clone(),
                detail: format!("it answered nonsense: {error}"),
            }),
        }
    }

    /// Sends a request and waits for its reply.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Reply, BenchError> {
        self.send(request)?;
        self.receive()
    }

    /// Asks for something that answers `Done`.
    pub(super) fn do_it(&mut self, request: &Request) -> Result<(), BenchError> {
        match self.ask(request)? {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Opens the database that later requests work on.
    pub(super) fn open(
        &mut self,
        path: &Path,
        on_open: Vec<String>,
    ) -> Result<DatabaseState, BenchError> {
        match self.ask(&Request::Open { path: path.to_owned(), on_open })? {
            Reply::Opened(state) => Ok(state),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Asks for something that answers a cost.
    pub(super) fn cost(&mut self, request: &Request) -> Result<Cost, BenchError> {
        match self.ask(request)? {
            Reply::Cost(cost) => Ok(cost),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The error for a reply that does not fit its request.
    pub(super) fn unexpected(&self, reply: &Reply) -> BenchError {
        BenchError::WorkerLost {
            side: self.side.clone(),
            detail: format!("unexpected reply {reply:?}"),
        }
    }

    fn lost(&mut self) -> BenchError {
        self.input = None;
        let status = wait(&mut self.child, GRACE);
        let words = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        let ended = status.unwrap_or_else(|| "it does not answer".to_owned());
        let detail = if words.is_empty() { ended } else { format!("{ended}; {words}") };
        BenchError::WorkerLost { side: self.side.clone(), detail }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.input = None;
        let grace = if interrupt::check().is_err() { Duration::ZERO } else { GRACE };
        if wait(&mut self.child, grace).is_none() {
            // It may have ended meanwhile; either way it is reaped below.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits for the end of a process: its status in words, `None` when it goes on.
fn wait(child: &mut Child, grace: Duration) -> Option<String> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.to_string()),
            Ok(None) if start.elapsed() < grace => {
                std::thread::sleep(Duration::from_millis(2));
            }
            _ => return None,
        }
    }
}
