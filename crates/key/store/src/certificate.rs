//! The public properties of a certificate, known without its private key.

use tdekit_key_crypto::{CryptoError, KeyAlgorithm, KeyType, sha1_thumbprint, sha256, x509};

use crate::error::StoreError;
use crate::file::CertificateRecord;
use crate::wrapped::thumbprint;

/// A certificate of a store. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Its name in the store, shared by its generations.
    pub name: String,
    /// 1 for the first of this name, incremented at each rotation.
    pub generation: u32,
    /// True if it wraps new keys; one generation of a name does.
    pub active: bool,
    /// Subject, such as `CN=AppCert`.
    pub subject: String,
    /// The common name of the subject, where it has one.
    pub common_name: Option<String>,
    /// Serial number in hexadecimal digits.
    pub serial: String,
    /// SHA-1 of the DER.
    pub sha1: [u8; 20],
    /// SHA-256 of the DER.
    pub sha256: [u8; 32],
    /// SHA-256 of the `SubjectPublicKeyInfo`.
    pub public_key_sha256: [u8; 32],
    /// Algorithm of the key.
    pub key_algorithm: KeyAlgorithm,
    /// Bits of an EC key's field, or of the RSA modulus.
    pub key_bits: u32,
    /// Start of validity.
    pub not_before: i64,
    /// End of validity; applies to wrapping, never to unwrapping.
    pub not_after: i64,
    /// Time at which it was added to this store.
    pub created_at: i64,
    /// Time of its last backup.
    pub backed_up_at: Option<i64>,
    /// True if the store holds its private key.
    pub has_private_key: bool,
}

impl CertificateInfo {
    pub(crate) fn of(record: &CertificateRecord) -> Result<Self, CryptoError> {
        let facts = x509::parse(&record.der)?;
        Ok(Self {
            name: record.name.clone(),
            generation: record.generation,
            active: record.active,
            subject: facts.subject,
            common_name: facts.common_name,
            serial: facts.serial,
            sha1: sha1_thumbprint(&record.der),
            sha256: sha256(&[&record.der]),
            public_key_sha256: sha256(&[&facts.public_key.spki()]),
            key_algorithm: facts.public_key.algorithm(),
            key_bits: facts.public_key.bits(),
            not_before: facts.not_before,
            not_after: facts.not_after,
            created_at: record.created_at,
            backed_up_at: record.backed_up_at,
            has_private_key: record.sealed_private_key.is_some(),
        })
    }

    /// SHA-1 thumbprint as SQL Server shows it: `0x` and upper-case hexadecimal digits.
    #[must_use]
    pub fn thumbprint(&self) -> String {
        thumbprint(&self.sha1)
    }

    /// The type of a new key pair in its place: as strong an RSA key, or an EC key.
    pub(crate) fn key_type(&self) -> KeyType {
        match (self.key_algorithm, self.key_bits) {
            (KeyAlgorithm::Ec, _) => KeyType::EcP384,
            (KeyAlgorithm::Rsa, ..=3072) => KeyType::Rsa3072,
            (KeyAlgorithm::Rsa, _) => KeyType::Rsa4096,
        }
    }

    /// Returns true if its private key is not in any known backup.
    #[must_use]
    pub fn needs_backup(&self) -> bool {
        self.has_private_key && self.backed_up_at.is_none()
    }
}

/// Finds the certificates that `selector` names: all generations of a name, or the certificate with
/// this SHA-1 or SHA-256 thumbprint (hexadecimal digits, with or without `0x`).
pub(crate) fn select<'a>(
    certificates: &'a [CertificateInfo],
    selector: &str,
) -> Result<Vec<&'a CertificateInfo>, StoreError> {
    let named: Vec<_> = certificates.iter().filter(|info| info.name == selector).collect();
    if !named.is_empty() {
        return Ok(named);
    }
    let digits = selector.strip_prefix("0x").or_else(|| selector.strip_prefix("0X"));
    let digest = hex::decode(digits.unwrap_or(selector)).unwrap_or_default();
    let matching: Vec<_> = certificates
        .iter()
        .filter(|info| info.sha1.as_slice() == digest || info.sha256.as_slice() == digest)
        .collect();
    match matching.is_empty() {
        true => Err(StoreError::CertificateMissing { wanted: vec![selector.to_owned()] }),
        false => Ok(matching),
    }
}

/// Finds the one certificate that `selector` names: the active generation of a name, or the one
/// with this thumbprint.
pub(crate) fn select_one<'a>(
    certificates: &'a [CertificateInfo],
    selector: &str,
) -> Result<&'a CertificateInfo, StoreError> {
    let found = select(certificates, selector)?;
    let active = found.iter().find(|info| info.name == selector && info.active);
    active
        .or(found.first())
        .copied()
        .ok_or_else(|| StoreError::CertificateMissing { wanted: vec![selector.to_owned()] })
}
