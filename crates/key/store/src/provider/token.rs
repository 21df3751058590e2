//! A key in a token, through PKCS#11. It wraps 32 random bytes, which are the protector's secret.
//!
//! Parameters: version (1 byte: 1), wrapping (1 byte: 1 AES-GCM, 2 RSA-OAEP with SHA-256, 3 with
//! SHA-1), then three byte strings after lengths of 16 bits: the token's label, the key's label,
//! the wrapped secret. The location of the module comes from the environment or the configuration,
//! never from the store file: the module is code that runs in this process.

use std::path::PathBuf;

use tdekit_key_crypto::SecretBytes;
use tdekit_key_crypto::token::{Token, TokenWrap};

use super::Provider;
use super::secret_file::{check_code_file, read_password_file};
use crate::bytes::{Reader, put_short};
use crate::derive::{Binding, open_master_key, seal_master_key};
use crate::error::StoreError;
use crate::file::Protector;
use crate::protector_kind::ProtectorKind;

const VERSION: u8 = 1;
const SECRET_LEN: usize = 32;
/// PKCS#11 pads a token's label to 32 bytes.
const MAX_TOKEN_BYTES: usize = 32;
const MAX_KEY_BYTES: usize = 255;
/// RSA of 8192 bits.
const MAX_WRAPPED_BYTES: usize = 1024;

/// A PKCS#11 module and the PIN of its token.
pub struct TokenAccess {
    /// The module, a shared library.
    pub module: PathBuf,
    /// The PIN; `None` where it is not known: no token accepts that.
    pub pin: Option<Pin>,
    /// The key that seals. For opening, the store determines the key.
    pub new_key: Option<TokenKey>,
}

/// The PIN of a token's user.
pub enum Pin {
    /// The PIN.
    Given(SecretBytes),
    /// A file with the PIN on its first line.
    File(PathBuf),
}

/// A key in a token, identified by labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenKey {
    /// The token's label, at most 32 bytes.
    pub token: String,
    /// The key's label, at most 255 bytes.
    pub key: String,
}

/// Makes the AES-256 key `access.new_key` in its token.
///
/// # Errors
/// `InsecureFile` where others can change the module, `BadSecret`, `Crypto`, `Io`.
pub fn generate_token_key(access: &TokenAccess) -> Result<(), StoreError> {
    let provider = TokenProvider::new(access)?;
    let new_key = provider.new_key()?;
    Ok(provider.open_token(&new_key.token)?.generate(&new_key.key)?)
}

/// Returns the key that seals a protector of this kind; `None` for other kinds.
#[must_use]
pub fn token_key(protector: &Protector) -> Option<TokenKey> {
    if protector.kind != ProtectorKind::Token {
        return None;
    }
    Params::decode(&protector.params).ok().map(|params| params.key)
}

pub(super) struct TokenProvider<'a> {
    access: &'a TokenAccess,
    pin: SecretBytes,
}

impl<'a> TokenProvider<'a> {
    pub(super) fn new(access: &'a TokenAccess) -> Result<Self, StoreError> {
        let module = &access.module;
        // Loading the module runs it.
        check_code_file(module)?;
        let origin = || module.display().to_string();
        let pin = match &access.pin {
            Some(Pin::Given(pin)) => pin.try_clone()?,
            Some(Pin::File(path)) => read_password_file(path)?,
            None => {
                let reason = "no PIN is configured for its token";
                return Err(StoreError::BadSecret { origin: origin(), reason });
            }
        };
        Ok(Self { access, pin })
    }

    fn open_token(&self, label: &str) -> Result<Token, StoreError> {
        Ok(Token::open(&self.access.module, label, &self.pin)?)
    }

    fn new_key(&self) -> Result<&TokenKey, StoreError> {
        let bad = |value: &str, reason| StoreError::InvalidValue {
            what: "key in a token",
            value: value.to_owned(),
            reason,
        };
        let key = self.access.new_key.as_ref();
        let key = key.ok_or_else(|| bad("", "no token and key are named that should seal"))?;
        for (label, max) in [(&key.token, MAX_TOKEN_BYTES), (&key.key, MAX_KEY_BYTES)] {
            if label.is_empty() || label.len() > max || label.chars().any(char::is_control) {
                return Err(bad(label, "is no label: 1 to 32 bytes for a token, 255 for a key"));
            }
        }
        Ok(key)
    }
}

