//! Keys derived from the master key, the contexts that seals are bound to, and the seal itself.

use tdekit_key_crypto::{
    Algorithm, NONCE_LEN, SealingKey, SecretBytes, TAG_LEN, hkdf_sha256, hmac_sha256, random_bytes,
    verify_hmac_sha256,
};

use crate::error::StoreError;
use crate::file::{Protector, StoreFile};
use crate::protector_kind::ProtectorKind;

/// Length of a master key in bytes.
pub(crate) const MASTER_KEY_LEN: usize = 32;

const KEY_LEN: usize = 32;
const COMMITMENT_LEN: usize = 32;

/// The keys that one store derives from its master key.
pub(crate) struct StoreKeys {
    private_keys: SecretBytes,
    mac: SecretBytes,
}

impl StoreKeys {
    pub(crate) fn derive(
        master_key: &SecretBytes,
        store_id: &[u8; 16],
        master_key_id: &[u8; 16],
    ) -> Result<Self, StoreError> {
        let salt = [store_id.as_slice(), master_key_id].concat();
        let derive = |info: &[u8]| -> Result<SecretBytes, StoreError> {
            let mut key = SecretBytes::new_zeroed(KEY_LEN)?;
            hkdf_sha256(master_key.expose(), &salt, &[info], key.expose_mut())?;
            Ok(key)
        };
        Ok(Self {
            private_keys: derive(b"tdekit keystore v1 private keys")?,
            mac: derive(b"tdekit keystore v1 mac")?,
        })
    }

    pub(crate) fn mac(&self, bytes: &[u8]) -> [u8; 32] {
        hmac_sha256(self.mac.expose(), &[bytes])
    }

    /// Checks the MAC of a whole store file.
    pub(crate) fn verify(&self, file: &[u8]) -> Result<(), StoreError> {
        let (body, tag) = StoreFile::split_mac(file)?;
        if verify_hmac_sha256(self.mac.expose(), &[body], tag) {
            return Ok(());
        }
        Err(StoreError::corrupt("MAC", "the file was changed without the master key"))
    }

    pub(crate) fn seal_private_key(
        &self,
        place: &PrivateKeyPlace<'_>,
        pkcs8: &SecretBytes,
    ) -> Result<Vec<u8>, StoreError> {
        seal(&self.private_keys, &place.aad(), pkcs8.expose())
    }

    pub(crate) fn open_private_key(
        &self,
        place: &PrivateKeyPlace<'_>,
        sealed: &[u8],
    ) -> Result<SecretBytes, StoreError> {
        open(&self.private_keys, &place.aad(), sealed)
            .ok_or_else(|| StoreError::corrupt("private key", "its seal does not hold"))
    }
}

impl StoreKeys {
    /// Makes a new key of the audit log, and its seal.
    pub(crate) fn new_audit_key(
        &self,
        file: &StoreFile,
    ) -> Result<(SecretBytes, Vec<u8>), StoreError> {
        let key = SecretBytes::random(KEY_LEN)?;
        let sealed = self.seal_audit_key(file, &key)?;
        Ok((key, sealed))
    }

    pub(crate) fn seal_audit_key(
        &self,
        file: &StoreFile,
        key: &SecretBytes,
    ) -> Result<Vec<u8>, StoreError> {
        seal(&self.private_keys, &audit_aad(file), key.expose())
    }

    pub(crate) fn open_audit_key(
        &self,
        file: &StoreFile,
        sealed: &[u8],
    ) -> Result<SecretBytes, StoreError> {
        open(&self.private_keys, &audit_aad(file), sealed)
            .ok_or_else(|| StoreError::corrupt("audit key", "its seal does not hold"))
    }
}

fn audit_aad(file: &StoreFile) -> Vec<u8> {
    let label: &[u8] = b"tdekit keystore v1 audit key";
    [label, &file.store_id, &file.master_key.id].concat()
}

/// The context that a sealed private key is bound to.
pub(crate) struct PrivateKeyPlace<'a> {
    pub(crate) store_id: &'a [u8; 16],
    pub(crate) master_key_id: &'a [u8; 16],
    pub(crate) certificate_sha256: &'a [u8; 32],
}

