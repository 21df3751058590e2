//! Names of keys in key services. A name becomes part of an address, so few characters are allowed.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::protector_kind::ProtectorKind;

pub(super) const MAX_ADDRESS_BYTES: usize = 512;
/// Maximum length of namespace, mount and name in Vault, or of an ARN in AWS.
pub(super) const MAX_KEY_BYTES: usize = 512;

/// A key in a key service, and the locations of the service and its credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyService {
    /// HashiCorp Vault or OpenBao, its transit engine.
    Vault(VaultKey),
    /// AWS KMS.
    AwsKms(AwsKmsKey),
}

/// A key of Vault's transit engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultKey {
    /// `https://HOST:PORT`; `http://` for loopback only.
    pub address: String,
    /// Name of the key.
    pub key: String,
    /// Mount point of the engine.
    #[serde(default = "VaultKey::default_mount")]
    pub mount: String,
    /// The namespace, for servers that have namespaces.
    #[serde(default)]
    pub namespace: Option<String>,
    /// PEM file of the trusted certificates for the server; without it, the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// File with the token; without it, `VAULT_TOKEN`, then `~/.vault-token`.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
}

/// A key of AWS KMS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AwsKmsKey {
    /// ARN of the key, or of an alias. It names the region, and thereby the server.
    pub key: String,
    /// Another server, such as a VPC endpoint: `https://HOST`; `http://` for loopback only.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// PEM file of the trusted certificates for the server; without it, the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The shared credentials file; without it, `~/.aws/credentials`.
    #[serde(default)]
    pub credentials_file: Option<PathBuf>,
    /// The profile in that file; without it, `default`.
    #[serde(default)]
    pub profile: Option<String>,
}

impl VaultKey {
    /// Vault's default mount.
    #[must_use]
    pub fn default_mount() -> String {
        "transit".to_owned()
    }
}

impl AwsKmsKey {
    /// Returns partition and region of the ARN; `None` if it is not the ARN of a key or an alias.
    #[must_use]
    pub fn partition_and_region(&self) -> Option<(&str, &str)> {
        let lower = |text: &str| {
            let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            !text.is_empty() && text.chars().all(allowed)
        };
        let mut parts = self.key.splitn(6, ':');
        let mut next = || parts.next().unwrap_or_default();
        let (arn, partition, service, region) = (next(), next(), next(), next());
        let (account, resource) = (next(), next());
        let id = resource.strip_prefix("key/").or_else(|| resource.strip_prefix("alias/"))?;
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-');
        let good = arn == "arn"
            && service == "kms"
            && partition.starts_with("aws")
            && lower(partition)
            && lower(region)
            && account.len() == 12
            && account.bytes().all(|byte| byte.is_ascii_digit())
            && !id.is_empty()
            && id.chars().all(named);
        good.then_some((partition, region))
    }
}

impl KeyService {
    /// Returns the kind of protector that this key makes.
    #[must_use]
    pub fn kind(&self) -> ProtectorKind {
        match self {
            Self::Vault(_) => ProtectorKind::Vault,
            Self::AwsKms(_) => ProtectorKind::AwsKms,
        }
    }

    /// Returns the address that a store records, and the key's full name.
    pub(super) fn names(&self) -> (Option<String>, String) {
        match self {
            Self::Vault(vault) => {
                let parts = [vault.namespace.as_deref(), Some(&vault.mount), Some(&vault.key)];
                let parts: Vec<_> =
                    parts.into_iter().flatten().map(|p| p.trim_matches('/')).collect();
                (Some(vault.address.clone()), parts.join("/"))
            }
            Self::AwsKms(kms) => (None, kms.key.clone()),
        }
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        let bad = |what, value: &str, reason| {
            Err(StoreError::InvalidValue { what, value: value.to_owned(), reason })
        };
        match self {
            Self::Vault(vault) => {
                const RULE: &str = "has letters, digits, '.', '_' and '-' only";
                if !is_name(&vault.key) {
                    return bad("key in Vault", &vault.key, RULE);
                }
                for path in [Some(&vault.mount), vault.namespace.as_ref()].into_iter().flatten() {
                    if !path.trim_matches('/').split('/').all(is_name) {
                        return bad("mount or namespace in Vault", path, RULE);
                    }
                }
                if vault.address.is_empty() || vault.address.len() > MAX_ADDRESS_BYTES {
                    return bad("address of Vault", &vault.address, "has 1 to 512 bytes");
                }
            }
            Self::AwsKms(kms) if kms.partition_and_region().is_none() => {
                let reason = "is no ARN of a key or an alias: arn:aws:kms:REGION:ACCOUNT:key/ID";
                return bad("key in AWS KMS", &kms.key, reason);
            }
            Self::AwsKms(_) => {}
        }
        let (_, key) = self.names();
        if key.len() > MAX_KEY_BYTES {
            return bad("key in a key service", &key, "is too long");
        }
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name != "." && name != ".." && name.chars().all(allowed)
}

impl fmt::Display for KeyService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, key) = self.names();
        match address {
            Some(address) => write!(f, "the key {key} of Vault at {address}"),
            None => write!(f, "the key {key} of AWS KMS"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kms(key: &str) -> AwsKmsKey {
        let key = key.to_owned();
        AwsKmsKey { key, endpoint: None, ca_file: None, credentials_file: None, profile: None }
    }

    #[test]
    fn a_name_cannot_change_the_server_or_the_request() {
        let good = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab";
        assert_eq!(kms(good).partition_and_region(), Some(("aws", "eu-central-1")));
        let alias = "arn:aws-cn:kms:cn-north-1:111122223333:alias/app/db";
        assert_eq!(kms(alias).partition_and_region(), Some(("aws-cn", "cn-north-1")));
        for bad in [
            "",
            "1234abcd",
            "arn:aws:s3:eu-central-1:111122223333:key/a",
            "arn:aws:kms:eu.evil.example/:111122223333:key/a",
            "arn:aws:kms::111122223333:key/a",
            "arn:aws:kms:eu-central-1:11112222333:key/a",
            "arn:aws:kms:eu-central-1:111122223333:key/",
            "arn:aws:kms:eu-central-1:111122223333:key/a\"b",
            "arn:evil:kms:eu-central-1:111122223333:key/a",
        ] {
            assert_eq!(kms(bad).partition_and_region(), None, "{bad}");
            assert!(KeyService::AwsKms(kms(bad)).check().is_err(), "{bad}");
        }
        let vault = |key: &str, mount: &str| {
            KeyService::Vault(VaultKey {
                address: "https://v".to_owned(),
                key: key.to_owned(),
                mount: mount.to_owned(),
                namespace: None,
                ca_file: None,
                token_file: None,
            })
        };
        assert!(vault("k", "transit").check().is_ok());
        assert!(vault("k-1", "team/transit/").check().is_ok());
        for (key, mount) in [("../k", "t"), ("..", "t"), ("", "t"), ("k?x", "t"), ("k", "t/../s")] {
            assert!(vault(key, mount).check().is_err(), "{key} {mount}");
        }
    }
}
