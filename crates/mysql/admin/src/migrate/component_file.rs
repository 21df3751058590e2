//! The file of `component_keyring_file`: JSON with the keys in the clear.

use serde::{Deserialize, Serialize};
use tdekit_key_store::{KeyName, NewKey, SecretBytes};

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

pub(super) fn read(bytes: &[u8]) -> Result<Vec<NewKey>, String> {
    let text: KeyringFile = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if text.version != VERSION {
        return Err(format!("it has version {:?}", text.version));
    }
    let key = |element: Element| {
        let bytes = hex::decode(&element.data).map_err(|error| error.to_string())?;
        let secret = SecretBytes::from_slice(&bytes).map_err(|error| error.to_string())?;
        let name = KeyName { id: element.data_id, owner: element.user };
        Ok(NewKey { name, kind: element.data_type, secret })
    };
    text.elements.into_iter().map(key).collect()
}

pub(super) fn write(keys: &[NewKey]) -> Result<Vec<u8>, String> {
    let element = |key: &NewKey| Element {
        user: key.name.owner.clone(),
        data_id: key.name.id.clone(),
        data_type: key.kind.clone(),
        data: hex::encode_upper(key.secret.expose()),
        extension: Vec::new(),
    };
    let elements = keys.iter().map(element).collect();
    let text = KeyringFile { version: VERSION.to_owned(), elements };
    serde_json::to_vec(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_a_keyring_is_refused() {
        let wrong = [
            "",
            "{}",
            r#"{"version":"2.0","elements":[]}"#,
            r#"{"version":"1.0","elements":[{"user":"","data_id":"k","data_type":"AES"}]}"#,
            r#"{"version":"1.0","elements":[
                {"user":"","data_id":"k","data_type":"AES","data":"0g","extension":[]}]}"#,
        ];
        for text in wrong {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
        let text = r#"{"version":"1.0","elements":[
            {"user":"ann","data_id":"k","data_type":"AES","data":"0A0b","extension":[]}]}"#;
        let keys = read(text.as_bytes()).unwrap();
        assert_eq!((keys.len(), keys[0].secret.expose()), (1, &[10, 11][..]));
        assert_eq!((keys[0].name.owner.as_str(), keys[0].kind.as_str()), ("ann", "AES"));
    }
}
