//! The S3 server that the test command starts, and a connection to it that can be cut.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AwsAuthorizer, AwsCredential};
use object_store::client::{HttpRequest, HttpRequestBody};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use object_store::{ObjectStoreExt, PutPayload};
use tdekit_backup_run::ObjectOptions;

/// Ends each record, as a trailer does.
pub const TRAILER: &[u8] = b"the trailer of a record";

/// The server, and a prefix in its bucket for one test.
pub struct Server {
    endpoint: String,
    pub bucket: String,
    prefix: String,
    runtime: tokio::runtime::Runtime,
    store: AmazonS3,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(format!("TDEKIT_TEST_S3_{name}")).ok()
}

/// Returns the server; `None` if none was started, which is a failure in CI.
pub fn server(test: &str) -> Option<Server> {
    let Some(endpoint) = variable("ENDPOINT") else {
        let hint = "no S3 server: run the tests by `make test` or `cargo xtask s3 -- cargo test`";
        assert!(std::env::var_os("CI").is_none(), "{hint}");
        eprintln!("{test}: passed over: {hint}");
        return None;
    };
    let bucket = variable("BUCKET").unwrap();
    let store = AmazonS3Builder::new()
        .with_endpoint(&endpoint)
        .with_allow_http(true)
        .with_bucket_name(&bucket)
        .with_access_key_id(variable("KEY_ID").unwrap())
        .with_secret_access_key(variable("SECRET").unwrap())
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let prefix = format!("{test}-{}", std::process::id());
    Some(Server { endpoint, bucket, prefix, runtime, store })
}

impl Server {
    /// Returns the address of a name that only this test uses.
    pub fn address(&self, name: &str) -> String {
        format!("s3://{}/{}/{name}", self.bucket, self.prefix)
    }

    /// Returns options for the server itself.
    pub fn options(&self) -> ObjectOptions {
        self.options_by(&self.endpoint)
    }

    /// Returns options for the server through another endpoint. Pieces have the minimum size of S3.
    pub fn options_by(&self, endpoint: &str) -> ObjectOptions {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        ObjectOptions {
            variables: vec![
                named("AWS_ENDPOINT_URL", endpoint),
                named("AWS_ALLOW_HTTP", "true"),
                named("AWS_ACCESS_KEY_ID", &variable("KEY_ID").unwrap()),
                named("AWS_SECRET_ACCESS_KEY", &variable("SECRET").unwrap()),
            ],
            patience: Duration::from_secs(60),
            piece_bytes: 5 << 20,
            ..ObjectOptions::default()
        }
    }

    /// Returns the variables of a user with read access only.
    pub fn reader(&self) -> [(String, String); 2] {
        let named = |name: &str, own: &str| (name.to_owned(), variable(own).unwrap());
        [
            named("AWS_ACCESS_KEY_ID", "READER_KEY_ID"),
            named("AWS_SECRET_ACCESS_KEY", "READER_SECRET"),
        ]
    }

