//! Numbered keys with versions, as database servers request them: each wrapped by a certificate of
//! the store, in a separate file beside it. The format is in `docs/format/server-keys.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tdekit_key_crypto::{SecretBytes, hkdf_sha256, random_bytes};

use crate::audit::{AuditAction, AuditEvent, AuditSubject};
use crate::clock::now_seconds;
use crate::error::StoreError;
use crate::signed_file::{SignedFormat, SignedListing, hex_wrapped};
use crate::store::KeyStore;
use crate::unlocked::Unlocked;
use crate::wrapped::WrappedDek;

/// Name of the file in the store's directory.
pub const SERVER_KEYS_FILE_NAME: &str = "server-keys.json";

/// Length of a server key in bytes.
pub const SERVER_KEY_LEN: usize = 32;

/// The derivation of versions that were made when it was the only one.
pub const FIRST_DERIVATION: u8 = 1;
/// The newest derivation, which new versions have where nothing else is asked for.
pub const NEWEST_DERIVATION: u8 = 3;

/// The newest derivation whose pages are under HCTR2.
const HCTR2_DERIVATION: u8 = 2;

const KIND: SignedFormat = SignedFormat {
    field: SERVER_KEYS_FILE_NAME,
    format: "tdekit server keys",
    version: VERSION,
    label: b"tdekit server keys v1 signature\n",
};
/// The newest version of the format. A file has the version that introduced its newest derivation,
/// so a program that does not know the derivation reports that the file is newer than itself.
const VERSION: u16 = 3;
const _: () = assert!(VERSION == NEWEST_DERIVATION as u16);
const COMMITMENT_INFO: &[u8] = b"tdekit server keys v1 commitment";

/// The numbered keys of a store, as read. Contains no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerKeys {
    file_id: [u8; 16],
    sequence: u64,
    signer: [u8; 32],
    keys: BTreeMap<u32, Vec<ServerKeyVersion>>,
}

/// One version of a numbered key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerKeyVersion {
    /// 1 for the first, incremented for each that follows.
    pub version: u32,
    /// Creation time, seconds since 1970.
    pub created_at: i64,
    /// How keys are derived from it, and for which ciphers: `docs/format/mariadb.md`. From
    /// [`FIRST_DERIVATION`] to [`NEWEST_DERIVATION`]; it never changes.
    pub derivation: u8,
    /// The key, wrapped by one or more certificates.
    pub wrapped: Vec<WrappedDek>,
    commitment: [u8; 32],
}

/// Cipher of pages under new versions of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PageCipher {
    /// The wide block over GMAC, of our own: `docs/crypto.md`.
    Gmac,
    /// HCTR2, published and reviewed (Crowley, Huckleberry, Biggers 2021), at twice the time.
    Hctr2,
}

impl PageCipher {
    /// Returns the cipher of a derivation.
    #[must_use]
    pub const fn of_derivation(derivation: u8) -> Self {
        match derivation {
            FIRST_DERIVATION | HCTR2_DERIVATION => Self::Hctr2,
            _ => Self::Gmac,
        }
    }

    /// Returns its name in listings and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gmac => "gmac",
            Self::Hctr2 => "hctr2",
        }
    }

    /// Returns the newest derivation with this cipher.
    const fn derivation(self) -> u8 {
        match self {
            Self::Gmac => NEWEST_DERIVATION,
            Self::Hctr2 => HCTR2_DERIVATION,
        }
    }
}

impl ServerKeys {
    /// Random bytes that identify the file and never change.
    #[must_use]
    pub fn file_id(&self) -> &[u8; 16] {
        &self.file_id
    }

