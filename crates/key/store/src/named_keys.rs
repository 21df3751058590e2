//! Named keys of any length, as MySQL's keyring requests them: sealed under a key of their file,
//! which a certificate of the store wraps. Each namespace has a file of its own beside the store,
//! for one server. The format is in `docs/format/named-keys.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tdekit_key_crypto::{NONCE_LEN, SecretBytes, TAG_LEN, hkdf_sha256, random_bytes};

use crate::audit::{AuditAction, AuditEvent, AuditSubject};
use crate::clock::now_seconds;
use crate::derive;
use crate::error::StoreError;
use crate::server_keys::SERVER_KEYS_FILE_NAME;
use crate::signed_file::{SignedFormat, SignedListing, hex_wrapped};
use crate::store::KeyStore;
use crate::unlocked::Unlocked;
use crate::wrapped::WrappedDek;

/// Maximum length of a named key in bytes, as MySQL's own keyring has it.
pub const MAX_NAMED_KEY_LEN: usize = 16384;
/// Maximum length of a key's name, of its owner and of its kind, in bytes.
pub const MAX_KEY_NAME_LEN: usize = 1024;
/// Maximum length of a namespace in bytes.
const MAX_NAMESPACE_LEN: usize = 64;

/// Field of [`StoreError::Corrupt`] for a damaged file of named keys.
pub const NAMED_KEYS: &str = "named keys";

const FILE_PREFIX: &str = "named-keys-";
const FILE_SUFFIX: &str = ".json";
const FILE_KEY_LEN: usize = 32;
const KIND: SignedFormat = SignedFormat {
    field: NAMED_KEYS,
    format: "tdekit named keys",
    version: 1,
    label: b"tdekit named keys v1 signature\n",
};
const COMMITMENT_INFO: &[u8] = b"tdekit named keys v1 commitment";
const SEAL_LABEL: &[u8] = b"tdekit named keys v1 key";

/// The named keys of one namespace, as read. Contains no secret that is not sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedKeys {
    namespace: String,
    file_id: [u8; 16],
    sequence: u64,
    signer: [u8; 32],
    commitment: [u8; 32],
    wrapped: Vec<WrappedDek>,
    keys: BTreeMap<KeyName, NamedKey>,
}

/// The name of a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName {
    /// Its identifier; not empty.
    pub id: String,
    /// The user that it belongs to; empty for a key of the server itself.
    pub owner: String,
}

/// A key, sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedKey {
    /// Its use in the server's words, such as `AES` or `SECRET`.
    pub kind: String,
    /// Creation time, seconds since 1970.
    pub created_at: i64,
    sealed: Vec<u8>,
}

/// A key to be sealed.
#[derive(Debug)]
pub struct NewKey {
    /// Its name.
    pub name: KeyName,
    /// Its use in the server's words.
    pub kind: String,
    /// Its bytes, at most [`MAX_NAMED_KEY_LEN`].
    pub secret: SecretBytes,
}

/// The key of a file of named keys.
#[derive(Debug)]
pub struct FileKey(SecretBytes);

/// Returns true for the files of server keys and of named keys beside a store.
#[must_use]
pub fn is_key_listing(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == SERVER_KEYS_FILE_NAME)
        || namespace_of(path).is_some()
}

/// Returns the namespace whose file of named keys has this name.
#[must_use]
pub fn namespace_of(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let namespace = name.strip_prefix(FILE_PREFIX)?.strip_suffix(FILE_SUFFIX)?;
    is_namespace(namespace).then_some(namespace)
}

impl NamedKey {
    /// Length of the key in bytes.
    #[must_use]
    pub fn key_len(&self) -> usize {
        self.sealed.len().saturating_sub(NONCE_LEN + TAG_LEN)
    }
}

impl NamedKeys {
    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Random bytes that identify the file and never change.
    #[must_use]
    pub fn file_id(&self) -> &[u8; 16] {
        &self.file_id
    }

    /// Number of times the file was written.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// SHA-256 of the certificate that signed the file.
    #[must_use]
    pub fn signer(&self) -> &[u8; 32] {
        &self.signer
    }

    /// The keys, ordered by their names.
    pub fn iter(&self) -> impl Iterator<Item = (&KeyName, &NamedKey)> {
        self.keys.iter()
    }

    /// Number of keys.
    #[must_use]
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Returns true if there is a key of this name.
    #[must_use]
    pub fn contains(&self, name: &KeyName) -> bool {
        self.keys.contains_key(name)
    }

