//! A scripted server for tests, and the client's tests against it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use zeroize::Zeroizing;

use crate::error::TdsError;
use crate::frames::{
    ENCRYPT_NOT_SUPPORTED, ENCRYPT_OFF, ENCRYPT_ON, ENCRYPT_REQUIRED, PRELOGIN, RESPONSE, packets,
    prelogin,
};
use crate::{Connection, Login, Mode, Trust};

/// A self-signed certificate for `localhost` and 127.0.0.1, for tests only.
const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/double/cert.pem");
const KEY: &[u8] = include_bytes!("double/key.pem");

pub(crate) fn done(status: u16, rows: u64) -> Vec<u8> {
    let mut out = vec![0xFD];
    out.extend(status.to_le_bytes());
    out.extend([0xC1, 0]);
    out.extend(rows.to_le_bytes());
    out
}

fn sized(token: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![token];
    out.extend(u16::try_from(body.len()).unwrap().to_le_bytes());
    out.extend(body);
    out
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

pub(crate) fn login_ack(name: &str) -> Vec<u8> {
    let mut body = vec![1, 0x74, 0, 0, 4, u8::try_from(name.len()).unwrap()];
    body.extend(wide(name));
    body.extend([16, 0, 0x03, 0xE8]);
    sized(0xAD, &body)
}

pub(crate) fn env_packet_size(size: &str) -> Vec<u8> {
    let mut body = vec![4, u8::try_from(size.len()).unwrap()];
    body.extend(wide(size));
    body.extend([4]);
    body.extend(wide("4096"));
    sized(0xE3, &body)
}

pub(crate) fn error_token(number: i32, text: &str) -> Vec<u8> {
    let mut body = number.to_le_bytes().to_vec();
    body.extend([1, 16]);
    body.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
    body.extend(wide(text));
    body.extend([0, 0, 1, 0, 0, 0]);
    sized(0xAA, &body)
}

/// The double's script.
struct Script {
    /// Answer to PRELOGIN.
    encryption: u8,
    strict: bool,
    /// Answers to the login and to each batch, with their packets' headers.
    answers: Vec<Vec<u8>>,
    /// Number of bytes per write.
    piece: usize,
}

struct Peer {
    stream: TcpStream,
    tls: Option<ServerConnection>,
}

impl Peer {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<()> {
        match &mut self.tls {
            Some(tls) => rustls::Stream::new(tls, &mut self.stream).read_exact(bytes),
            None => self.stream.read_exact(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8], piece: usize) -> std::io::Result<()> {
        for part in bytes.chunks(piece) {
            match &mut self.tls {
                Some(tls) => rustls::Stream::new(tls, &mut self.stream).write_all(part)?,
                None => self.stream.write_all(part)?,
            }
        }
        Ok(())
    }

    /// Reads a message's payload.
    fn message(&mut self) -> std::io::Result<Vec<u8>> {
        let mut payload = Vec::new();
        loop {
            let mut header = [0; 8];
            self.read(&mut header)?;
            let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
            let mut part = vec![0; length - 8];
            self.read(&mut part)?;
            payload.extend(part);
            if header[1] & 1 != 0 {
                return Ok(payload);
            }
        }
    }

    fn wrapped_handshake(&mut self) -> Result<ServerConnection, String> {
        let text = |error: std::io::Error| error.to_string();
        let mut tls = ServerConnection::new(server_config()).unwrap();
        while tls.is_handshaking() {
            let payload = self.message().map_err(text)?;
            let mut rest = payload.as_slice();
            while !rest.is_empty() {
                tls.read_tls(&mut rest).map_err(text)?;
                tls.process_new_packets().map_err(|error| error.to_string())?;
            }
            let mut out = Vec::new();
            while tls.wants_write() {
                tls.write_tls(&mut out).map_err(text)?;
            }
            if !out.is_empty() {
                self.write(&packets(PRELOGIN, &out, 4096), 4096).map_err(text)?;
            }
        }
        Ok(tls)
    }
}

fn server_config() -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let chain = vec![CertificateDer::from_pem_file(CERTIFICATE).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    Arc::new(config)
}

/// Serves one connection; its result describes the connection's end, for tests that need it.
fn serve(script: Script) -> (u16, JoinHandle<Result<(), String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let text = |error: std::io::Error| error.to_string();
        let (stream, _) = listener.accept().map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).map_err(text)?;
        let mut peer = Peer { stream, tls: None };
        if script.strict {
            peer.tls = Some(ServerConnection::new(server_config()).unwrap());
        }
        peer.message().map_err(text)?;
        let answer = packets(RESPONSE, &prelogin(script.encryption), 4096);
        peer.write(&answer, script.piece).map_err(text)?;
        if !script.strict && script.encryption != ENCRYPT_NOT_SUPPORTED {
            peer.tls = Some(peer.wrapped_handshake()?);
        }
        for (number, answer) in script.answers.iter().enumerate() {
            peer.message().map_err(text)?;
            if number == 0 && script.encryption == ENCRYPT_OFF {
                peer.tls = None;
            }
            peer.write(answer, script.piece).map_err(text)?;
        }
        Ok(())
    });
    (port, thread)
}

