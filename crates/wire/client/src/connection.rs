//! A connection: its start, and batches on it.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use rustls::ClientConnection;
use zeroize::Zeroizing;

use crate::calls;
use crate::channel::Channel;
use crate::drain::Drain;
use crate::error::TdsError;
use crate::frames::{
    BATCH, ENCRYPT_NOT_SUPPORTED, ENCRYPT_OFF, ENCRYPT_ON, ENCRYPT_REQUIRED, HEADER_BYTES, LOGIN,
    LoginFrame, PRELOGIN, RPC, TDS_7_4, TDS_8_0, answered_encryption, batch, packets, prelogin,
};
use crate::table::{Answer, answer};
use crate::tls::{Negotiated, Offer, Trust, handshake_within};
use crate::tokens::{DONE_BYTES, Final, call_end, final_done, opening};
use crate::{DEFAULT_PACKET_BYTES, Mode};

/// A login may take the server some time: its password hash is slow on purpose.
const LOGIN_PATIENCE: Duration = Duration::from_secs(30);
/// A batch may compute for long before its first full packet.
const BATCH_PATIENCE: Duration = Duration::from_secs(300);

/// Server and credentials of a connection.
#[derive(Clone)]
pub struct Login {
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The login's name.
    pub user: String,
    /// Its password.
    pub password: Zeroizing<String>,
    /// Database; empty for the login's default.
    pub database: String,
    /// Certificates that are accepted.
    pub trust: Trust,
    /// Requested packet size.
    pub packet_bytes: u16,
    /// Returns true to give up; checked while waiting for the server.
    pub stopped: fn() -> bool,
}

/// An answer that was drained.
#[derive(Debug, Clone, Copy)]
pub struct Drained {
    /// Packets of the answer.
    pub packets: u64,
    /// Total length with the packets' headers, before encryption.
    pub bytes: u64,
    /// Total length as received.
    pub wire_bytes: u64,
    /// Row count of the last statement.
    pub rows: Option<u64>,
    /// The four bytes before the final DONE, little-endian: an INT that is the last value of the
    /// last row.
    pub last_int: Option<i32>,
    /// For a call: row count of its last statement, and the INT that is the last value of the last
    /// row.
    pub call: Option<(u64, i32)>,
}

impl Drained {
    /// Returns the bytes after the packets' headers.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.packets.saturating_mul(HEADER_BYTES as u64))
    }
}

/// Opens connections of one kind to one server, from any number of threads.
pub struct Dialer {
    login: Login,
    mode: Mode,
    /// Made when it is first needed: a server without TLS needs none.
    offer: OnceLock<Offer>,
}

/// A logged-in connection.
pub struct Connection {
    channel: Channel,
    /// Maximum length of a packet from the server.
    most_packet_bytes: u16,
    packet_bytes: u16,
    server: String,
    negotiated: Option<Negotiated>,
}

impl Dialer {
    /// Makes a dialer; does not connect yet.
    #[must_use]
    pub fn new(login: Login, mode: Mode) -> Self {
        Self { login, mode, offer: OnceLock::new() }
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// If the server does not exist, does not encrypt as requested or is not trusted, or refuses
    /// the login.
    pub fn open(&self) -> Result<Connection, TdsError> {
        let Self { login, mode, .. } = self;
        let channel = Channel::connect((&login.host, login.port), LOGIN_PATIENCE, login.stopped)?;
        let mut connection = Connection {
            channel,
            most_packet_bytes: DEFAULT_PACKET_BYTES.max(login.packet_bytes),
            packet_bytes: DEFAULT_PACKET_BYTES,
            server: String::new(),
            negotiated: None,
        };
        let login_only = connection.begin(self)?;
        let frame = LoginFrame {
            version: if *mode == Mode::Strict { TDS_8_0 } else { TDS_7_4 },
            packet_bytes: login.packet_bytes,
            user: &login.user,
            password: &login.password,
            server: &login.host,
            database: &login.database,
        };
        let framed = packets(LOGIN, &frame.encode()?, DEFAULT_PACKET_BYTES);
        connection.channel.send(&framed)?;
        if login_only {
            connection.channel.set_tls(None);
        }
        let payload = connection.answer()?;
        let found = opening(&payload)?;
        final_done(&payload)?;
        let Some(server) = found.login else {
            return Err(protocol("the answer to a login accepts it not"));
        };
        connection.server = server;
        if let Some(bytes) = found.packet_bytes {
            connection.packet_bytes = bytes;
            connection.most_packet_bytes = connection.most_packet_bytes.max(bytes);
        }
        connection.channel.patience = BATCH_PATIENCE;
        Ok(connection)
    }

    /// Returns server and credentials.
    #[must_use]
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// Returns the kind of its connections.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    fn tls(&self) -> Result<ClientConnection, TdsError> {
        if let Some(offer) = self.offer.get() {
            return offer.client();
        }
        let strict = self.mode == Mode::Strict;
        let made = Offer::usual(&self.login.host, &self.login.trust, strict)?;
        // Another thread may have been first; its offer is the same.
        self.offer.get_or_init(|| made).client()
    }
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// As [`Dialer::open`].
    pub fn open(login: &Login, mode: Mode) -> Result<Self, TdsError> {
        Dialer::new(login.clone(), mode).open()
    }