    fn path(&self, name: &str) -> Path {
        Path::parse(format!("{}/{name}", self.prefix)).unwrap()
    }

    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let path = self.path(name);
        self.runtime.block_on(self.store.put(&path, PutPayload::from(bytes))).unwrap();
    }

    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.runtime.block_on(async {
            match self.store.get(&self.path(name)).await {
                Ok(found) => Some(found.bytes().await.unwrap().to_vec()),
                Err(object_store::Error::NotFound { .. }) => None,
                Err(error) => panic!("{error}"),
            }
        })
    }

    pub fn delete(&self, name: &str) {
        let path = self.path(name);
        self.runtime.block_on(self.store.delete(&path)).unwrap();
    }

    /// Makes a bucket of this test, for locks or without them, and uses it from now on.
    pub fn own_bucket(&mut self, locks: bool) {
        self.bucket = self.prefix.to_ascii_lowercase();
        let header = ("x-amz-bucket-object-lock-enabled", if locks { "true" } else { "false" });
        let made = self.ask("PUT", &format!("/{}", self.bucket), &[header]);
        assert!(made.starts_with("HTTP/1.1 200"), "{made}");
    }

    /// Returns the metadata of an object.
    pub fn head(&self, name: &str) -> String {
        self.ask("HEAD", &format!("/{}/{}/{name}", self.bucket, self.prefix), &[])
    }

    /// Sends a signed request without a body, and returns the whole answer.
    fn ask(&self, method: &str, path: &str, headers: &[(&'static str, &str)]) -> String {
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.method_mut() = method.parse().unwrap();
        *request.uri_mut() = format!("{}{path}", self.endpoint).parse().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let credential = AwsCredential {
            key_id: variable("KEY_ID").unwrap(),
            secret_key: variable("SECRET").unwrap(),
            token: None,
        };
        let signer = AwsAuthorizer::new(&credential, "s3", "us-east-1");
        signer.try_authorize(&mut request, None).unwrap();
        let host = self.endpoint.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n")
            .unwrap();
        for (name, value) in request.headers() {
            write!(stream, "{name}: {}\r\n", value.to_str().unwrap()).unwrap();
        }
        write!(stream, "Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Returns the number of uploads of this test that were neither completed nor aborted.
    pub fn unfinished_uploads(&self) -> usize {
        let query = [("uploads", ""), ("prefix", self.prefix.as_str())];
        let options = SignedUrlOptions::default().with_query(query);
        let (bucket, minute) = (Path::default(), Duration::from_secs(60));
        let get = "GET".parse().unwrap();
        let signed = self.store.signed_url_opts(get, &bucket, minute, &options);
        let url = self.runtime.block_on(signed).unwrap();
        let host = self.endpoint.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let target = url.as_str().strip_prefix(&self.endpoint).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("ListMultipartUploadsResult"), "{answer}");
        answer.matches("<Upload>").count()
    }
}

/// The event that cuts a connection through the proxy.
#[derive(Debug, Clone)]
pub enum Cut {
    /// After this many bytes to the server.
    Up(usize),
    /// After this many bytes from the server.
    Down(usize),
    /// When the server answers a request with this text; the answer is lost.
    Answer(&'static str),
}

/// A proxy to the server. Each connection takes the next cut from the list; when none is left,
/// connections stay whole.
pub struct Proxy {
    pub endpoint: String,
    cuts: Arc<Mutex<Vec<Cut>>>,
}

impl Proxy {
    pub fn new(server: &Server, cuts: Vec<Cut>) -> Self {
        let cuts = Arc::new(Mutex::new(cuts.into_iter().rev().collect()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let upstream = server.endpoint.strip_prefix("http://").unwrap().to_owned();
        let shared = Arc::clone(&cuts);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&upstream) else { continue };
                carry(client, server, Arc::clone(&shared));
            }
        });
        Self { endpoint, cuts }
    }

    /// Makes these cuts from now on.
    pub fn cut(&self, cuts: Vec<Cut>) {
        *self.cuts.lock().unwrap() = cuts.into_iter().rev().collect();
    }

    /// Returns the number of cuts that have not been made yet.
    pub fn left(&self) -> usize {
        self.cuts.lock().unwrap().len()
    }
}

/// Carries one connection, and cuts it when the next cut of the list is due.
fn carry(client: TcpStream, server: TcpStream, cuts: Arc<Mutex<Vec<Cut>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ends =
        |one: &TcpStream, other: &TcpStream| (one.try_clone().unwrap(), other.try_clone().unwrap());
    let (from, to) = ends(&client, &server);
    let (listened, shared) = (Arc::clone(&heard), Arc::clone(&cuts));
    std::thread::spawn(move || {
        pump(from, to, |passed, bytes| {
            let mut heard = listened.lock().unwrap();
            heard.extend_from_slice(bytes);
            let due = |cut: &Cut| matches!(cut, Cut::Up(most) if passed > *most);
            take(&shared, due)
        });
    });
    std::thread::spawn(move || {
        pump(server, client, |passed, _| {
            let mut heard = heard.lock().unwrap();
            let request = String::from_utf8_lossy(&heard).into_owned();
            heard.clear();
            let due = |cut: &Cut| match cut {
                Cut::Down(most) => passed > *most,
                Cut::Answer(text) => request.contains(text),
                Cut::Up(_) => false,
            };
            take(&cuts, due)
        });
    });
}

/// Takes the next cut if it is due.
fn take(cuts: &Mutex<Vec<Cut>>, due: impl Fn(&Cut) -> bool) -> bool {
    let mut cuts = cuts.lock().unwrap();
    let taken = cuts.last().is_some_and(due);
    if taken {
        cuts.pop();
    }
    taken
}

/// Copies until the end or until `cut` returns true, given all bytes so far and the newest ones.
fn pump(mut from: TcpStream, mut to: TcpStream, cut: impl Fn(usize, &[u8]) -> bool) {
    let mut buf = vec![0; 64 << 10];
    let mut passed = 0;
    while let Ok(length @ 1..) = from.read(&mut buf) {
        passed += length;
        if cut(passed, &buf[..length]) || to.write_all(&buf[..length]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