    /// Numbers of the existing keys.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.keys.keys().copied()
    }

    /// All versions of a key, oldest first; empty if the key does not exist.
    #[must_use]
    pub fn versions(&self, id: u32) -> &[ServerKeyVersion] {
        self.keys.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The newest version of a key.
    #[must_use]
    pub fn latest(&self, id: u32) -> Option<u32> {
        self.versions(id).last().map(|newest| newest.version)
    }

    /// One version of a key.
    #[must_use]
    pub fn version(&self, id: u32, version: u32) -> Option<&ServerKeyVersion> {
        let at = usize::try_from(version.checked_sub(1)?).ok()?;
        self.versions(id).get(at)
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
}

impl KeyStore {
    /// The file of the server keys.
    #[must_use]
    pub fn server_keys_path(&self) -> PathBuf {
        self.dir().join(SERVER_KEYS_FILE_NAME)
    }

    /// Reads the server keys and checks their signature by the store's certificates; needs no
    /// secret. `None` if none have been made.
    ///
    /// Anybody who can write to the store's directory could put certificates of their own into a
    /// store that was only read; the store of [`Unlocked::store`] is known to be genuine.
    ///
    /// # Errors
    /// `Corrupt`, `FutureVersion`, `CertificateMissing` when the signer is not in the store, `Io`.
    pub fn server_keys(&self) -> Result<Option<ServerKeys>, StoreError> {
        self.read_signed(&self.server_keys_path())
    }
}

impl Unlocked {
    /// Opens one version of a server key; `None` when it is not among `keys`.
    ///
    /// # Errors
    /// Those of [`Self::unwrap_dek`]; `Corrupt` when a different key was wrapped.
    pub fn server_key(
        &self,
        keys: &ServerKeys,
        id: u32,
        version: u32,
    ) -> Result<Option<SecretBytes>, StoreError> {
        let Some(record) = keys.version(id, version) else { return Ok(None) };
        let key = self.unwrap_dek(&record.wrapped)?;
        if key.len() != SERVER_KEY_LEN {
            return Err(corrupt(&format_args!("key {id} is not of {SERVER_KEY_LEN} bytes")));
        }
        if commitment(&key, id, version)? != record.commitment {
            return Err(corrupt(&format_args!("version {version} of key {id} is another key")));
        }
        Ok(Some(key))
    }

    /// Makes the first version of key `id`, wrapped by a certificate, with the cipher of pages that
    /// is asked for: by default the one of the newest version of the key with the least number.
    ///
    /// # Errors
    /// `InvalidValue` for a number that is in use or not allowed; `CertificateMissing`,
    /// `CertificateExpired`, `PrivateKeyMissing`; `Locked`, `Corrupt`, `Io`.
    pub fn create_server_key(
        &self,
        id: u32,
        name_or_thumbprint: &str,
        pages: Option<PageCipher>,
    ) -> Result<ServerKeys, StoreError> {
        if id == 0 || id == u32::MAX {
            return Err(invalid(id, "is 1 to 4294967294"));
        }
        self.change_server_keys(name_or_thumbprint, |keys| match keys.keys.contains_key(&id) {
            true => Err(invalid(id, "is there already; `rotate` adds a version")),
            false => self.push_version(keys, id, name_or_thumbprint, pages),
        })
    }

    /// Adds a version to key `id`, with the cipher of pages that is asked for: by default the one
    /// of the newest version, unless that has counter mode for logs. The older ones stay: files
    /// that were written under them, and backups of these files, need them for ever.
    ///
    /// # Errors
    /// `InvalidValue` for a key that does not exist; as [`Self::create_server_key`].
    pub fn rotate_server_key(
        &self,
        id: u32,
        name_or_thumbprint: &str,
        pages: Option<PageCipher>,
    ) -> Result<ServerKeys, StoreError> {
        self.change_server_keys(name_or_thumbprint, |keys| match keys.keys.contains_key(&id) {
            false => Err(invalid(id, "is not there; `key create` makes it")),
            true => self.push_version(keys, id, name_or_thumbprint, pages),
        })
    }

    /// Wraps every version with this certificate alone and signs the file with it, for example with
    /// the new generation of a rotated certificate.
    ///
    /// # Errors
    /// `AgentOnlyOpens`; those of [`Self::server_key`] and [`Self::create_server_key`].
    pub fn rewrap_server_keys(&self, name_or_thumbprint: &str) -> Result<ServerKeys, StoreError> {
        self.refuse_agent()?;
        let before = self.store().server_keys()?;
        let after = self.change_server_keys(name_or_thumbprint, |keys| {
            let current = keys.clone();
            for (id, versions) in &mut keys.keys {
                for record in versions {
                    let key = self.server_key(&current, *id, record.version)?;
                    let key = key.ok_or_else(|| corrupt("a version vanished"))?;
                    record.wrapped = vec![self.wrap_dek(name_or_thumbprint, &key)?];
                }
            }
            Ok(())
        })?;
        let path = self.store().server_keys_path();
        self.forget_stale(&path, name_or_thumbprint, before.as_ref(), &after)?;
        Ok(after)
    }

    fn push_version(
        &self,
        keys: &mut ServerKeys,
        id: u32,
        name_or_thumbprint: &str,
        pages: Option<PageCipher>,
    ) -> Result<(), StoreError> {
        let like = keys.versions(id).last().or_else(|| keys.keys.values().next()?.last());
        let like = like.filter(|newest| newest.derivation != FIRST_DERIVATION);
        let like = like.map_or(PageCipher::Gmac, |it| PageCipher::of_derivation(it.derivation));
        let versions = keys.keys.entry(id).or_default();
        let newest = versions.last().map_or(0, |newest| newest.version);
        let version = newest.checked_add(1).filter(|version| *version < u32::MAX);
        let version = version.ok_or_else(|| invalid(id, "was rotated too often"))?;
        let key = SecretBytes::random(SERVER_KEY_LEN)?;
        versions.push(ServerKeyVersion {
            version,
            created_at: now_seconds(),
            derivation: pages.unwrap_or(like).derivation(),
            commitment: commitment(&key, id, version)?,
            wrapped: vec![self.wrap_dek(name_or_thumbprint, &key)?],
        });
        Ok(())
    }

    /// Changes the current file on disk, under the writer lock.
    fn change_server_keys(
        &self,
        signer: &str,
        change: impl FnOnce(&mut ServerKeys) -> Result<(), StoreError>,
    ) -> Result<ServerKeys, StoreError> {
        let path = self.store().server_keys_path();
        let changed = self.change_signed(&path, signer, ServerKeys::empty, |keys| {
            let before = keys.numbers();
            change(keys)?;
            Ok(((), server_key_events(&before, keys)))
        });
        changed.map(|(keys, ())| keys)
    }
}

/// Log entries of a change: number and version of new keys, or all keys if they were rewrapped.
fn server_key_events(before: &[(u32, u32)], after: &ServerKeys) -> Vec<AuditEvent> {
    let versions = after.numbers();
    let came: Vec<_> = versions.iter().filter(|version| !before.contains(version)).collect();
    let event = |action, (id, version): &(u32, u32)| AuditEvent {
        action,
        subject: AuditSubject::ServerKey,
        id: format!("{id}.{version}"),
        name: String::new(),
        key: None,
    };
    if came.is_empty() {
        return versions.iter().map(|it| event(AuditAction::Rewrapped, it)).collect();
    }
    let action = |version: &(u32, u32)| match version.1 {
        1 => AuditAction::Created,
        _ => AuditAction::Rotated,
    };
    came.into_iter().map(|version| event(action(version), version)).collect()
}

impl ServerKeys {
    /// Number and version of each key.
    fn numbers(&self) -> Vec<(u32, u32)> {
        let of_key = |(id, versions): (&u32, &Vec<ServerKeyVersion>)| {
            versions.iter().map(|it| (*id, it.version)).collect::<Vec<_>>()
        };
        self.keys.iter().flat_map(of_key).collect()
    }

    fn empty() -> Result<Self, StoreError> {
        let mut file_id = [0; 16];
        random_bytes(&mut file_id)?;
        Ok(Self { file_id, sequence: 0, signer: [0; 32], keys: BTreeMap::new() })
    }
}

impl SignedListing for ServerKeys {
    const FORMAT: SignedFormat = KIND;

    fn decode(payload: &[u8], signer: [u8; 32]) -> Result<Self, StoreError> {
        KIND.parse_json::<Listing>(payload)?.into_keys(signer)
    }

    fn encode(&self) -> Result<Vec<u8>, StoreError> {
        KIND.to_json(&Listing::of(self)?)
    }

    fn file_id(&self) -> [u8; 16] {
        self.file_id
    }

    fn written_by(&mut self, signer: [u8; 32]) {
        self.sequence = self.sequence.saturating_add(1);
        self.signer = signer;
    }

    fn wrapped(&self) -> Box<dyn Iterator<Item = &WrappedDek> + '_> {
        Box::new(self.keys.values().flatten().flat_map(|version| &version.wrapped))
    }
}

