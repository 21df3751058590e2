//! A store as anyone may read it: certificates and wrapping need no secret.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tdekit_key_crypto::password::PasswordParams;
use tdekit_key_crypto::{SecretBytes, random_bytes, x509};

use crate::certificate::{CertificateInfo, select, select_one};
use crate::clock::{iso8601, now_seconds};
use crate::disk;
use crate::error::StoreError;
use crate::file::{CertificateRecord, MAX_FILE_BYTES, MasterKeyRecord, Protector, StoreFile};
use crate::protector_kind::ProtectorKind;
use crate::provider::{Binding, Unlock};
use crate::wrapped::{WrapMechanism, WrappedDek};

/// Name of the store file in its directory.
pub const STORE_FILE_NAME: &str = "keystore.tdk";
/// File name of the history of backups beside a store.
pub const HISTORY_FILE_NAME: &str = "history.db";

/// Returns true if a file is the history beside a key store: a SQLite database, but not a user's.
#[must_use]
pub fn is_history(path: &Path) -> bool {
    path.ends_with(HISTORY_FILE_NAME) && path.with_file_name(STORE_FILE_NAME).is_file()
}

/// The directory of the user's store: `TDEKIT_HOME`, else `tdekit` in `XDG_DATA_HOME` or in
/// `~/.local/share`.
///
/// # Errors
/// `NoHome` when none of these is set.
pub fn default_dir() -> Result<PathBuf, StoreError> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = variable("TDEKIT_HOME") {
        return Ok(dir);
    }
    // The XDG base directory specification says that relative paths are ignored.
    let data = variable("XDG_DATA_HOME").filter(|dir| dir.is_absolute());
    // A service's home often does not exist, and must not be created.
    let home = || env::home_dir().filter(|home| home.is_dir());
    let data = data.or_else(|| Some(home()?.join(".local/share")));
    data.map(|data| data.join("tdekit")).ok_or(StoreError::NoHome)
}

/// A store that was read. It is a snapshot: later writes by others are not seen.
///
/// Its digest was checked, which detects damage; only [`Self::unlock`] detects tampering.
#[derive(Debug, Clone)]
pub struct KeyStore {
    dir: PathBuf,
    bytes: Vec<u8>,
    file: StoreFile,
    certificates: Vec<CertificateInfo>,
}