impl PrivateKeyPlace<'_> {
    fn aad(&self) -> Vec<u8> {
        let label: &[u8] = b"tdekit keystore v1 private key";
        [label, self.store_id, self.master_key_id, self.certificate_sha256].concat()
    }
}

/// The context that a sealed master key is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// The store's identifier.
    pub store_id: [u8; 16],
    /// The master key's identifier.
    pub master_key_id: [u8; 16],
    /// The protector's identifier.
    pub protector_id: [u8; 16],
    /// Creation time of the protector, seconds since 1970.
    pub created_at: i64,
}

impl Binding {
    fn aad(&self, kind: ProtectorKind, params: &[u8]) -> Vec<u8> {
        let label: &[u8] = b"tdekit keystore v1 master key";
        let (kind, created_at) = (kind.id().to_le_bytes(), self.created_at.to_le_bytes());
        [label, &self.store_id, &self.master_key_id, &kind, &self.protector_id, &created_at, params]
            .concat()
    }
}

/// Seals the master key under a secret of full strength (32 bytes or more of entropy, or the output
/// of a password hash). Returns commitment, nonce, ciphertext, tag.
pub(crate) fn seal_master_key(
    secret: &SecretBytes,
    kind: ProtectorKind,
    params: Vec<u8>,
    binding: &Binding,
    master_key: &SecretBytes,
) -> Result<Protector, StoreError> {
    let (key, commitment) = protector_keys(secret, kind, binding)?;
    let mut sealed = commitment.expose().to_vec();
    sealed.extend(seal(&key, &binding.aad(kind, &params), master_key.expose())?);
    let (id, created_at) = (binding.protector_id, binding.created_at);
    Ok(Protector { kind, id, created_at, params, sealed })
}

/// Opens the output of [`seal_master_key`]. Returns `None` for a wrong secret.
///
/// # Errors
/// `Corrupt` when the secret is right but the seal is damaged.
pub(crate) fn open_master_key(
    secret: &SecretBytes,
    protector: &Protector,
    binding: &Binding,
) -> Result<Option<SecretBytes>, StoreError> {
    let (key, commitment) = protector_keys(secret, protector.kind, binding)?;
    let Some((stored, sealed)) = protector.sealed.split_at_checked(COMMITMENT_LEN) else {
        return Err(StoreError::corrupt("sealed master key", "too short"));
    };
    if !commitment.ct_eq(stored) {
        return Ok(None);
    }
    let master_key = open(&key, &binding.aad(protector.kind, &protector.params), sealed)
        .ok_or_else(|| StoreError::corrupt("sealed master key", "its seal does not hold"))?;
    if master_key.len() != MASTER_KEY_LEN {
        return Err(StoreError::corrupt("sealed master key", "not of 32 bytes"));
    }
    Ok(Some(master_key))
}

/// Returns the key of a protector's seal, and the value that commits to the secret.
fn protector_keys(
    secret: &SecretBytes,
    kind: ProtectorKind,
    binding: &Binding,
) -> Result<(SecretBytes, SecretBytes), StoreError> {
    let mut okm = SecretBytes::new_zeroed(KEY_LEN + COMMITMENT_LEN)?;
    let info: [&[u8]; 2] = [b"tdekit keystore v1 protector", &kind.id().to_le_bytes()];
    hkdf_sha256(secret.expose(), &binding.protector_id, &info, okm.expose_mut())?;
    let commitment = SecretBytes::from_slice(&okm.expose()[KEY_LEN..])?;
    okm.truncate(KEY_LEN);
    Ok((okm, commitment))
}

/// Returns nonce, ciphertext, tag: XAES-256-GCM with a random nonce.
pub(crate) fn seal(key: &SecretBytes, aad: &[u8], plaintext: &[u8]) -> Result<Vec<u8>, StoreError> {
    let mut nonce = [0; NONCE_LEN];
    random_bytes(&mut nonce)?;
    let mut out = vec![0; NONCE_LEN + plaintext.len() + TAG_LEN];
    let (head, rest) = out.split_at_mut(NONCE_LEN);
    head.copy_from_slice(&nonce);
    let (ciphertext, tag) = rest.split_at_mut(plaintext.len());
    let mut key = SealingKey::new(Algorithm::Aes256, key.expose())?;
    tag.copy_from_slice(&key.seal(&nonce, aad, plaintext, ciphertext)?);
    Ok(out)
}

