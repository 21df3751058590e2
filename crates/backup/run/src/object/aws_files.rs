//! What AWS's own programs read beside the variables of credentials: a profile of the shared files,
//! and the file of a private certificate authority.

use std::env;
use std::path::PathBuf;

use object_store::Certificate;
use tdekit_key_store::{AwsProfile, read_limited};

use super::connect::variable;
use super::s3::endpoint;
use super::{ObjectFault, ObjectOptions};

const PROFILE: &str = "AWS_PROFILE";
const CREDENTIALS: &str = "AWS_SHARED_CREDENTIALS_FILE";
const CONFIG: &str = "AWS_CONFIG_FILE";
const CA: &str = "AWS_CA_BUNDLE";
/// Variables that the client does not know.
pub(super) const NAMES: [&str; 4] = [PROFILE, CREDENTIALS, CONFIG, CA];
const MAX_CA_BYTES: u64 = 1 << 20;

/// Adds the settings of a profile, in the order of AWS's own programs and of the key service: a
/// named profile, the variables of keys, a web identity, the default profile. The variables of
/// region and endpoint come before a profile's.
pub(super) fn with_profile(options: &ObjectOptions) -> Result<ObjectOptions, ObjectFault> {
    let set = |name: &str| variable(options, name).filter(|value| !value.is_empty());
    let named = set(PROFILE);
    let has_keys = ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"].map(set);
    if named.is_none() && has_keys.iter().any(Option::is_some) {
        return Ok(options.clone());
    }
    let wanted = named.as_deref().unwrap_or("default");
    let file = |name: &str, default: &str| {
        set(name).map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(default)))
    };
    let read = |path: &Option<PathBuf>| match path {
        None => Ok(None),
        Some(path) => AwsProfile::read(path, wanted)
            .map_err(|error| ObjectFault::Configuration { reason: error.to_string() }),
    };
    let path = file(CREDENTIALS, ".aws/credentials");
    let credentials = read(&path)?.unwrap_or_default();
    if named.is_none() && set(CREDENTIALS).is_none() && !credentials.has_keys() {
        return Ok(options.clone());
    }
    let config = read(&file(CONFIG, ".aws/config"))?.unwrap_or_default();
    let keys = if credentials.has_keys() { &credentials } else { &config };
    let has_role = credentials.has_role() || config.has_role();
    let (Some(key_id), Some(secret_key), false) = (&keys.key_id, &keys.secret_key, has_role) else {
        let path = path.unwrap_or_else(|| PathBuf::from("~/.aws/credentials"));
        let reason = AwsProfile::no_keys(&path, wanted, &[&credentials, &config]);
        return Err(ObjectFault::Configuration { reason });
    };
    let mut added = vec![
        ("AWS_ACCESS_KEY_ID".to_owned(), key_id.clone()),
        ("AWS_SECRET_ACCESS_KEY".to_owned(), secret_key.to_string()),
    ];
    let token = keys.token.as_ref().map(|token| token.to_string());
    added.extend(token.map(|token| ("AWS_SESSION_TOKEN".to_owned(), token)));
    let region = credentials.region.as_ref().or(config.region.as_ref());
    let has_region = ["AWS_REGION", "AWS_DEFAULT_REGION"].map(set);
    if let (Some(region), [None, None]) = (region, has_region) {
        added.push(("AWS_REGION".to_owned(), region.clone()));
    }
    let server = credentials.endpoint.as_ref().or(config.endpoint.as_ref());
    if let (Some(server), None) = (server, endpoint(options)) {
        added.push(("AWS_ENDPOINT_URL".to_owned(), server.clone()));
    }
    let keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
    let mut options = options.clone();
    options.variables.retain(|(name, _)| !keys.contains(&name.as_str()));
    options.variables.extend(added);
    Ok(options)
}

