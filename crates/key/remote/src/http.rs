//! Small requests, tried a few times, with answers of bounded size and time.

use std::error::Error as _;
use std::fs::File;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::{Certificate, Request, Url, redirect, retry, tls};
use zeroize::Zeroizing;

use crate::error::RemoteError;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time limit of one try, from its first byte to the last byte of its answer.
const TRY_LIMIT: Duration = Duration::from_secs(10);
const TRIES: u32 = 4;
/// Share of the remaining time that is used, so that this ends before the caller's limit and can
/// report the number of tries.
const SHARE: f64 = 0.98;
const FIRST_WAIT: Duration = Duration::from_millis(250);
const MAX_ANSWER_BYTES: usize = 64 << 10;
const MAX_CA_BYTES: u64 = 1 << 20;

/// A client of one service.
pub(crate) struct Client {
    client: reqwest::Client,
    deadline: Instant,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Zeroizing<Vec<u8>>,
}

/// Result of one try.
enum Try {
    Answered(Answer),
    /// The next try may succeed.
    Failed(String),
}

impl Client {
    /// Makes a client that trusts the certificates in `ca_file` only, or the system's without it.
    pub(crate) fn new(ca_file: Option<&Path>, deadline: Instant) -> Result<Self, RemoteError> {
        let mut builder = reqwest::Client::builder()
            // A redirect is not an answer, and the credentials are for this server only.
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            // Proxy variables of the environment could divert plain requests.
            .no_proxy()
            .tls_version_min(tls::Version::TLS_1_2)
            .connect_timeout(CONNECT_LIMIT)
            .timeout(TRY_LIMIT);
        if let Some(path) = ca_file {
            builder = builder.tls_certs_only(certificates(path)?);
        }
        let client =
            builder.build().map_err(|error| RemoteError::System { reason: causes(&error) })?;
        Ok(Self { client, deadline })
    }

    /// Sends the request that `make` builds, anew for each try. `is_transient` recognizes answers
    /// after which a try is worthwhile, beside the general ones.
    pub(crate) async fn send<F>(
        &self,
        make: impl Fn() -> F,
        is_transient: impl Fn(&Answer) -> bool,
    ) -> Result<Answer, RemoteError>
    where
        F: Future<Output = Result<Request, RemoteError>>,
    {
        let begun = Instant::now();
        let mut wait = FIRST_WAIT;
        let mut tries = 1;
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let request = make().await?;
            let Ok(answered) = tokio::time::timeout(left.mul_f64(SHARE), self.once(request)).await
            else {
                let (seconds, reason) = (begun.elapsed().as_secs_f64(), "no answer".to_owned());
                return Err(RemoteError::Away { tries, seconds, reason });
            };
            let last = match answered? {
                Try::Answered(answer) if (300..400).contains(&answer.status) => {
                    return Err(RemoteError::Redirected { status: answer.status });
                }
                Try::Answered(answer) => {
                    let passing = matches!(answer.status, 408 | 412 | 429 | 500 | 502..=504);
                    if !passing && !is_transient(&answer) {
                        return Ok(answer);
                    }
                    Try::Answered(answer)
                }
                failed @ Try::Failed(_) => failed,
            };
            if tries == TRIES || Instant::now() + wait > self.deadline {
                let seconds = begun.elapsed().as_secs_f64();
                return match last {
                    Try::Answered(answer) => Ok(answer),
                    Try::Failed(reason) => Err(RemoteError::Away { tries, seconds, reason }),
                };
            }
            tokio::time::sleep(jittered(wait)).await;
            (tries, wait) = (tries + 1, wait * 2);
        }
    }

    async fn once(&self, request: Request) -> Result<Try, RemoteError> {
        let mut response = match self.client.execute(request).await {
            Ok(response) => response,
            Err(error) => return failed(error),
        };
        let status = response.status().as_u16();
        let mut body = Zeroizing::new(Vec::with_capacity(MAX_ANSWER_BYTES));
        loop {
            match response.chunk().await {
                Ok(Some(piece)) if body.len() + piece.len() > MAX_ANSWER_BYTES => {
                    return Err(RemoteError::Garbage { reason: "more than 64 KiB" });
                }
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) => return Ok(Try::Answered(Answer { status, body })),
                Err(error) => return failed(error),
            }
        }
    }
}

fn failed(error: reqwest::Error) -> Result<Try, RemoteError> {
    let timed_out = error.is_timeout();
    let reason = causes(&error.without_url());
    // A certificate error will not go away.
    if reason.contains("certificate") {
        return Err(RemoteError::Tls { reason });
    }
    Ok(Try::Failed(if timed_out { format!("too slow: {reason}") } else { reason }))
}

/// Parses an address that credentials may be sent to: `https`, or `http` to this machine itself.
pub(crate) fn server(address: &str) -> Result<Url, RemoteError> {
    let refuse = |reason| Err(RemoteError::Address { address: address.to_owned(), reason });
    let Ok(url) = Url::parse(address) else {
        return refuse("is no address: https://HOST:PORT");
    };
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match url.scheme() {
        "https" => {}
        "http" if host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback()) => {}
        "http" => return refuse("is not encrypted: use https:// (http:// for loopback only)"),
        _ => return refuse("is no address: https://HOST:PORT"),
    }
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if host.is_empty() || !bare || !url.username().is_empty() || url.password().is_some() {
        return refuse("has more than a host and a port");
    }
    Ok(url)
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, RemoteError> {
    let fault = |reason: String| RemoteError::File { path: path.to_owned(), reason };
    let mut pem = Vec::new();
    let file = File::open(path).map_err(|error| fault(error.to_string()))?;
    file.take(MAX_CA_BYTES).read_to_end(&mut pem).map_err(|error| fault(error.to_string()))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| fault(causes(&error)))?;
    // Without certificates nothing would be trusted, and the error would blame the server.
    if found.is_empty() { Err(fault("has no certificate".to_owned())) } else { Ok(found) }
}

/// Formats an error with its causes, of which the last is the most specific.
fn causes(error: &reqwest::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !told.contains(&text) {
            told = format!("{told}: {text}");
        }
        cause = next.source();
    }
    told
}

/// Half of `wait` to all of it, so that many requests that were refused together do not return
/// together.
fn jittered(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) % 512;
    wait / 2 + wait * u32::try_from(random).unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_go_encrypted_or_nowhere() {
        for good in ["https://vault.example:8200", "http://127.0.0.1:8200/", "http://[::1]:1"] {
            assert!(server(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "vault.example:8200",
            "http://vault.example:8200",
            "http://127.0.0.1.evil.example",
            "http://0.0.0.0:1",
            "ftp://127.0.0.1",
            "https://vault.example/path",
            "https://vault.example/?a=b",
            "https://user:pw@vault.example",
        ] {
            assert!(matches!(server(bad), Err(RemoteError::Address { .. })), "{bad}");
        }
    }
}
