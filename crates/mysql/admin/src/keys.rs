//! The keys that servers keep in a store. Never a key itself.

use serde::Serialize;
use tdekit_key_store::{KeyStore, iso8601};

use crate::error::MysqlError;

/// The keys of a namespace.
#[derive(Debug, Serialize)]
pub struct NamespaceShown {
    /// The namespace.
    pub namespace: String,
    /// The certificate that signed them, with its generation.
    pub certificate: String,
    /// Number of times they were written.
    pub sequence: u64,
    /// The keys, ordered by their names.
    pub keys: Vec<KeyShown>,
}

/// A key.
#[derive(Debug, Serialize)]
pub struct KeyShown {
    /// Its identifier.
    pub id: String,
    /// The user that it belongs to; empty for the server itself.
    pub owner: String,
    /// Its use in the server's words.
    pub kind: String,
    /// Its length in bytes.
    pub len_bytes: usize,
    /// Creation time.
    pub created_at: String,
}

/// Returns the keys of one namespace, or of all.
///
/// # Errors
/// Errors of the key store.
pub fn keys(store: &KeyStore, namespace: Option<&str>) -> Result<Vec<NamespaceShown>, MysqlError> {
    let spaces = match namespace {
        Some(one) => vec![one.to_owned()],
        None => store.namespaces()?,
    };
    let mut shown = Vec::new();
    for space in spaces {
        let Some(keys) = store.named_keys(&space)? else { continue };
        let info = store.by_sha256(keys.signer());
        let certificate = info.map(|info| format!("{} ({})", info.name, info.generation));
        let of_key =
            |(name, key): (&tdekit_key_store::KeyName, &tdekit_key_store::NamedKey)| KeyShown {
                id: name.id.clone(),
                owner: name.owner.clone(),
                kind: key.kind.clone(),
                len_bytes: key.key_len(),
                created_at: iso8601(key.created_at),
            };
        shown.push(NamespaceShown {
            namespace: space,
            certificate: certificate.unwrap_or_default(),
            sequence: keys.sequence(),
            keys: keys.iter().map(of_key).collect(),
        });
    }
    Ok(shown)
}
