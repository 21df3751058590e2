//! A connection: how it begins, and batches on it.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use rustls::ClientConnection;
use zeroize::Zeroizing;

use super::DEFAULT_PACKET_BYTES;
use super::calls;
use super::channel::Channel;
use super::drain::Drain;
use super::frames::{
    BATCH, ENCRYPT_NOT_SUPPORTED, ENCRYPT_OFF, ENCRYPT_ON, ENCRYPT_REQUIRED, HEADER_BYTES, LOGIN,
    LoginFrame, PRELOGIN, RPC, TDS_7_4, TDS_8_0, answered_encryption, batch, packets, prelogin,
};
use super::tls::{Negotiated, Offer, Trust};
use super::tokens::{DONE_BYTES, Final, call_end, final_done, opening};
use crate::error::BenchError;
use tdekit_bench_report::MessagesMode;

/// The most round trips of a handshake within PRELOGIN.
const MOST_ROUNDS: usize = 16;
/// A login may make the server think: its password hash is slow on purpose.
const LOGIN_PATIENCE: Duration = Duration::from_secs(30);
/// A batch may compute for long before its first full packet.
const BATCH_PATIENCE: Duration = Duration::from_secs(300);

/// Where to go, and as whom.
#[derive(Clone)]
pub(in crate::messages) struct Login {
    pub(in crate::messages) host: String,
    pub(in crate::messages) port: u16,
    pub(in crate::messages) user: String,
    pub(in crate::messages) password: Zeroizing<String>,
    pub(in crate::messages) database: String,
    pub(in crate::messages) trust: Trust,
    /// The packet size to ask for.
    pub(in crate::messages) packet_bytes: u16,
}

/// An answer that was drained.
#[derive(Debug, Clone, Copy)]
pub(in crate::messages) struct Drained {
    pub(in crate::messages) packets: u64,
    /// With the packets' headers, before encryption.
    pub(in crate::messages) bytes: u64,
    /// As received.
    pub(in crate::messages) wire_bytes: u64,
    /// Rows that the last statement counted.
    pub(in crate::messages) rows: Option<u64>,
    /// The four bytes before the final DONE, little-endian: an INT that is the last value of the
    /// last row.
    pub(in crate::messages) last_int: Option<i32>,
    /// Of a call: rows of its last statement, and the INT that is the last value of the last row.
    pub(in crate::messages) call: Option<(u64, i32)>,
}

impl Drained {
    /// Bytes behind the packets' headers.
    pub(in crate::messages) fn payload_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.packets.saturating_mul(HEADER_BYTES as u64))
    }
}

/// Opens connections of one kind to one server, from any number of threads.
pub(in crate::messages) struct Dialer {
    login: Login,
    mode: MessagesMode,
    /// Made when it is first needed: a server without TLS asks for none.
    offer: OnceLock<Offer>,
}

/// A logged-in connection.
pub(in crate::messages) struct Connection {
    channel: Channel,
    /// The longest packet that the server may send.
    most_packet_bytes: u16,
    packet_bytes: u16,
    server: String,
    negotiated: Option<Negotiated>,
}

