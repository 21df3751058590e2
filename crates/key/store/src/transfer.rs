//! Certificates in transit to another store: PEM and PKCS#12.

use std::io;
use std::path::Path;

use tdekit_key_crypto::pem::{self, PemKey};
use tdekit_key_crypto::x509::OwnSignature;
use tdekit_key_crypto::{
    CryptoError, PrivateKey, SecretBytes, pkcs12, sha1_thumbprint, sha256, x509,
};

use crate::audit::{self, AuditAction};
use crate::certificate::CertificateInfo;
use crate::clock::now_seconds;
use crate::disk::read_limited;
use crate::error::StoreError;
use crate::file::CertificateRecord;
use crate::manage::{refuse_bad_name, seal_private_key};
use crate::unlocked::Unlocked;
use crate::wrapped::{WrappedDek, thumbprint};

/// Maximum size of a file for [`read_certificate_file`].
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a file with a certificate or its key.
///
/// # Errors
/// `Io`, also for a file that is too long.
pub fn read_certificate_file(path: &Path) -> Result<Vec<u8>, StoreError> {
    read_limited(path, MAX_FILE_BYTES)?
        .ok_or_else(|| StoreError::io("open", path)(io::ErrorKind::NotFound.into()))
}

/// A certificate and its private key as PEM texts.
#[derive(Debug)]
pub struct PemBackup {
    /// The certificate.
    pub certificate: String,
    /// The private key, encrypted by the backup's password (PKCS#8, PBES2).
    pub private_key: String,
}

/// A certificate that was read from a backup, with its private key if the backup has it.
#[derive(Debug)]
pub struct CertificateBackup {
    der: Vec<u8>,
    key: Option<PrivateKey>,
    /// The name that the backup suggests.
    pub friendly_name: Option<String>,
    /// True if the certificate is signed by another key or with an unsupported algorithm: then
    /// nothing shows whether it was changed.
    pub unchecked: bool,
}

impl CertificateBackup {
    /// Reads a PEM file with a certificate and, if the private key is in another file, its PEM
    /// file. Without any private key, the certificate can only wrap.
    ///
    /// # Errors
    /// `BadCertificate`, `WrongBackupPassword`, `BadSecret` when the key is encrypted and there is
    /// no password.
    pub fn from_pem(
        (certificate, certificate_origin): (&[u8], &Path),
        private_key: Option<(&[u8], &Path)>,
        password: Option<&SecretBytes>,
    ) -> Result<Self, StoreError> {
        let mut content = read_pem(certificate, certificate_origin)?;
        let mut key_origin = certificate_origin;
        if let Some((bytes, origin)) = private_key {
            content.keys = read_pem(bytes, origin)?.keys;
            key_origin = origin;
            if content.keys.is_empty() {
                return Err(bad(origin, "it has no private key"));
            }
        }
        let key = match content.keys.into_iter().next() {
            Some(key) => Some(open_pem_key(key, key_origin, password)?),
            None => None,
        };
        Self::matching(content.certificates, key, None, certificate_origin)
    }

    /// Reads a PKCS#12 file.
    ///
    /// # Errors
    /// `BadCertificate`, `WrongBackupPassword`, `BadSecret` for a password that is not UTF-8.
    pub fn from_pkcs12(
        bytes: &[u8],
        origin: &Path,
        password: &SecretBytes,
    ) -> Result<Self, StoreError> {
        let content =
            pkcs12::decode(bytes, utf8(password)?).map_err(|error| backup_error(error, origin))?;
        let key = content.keys.into_iter().next();
        Self::matching(content.certificates, key, content.friendly_name, origin)
    }

    /// Unwraps a key with the private key alone, without a store: for a machine that only restores.
    ///
    /// # Errors
    /// `PrivateKeyMissing` when the backup has none; `OtherCertificate` with the thumbprints that
    /// would serve, `WrappedKeyDamaged`, `UnknownMechanism`.
    pub fn unwrap_dek(&self, wrapped: &[WrappedDek]) -> Result<SecretBytes, StoreError> {
        let Some(key) = &self.key else {
            let thumbprint = thumbprint(&sha1_thumbprint(&self.der));
            let name = x509::parse(&self.der)?.subject;
            return Err(StoreError::PrivateKeyMissing { name, thumbprint });
        };
        let own = sha256(&[&key.spki()]);
        let mut failure = None;
        for recipient in wrapped.iter().filter(|wrapped| wrapped.public_key_sha256 == own) {
            match recipient.unwrap_by(key) {
                Ok(dek) => return Ok(dek),
                Err(error @ StoreError::UnknownMechanism { .. }) => {
                    failure.get_or_insert(error);
                }
                Err(error) => failure = Some(error),
            }
        }
        let wanted = || wrapped.iter().map(WrappedDek::thumbprint).collect();
        let given = thumbprint(&sha1_thumbprint(&self.der));
        Err(failure.unwrap_or_else(|| StoreError::OtherCertificate { given, wanted: wanted() }))
    }

