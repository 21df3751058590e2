//! Servers on loopback that stand in for Vault, according to its documented interface, and for
//! anything that may answer in place of a key service.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

pub const TOKEN: &str = "hvs.test-token";

/// A request to a server.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// A server's action on a connection.
pub enum Answer {
    /// Status and body.
    Json(u16, Value),
    /// These exact bytes, after which the connection ends.
    Raw(Vec<u8>),
    /// Nothing for this time, then the end.
    Silence(Duration),
}

/// A server that runs until the test ends.
pub struct Server {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Answers each request with `answer`.
    pub fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::of(listener, answer, |stream| Some(Box::new(stream)))
    }

    /// As [`Self::start`]; `wrap` turns each connection into the stream that is read and written.
    pub fn of<W>(
        listener: TcpListener,
        answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
        wrap: W,
    ) -> Self
    where
        W: Fn(TcpStream) -> Option<Box<dyn Stream>> + Send + Sync + 'static,
    {
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer, wrap) = (Arc::clone(&asked), Arc::new(answer), Arc::new(wrap));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, answer, wrap) = (Arc::clone(&kept), answer.clone(), wrap.clone());
                thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
                    if let Some(mut stream) = wrap(stream) {
                        serve(&mut *stream, &kept, &*answer);
                    }
                });
            }
        });
        Self { address, asked }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

pub trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn serve(stream: &mut dyn Stream, kept: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Answer) {
    let Some(asked) = read(stream) else { return };
    kept.lock().unwrap().push(asked.clone());
    match answer(&asked) {
        Answer::Json(status, body) => {
            let body = body.to_string();
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
        Answer::Raw(bytes) => {
            let _ = stream.write_all(&bytes);
        }
        Answer::Silence(time) => thread::sleep(time),
    }
    let _ = stream.flush();
}

fn read(stream: &mut dyn Stream) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ').map(str::to_owned);
    let (method, path) = (first.next()?, first.next()?);
    let pair = |line: &str| -> Option<(String, String)> {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_ascii_lowercase(), value.to_owned()))
    };
    let headers: Vec<_> = lines.filter_map(pair).collect();
    let asked = Asked { method, path, headers, body: Vec::new() };
    let length = asked.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Asked { body, ..asked })
}

/// A key of the transit engine: its type, and the plaintext of each ciphertext. A ciphertext opens
/// with the associated data with which it was made.
#[derive(Default)]
pub struct Transit {
    pub kind: String,
    pub newest: u32,
    pub oldest_allowed: u32,
    wrapped: Vec<(String, Value, Value)>,
}

impl Transit {
    pub fn new(kind: &str) -> Arc<Mutex<Self>> {
        let kind = kind.to_owned();
        Arc::new(Mutex::new(Self { kind, newest: 1, oldest_allowed: 1, wrapped: Vec::new() }))
    }

    /// Answers as Vault does, for the key `KEY` at the mount `transit`.
    pub fn answer(&mut self, key: &str, asked: &Asked) -> Answer {
        let error = |status, text: &str| Answer::Json(status, json!({ "errors": [text] }));
        if asked.header("x-vault-token") != Some(TOKEN) {
            return error(403, "permission denied");
        }
        let body = asked.json();
        let of_key = |verb: &str| asked.path == format!("/v1/transit/{verb}/{key}");
        if asked.method == "GET" && of_key("keys") {
            return Answer::Json(200, json!({ "data": { "type": self.kind } }));
        }
        if asked.method == "POST" && of_key("encrypt") {
            let wrapped = format!("vault:v{}:{:08}==", self.newest, self.wrapped.len());
            let bound = body["associated_data"].clone();
            self.wrapped.push((wrapped.clone(), body["plaintext"].clone(), bound));
            return Answer::Json(200, json!({ "data": { "ciphertext": wrapped } }));
        }
        if asked.method == "POST" && of_key("decrypt") {
            let text = body["ciphertext"].as_str().unwrap_or_default();
            let version = text.split(':').nth(1).and_then(|part| part[1..].parse().ok());
            if version.is_none_or(|version: u32| version < self.oldest_allowed) {
                return error(400, "ciphertext or signature version is disallowed by policy");
            }
            let same = |(wrapped, _, bound): &&(String, Value, Value)| {
                wrapped == text && *bound == body["associated_data"]
            };
            return match self.wrapped.iter().find(same) {
                Some((_, plain, _)) => Answer::Json(200, json!({ "data": { "plaintext": plain } })),
                None => error(400, "cipher: message authentication failed"),
            };
        }
        Answer::Json(404, json!({ "errors": [] }))
    }
}

/// Vault with one key.
pub fn vault(key: &'static str, transit: &Arc<Mutex<Transit>>) -> Server {
    let transit = Arc::clone(transit);
    Server::start(move |asked| transit.lock().unwrap().answer(key, asked))
}
