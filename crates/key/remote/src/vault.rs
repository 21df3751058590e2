//! The transit engine of HashiCorp Vault and OpenBao.
//!
//! `associated_data` binds the wrapped secret to the store, where the key's type supports it.

use std::env;
use std::time::Instant;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};
use serde::{Deserialize, Deserializer};
use tdekit_key_crypto::SecretBytes;
use tdekit_key_store::{ServiceAnswer, ServiceRequest, VaultKey, read_password_file};
use zeroize::Zeroizing;

use crate::error::{RemoteError, words};
use crate::http::{Answer, Client, server};

/// Types of key that take associated data.
const AUTHENTICATED: [&str; 4] =
    ["aes128-gcm96", "aes256-gcm96", "chacha20-poly1305", "xchacha20-poly1305"];
const MAX_TOKEN_BYTES: usize = 4096;

#[derive(Deserialize)]
struct Response<T> {
    data: T,
}

#[derive(Deserialize)]
struct KeyData {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Ciphertext {
    ciphertext: String,
}

#[derive(Deserialize)]
struct Plaintext {
    #[serde(deserialize_with = "wiped")]
    plaintext: Zeroizing<String>,
}

#[derive(Deserialize)]
struct Errors {
    errors: Vec<String>,
}

/// Wraps a secret.
pub(crate) async fn wrap(
    key: &VaultKey,
    request: &ServiceRequest,
    secret: &SecretBytes,
    deadline: Instant,
) -> Result<ServiceAnswer, RemoteError> {
    let vault = Vault::new(key, deadline)?;
    // Wrapping with a key that does not exist would create it.
    let found = vault.ask(Method::GET, "keys", Zeroizing::default()).await?;
    let bound = match found.status {
        200 => AUTHENTICATED.contains(&parse::<KeyData>(&found)?.kind.as_str()),
        // A token that may use the key need not be allowed to read its properties.
        403 => true,
        404 => {
            let words = "the key or the mount is not there".to_owned();
            return Err(RemoteError::Refused { status: 404, words });
        }
        _ => return Err(vault.refusal(&found)),
    };
    let plaintext = Zeroizing::new(BASE64_STANDARD.encode(secret.expose()));
    let bound_by = if bound { associated_data(request) } else { String::new() };
    let body = Zeroizing::new(format!("{{\"plaintext\":\"{}\"{bound_by}}}", *plaintext));
    let answer = vault.use_key("encrypt", body).await?;
    let output = parse::<Ciphertext>(&answer)?.ciphertext;
    if !output.starts_with("vault:") {
        return Err(RemoteError::Garbage { reason: "no ciphertext of a transit engine" });
    }
    Ok(ServiceAnswer { output: secret_of(output.as_bytes())?, bound })
}

/// Unwraps what [`wrap`] wrapped.
pub(crate) async fn unwrap(
    key: &VaultKey,
    request: &ServiceRequest,
    wrapped: &SecretBytes,
    bound: bool,
    deadline: Instant,
) -> Result<ServiceAnswer, RemoteError> {
    let vault = Vault::new(key, deadline)?;
    let ciphertext = std::str::from_utf8(wrapped.expose()).ok();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '+' | '/' | '=' | '-');
    let Some(ciphertext) = ciphertext.filter(|text| text.chars().all(allowed)) else {
        return Err(RemoteError::Garbage { reason: "the store has no ciphertext of Vault" });
    };
    let bound_by = if bound { associated_data(request) } else { String::new() };
    let body = Zeroizing::new(format!("{{\"ciphertext\":\"{ciphertext}\"{bound_by}}}"));
    let answer = vault.use_key("decrypt", body).await?;
    let plaintext = parse::<Plaintext>(&answer)?.plaintext;
    let output = decoded(&plaintext)?;
    Ok(ServiceAnswer { output, bound })
}

/// Deserializes a text that is wiped when it is dropped.
pub(crate) fn wiped<'de, D: Deserializer<'de>>(from: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(from).map(Zeroizing::new)
}

/// Decodes the secret from Base64.
pub(crate) fn decoded(text: &str) -> Result<SecretBytes, RemoteError> {
    let bytes = BASE64_STANDARD.decode(text).map(Zeroizing::new);
    let bytes = bytes.map_err(|_| RemoteError::Garbage { reason: "a secret that is no Base64" })?;
    secret_of(&bytes)
}

/// Copies the bytes into locked memory.
pub(crate) fn secret_of(bytes: &[u8]) -> Result<SecretBytes, RemoteError> {
    SecretBytes::from_slice(bytes)
        .map_err(|error| RemoteError::System { reason: error.to_string() })
}