    /// Does everything up to the login; returns true if only the login is to be encrypted.
    fn begin(&mut self, dialer: &Dialer) -> Result<bool, TdsError> {
        let Dialer { login, mode, .. } = dialer;
        let mode = *mode;
        if mode == Mode::Strict {
            let tls = dialer.tls()?;
            self.channel.handshake(Box::new(tls)).map_err(|error| refused_tls(error, mode))?;
            // The negotiated parameters are read while the channel still has TLS.
            self.negotiated = self.channel_tls();
            self.exchange_prelogin(ENCRYPT_REQUIRED)?;
            return Ok(false);
        }
        let wanted = if mode == Mode::Off { ENCRYPT_OFF } else { ENCRYPT_ON };
        let answered = self.exchange_prelogin(wanted)?;
        match (mode, answered) {
            (Mode::Off, ENCRYPT_OFF) => {
                self.wrapped_handshake(dialer)?;
                self.negotiated = None;
                Ok(true)
            }
            (Mode::Off, ENCRYPT_NOT_SUPPORTED) => {
                let near = self.channel.address().is_loopback();
                if near || login.trust == Trust::Anyone {
                    return Ok(false);
                }
                Err(TdsError::Encryption {
                    mode: mode.name(),
                    reason: "the server has no TLS, so the password would be seen; --trust sends \
                             it all the same",
                })
            }
            (Mode::Off, _) => Err(TdsError::Encryption {
                mode: mode.name(),
                reason: "the server encrypts every connection, so there is no plain one",
            }),
            (_, ENCRYPT_ON | ENCRYPT_REQUIRED) => {
                self.wrapped_handshake(dialer)?;
                Ok(false)
            }
            _ => Err(TdsError::Encryption {
                mode: mode.name(),
                reason: "the server does not encrypt",
            }),
        }
    }

    fn channel_tls(&self) -> Option<Negotiated> {
        self.channel.tls().and_then(Negotiated::of)
    }

    fn exchange_prelogin(&mut self, encryption: u8) -> Result<u8, TdsError> {
        self.channel.send(&packets(PRELOGIN, &prelogin(encryption), DEFAULT_PACKET_BYTES))?;
        answered_encryption(&self.answer()?)
    }

    /// Performs a handshake whose records are sent in packets of PRELOGIN, both ways.
    fn wrapped_handshake(&mut self, dialer: &Dialer) -> Result<(), TdsError> {
        let mut tls = Box::new(dialer.tls()?);
        handshake_within(&mut tls, |records| {
            if let Some(records) = records {
                self.channel.send(&packets(PRELOGIN, records, DEFAULT_PACKET_BYTES))?;
                return Ok(Vec::new());
            }
            self.answer()
        })?;
        self.negotiated = Negotiated::of(&tls);
        self.channel.set_tls(Some(tls));
        Ok(())
    }

    /// Returns a whole answer; for short ones.
    fn answer(&mut self) -> Result<Vec<u8>, TdsError> {
        let mut drain = Drain::keeping(self.most_packet_bytes);
        while !drain.take(self.channel.next()?)? {}
        Ok(drain.into_payload())
    }