impl Provider for TokenProvider<'_> {
    fn kind(&self) -> ProtectorKind {
        ProtectorKind::Token
    }

    fn seal(&self, master_key: &SecretBytes, binding: &Binding) -> Result<Protector, StoreError> {
        let key = self.new_key()?;
        let secret = SecretBytes::random(SECRET_LEN)?;
        let token = self.open_token(&key.token)?;
        let (wrap, wrapped) = token.wrap(&key.key, &secret, &aad(binding))?;
        let params = Params { wrap, key: key.clone(), wrapped }.encode()?;
        seal_master_key(&secret, self.kind(), params, binding, master_key)
    }

    fn open(&self, protector: &Protector, binding: &Binding) -> Result<SecretBytes, StoreError> {
        let Params { wrap, key, wrapped } = Params::decode(&protector.params)?;
        let token = self.open_token(&key.token)?;
        let secret = token.unwrap(&key.key, wrap, &wrapped, &aad(binding))?;
        let origin = format!("the token {}", key.token);
        open_master_key(&secret, protector, binding)?.ok_or(StoreError::WrongKey { origin })
    }
}

fn aad(binding: &Binding) -> Vec<u8> {
    let label: &[u8] = b"tdekit keystore v1 token";
    [label, &binding.store_id, &binding.protector_id].concat()
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Params {
    wrap: TokenWrap,
    key: TokenKey,
    wrapped: Vec<u8>,
}

impl Params {
    fn encode(&self) -> Result<Vec<u8>, StoreError> {
        let wrap = match self.wrap {
            TokenWrap::AesGcm => 1,
            TokenWrap::RsaOaepSha256 => 2,
            TokenWrap::RsaOaepSha1 => 3,
        };
        let mut out = vec![VERSION, wrap];
        put_short(&mut out, self.key.token.as_bytes(), "token label")?;
        put_short(&mut out, self.key.key.as_bytes(), "token key label")?;
        put_short(&mut out, &self.wrapped, "wrapped secret")?;
        Ok(out)
    }

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        const FIELD: &str = "token parameters";
        let corrupt = |reason: &str| StoreError::corrupt(FIELD, reason);
        let mut reader = Reader::new(bytes);
        let version = reader.u8(FIELD)?;
        if version != VERSION {
            return Err(StoreError::FutureVersion {
                found: version.into(),
                supported: VERSION.into(),
            });
        }
        let wrap = match reader.u8(FIELD)? {
            1 => TokenWrap::AesGcm,
            2 => TokenWrap::RsaOaepSha256,
            3 => TokenWrap::RsaOaepSha1,
            _ => return Err(corrupt("an unknown way of wrapping")),
        };
        let mut label = |max| -> Result<String, StoreError> {
            let text = std::str::from_utf8(reader.short(max, FIELD)?);
            text.map(str::to_owned).map_err(|_| corrupt("a label that is no text"))
        };
        let key = TokenKey { token: label(MAX_TOKEN_BYTES)?, key: label(MAX_KEY_BYTES)? };
        let wrapped = reader.short(MAX_WRAPPED_BYTES, FIELD)?.to_vec();
        reader.end(FIELD)?;
        Ok(Self { wrap, key, wrapped })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parameters_round_trip_and_no_part_of_them_is_read(
            token in "[a-zA-Z äß]{1,8}",
            key in "[a-z]{1,40}",
            wrapped in proptest::collection::vec(any::<u8>(), 0..=1024),
            wrap in prop::sample::select(vec![
                TokenWrap::AesGcm, TokenWrap::RsaOaepSha256, TokenWrap::RsaOaepSha1,
            ]),
        ) {
            let params = Params { wrap, key: TokenKey { token, key }, wrapped };
            let bytes = params.encode().unwrap();
            for cut in 0..bytes.len() {
                prop_assert!(Params::decode(&bytes[..cut]).is_err());
            }
            prop_assert!(Params::decode(&[bytes.as_slice(), &[0]].concat()).is_err());
            prop_assert_eq!(Params::decode(&bytes).unwrap(), params);
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes: Vec<u8>) {
            if let Ok(params) = Params::decode(&bytes) {
                prop_assert_eq!(params.encode().unwrap(), bytes);
            }
        }
    }
}
