//! The running test's side.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::order::Order;

/// Time limit for a client that connects and sends nothing.
const PATIENCE: Duration = Duration::from_millis(500);
/// Maximum length of an order.
const MOST_BYTES: u64 = 4096;

/// An order, with the client that waits for its answer.
pub(crate) struct Received {
    pub(crate) order: Order,
    stream: UnixStream,
}

impl Received {
    /// Sends the answer to the client.
    pub(crate) fn answer(self, answer: &Result<String, String>) {
        reply(&self.stream, answer);
    }
}

/// Receives orders until it is dropped. Clients wait until the driver polls.
pub(crate) struct Listener {
    path: PathBuf,
    socket: UnixListener,
}

impl Listener {
    /// Listens on a socket named after this process. Returns `None` if that is not possible: a run
    /// does not fail only because it cannot be controlled.
    pub(crate) fn start() -> Option<Self> {
        let path = super::directory().ok()?.join(format!("{}.sock", std::process::id()));
        Self::listen_at(&path)
    }

    fn listen_at(path: &Path) -> Option<Self> {
        // A process of this number has ended, or is this one.
        let _none = std::fs::remove_file(path);
        let socket = UnixListener::bind(path).ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Self { path: path.to_owned(), socket })
    }

    /// Returns the next order, if there is one. Invalid orders are answered here.
    pub(crate) fn next(&self) -> Option<Received> {
        loop {
            let (stream, _) = self.socket.accept().ok()?;
            match read(&stream).map(|line| serde_json::from_str(&line)) {
                Ok(Ok(order)) => return Some(Received { order, stream }),
                Ok(Err(error)) => reply(&stream, &Err(format!("not an order: {error}"))),
                // The client has disconnected, or sends nothing.
                Err(_) => {}
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.path);
    }
}

fn read(stream: &UnixStream) -> std::io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(MOST_BYTES)).read_line(&mut line)?;
    Ok(line)
}

fn reply(mut stream: &UnixStream, answer: &Result<String, String>) {
    if let Ok(mut text) = serde_json::to_string(answer) {
        text.push('\n');
        // The client may have disconnected.
        let _gone = stream.write_all(text.as_bytes());
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
        received.answer(&Ok("stopping".to_owned()));
        assert_eq!(asking.join().unwrap().unwrap(), Ok("stopping".to_owned()));
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"nonsense\n").unwrap();
        assert!(listener.next().is_none());
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("not an order"), "{answer}");
        drop(listener);
        assert!(!path.exists());
        assert!(ask(&path, &Order::Stop).is_err());
    }
}