fn accepted() -> Vec<u8> {
    let mut payload = login_ack("double");
    payload.extend(env_packet_size("512"));
    payload.extend(done(0, 0));
    packets(RESPONSE, &payload, 4096).to_vec()
}

/// Makes an answer with some messages, a result with a token that the client does not know, and its
/// last value.
fn batch_answer(last: i32) -> Vec<u8> {
    let mut payload: Vec<u8> = (0..100).flat_map(|_| done(0x01, 0)).collect();
    payload.extend([0x81, 9, 9, 9]);
    payload.extend(last.to_le_bytes());
    payload.extend(done(0x10, 1));
    packets(RESPONSE, &payload, 512).to_vec()
}

fn login(port: u16, trust: Trust) -> Login {
    Login {
        host: "127.0.0.1".to_owned(),
        port,
        user: "sa".to_owned(),
        password: Zeroizing::new("secret".to_owned()),
        database: String::new(),
        trust,
        packet_bytes: 512,
        stopped: || false,
    }
}

const MODES: [(Mode, u8, bool); 4] = [
    (Mode::Off, ENCRYPT_NOT_SUPPORTED, false),
    (Mode::Off, ENCRYPT_OFF, false),
    (Mode::On, ENCRYPT_REQUIRED, false),
    (Mode::Strict, ENCRYPT_ON, true),
];

