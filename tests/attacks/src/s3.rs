//! Media sets on an S3 server behind a proxy that drops, delays, repeats and refuses.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use crate::attack::{Attack, Outcome};
use crate::place::{CERTIFICATE, Ended, Place};

/// The test server, as described by its environment variables.
pub(crate) struct Server {
    pub(crate) endpoint: String,
    pub(crate) bucket: String,
    key_id: String,
    secret: String,
}

impl Server {
    pub(crate) fn from_environment() -> Option<Self> {
        let variable = |name: &str| std::env::var(format!("TDEKIT_TEST_S3_{name}")).ok();
        Some(Self {
            endpoint: variable("ENDPOINT")?,
            bucket: variable("BUCKET")?,
            key_id: variable("KEY_ID")?,
            secret: variable("SECRET")?,
        })
    }

    /// Runs the command against this server, reached at `endpoint`.
    pub(crate) fn run(&self, place: &Place, endpoint: &str, args: &[&str]) -> Result<Ended> {
        let mut command = place.command("tdekit");
        command
            .env("AWS_ENDPOINT_URL", endpoint)
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", &self.key_id)
            .env("AWS_SECRET_ACCESS_KEY", &self.secret);
        Ok(command.args(args).output().context("start tdekit")?.into())
    }
}

/// Returns the attack, if a server is available.
///
/// # Errors
/// If the proxy cannot be started.
pub(crate) fn attack(place: &Place) -> Result<Option<Attack<'_>>> {
    let Some(server) = Server::from_environment() else { return Ok(None) };
    let line = Line::lay(&server.endpoint)?;
    let old = place.make_database("s3.db", 1, 2000)?;
    let before = place.bytes("s3.db")?;
    let new = place.make_database("s3.db", 2, 2000)?;
    let after = place.bytes("s3.db")?;
    let attempts = AtomicU64::new(0);
    let name = "S3 behind a line that drops, delays, repeats, answers 403, 500, 503";
    Ok(Some(Attack::new(name, move |rng| {
        let number = attempts.fetch_add(1, Ordering::Relaxed);
        let bucket = &server.bucket;
        let address = format!("s3://{bucket}/attacks-{}-{number}", std::process::id());
        let run = |endpoint: &str, args: &[&str]| server.run(place, endpoint, args);
        let clean = &server.endpoint[..];
        let backup = ["backup", "s3.db", "--to", &address, "--certificate", CERTIFICATE];
        place.lay(&[("s3.db", &before)], &["s3-restored.db"])?;
        let first = run(clean, &backup)?;
        ensure!(first.is_ok(), "a backup without faults: {first:?}");
        place.lay(&[("s3.db", &after)], &[])?;
        line.begin_faults(rng.u64(..));
        let append = run(&line.endpoint, &[&backup[..], &["--append"]].concat())?;
        let verify = run(&line.endpoint, &["verify", &address])?;
        let to = ["restore", &address, "--to", "s3-restored.db"];
        let faulty = run(&line.endpoint, &to)?;
        for ended in [&append, &verify, &faulty] {
            if ended.has_crashed() {
                return Ok(Outcome::Wrong(format!("died: {ended:?}")));
            }
        }
        let newest = if append.is_ok() { vec![&new] } else { vec![&old, &new] };
        let is_newest = |rows: Option<String>| rows.is_some_and(|rows| newest.contains(&&rows));
        if faulty.is_ok() {
            if !is_newest(place.rows("s3-restored.db", false)?) {
                return Ok(Outcome::Wrong("restored other data through the line".to_owned()));
            }
        } else if place.path("s3-restored.db").exists() {
            return Ok(Outcome::Wrong("a refused restore left a file".to_owned()));
        }
        place.lay(&[], &["s3-restored.db"])?;
        let last = run(clean, &to)?;
        if !last.is_ok() || !is_newest(place.rows("s3-restored.db", false)?) {
            let what = format!("after append {append:?} the store holds another: {last:?}");
            return Ok(Outcome::Wrong(what));
        }
        let all = append.is_ok() && verify.is_ok() && faulty.is_ok();
        Ok(if all { Outcome::Right } else { Outcome::Refused })
    })))
}

/// A proxy to the server, with random faults.
struct Line {
    endpoint: String,
    faults: Arc<Mutex<Rng>>,
}