    /// Returns true if a key was wrapped for this certificate or for another one with the same key.
    #[must_use]
    pub fn unwraps(&self, wrapped: &WrappedDek) -> bool {
        let own = self.key.as_ref().map(|key| sha256(&[&key.spki()]));
        own == Some(wrapped.public_key_sha256)
    }

    /// End of the certificate's validity, seconds since 1970.
    ///
    /// # Errors
    /// `Crypto`.
    pub fn not_after(&self) -> Result<i64, StoreError> {
        Ok(x509::parse(&self.der)?.not_after)
    }

    /// Takes the certificate that matches the key from among several, or the only certificate.
    fn matching(
        certificates: Vec<Vec<u8>>,
        key: Option<PrivateKey>,
        friendly_name: Option<String>,
        origin: &Path,
    ) -> Result<Self, StoreError> {
        let mut first = None;
        for der in certificates {
            let facts = x509::parse(&der).map_err(|error| backup_error(error, origin))?;
            let fits = key.as_ref().is_none_or(|key| key.spki() == facts.public_key.spki());
            if fits {
                // Nothing else reveals a changed byte of a self-signed certificate.
                let unchecked = match x509::own_signature(&der) {
                    Ok(OwnSignature::Holds) => false,
                    Ok(OwnSignature::Unchecked) => true,
                    Ok(OwnSignature::Wrong) => {
                        return Err(bad(origin, "its own signature does not hold: it was changed"));
                    }
                    Err(error) => return Err(backup_error(error, origin)),
                };
                return Ok(Self { der, key, friendly_name, unchecked });
            }
            first.get_or_insert(der);
        }
        Err(match first {
            Some(der) => StoreError::KeyMismatch { thumbprint: thumbprint(&sha1_thumbprint(&der)) },
            None => bad(origin, "it has no certificate"),
        })
    }
}

impl Unlocked {
    /// Returns a certificate and its private key as PEM texts. Write them to disk, then call
    /// [`Self::mark_backed_up`].
    ///
    /// # Errors
    /// `AgentOnlyOpens`, `CertificateMissing`, `PrivateKeyMissing`; `BadSecret` for an empty
    /// password.
    pub fn export_pem(
        &self,
        name_or_thumbprint: &str,
        password: &SecretBytes,
    ) -> Result<PemBackup, StoreError> {
        self.refuse_agent()?;
        refuse_empty(password)?;
        let info = self.store().find(name_or_thumbprint)?;
        let key = self.private_key(info)?;
        let der = self.store().certificate_der(name_or_thumbprint)?;
        self.log_export(info)?;
        Ok(PemBackup {
            certificate: pem::encode_certificate(der),
            private_key: pem::encode_encrypted_key(&key, password.expose())?,
        })
    }

    /// Returns a certificate and its private key as a PKCS#12 file. Write it to disk, then call
    /// [`Self::mark_backed_up`].
    ///
    /// # Errors
    /// As [`Self::export_pem`]; `BadSecret` for a password that is not UTF-8.
    pub fn export_pkcs12(
        &self,
        name_or_thumbprint: &str,
        password: &SecretBytes,
    ) -> Result<Vec<u8>, StoreError> {
        self.refuse_agent()?;
        refuse_empty(password)?;
        let info = self.store().find(name_or_thumbprint)?;
        let key = self.private_key(info)?;
        let der = self.store().certificate_der(name_or_thumbprint)?;
        self.log_export(info)?;
        Ok(pkcs12::encode(&info.name, der, &key, utf8(password)?)?)
    }

