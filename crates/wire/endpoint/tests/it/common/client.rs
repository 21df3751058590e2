//! A client that talks to a server byte by byte.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustls::ClientConnection;
use tdekit_tds_client::{Offer, TdsError, Trust, handshake_within};
use tdekit_wire_tds::Value;
use tdekit_wire_tds::answer::{Token, decode_answer};
use tdekit_wire_tds::login::{Login, TDS_7_4, TDS_8_0};
use tdekit_wire_tds::packet::{Assembler, PacketKind, PacketStatus, Packetizer, Taken};
use tdekit_wire_tds::prelogin::{Encryption, answered_encryption, encode_client};

pub(crate) fn tls_client(
    versions: &[&'static rustls::SupportedProtocolVersion],
    alpn: &[&[u8]],
) -> ClientConnection {
    Offer::new("localhost", &Trust::Anyone, versions, alpn).unwrap().client().unwrap()
}

pub(crate) const BOTH: &[&rustls::SupportedProtocolVersion] =
    &[&rustls::version::TLS13, &rustls::version::TLS12];

/// A client.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) tls: Option<ClientConnection>,
    pub(crate) packet_bytes: u16,
    incoming: Vec<u8>,
}

/// An answer as read by the client.
#[derive(Debug)]
pub(crate) struct Answer(pub(crate) Vec<Token>);

impl Answer {
    pub(crate) fn rows(&self) -> usize {
        self.0.iter().filter(|token| matches!(token, Token::Row(_))).count()
    }

    pub(crate) fn errors(&self) -> Vec<i32> {
        let error = |token: &Token| match token {
            Token::Message(message) if message.is_error() => Some(message.number),
            _ => None,
        };
        self.0.iter().filter_map(error).collect()
    }

    /// Returns the values of all rows.
    pub(crate) fn values(&self) -> Vec<Vec<Value<'static>>> {
        let values = |token: &Token| match token {
            Token::Row(values) => Some(values.clone()),
            _ => None,
        };
        self.0.iter().filter_map(values).collect()
    }

    /// Returns the status of the last token, which is a DONE.
    pub(crate) fn status(&self) -> u16 {
        match self.0.last() {
            Some(Token::Done { status, .. }) => status.0,
            other => panic!("no DONE at the end: {other:?}"),
        }
    }
}

pub(crate) fn login_of(user: &str, password: &str, database: &str) -> Login {
    Login {
        version: TDS_7_4,
        packet_bytes: 4096,
        host: "host".into(),
        user: user.into(),
        password: zeroize::Zeroizing::new(password.into()),
        application: "test".into(),
        server: "localhost".into(),
        library: "test".into(),
        language: String::new(),
        database: database.into(),
        integrated: false,
        change_password: false,
        features: Vec::new(),
    }
}

impl Client {
    pub(crate) fn connect_to(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        // Ends a test that waits for something that never comes.
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client { stream, tls: None, packet_bytes: 4096, incoming: Vec::new() }
    }

    /// Logs in, encrypted as requested; returns the server's answer.
    pub(crate) fn enter(&mut self, login: &Login, encryption: Encryption) -> Answer {
        let answered = self.prelogin(encryption).unwrap();
        let both = encryption != Encryption::NotSupported && answered != Encryption::NotSupported;
        if both {
            self.wrapped_handshake(tls_client(BOTH, &[])).unwrap();
        }
        self.send(PacketKind::Login, &login.encode());
        if encryption == Encryption::Off && answered == Encryption::Off {
            self.tls = None;
        }
        self.answer()
    }

    /// As [`Client::enter`], with TLS before everything else.
    pub(crate) fn enter_strictly(&mut self, login: Login, tls: ClientConnection) -> Answer {
        self.strict(tls).unwrap();
        assert_ne!(self.prelogin(Encryption::Required), Some(Encryption::Off));
        self.send(PacketKind::Login, &Login { version: TDS_8_0, ..login }.encode());
        self.answer()
    }

