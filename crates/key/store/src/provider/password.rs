//! A password, through Argon2id (RFC 9106).
//!
//! Parameters: the cost (16 bytes, see [`PasswordParams::to_bytes`]), then the salt (16 bytes).

use tdekit_key_crypto::password::{PARAMS_LEN, PasswordParams, SALT_LEN, derive_key};
use tdekit_key_crypto::{SecretBytes, random_bytes};

use super::Provider;
use crate::derive::{Binding, open_master_key, seal_master_key};
use crate::error::StoreError;
use crate::file::Protector;
use crate::protector_kind::ProtectorKind;

pub(super) const HASH_LEN: usize = 32;

pub(super) struct Password {
    password: SecretBytes,
    cost: PasswordParams,
}

impl Password {
    pub(super) fn new(
        password: SecretBytes,
        origin: &str,
        cost: PasswordParams,
    ) -> Result<Self, StoreError> {
        if password.is_empty() {
            let (origin, reason) = (origin.to_owned(), "the password is empty");
            return Err(StoreError::BadSecret { origin, reason });
        }
        Ok(Self { password, cost })
    }

    /// Returns the hash that opens a protector, if this is its password.
    pub(super) fn hash_for(&self, protector: &Protector) -> Result<SecretBytes, StoreError> {
        let (cost, salt) = password_params(protector)?;
        self.hash(cost, &salt)
    }

    fn hash(
        &self,
        params: PasswordParams,
        salt: &[u8; SALT_LEN],
    ) -> Result<SecretBytes, StoreError> {
        Ok(derive_key(self.password.expose(), salt, params, HASH_LEN)?)
    }
}

impl Provider for Password {
    fn kind(&self) -> ProtectorKind {
        ProtectorKind::Password
    }

    fn seal(&self, master_key: &SecretBytes, binding: &Binding) -> Result<Protector, StoreError> {
        let mut salt = [0; SALT_LEN];
        random_bytes(&mut salt)?;
        let hash = self.hash(self.cost, &salt)?;
        let params = [self.cost.to_bytes().as_slice(), &salt].concat();
        seal_master_key(&hash, self.kind(), params, binding, master_key)
    }

    fn open(&self, protector: &Protector, binding: &Binding) -> Result<SecretBytes, StoreError> {
        let hash = self.hash_for(protector)?;
        open_master_key(&hash, protector, binding)?.ok_or(StoreError::WrongPassword)
    }
}

/// Returns the guessing cost of a password's protector; `None` for other kinds.
#[must_use]
pub fn password_cost(protector: &Protector) -> Option<PasswordParams> {
    match protector.kind {
        ProtectorKind::Password => password_params(protector).ok().map(|(cost, _)| cost),
        ProtectorKind::KeyMaterial
        | ProtectorKind::Token
        | ProtectorKind::Vault
        | ProtectorKind::AwsKms
        | ProtectorKind::Other(_) => None,
    }
}

/// Returns the parameters as stored in a protector, checked.
pub(super) fn param_bytes(
    protector: &Protector,
) -> Result<[u8; PARAMS_LEN + SALT_LEN], StoreError> {
    let (cost, salt) = password_params(protector)?;
    let mut bytes = [0; PARAMS_LEN + SALT_LEN];
    bytes[..PARAMS_LEN].copy_from_slice(&cost.to_bytes());
    bytes[PARAMS_LEN..].copy_from_slice(&salt);
    Ok(bytes)
}

fn password_params(protector: &Protector) -> Result<(PasswordParams, [u8; SALT_LEN]), StoreError> {
    let corrupt = |reason: String| StoreError::corrupt("password parameters", reason);
    let (cost, salt) = protector
        .params
        .split_first_chunk::<PARAMS_LEN>()
        .ok_or_else(|| corrupt("too short".to_owned()))?;
    let salt = salt.try_into().map_err(|_| corrupt("of a wrong length".to_owned()))?;
    let cost = PasswordParams::from_bytes(cost).map_err(|error| corrupt(error.to_string()))?;
    Ok((cost, salt))
}
