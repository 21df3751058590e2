//! The encrypted parts of a connection: each mode with each kind of client.

use std::io::Read;

use crate::common::{BOTH, Client, PASSWORD, login_of, serve, tls_client};
use tdekit_wire_endpoint::Mode;
use tdekit_wire_tds::packet::PacketKind;
use tdekit_wire_tds::prelogin::Encryption;

#[test]
fn every_mode_answers_every_client() {
    use Encryption::{NotSupported, Off, On, Required};
    let table = [
        (Mode::Off, [(Off, NotSupported), (NotSupported, NotSupported)].as_slice()),
        (Mode::On, &[(Off, Off), (On, On), (Required, On), (NotSupported, NotSupported)]),
        (Mode::Required, &[(Off, Required), (On, On), (Required, On)]),
    ];
    for (mode, clients) in table {
        let server = serve(mode);
        for (asked, answered) in clients {
            let mut client = Client::connect(&server);
            assert_eq!(client.prelogin(*asked), Some(*answered), "{mode:?} {asked:?}");
            drop(client);
            let mut client = Client::login(&server, *asked);
            let sealed = matches!(answered, On | Required);
            assert_eq!(client.tls.is_some(), sealed, "{mode:?} {asked:?}");
            assert_eq!(client.batch("rows 3").rows(), 3, "{mode:?} {asked:?}");
            assert!(server.log.has(&format!("open sa {sealed}")));
        }
    }
}

#[test]
fn who_cannot_be_encrypted_as_required_is_refused() {
    for (mode, asked, answered) in [
        (Mode::Required, Encryption::NotSupported, Encryption::Required),
        (Mode::Off, Encryption::On, Encryption::NotSupported),
        (Mode::Off, Encryption::Required, Encryption::NotSupported),
    ] {
        let server = serve(mode);
        let mut client = Client::connect(&server);
        assert_eq!(client.prelogin(asked), Some(answered));
        client.send(PacketKind::Login, &login_of("sa", PASSWORD, "").encode());
        assert_eq!(client.message(), None, "{mode:?}");
    }
}

#[test]
fn strict_is_tls_1_3_from_the_first_byte() {
    for mode in [Mode::On, Mode::Required, Mode::Strict] {
        let server = serve(mode);
        let mut client = Client::strict_login(&server);
        let tls = client.tls.as_ref().unwrap();
        assert_eq!(tls.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
        assert_eq!(tls.alpn_protocol(), Some(&b"tds/8.0"[..]));
        assert_eq!(client.batch("rows 3").rows(), 3);
        assert!(server.log.has("open sa true"));
    }
    let server = serve(Mode::Off);
    let mut client = Client::connect(&server);
    assert!(client.strict(tls_client(BOTH, &[])).is_err());
}

#[test]
fn strict_takes_nothing_else() {
    let server = serve(Mode::Strict);
    let mut client = Client::connect(&server);
    assert_eq!(client.prelogin(Encryption::On), None);
    // Another protocol over TLS has another name.
    let mut client = Client::connect(&server);
    assert!(client.strict(tls_client(BOTH, &[b"http/1.1"])).is_err());
    // Older clients give no name and do not support 1.3.
    let mut client = Client::connect(&server);
    client.strict(tls_client(&[&rustls::version::TLS12], &[])).unwrap();
    assert!(client.prelogin(Encryption::On).is_some());
}

#[test]
fn within_prelogin_it_is_tls_1_2() {
    let server = serve(Mode::On);
    let mut client = Client::connect(&server);
    client.prelogin(Encryption::On);
    client.wrapped_handshake(tls_client(BOTH, &[])).unwrap();
    let version = client.tls.as_ref().unwrap().protocol_version();
    assert_eq!(version, Some(rustls::ProtocolVersion::TLSv1_2));
    let mut client = Client::connect(&server);
    client.prelogin(Encryption::On);
    assert!(client.wrapped_handshake(tls_client(&[&rustls::version::TLS13], &[])).is_err());
}

#[test]
fn tls_cannot_be_left_out_once_it_is_agreed_on() {
    let server = serve(Mode::Required);
    let mut client = Client::connect(&server);
    assert_eq!(client.prelogin(Encryption::On), Some(Encryption::On));
    // A login in the clear instead of a handshake.
    client.send(PacketKind::Login, &login_of("sa", PASSWORD, "").encode());
    assert_eq!(client.message(), None);
    // And plain bytes within a sealed connection.
    let mut client = Client::login(&server, Encryption::On);
    client.tls = None;
    client.send(PacketKind::Batch, &tdekit_wire_tds::request::encode_batch("rows 1"));
    let mut rest = Vec::new();
    let _closed = client.stream.read_to_end(&mut rest);
    // At most a TLS alert, no answer.
    assert!(matches!(rest.first(), None | Some(21)), "{rest:?}");
    assert!(!server.log.has("open sa false"));
}

#[test]
fn the_packet_size_is_agreed_on_and_kept_within_a_record() {
    use tdekit_wire_tds::answer::Token;
    for (encryption, asked, expected) in [
        (Encryption::NotSupported, 0, "4096"),
        (Encryption::NotSupported, 8000, "8000"),
        (Encryption::NotSupported, 1, "512"),
        (Encryption::NotSupported, 4_000_000_000, "32767"),
        (Encryption::On, 32_767, "16383"),
    ] {
        let server = serve(Mode::On);
        let mut client = Client::connect(&server);
        client.prelogin(encryption);
        if encryption == Encryption::On {
            client.wrapped_handshake(tls_client(BOTH, &[])).unwrap();
        }
        let mut login = login_of("sa", PASSWORD, "");
        login.packet_bytes = asked;
        client.send(PacketKind::Login, &login.encode());
        let told = client.answer().0.into_iter().find_map(|token| match token {
            Token::EnvChange(4, bytes) => Some(bytes),
            _ => None,
        });
        let told = told.unwrap();
        let units = usize::from(told[0]) * 2;
        let text: String = told[1..=units].iter().step_by(2).map(|b| char::from(*b)).collect();
        assert_eq!(text, expected, "{asked}");
        assert_eq!(client.batch("rows 20000").rows(), 20_000);
    }
}