#[test]
fn every_mode_drains_the_same_answer_however_it_is_split() {
    for (mode, encryption, strict) in MODES {
        for piece in [1, 7, 500, 100_000] {
            let answers = vec![accepted(), batch_answer(77), batch_answer(78)];
            let (port, thread) = serve(Script { encryption, strict, answers, piece });
            let trust = Trust::File(PathBuf::from(CERTIFICATE));
            let mut connection = Connection::open(&login(port, trust), mode).unwrap();
            assert_eq!(connection.server(), "double 16.0.1000");
            assert_eq!(connection.packet_bytes(), 512);
            assert_eq!(connection.ask("SELECT 1").unwrap(), 100);
            let found = connection.drain("SELECT 1").unwrap();
            let sent = batch_answer(78).len() as u64;
            assert_eq!((found.packets, found.bytes, found.rows), (3, sent, Some(1)));
            assert_eq!(found.last_int, Some(78));
            match connection.negotiated() {
                None => {
                    assert_eq!((mode, found.wire_bytes), (Mode::Off, sent));
                }
                Some(tls) => {
                    let protocol = if strict { "TLSv1.3" } else { "TLSv1.2" };
                    assert_eq!(tls.protocol, protocol);
                    assert!(tls.suite.contains("AES") || tls.suite.contains("CHACHA"), "{tls:?}");
                    assert!(found.wire_bytes > sent);
                }
            }
            drop(connection);
            thread.join().unwrap().unwrap();
        }
    }
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_unless_asked() {
    for (mode, encryption, strict) in [MODES[2], MODES[3], MODES[1]] {
        let script = || Script { encryption, strict, answers: vec![accepted()], piece: 4096 };
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("other.pem");
        std::fs::write(&other, "no certificate").unwrap();
        let (port, thread) = serve(script());
        let refused = Connection::open(&login(port, Trust::System), mode).err();
        assert!(
            matches!(refused, Some(TdsError::Tls(_) | TdsError::Authority { .. })),
            "{refused:?}"
        );
        assert!(thread.join().unwrap().is_err());
        let (port, thread) = serve(script());
        let refused = Connection::open(&login(port, Trust::File(other)), mode).err();
        assert!(matches!(refused, Some(TdsError::Authority { .. })));
        assert!(thread.join().unwrap().is_err());
        let (port, thread) = serve(script());
        drop(Connection::open(&login(port, Trust::Anyone), mode).unwrap());
        thread.join().unwrap().unwrap();
    }
}

#[test]
fn encryption_is_never_less_or_more_than_asked_for() {
    for (mode, encryption) in [
        (Mode::Off, ENCRYPT_ON),
        (Mode::Off, ENCRYPT_REQUIRED),
        (Mode::On, ENCRYPT_OFF),
        (Mode::On, ENCRYPT_NOT_SUPPORTED),
    ] {
        let script = Script { encryption, strict: false, answers: Vec::new(), piece: 4096 };
        let (port, thread) = serve(script);
        let refused = Connection::open(&login(port, Trust::Anyone), mode).err();
        assert!(matches!(refused, Some(TdsError::Encryption { .. })), "{encryption}");
        // It may still be waiting for a handshake when the client hangs up.
        let _ended = thread.join().unwrap();
    }
}

fn second_answer(answer: Vec<u8>) -> TdsError {
    let script = Script {
        encryption: ENCRYPT_NOT_SUPPORTED,
        strict: false,
        answers: vec![accepted(), answer],
        piece: 4096,
    };
    let (port, thread) = serve(script);
    let mut connection = Connection::open(&login(port, Trust::System), Mode::Off).unwrap();
    let error = connection.drain("SELECT 1").unwrap_err();
    thread.join().unwrap().unwrap();
    error
}

#[test]
fn answers_that_end_badly_are_errors() {
    let failed = packets(RESPONSE, &done(0x02, 0), 512).to_vec();
    assert!(matches!(second_answer(failed), TdsError::StatementFailed { status: 2 }));
    let more = packets(RESPONSE, &done(0x01, 0), 512).to_vec();
    assert!(matches!(second_answer(more), TdsError::Protocol { .. }));
    let mut cut = batch_answer(1);
    cut.truncate(700);
    assert!(matches!(second_answer(cut), TdsError::ConnectionLost { .. }));
    // Packets longer than negotiated, shorter than their header, or of another kind.
    for header in [[4, 1, 0x20, 0], [4, 1, 0, 7], [1, 1, 0, 8]] {
        let mut lie = header.to_vec();
        lie.extend([0, 0, 1, 0]);
        let error = second_answer(lie);
        assert!(matches!(error, TdsError::Protocol { .. }), "{header:?}: {error}");
    }
}

#[test]
fn a_refused_login_says_why() {
    let mut payload = error_token(18456, "Login failed for user 'sa'.");
    payload.extend(done(0x02, 0));
    let answers = vec![packets(RESPONSE, &payload, 4096).to_vec()];
    let encryption = ENCRYPT_NOT_SUPPORTED;
    let (port, thread) = serve(Script { encryption, strict: false, answers, piece: 3 });
    let refused = Connection::open(&login(port, Trust::System), Mode::Off).err();
    let refused = refused.unwrap();
    assert!(matches!(refused, TdsError::ServerSaid { number: 18456, .. }), "{refused}");
    assert!(
        refused.to_string().contains("Login failed") && !refused.to_string().contains("secret")
    );
    thread.join().unwrap().unwrap();
}
