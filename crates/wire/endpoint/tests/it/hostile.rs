//! Clients that lie, stall, or send nonsense: their own connection ends, others continue.

use std::io::Read;
use std::time::Duration;

use crate::common::{BOTH, Client, PASSWORD, eventually, login_of, serve, serve_with, tls_client};
use tdekit_wire_endpoint::{Limits, Logins, Mode};
use tdekit_wire_tds::packet::PacketKind;
use tdekit_wire_tds::prelogin::{Encryption, encode_client};
use tdekit_wire_tds::request::encode_batch;

/// Whole and in the smallest pieces.
#[test]
fn packets_may_be_split_at_every_byte() {
    let server = serve(Mode::On);
    let mut client = Client::connect(&server);
    let piecemeal = |client: &mut Client, kind, payload: &[u8]| {
        for byte in client.framed(kind, payload) {
            client.send_bytes(&[byte]);
        }
    };
    piecemeal(&mut client, PacketKind::PreLogin, &encode_client(Encryption::NotSupported));
    assert!(client.message().is_some());
    piecemeal(&mut client, PacketKind::Login, &login_of("sa", PASSWORD, "").encode());
    assert_eq!(client.answer().errors(), [0; 0]);
    client.packet_bytes = 512;
    let long = format!("rows 3 {}", "x".repeat(2000));
    piecemeal(&mut client, PacketKind::Batch, &encode_batch(&long));
    assert_eq!(client.answer().rows(), 3);
    // The same in two pieces, split at every place.
    let framed = client.framed(PacketKind::Batch, &encode_batch("rows 1"));
    for at in 1..framed.len() {
        client.send_bytes(&framed[..at]);
        client.send_bytes(&framed[at..]);
        assert_eq!(client.answer().rows(), 1, "{at}");
    }
}

/// Test cases, name and bytes: sent first on a new connection.
fn first_bytes() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("nothing like TDS", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("a batch before the login", vec![1, 1, 0, 8, 0, 0, 1, 0]),
        ("multiplexed (MARS)", vec![0x53, 1, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0]),
        ("a packet shorter than its header", vec![18, 1, 0, 7, 0, 0, 1, 0]),
        ("a packet of length 0", vec![18, 1, 0, 0, 0, 0, 1, 0]),
        ("a packet too long", vec![18, 1, 0xFF, 0xFF, 0, 0, 1, 0]),
        ("an empty PRELOGIN", vec![18, 1, 0, 8, 0, 0, 1, 0]),
        ("a PRELOGIN without end", vec![18, 1, 0, 9, 0, 0, 1, 0, 1]),
        ("an option outside", vec![18, 1, 0, 14, 0, 0, 1, 0, 1, 0xFF, 0, 0, 1, 0xFF]),
        ("TLS that is none", vec![0x16, 3, 1, 0, 4, 9, 9, 9, 9]),
        ("a TLS record too long", vec![0x16, 3, 1, 0xFF, 0xFF, 1]),
        ("PRELOGIN, then a batch within", {
            vec![18, 0, 0, 9, 0, 0, 1, 0, 1, 1, 1, 0, 9, 0, 0, 1, 0, 1]
        }),
    ]
}

#[test]
fn what_comes_first_is_refused_if_it_is_wrong() {
    let server = serve(Mode::On);
    for (what, bytes) in first_bytes() {
        let mut client = Client::connect(&server);
        client.send_bytes(&bytes);
        let mut rest = Vec::new();
        // Closed, whether gracefully or not: otherwise there is a timeout.
        if let Err(error) = client.stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{what}");
        }
    }
    assert_eq!(Client::login(&server, Encryption::On).batch("rows 1").rows(), 1);
}

