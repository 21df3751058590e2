//! Making, rotating and dropping certificates.

use std::collections::HashSet;
use std::path::PathBuf;

use tdekit_key_crypto::{KeyType, PrivateKey, SecretBytes, sha256, x509};

use crate::certificate::CertificateInfo;
use crate::clock::{iso8601, now_seconds};
use crate::derive::{PrivateKeyPlace, StoreKeys};
use crate::error::StoreError;
use crate::file::{CertificateRecord, StoreFile, check_name};
use crate::store::KeyStore;
use crate::unlocked::Unlocked;
use crate::uses::Use;

/// The properties of a new certificate.
#[derive(Debug, Clone)]
pub struct NewCertificate<'a> {
    /// Name in the store.
    pub name: &'a str,
    /// Common name of the subject, at most 64 characters. Without it, a new certificate takes its
    /// name, a rotated one its predecessor's.
    pub subject: Option<&'a str>,
    /// Type of the key pair. Without it, a new certificate has an EC key, a rotated one the type of
    /// its predecessor.
    pub key_type: Option<KeyType>,
    /// End of validity, seconds since 1970.
    pub expires_at: i64,
}

/// The result of a rotation.
#[derive(Debug, Clone)]
pub struct Rotation {
    /// The previously active generation; it still unwraps.
    pub old: CertificateInfo,
    /// The generation that is active now.
    pub new: CertificateInfo,
    /// The files known to be wrapped by older generations, whose headers should be rewrapped.
    pub files: Vec<Use>,
}

impl Unlocked {
    /// Makes a key pair and a self-signed certificate.
    ///
    /// # Errors
    /// `CertificateExists`, `InvalidValue`, `Locked`, `MasterKeyChanged`, `Io`.
    pub fn create_certificate(
        &mut self,
        new: &NewCertificate<'_>,
    ) -> Result<CertificateInfo, StoreError> {
        refuse_bad_name(new.name)?;
        if self.store().certificates().iter().any(|info| info.name == new.name) {
            return Err(StoreError::CertificateExists { name: new.name.to_owned() });
        }
        let key_type = new.key_type.unwrap_or_default();
        let made = Made::new(new, new.subject.unwrap_or(new.name), key_type)?;
        let sealed = self.seal(&made)?;
        let sha256 = made.sha256;
        self.update(|file, current| {
            if current.certificates().iter().any(|info| info.name == new.name) {
                return Err(StoreError::CertificateExists { name: new.name.to_owned() });
            }
            file.certificates.push(made.record(new.name, 1, sealed));
            Ok(())
        })?;
        self.info(&sha256)
    }

    /// Makes a new key pair and certificate under an existing name. The old generation is kept for
    /// unwrapping.
    ///
    /// # Errors
    /// `AgentOnlyOpens`, `CertificateMissing`; those of [`Self::create_certificate`].
    pub fn rotate_certificate(&mut self, new: &NewCertificate<'_>) -> Result<Rotation, StoreError> {
        self.refuse_agent()?;
        let old = active_of(self.store(), new.name)?.clone();
        let inherited = old.common_name.as_deref().unwrap_or(&old.name);
        let key_type = new.key_type.unwrap_or_else(|| old.key_type());
        let made = Made::new(new, new.subject.unwrap_or(inherited), key_type)?;
        let sealed = self.seal(&made)?;
        let sha256 = made.sha256;
        let old = self.update(|file, current| {
            let old = active_of(current, new.name)?.clone();
            let of_name = |record: &&mut CertificateRecord| record.name == new.name;
            let mut newest = 0;
            for record in file.certificates.iter_mut().filter(of_name) {
                record.active = false;
                newest = newest.max(record.generation);
            }
            let generation = newest.checked_add(1).ok_or(StoreError::InvalidValue {
                what: "certificate name",
                value: new.name.to_owned(),
                reason: "was rotated too often",
            })?;
            file.certificates.push(made.record(new.name, generation, sealed));
            Ok(old)
        })?;
        let mut files = Vec::new();
        for info in self.store().certificates() {
            if info.name == new.name && !info.active {
                files.extend(self.store().uses_of(&info.sha256)?);
            }
        }
        Ok(Rotation { old, new: self.info(&sha256)?, files })
    }

    /// Removes all generations of a name, or the single certificate with a thumbprint.
    ///
    /// # Errors
    /// Unless `force`: `CertificateInUse` when it wraps keys of known files, `NotBackedUp` when its
    /// private key is in no backup (an unknown file may need it). `InvalidValue` for the thumbprint
    /// of an active generation that has older ones; `CertificateMissing`, `AgentOnlyOpens`.
    pub fn drop_certificate(
        &mut self,
        name_or_thumbprint: &str,
        force: bool,
    ) -> Result<Vec<CertificateInfo>, StoreError> {
        self.refuse_agent()?;
        self.update(|file, current| {
            let doomed = current.find_all(name_or_thumbprint)?;
            let (mut files, mut forgotten) = (Vec::new(), 0);
            for info in &doomed {
                files.extend(current.uses_of(&info.sha256)?);
                forgotten += current.forgotten_uses_of(&info.sha256)?;
            }
            let files = paths_of(files);
            let name = doomed.first().map(|info| info.name.clone()).unwrap_or_default();
            if (!files.is_empty() || forgotten > 0) && !force {
                return Err(StoreError::CertificateInUse { name, files, forgotten });
            }
            if let Some(info) = doomed.iter().find(|info| info.needs_backup() && !force) {
                let (name, thumbprint) = (info.name.clone(), info.thumbprint());
                return Err(StoreError::NotBackedUp { name, thumbprint });
            }
            let digests: Vec<_> = doomed.iter().map(|info| info.sha256).collect();
            remove(file, &digests);
            let left: Vec<_> = file.certificates.iter().filter(|r| r.name == name).collect();
            if !left.is_empty() && left.iter().all(|record| !record.active) {
                return Err(StoreError::InvalidValue {
                    what: "certificate",
                    value: name_or_thumbprint.to_owned(),
                    reason: "is the active generation: rotate it first, or drop the whole name",
                });
            }
            Ok(doomed.into_iter().cloned().collect())
        })
    }

