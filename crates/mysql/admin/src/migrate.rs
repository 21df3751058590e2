//! Keys from and to MySQL's own keyring in a file, `component_keyring_file`: JSON with the keys in
//! the clear.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tdekit_key_store::{
    KeyName, NamedKeys, NewKey, SecretBytes, Unlocked, read_ordinary, write_new,
};

use crate::error::MysqlError;

const MAX_BYTES: u64 = 64 << 20;
/// The version of the file that MySQL 8.0 to 9.7 write.
const VERSION: &str = "1.0";

/// The file.
#[derive(Serialize, Deserialize)]
struct KeyringFile {
    version: String,
    elements: Vec<Element>,
}

/// A key in the file.
#[derive(Serialize, Deserialize)]
struct Element {
    user: String,
    data_id: String,
    data_type: String,
    /// Hexadecimal digits.
    data: String,
    /// Of no use to the file's component; kept empty.
    #[serde(default)]
    extension: Vec<serde_json::Value>,
}

/// Adds the keys of a keyring file to a namespace: all of them in one write, or none. Reads each
/// back and compares it. The file stays as it is. Returns the number of keys.
///
/// # Errors
/// `KeyringFile`; `Store` if a name is taken; `NotTheSame`.
pub fn import_keyring_file(
    store: &Unlocked,
    file: &Path,
    namespace: &str,
    certificate: &str,
) -> Result<usize, MysqlError> {
    let keys = read(file)?;
    let stored = store.add_named_keys(namespace, certificate, &keys)?;
    compare(store, &stored, &keys, &format!("namespace {namespace}"))?;
    Ok(keys.len())
}

/// Writes all keys of a namespace to a new keyring file, in the clear, readable by its owner only.
/// Reads it back and compares each key. Returns the number of keys.
///
/// # Errors
/// `NoKeys`, `NotTheSame`; `Store` if the file exists.
pub fn export_keyring_file(
    store: &Unlocked,
    namespace: &str,
    file: &Path,
) -> Result<usize, MysqlError> {
    let none = || MysqlError::NoKeys { namespace: namespace.to_owned() };
    let stored = store.store().named_keys(namespace)?.ok_or_else(none)?;
    let file_key = store.open_named_keys(&stored)?;
    let mut elements = Vec::new();
    for (name, _) in stored.iter() {
        let Some((key, secret)) = stored.open(&file_key, name)? else { continue };
        elements.push(Element {
            user: name.owner.clone(),
            data_id: name.id.clone(),
            data_type: key.kind.clone(),
            data: hex::encode_upper(secret.expose()),
            extension: Vec::new(),
        });
    }
    let text = KeyringFile { version: VERSION.to_owned(), elements };
    let bytes = serde_json::to_vec(&text).map_err(|error| wrong(file, &error))?;
    write_new(file, &bytes)?;
    let keys = read(file)?;
    if keys.len() != stored.count() {
        return Err(MysqlError::NotTheSame { place: file.display().to_string() });
    }
    compare(store, &stored, &keys, &file.display().to_string())?;
    Ok(keys.len())
}

/// Compares keys with those of a namespace.
fn compare(
    store: &Unlocked,
    stored: &NamedKeys,
    keys: &[NewKey],
    place: &str,
) -> Result<(), MysqlError> {
    let file_key = store.open_named_keys(stored)?;
    for key in keys {
        let found = stored.open(&file_key, &key.name)?;
        let same = found.is_some_and(|(found, secret)| {
            found.kind == key.kind && secret.ct_eq(key.secret.expose())
        });
        if !same {
            return Err(MysqlError::NotTheSame { place: place.to_owned() });
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<Vec<NewKey>, MysqlError> {
    let none = || wrong(file, &"there is no such file");
    let bytes = read_ordinary(file, MAX_BYTES)?.ok_or_else(none)?;
    let text: KeyringFile = serde_json::from_slice(&bytes).map_err(|error| wrong(file, &error))?;
    if text.version != VERSION {
        return Err(wrong(file, &format_args!("it has version {:?}", text.version)));
    }
    let key = |element: Element| {
        let bytes = hex::decode(&element.data).map_err(|error| wrong(file, &error))?;
        let secret = SecretBytes::from_slice(&bytes).map_err(tdekit_key_store::StoreError::from)?;
        let name = KeyName { id: element.data_id, owner: element.user };
        Ok(NewKey { name, kind: element.data_type, secret })
    };
    text.elements.into_iter().map(key).collect()
}

fn wrong(file: &Path, reason: &impl std::fmt::Display) -> MysqlError {
    MysqlError::KeyringFile { path: file.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_a_keyring_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keyring");
        assert!(matches!(read(&path), Err(MysqlError::KeyringFile { .. })));
        let wrong = [
            "",
            "{}",
            r#"{"version":"2.0","elements":[]}"#,
            r#"{"version":"1.0","elements":[{"user":"","data_id":"k","data_type":"AES"}]}"#,
            r#"{"version":"1.0","elements":[
                {"user":"","data_id":"k","data_type":"AES","data":"0g","extension":[]}]}"#,
        ];
        for text in wrong {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(read(&path), Err(MysqlError::KeyringFile { .. })), "{text}");
        }
        let text = r#"{"version":"1.0","elements":[
            {"user":"ann","data_id":"k","data_type":"AES","data":"0A0b","extension":[]}]}"#;
        std::fs::write(&path, text).unwrap();
        let keys = read(&path).unwrap();
        assert_eq!((keys.len(), keys[0].secret.expose()), (1, &[10, 11][..]));
        assert_eq!((keys[0].name.owner.as_str(), keys[0].kind.as_str()), ("ann", "AES"));
    }
}