    /// Opens a key; `None` if there is none of this name.
    ///
    /// # Errors
    /// `Corrupt` if it was sealed under another key or for another name.
    pub fn open(
        &self,
        file_key: &FileKey,
        name: &KeyName,
    ) -> Result<Option<(&NamedKey, SecretBytes)>, StoreError> {
        let Some(key) = self.keys.get(name) else { return Ok(None) };
        let aad = self.aad(name, &key.kind, key.created_at);
        let secret = derive::open(&file_key.0, &aad, &key.sealed).ok_or_else(|| {
            KIND.corrupt(&format_args!("the seal of {:?} does not hold", name.id))
        })?;
        Ok(Some((key, secret)))
    }

    fn empty(namespace: &str, wrapped: WrappedDek, key: &FileKey) -> Result<Self, StoreError> {
        let mut file_id = [0; 16];
        random_bytes(&mut file_id)?;
        Ok(Self {
            namespace: namespace.to_owned(),
            file_id,
            sequence: 0,
            signer: [0; 32],
            commitment: commitment(key, &file_id)?,
            wrapped: vec![wrapped],
            keys: BTreeMap::new(),
        })
    }

    fn insert(
        &mut self,
        file_key: &FileKey,
        name: &KeyName,
        kind: &str,
        created_at: i64,
        secret: &SecretBytes,
    ) -> Result<(), StoreError> {
        let aad = self.aad(name, kind, created_at);
        let sealed = derive::seal(&file_key.0, &aad, secret.expose())?;
        let key = NamedKey { kind: kind.to_owned(), created_at, sealed };
        self.keys.insert(name.clone(), key);
        Ok(())
    }

    /// The context that a key's seal is bound to.
    fn aad(&self, name: &KeyName, kind: &str, created_at: i64) -> Vec<u8> {
        let mut aad = [SEAL_LABEL, &self.file_id, &created_at.to_le_bytes()].concat();
        for text in [&name.id, &name.owner, kind] {
            aad.extend_from_slice(&(text.len() as u64).to_le_bytes());
            aad.extend_from_slice(text.as_bytes());
        }
        aad
    }
}

impl KeyStore {
    /// The file of a namespace's keys.
    ///
    /// # Errors
    /// `InvalidValue` for a namespace that is not allowed.
    pub fn named_keys_path(&self, namespace: &str) -> Result<PathBuf, StoreError> {
        if !is_namespace(namespace) {
            return Err(StoreError::InvalidValue {
                what: "namespace",
                value: namespace.to_owned(),
                reason: "1 to 64 letters of a to z, A to Z, 0 to 9, `_` and `-`",
            });
        }
        Ok(self.dir().join(format!("{FILE_PREFIX}{namespace}{FILE_SUFFIX}")))
    }

    /// Reads the keys of a namespace and checks their signature by the store's certificates; needs
    /// no secret. `None` if none have been made. See [`Self::server_keys`] on what that proves.
    ///
    /// # Errors
    /// `InvalidValue`, `Corrupt`, `FutureVersion`, `CertificateMissing` when the signer is not in
    /// the store, `Io`.
    pub fn named_keys(&self, namespace: &str) -> Result<Option<NamedKeys>, StoreError> {
        let keys: Option<NamedKeys> = self.read_signed(&self.named_keys_path(namespace)?)?;
        match keys {
            Some(keys) if keys.namespace != namespace => {
                Err(KIND.corrupt(&format_args!("they are of namespace {:?}", keys.namespace)))
            }
            keys => Ok(keys),
        }
    }

    /// The namespaces that have a file, in order.
    ///
    /// # Errors
    /// `Io`.
    pub fn namespaces(&self) -> Result<Vec<String>, StoreError> {
        let entries = fs::read_dir(self.dir()).map_err(StoreError::io("list", self.dir()))?;
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(StoreError::io("list", self.dir()))?.path();
            found.extend(namespace_of(&path).map(ToOwned::to_owned));
        }
        found.sort_unstable();
        Ok(found)
    }
}

impl Unlocked {
    /// Opens the key of a namespace's file.
    ///
    /// # Errors
    /// Those of [`Self::unwrap_dek`]; `Corrupt` when a different key was wrapped.
    pub fn open_named_keys(&self, keys: &NamedKeys) -> Result<FileKey, StoreError> {
        let key = FileKey(self.unwrap_dek(&keys.wrapped)?);
        if key.0.len() != FILE_KEY_LEN || commitment(&key, &keys.file_id)? != keys.commitment {
            return Err(KIND.corrupt("another key was wrapped"));
        }
        Ok(key)
    }

    /// Adds a key and waits until it is on disk. The certificate wraps the key of a new file, and
    /// signs.
    ///
    /// # Errors
    /// `InvalidValue` for a name that is taken or too long, and for a secret that is too long;
    /// `CertificateMissing`, `CertificateExpired`, `PrivateKeyMissing`; `Locked`,
    /// `MasterKeyChanged`, `Corrupt`, `Io`.
    pub fn add_named_key(
        &self,
        namespace: &str,
        certificate: &str,
        name: &KeyName,
        kind: &str,
        secret: &SecretBytes,
    ) -> Result<NamedKeys, StoreError> {
        let action = AuditAction::Created;
        self.add_all(namespace, certificate, action, &[(name, kind, secret)])
    }

