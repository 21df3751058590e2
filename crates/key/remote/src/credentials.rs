//! AWS credentials: from the environment, the shared credentials file, or the role of the machine
//! or container.

use std::env;
use std::path::{Path, PathBuf};

use object_store::RetryConfig;
use object_store::aws::{AmazonS3Builder, AwsCredential};
use tdekit_key_store::{AwsKmsKey, AwsProfile, as_header, check_token_file, trimmed_variables};

use crate::error::RemoteError;

/// Returns the credentials for `key`, in the order of AWS's own programs: a named profile, the
/// variables, a web identity, the default profile, the role of the container or the machine.
pub(crate) async fn credential(
    key: &AwsKmsKey,
    region: &str,
) -> Result<AwsCredential, RemoteError> {
    let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    if key.profile.is_none() && (set("AWS_ACCESS_KEY_ID") || set("AWS_WEB_IDENTITY_TOKEN_FILE")) {
        return from_environment(region).await;
    }
    let default = || Some(env::home_dir()?.join(".aws/credentials"));
    let file = key.credentials_file.clone().or_else(default);
    let wanted = key.profile.as_deref().unwrap_or("default");
    let found = file.as_deref().map(|path| from_file(path, wanted)).transpose()?.flatten();
    match found {
        Some(credential) => Ok(credential),
        None if key.profile.is_some() || key.credentials_file.is_some() => {
            let file = file.unwrap_or_else(|| PathBuf::from("~/.aws/credentials"));
            let config = env::var_os("AWS_CONFIG_FILE").map(PathBuf::from);
            let config = config.or_else(|| Some(env::home_dir()?.join(".aws/config")));
            // Only for the reason: what cannot be read has none.
            let read = |path: &Path| AwsProfile::read(path, wanted).ok().flatten();
            let profiles = [read(&file), config.as_deref().and_then(read)];
            let profiles: Vec<_> = profiles.iter().flatten().collect();
            let reason = AwsProfile::no_keys(&file, wanted, &profiles);
            Err(RemoteError::Credentials { reason })
        }
        None => from_environment(region).await,
    }
}

/// Uses the object store client, which supports the variables, web identities and roles.
async fn from_environment(region: &str) -> Result<AwsCredential, RemoteError> {
    let fault = |error: object_store::Error| {
        // The error could contain an answer of a role's server.
        let told = error.to_string();
        let reason = told.lines().next().unwrap_or_default().chars().take(200).collect();
        RemoteError::Credentials { reason }
    };
    check_token_file("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        .map_err(|reason| RemoteError::Credentials { reason })?;
    let retry = RetryConfig { max_retries: 1, ..RetryConfig::default() };
    let trimmed = trimmed_variables("AWS_").map_err(|name| RemoteError::Credentials {
        reason: format!("{name} has a control character in its value"),
    })?;
    let mut builder = AmazonS3Builder::new().with_retry(retry);
    for (name, value) in trimmed {
        // The client ignores variables that it does not know.
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    let store = builder.with_bucket_name("none").with_region(region).build().map_err(fault)?;
    let found = store.credentials().get_credential().await.map_err(fault)?;
    let found = AwsCredential {
        key_id: found.key_id.clone(),
        secret_key: found.secret_key.clone(),
        token: found.token.clone(),
    };
    match fits_headers(&found) {
        true => Ok(found),
        false => Err(RemoteError::Credentials {
            reason: "a value has a control character or begins or ends with a blank".to_owned(),
        }),
    }
}

/// Returns true if the client can put all values into headers; it panics on others.
fn fits_headers(found: &AwsCredential) -> bool {
    let values = [Some(&found.key_id), Some(&found.secret_key), found.token.as_ref()];
    values.into_iter().flatten().all(|value| as_header(value) == Some(value.as_str()))
}

fn from_file(path: &Path, profile: &str) -> Result<Option<AwsCredential>, RemoteError> {
    let found = AwsProfile::read(path, profile)
        .map_err(|error| RemoteError::File { path: path.to_owned(), reason: error.to_string() })?;
    let found = found.unwrap_or_default();
    if found.has_keys() && found.has_role() {
        let reason = AwsProfile::no_keys(path, profile, &[&found]);
        return Err(RemoteError::Credentials { reason });
    }
    let (Some(key_id), Some(secret_key)) = (found.key_id, found.secret_key) else {
        return Ok(None);
    };
    let token = found.token.map(|token| token.to_string());
    Ok(Some(AwsCredential { key_id, secret_key: secret_key.to_string(), token }))
}