    /// Records that a certificate and its private key were written to a backup that is on disk.
    ///
    /// # Errors
    /// `CertificateMissing`, `Locked`, `MasterKeyChanged`, `Io`.
    pub fn mark_backed_up(&mut self, sha256: &[u8; 32]) -> Result<(), StoreError> {
        self.update(|file, current| {
            let at = current.certificates().iter().position(|info| info.sha256 == *sha256);
            match at.and_then(|at| file.certificates.get_mut(at)) {
                Some(record) => {
                    record.backed_up_at = Some(now_seconds());
                    Ok(())
                }
                None => Err(StoreError::CertificateMissing { wanted: vec![hex::encode(sha256)] }),
            }
        })
    }

    pub(crate) fn info(&self, sha256: &[u8; 32]) -> Result<CertificateInfo, StoreError> {
        let missing = || StoreError::CertificateMissing { wanted: vec![hex::encode(sha256)] };
        self.store().by_sha256(sha256).cloned().ok_or_else(missing)
    }

    /// Seals a new key before the lock is taken. The update that follows refuses a store whose
    /// master key has changed by then.
    fn seal(&self, made: &Made) -> Result<Vec<u8>, StoreError> {
        seal_private_key(self.keys(), self.store().file(), &made.sha256, &made.pkcs8)
    }
}

/// Returns the paths of the files without duplicates, existing files first.
fn paths_of(mut uses: Vec<Use>) -> Vec<PathBuf> {
    uses.sort_by_cached_key(Use::is_missing);
    let mut seen = HashSet::new();
    uses.retain(|known| seen.insert(known.path.clone()));
    uses.into_iter().map(|known| known.path).collect()
}

pub(crate) fn seal_private_key(
    keys: &StoreKeys,
    file: &StoreFile,
    certificate_sha256: &[u8; 32],
    pkcs8: &SecretBytes,
) -> Result<Vec<u8>, StoreError> {
    let place = PrivateKeyPlace {
        store_id: &file.store_id,
        master_key_id: &file.master_key.id,
        certificate_sha256,
    };
    keys.seal_private_key(&place, pkcs8)
}

pub(crate) fn refuse_bad_name(name: &str) -> Result<(), StoreError> {
    // Commands would take it for an option. Stores that are read may have one.
    let dashed = name.starts_with('-').then_some("begins with a dash");
    check_name(name).and(dashed.map_or(Ok(()), Err)).map_err(|reason| StoreError::InvalidValue {
        what: "certificate name",
        value: name.to_owned(),
        reason,
    })
}

fn active_of<'a>(store: &'a KeyStore, name: &str) -> Result<&'a CertificateInfo, StoreError> {
    let active = store.certificates().iter().find(|info| info.name == name && info.active);
    active.ok_or_else(|| StoreError::CertificateMissing { wanted: vec![name.to_owned()] })
}

fn remove(file: &mut StoreFile, digests: &[[u8; 32]]) {
    file.certificates.retain(|record| !digests.contains(&sha256(&[&record.der])));
}

/// A new certificate that is not in a store yet.
struct Made {
    der: Vec<u8>,
    sha256: [u8; 32],
    pkcs8: SecretBytes,
    created_at: i64,
}

impl Made {
    fn new(new: &NewCertificate<'_>, subject: &str, key_type: KeyType) -> Result<Self, StoreError> {
        let created_at = now_seconds();
        if subject.is_empty() || subject.chars().count() > x509::MAX_COMMON_NAME_CHARS {
            return Err(StoreError::InvalidValue {
                what: "subject",
                value: subject.to_owned(),
                reason: "has not between 1 and 64 characters",
            });
        }
        if new.expires_at <= created_at {
            return Err(StoreError::InvalidValue {
                what: "expiry",
                value: iso8601(new.expires_at),
                reason: "is not in the future",
            });
        }
        let key = PrivateKey::generate(key_type)?;
        let der = x509::self_signed(&key, subject, created_at, new.expires_at)?;
        Ok(Self { sha256: sha256(&[&der]), pkcs8: key.to_pkcs8()?, der, created_at })
    }

    fn record(self, name: &str, generation: u32, sealed: Vec<u8>) -> CertificateRecord {
        CertificateRecord {
            name: name.to_owned(),
            generation,
            active: true,
            created_at: self.created_at,
            backed_up_at: None,
            der: self.der,
            sealed_private_key: Some(sealed),
        }
    }
}