/// Opens the output of [`seal`]. `None` if the seal does not hold.
pub(crate) fn open(key: &SecretBytes, aad: &[u8], sealed: &[u8]) -> Option<SecretBytes> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let (ciphertext, tag) = rest.split_last_chunk::<TAG_LEN>()?;
    let mut plaintext = SecretBytes::new_zeroed(ciphertext.len()).ok()?;
    let mut key = SealingKey::new(Algorithm::Aes256, key.expose()).ok()?;
    key.open(nonce, aad, ciphertext, tag, plaintext.expose_mut()).ok()?;
    Some(plaintext)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: PrivateKeyPlace<'_> = PrivateKeyPlace {
        store_id: &[1; 16],
        master_key_id: &[2; 16],
        certificate_sha256: &[3; 32],
    };

    #[test]
    fn a_private_key_opens_in_its_own_place_only() {
        let master_key = SecretBytes::random(MASTER_KEY_LEN).unwrap();
        let keys = StoreKeys::derive(&master_key, &[1; 16], &[2; 16]).unwrap();
        let pkcs8 = SecretBytes::from_slice(b"a private key").unwrap();
        let mut sealed = keys.seal_private_key(&PLACE, &pkcs8).unwrap();
        assert_eq!(keys.open_private_key(&PLACE, &sealed).unwrap().expose(), b"a private key");
        for other in [
            PrivateKeyPlace { store_id: &[9; 16], ..PLACE },
            PrivateKeyPlace { master_key_id: &[9; 16], ..PLACE },
            PrivateKeyPlace { certificate_sha256: &[9; 32], ..PLACE },
        ] {
            assert!(keys.open_private_key(&other, &sealed).is_err());
        }
        let others = [([9; 16], [2; 16]), ([1; 16], [9; 16])]
            .map(|(store, master)| StoreKeys::derive(&master_key, &store, &master).unwrap());
        for keys in others {
            assert!(keys.open_private_key(&PLACE, &sealed).is_err());
        }
        for at in 0..sealed.len() {
            sealed[at] ^= 1;
            assert!(keys.open_private_key(&PLACE, &sealed).is_err(), "{at}");
            assert!(keys.open_private_key(&PLACE, &sealed[..at]).is_err(), "{at}");
            sealed[at] ^= 1;
        }
    }

    #[test]
    fn a_master_key_opens_in_its_own_place_only() {
        let (secret, master_key) =
            (SecretBytes::random(32).unwrap(), SecretBytes::random(MASTER_KEY_LEN).unwrap());
        let binding = Binding {
            store_id: [1; 16],
            master_key_id: [2; 16],
            protector_id: [3; 16],
            created_at: 4,
        };
        let kind = ProtectorKind::KeyMaterial;
        let protector = seal_master_key(&secret, kind, vec![5], &binding, &master_key).unwrap();
        let opened = open_master_key(&secret, &protector, &binding).unwrap().unwrap();
        assert_eq!(opened.expose(), master_key.expose());

        let wrong = SecretBytes::random(32).unwrap();
        assert!(open_master_key(&wrong, &protector, &binding).unwrap().is_none());
        for other in [
            Binding { store_id: [9; 16], ..binding },
            Binding { master_key_id: [9; 16], ..binding },
            Binding { created_at: 9, ..binding },
        ] {
            assert!(open_master_key(&secret, &protector, &other).is_err());
        }
        let other = Binding { protector_id: [9; 16], ..binding };
        assert!(open_master_key(&secret, &protector, &other).unwrap().is_none());
        let params = Protector { params: vec![6], ..protector.clone() };
        assert!(open_master_key(&secret, &params, &binding).is_err());
        let kind = Protector { kind: ProtectorKind::Password, ..protector.clone() };
        assert!(open_master_key(&secret, &kind, &binding).unwrap().is_none());
        for at in 0..protector.sealed.len() {
            let mut damaged = protector.clone();
            damaged.sealed[at] ^= 1;
            assert!(!matches!(open_master_key(&secret, &damaged, &binding), Ok(Some(_))), "{at}");
            damaged.sealed.truncate(at);
            assert!(!matches!(open_master_key(&secret, &damaged, &binding), Ok(Some(_))), "{at}");
        }
    }
}