impl KeyStore {
    /// Reads the store in `dir`. Needs no secret.
    ///
    /// # Errors
    /// `Missing`, `Corrupt`, `FutureVersion`, `Io`.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(STORE_FILE_NAME);
        match disk::read_ordinary(&path, MAX_FILE_BYTES)? {
            Some(bytes) => Self::from_bytes(dir, bytes),
            None => Err(StoreError::Missing { path }),
        }
    }

    /// Reads a backup that [`crate::Unlocked::backup`] made, as the store that it would be in
    /// `dir`.
    ///
    /// # Errors
    /// `Corrupt`, `FutureVersion`.
    pub fn from_backup(dir: &Path, bytes: Vec<u8>) -> Result<Self, StoreError> {
        Self::from_bytes(dir, bytes)
    }

    pub(crate) fn from_bytes(dir: &Path, bytes: Vec<u8>) -> Result<Self, StoreError> {
        let file = StoreFile::decode(&bytes)?;
        let certificates = file
            .certificates
            .iter()
            .map(|record| {
                CertificateInfo::of(record)
                    .map_err(|error| StoreError::corrupt("certificate", error.to_string()))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { dir: dir.to_owned(), bytes, file, certificates })
    }

    /// The store's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the mode of the directory if it lets others add or remove files.
    #[must_use]
    pub fn exposed_mode(&self) -> Option<u32> {
        let mode = fs::metadata(&self.dir).ok()?.permissions().mode() & 0o7777;
        (mode & 0o022 != 0).then_some(mode)
    }

    /// The store file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.join(STORE_FILE_NAME)
    }

    /// The content of the store file.
    #[must_use]
    pub fn file(&self) -> &StoreFile {
        &self.file
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All certificates with all their generations, in the order in which they were added.
    #[must_use]
    pub fn certificates(&self) -> &[CertificateInfo] {
        &self.certificates
    }

    /// The active generation of the certificate with this name, or the certificate with this
    /// SHA-1 or SHA-256 thumbprint (hexadecimal digits, with or without `0x`).
    ///
    /// # Errors
    /// `CertificateMissing`.
    pub fn find(&self, name_or_thumbprint: &str) -> Result<&CertificateInfo, StoreError> {
        select_one(&self.certificates, name_or_thumbprint)
    }

    /// All generations of the certificate with this name, or the one with this thumbprint.
    ///
    /// # Errors
    /// `CertificateMissing`.
    pub fn find_all(&self, name_or_thumbprint: &str) -> Result<Vec<&CertificateInfo>, StoreError> {
        select(&self.certificates, name_or_thumbprint)
    }

    /// The certificate with this SHA-256.
    #[must_use]
    pub fn by_sha256(&self, sha256: &[u8; 32]) -> Option<&CertificateInfo> {
        self.certificates.iter().find(|info| info.sha256 == *sha256)
    }

    pub(crate) fn record(&self, sha256: &[u8; 32]) -> Option<&CertificateRecord> {
        let at = self.certificates.iter().position(|info| info.sha256 == *sha256)?;
        self.file.certificates.get(at)
    }

    /// Returns the certificate's X.509 DER, for another machine that only wraps.
    ///
    /// # Errors
    /// `CertificateMissing`.
    pub fn certificate_der(&self, name_or_thumbprint: &str) -> Result<&[u8], StoreError> {
        let info = self.find(name_or_thumbprint)?;
        let missing = || StoreError::CertificateMissing { wanted: vec![info.thumbprint()] };
        self.record(&info.sha256).map(|record| record.der.as_slice()).ok_or_else(missing)
    }

    /// Wraps a key of at most 190 bytes for a certificate. Needs no secret.
    ///
    /// Anybody who can write to the store's directory could put a certificate of their own into a
    /// store that was only read. Where the store is unlocked, [`crate::Unlocked::wrap_dek`] rules
    /// that out.
    ///
    /// # Errors
    /// `CertificateMissing`, `CertificateExpired`, `Crypto` for the key's length.
    pub fn wrap_dek(
        &self,
        name_or_thumbprint: &str,
        dek: &SecretBytes,
    ) -> Result<WrappedDek, StoreError> {
        let info = self.find(name_or_thumbprint)?;
        if info.not_after < now_seconds() {
            let expired_at = iso8601(info.not_after);
            return Err(StoreError::CertificateExpired { name: info.name.clone(), expired_at });
        }
        let facts = x509::parse(self.certificate_der(name_or_thumbprint)?)?;
        Ok(WrappedDek {
            mechanism: WrapMechanism::of(&facts.public_key),
            sha256: info.sha256,
            sha1: info.sha1,
            public_key_sha256: info.public_key_sha256,
            blob: facts.public_key.wrap(dek.expose())?,
        })
    }

    /// The kinds of secret that open the store.
    #[must_use]
    pub fn accepts(&self) -> Vec<ProtectorKind> {
        let mut kinds = Vec::new();
        for protector in &self.file.master_key.protectors {
            if !kinds.contains(&protector.kind) {
                kinds.push(protector.kind);
            }
        }
        kinds
    }

    /// Returns true if a generation of the certificate of this name signed.
    ///
    /// # Errors
    /// `CertificateMissing`.
    pub fn is_generation_of(&self, name: &str, signer: &[u8; 32]) -> Result<bool, StoreError> {
        Ok(self.find_all(name)?.iter().any(|info| info.sha256 == *signer))
    }

    /// Returns the protectors of a kind, each with its binding.
    pub(crate) fn protectors_of(
        &self,
        kind: ProtectorKind,
    ) -> impl Iterator<Item = (&Protector, Binding)> {
        let record = &self.file.master_key;
        let of_kind = move |protector: &&Protector| protector.kind == kind;
        record.protectors.iter().filter(of_kind).map(|protector| {
            let binding = Binding {
                store_id: self.file.store_id,
                master_key_id: record.id,
                protector_id: protector.id,
                created_at: protector.created_at,
            };
            (protector, binding)
        })
    }
}

/// Makes a record, with a new identifier, of a master key that `secret` opens.
pub(crate) fn new_master_key_record(
    master_key: &SecretBytes,
    store_id: [u8; 16],
    secret: &Unlock,
    cost: PasswordParams,
) -> Result<MasterKeyRecord, StoreError> {
    let id = random_id()?;
    let protector = new_protector(master_key, store_id, id, secret, cost)?;
    Ok(MasterKeyRecord { id, created_at: protector.created_at, protectors: vec![protector] })
}

/// Seals a master key for `secret`.
pub(crate) fn new_protector(
    master_key: &SecretBytes,
    store_id: [u8; 16],
    master_key_id: [u8; 16],
    secret: &Unlock,
    cost: PasswordParams,
) -> Result<Protector, StoreError> {
    let binding =
        Binding { store_id, master_key_id, protector_id: random_id()?, created_at: now_seconds() };
    secret.with_provider(cost, |provider| provider.seal(master_key, &binding))
}

pub(crate) fn random_id() -> Result<[u8; 16], StoreError> {
    let mut id = [0; 16];
    random_bytes(&mut id)?;
    Ok(id)
}
