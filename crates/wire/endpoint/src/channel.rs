//! A client's socket, with TLS or without: bytes in, bytes out.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConnection;
use tdekit_wire_tds::Stall;
use tdekit_wire_tds::packet::{HEADER_BYTES, PacketKind};

use crate::error::Ended;
use crate::pool::while_waiting;
use crate::sessions::Traffic;

/// Number of bytes read from the socket at once.
const READ_BYTES: usize = 16 * 1024;
/// Number of unprocessed bytes from which no more are read.
const MOST_WAITING_BYTES: usize = 128 * 1024;
/// Length of a TLS record's header, and the maximum length of a record.
const RECORD_HEADER_BYTES: usize = 5;
const MAX_RECORD_BYTES: usize = RECORD_HEADER_BYTES + 16 * 1024 + 2048;
/// Types of TLS records.
const RECORDS: std::ops::RangeInclusive<u8> = 20..=23;
const ALERT: u8 = 21;

/// A socket that never blocks except where stated.
pub(crate) struct Channel {
    stream: Arc<TcpStream>,
    tls: Option<Box<ServerConnection>>,
    /// Received bytes that TLS has not taken yet.
    sealed: Vec<u8>,
    /// Received bytes of the protocol.
    pub(crate) incoming: Vec<u8>,
    /// True if TLS ends with the login.
    login_only: bool,
    closed: bool,
    traffic: Arc<Traffic>,
    stall: Stall,
}

impl Channel {
    pub(crate) fn new(stream: Arc<TcpStream>) -> Self {
        let (sealed, incoming) = (Vec::new(), Vec::new());
        Channel {
            stream,
            tls: None,
            sealed,
            incoming,
            login_only: false,
            closed: false,
            traffic: Arc::default(),
            stall: Stall::default(),
        }
    }

    /// Returns the socket's traffic so far.
    pub(crate) fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// Returns whether the client reads.
    pub(crate) fn stall(&self) -> Stall {
        self.stall.clone()
    }

    /// Returns its socket.
    pub(crate) fn stream(&self) -> Arc<TcpStream> {
        Arc::clone(&self.stream)
    }

    /// Returns true if so much is unprocessed that no more is read.
    pub(crate) fn is_full(&self) -> bool {
        self.incoming.len() >= MOST_WAITING_BYTES
    }

    /// Returns true if the client has closed its side.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns true if the client cancels: the next message is a complete Attention.
    pub(crate) fn has_attention(&self) -> bool {
        self.incoming.len() >= HEADER_BYTES
            && self.incoming.first() == Some(&PacketKind::Attention.code())
    }

    pub(crate) fn tls(&self) -> Option<&ServerConnection> {
        self.tls.as_deref()
    }

    /// Starts TLS; bytes that arrived earlier are its first.
    pub(crate) fn start_tls(&mut self, tls: Box<ServerConnection>, login_only: bool) {
        self.sealed = std::mem::take(&mut self.incoming);
        self.tls = Some(tls);
        self.login_only = login_only;
    }

    /// Closes TLS, as far as that is possible without waiting.
    pub(crate) fn end_tls(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        let _gone = self.send_tls_output(Duration::ZERO);
    }

    /// Called when the login was received: if only it was to be sealed, TLS is over.
    pub(crate) fn end_login_tls(&mut self) {
        if self.login_only {
            self.stop_tls();
        }
    }

    /// The login is over: both directions are plain from here on.
    fn stop_tls(&mut self) {
        self.tls = None;
        self.login_only = false;
        let mut rest = std::mem::take(&mut self.sealed);
        // Some clients close TLS first.
        if let [ALERT, _, _, high, low, ..] = *rest {
            let length = RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
            rest.drain(..length.min(rest.len()));
        }
        self.incoming.extend_from_slice(&rest);
    }

