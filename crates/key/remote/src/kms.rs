//! AWS KMS: `Encrypt` and `Decrypt` of its JSON interface, signed by Signature Version 4.
//!
//! The encryption context binds the wrapped secret to the store. It is not secret: AWS writes it
//! into its usage log.

use std::time::Instant;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpRequest, HttpRequestBody};
use reqwest::header::HeaderValue;
use reqwest::{Method, Request, Url};
use serde::Deserialize;
use tdekit_key_crypto::SecretBytes;
use tdekit_key_store::{AwsKmsKey, ServiceAnswer, ServiceRequest};
use zeroize::Zeroizing;

use crate::credentials::credential;
use crate::error::{RemoteError, words};
use crate::http::{Answer, Client, server};
use crate::vault::{decoded, secret_of, wiped};

/// Error types of KMS after which a retry may succeed.
const TRANSIENT: [&str; 5] = [
    "ThrottlingException",
    "RequestLimitExceeded",
    "KMSInternalException",
    "DependencyTimeoutException",
    "KeyUnavailableException",
];

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Ciphertext {
    ciphertext_blob: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Plaintext {
    #[serde(deserialize_with = "wiped")]
    plaintext: Zeroizing<String>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "__type")]
    kind: String,
    #[serde(alias = "Message", default)]
    message: Option<String>,
}

/// Wraps a secret.
pub(crate) async fn wrap(
    key: &AwsKmsKey,
    request: &ServiceRequest,
    secret: &SecretBytes,
    deadline: Instant,
) -> Result<ServiceAnswer, RemoteError> {
    let plaintext = Zeroizing::new(BASE64_STANDARD.encode(secret.expose()));
    let body = body(key, request, "Plaintext", &plaintext);
    let answer = Kms::new(key, deadline).await?.ask("Encrypt", body).await?;
    let blob = parse::<Ciphertext>(&answer)?.ciphertext_blob;
    Ok(ServiceAnswer { output: decoded(&blob)?, bound: true })
}

/// Unwraps what [`wrap`] wrapped.
pub(crate) async fn unwrap(
    key: &AwsKmsKey,
    request: &ServiceRequest,
    wrapped: &SecretBytes,
    deadline: Instant,
) -> Result<ServiceAnswer, RemoteError> {
    let blob = BASE64_STANDARD.encode(wrapped.expose());
    let body = body(key, request, "CiphertextBlob", &blob);
    let answer = Kms::new(key, deadline).await?.ask("Decrypt", body).await?;
    let output = decoded(&parse::<Plaintext>(&answer)?.plaintext)?;
    Ok(ServiceAnswer { output: secret_of(output.expose())?, bound: true })
}

/// All values have been checked to need no escape.
fn body(key: &AwsKmsKey, request: &ServiceRequest, name: &str, value: &str) -> Zeroizing<String> {
    let (arn, store, protector) = (&key.key, &request.store_id, &request.protector_id);
    Zeroizing::new(format!(
        "{{\"KeyId\":\"{arn}\",\"{name}\":\"{value}\",\
         \"EncryptionAlgorithm\":\"SYMMETRIC_DEFAULT\",\"EncryptionContext\":\
         {{\"tdekit-keystore\":\"{store}\",\"tdekit-protector\":\"{protector}\"}}}}"
    ))
}

struct Kms<'a> {
    client: Client,
    server: Url,
    region: &'a str,
    credential: AwsCredential,
}

impl<'a> Kms<'a> {
    async fn new(key: &'a AwsKmsKey, deadline: Instant) -> Result<Self, RemoteError> {
        let named = key.partition_and_region();
        let (partition, region) =
            named.ok_or(RemoteError::Garbage { reason: "no ARN of a key" })?;
        let server = match (&key.endpoint, partition) {
            (Some(endpoint), _) => server(endpoint)?,
            (None, "aws" | "aws-us-gov") => server(&format!("https://kms.{region}.amazonaws.com"))?,
            (None, "aws-cn") => server(&format!("https://kms.{region}.amazonaws.com.cn"))?,
            (None, _) => {
                return Err(RemoteError::Address {
                    address: key.key.clone(),
                    reason: "is of a partition whose servers are not known: name an endpoint",
                });
            }
        };
        let client = Client::new(key.ca_file.as_deref(), deadline)?;
        Ok(Self { client, server, region, credential: credential(key, region).await? })
    }

    async fn ask(&self, verb: &str, body: Zeroizing<String>) -> Result<Answer, RemoteError> {
        let make = || async { self.request(verb, &body) };
        let transient = |answer: &Answer| {
            refusal(answer).is_some_and(|(kind, _)| TRANSIENT.contains(&kind.as_str()))
        };
        let answer = self.client.send(make, transient).await?;
        if answer.status == 200 {
            return Ok(answer);
        }
        let said = refusal(&answer).map(|(kind, message)| format!("{kind}: {message}"));
        let token = self.credential.token.as_deref().unwrap_or_default();
        let secrets = [token, self.credential.secret_key.as_str()];
        let words = words(&said.unwrap_or_default(), &secrets);
        Err(RemoteError::Refused { status: answer.status, words })
    }

    fn request(&self, verb: &str, body: &str) -> Result<Request, RemoteError> {
        let system = |reason: String| RemoteError::System { reason };
        let mut signed = HttpRequest::new(HttpRequestBody::from(body.as_bytes().to_vec()));
        *signed.method_mut() = Method::POST;
        let uri = self.server.as_str().parse();
        *signed.uri_mut() = uri.map_err(|_| system("the address is no address".to_owned()))?;
        let target = HeaderValue::from_str(&format!("TrentService.{verb}"));
        let target = target.map_err(|error| system(error.to_string()))?;
        signed.headers_mut().insert("x-amz-target", target);
        let json = HeaderValue::from_static("application/x-amz-json-1.1");
        signed.headers_mut().insert("content-type", json);
        AwsAuthorizer::new(&self.credential, "kms", self.region)
            .try_authorize(&mut signed, None)
            .map_err(|error| system(words(&error.to_string(), &[&self.credential.secret_key])))?;
        let mut request = Request::new(Method::POST, self.server.clone());
        *request.headers_mut() = signed.headers().clone();
        for name in ["authorization", "x-amz-security-token"] {
            if let Some(value) = request.headers_mut().get_mut(name) {
                value.set_sensitive(true);
            }
        }
        *request.body_mut() = Some(body.to_owned().into());
        Ok(request)
    }
}

/// Returns type and message of a refusal.
fn refusal(answer: &Answer) -> Option<(String, String)> {
    if answer.status == 200 {
        return None;
    }
    let refusal: Refusal = serde_json::from_slice(&answer.body).ok()?;
    // Some servers prefix the type with its namespace.
    let kind = refusal.kind.rsplit('#').next().unwrap_or_default().to_owned();
    Some((kind, refusal.message.unwrap_or_default()))
}

fn parse<'a, T: Deserialize<'a>>(answer: &'a Answer) -> Result<T, RemoteError> {
    let parsed = serde_json::from_slice(&answer.body);
    parsed.map_err(|_| RemoteError::Garbage { reason: "no JSON of AWS KMS" })
}
