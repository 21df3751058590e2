//! An endpoint in a test, and a client that talks to it byte by byte.
#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

mod client;
mod engine;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tdekit_wire_endpoint::{Config, Endpoint, Limits, Logins, Mode, Sessions, ensure_own_identity};
use tdekit_wire_tds::prelogin::Encryption;

pub(crate) use client::{Answer, BOTH, Client, login_of, tls_client};
pub(crate) use engine::{Log, Words, column};

pub(crate) const PASSWORD: &str = "correct horse";

pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    pub(crate) log: Arc<Log>,
    pub(crate) logins: PathBuf,
    pub(crate) sessions: Sessions,
    _dir: tempfile::TempDir,
}

pub(crate) fn serve(mode: Mode) -> Server {
    serve_with(mode, Limits::default())
}

pub(crate) fn serve_with(mode: Mode, limits: Limits) -> Server {
    let dir = tempfile::tempdir().unwrap();
    let logins = dir.path().join("logins.json");
    Logins::open(&logins).unwrap().set("sa", PASSWORD).unwrap();
    let (files, _) = ensure_own_identity(dir.path(), &["localhost".to_owned()]).unwrap();
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        mode,
        identity: Some(files),
        logins: logins.clone(),
        limits,
    };
    let engine = Words::default();
    let log = Arc::clone(&engine.log);
    let sessions = Sessions::default();
    let endpoint = Endpoint::start(config, Arc::new(engine), sessions.clone()).unwrap();
    Server { endpoint, log, logins, sessions, _dir: dir }
}

/// Waits until `done` returns true, for something that another thread does soon.
#[track_caller]
pub(crate) fn eventually(what: &str, done: impl Fn() -> bool) {
    for _ in 0..2000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("never came: {what}");
}

impl Client {
    pub(crate) fn connect(server: &Server) -> Client {
        Client::connect_to(server.endpoint.address())
    }

    /// Connects and logs in, encrypted as requested.
    pub(crate) fn login(server: &Server, encryption: Encryption) -> Client {
        let mut client = Client::connect(server);
        let answer = client.enter(&login_of("sa", PASSWORD, ""), encryption);
        assert_eq!(answer.errors(), [0; 0], "{answer:?}");
        client
    }

    /// As [`Client::login`], with TLS before everything else.
    pub(crate) fn strict_login(server: &Server) -> Client {
        let mut client = Client::connect(server);
        let tls = tls_client(BOTH, &[b"tds/8.0"]);
        let answer = client.enter_strictly(login_of("sa", PASSWORD, ""), tls);
        assert_eq!(answer.errors(), [0; 0], "{answer:?}");
        client
    }
}
