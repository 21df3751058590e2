//! The client of a store, from an address and the environment.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};
use tdekit_key_store::{as_header, trimmed_variables};

use super::address::{Address, Scheme};
use super::lock::Locks;
use super::{ObjectFault, ObjectOptions, aws_files, s3};
use crate::Storage;

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
    /// What the store says of locks; `None` if it is not S3.
    pub(super) locks: Option<Arc<Locks>>,
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
    if options.storage != Storage::default() && !matches!(address.scheme, Scheme::S3) {
        let reason = "an object's lock and its storage class are options on S3 only".to_owned();
        return Err(ObjectFault::Configuration { reason });
    }
    // Callers retry requests, because they know the meaning of a second try.
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    match address.scheme {
        Scheme::S3 => s3::connect(address, options, retry),
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
pub(super) fn settings<K: FromStr>(
    options: &ObjectOptions,
    start: &str,
    client: impl Fn(ClientConfigKey) -> K,
) -> Result<Vec<(K, String)>, ObjectFault> {
    let unusable = |name: &str| ObjectFault::Configuration {
        reason: format!("{name} has a control character in its value"),
    };
    let limits = CLIENT.map(|(key, value)| (client(key), value.to_owned()));
    let trimmed = trimmed_variables(start).map_err(|name| unusable(&name))?;
    // A token belongs to the keys beside it.
    let other_keys = options.variables.iter().any(|(name, _)| name == "AWS_ACCESS_KEY_ID");
    let is_token = |name: &str| matches!(name, "AWS_SESSION_TOKEN" | "AWS_TOKEN");
    // The client ignores variables that it does not know.
    let trimmed = trimmed
        .into_iter()
        .filter(|(name, _)| !(other_keys && is_token(name)))
        .filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value)));
    let given = options.variables.iter();
    let given = given.filter(|(name, _)| !aws_files::NAMES.contains(&name.as_str()));
    let variables = given.map(|(name, value)| {
        let key = name.to_ascii_lowercase().parse().map_err(|_| ObjectFault::Configuration {
            reason: format!("{name} is no variable of this store"),
        })?;
        let value = as_header(value).ok_or_else(|| unusable(name))?;
        Ok((key, value.to_owned()))
    });
    limits.into_iter().chain(trimmed).map(Ok).chain(variables).collect()
}

impl Connection {
    pub(super) fn new<S>(
        store: Arc<S>,
        only_new: Option<Arc<AtomicBool>>,
        keeps_conditions: bool,
    ) -> Self
    where
        S: ObjectStore + MultipartStore + PaginatedListStore,
    {
        let (list, store) = (Some(Arc::clone(&store) as _), store as _);
        Self { store, list, only_new, keeps_conditions, locks: None }
    }
}

/// Returns the value of a variable: the caller's, or the environment's.
pub(super) fn variable(options: &ObjectOptions, name: &str) -> Option<String> {
    let given = options.variables.iter().find(|(given, _)| given == name);
    let value = given
        .map(|(_, value)| value.clone())
        .or_else(|| std::env::var(name).ok().filter(|value| !value.is_empty()));
    value.map(|value| value.trim().to_owned())
}
