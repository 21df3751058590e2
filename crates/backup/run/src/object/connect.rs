//! The client of a store, from an address and the environment.

use std::panic::AssertUnwindSafe;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures_util::FutureExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{
    CredentialProvider, HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse,
    HttpService, ReqwestConnector,
};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::{ClientConfigKey, ClientOptions, HeaderValue, ObjectStore, RetryConfig};
use tdekit_key_store::{as_header, check_token_file, trimmed_variables};
use url::Url;

use super::address::{Address, Scheme};
use super::{ObjectFault, ObjectOptions};

/// The operations of every store.
pub(super) trait Store: ObjectStore + MultipartStore {}

impl<T: ObjectStore + MultipartStore> Store for T {}

/// A client of one bucket.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) store: Arc<dyn Store>,
    /// Lists by any prefix of a name. Without it a whole directory is listed.
    pub(super) list: Option<Arc<dyn PaginatedListStore>>,
    /// While true, an upload is completed only if the object does not exist. `None` if the store's
    /// completion supports no condition: there the object is uploaded under another name and
    /// copied.
    pub(super) only_new: Option<Arc<AtomicBool>>,
    /// True if the store is known to check and write in one step for a conditional request.
    pub(super) keeps_conditions: bool,
}

/// The client does not limit the time of requests: a piece may be large and the line slow. Each
/// request is limited by its caller, who knows its size.
const NO_LIMIT: &str = "1 day";
const CONNECT_LIMIT: &str = "15 seconds";
const CLIENT: [(ClientConfigKey, &str); 2] =
    [(ClientConfigKey::Timeout, NO_LIMIT), (ClientConfigKey::ConnectTimeout, CONNECT_LIMIT)];

/// Makes a client for the store of an address.
pub(super) fn connect(
    address: &Address,
    options: &ObjectOptions,
) -> Result<Connection, ObjectFault> {
    let fault = |error: object_store::Error| ObjectFault::of_settings(&error);
    // Callers retry requests, because they know the meaning of a second try.
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    match address.scheme {
        Scheme::S3 => {
            refuse_plain_http(options)?;
            check_endpoint(options)?;
            let only_new = Arc::new(AtomicBool::new(false));
            let token = check_token_file("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
            token.map_err(|reason| ObjectFault::Configuration { reason })?;
            let mut builder = AmazonS3Builder::new();
            for (key, value) in settings(options, "AWS_", AmazonS3ConfigKey::Client)? {
                builder = builder.with_config(key, value);
            }
            let builder = builder
                .with_retry(retry)
                .with_bucket_name(&address.bucket)
                .with_http_connector(Conditional { only_new: Arc::clone(&only_new) });
            // Amazon's own server does. Some others ignore the condition.
            let keeps_conditions = endpoint(options).is_none();
            let found = builder.clone().build().map_err(fault)?;
            let checked = Arc::new(Checked(Arc::clone(found.credentials())));
            let store = Arc::new(builder.with_credentials(checked).build().map_err(fault)?);
            Ok(Connection::new(store, Some(only_new), keeps_conditions))
        }
        Scheme::Gcs => {
            let mut builder = GoogleCloudStorageBuilder::new();
            // As in the client's own parsing of the environment.
            if let Some(path) = variable(options, "SERVICE_ACCOUNT") {
                builder = builder.with_service_account_path(path);
            }
            for (key, value) in settings(options, "GOOGLE_", GoogleConfigKey::Client)? {
                builder = builder.with_config(key, value);
            }
            let builder = builder.with_retry(retry).with_bucket_name(&address.bucket);
            Ok(Connection::new(Arc::new(builder.build().map_err(fault)?), None, true))
        }
        Scheme::Azure => {
            let mut builder = MicrosoftAzureBuilder::new();
            if let Some(endpoint) = variable(options, "IDENTITY_ENDPOINT") {
                builder = builder.with_msi_endpoint(endpoint);
            }
            for (key, value) in settings(options, "AZURE_", AzureConfigKey::Client)? {
                builder = builder.with_config(key, value);
            }
            let builder = builder.with_retry(retry).with_container_name(&address.bucket);
            Ok(Connection::new(Arc::new(builder.build().map_err(fault)?), None, true))
        }
    }
}

/// Returns the settings: our limits, the environment's variables that begin with `start`, and the
/// caller's. The client would keep trailing line feeds of the environment's.
fn settings<K: FromStr>(
    options: &ObjectOptions,
    start: &str,
    client: impl Fn(ClientConfigKey) -> K,
) -> Result<Vec<(K, String)>, ObjectFault> {
    let unusable = |name: &str| ObjectFault::Configuration {
        reason: format!("{name} has a control character in its value"),
    };
    let limits = CLIENT.map(|(key, value)| (client(key), value.to_owned()));
    let trimmed = trimmed_variables(start).map_err(|name| unusable(&name))?;
    // The client ignores variables that it does not know.
    let trimmed = trimmed
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value)));
    let variables = options.variables.iter().map(|(name, value)| {
        let key = name.to_ascii_lowercase().parse().map_err(|_| ObjectFault::Configuration {
            reason: format!("{name} is no variable of this store"),
        })?;
        let value = as_header(value).ok_or_else(|| unusable(name))?;
        Ok((key, value.to_owned()))
    });
    limits.into_iter().chain(trimmed).map(Ok).chain(variables).collect()
}

impl Connection {
    fn new<S>(store: Arc<S>, only_new: Option<Arc<AtomicBool>>, keeps_conditions: bool) -> Self
    where
        S: ObjectStore + MultipartStore + PaginatedListStore,
    {
        Self { store: Arc::clone(&store) as _, list: Some(store), only_new, keeps_conditions }
    }
}

/// Returns the address of a server other than Amazon's.
fn endpoint(options: &ObjectOptions) -> Option<String> {
    let names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
    names.into_iter().find_map(|name| variable(options, name))
}

fn variable(options: &ObjectOptions, name: &str) -> Option<String> {
    let given = options.variables.iter().find(|(given, _)| given == name);
    let value = given
        .map(|(_, value)| value.clone())
        .or_else(|| std::env::var(name).ok().filter(|value| !value.is_empty()));
    value.map(|value| value.trim().to_owned())
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

/// Makes the request that completes a multipart upload conditional. The client completes without a
/// condition; the header is not part of the signature, as in the client's own conditional requests.
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

#[derive(Debug)]
struct Conditional {
    only_new: Arc<AtomicBool>,
}

impl HttpConnector for Conditional {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(ConditionalClient { inner, only_new: Arc::clone(&self.only_new) }))
    }
}

#[derive(Debug)]
struct ConditionalClient {
    inner: HttpClient,
    only_new: Arc<AtomicBool>,
}

#[async_trait]
impl HttpService for ConditionalClient {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let query = request.uri().query().unwrap_or_default();
        let completes = request.method() == "POST" && query.starts_with("uploadId=");
        if completes && self.only_new.load(Ordering::Acquire) {
            request.headers_mut().insert("if-none-match", HeaderValue::from_static("*"));
        }
        self.inner.execute(request).await
    }
}
