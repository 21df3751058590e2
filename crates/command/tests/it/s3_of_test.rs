//! An S3 server of one test, which it kills and starts again: a copy of the one that the tests are
//! given, with ports and files of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::databases::Dir;

/// Returns the endpoint of the tests' server; `None` without one, which is told.
pub(crate) fn endpoint(test: &str) -> Option<String> {
    let endpoint = std::env::var("TDEKIT_TEST_S3_ENDPOINT").ok();
    if endpoint.is_none() {
        let hint = "no S3 server: run the tests by `make test` or `cargo xtask s3 -- cargo test`";
        assert!(std::env::var_os("CI").is_none(), "{hint}");
        eprintln!("{test}: passed over: {hint}");
    }
    endpoint
}

/// Returns a variable about the tests' server.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(format!("TDEKIT_TEST_S3_{name}")).unwrap()
}

/// Returns the variables by which commands use the server at `endpoint`.
pub(crate) fn variables(endpoint: &str) -> [(&'static str, String); 4] {
    [
        ("AWS_ENDPOINT_URL", endpoint.to_owned()),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", variable("KEY_ID")),
        ("AWS_SECRET_ACCESS_KEY", variable("SECRET")),
    ]
}

/// Returns a prefix of addresses that no other test uses, without a slash at its end.
pub(crate) fn prefix(test: &str) -> String {
    format!("s3://{}/{test}-{}", variable("BUCKET"), std::process::id())
}

/// The server. When dropped, it is killed.
pub(crate) struct OwnServer {
    arguments: Vec<String>,
    child: Child,
    ports: Vec<(String, u16)>,
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl OwnServer {
    /// Starts one with its files in `dir`; `None` where the tests have no server.
    pub(crate) fn start(dir: &Dir) -> Option<Self> {
        Self::start_with(dir, &[])
    }

    /// As [`Self::start`], with more arguments.
    pub(crate) fn start_with(dir: &Dir, more: &[String]) -> Option<Self> {
        let endpoint = std::env::var("TDEKIT_TEST_S3_ENDPOINT").ok()?;
        let port = format!("-s3.port={}", endpoint.rsplit(':').next()?);
        let template = processes().find(|arguments| arguments.contains(&port))?;
        let held: Vec<_> = (0..8).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let mut free = held.iter().map(|it| it.local_addr().unwrap().port());
        let mut ports = Vec::new();
        let files = dir.path("s3");
        fs::create_dir(&files).unwrap();
        let own = |argument: String| {
            let Some((option, value)) = argument.split_once('=') else { return argument };
            match option.rsplit('.').next().unwrap() {
                "port" | "grpc" if value != "0" => {
                    let port = free.next().unwrap();
                    ports.push((option.to_owned(), port));
                    format!("{option}={port}")
                }
                "localSocket" => format!("{option}={}/{}.sock", files.display(), &option[1..3]),
                "-dir" => format!("{option}={}", files.display()),
                _ => argument,
            }
        };
        let own = template.into_iter().map(own);
        let arguments: Vec<String> = own.chain(more.iter().cloned()).collect();
        drop(held);
        let child = spawn(&arguments);
        let server = Self { arguments, child, ports };
        let bucket = format!("/buckets/{}/", std::env::var("TDEKIT_TEST_S3_BUCKET").ok()?);
        let filer = server.port("-filer.port");
        server.wait(filer, "PUT", "/ready", 201);
        server.wait(filer, "POST", &bucket, 201);
        server.wait(server.port("-s3.port"), "GET", "/", 403);
        Some(server)
    }

    fn port(&self, option: &str) -> u16 {
        self.ports.iter().find(|(name, _)| name == option).unwrap().1
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port("-s3.port"))
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again, and waits until it answers.
    pub(crate) fn again(&mut self) {
        self.child = spawn(&self.arguments);
        self.wait(self.port("-filer.port"), "PUT", "/ready", 201);
        self.wait(self.port("-s3.port"), "GET", "/", 403);
    }

    fn wait(&self, port: u16, method: &str, path: &str, status: u16) {
        let begun = Instant::now();
        while answer(port, method, path) != Some(status) {
            assert!(begun.elapsed() < Duration::from_secs(90), "{method} {path}: no answer");
            sleep(Duration::from_millis(100));
        }
    }
}

fn spawn(arguments: &[String]) -> Child {
    let mut command = Command::new(&arguments[0]);
    command.args(&arguments[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// The arguments of all processes of this user.
fn processes() -> impl Iterator<Item = Vec<String>> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| {
        let bytes = fs::read(Path::new(&entry.path()).join("cmdline")).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        Some(text.split('\0').filter(|part| !part.is_empty()).map(str::to_owned).collect())
    })
}

/// Returns the status of the answer to a small request.
fn answer(port: u16, method: &str, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let body = if method == "PUT" { "x" } else { "" };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
    .ok()?;
    let mut start = [0; 12];
    stream.read_exact(&mut start).ok()?;
    std::str::from_utf8(&start).ok()?.split(' ').nth(1)?.parse().ok()
}
