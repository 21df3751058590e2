//! Bytes to and from a server, plain or through TLS.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustls::ClientConnection;

use crate::error::TdsError;

/// Bytes read from the socket at once: several packets or records per system call.
const READ_BYTES: usize = 64 * 1024;
/// Time for which a silent server is waited for before the stop request is checked again.
const LOOK_UP: Duration = Duration::from_millis(500);
const CONNECT: Duration = Duration::from_secs(10);

/// A connection's bytes.
pub(crate) struct Channel {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// Bytes as received; empty while the connection rests.
    raw: Vec<u8>,
    /// Bytes as decrypted.
    plain: Vec<u8>,
    /// Number of bytes received, as encrypted.
    pub(crate) received: u64,
    /// Time after which a silent server is given up.
    pub(crate) patience: Duration,
    address: IpAddr,
    /// Returns true if the caller asks to stop.
    stopped: fn() -> bool,
}

impl Channel {
    pub(crate) fn connect(
        (host, port): (&str, u16),
        patience: Duration,
        stopped: fn() -> bool,
    ) -> Result<Self, TdsError> {
        let server = format!("{host}:{port}");
        let lost = |source| TdsError::Connect { server: server.clone(), source };
        let mut last = std::io::Error::from(ErrorKind::NotFound);
        for address in (host, port).to_socket_addrs().map_err(lost)? {
            check(stopped)?;
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(lost)?;
                    stream.set_read_timeout(Some(LOOK_UP)).map_err(lost)?;
                    stream.set_write_timeout(Some(CONNECT)).map_err(lost)?;
                    return Ok(Self {
                        stream,
                        tls: None,
                        raw: Vec::new(),
                        plain: Vec::new(),
                        received: 0,
                        patience,
                        address: address.ip(),
                        stopped,
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(TdsError::Connect { server, source: last })
    }

    /// Returns the server's address.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Sends everything through TLS from now on, or nothing if it is `None`.
    pub(crate) fn set_tls(&mut self, tls: Option<Box<ClientConnection>>) {
        self.tls = tls;
    }

    pub(crate) fn tls(&self) -> Option<&ClientConnection> {
        self.tls.as_deref()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), TdsError> {
        let Some(tls) = &mut self.tls else {
            return self.stream.write_all(bytes).map_err(lost);
        };
        tls.writer().write_all(bytes).map_err(lost)?;
        flush(tls, &mut self.stream)
    }

    /// Performs a handshake for TLS before everything else.
    pub(crate) fn handshake(&mut self, mut tls: Box<ClientConnection>) -> Result<(), TdsError> {
        while tls.is_handshaking() {
            flush(&mut tls, &mut self.stream)?;
            if !tls.is_handshaking() {
                break;
            }
            let count = self.receive()?;
            let mut rest = &self.raw[..count];
            while !rest.is_empty() {
                tls.read_tls(&mut rest).map_err(lost)?;
                if let Err(error) = tls.process_new_packets() {
                    // The server is told the reason; it may be gone already.
                    let _told = flush(&mut tls, &mut self.stream);
                    return Err(error.into());
                }
            }
        }
        flush(&mut tls, &mut self.stream)?;
        self.tls = Some(tls);
        Ok(())
    }

    /// Returns the next bytes of the server; never empty.
    ///
    /// # Errors
    /// If the connection ended, or was silent for too long.
    pub(crate) fn next(&mut self) -> Result<&[u8], TdsError> {
        self.plain.clear();
        loop {
            let count = self.receive()?;
            let Some(tls) = &mut self.tls else { return Ok(&self.raw[..count]) };
            let mut rest = &self.raw[..count];
            while !rest.is_empty() {
                tls.read_tls(&mut rest).map_err(lost)?;
                let state = tls.process_new_packets()?;
                let ready = state.plaintext_bytes_to_read();
                let at = self.plain.len();
                self.plain.resize(at + ready, 0);
                tls.reader().read_exact(&mut self.plain[at..]).map_err(lost)?;
            }
            if !self.plain.is_empty() {
                return Ok(&self.plain);
            }
        }
    }

    /// Frees the buffers until the next answer.
    pub(crate) fn rest(&mut self) {
        self.raw = Vec::new();
        self.plain = Vec::new();
    }

    fn receive(&mut self) -> Result<usize, TdsError> {
        if self.raw.is_empty() {
            self.raw = vec![0; READ_BYTES];
        }
        let began = Instant::now();
        loop {
            match self.stream.read(&mut self.raw) {
                Ok(0) => return Err(lost(ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    self.received += count as u64;
                    return Ok(count);
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    check(self.stopped)?;
                    if began.elapsed() > self.patience {
                        return Err(lost(ErrorKind::TimedOut.into()));
                    }
                }
                Err(error) => return Err(lost(error)),
            }
        }
    }
}

fn flush(tls: &mut ClientConnection, stream: &mut TcpStream) -> Result<(), TdsError> {
    while tls.wants_write() {
        tls.write_tls(stream).map_err(lost)?;
    }
    Ok(())
}

fn check(stopped: fn() -> bool) -> Result<(), TdsError> {
    if stopped() { Err(TdsError::Stopped) } else { Ok(()) }
}

fn lost(source: std::io::Error) -> TdsError {
    TdsError::ConnectionLost { source }
}