    /// Adds a certificate from a backup under `name`. If the certificate is already here without
    /// its private key, it gets the key; its name must then be the same. The source counts as its
    /// backup.
    ///
    /// # Errors
    /// `AgentOnlyOpens`, `CertificateExists` for a name or certificate that is already here,
    /// `InvalidValue`, `Locked`, `MasterKeyChanged`, `Io`.
    pub fn import_certificate(
        &mut self,
        name: &str,
        backup: &CertificateBackup,
    ) -> Result<CertificateInfo, StoreError> {
        self.refuse_agent()?;
        refuse_bad_name(name)?;
        let digest = sha256(&[&backup.der]);
        let sealed = match &backup.key {
            Some(key) => {
                let (file, pkcs8) = (self.store().file(), key.to_pkcs8()?);
                Some(seal_private_key(self.keys(), file, &digest, &pkcs8)?)
            }
            None => None,
        };
        let backed_up_at = sealed.as_ref().map(|_| now_seconds());
        self.update(|file, current| {
            let known = current.certificates();
            if let Some(at) = known.iter().position(|info| info.sha256 == digest) {
                let record = file.certificates.get_mut(at);
                return match record {
                    Some(record) if sealed.is_some() && record.sealed_private_key.is_none() => {
                        record.sealed_private_key = sealed;
                        record.backed_up_at = backed_up_at;
                        Ok(())
                    }
                    _ => Err(StoreError::CertificateExists { name: shown(known, at) }),
                };
            }
            if known.iter().any(|info| info.name == name) {
                return Err(StoreError::CertificateExists { name: name.to_owned() });
            }
            file.certificates.push(CertificateRecord {
                name: name.to_owned(),
                generation: 1,
                active: true,
                created_at: now_seconds(),
                backed_up_at,
                der: backup.der.clone(),
                sealed_private_key: sealed,
            });
            Ok(())
        })?;
        self.info(&digest)
    }
}

impl Unlocked {
    /// The entry is written before anything leaves the store.
    fn log_export(&self, info: &CertificateInfo) -> Result<(), StoreError> {
        let record = self.store().record(&info.sha256);
        let events = record.map(|record| audit::certificate(AuditAction::Exported, record));
        self.log(events.as_slice())
    }
}

fn shown(known: &[CertificateInfo], at: usize) -> String {
    known.get(at).map(|info| format!("{} ({})", info.name, info.thumbprint())).unwrap_or_default()
}

fn read_pem(bytes: &[u8], origin: &Path) -> Result<pem::PemContent, StoreError> {
    pem::decode(bytes).map_err(|error| backup_error(error, origin))
}

fn open_pem_key(
    key: PemKey,
    origin: &Path,
    password: Option<&SecretBytes>,
) -> Result<PrivateKey, StoreError> {
    match (key, password) {
        (PemKey::Plain(key), _) => Ok(key),
        (PemKey::Encrypted(der), Some(password)) => {
            pem::decrypt_pkcs8(&der, password.expose()).map_err(|error| backup_error(error, origin))
        }
        (PemKey::Encrypted(_), None) => {
            let origin = origin.display().to_string();
            let reason = "the private key is encrypted, and there is no password for it";
            Err(StoreError::BadSecret { origin, reason })
        }
    }
}

fn backup_error(error: CryptoError, origin: &Path) -> StoreError {
    let shown = origin.display().to_string();
    match error {
        CryptoError::Authentication => StoreError::WrongBackupPassword { origin: shown },
        CryptoError::Malformed { .. } | CryptoError::Parameter { .. } => {
            StoreError::BadCertificate { origin: shown, reason: error.to_string() }
        }
        other => StoreError::Crypto(other),
    }
}

fn bad(origin: &Path, reason: &str) -> StoreError {
    StoreError::BadCertificate { origin: origin.display().to_string(), reason: reason.to_owned() }
}

fn refuse_empty(password: &SecretBytes) -> Result<(), StoreError> {
    if password.is_empty() {
        return Err(backup_secret("the password is empty"));
    }
    Ok(())
}

fn utf8(password: &SecretBytes) -> Result<&str, StoreError> {
    std::str::from_utf8(password.expose())
        .map_err(|_| backup_secret("PKCS#12 needs a password in UTF-8"))
}

fn backup_secret(reason: &'static str) -> StoreError {
    StoreError::BadSecret { origin: "backup password".to_owned(), reason }
}