fn associated_data(request: &ServiceRequest) -> String {
    let (store, protector) = (&request.store_id, &request.protector_id);
    let bound = format!("tdekit keystore {store} protector {protector}");
    format!(",\"associated_data\":\"{}\"", BASE64_STANDARD.encode(bound))
}

struct Vault<'a> {
    client: Client,
    key: &'a VaultKey,
    server: Url,
    token: Zeroizing<String>,
}

impl<'a> Vault<'a> {
    fn new(key: &'a VaultKey, deadline: Instant) -> Result<Self, RemoteError> {
        let server = server(&key.address)?;
        let client = Client::new(key.ca_file.as_deref(), deadline)?;
        Ok(Self { client, key, server, token: token(key)? })
    }

    async fn use_key(&self, verb: &str, body: Zeroizing<String>) -> Result<Answer, RemoteError> {
        let answer = self.ask(Method::POST, verb, body).await?;
        if answer.status == 200 { Ok(answer) } else { Err(self.refusal(&answer)) }
    }

    async fn ask(
        &self,
        method: Method,
        verb: &str,
        body: Zeroizing<String>,
    ) -> Result<Answer, RemoteError> {
        let make = || async { self.request(method.clone(), verb, &body) };
        self.client.send(make, |_| false).await
    }

    fn request(&self, method: Method, verb: &str, body: &str) -> Result<Request, RemoteError> {
        let mut url = self.server.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.clear().push("v1").extend(self.key.mount.trim_matches('/').split('/'));
            path.push(verb).push(&self.key.key);
        }
        let header = |value: &str, reason| {
            HeaderValue::from_str(value).map_err(|_| RemoteError::Credentials { reason })
        };
        let mut request = Request::new(method, url);
        let mut token = header(&self.token, "the token is none of Vault".to_owned())?;
        token.set_sensitive(true);
        let headers = request.headers_mut();
        headers.insert(HeaderName::from_static("x-vault-token"), token);
        headers
            .insert(HeaderName::from_static("x-vault-request"), HeaderValue::from_static("true"));
        if let Some(namespace) = &self.key.namespace {
            let namespace = header(namespace, "the namespace is none of Vault".to_owned())?;
            headers.insert(HeaderName::from_static("x-vault-namespace"), namespace);
        }
        if !body.is_empty() {
            headers.insert("content-type", HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.to_owned().into());
        }
        Ok(request)
    }

    fn refusal(&self, answer: &Answer) -> RemoteError {
        let said = serde_json::from_slice::<Errors>(&answer.body);
        let said = said.map_or_else(|_| String::new(), |said| said.errors.join("; "));
        let words = words(&said, &[&self.token]);
        RemoteError::Refused { status: answer.status, words }
    }
}

fn parse<'a, T: Deserialize<'a>>(answer: &'a Answer) -> Result<T, RemoteError> {
    let parsed = serde_json::from_slice::<Response<T>>(&answer.body);
    let garbage = |_| RemoteError::Garbage { reason: "no JSON of Vault" };
    parsed.map(|response| response.data).map_err(garbage)
}

/// Returns the token: from the configured file, from `VAULT_TOKEN`, or from Vault's own login.
fn token(key: &VaultKey) -> Result<Zeroizing<String>, RemoteError> {
    let from_file = |path: &std::path::Path| {
        let read = read_password_file(path);
        let token = read.map_err(|error| RemoteError::Credentials { reason: error.to_string() })?;
        let text = String::from_utf8(token.expose().to_vec()).map(Zeroizing::new);
        text.map_err(|_| RemoteError::File {
            path: path.to_owned(),
            reason: "has no token of Vault".to_owned(),
        })
    };
    let token = match (&key.token_file, env::var("VAULT_TOKEN")) {
        (Some(path), _) => from_file(path)?,
        (None, Ok(token)) if !token.trim().is_empty() => {
            let token = Zeroizing::new(token);
            Zeroizing::new(token.trim().to_owned())
        }
        _ => match env::home_dir().map(|home| home.join(".vault-token")) {
            Some(path) if path.is_file() => from_file(&path)?,
            _ => {
                let reason = "set VAULT_TOKEN or name a file with the token".to_owned();
                return Err(RemoteError::Credentials { reason });
            }
        },
    };
    if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
        let reason = "the token of Vault is empty or too long".to_owned();
        return Err(RemoteError::Credentials { reason });
    }
    Ok(token)
}
