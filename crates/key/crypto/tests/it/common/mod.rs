//! Reads the known-answer vectors under `tests/vectors/`.

use std::fs;
use std::ops::Deref;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// Bytes written in hexadecimal.
#[derive(Debug, Clone)]
pub(crate) struct Hex(Vec<u8>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        hex::decode(digits).map(Self).map_err(serde::de::Error::custom)
    }
}

impl Deref for Hex {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Reads the vectors of one file. Panics on a file without vectors, so that no test passes by
/// reading nothing.
pub(crate) fn vectors<T: DeserializeOwned>(name: &str) -> Vec<T> {
    #[derive(Deserialize)]
    struct File<T> {
        vectors: Vec<T>,
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/vectors").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file: File<T> = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(!file.vectors.is_empty(), "{name} has no vectors");
    file.vectors
}