    /// Adds keys that come from another keyring, all of them in one write or none, and waits until
    /// they are on disk.
    ///
    /// # Errors
    /// As [`Self::add_named_key`].
    pub fn add_named_keys(
        &self,
        namespace: &str,
        certificate: &str,
        new: &[NewKey],
    ) -> Result<NamedKeys, StoreError> {
        let new: Vec<_> =
            new.iter().map(|key| (&key.name, key.kind.as_str(), &key.secret)).collect();
        self.add_all(namespace, certificate, AuditAction::Imported, &new)
    }

    fn add_all(
        &self,
        namespace: &str,
        certificate: &str,
        action: AuditAction,
        new: &[(&KeyName, &str, &SecretBytes)],
    ) -> Result<NamedKeys, StoreError> {
        for (name, kind, secret) in new {
            check_name(name, kind)?;
            if secret.len() > MAX_NAMED_KEY_LEN {
                return Err(invalid(name, "has more than 16384 bytes"));
            }
        }
        self.change_named_keys(namespace, certificate, |keys| {
            let file_key = self.open_named_keys(keys)?;
            for (name, kind, secret) in new {
                if keys.contains(name) {
                    return Err(invalid(name, "is there already"));
                }
                keys.insert(&file_key, name, kind, now_seconds(), secret)?;
            }
            Ok(((), new.iter().map(|(name, ..)| event(action, namespace, name)).collect()))
        })
        .map(|(keys, ())| keys)
    }

    /// Removes a key and waits until that is on disk. Returns the keys and whether there was one.
    ///
    /// # Errors
    /// As [`Self::add_named_key`].
    pub fn remove_named_key(
        &self,
        namespace: &str,
        certificate: &str,
        name: &KeyName,
    ) -> Result<(Option<NamedKeys>, bool), StoreError> {
        let before = self.store().named_keys(namespace)?;
        if !before.as_ref().is_some_and(|keys| keys.contains(name)) {
            return Ok((before, false));
        }
        let changed = self.change_named_keys(namespace, certificate, |keys| {
            let was_there = keys.keys.remove(name).is_some();
            Ok((was_there, vec![event(AuditAction::Removed, namespace, name)]))
        });
        changed.map(|(keys, was_there)| (Some(keys), was_there))
    }

    /// Draws a new key of the file, seals all keys under it, and wraps it with this certificate
    /// alone, which signs. Serves a rotated certificate.
    ///
    /// # Errors
    /// `AgentOnlyOpens`; those of [`Self::add_named_key`].
    pub fn rewrap_named_keys(
        &self,
        namespace: &str,
        certificate: &str,
    ) -> Result<NamedKeys, StoreError> {
        self.refuse_agent()?;
        let before = self.store().named_keys(namespace)?;
        let (after, ()) = self.change_named_keys(namespace, certificate, |keys| {
            let (old_key, old) = (self.open_named_keys(keys)?, keys.clone());
            let new_key = FileKey(SecretBytes::random(FILE_KEY_LEN)?);
            keys.commitment = commitment(&new_key, &keys.file_id)?;
            keys.wrapped = vec![self.wrap_dek(certificate, &new_key.0)?];
            for (name, key) in old.iter() {
                let opened = old.open(&old_key, name)?.map(|(_, secret)| secret);
                let secret = opened.ok_or_else(|| KIND.corrupt("a key vanished"))?;
                keys.insert(&new_key, name, &key.kind, key.created_at, &secret)?;
            }
            let of_key = |name| event(AuditAction::Rewrapped, namespace, name);
            Ok(((), old.keys.keys().map(of_key).collect()))
        })?;
        let path = self.store().named_keys_path(namespace)?;
        self.forget_stale(&path, certificate, before.as_ref(), &after)?;
        Ok(after)
    }

    fn change_named_keys<R>(
        &self,
        namespace: &str,
        certificate: &str,
        change: impl FnOnce(&mut NamedKeys) -> Result<(R, Vec<AuditEvent>), StoreError>,
    ) -> Result<(NamedKeys, R), StoreError> {
        let path = self.store().named_keys_path(namespace)?;
        let new = || {
            let key = FileKey(SecretBytes::random(FILE_KEY_LEN)?);
            NamedKeys::empty(namespace, self.wrap_dek(certificate, &key.0)?, &key)
        };
        self.change_signed(&path, certificate, new, |keys: &mut NamedKeys| {
            if keys.namespace != namespace {
                return Err(KIND.corrupt(&format_args!("they are of {:?}", keys.namespace)));
            }
            change(keys)
        })
    }
}