/// Returns the commitment that ties a key to its number and version.
fn commitment(key: &SecretBytes, id: u32, version: u32) -> Result<[u8; 32], StoreError> {
    let mut out = [0; 32];
    let info: [&[u8]; 3] = [COMMITMENT_INFO, &id.to_le_bytes(), &version.to_le_bytes()];
    hkdf_sha256(key.expose(), &[], &info, &mut out)?;
    Ok(out)
}

/// The first line. Digests and wrapped keys are in hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    format: String,
    version: u16,
    file_id: String,
    sequence: u64,
    keys: Vec<KeyEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    id: u32,
    versions: Vec<VersionEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionEntry {
    version: u32,
    created_at: i64,
    /// Omitted for the first derivation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    derivation: Option<u8>,
    commitment: String,
    wrapped: Vec<String>,
}

impl Listing {
    fn of(keys: &ServerKeys) -> Result<Self, StoreError> {
        let version = |record: &ServerKeyVersion| -> Result<VersionEntry, StoreError> {
            Ok(VersionEntry {
                version: record.version,
                created_at: record.created_at,
                derivation: Some(record.derivation).filter(|one| *one != FIRST_DERIVATION),
                commitment: hex::encode(record.commitment),
                wrapped: hex_wrapped(&record.wrapped)?,
            })
        };
        let key = |(id, versions): (&u32, &Vec<ServerKeyVersion>)| {
            let versions = versions.iter().map(version).collect::<Result<_, StoreError>>()?;
            Ok(KeyEntry { id: *id, versions })
        };
        let newest = keys.keys.values().flatten().map(|one| one.derivation).max();
        Ok(Self {
            format: KIND.format.to_owned(),
            version: newest.unwrap_or(FIRST_DERIVATION).into(),
            file_id: hex::encode(keys.file_id),
            sequence: keys.sequence,
            keys: keys.keys.iter().map(key).collect::<Result<_, StoreError>>()?,
        })
    }

