//! A connection: how it begins, and batches on it.

use std::net::IpAddr;
use std::time::Duration;

use rustls::ClientConnection;
use zeroize::Zeroizing;

use super::DEFAULT_PACKET_BYTES;
use super::channel::Channel;
use super::drain::Drain;
use super::frames::{
    BATCH, ENCRYPT_NOT_SUPPORTED, ENCRYPT_OFF, ENCRYPT_ON, ENCRYPT_REQUIRED, LOGIN, LoginFrame,
    PRELOGIN, TDS_7_4, TDS_8_0, answered_encryption, batch, packets, prelogin,
};
use super::tls::{self, Negotiated, Trust};
use super::tokens::{Final, final_done, opening};
use crate::error::BenchError;
use tdekit_cost_report::MessagesMode;

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

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// A server that is not there, that does not encrypt as asked for or is not trusted, or that
    /// refuses the login.
    pub(in crate::messages) fn open(login: &Login, mode: MessagesMode) -> Result<Self, BenchError> {
        let channel = Channel::connect(&login.host, login.port, LOGIN_PATIENCE)?;
        let mut connection = Self {
            channel,
            most_packet_bytes: DEFAULT_PACKET_BYTES.max(login.packet_bytes),
            packet_bytes: DEFAULT_PACKET_BYTES,
            server: String::new(),
            negotiated: None,
        };
        let login_only = connection.begin(login, mode)?;
        let frame = LoginFrame {
            version: if mode == MessagesMode::Strict { TDS_8_0 } else { TDS_7_4 },
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

    /// Until the login can be sent; true when only the login is to be encrypted.
    fn begin(&mut self, login: &Login, mode: MessagesMode) -> Result<bool, BenchError> {
        if mode == MessagesMode::Strict {
            let tls = tls::client(&login.host, &login.trust, true)?;
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
                self.wrapped_handshake(login)?;
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
                self.wrapped_handshake(login)?;
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
    fn wrapped_handshake(&mut self, login: &Login) -> Result<(), BenchError> {
        let mut tls = Box::new(tls::client(&login.host, &login.trust, false)?);
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
        self.channel.send(&packets(BATCH, &batch(text), self.packet_bytes))?;
        let received = self.channel.received;
        let mut drain = Drain::new(self.most_packet_bytes);
        while !drain.take(self.channel.next()?)? {}
        let Final { rows } = final_done(drain.tail())?;
        let tail = drain.tail();
        let before = tail.len().checked_sub(super::tokens::DONE_BYTES);
        let last_int = before
            .and_then(|at| tail.get(..at)?.last_chunk::<4>())
            .map(|bytes| i32::from_le_bytes(*bytes));
        Ok(Drained {
            packets: drain.packets,
            bytes: drain.bytes,
            wire_bytes: self.channel.received - received,
            rows,
            last_int,
        })
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
