//! Sessions as others see them, and requests to them from others.

use std::net::Shutdown;
use std::time::{Duration, SystemTime};

use crate::common::{
    BOTH, Client, PASSWORD, Server, eventually, login_of, serve, serve_with, tls_client,
};
use tdekit_wire_endpoint::{ConnectionFacts, Limits, Mode};
use tdekit_wire_tds::packet::PacketKind;
use tdekit_wire_tds::prelogin::Encryption;
use tdekit_wire_tds::request::encode_batch;

fn of(server: &Server, spid: u16) -> ConnectionFacts {
    let mut all = server.sessions.connections().into_iter();
    all.find(|facts| facts.caller.spid == spid).unwrap()
}

#[test]
fn every_connection_is_known_as_long_as_it_lives() {
    let server = serve(Mode::On);
    assert!(server.sessions.connections().is_empty());
    let started = SystemTime::now() - Duration::from_secs(1);
    let mut plain = Client::login(&server, Encryption::NotSupported);
    let _login_only = Client::login(&server, Encryption::Off);
    let _wrapped = Client::login(&server, Encryption::On);
    let strict = Client::strict_login(&server);
    assert_eq!(plain.batch("rows 1").rows(), 1);
    let known = server.sessions.connections();
    let spids: Vec<_> = known.iter().map(|facts| facts.caller.spid).collect();
    assert_eq!(spids, [51, 52, 53, 54]);
    let tls: Vec<_> =
        known.iter().map(|facts| (facts.caller.encrypted, facts.caller.tls_protocol)).collect();
    let expected = [(false, None), (false, None), (true, Some("TLS 1.2")), (true, Some("TLS 1.3"))];
    assert_eq!(tls, expected);
    let suites: Vec<_> = known.iter().map(|facts| facts.caller.tls_cipher_suite).collect();
    assert_eq!(suites[..2], [None, None]);
    assert!(suites[2].unwrap().starts_with("TLS_ECDHE_ECDSA_WITH_"), "{suites:?}");
    assert!(suites[3].unwrap().starts_with("TLS_AES_"), "{suites:?}");
    for facts in &known {
        assert_eq!((facts.caller.login.as_str(), facts.packet_bytes), ("sa", 4096));
        assert_eq!(facts.server, server.endpoint.address());
        assert!(facts.connected >= started && facts.reads.last >= started);
        assert!(facts.reads.count >= 2 && facts.writes.count >= 1, "{facts:?}");
    }
    assert_eq!(known[0].client, plain.stream.local_addr().unwrap());
    let before = of(&server, 51);
    assert_eq!(plain.batch("rows 1").rows(), 1);
    // A write is counted after it was made: the client may have its answer before that.
    eventually("its counts", || {
        let after = of(&server, 51);
        after.reads.count > before.reads.count && after.writes.count > before.writes.count
    });
    drop(strict);
    eventually("its end", || server.sessions.connections().len() == 3);
    // An ID is reused only after the others have been used.
    let _next = Client::login(&server, Encryption::NotSupported);
    assert_eq!(server.sessions.connections().last().unwrap().caller.spid, 55);
}

#[test]
fn who_does_not_come_in_is_no_session() {
    let server = serve(Mode::On);
    let mut refused = Client::connect(&server);
    let answer = refused.enter(&login_of("sa", "wrong horse", ""), Encryption::On);
    assert_eq!(answer.errors(), [18456]);
    let mut handshaking = Client::connect(&server);
    handshaking.prelogin(Encryption::On);
    handshaking.wrapped_handshake(tls_client(BOTH, &[])).unwrap();
    assert!(server.sessions.connections().is_empty());
}

#[test]
fn sessions_at_rest_let_go_and_those_that_run_do_not() {
    let server = serve(Mode::On);
    let mut idle = Client::login(&server, Encryption::NotSupported);
    let mut busy = Client::login(&server, Encryption::NotSupported);
    busy.send(PacketKind::Batch, &encode_batch("wait"));
    eventually("its run", || server.log.has("waiting"));
    server.sessions.release("app");
    assert!(server.log.has("release app of 51") && !server.log.has("release app of 52"));
    busy.attention();
    busy.answer();
    busy.answer();
    assert_eq!(idle.batch("rows 1").rows(), 1);
    server.sessions.release("app");
    assert!(server.log.has("release app of 52"));
}

#[test]
fn a_session_without_requests_is_put_to_rest_and_wakes() {
    let limits = Limits { rest: Duration::from_millis(20), ..Limits::default() };
    let server = serve_with(Mode::On, limits);
    let mut client = Client::login(&server, Encryption::On);
    assert_eq!(client.batch("rows 1").rows(), 1);
    eventually("its rest", || server.log.has("rest 51"));
    for _ in 0..50 {
        assert_eq!(client.batch("rows 2").rows(), 2);
    }
}

#[test]
fn a_client_that_closes_its_side_ends_its_session_alone() {
    let server = serve(Mode::On);
    let mut other = Client::login(&server, Encryption::On);
    let mut running = Client::login(&server, Encryption::On);
    running.send(PacketKind::Batch, &encode_batch("wait"));
    eventually("its run", || server.log.has("waiting"));
    let idle = Client::login(&server, Encryption::NotSupported);
    running.stream.shutdown(Shutdown::Write).unwrap();
    idle.stream.shutdown(Shutdown::Write).unwrap();
    eventually("their ends", || server.sessions.connections().len() == 1);
    assert!(server.log.has("cancelled"));
    assert_eq!(other.batch("rows 1").rows(), 1);
    let mut again = Client::connect(&server);
    assert_eq!(again.enter(&login_of("sa", PASSWORD, ""), Encryption::On).errors(), [0; 0]);
}

#[test]
fn sessions_beyond_those_that_may_be_awake_rest_without_a_wait() {
    let rest = Duration::from_secs(3600);
    let server = serve_with(Mode::On, Limits { awake: 1, rest, ..Limits::default() });
    let mut clients = [(); 3].map(|()| Client::login(&server, Encryption::NotSupported));
    for client in &mut clients {
        assert_eq!(client.batch("rows 1").rows(), 1);
    }
    let rested = |spid: u16| server.log.has(&format!("rest {spid}"));
    eventually("the rest of two", || (51..54).filter(|spid| rested(*spid)).count() >= 2);
    for client in &mut clients {
        assert_eq!(client.batch("rows 2").rows(), 2);
    }
}