/// What happens to a request.
#[derive(Clone, Copy)]
enum Fault {
    None,
    /// The request is lost.
    DropRequest,
    /// The request arrives, its answer is lost.
    DropAnswer,
    /// Half of the answer arrives.
    CutAnswer,
    Delay,
    /// It arrives twice; the second answer is returned.
    Repeat,
    Status(u16),
}

impl Line {
    fn lay(endpoint: &str) -> Result<Self> {
        let faults = Arc::new(Mutex::new(Rng::with_seed(0)));
        let shared = faults.clone();
        let endpoint = lay(endpoint, move |client, server| serve(client, server, &shared))?;
        Ok(Self { endpoint, faults })
    }

    fn begin_faults(&self, seed: u64) {
        if let Ok(mut faults) = self.faults.lock() {
            *faults = Rng::with_seed(seed);
        }
    }
}

/// Starts a proxy to the server: `serve` receives each connection, and the server's address.
/// Returns the proxy's endpoint.
pub(crate) fn lay(
    endpoint: &str,
    serve: impl Fn(TcpStream, &str) -> Result<()> + Send + Sync + 'static,
) -> Result<String> {
    let server = endpoint.strip_prefix("http://").context("an endpoint without TLS")?;
    let server = server.trim_end_matches('/').to_owned();
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("listen")?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (server, serve) = (server.clone(), serve.clone());
            // Broken connections are expected here.
            std::thread::spawn(move || drop(serve(client, &server)));
        }
    });
    Ok(endpoint)
}

fn next_fault(faults: &Mutex<Rng>) -> Fault {
    let Ok(mut rng) = faults.lock() else { return Fault::None };
    match rng.u8(..24) {
        0 => Fault::DropRequest,
        1 => Fault::DropAnswer,
        2 => Fault::CutAnswer,
        3 => Fault::Delay,
        4 => Fault::Repeat,
        5 => Fault::Status(403),
        6 => Fault::Status(500),
        7 => Fault::Status(503),
        _ => Fault::None,
    }
}

/// Forwards requests of one connection, each over a separate connection.
fn serve(mut client: TcpStream, server: &str, faults: &Mutex<Rng>) -> Result<()> {
    while let Some(request) = read_request(&mut client)? {
        let fault = next_fault(faults);
        match fault {
            Fault::DropRequest => return Ok(client.shutdown(Shutdown::Both)?),
            Fault::Status(status) => {
                write!(client, "HTTP/1.1 {status} Fault\r\ncontent-length: 0\r\n\r\n")?;
                continue;
            }
            Fault::Delay => std::thread::sleep(Duration::from_millis(300)),
            Fault::Repeat => drop(answer_of(server, &request)?),
            _ => {}
        }
        let answer = answer_of(server, &request)?;
        match fault {
            Fault::DropAnswer => return Ok(client.shutdown(Shutdown::Both)?),
            Fault::CutAnswer => client.write_all(&answer[..answer.len() / 2])?,
            _ => client.write_all(&answer)?,
        }
        // The server's answer ends with its connection, so ours must, too.
        return Ok(client.shutdown(Shutdown::Both)?);
    }
    Ok(())
}

/// Reads a request, changed only to make the server close the connection after its answer.
pub(crate) fn read_request(client: &mut TcpStream) -> Result<Option<Vec<u8>>> {
    client.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut bytes = Vec::new();
    let mut piece = [0; 16 * 1024];
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        match client.read(&mut piece)? {
            0 => return Ok(None),
            len => bytes.extend_from_slice(&piece[..len]),
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut body = 0;
    let mut lines = Vec::new();
    for line in text.split("\r\n").take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        if name.eq_ignore_ascii_case("content-length") {
            body = value.trim().parse().context("a length")?;
        }
        if !name.eq_ignore_ascii_case("connection") {
            lines.push(line);
        }
    }
    let mut rest = bytes.split_off(head);
    while rest.len() < body {
        match client.read(&mut piece)? {
            0 => return Ok(None),
            len => rest.extend_from_slice(&piece[..len]),
        }
    }
    let mut request = lines.join("\r\n").into_bytes();
    request.extend_from_slice(b"\r\nconnection: close\r\n\r\n");
    request.extend(rest);
    Ok(Some(request))
}

pub(crate) fn answer_of(server: &str, request: &[u8]) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}
