//! An S3 server in this process, which keeps objects in memory and can be away.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::spawn;
use std::time::{Duration, Instant};

/// The server.
#[derive(Clone)]
pub(crate) struct StoreDouble {
    pub(crate) endpoint: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// The next object whose name ends so is taken, and then nothing is answered for this time.
    pub(crate) loses: Option<(String, Duration)>,
    /// True while it says that it is busy for each request of an object's metadata.
    pub(crate) is_busy: bool,
    away_until: Option<Instant>,
}

/// A request.
struct Asked {
    method: String,
    key: String,
    prefix: String,
    range: Option<(usize, usize)>,
    only_new: bool,
    body: Vec<u8>,
}

impl StoreDouble {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                spawn(move || serve(stream, &shared));
            }
        });
        Self { endpoint, state }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns the variables by which commands use it.
    pub(crate) fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", "user".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
        ]
    }
}

/// Answers the requests of a connection; ends it while the server is away.
fn serve(stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut out = stream;
    loop {
        let asked = Asked::read(&mut reader)?;
        let is_head = asked.method == "HEAD";
        let (head, body) = state.lock().unwrap().answer(asked)?;
        let length = body.len();
        write!(out, "HTTP/1.1 {head}Content-Length: {length}\r\n\r\n").ok()?;
        if !is_head {
            out.write_all(&body).ok()?;
        }
    }
}

impl Asked {
    fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let mut words = line.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let named = query.split('&').find_map(|part| part.strip_prefix("prefix="));
        let key = path.trim_start_matches('/').split_once('/').map_or("", |(_, key)| key);
        let (key, prefix) = (key.to_owned(), named.unwrap_or("").replace("%2F", "/"));
        let (mut range, mut only_new, mut length) = (None, false, 0);
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let header = header.trim_end().to_ascii_lowercase();
            let Some((name, value)) = header.split_once(": ") else { break };
            match name {
                "content-length" => length = value.parse().ok()?,
                "if-none-match" => only_new = true,
                "range" => {
                    let (from, to) = value.strip_prefix("bytes=")?.split_once('-')?;
                    range = Some((from.parse().ok()?, to.parse().ok()?));
                }
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some(Self { method, key, prefix, range, only_new, body })
    }
}

impl State {
    /// Returns the status with headers, and the body; nothing while it is away.
    fn answer(&mut self, asked: Asked) -> Option<(String, Vec<u8>)> {
        if self.away_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let of = "ETag: \"1\"\r\nLast-Modified: Mon, 30 Nov 2026 10:00:00 GMT\r\n";
        let only = |status: &str| Some((format!("{status}\r\n"), Vec::new()));
        match asked.method.as_str() {
            "PUT" if asked.only_new && self.objects.contains_key(&asked.key) => {
                only("412 Precondition Failed")
            }
            "PUT" => {
                let is_lost = |lost: &mut (String, Duration)| asked.key.ends_with(&lost.0);
                let lost = self.loses.take_if(is_lost);
                self.objects.insert(asked.key, asked.body);
                if let Some((_, time)) = lost {
                    self.away_until = Some(Instant::now() + time);
                    return None;
                }
                Some((format!("200 OK\r\n{of}"), Vec::new()))
            }
            "DELETE" => {
                self.objects.remove(&asked.key);
                only("204 No Content")
            }
            "HEAD" if self.is_busy => only("503 Slow Down"),
            "HEAD" => match self.objects.get(&asked.key) {
                Some(object) => Some((format!("200 OK\r\n{of}"), object.clone())),
                None => only("404 Not Found"),
            },
            _ if asked.key.is_empty() => Some(("200 OK\r\n".to_owned(), self.list(&asked.prefix))),
            _ => {
                let Some(object) = self.objects.get(&asked.key) else {
                    return only("404 Not Found");
                };
                let last = object.len().saturating_sub(1);
                let (from, to) = asked.range.unwrap_or((0, last));
                let (to, all) = (to.min(last), object.len());
                let range = format!("Content-Range: bytes {from}-{to}/{all}\r\n");
                let part = object.get(from..=to).unwrap_or_default().to_vec();
                Some((format!("206 Partial Content\r\n{of}{range}"), part))
            }
        }
    }

    fn list(&self, prefix: &str) -> Vec<u8> {
        let named = self.objects.iter().filter(|(key, _)| key.starts_with(prefix));
        let listed = named.map(|(key, object)| {
            let length = object.len();
            format!(
                "<Contents><Key>{key}</Key><LastModified>2026-11-30T10:00:00.000Z</LastModified>\
                 <ETag>\"1\"</ETag><Size>{length}</Size></Contents>"
            )
        });
        let listed: String = listed.collect();
        let end = "<IsTruncated>false</IsTruncated></ListBucketResult>";
        format!("<ListBucketResult>{listed}{end}").into_bytes()
    }
}
