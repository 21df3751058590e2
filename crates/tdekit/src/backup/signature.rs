//! Signatures on sets: who vouches for what a set holds.

use std::sync::Arc;

use serde::Serialize;
use tdekit_backup_run::{Sign, SignatureInfo, date_of_ms};
use tdekit_key_crypto::{sha1_thumbprint, sha256, x509};
use tdekit_key_store::{KeyStore, StoreError, Unlocked, thumbprint};

use crate::backup::error::BackupError;
use crate::error::CommandError;

/// A certificate of the key store that signs.
pub(crate) struct Signer {
    unlocked: Arc<Unlocked>,
    selector: String,
    der: Vec<u8>,
}

impl Signer {
    /// The active certificate of this name, or the one with this thumbprint, once it has signed
    /// something.
    ///
    /// # Errors
    /// `CertificateMissing`, `PrivateKeyMissing`, `CertificateExpired`.
    pub(crate) fn new(unlocked: Arc<Unlocked>, selector: &str) -> Result<Self, CommandError> {
        let selector = unlocked.store().find(selector)?.thumbprint();
        let der = unlocked.store().certificate_der(&selector)?.to_vec();
        unlocked.sign(&selector, b"trial")?;
        Ok(Self { unlocked, selector, der })
    }
}

impl Sign for Signer {
    fn certificate_der(&self) -> &[u8] {
        &self.der
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.unlocked.sign(&self.selector, message)
    }
}

/// A signature on a set as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Signature {
    /// When, as its maker says.
    pub(crate) signed_at: String,
    /// Subject of the certificate; empty for one that cannot be read.
    pub(crate) subject: String,
    /// SHA-1 of the certificate, as SQL Server shows it.
    pub(crate) thumbprint: String,
    pub(crate) thumbprint_sha256: String,
    /// Name of the certificate in the key store; null where the store does not know it: then the
    /// signature says only that one hand made it all.
    pub(crate) certificate_name: Option<String>,
    /// Whether it is of that certificate's key and of this set's header, index and digests. That
    /// the blocks are those is seen when the set is verified or restored.
    pub(crate) valid: bool,
}

impl Signature {
    /// Checks a signature by the certificate that stands beside it.
    pub(crate) fn of(info: &SignatureInfo, store: Option<&KeyStore>) -> Self {
        let der = info.certificate_der.as_slice();
        let facts = x509::parse(der).ok();
        let digest = sha256(&[der]);
        let known = store.and_then(|store| store.by_sha256(&digest));
        Self {
            signed_at: date_of_ms(info.signed_ms),
            subject: facts.as_ref().map(|facts| facts.subject.clone()).unwrap_or_default(),
            thumbprint: thumbprint(&sha1_thumbprint(der)),
            thumbprint_sha256: thumbprint(&digest),
            certificate_name: known.map(|info| info.name.clone()),
            valid: facts
                .is_some_and(|facts| facts.public_key.verifies(&info.message, &info.signature)),
        }
    }

    /// The line that is printed.
    pub(crate) fn line(&self) -> String {
        let who = match &self.certificate_name {
            Some(name) => format!("{name}, {}", self.thumbprint),
            None => format!("{}, {}, not in the key store", self.subject, self.thumbprint),
        };
        let valid = if self.valid { "" } else { ": IT DOES NOT HOLD" };
        format!("signed {} by {who}{valid}", self.signed_at)
    }
}

/// Fails unless one of `signatures` holds and is by `certificate`: a name that the key store
/// knows, or a thumbprint.
///
/// # Errors
/// `NotSigned`.
pub(crate) fn refuse_unsigned(
    position: u32,
    signatures: &[Signature],
    certificate: &str,
) -> Result<(), BackupError> {
    let digits = |text: &str| {
        let text = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        text.to_ascii_lowercase()
    };
    let by = |signature: &Signature| {
        signature.certificate_name.as_deref() == Some(certificate)
            || digits(&signature.thumbprint) == digits(certificate)
            || digits(&signature.thumbprint_sha256) == digits(certificate)
    };
    match signatures.iter().any(|signature| signature.valid && by(signature)) {
        true => Ok(()),
        false => Err(BackupError::NotSigned { position, certificate: certificate.to_owned() }),
    }
}
