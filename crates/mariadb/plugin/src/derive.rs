//! Keys derived from a server key.

use std::sync::Arc;

use tdekit_key_crypto::{CryptoError, SecretBytes, hkdf_sha256};

/// Length of a handle in bytes: the server gets a handle in place of a key.
pub const HANDLE_LEN: usize = 32;

/// Derivation of keys from a version of a server key, which determines the ciphers of its pages and
/// streams. It never changes for a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Derivation {
    /// Pages by HCTR2, streams in counter mode: every version from when there was no other
    /// derivation.
    Counter,
    /// Pages by HCTR2, streams by the online cipher.
    Online,
    /// Pages by the wide block over GMAC, streams by the online cipher.
    Gmac,
}

impl Derivation {
    /// Returns the derivation with this number; `None` for an unknown one.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Counter),
            2 => Some(Self::Online),
            3 => Some(Self::Gmac),
            _ => None,
        }
    }

    /// Returns the prefix of HKDF's info.
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Counter => b"tdekit mariadb v1 ",
            Self::Online => b"tdekit mariadb v2 ",
            Self::Gmac => b"tdekit mariadb v3 ",
        }
    }
}

/// A version of a server key.
#[derive(Debug, Clone)]
pub struct ServerKey {
    /// The key itself.
    pub secret: Arc<SecretBytes>,
    /// Derivation of keys from it.
    pub derivation: Derivation,
}

/// The purpose of a derived key; part of its derivation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    /// Passed to the server, which derives keys of tablespaces and of the redo log from it.
    Handle = 0,
    /// One-shot messages under a key of the server's own: pages, records of the redo log.
    Message = 1,
    /// Streams under the handle: events of binary logs.
    Stream = 2,
    /// Temporary files.
    Sealed = 3,
}

/// One version of a server key, and the purpose of a derived key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Purpose<'a> {
    pub(crate) id: u32,
    pub(crate) version: u32,
    pub(crate) of: Use,
    /// The key that the server passed: HKDF's salt.
    pub(crate) passed: &'a [u8],
    /// The other inputs of the derivation.
    pub(crate) extra: &'a [u8],
}

/// HKDF-SHA-256 of a server key.
pub(crate) fn derive(
    server_key: &ServerKey,
    purpose: Purpose<'_>,
    len: usize,
) -> Result<SecretBytes, CryptoError> {
    let mut out = SecretBytes::new_zeroed(len)?;
    let Purpose { id, version, of, passed, extra } = purpose;
    let info: [&[u8]; 5] = [
        server_key.derivation.label(),
        &[of as u8],
        &id.to_le_bytes(),
        &version.to_le_bytes(),
        extra,
    ];
    hkdf_sha256(server_key.secret.expose(), passed, &info, out.expose_mut())?;
    Ok(out)
}

/// Returns the handle that the server gets when it asks for a key. It is as secret as a key, but
/// opens nothing: the keys of pages and streams are derived from the server key, which stays in the
/// plugin.
pub(crate) fn handle(
    server_key: &ServerKey,
    id: u32,
    version: u32,
) -> Result<SecretBytes, CryptoError> {
    let purpose = Purpose { id, version, of: Use::Handle, passed: &[], extra: &[] };
    derive(server_key, purpose, HANDLE_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_has_a_key_of_its_own() {
        let secret = Arc::new(SecretBytes::from_slice(&[7; 32]).unwrap());
        let key = ServerKey { secret, derivation: Derivation::Online };
        let base = Purpose { id: 1, version: 1, of: Use::Message, passed: &[1; 16], extra: &[] };
        let purposes = [
            base,
            Purpose { id: 2, ..base },
            Purpose { version: 2, ..base },
            Purpose { of: Use::Sealed, ..base },
            Purpose { passed: &[2; 16], ..base },
            Purpose { extra: &[0; 4], ..base },
        ];
        let keys = purposes.map(|purpose| derive(&key, purpose, 64).unwrap().expose().to_vec());
        for derivation in [Derivation::Counter, Derivation::Gmac] {
            let other = ServerKey { derivation, ..key.clone() };
            let other = derive(&other, base, 64).unwrap();
            assert!(keys.iter().all(|one| one != other.expose()));
        }
        for (at, one) in keys.iter().enumerate() {
            assert!(keys[..at].iter().all(|other| other != one), "{at}");
        }
        assert_eq!(handle(&key, 1, 1).unwrap().len(), HANDLE_LEN);
    }
}