    pub(crate) fn prelogin(&mut self, encryption: Encryption) -> Option<Encryption> {
        self.send(PacketKind::PreLogin, &encode_client(encryption));
        self.message().and_then(|payload| answered_encryption(&payload))
    }

    pub(crate) fn wrapped_handshake(&mut self, mut tls: ClientConnection) -> Result<(), String> {
        handshake_within(&mut tls, |records| {
            if let Some(records) = records {
                self.send(PacketKind::PreLogin, records);
                return Ok(Vec::new());
            }
            let closed = || TdsError::Protocol { what: "closed".to_owned() };
            self.message().ok_or_else(closed)
        })
        .map_err(|error| error.to_string())?;
        self.tls = Some(tls);
        Ok(())
    }

    /// Starts TLS before everything else.
    pub(crate) fn strict(&mut self, mut tls: ClientConnection) -> Result<(), String> {
        while tls.is_handshaking() {
            tls.complete_io(&mut self.stream).map_err(|error| error.to_string())?;
        }
        self.tls = Some(tls);
        Ok(())
    }

    pub(crate) fn send(&mut self, kind: PacketKind, payload: &[u8]) {
        let framed = self.framed(kind, payload);
        self.send_bytes(&framed);
    }

    pub(crate) fn framed(&self, kind: PacketKind, payload: &[u8]) -> Vec<u8> {
        let mut framed = Vec::new();
        Packetizer::new(kind, 0, self.packet_bytes).put_all(&mut framed, payload, true);
        framed
    }

    /// As [`Client::send`], with bits in the status of the first packet.
    pub(crate) fn send_with(&mut self, kind: PacketKind, payload: &[u8], status: PacketStatus) {
        let mut framed = self.framed(kind, payload);
        framed[1] |= status.0;
        self.send_bytes(&framed);
    }

    /// Sends, whether or not the server still listens.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        match &mut self.tls {
            Some(tls) => {
                tls.writer().write_all(bytes).unwrap();
                while tls.wants_write() {
                    if tls.write_tls(&mut self.stream).is_err() {
                        return;
                    }
                }
            }
            None => {
                let _gone = self.stream.write_all(bytes);
            }
        }
    }

    /// Returns the next message, or `None` if the server has closed.
    pub(crate) fn message(&mut self) -> Option<Vec<u8>> {
        let mut assembler = Assembler::new(1 << 30);
        loop {
            let (length, taken) = assembler.take(&self.incoming).unwrap();
            self.incoming.drain(..length);
            match taken {
                Taken::Whole(request) => return Some(request.payload),
                Taken::Part => {}
                Taken::Ignored => panic!("an answer taken back"),
                Taken::Nothing => {
                    if !self.read_some() {
                        return None;
                    }
                }
            }
        }
    }

    fn read_some(&mut self) -> bool {
        let mut bytes = [0; 65536];
        let Some(tls) = &mut self.tls else {
            return match self.stream.read(&mut bytes) {
                Ok(0) | Err(_) => false,
                Ok(length) => {
                    self.incoming.extend_from_slice(&bytes[..length]);
                    true
                }
            };
        };
        match tls.read_tls(&mut self.stream) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        let Ok(state) = tls.process_new_packets() else { return false };
        let mut plain = vec![0; state.plaintext_bytes_to_read()];
        tls.reader().read_exact(&mut plain).unwrap();
        self.incoming.extend_from_slice(&plain);
        !(plain.is_empty() && state.peer_has_closed())
    }

    pub(crate) fn answer(&mut self) -> Answer {
        let payload = self.message().expect("an answer");
        Answer(decode_answer(&payload).unwrap())
    }

    pub(crate) fn batch(&mut self, text: &str) -> Answer {
        self.send(PacketKind::Batch, &tdekit_wire_tds::request::encode_batch(text));
        self.answer()
    }

    pub(crate) fn attention(&mut self) {
        self.send(PacketKind::Attention, &[]);
    }
}
