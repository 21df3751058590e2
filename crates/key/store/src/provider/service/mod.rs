//! A key in a key service: HashiCorp Vault or OpenBao (transit), or AWS KMS. It wraps 32 random
//! bytes, which are the protector's secret.
//!
//! Another process, the `tdekit` program, asks the service: an application that loads the extension
//! does not get an HTTP and TLS client. Parameters: version (1 byte: 1), a flag for whether the
//! service bound the secret to this store (1 byte), then byte strings after lengths of 16 bits: the
//! names that locate the key, and the wrapped secret. The names inform and are compared; the
//! environment or the configuration decides where credentials go, never the store file.

mod ask;
mod names;
mod program;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

use tdekit_key_crypto::SecretBytes;

pub use ask::{ServiceAnswer, ServiceOperation, ServiceRequest};
pub use names::{AwsKmsKey, KeyService, VaultKey};
pub use program::ask_services_by_this_program;

use super::Provider;
use crate::bytes::{Reader, put_short};
use crate::derive::{Binding, open_master_key, seal_master_key};
use crate::error::StoreError;
use crate::file::Protector;
use crate::protector_kind::ProtectorKind;

const VERSION: u8 = 1;
const SECRET_LEN: usize = 32;
/// AWS KMS returns at most 6144 bytes, for far longer plaintexts.
const MAX_WRAPPED_BYTES: usize = 2048;
const FIELD: &str = "key service parameters";

/// A key in a key service, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccess {
    /// The key.
    pub service: KeyService,
    /// The `tdekit` program that asks the service, where this process is another program.
    pub program: Option<PathBuf>,
    /// Total time limit for opening in seconds, retries included: 1 to 300; `None` for 30.
    pub timeout_s: Option<u16>,
}

/// The name of a key in a key service, as stored in a protector: for people, and for comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceKeyName {
    /// The server's address when the protector was made; `None` for AWS, where the key names it.
    pub address: Option<String>,
    /// For Vault: mount and name, with the namespace before them. For AWS: the ARN.
    pub key: String,
}

/// Returns the key that seals a protector of a key service; `None` for other kinds.
#[must_use]
pub fn service_key(protector: &Protector) -> Option<ServiceKeyName> {
    let params = Params::decode(protector.kind, &protector.params).ok()?;
    Some(ServiceKeyName { address: params.address, key: params.key })
}

pub(super) struct ServiceProvider<'a> {
    access: &'a ServiceAccess,
}

impl<'a> ServiceProvider<'a> {
    pub(super) fn new(access: &'a ServiceAccess) -> Result<Self, StoreError> {
        access.service.check()?;
        Ok(Self { access })
    }

    fn ask(
        &self,
        operation: ServiceOperation,
        input: &SecretBytes,
        binding: &Binding,
    ) -> Result<ServiceAnswer, StoreError> {
        let request = ServiceRequest {
            service: self.access.service.clone(),
            operation,
            timeout_s: self.access.timeout_s.unwrap_or(ask::DEFAULT_TIMEOUT_S),
            store_id: hex::encode(binding.store_id),
            protector_id: hex::encode(binding.protector_id),
        };
        ask::ask(self.access, &request, input)
    }

    fn unwrap(
        &self,
        wrapped: &[u8],
        bound: bool,
        binding: &Binding,
    ) -> Result<SecretBytes, StoreError> {
        let wrapped = SecretBytes::from_slice(wrapped)?;
        let answer = self.ask(ServiceOperation::Unwrap { bound }, &wrapped, binding)?;
        if answer.output.len() == SECRET_LEN {
            return Ok(answer.output);
        }
        Err(self.fault("it unwrapped a secret of another length"))
    }

    fn fault(&self, reason: &str) -> StoreError {
        StoreError::Service {
            service: self.access.service.to_string(),
            reason: reason.to_owned(),
            others: Vec::new(),
        }
    }
}