    /// Runs a batch with a short answer; returns the number of messages before its first result.
    ///
    /// # Errors
    /// The server's error, with its text.
    pub fn ask(&mut self, text: &str) -> Result<u64, TdsError> {
        self.channel.send(&packets(BATCH, &batch(text), self.packet_bytes))?;
        let payload = self.answer()?;
        let found = opening(&payload)?;
        final_done(&payload)?;
        Ok(found.dones)
    }

    /// Runs a batch and reads its answer, which is short.
    ///
    /// # Errors
    /// The server's first error, with its text; columns of unsupported types.
    pub fn query(&mut self, text: &str) -> Result<Answer, TdsError> {
        self.channel.send(&packets(BATCH, &batch(text), self.packet_bytes))?;
        let payload = self.answer()?;
        let found = answer(&payload)?;
        final_done(&payload)?;
        Ok(found)
    }

    /// Sets the time after which a silent server is given up.
    pub fn set_patience(&mut self, patience: Duration) {
        self.channel.patience = patience;
    }

    /// Runs a batch and drains its answer.
    ///
    /// # Errors
    /// If the answer ends with an error.
    pub fn drain(&mut self, text: &str) -> Result<Drained, TdsError> {
        self.exchange(BATCH, &batch(text))
    }

    /// Prepares a statement; returns its number.
    ///
    /// # Errors
    /// The server's error, with its text.
    pub fn prepare(&mut self, declarations: &str, text: &str) -> Result<i32, TdsError> {
        let call = calls::prepare(declarations, text);
        self.channel.send(&packets(RPC, &call, self.packet_bytes))?;
        let payload = self.answer()?;
        opening(&payload)?;
        final_done(&payload)?;
        last_int(&payload).ok_or_else(|| protocol("sp_prepare gives no number"))
    }

    /// Runs a prepared statement with one INT parameter, once for each value, all in one message.
    /// `message` is a buffer for it.
    ///
    /// # Errors
    /// If the answer ends with an error.
    pub fn execute(
        &mut self,
        message: &mut Vec<u8>,
        handle: i32,
        values: &[i32],
    ) -> Result<Drained, TdsError> {
        calls::execute(message, handle, values);
        self.exchange(RPC, message)
    }

    fn exchange(&mut self, kind: u8, payload: &[u8]) -> Result<Drained, TdsError> {
        self.channel.send(&packets(kind, payload, self.packet_bytes))?;
        let received = self.channel.received;
        let mut drain = Drain::new(self.most_packet_bytes);
        while !drain.take(self.channel.next()?)? {}
        let Final { rows } = final_done(drain.tail())?;
        Ok(Drained {
            packets: drain.packets,
            bytes: drain.bytes,
            wire_bytes: self.channel.received - received,
            rows,
            last_int: last_int(drain.tail()),
            call: call_end(drain.tail()),
        })
    }

    /// Frees the connection's buffers until it is used again.
    pub fn rest(&mut self) {
        self.channel.rest();
    }

    /// Returns the server's program and version.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.channel.address()
    }

    /// Returns the encryption of the batches; `None` for plain.
    #[must_use]
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.as_ref()
    }

    /// Returns the negotiated packet size.
    #[must_use]
    pub fn packet_bytes(&self) -> u16 {
        self.packet_bytes
    }
}

/// Returns the four bytes before the final DONE.
fn last_int(tail: &[u8]) -> Option<i32> {
    let before = tail.len().checked_sub(DONE_BYTES)?;
    Some(i32::from_le_bytes(*tail.get(..before)?.last_chunk::<4>()?))
}

/// A server without TDS 8.0 hangs up on its first byte.
fn refused_tls(error: TdsError, mode: Mode) -> TdsError {
    match error {
        TdsError::ConnectionLost { .. } => TdsError::Encryption {
            mode: mode.name(),
            reason: "the server hung up: it may not speak TDS 8.0",
        },
        other => other,
    }
}

fn protocol(what: &str) -> TdsError {
    TdsError::Protocol { what: what.to_owned() }
}