/// Returns the certificates of the authorities to trust in place of the system's.
pub(super) fn certificates(
    options: &ObjectOptions,
) -> Result<Option<Vec<Certificate>>, ObjectFault> {
    let Some(path) = variable(options, CA).filter(|path| !path.is_empty()) else { return Ok(None) };
    let fault =
        |reason: &str| ObjectFault::Configuration { reason: format!("{path} ({CA}): {reason}") };
    let pem = read_limited(path.as_ref(), MAX_CA_BYTES);
    let pem = pem.map_err(|error| fault(&error.to_string()))?;
    let pem = pem.ok_or_else(|| fault("there is no such file"))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| fault(&error.to_string()))?;
    // Without certificates nothing would be trusted, and the error would blame the server.
    if found.is_empty() { Err(fault("it has no certificate")) } else { Ok(Some(found)) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;

    fn options(variables: &[(&str, &str)]) -> ObjectOptions {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        ObjectOptions { variables: variables.collect(), ..ObjectOptions::default() }
    }

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_profile_is_read_from_both_files() {
        let dir = tempfile::tempdir().unwrap();
        let (keys, config) = (dir.path().join("credentials"), dir.path().join("config"));
        write(&keys, "[prod]\naws_access_key_id = A\naws_secret_access_key = S\n", 0o600);
        let text = "[profile prod]\nregion = eu-west-1\nendpoint_url = https://own:1\n\
                    [profile whole]\naws_access_key_id = B\naws_secret_access_key = T\n\
                    aws_session_token = X\n[profile role]\nrole_arn = arn:aws:iam::1:role/r\n\
                    [profile both]\nrole_arn = arn:two\naws_access_key_id = C\n\
                    aws_secret_access_key = U\n";
        write(&config, text, 0o600);
        let files = [(CREDENTIALS, keys.to_str().unwrap()), (CONFIG, config.to_str().unwrap())];
        let with = |more: &[(&str, &str)]| with_profile(&options(&[&files, more].concat()));
        let of = |more: &[(&str, &str)], name: &str| variable(&with(more).unwrap(), name);
        let key = "AWS_ACCESS_KEY_ID";
        let prod = [(PROFILE, "prod"), (key, "other"), ("AWS_SESSION_TOKEN", "other")];
        assert_eq!(of(&prod, key).as_deref(), Some("A"));
        assert_eq!(of(&prod, "AWS_SESSION_TOKEN"), None);
        assert_eq!(of(&prod, "AWS_REGION").as_deref(), Some("eu-west-1"));
        assert_eq!(of(&prod, "AWS_ENDPOINT_URL").as_deref(), Some("https://own:1"));
        let own = [(PROFILE, "prod"), ("AWS_REGION", "r"), ("AWS_ENDPOINT_URL", "https://two:2")];
        assert_eq!(of(&own, "AWS_REGION").as_deref(), Some("r"));
        assert_eq!(of(&own, "AWS_ENDPOINT_URL").as_deref(), Some("https://two:2"));
        assert_eq!(of(&[(PROFILE, "whole")], "AWS_SESSION_TOKEN").as_deref(), Some("X"));
        assert_eq!(of(&[(key, "mine")], key).as_deref(), Some("mine"));
        for (name, reason) in
            [("role", "the role arn:aws:iam::1:role/r"), ("none", "with keys"), ("both", "arn:two")]
        {
            let refused = with(&[(PROFILE, name)]).unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains(reason), "{refused}");
        }
        for file in [&keys, &config] {
            fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
            let refused = with(&prod).unwrap_err().to_string();
            assert!(refused.contains(file.to_str().unwrap()), "{refused}");
            fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let read = || certificates(&options(&[(CA, path.to_str().unwrap())])).unwrap_err();
        assert!(read().to_string().contains("no such file"));
        fs::write(&path, "nothing").unwrap();
        assert!(read().to_string().contains("no certificate"));
        assert!(certificates(&options(&[])).is_ok());
    }
}