/// Test cases, name and bytes: sent by a client that has logged in. The flag: the connection
/// continues.
fn later_bytes() -> Vec<(&'static str, PacketKind, Vec<u8>, bool)> {
    let headers = encode_batch("");
    let rpc = |rest: &[u8]| [&headers[..], rest].concat();
    let batch = PacketKind::Batch;
    vec![
        ("a batch without headers", batch, vec![], false),
        ("headers that are longer than all", batch, vec![0xFF, 0xFF, 0xFF, 0x7F], false),
        ("headers of length 0", batch, vec![0; 8], false),
        ("half a character", batch, [&headers[..], b"a"].concat(), false),
        ("a lone surrogate", batch, [&headers[..], &[0, 0xD8]].concat(), false),
        ("a call of nothing", PacketKind::Rpc, rpc(&[]), false),
        ("procedure 0", PacketKind::Rpc, rpc(&[0xFF, 0xFF, 0, 0, 0, 0]), false),
        ("a name of 2^16 units", PacketKind::Rpc, rpc(&[0xFE, 0xFF]), false),
        ("an unknown type", PacketKind::Rpc, rpc(&[0xFF, 0xFF, 10, 0, 0, 0, 0, 0, 0x99]), false),
        (
            "a string of 2^31 bytes",
            PacketKind::Rpc,
            {
                let mut bytes =
                    rpc(&[0xFF, 0xFF, 10, 0, 0, 0, 0, 0, 0xE7, 0xFF, 0xFF, 9, 4, 0, 0, 0]);
                bytes.extend((1_u64 << 31).to_le_bytes());
                bytes.extend((1_u32 << 31).to_le_bytes());
                bytes
            },
            false,
        ),
        (
            "text of 2^31 bytes",
            PacketKind::Rpc,
            {
                let mut bytes = rpc(&[0xFF, 0xFF, 10, 0, 0, 0, 0, 0, 0x63]);
                bytes.extend([0xFF, 0xFF, 0xFF, 0x7F, 9, 4, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0x7F]);
                bytes
            },
            false,
        ),
        (
            "a decimal of precision 0",
            PacketKind::Rpc,
            rpc(&[0xFF, 0xFF, 10, 0, 0, 0, 0, 0, 0x6C, 5, 0, 0, 0]),
            false,
        ),
        (
            "an int of 3 bytes",
            PacketKind::Rpc,
            rpc(&[0xFF, 0xFF, 10, 0, 0, 0, 0, 0, 0x26, 3, 3, 1, 2, 3]),
            false,
        ),
        (
            "a table-valued parameter cut short",
            PacketKind::Rpc,
            rpc(&[0xFF, 0xFF, 10, 0, 0, 0, 0, 0, 0xF3, 0, 0, 0]),
            false,
        ),
        (
            "an encrypted parameter",
            PacketKind::Rpc,
            rpc(&[0xFF, 0xFF, 10, 0, 0, 0, 0, 8, 0x26, 4, 0]),
            true,
        ),
        ("an unknown transaction request", PacketKind::Transaction, rpc(&[99, 0]), false),
        ("a transaction without isolation", PacketKind::Transaction, rpc(&[5, 0]), false),
        ("a second login", PacketKind::Login, login_of("sa", PASSWORD, "").encode(), false),
        ("a second PRELOGIN", PacketKind::PreLogin, encode_client(Encryption::On), false),
        ("an answer", PacketKind::Response, vec![1, 2, 3], false),
    ]
}

#[test]
fn requests_that_lie_end_their_connection_only() {
    let server = serve(Mode::On);
    let mut other = Client::login(&server, Encryption::On);
    for (what, kind, bytes, goes_on) in later_bytes() {
        let mut client = Client::login(&server, Encryption::NotSupported);
        client.send(kind, &bytes);
        if goes_on {
            assert_eq!(client.answer().errors(), [40510], "{what}");
            assert_eq!(client.batch("rows 1").rows(), 1, "{what}");
        } else {
            while let Some(payload) = client.message() {
                let answer = crate::common::Answer(
                    tdekit_wire_tds::answer::decode_answer(&payload).unwrap(),
                );
                assert_eq!(answer.errors(), [4002], "{what}");
            }
        }
        assert_eq!(other.batch("rows 1").rows(), 1, "{what}");
    }
}

#[test]
fn a_request_of_any_length_is_not_kept_in_memory() {
    let limits = Limits { request_bytes: 100_000, ..Limits::default() };
    let server = serve_with(Mode::On, limits);
    let mut client = Client::login(&server, Encryption::NotSupported);
    client.send(PacketKind::Batch, &encode_batch(&"x".repeat(100_000)));
    assert_eq!(client.answer().errors(), [4002]);
    assert_eq!(client.message(), None);
}

#[test]
fn a_kind_may_not_change_within_a_message() {
    let server = serve(Mode::On);
    let mut client = Client::login(&server, Encryption::NotSupported);
    client.send_bytes(&[1, 0, 0, 9, 0, 0, 1, 0, 0, 3, 1, 0, 9, 0, 0, 1, 0, 0]);
    assert_eq!(client.answer().errors(), [4002]);
    assert_eq!(client.message(), None);
}

