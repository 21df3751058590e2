//! Media sets on an S3 server behind a proxy that answers with another object's bytes.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use crate::attack::{Attack, Outcome};
use crate::place::{CERTIFICATE, Place};
use crate::s3::{Server, answer_of, lay, read_request};

/// Returns the attack, if a server is available: requests for one object of a media set are
/// answered with the bytes of another (of the same media set, or of a second one of the same
/// database), always or sometimes. Lengths and names do not change.
///
/// # Errors
/// If the proxy cannot be started, or the media sets cannot be created.
pub(crate) fn attack(place: &Place) -> Result<Option<Attack<'_>>> {
    let Some(server) = Server::from_environment() else { return Ok(None) };
    let line = Line::lay(&server.endpoint)?;
    let address = |name| format!("s3://{}/exchanged-{}-{name}", server.bucket, std::process::id());
    let (own, other) = (address("own"), address("other"));
    let mut newest = String::new();
    for day in 1..=2 {
        newest = place.make_database("exchanged.db", day, 2000)?;
        for to in [&own, &other] {
            let backup = ["backup", "exchanged.db", "--to", to, "--append"];
            let backup = [&backup[..], &["--certificate", CERTIFICATE]].concat();
            let made = server.run(place, &server.endpoint, &backup)?;
            ensure!(made.is_ok(), "a backup without faults: {made:?}");
        }
    }
    line.set(Answer::Kept)?;
    for address in [&own, &other] {
        let read = server.run(place, &line.endpoint, &["verify", address])?;
        ensure!(read.is_ok(), "a media set that nobody exchanged: {read:?}");
    }
    let known = line.known()?;
    // In each set one object has the blocks and one the signature.
    ensure!(known.len() == 8, "two media sets of two signed sets: {:?}", known.keys());
    let name = "S3 behind a line that answers with another object's bytes";
    Ok(Some(Attack::new(name, move |rng| {
        let objects: Vec<&String> = known.keys().collect();
        let own_objects: Vec<_> =
            objects.iter().copied().filter(|path| path.contains("-own")).collect();
        let victim = own_objects[rng.usize(..own_objects.len())];
        let donors: Vec<_> = objects.iter().copied().filter(|path| *path != victim).collect();
        let donor = &known[donors[rng.usize(..donors.len())]];
        let (victim, donor, of_four) = (victim.clone(), donor.clone(), 1 << rng.u8(..3));
        let rng = Rng::with_seed(rng.u64(..));
        line.set(Answer::Exchanged(Exchange { victim, donor, of_four, rng, done: 0 }))?;
        place.lay(&[], &["exchanged-restored.db"])?;
        let verify = server.run(place, &line.endpoint, &["verify", &own])?;
        let exchanged = line.exchanged()?;
        let to = ["restore", &own, "--to", "exchanged-restored.db"];
        let restore = server.run(place, &line.endpoint, &to)?;
        if let Some(ended) = [&verify, &restore].into_iter().find(|ended| ended.has_crashed()) {
            return Ok(Outcome::Wrong(format!("died: {ended:?}")));
        }
        // A block that is exchanged only sometimes may be read again correctly: the set is intact.
        if verify.is_ok() && exchanged > 0 && of_four == ALWAYS {
            return Ok(Outcome::Wrong("another object's bytes were verified".to_owned()));
        }
        if restore.is_ok() {
            if place.rows("exchanged-restored.db", false)?.as_ref() != Some(&newest) {
                return Ok(Outcome::Wrong("restored another object's data".to_owned()));
            }
        } else if place.path("exchanged-restored.db").exists() {
            return Ok(Outcome::Wrong("a refused restore left a file".to_owned()));
        }
        let all = verify.is_ok() && restore.is_ok();
        Ok(if all { Outcome::Right } else { Outcome::Refused })
    })))
}

/// Number of exchanged answers out of four if each one is exchanged.
const ALWAYS: u8 = 4;

/// A proxy to the server that records the contents of objects.
struct Line {
    endpoint: String,
    state: Arc<Mutex<State>>,
}

struct State {
    answer: Answer,
    /// The content of objects, by their path.
    known: BTreeMap<String, Vec<u8>>,
}

/// Treatment of the bytes of an object.
enum Answer {
    /// They are recorded, to be returned later.
    Kept,
    Exchanged(Exchange),
}

