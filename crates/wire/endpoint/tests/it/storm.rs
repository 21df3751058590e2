//! Many wrong passwords at a time, from clients that do not wait for an answer.

use std::time::Instant;

use crate::common::{Client, PASSWORD, Server, eventually, login_of, serve};
use tdekit_wire_endpoint::{Limits, Logins, Mode};
use tdekit_wire_tds::packet::PacketKind;
use tdekit_wire_tds::prelogin::Encryption;

/// Sends a login and hangs up.
fn hang_up(server: &Server, user: &str) {
    let mut client = Client::connect(server);
    // The server may turn it away before.
    if client.prelogin(Encryption::NotSupported).is_some() {
        client.send(PacketKind::Login, &login_of(user, "wrong horse", "").encode());
    }
}

fn storm(server: &Server, clients: usize, user: impl Fn(usize) -> String + Sync) {
    std::thread::scope(|scope| {
        for part in 0..8 {
            let user = &user;
            scope.spawn(move || {
                (0..clients / 8).for_each(|at| hang_up(server, &user(at * 8 + part)));
            });
        }
    });
}

#[test]
fn a_right_login_comes_through_a_storm_of_wrong_ones() {
    let server = serve(Mode::Off);
    Logins::open(&server.logins).unwrap().set("other", PASSWORD).unwrap();
    storm(&server, 2000, |at| format!("mutant {at}"));
    // First an unknown password, which must be derived, and then the same one, now known.
    for _ in 0..2 {
        let start = Instant::now();
        let mut client = Client::connect(&server);
        let answer = client.enter(&login_of("other", PASSWORD, ""), Encryption::NotSupported);
        assert_eq!(answer.errors(), [0; 0], "{answer:?}");
        assert!(start.elapsed() < Limits::default().login, "{:?}", start.elapsed());
    }
    eventually("the end of the others", || server.endpoint.connections() == 0);
}

#[test]
fn who_hangs_up_has_guessed() {
    let server = serve(Mode::Off);
    storm(&server, 8, |_| "sa".to_owned());
    eventually("their end", || server.endpoint.connections() == 0);
    let mut client = Client::connect(&server);
    let answer = client.enter(&login_of("sa", PASSWORD, ""), Encryption::NotSupported);
    assert_eq!(answer.errors(), [18456], "{answer:?}");
}