    fn into_keys(self, signer: [u8; 32]) -> Result<ServerKeys, StoreError> {
        let (file_id, sequence) = (KIND.unhex(&self.file_id)?, self.sequence);
        let mut keys = BTreeMap::new();
        for entry in self.keys {
            let id = entry.id;
            if id == 0 || id == u32::MAX || entry.versions.is_empty() {
                return Err(corrupt(&format_args!("key {id} is not allowed or has no version")));
            }
            let newer = |version: &VersionEntry| {
                version.derivation.is_some_and(|derivation| u16::from(derivation) > self.version)
            };
            if entry.versions.iter().any(newer) {
                return Err(corrupt(&format_args!("key {id} has what its format does not know")));
            }
            let versions: Vec<_> =
                entry.versions.into_iter().map(version_of).collect::<Result<_, _>>()?;
            let in_order = (1..).zip(&versions).all(|(at, one)| one.version == at);
            if !in_order || keys.insert(id, versions).is_some() {
                return Err(corrupt(&format_args!("key {id} is there twice, or out of order")));
            }
        }
        Ok(ServerKeys { file_id, sequence, signer, keys })
    }
}

fn version_of(entry: VersionEntry) -> Result<ServerKeyVersion, StoreError> {
    let derivation = entry.derivation.unwrap_or(FIRST_DERIVATION);
    if !(FIRST_DERIVATION..=NEWEST_DERIVATION).contains(&derivation) {
        return Err(corrupt(&format_args!("derivation {derivation} is not known")));
    }
    Ok(ServerKeyVersion {
        version: entry.version,
        created_at: entry.created_at,
        derivation,
        commitment: KIND.unhex(&entry.commitment)?,
        wrapped: KIND.unhex_wrapped(&entry.wrapped)?,
    })
}

fn corrupt(reason: &(impl std::fmt::Display + ?Sized)) -> StoreError {
    KIND.corrupt(reason)
}

fn invalid(id: u32, reason: &'static str) -> StoreError {
    StoreError::InvalidValue { what: "server key", value: id.to_string(), reason }
}