/// An entry of the audit log about a key of a namespace.
fn event(action: AuditAction, namespace: &str, name: &KeyName) -> AuditEvent {
    AuditEvent {
        action,
        subject: AuditSubject::ServerKey,
        id: audit_id(namespace, &name.id),
        name: name.owner.clone(),
        key: None,
    }
}

/// The identifier of a named key in the audit log.
pub(crate) fn audit_id(namespace: &str, id: &str) -> String {
    format!("{namespace}/{id}")
}

fn is_namespace(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !text.is_empty() && text.len() <= MAX_NAMESPACE_LEN && text.bytes().all(allowed)
}

fn check_name(name: &KeyName, kind: &str) -> Result<(), StoreError> {
    if name.id.is_empty() {
        return Err(invalid(name, "is empty"));
    }
    if [&name.id, &name.owner, kind].iter().any(|text| text.len() > MAX_KEY_NAME_LEN) {
        return Err(invalid(name, "has a name, an owner or a kind of more than 1024 bytes"));
    }
    Ok(())
}

/// Returns the commitment that ties a file's key to the file.
fn commitment(key: &FileKey, file_id: &[u8; 16]) -> Result<[u8; 32], StoreError> {
    let mut out = [0; 32];
    hkdf_sha256(key.0.expose(), &[], &[COMMITMENT_INFO, file_id], &mut out)?;
    Ok(out)
}

fn invalid(name: &KeyName, reason: &'static str) -> StoreError {
    StoreError::InvalidValue { what: "key name", value: name.id.clone(), reason }
}

impl SignedListing for NamedKeys {
    const FORMAT: SignedFormat = KIND;

    fn decode(payload: &[u8], signer: [u8; 32]) -> Result<Self, StoreError> {
        let listing: Listing = KIND.parse_json(payload)?;
        let mut keys = BTreeMap::new();
        for entry in listing.keys {
            let (name, key) = entry.into_key()?;
            if keys.insert(name, key).is_some() {
                return Err(KIND.corrupt("a key is there twice"));
            }
        }
        Ok(Self {
            namespace: listing.namespace,
            file_id: KIND.unhex(&listing.file_id)?,
            sequence: listing.sequence,
            signer,
            commitment: KIND.unhex(&listing.commitment)?,
            wrapped: KIND.unhex_wrapped(&listing.wrapped)?,
            keys,
        })
    }

    fn encode(&self) -> Result<Vec<u8>, StoreError> {
        KIND.to_json(&Listing {
            format: KIND.format.to_owned(),
            version: KIND.version,
            namespace: self.namespace.clone(),
            file_id: hex::encode(self.file_id),
            sequence: self.sequence,
            commitment: hex::encode(self.commitment),
            wrapped: hex_wrapped(&self.wrapped)?,
            keys: self.keys.iter().map(|(name, key)| Entry::of(name, key)).collect(),
        })
    }

    fn file_id(&self) -> [u8; 16] {
        self.file_id
    }

    fn written_by(&mut self, signer: [u8; 32]) {
        self.sequence = self.sequence.saturating_add(1);
        self.signer = signer;
    }

    fn wrapped(&self) -> Box<dyn Iterator<Item = &WrappedDek> + '_> {
        Box::new(self.wrapped.iter())
    }
}

/// The first line. Digests, seals and wrapped keys are in hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    format: String,
    version: u16,
    namespace: String,
    file_id: String,
    sequence: u64,
    commitment: String,
    wrapped: Vec<String>,
    keys: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    owner: String,
    kind: String,
    created_at: i64,
    sealed: String,
}

impl Entry {
    fn of(name: &KeyName, key: &NamedKey) -> Self {
        Self {
            id: name.id.clone(),
            owner: name.owner.clone(),
            kind: key.kind.clone(),
            created_at: key.created_at,
            sealed: hex::encode(&key.sealed),
        }
    }

    fn into_key(self) -> Result<(KeyName, NamedKey), StoreError> {
        let sealed = hex::decode(&self.sealed).map_err(|error| KIND.corrupt(&error))?;
        let (name, kind) = (KeyName { id: self.id, owner: self.owner }, self.kind);
        check_name(&name, &kind).map_err(|error| KIND.corrupt(&error))?;
        let longest = NONCE_LEN + MAX_NAMED_KEY_LEN + TAG_LEN;
        if !(NONCE_LEN + TAG_LEN..=longest).contains(&sealed.len()) {
            return Err(KIND.corrupt("a sealed key has a length that none has"));
        }
        Ok((name, NamedKey { kind, created_at: self.created_at, sealed }))
    }
}
