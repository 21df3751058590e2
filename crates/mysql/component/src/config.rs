//! The component's configuration: a JSON file beside its library, or in the data directory.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tdekit_key_store::read_ordinary;

use crate::ComponentError;

/// Name of the configuration file.
pub const CONFIG_FILE: &str = "component_keyring_tdekit.cnf";

const MAX_BYTES: u64 = 64 << 10;

/// The place of the keys, and the secret that opens them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Directory of the key store.
    pub store: PathBuf,
    /// The namespace in which the server's keys lie; one for each server.
    pub namespace: String,
    /// Name of the certificate that wraps and signs them.
    pub certificate: String,
    /// File with the store's password; without this and the next field, the environment or the
    /// store's `config.toml` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// File with the key that opens the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
}

/// A file beside the library that leaves the rest to each server's data directory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadLocal {
    read_local_config: bool,
}

impl Config {
    /// Reads the file in the plugin directory; where it says `{"read_local_config": true}`, the one
    /// in the data directory.
    ///
    /// # Errors
    /// `NoConfig`, `Config`; `Store` if a file cannot be read.
    pub fn find(plugins: &Path, data: &Path) -> Result<Self, ComponentError> {
        let path = plugins.join(CONFIG_FILE);
        let bytes = read(&path)?;
        match serde_json::from_slice(&bytes) {
            Ok(ReadLocal { read_local_config: true }) => {
                let path = data.join(CONFIG_FILE);
                Self::parse(&path, &read(&path)?)
            }
            _ => Self::parse(&path, &bytes),
        }
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ComponentError> {
        let wrong = |reason| ComponentError::Config { path: path.to_owned(), reason };
        let config: Self =
            serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        let paths = [Some(&config.store), config.password_file.as_ref(), config.key_file.as_ref()];
        // The server changes its directory while it starts.
        if let Some(relative) = paths.into_iter().flatten().find(|path| !path.is_absolute()) {
            return Err(wrong(format!("{} is not an absolute path", relative.display())));
        }
        if config.password_file.is_some() && config.key_file.is_some() {
            return Err(wrong("it has both password_file and key_file".to_owned()));
        }
        Ok(config)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ComponentError> {
    let no_config = || ComponentError::NoConfig { path: path.to_owned() };
    read_ordinary(path, MAX_BYTES)?.ok_or_else(no_config)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const WHOLE: &str = r#"{"store": "/s", "namespace": "n", "certificate": "C"}"#;

    #[test]
    fn the_file_beside_the_library_counts_or_hands_over() {
        let (plugins, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let find = || Config::find(plugins.path(), data.path());
        assert!(matches!(find(), Err(ComponentError::NoConfig { .. })));
        let path = plugins.path().join(CONFIG_FILE);
        fs::write(&path, WHOLE).unwrap();
        let config = find().unwrap();
        assert_eq!((config.store, config.password_file), ("/s".into(), None));
        fs::write(&path, r#"{"read_local_config": true}"#).unwrap();
        assert!(
            matches!(find(), Err(ComponentError::NoConfig { path }) if path.starts_with(&data))
        );
        fs::write(data.path().join(CONFIG_FILE), WHOLE).unwrap();
        assert_eq!(find().unwrap().namespace, "n");
        // The data directory's file may not hand over again.
        fs::copy(&path, data.path().join(CONFIG_FILE)).unwrap();
        assert!(matches!(find(), Err(ComponentError::Config { .. })));
    }

    #[test]
    fn an_unknown_or_unfit_field_is_an_error() {
        let wrong = [
            "",
            "{}",
            r#"{"read_local_config": false}"#,
            r#"{"store": "s", "namespace": "n", "certificate": "C"}"#,
            r#"{"store": "/s", "namespace": "n", "certificate": "C", "passwordfile": "/p"}"#,
            r#"{"store": "/s", "namespace": "n", "certificate": "C", "key_file": "k"}"#,
            r#"{"store": "/s", "namespace": "n", "certificate": "C", "key_file": "/k",
                "password_file": "/p"}"#,
        ];
        for text in wrong {
            let refused = Config::parse(Path::new("/c"), text.as_bytes());
            assert!(matches!(refused, Err(ComponentError::Config { .. })), "{text}");
        }
    }
}
