//! Keys that wrap and unwrap a set's secret, and keys that sign.

use std::fmt;
use std::sync::Arc;

use tdekit_key_crypto::SecretBytes;
use tdekit_key_store::{
    CertificateBackup, KeyStore, StoreError, Unlocked, WrappedDek, now_seconds,
};

use crate::Recipient;
use crate::operator::{Notice, Operator};

/// Wraps the secret of a new set for its recipients.
pub trait WrapSecret {
    /// Returns one entry for each recipient, 1 to 64.
    ///
    /// # Errors
    /// Errors of the key store: no such certificate, expired, not readable.
    fn wrap_secret(&self, secret: &SecretBytes) -> Result<Vec<Recipient>, StoreError>;
}

/// Unwraps the secret of a set that is read.
pub trait UnwrapSecret: Sync {
    /// Returns the secret, through the first recipient whose private key is available. The caller
    /// checks the key commitment of the set, so a wrong secret does no harm.
    ///
    /// # Errors
    /// Errors of the key store; [`StoreError::CertificateMissing`] with all thumbprints if no
    /// recipient is known.
    fn unwrap_secret(&self, wrapped: &[WrappedDek]) -> Result<SecretBytes, StoreError>;
}

impl UnwrapSecret for Unlocked {
    fn unwrap_secret(&self, wrapped: &[WrappedDek]) -> Result<SecretBytes, StoreError> {
        self.unwrap_dek(wrapped)
    }
}

/// Certificates of a key store by name or thumbprint, as recipients.
#[derive(Clone, Copy)]
pub struct CertificateNames<'a> {
    /// The store; that of an [`Unlocked`] one is known to be unchanged by others.
    pub store: &'a KeyStore,
    /// Names or thumbprints, 1 to 64.
    pub names: &'a [String],
}

impl WrapSecret for CertificateNames<'_> {
    fn wrap_secret(&self, secret: &SecretBytes) -> Result<Vec<Recipient>, StoreError> {
        let wrap = |selector: &String| {
            let name = self.store.find(selector)?.name.clone();
            Ok(Recipient { name, wrapped: self.store.wrap_dek(selector, secret)? })
        };
        self.names.iter().map(wrap).collect()
    }
}

impl fmt::Debug for CertificateNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateNames").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Signs a set: ECDSA with SHA-384, or RSASSA-PSS with SHA-256, MGF1 of SHA-256 and a salt of 32
/// bytes.
pub trait Sign {
    /// Returns the signer's certificate, X.509 DER.
    fn certificate_der(&self) -> &[u8];

    /// Returns the signature over `message`.
    ///
    /// # Errors
    /// Errors of the key store.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, StoreError>;
}

/// An available key.
pub enum Keys {
    /// The key store.
    Store(Arc<Unlocked>),
    /// A certificate's own files.
    Certificate(Box<CertificateBackup>),
}

impl Keys {
    /// Warns of recipients of a set whose certificate is here and has expired, or will soon.
    pub fn warn_of_ends(&self, recipients: &[Recipient], operator: &dyn Operator) {
        let mut told = Vec::new();
        for (name, not_after) in self.ends(recipients) {
            if told.contains(&name) {
                continue;
            }
            match not_after < now_seconds() {
                true => operator.tell(&Notice::Expired { name: &name, not_after }),
                false => operator.tell_expiring(&name, not_after),
            }
            told.push(name);
        }
    }

    /// Returns the names and expiration times of recipients of a set whose certificate is here.
    fn ends(&self, recipients: &[Recipient]) -> Vec<(String, i64)> {
        let end = |recipient: &Recipient| match self {
            Self::Store(unlocked) => {
                let certificates = unlocked.store().certificates().iter();
                certificates
                    .filter(|info| info.public_key_sha256 == recipient.wrapped.public_key_sha256)
                    .map(|info| info.not_after)
                    .max()
            }
            Self::Certificate(backup) if backup.unwraps(&recipient.wrapped) => {
                backup.not_after().ok()
            }
            Self::Certificate(_) => None,
        };
        let named = |recipient: &Recipient| Some((recipient.name.clone(), end(recipient)?));
        recipients.iter().filter_map(named).collect()
    }
}

impl UnwrapSecret for Keys {
    fn unwrap_secret(&self, wrapped: &[WrappedDek]) -> Result<SecretBytes, StoreError> {
        match self {
            Self::Store(unlocked) => unlocked.unwrap_dek(wrapped),
            Self::Certificate(backup) => backup.unwrap_dek(wrapped),
        }
    }
}