    /// Reads the available bytes, without waiting.
    ///
    /// # Errors
    /// A broken socket, or bytes that are not TLS.
    pub(crate) fn fill(&mut self) -> Result<(), Ended> {
        let mut bytes = [0; READ_BYTES];
        while !self.closed && !self.is_full() {
            match (&*self.stream).read(&mut bytes) {
                Ok(0) => self.closed = true,
                Ok(length) => {
                    self.traffic.reads.touch();
                    let came = bytes.get(..length).unwrap_or_default();
                    match self.tls {
                        Some(_) => self.sealed.extend_from_slice(came),
                        None => self.incoming.extend_from_slice(came),
                    }
                    self.open_records()?;
                    if length < READ_BYTES {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Passes whole records to TLS, one at a time: the bytes after the login may no longer be TLS.
    pub(crate) fn open_records(&mut self) -> Result<(), Ended> {
        let mut at = 0;
        let result = self.open_each(&mut at);
        self.sealed.drain(..at.min(self.sealed.len()));
        if self.sealed.is_empty() && self.sealed.capacity() > READ_BYTES {
            self.sealed = Vec::new();
        }
        if result? {
            self.stop_tls();
        }
        Ok(())
    }

    /// Returns true if plain bytes follow.
    fn open_each(&mut self, at: &mut usize) -> Result<bool, Ended> {
        let Some(tls) = &mut self.tls else { return Ok(false) };
        loop {
            let rest = self.sealed.get(*at..).unwrap_or_default();
            match rest.first() {
                Some(kind) if self.login_only && !RECORDS.contains(kind) => return Ok(true),
                Some(kind) if !RECORDS.contains(kind) => {
                    return Err(Ended::Refused("plain bytes within TLS"));
                }
                _ => {}
            }
            let Some([_, _, _, high, low]) = rest.first_chunk::<RECORD_HEADER_BYTES>() else {
                return Ok(false);
            };
            let length = RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low]));
            if length > MAX_RECORD_BYTES {
                return Err(Ended::Refused("a TLS record that is too long"));
            }
            let Some(mut record) = rest.get(..length) else { return Ok(false) };
            *at += length;
            while !record.is_empty() {
                if tls.read_tls(&mut record)? == 0 {
                    return Err(Ended::Refused("bytes after the end of TLS"));
                }
                let state = tls.process_new_packets()?;
                let waiting = state.plaintext_bytes_to_read();
                if waiting > 0 {
                    let start = self.incoming.len();
                    self.incoming.resize(start + waiting, 0);
                    let room = self.incoming.get_mut(start..).unwrap_or_default();
                    tls.reader().read_exact(room)?;
                }
                if state.peer_has_closed() {
                    self.closed = true;
                }
            }
        }
    }

    /// Returns TLS's own output: its handshake, an alert.
    pub(crate) fn take_tls_output(&mut self) -> Result<Vec<u8>, Ended> {
        let mut out = Vec::new();
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(&mut out)?;
            }
        }
        Ok(out)
    }

    /// Sends TLS's own output.
    pub(crate) fn send_tls_output(&mut self, stall: Duration) -> Result<(), Ended> {
        let out = self.take_tls_output()?;
        self.send_raw(&out, stall)
    }

    /// Sends `bytes`, sealed if TLS is on, and waits until the system has taken them; gives up when
    /// the client reads nothing for `stall`.
    pub(crate) fn send(&mut self, bytes: &[u8], stall: Duration) -> Result<(), Ended> {
        if self.tls.is_none() {
            return self.send_raw(bytes, stall);
        }
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 64 + 256);
        if let Some(tls) = &mut self.tls {
            tls.writer().write_all(bytes)?;
            while tls.wants_write() {
                tls.write_tls(&mut out)?;
            }
        }
        self.send_raw(&out, stall)
    }

    fn send_raw(&mut self, bytes: &[u8], stall: Duration) -> Result<(), Ended> {
        let mut rest = bytes;
        let mut moved = None;
        while !rest.is_empty() {
            match (&*self.stream).write(rest) {
                Ok(length) => {
                    self.traffic.writes.touch();
                    rest = rest.get(length..).unwrap_or_default();
                    moved = None;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let since = *moved.get_or_insert_with(Instant::now);
                    if since.elapsed() >= stall {
                        return Err(io::Error::from(ErrorKind::TimedOut).into());
                    }
                    self.wait_for_room(since)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits until the client reads more, and meanwhile reads from it: it may cancel instead of
    /// reading.
    fn wait_for_room(&mut self, since: Instant) -> Result<(), Ended> {
        self.stall.set(Some(since));
        let waited = self.wait_for_reader();
        self.stall.set(None);
        waited
    }

    fn wait_for_reader(&mut self) -> Result<(), Ended> {
        let listen = !self.closed && !self.is_full();
        let flags = if listen { PollFlags::IN | PollFlags::OUT } else { PollFlags::OUT };
        let seen = while_waiting(|| wait(&self.stream, flags, Duration::from_secs(1)))
            .ok_or(Ended::Refused("too many clients do not read"))??;
        if listen && seen.contains(PollFlags::IN) {
            self.fill()?;
            if self.closed {
                return Err(io::Error::from(ErrorKind::BrokenPipe).into());
            }
        }
        Ok(())
    }

    /// Waits for bytes for at most `most`, or until the eventfd `called` is readable. Returns true
    /// if bytes arrived without a call; a call is consumed.
    pub(crate) fn readable_within(
        stream: &TcpStream,
        called: BorrowedFd<'_>,
        most: Duration,
    ) -> io::Result<bool> {
        let mut fds =
            [stream.as_fd(), called].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, Some(&timespec(most))) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let [stream, call] = fds.map(|fd| !fd.revents().is_empty());
        let was_called = call && rustix::io::read(called, &mut [0; 8]).is_ok();
        Ok(stream && !was_called)
    }
}

fn wait(stream: &TcpStream, flags: PollFlags, most: Duration) -> io::Result<PollFlags> {
    let mut fds = [PollFd::from_borrowed_fd(stream.as_fd(), flags)];
    match poll(&mut fds, Some(&timespec(most))) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(PollFlags::empty()),
        Ok(_) => Ok(fds.first().map_or(PollFlags::empty(), PollFd::revents)),
        Err(error) => Err(error.into()),
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}