#[test]
fn logins_that_are_wrong_all_sound_the_same() {
    let server = serve(Mode::On);
    let told = |user: &str, password: &str| {
        let mut client = Client::connect(&server);
        client.prelogin(Encryption::NotSupported);
        client.send(PacketKind::Login, &login_of(user, password, "").encode());
        let answer = client.answer();
        assert_eq!(client.message(), None);
        answer.errors()
    };
    assert_eq!(told("sa", "wrong"), [18456]);
    assert_eq!(told("nobody", PASSWORD), [18456]);
    assert_eq!(told("", ""), [18456]);
    let mut client = Client::connect(&server);
    client.prelogin(Encryption::NotSupported);
    client.send(PacketKind::Login, &login_of("sa", PASSWORD, "missing").encode());
    assert_eq!(client.answer().errors(), [4060, 18456]);
    let mut login = login_of("sa", PASSWORD, "");
    login.integrated = true;
    let mut client = Client::connect(&server);
    client.prelogin(Encryption::NotSupported);
    client.send(PacketKind::Login, &login.encode());
    assert_eq!(client.answer().errors(), [18452, 18456]);
}

#[test]
fn a_login_that_is_cut_or_old_is_refused() {
    let server = serve(Mode::On);
    let mut cut = login_of("sa", PASSWORD, "").encode();
    cut.truncate(60);
    let mut old = login_of("sa", PASSWORD, "").encode();
    old[4..8].copy_from_slice(&0x7209_0002_u32.to_le_bytes());
    for bytes in [cut, old] {
        let mut client = Client::connect(&server);
        client.prelogin(Encryption::NotSupported);
        client.send(PacketKind::Login, &bytes);
        assert_eq!(client.answer().errors(), [17832]);
        assert_eq!(client.message(), None);
    }
}

#[test]
fn a_new_password_counts_at_once() {
    let server = serve(Mode::On);
    Client::login(&server, Encryption::On);
    Logins::open(&server.logins).unwrap().set("sa", "battery staple").unwrap();
    let mut client = Client::connect(&server);
    client.prelogin(Encryption::NotSupported);
    client.send(PacketKind::Login, &login_of("sa", PASSWORD, "").encode());
    assert_eq!(client.answer().errors(), [18456]);
}

#[test]
fn slow_logins_are_given_up() {
    let limits = Limits { login: Duration::from_millis(300), ..Limits::default() };
    let server = serve_with(Mode::On, limits);
    let mut silent = Client::connect(&server);
    let mut slow = Client::connect(&server);
    slow.send_bytes(&[18]);
    let mut handshaking = Client::connect(&server);
    handshaking.prelogin(Encryption::On);
    for client in [&mut silent, &mut slow, &mut handshaking] {
        let mut byte = [0];
        assert!(!matches!(client.stream.read(&mut byte), Ok(1)));
    }
    eventually("the end of the connections", || server.endpoint.connections() == 0);
}

#[test]
fn connections_are_bounded_and_come_free() {
    let limits = Limits { logging_in: 2, ..Limits::default() };
    let server = serve_with(Mode::On, limits);
    let first = Client::connect(&server);
    let second = Client::connect(&server);
    eventually("two connections", || server.endpoint.connections() == 2);
    let mut third = Client::connect(&server);
    assert_eq!(third.prelogin(Encryption::NotSupported), None);
    drop((first, second));
    eventually("none", || server.endpoint.connections() == 0);
    let server = serve_with(Mode::On, Limits { connections: 3, ..Limits::default() });
    let mut clients: Vec<_> =
        (0..3).map(|_| Client::login(&server, Encryption::NotSupported)).collect();
    let mut fourth = Client::connect(&server);
    let answer = fourth.enter(&login_of("sa", PASSWORD, ""), Encryption::On);
    assert_eq!((answer.errors(), fourth.message()), (vec![17809], None));
    for client in &mut clients {
        assert_eq!(client.batch("rows 1").rows(), 1);
    }
}

#[test]
fn idle_connections_do_not_hinder() {
    let server = serve(Mode::On);
    let mut idle: Vec<_> =
        (0..200).map(|_| Client::login(&server, Encryption::NotSupported)).collect();
    for client in idle.iter_mut().step_by(17) {
        assert_eq!(client.batch("rows 1").rows(), 1);
    }
    drop(idle);
    eventually("none", || server.endpoint.connections() == 0);
}

#[test]
fn tls_with_a_wrong_offer_gets_an_alert() {
    let server = serve(Mode::Strict);
    let mut client = Client::connect(&server);
    let error = client.strict(tls_client(BOTH, &[b"h2"])).unwrap_err();
    assert!(error.contains("NoApplicationProtocol"), "{error}");
}
