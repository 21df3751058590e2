//! AWS credentials: from the environment, the shared credentials file, or the role of the machine
//! or container.

use std::env;
use std::path::{Path, PathBuf};

use object_store::RetryConfig;
use object_store::aws::{AmazonS3Builder, AwsCredential};
use tdekit_key_store::{
    AwsKmsKey, as_header, check_token_file, read_private_file, trimmed_variables,
};
use zeroize::Zeroizing;

use crate::error::RemoteError;

const MAX_FILE_BYTES: u64 = 256 << 10;

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
            let reason = format!("{} has no profile {wanted:?} with keys", file.display());
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
    let fault = |reason: String| RemoteError::File { path: path.to_owned(), reason };
    let bytes =
        read_private_file(path, MAX_FILE_BYTES).map_err(|error| fault(error.to_string()))?;
    let Some(bytes) = bytes.map(Zeroizing::new) else { return Ok(None) };
    let text = std::str::from_utf8(&bytes).map_err(|_| fault("is no text".to_owned()))?;
    let found = profile_of(text, profile);
    if !found.iter().all(fits_headers) {
        return Err(fault("has a control character in a value".to_owned()));
    }
    Ok(found)
}

/// The keys of a profile in a shared credentials file.
fn profile_of(text: &str, profile: &str) -> Option<AwsCredential> {
    let (mut key_id, mut secret_key, mut token) = (None, None, None);
    let mut within = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            within = name.trim() == profile;
        } else if let (true, Some((name, value))) = (within, line.split_once('=')) {
            let value = Some(value.trim().to_owned());
            match name.trim() {
                "aws_access_key_id" => key_id = value,
                "aws_secret_access_key" => secret_key = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(AwsCredential { key_id: key_id?, secret_key: secret_key?, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_none_of_a_header_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials");
        let keys = "[default]\naws_access_key_id = A\naws_secret_access_key = S\n";
        for (more, fits) in [("", true), ("aws_session_token = a\u{1}b\n", false)] {
            std::fs::write(&path, format!("{keys}{more}")).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            assert_eq!(from_file(&path, "default").is_ok(), fits, "{more:?}");
        }
    }

    #[test]
    fn a_profile_gives_its_own_keys() {
        let text = "# comment\n[default]\naws_access_key_id = A\naws_secret_access_key=S=+/\n\n\
                    [ prod ]\r\naws_access_key_id=B\naws_secret_access_key = T\n\
                    aws_session_token = X\nregion = eu-west-1\n[half]\naws_access_key_id=C\n";
        let default = profile_of(text, "default").unwrap();
        assert_eq!((default.key_id.as_str(), default.secret_key.as_str()), ("A", "S=+/"));
        assert_eq!(default.token, None);
        let prod = profile_of(text, "prod").unwrap();
        assert_eq!((prod.key_id.as_str(), prod.token.as_deref()), ("B", Some("X")));
        assert!(profile_of(text, "half").is_none() && profile_of(text, "none").is_none());
    }
}
