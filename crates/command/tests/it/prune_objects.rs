//! `prune` on an object store: killed at each removal, and refused by a lock.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::common::Place;
use crate::databases::create;
use crate::s3_of_test;

/// What happens to a request that removes an object.
#[derive(Clone)]
pub(crate) enum Fate {
    Pass,
    /// The process that made it is killed; the request arrives if `arrives`.
    Kill {
        pid: u32,
        at: usize,
        arrives: bool,
    },
    /// The store refuses it, if it is for a name with this end.
    Deny(&'static str),
}

pub(crate) struct Server {
    endpoint: String,
    pub(crate) prefix: String,
    fate: Arc<Mutex<Fate>>,
}

/// A proxy of the tests' server, and a store whose commands use it; `None` without a server.
pub(crate) fn server(test: &str) -> Option<(Server, Place)> {
    let upstream = s3_of_test::endpoint(test)?;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let fate = Arc::new(Mutex::new(Fate::Pass));
    let upstream = upstream.strip_prefix("http://").unwrap().to_owned();
    let shared = Arc::clone(&fate);
    // Ends with the test's process.
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(&upstream) else { continue };
            let shared = Arc::clone(&shared);
            let (mut back, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut back, &mut to));
            std::thread::spawn(move || carry(client, server, &shared));
        }
    });
    let prefix = format!("{}/", s3_of_test::prefix(test));
    let mut place = Place::with_store();
    for (name, value) in s3_of_test::variables(&endpoint) {
        place.set(name, &value);
    }
    place.ok(["cert", "create", "C"]);
    drop(create(&place.path("app.db"), "CREATE TABLE t(a); INSERT INTO t VALUES(1)"));
    Some((Server { endpoint, prefix, fate }, place))
}

fn carry(mut client: TcpStream, mut server: TcpStream, fate: &Mutex<Fate>) {
    let mut buf = vec![0; 64 << 10];
    while let Ok(length @ 1..) = client.read(&mut buf) {
        let mut request = buf[..length].to_vec();
        let is_removal = |request: &[u8]| {
            let line =
                String::from_utf8_lossy(request).lines().next().unwrap_or_default().to_owned();
            line.starts_with("POST ") && line.contains("?delete")
        };
        if !is_removal(&request) {
            if server.write_all(&request).is_err() {
                return;
            }
            continue;
        }
        while !String::from_utf8_lossy(&request).contains("</Delete>") {
            let Ok(length @ 1..) = client.read(&mut buf) else { return };
            request.extend_from_slice(&buf[..length]);
        }
        let key = String::from_utf8_lossy(&request).into_owned();
        let key = key.split_once("<Key>").unwrap().1.split_once("</Key>").unwrap().0;
        let mut fate = fate.lock().unwrap();
        let arrives = match &mut *fate {
            Fate::Pass => true,
            Fate::Kill { at: at @ 1.., .. } => {
                *at -= 1;
                true
            }
            Fate::Kill { pid, arrives, .. } => {
                let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
                assert!(killed.unwrap().success());
                *arrives
            }
            Fate::Deny(end) => !key.ends_with(&**end),
        };
        drop(fate);
        if arrives {
            let _ = server.write_all(&request);
            continue;
        }
        // As Amazon's server answers where an object is locked.
        let body = format!(
            "<?xml version=\"1.0\"?><DeleteResult><Error><Key>{key}</Key><Code>AccessDenied</Code>\
             <Message>Access Denied because object protected by object lock.</Message></Error>\
             </DeleteResult>"
        );
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length:";
        let _ = write!(client, "{head} {}\r\n\r\n{body}", body.len());
    }
}

impl Server {
    pub(crate) fn is(&self, fate: Fate) {
        *self.fate.lock().unwrap() = fate;
    }

    /// Makes three media sets of two sets each; each set is two objects.
    fn fill(&self, place: &Place) {
        for name in ["a.bak", "b.bak", "c.bak"] {
            let to = format!("{}{name}", self.prefix);
            for more in [&[][..], &["--append"]] {
                let args = ["backup", "app.db", "--to", &to, "--certificate", "C"];
                place.ok([&args[..], more].concat());
            }
        }
    }

    fn prune<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["prune", self.prefix.as_str(), "--keep-last", "1"], more].concat()
    }

    fn names(&self, place: &Place) -> Vec<String> {
        let found = place.json(self.prune(&["--dry-run", "--json"]));
        let media = found["media"].as_array().unwrap().iter();
        let name = |media: &Value| media["places"][0].as_str().unwrap()[self.prefix.len()..].into();
        let mut names: Vec<String> = media.map(name).collect();
        names.sort();
        names
    }
}

#[test]
fn a_killed_run_is_finished_by_the_next() {
    let Some((mut server, place)) = server("prune-killed") else { return };
    assert!(server.endpoint.starts_with("http://127.0.0.1:"));
    let (mut killed, mut begun) = (0, 0);
    let base = server.prefix.clone();
    for (at, arrives) in [(0, false), (0, true), (1, true), (3, true), (6, false)] {
        server.prefix = format!("{base}{at}-{arrives}/");
        server.fill(&place);
        let mut child = place
            .command(server.prune(&[]))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        server.is(Fate::Kill { pid: child.id(), at, arrives });
        killed += usize::from(child.wait().unwrap().code().is_none());
        server.is(Fate::Pass);
        let dry = place.json(server.prune(&["--dry-run", "--json"]));
        begun +=
            dry["media"].as_array().unwrap().iter().filter(|it| it["fate"] == "finish").count();
        // What is kept is whole at any time.
        place.ok(["verify", &format!("{}c.bak", server.prefix)]);
        place.ok(server.prune(&[]));
        assert_eq!(server.names(&place), ["c.bak"], "{at} {arrives}");
        let told = place.fails(7, ["verify", &format!("{}a.bak", server.prefix)]);
        assert!(told.contains("`prune` removed it at"), "{told}");
    }
    assert_eq!(killed, 5);
    assert!(begun > 2, "{begun}");
}

#[test]
fn what_a_lock_keeps_is_named() {
    let Some((server, place)) = server("prune-locked") else { return };
    server.fill(&place);
    // The last part is the first to go: nothing else of the media set does.
    server.is(Fate::Deny("a.bak.0003"));
    let run = place.run(server.prune(&[]));
    assert_eq!(run.code, 7, "{run:?}");
    let told = format!("{}a.bak.0003", server.prefix);
    assert!(run.err.contains(&told) && run.err.contains("protected by object lock"), "{run:?}");
    server.is(Fate::Pass);
    assert_eq!(server.names(&place), ["a.bak", "c.bak"]);
    for name in ["a.bak", "c.bak"] {
        place.ok(["verify", &format!("{}{name}", server.prefix)]);
    }
    // A part in the middle: its removal was begun, and the next run finishes it.
    server.is(Fate::Deny("a.bak.0001"));
    let run = place.run(server.prune(&[]));
    assert_eq!(run.code, 7, "{run:?}");
    assert!(run.err.contains("a.bak.0001"), "{run:?}");
    let dry = place.json(server.prune(&["--dry-run", "--json"]));
    assert_eq!(dry["media"][0]["fate"], "finish", "{dry}");
    assert_eq!(place.run(server.prune(&[])).code, 7);
    server.is(Fate::Pass);
    place.ok(server.prune(&[]));
    assert_eq!(server.names(&place), ["c.bak"]);
    // An address without a slash at its end is a prefix as well, where no object stands there.
    let prefix = server.prefix.trim_end_matches('/');
    place.ok(["prune", prefix, "--keep-last", "1"]);
}