impl Dialer {
    pub(in crate::messages) fn new(login: Login, mode: MessagesMode) -> Self {
        Self { login, mode, offer: OnceLock::new() }
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// A server that is not there, that does not encrypt as asked for or is not trusted, or that
    /// refuses the login.
    pub(in crate::messages) fn open(&self) -> Result<Connection, BenchError> {
        let Self { login, mode, .. } = self;
        let channel = Channel::connect(&login.host, login.port, LOGIN_PATIENCE)?;
        let mut connection = Connection {
            channel,
            most_packet_bytes: DEFAULT_PACKET_BYTES.max(login.packet_bytes),
            packet_bytes: DEFAULT_PACKET_BYTES,
            server: String::new(),
            negotiated: None,
        };
        let login_only = connection.begin(self)?;
        let frame = LoginFrame {
            version: if *mode == MessagesMode::Strict { TDS_8_0 } else { TDS_7_4 },
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
        let (payload, _) = connection.answer()?;
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

    /// Where it goes, and as whom.
    pub(in crate::messages) fn login(&self) -> &Login {
        &self.login
    }

    pub(in crate::messages) fn mode(&self) -> MessagesMode {
        self.mode
    }

    fn tls(&self) -> Result<ClientConnection, BenchError> {
        if let Some(offer) = self.offer.get() {
            return offer.client();
        }
        let strict = self.mode == MessagesMode::Strict;
        let made = Offer::new(&self.login.host, &self.login.trust, strict)?;
        // Another thread may have been first; its offer is the same.
        self.offer.get_or_init(|| made).client()
    }
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// As [`Dialer::open`].
    pub(in crate::messages) fn open(login: &Login, mode: MessagesMode) -> Result<Self, BenchError> {
        Dialer::new(login.clone(), mode).open()
    }

    /// Until the login can be sent; true when only the login is to be encrypted.
    fn begin(&mut self, dialer: &Dialer) -> Result<bool, BenchError> {
        let Dialer { login, mode, .. } = dialer;
        let mode = *mode;
        if mode == MessagesMode::Strict {
            let tls = dialer.tls()?;
            self.channel.handshake(Box::new(tls)).map_err(|error| refused_tls(error, mode))?;
            // What was agreed on is asked for while the channel holds it.
            self.negotiated = self.channel_tls();
            self.exchange_prelogin(ENCRYPT_REQUIRED)?;
            return Ok(false);
        }
        let wanted = if mode == MessagesMode::Off { ENCRYPT_OFF } else { ENCRYPT_ON };
        let answered = self.exchange_prelogin(wanted)?;
        match (mode, answered) {
            (MessagesMode::Off, ENCRYPT_OFF) => {
                self.wrapped_handshake(dialer)?;
                self.negotiated = None;
                Ok(true)
            }
            (MessagesMode::Off, ENCRYPT_NOT_SUPPORTED) => {
                let near = self.channel.address().is_loopback();
                if near || login.trust == Trust::Anyone {
                    return Ok(false);
                }
                Err(BenchError::Encryption {
                    mode: mode.name(),
                    reason: "the server has no TLS, so the password would be seen; --trust sends \
                             it all the same",
                })
            }
            (MessagesMode::Off, _) => Err(BenchError::Encryption {
                mode: mode.name(),
                reason: "the server encrypts every connection, so there is no plain one",
            }),
            (_, ENCRYPT_ON | ENCRYPT_REQUIRED) => {
                self.wrapped_handshake(dialer)?;
                Ok(false)
            }
            _ => Err(BenchError::Encryption {
                mode: mode.name(),
                reason: "the server does not encrypt",
            }),
        }
    }

    fn channel_tls(&self) -> Option<Negotiated> {
        self.channel.tls().and_then(Negotiated::of)
    }

    fn exchange_prelogin(&mut self, encryption: u8) -> Result<u8, BenchError> {
        self.channel.send(&packets(PRELOGIN, &prelogin(encryption), DEFAULT_PACKET_BYTES))?;
        answered_encryption(&self.answer()?.0)
    }

    /// A handshake whose records travel in packets of PRELOGIN, both ways.
    fn wrapped_handshake(&mut self, dialer: &Dialer) -> Result<(), BenchError> {
        let mut tls = Box::new(dialer.tls()?);
        for _ in 0..MOST_ROUNDS {
            let out = records(&mut tls)?;
            if !out.is_empty() {
                self.channel.send(&packets(PRELOGIN, &out, DEFAULT_PACKET_BYTES))?;
            }
            if !tls.is_handshaking() {
                self.negotiated = Negotiated::of(&tls);
                self.channel.set_tls(Some(tls));
                return Ok(());
            }
            let (payload, _) = self.answer()?;
            let mut rest = payload.as_slice();
            while !rest.is_empty() {
                tls.read_tls(&mut rest).map_err(|source| BenchError::ConnectionLost { source })?;
                if let Err(error) = tls.process_new_packets() {
                    let alert = records(&mut tls)?;
                    // The server is told why; it may be gone already.
                    let _told = self.channel.send(&packets(PRELOGIN, &alert, DEFAULT_PACKET_BYTES));
                    return Err(error.into());
                }
            }
        }
        Err(protocol("the TLS handshake does not end"))
    }

    /// A whole answer, kept; for short ones.
    fn answer(&mut self) -> Result<(Vec<u8>, u64), BenchError> {
        let mut drain = Drain::keeping(self.most_packet_bytes);
        while !drain.take(self.channel.next()?)? {}
        let packets = drain.packets;
        Ok((drain.into_payload(), packets))
    }

    /// Runs a batch whose answer is short; gives the messages before its first result.
    ///
    /// # Errors
    /// The server's error, with its text.
    pub(in crate::messages) fn ask(&mut self, text: &str) -> Result<u64, BenchError> {
        self.channel.send(&packets(BATCH, &batch(text), self.packet_bytes))?;
        let (payload, _) = self.answer()?;
        let found = opening(&payload)?;
        final_done(&payload)?;
        Ok(found.dones)
    }

    /// Runs a batch and drains its answer.
    ///
    /// # Errors
    /// An answer that does not end well.
    pub(in crate::messages) fn drain(&mut self, text: &str) -> Result<Drained, BenchError> {
        self.exchange(BATCH, &batch(text))
    }

    /// Prepares a statement; gives its number.
    ///
    /// # Errors
    /// The server's error, with its text.
    pub(in crate::messages) fn prepare(
        &mut self,
        declarations: &str,
        text: &str,
    ) -> Result<i32, BenchError> {
        let call = calls::prepare(declarations, text);
        self.channel.send(&packets(RPC, &call, self.packet_bytes))?;
        let (payload, _) = self.answer()?;
        opening(&payload)?;
        final_done(&payload)?;
        last_int(&payload).ok_or_else(|| protocol("sp_prepare gives no number"))
    }

    /// Runs a prepared statement with one INT parameter, once for each value, all in a message.
    /// `message` is room for it.
    ///
    /// # Errors
    /// An answer that does not end well.
    pub(in crate::messages) fn execute(
        &mut self,
        message: &mut Vec<u8>,
        handle: i32,
        values: &[i32],
    ) -> Result<Drained, BenchError> {
        calls::execute(message, handle, values);
        self.exchange(RPC, message)
    }

    fn exchange(&mut self, kind: u8, payload: &[u8]) -> Result<Drained, BenchError> {
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

    /// Lets go of the connection's buffers until it is used again.
    pub(in crate::messages) fn rest(&mut self) {
        self.channel.rest();
    }

    /// The server's program and version.
    pub(in crate::messages) fn server(&self) -> &str {
        &self.server
    }

    /// Where it is.
    pub(in crate::messages) fn address(&self) -> IpAddr {
        self.channel.address()
    }

    /// What encrypts the batches; none for plain.
    pub(in crate::messages) fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.as_ref()
    }

    /// The packet size as agreed.
    pub(in crate::messages) fn packet_bytes(&self) -> u16 {
        self.packet_bytes
    }
}

/// The four bytes before the final DONE.
fn last_int(tail: &[u8]) -> Option<i32> {
    let before = tail.len().checked_sub(DONE_BYTES)?;
    Some(i32::from_le_bytes(*tail.get(..before)?.last_chunk::<4>()?))
}

/// Everything that TLS wants to say.
fn records(tls: &mut ClientConnection) -> Result<Vec<u8>, BenchError> {
    let mut out = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut out).map_err(|source| BenchError::ConnectionLost { source })?;
    }
    Ok(out)
}

/// A server that knows no TDS 8.0 hangs up on its first byte.
fn refused_tls(error: BenchError, mode: MessagesMode) -> BenchError {
    match error {
        BenchError::ConnectionLost { .. } => BenchError::Encryption {
            mode: mode.name(),
            reason: "the server hung up: it may not speak TDS 8.0",
        },
        other => other,
    }
}

fn protocol(what: &str) -> BenchError {
    BenchError::Protocol { what: what.to_owned() }
}
