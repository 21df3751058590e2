//! A `tdekit serve` of one test, and clients that talk to it.
#![allow(dead_code, unused_imports)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../../endpoint/tests/it/common/client.rs"]
pub(crate) mod client;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tdekit_wire_tds::answer::Token;
use tdekit_wire_tds::prelogin::Encryption;
use tdekit_wire_tds::{Message, Value};

use crate::common::Place;
pub(crate) use client::{Answer, BOTH, Client, login_of, tls_client};

pub(crate) const PASSWORD: &str = "correct horse";
/// Marker in rows that must not be found in plain text.
pub(crate) const MARKER: &str = "Zanzibar-Marker-4711";
/// Status of a cancelled batch.
pub(crate) const ATTENTION: u16 = 0x20;

/// A server on its own directory, with the login `sa`, and a key store with [`CERTIFICATE`] if
/// created with one.
pub(crate) struct Served {
    pub(crate) place: Place,
    process: Option<Child>,
    address: SocketAddr,
    args: Vec<String>,
}

pub(crate) const CERTIFICATE: &str = "TestCert";

impl Served {
    /// Starts a server without a key store.
    pub(crate) fn bare(args: &[&str]) -> Self {
        Self::at(Place::empty(), args)
    }

    /// Starts a server with a certificate.
    pub(crate) fn new() -> Self {
        let place = Place::with_store();
        place.ok(["cert", "create", CERTIFICATE]);
        Self::at(place, &[])
    }

    /// Starts a server in a place.
    pub(crate) fn of(place: Place) -> Self {
        Self::at(place, &[])
    }

    fn at(mut place: Place, args: &[&str]) -> Self {
        add_login(&mut place);
        fs::create_dir(place.path("data")).unwrap();
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let address = "127.0.0.1:0".parse().unwrap();
        let mut served = Self { place, process: None, address, args };
        served.start();
        served
    }

    /// Restarts it on the same directory.
    pub(crate) fn start(&mut self) {
        let mut args = vec!["serve", "data", "--listen", "127.0.0.1:0"];
        args.extend(self.args.iter().map(String::as_str));
        let command = self.place.command(args);
        self.run(command);
    }

    /// Starts it by a command of the test.
    pub(crate) fn run(&mut self, mut command: Command) {
        let told = File::options().create(true).append(true).open(self.told()).unwrap();
        let mut process = command.stdout(Stdio::piped()).stderr(told).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let listening = lines.find_map(|line| {
            line.unwrap().strip_prefix("listening on ").map(|address| address.parse().unwrap())
        });
        self.process = Some(process);
        self.address = listening.unwrap_or_else(|| panic!("{}", self.warnings()));
    }

    pub(crate) fn warnings(&self) -> String {
        fs::read_to_string(self.told()).unwrap()
    }

    fn told(&self) -> PathBuf {
        self.place.path("serve.err")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.place.path("data").join(name)
    }

    /// Kills it as by `kill -9`.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Stops it as the system does at shutdown.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal();
        self.wait()
    }

    pub(crate) fn signal(&self) {
        let process = self.process.as_ref().unwrap();
        let pid = Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.process.take().unwrap().wait().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(Encryption::On)
    }

    pub(crate) fn client_with(&self, encryption: Encryption) -> Client {
        let mut client = Client::connect_to(self.address);
        let answer = client.enter(&login_of("sa", PASSWORD, ""), encryption);
        assert_eq!(answer.errors(), [0; 0], "{answer:?}");
        client
    }

    /// Returns a session of a login with the usual password.
    pub(crate) fn client_of(&self, login: &str, database: &str) -> Client {
        let mut client = Client::connect_to(self.address);
        let answer = client.enter(&login_of(login, PASSWORD, database), Encryption::On);
        assert_eq!(answer.errors(), [0; 0], "{answer:?}");
        client
    }

    /// Returns a session in a database, which is created if needed.
    pub(crate) fn client_in(&self, database: &str) -> Client {
        let mut client = self.client();
        ok(&mut client, &format!("IF DB_ID('{database}') IS NULL CREATE DATABASE {database}"));
        ok(&mut client, &format!("USE {database}"));
        client
    }

    /// Returns the files of the served directory in which the marker is in plain text.
    pub(crate) fn files_with_marker(&self) -> Vec<String> {
        let wide: Vec<u8> = MARKER.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let has = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|w| w == text);
        let mut names: Vec<_> = fs::read_dir(self.data(""))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                let bytes = fs::read(path).unwrap();
                has(&bytes, MARKER.as_bytes()) || has(&bytes, &wide)
            })
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ended = process.kill();
            let _gone = process.wait();
        }
    }
}

pub(crate) fn add_login(place: &mut Place) {
    fs::create_dir_all(place.home()).unwrap();
    place.set("TDEKIT_LOGIN_PASSWORD", PASSWORD);
    place.ok(["serve", "login", "add", "sa"]);
}

/// Runs a batch that must succeed.
pub(crate) fn ok(client: &mut Client, batch: &str) -> Answer {
    let answer = client.batch(batch);
    assert_eq!(answer.errors(), [0; 0], "{batch}: {:?}", messages(&answer));
    answer
}

/// Runs batches that must succeed, as clients take GO.
pub(crate) fn script(client: &mut Client, script: &str) -> Vec<Answer> {
    let batches = format!("{script}\n");
    let batches = batches.split("GO\n").filter(|batch| !batch.trim().is_empty());
    batches.map(|batch| ok(client, batch)).collect()
}

/// Returns the only value of the only row.
pub(crate) fn one(client: &mut Client, batch: &str) -> Value<'static> {
    match &ok(client, batch).values()[..] {
        [row] if row.len() == 1 => row[0].clone(),
        rows => panic!("{batch}: {rows:?}"),
    }
}

pub(crate) fn int(client: &mut Client, batch: &str) -> i64 {
    match one(client, batch) {
        Value::Int(int) => int,
        other => panic!("{batch}: {other:?}"),
    }
}

pub(crate) fn text(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.clone().into_owned(),
        other => panic!("{other:?} is no text"),
    }
}

/// Returns errors and information messages.
pub(crate) fn messages(answer: &Answer) -> Vec<Message> {
    let message = |token: &Token| match token {
        Token::Message(message) => Some(message.clone()),
        _ => None,
    };
    answer.0.iter().filter_map(message).collect()
}

/// Waits until `done` is true, for something that the server does soon.
#[track_caller]
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("never came: {what}");
}
