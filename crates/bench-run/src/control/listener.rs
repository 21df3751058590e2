//! The running test's side.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::order::Order;

/// Somebody who asks waits so long for the driver: a block may be long.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest order that is read.
const MOST_BYTES: u64 = 4096;

/// An order on its way to the driver.
pub(crate) struct Received {
    pub(crate) order: Order,
    answer: Sender<Result<String, String>>,
}

impl Received {
    /// Answers whoever asked.
    pub(crate) fn answer(self, answer: Result<String, String>) {
        // Nobody may be waiting any more.
        let _gone = self.answer.send(answer);
    }
}

/// Listens for orders until it is dropped.
pub(crate) struct Listener {
    path: PathBuf,
    orders: Receiver<Received>,
    ended: Arc<AtomicBool>,
}

impl Listener {
    /// Listens at a socket named after this process. `None` where that is not possible: a run does
    /// not fail because nobody could change it.
    pub(crate) fn start() -> Option<Self> {
        let path = super::directory().ok()?.join(format!("{}.sock", std::process::id()));
        Self::listen_at(&path)
    }

    fn listen_at(path: &Path) -> Option<Self> {
        // A process of this number is gone, or is this one.
        let _none = std::fs::remove_file(path);
        let socket = UnixListener::bind(path).ok()?;
        let ended = Arc::new(AtomicBool::new(false));
        let (sender, orders) = channel();
        let told = Arc::clone(&ended);
        std::thread::spawn(move || {
            for stream in socket.incoming() {
                if told.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let sender = sender.clone();
                std::thread::spawn(move || serve(stream, &sender));
            }
        });
        Some(Self { path: path.to_owned(), orders, ended })
    }

    /// The next order, if there is one.
    pub(crate) fn next(&self) -> Option<Received> {
        self.orders.try_recv().ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the thread, which then ends.
        let _gone = UnixStream::connect(&self.path);
        let _gone = std::fs::remove_file(&self.path);
    }
}

/// One order and its answer, a line of JSON each.
fn serve(stream: UnixStream, orders: &Sender<Received>) {
    let limits = [
        stream.set_read_timeout(Some(Duration::from_secs(5))),
        stream.set_write_timeout(Some(Duration::from_secs(5))),
    ];
    let mut line = String::new();
    let read = BufReader::new((&stream).take(MOST_BYTES)).read_line(&mut line);
    if limits.iter().any(Result::is_err) || read.is_err() {
        return;
    }
    let answer = match serde_json::from_str(&line) {
        Ok(order) => {
            let (sender, answer) = channel();
            match orders.send(Received { order, answer: sender }) {
                Ok(()) => answer
                    .recv_timeout(PATIENCE)
                    .unwrap_or_else(|_| Err("the run has ended or does not answer".to_owned())),
                Err(_) => Err("the run has ended".to_owned()),
            }
        }
        Err(error) => Err(format!("not an order: {error}")),
    };
    if let Ok(mut text) = serde_json::to_string(&answer) {
        text.push('\n');
        // Who asked may be gone.
        let _gone = (&stream).write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::client::ask;

    #[test]
    fn an_order_reaches_the_driver_and_its_answer_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.sock");
        let listener = Listener::listen_at(&path).unwrap();
        assert!(listener.next().is_none());
        let asking = {
            let path = path.clone();
            std::thread::spawn(move || ask(&path, &Order::Stop))
        };
        let received = loop {
            if let Some(received) = listener.next() {
                break received;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        assert_eq!(received.order, Order::Stop);
        received.answer(Ok("stopping".to_owned()));
        assert_eq!(asking.join().unwrap().unwrap(), Ok("stopping".to_owned()));
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"nonsense\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("not an order"), "{answer}");
        drop(listener);
        assert!(!path.exists());
        assert!(ask(&path, &Order::Stop).is_err());
    }
}
