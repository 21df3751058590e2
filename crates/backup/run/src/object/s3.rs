//! The client of S3.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures_util::FutureExt;
use object_store::aws::{
    AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider, Checksum,
};
use object_store::client::{
    CredentialProvider, HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse,
    HttpService, ReqwestConnector,
};
use object_store::{ClientOptions, HeaderValue, RetryConfig};
use tdekit_key_store::{as_header, check_token_file};
use url::Url;

use super::address::Address;
use super::aws_files;
use super::connect::{Connection, settings, variable};
use super::lock::{Lock, Locks};
use super::{ObjectFault, ObjectOptions};

/// The client's own.
const DEFAULT_REGION: &str = "us-east-1";

/// Makes a client for the store of an address.
pub(super) fn connect(
    address: &Address,
    options: &ObjectOptions,
    retry: RetryConfig,
) -> Result<Connection, ObjectFault> {
    let fault = |error: object_store::Error| ObjectFault::of_settings(&error);
    let options = &aws_files::with_profile(options)?;
    refuse_plain_http(options)?;
    check_endpoint(options)?;
    check_class(options)?;
    let only_new = Arc::new(AtomicBool::new(false));
    let token = check_token_file("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    token.map_err(|reason| ObjectFault::Configuration { reason })?;
    let mut client = ClientOptions::new();
    for certificate in aws_files::certificates(options)?.into_iter().flatten() {
        client = client.with_no_system_certificates(true).with_root_certificate(certificate);
    }
    let mut builder = AmazonS3Builder::new().with_client_options(client);
    for (key, value) in settings(options, "AWS_", AmazonS3ConfigKey::Client)? {
        builder = builder.with_config(key, value);
    }
    // Amazon's own server does. Some others ignore the condition.
    let keeps_conditions = endpoint(options).is_none();
    let builder = builder.with_retry(retry).with_bucket_name(&address.bucket);
    let found = builder.clone().build().map_err(fault)?;
    let credentials: AwsCredentialProvider = Arc::new(Checked(Arc::clone(found.credentials())));
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
    let lock = options.storage.lock.map(|lock| {
        let region = region.unwrap_or_else(|| DEFAULT_REGION.to_owned());
        Arc::new(Lock { lock, credentials: Arc::clone(&credentials), region })
    });
    let locks = Arc::new(Locks::default());
    let connector = Connector { only_new: Arc::clone(&only_new), lock, locks: Arc::clone(&locks) };
    let mut builder = builder.with_credentials(credentials).with_http_connector(connector);
    if options.storage.lock.is_some() {
        // Amazon's server wants one with each object that is to be locked.
        builder = builder.with_checksum_algorithm(Checksum::SHA256);
    }
    let store = Arc::new(builder.build().map_err(fault)?);
    let connection = Connection::new(store, Some(only_new), keeps_conditions);
    Ok(Connection { locks: Some(locks), ..connection })
}

/// Returns the address of a server other than Amazon's.
pub(super) fn endpoint(options: &ObjectOptions) -> Option<String> {
    let names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
    names.into_iter().find_map(|name| variable(options, name))
}

/// The client refuses an `http://` endpoint late and without a remedy.
fn refuse_plain_http(options: &ObjectOptions) -> Result<(), ObjectFault> {
    let plain = endpoint(options).is_some_and(|url| url.starts_with("http://"));
    let yes = ["1", "true", "on", "yes", "y"];
    let allowed = variable(options, "AWS_ALLOW_HTTP")
        .is_some_and(|value| yes.iter().any(|yes| value.eq_ignore_ascii_case(yes)));
    if plain && !allowed {
        let reason = "the endpoint is not encrypted (http://); AWS_ALLOW_HTTP=true allows it";
        return Err(ObjectFault::Configuration { reason: reason.to_owned() });
    }
    Ok(())
}

/// Refuses an endpoint that is not the address of a server, because the client would panic.
fn check_endpoint(options: &ObjectOptions) -> Result<(), ObjectFault> {
    let Some(endpoint) = endpoint(options) else { return Ok(()) };
    let parsed = Url::parse(&endpoint).ok();
    match parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
        true => Ok(()),
        false => Err(ObjectFault::Configuration {
            reason: format!("the endpoint {endpoint:?} is not like https://host:port"),
        }),
    }
}

/// Refuses a storage class that is not a word.
fn check_class(options: &ObjectOptions) -> Result<(), ObjectFault> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let word = |class: &String| !class.is_empty() && class.bytes().all(plain);
    match options.storage.class.as_ref().filter(|class| !word(class)) {
        None => Ok(()),
        Some(class) => Err(ObjectFault::Configuration {
            reason: format!("{class:?} is not a storage class, such as STANDARD_IA"),
        }),
    }
}

/// Credentials that the client finds by itself, from the variables or the role of the machine or
/// container. It panics on answers with values that are not valid in a header.
#[derive(Debug)]
struct Checked(AwsCredentialProvider);

#[async_trait]
impl CredentialProvider for Checked {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let refused = |reason: &str| object_store::Error::Generic {
            store: "S3",
            source: format!("the credentials cannot be used: {reason}").into(),
        };
        let asked = AssertUnwindSafe(self.0.get_credential()).catch_unwind().await;
        let found = asked.map_err(|_| refused("the server's answer is not valid"))??;
        let values = [Some(&found.key_id), Some(&found.secret_key), found.token.as_ref()];
        let fits = |value: &&String| as_header(value) == Some(value.as_str());
        let all_fit = values.iter().flatten().all(fits);
        match all_fit {
            true => Ok(found),
            false => Err(refused("a value has a control character or a blank at an end")),
        }
    }
}

/// Makes the request that completes a multipart upload conditional. The client completes without a
/// condition; the header is not part of the signature, as in the client's own conditional requests.
#[derive(Debug)]
struct Connector {
    only_new: Arc<AtomicBool>,
    lock: Option<Arc<Lock>>,
    locks: Arc<Locks>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        let (only_new, lock) = (Arc::clone(&self.only_new), self.lock.clone());
        let locks = Arc::clone(&self.locks);
        Ok(HttpClient::new(ConnectedClient { inner, only_new, lock, locks }))
    }
}

#[derive(Debug)]
struct ConnectedClient {
    inner: HttpClient,
    only_new: Arc<AtomicBool>,
    lock: Option<Arc<Lock>>,
    locks: Arc<Locks>,
}

#[async_trait]
impl HttpService for ConnectedClient {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let query = request.uri().query().unwrap_or_default();
        let completes = request.method() == "POST" && query.starts_with("uploadId=");
        if completes && self.only_new.load(Ordering::Acquire) {
            request.headers_mut().insert("if-none-match", HeaderValue::from_static("*"));
        }
        if let Some(lock) = &self.lock {
            lock.ask(&mut request).await?;
        }
        let is_head = request.method() == "HEAD";
        let response = self.inner.execute(request).await?;
        if is_head {
            self.locks.note(response.headers());
        }
        Ok(response)
    }
}