impl Provider for ServiceProvider<'_> {
    fn kind(&self) -> ProtectorKind {
        self.access.service.kind()
    }

    fn seal(&self, master_key: &SecretBytes, binding: &Binding) -> Result<Protector, StoreError> {
        let secret = SecretBytes::random(SECRET_LEN)?;
        let answer = self.ask(ServiceOperation::Wrap, &secret, binding)?;
        let wrapped = answer.output.expose();
        // A secret that the service cannot unwrap must not become the way into a store.
        let back = self.unwrap(wrapped, answer.bound, binding)?;
        if !back.ct_eq(secret.expose()) {
            return Err(self.fault("it unwrapped another secret than it had wrapped"));
        }
        let (address, key) = self.access.service.names();
        let params = Params { bound: answer.bound, address, key, wrapped: wrapped.to_vec() };
        seal_master_key(&secret, self.kind(), params.encode()?, binding, master_key)
    }

    fn open(&self, protector: &Protector, binding: &Binding) -> Result<SecretBytes, StoreError> {
        let params = Params::decode(protector.kind, &protector.params)?;
        let (_, configured) = self.access.service.names();
        if params.key != configured {
            return Err(StoreError::OtherServiceKey { configured, stored: params.key });
        }
        let secret = self.unwrap(&params.wrapped, params.bound, binding)?;
        let origin = self.access.service.to_string();
        open_master_key(&secret, protector, binding)?.ok_or(StoreError::WrongKey { origin })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Params {
    bound: bool,
    /// Vault only.
    address: Option<String>,
    key: String,
    wrapped: Vec<u8>,
}

impl Params {
    fn encode(&self) -> Result<Vec<u8>, StoreError> {
        let mut out = vec![VERSION, u8::from(self.bound)];
        if let Some(address) = &self.address {
            put_short(&mut out, address.as_bytes(), FIELD)?;
        }
        put_short(&mut out, self.key.as_bytes(), FIELD)?;
        put_short(&mut out, &self.wrapped, FIELD)?;
        Ok(out)
    }

    fn decode(kind: ProtectorKind, bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupt = |reason: &str| StoreError::corrupt(FIELD, reason);
        let addressed = match kind {
            ProtectorKind::Vault => true,
            ProtectorKind::AwsKms => false,
            _ => return Err(corrupt("not of a key service")),
        };
        let mut reader = Reader::new(bytes);
        let version = reader.u8(FIELD)?;
        if version != VERSION {
            return Err(StoreError::FutureVersion {
                found: version.into(),
                supported: VERSION.into(),
            });
        }
        let bound = match reader.u8(FIELD)? {
            0 => false,
            1 => true,
            _ => return Err(corrupt("neither bound nor not")),
        };
        let mut text = |max| -> Result<String, StoreError> {
            let text = std::str::from_utf8(reader.short(max, FIELD)?).ok();
            let text = text.filter(|text| !text.chars().any(char::is_control));
            text.map(str::to_owned).ok_or_else(|| corrupt("a name that is no text"))
        };
        let address = if addressed { Some(text(names::MAX_ADDRESS_BYTES)?) } else { None };
        let key = text(names::MAX_KEY_BYTES)?;
        let wrapped = reader.short(MAX_WRAPPED_BYTES, FIELD)?.to_vec();
        reader.end(FIELD)?;
        Ok(Self { bound, address, key, wrapped })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parameters_round_trip_and_no_part_of_them_is_read(
            address in proptest::option::of("https://[a-z.]{1,20}"),
            key in "[a-z/]{1,40}",
            wrapped in proptest::collection::vec(any::<u8>(), 0..=2048),
            bound: bool,
        ) {
            let vault = address.is_some();
            let kind = if vault { ProtectorKind::Vault } else { ProtectorKind::AwsKms };
            let params = Params { bound, address, key, wrapped };
            let bytes = params.encode().unwrap();
            for cut in 0..bytes.len() {
                prop_assert!(Params::decode(kind, &bytes[..cut]).is_err());
            }
            prop_assert!(Params::decode(kind, &[bytes.as_slice(), &[0]].concat()).is_err());
            prop_assert!(Params::decode(ProtectorKind::Token, &bytes).is_err());
            prop_assert_eq!(Params::decode(kind, &bytes).unwrap(), params);
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes: Vec<u8>) {
            for kind in [ProtectorKind::Vault, ProtectorKind::AwsKms] {
                if let Ok(params) = Params::decode(kind, &bytes) {
                    prop_assert_eq!(params.encode().unwrap(), bytes.clone());
                }
            }
        }
    }

    /// These bytes are part of the format: a change of them is a change of
    /// `docs/format/keystore.md`.
    #[test]
    fn parameters_have_these_bytes() {
        let vault = Params {
            bound: true,
            address: Some("https://v".to_owned()),
            key: "transit/k".to_owned(),
            wrapped: b"vault:v1:AA==".to_vec(),
        };
        let bytes = b"\x01\x01\x09\0https://v\x09\0transit/k\x0d\0vault:v1:AA==";
        assert_eq!(vault.encode().unwrap(), bytes);
        let kms = Params { bound: true, address: None, key: "arn".into(), wrapped: vec![7] };
        assert_eq!(kms.encode().unwrap(), b"\x01\x01\x03\0arn\x01\0\x07");
    }
}