/// The donor and the victim of an exchange.
struct Exchange {
    victim: String,
    donor: Vec<u8>,
    /// Number of exchanged answers out of four.
    of_four: u8,
    rng: Rng,
    /// Number of answers that it changed.
    done: u32,
}

impl Line {
    fn lay(endpoint: &str) -> Result<Self> {
        let state = State { answer: Answer::Kept, known: BTreeMap::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let endpoint = lay(endpoint, move |client, server| serve(client, server, &shared))?;
        Ok(Self { endpoint, state })
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T> {
        let mut state = self.state.lock().ok().context("the line broke")?;
        Ok(work(&mut state))
    }

    fn set(&self, answer: Answer) -> Result<()> {
        self.with(|state| state.answer = answer)
    }

    fn known(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        self.with(|state| state.known.clone())
    }

    fn exchanged(&self) -> Result<u32> {
        self.with(|state| match &state.answer {
            Answer::Kept => 0,
            Answer::Exchanged(exchange) => exchange.done,
        })
    }
}

fn serve(mut client: TcpStream, server: &str, state: &Mutex<State>) -> Result<()> {
    let Some(request) = read_request(&mut client)? else { return Ok(()) };
    let mut answer = answer_of(server, &request)?;
    if let Some(path) = object_of(&request)
        && let Some((first, body)) = body_of(&answer)
    {
        let mut state = state.lock().ok().context("the line broke")?;
        let State { answer: wanted, known } = &mut *state;
        let bytes = answer.get_mut(body..).unwrap_or_default();
        match wanted {
            Answer::Kept => keep(known.entry(path).or_default(), first, bytes),
            Answer::Exchanged(exchange) if exchange.victim == path => {
                exchange.in_place(first, bytes)
            }
            Answer::Exchanged(_) => {}
        }
    }
    client.write_all(&answer)?;
    // The server's answer ends with its connection, so ours must, too.
    Ok(client.shutdown(Shutdown::Both)?)
}

/// Returns the object whose bytes are requested.
fn object_of(request: &[u8]) -> Option<String> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    let path = std::str::from_utf8(line).ok()?.strip_prefix("GET ")?.split(' ').next()?;
    (!path.contains('?')).then(|| path.to_owned())
}

/// Returns the offset of an answer's bytes in the object, and in the answer.
fn body_of(answer: &[u8]) -> Option<(usize, usize)> {
    let body = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(answer.get(..body)?).to_ascii_lowercase();
    let first = match head.get(9..12)? {
        "200" => 0,
        "206" => {
            let range = head.split_once("content-range: bytes ")?.1;
            range.split('-').next()?.parse().ok()?
        }
        _ => return None,
    };
    head.contains("content-length: ").then_some((first, body))
}

fn keep(object: &mut Vec<u8>, first: usize, bytes: &[u8]) {
    let end = first + bytes.len();
    if object.len() < end {
        object.resize(end, 0);
    }
    object[first..end].copy_from_slice(bytes);
}

impl Exchange {
    /// Replaces the victim's bytes by the donor's, as far as it has any.
    fn in_place(&mut self, first: usize, bytes: &mut [u8]) {
        let given = self.donor.get(first..).unwrap_or_default();
        let len = given.len().min(bytes.len());
        if self.rng.u8(..4) < self.of_four && bytes[..len] != given[..len] {
            bytes[..len].copy_from_slice(&given[..len]);
            self.done += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_of_objects_are_exchanged() {
        assert_eq!(object_of(b"GET /b/n.0001 HTTP/1.1\r\nx: y").as_deref(), Some("/b/n.0001"));
        assert_eq!(object_of(b"GET /b?list-type=2 HTTP/1.1\r\n"), None);
        assert_eq!(object_of(b"PUT /b/n HTTP/1.1\r\n"), None);
        let part =
            b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 7-9/20\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(body_of(part), Some((7, part.len() - 3)));
        assert_eq!(body_of(b"HTTP/1.1 404 None\r\nContent-Length: 1\r\n\r\nx"), None);
        let mut exchange = Exchange {
            victim: String::new(),
            donor: b"0123456789".to_vec(),
            of_four: 4,
            rng: Rng::with_seed(1),
            done: 0,
        };
        let mut bytes = *b"abcd";
        exchange.in_place(8, &mut bytes);
        assert_eq!((&bytes, exchange.done), (b"89cd", 1));
        exchange.in_place(8, &mut bytes);
        exchange.in_place(20, &mut bytes);
        assert_eq!((&bytes, exchange.done), (b"89cd", 1));
    }
}
