//! The kinds of secret that open a master key, by their identifiers on disk.

use std::fmt;

/// The kinds of secret that open a master key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProtectorKind {
    /// A password, through Argon2id. Identifier 1.
    Password,
    /// Random key material of 32 bytes or more, through HKDF. Identifier 2.
    KeyMaterial,
    /// A key in a token, through PKCS#11. Identifier 3.
    Token,
    /// A key in HashiCorp Vault or OpenBao. Identifier 4.
    Vault,
    /// A key in AWS KMS. Identifier 5.
    AwsKms,
    /// A provider that this program does not support.
    Other(u16),
}

impl ProtectorKind {
    /// The identifier on disk.
    #[must_use]
    pub fn id(self) -> u16 {
        match self {
            Self::Password => 1,
            Self::KeyMaterial => 2,
            Self::Token => 3,
            Self::Vault => 4,
            Self::AwsKms => 5,
            Self::Other(id) => id,
        }
    }

    /// The kind with this identifier.
    #[must_use]
    pub fn from_id(id: u16) -> Self {
        match id {
            1 => Self::Password,
            2 => Self::KeyMaterial,
            3 => Self::Token,
            4 => Self::Vault,
            5 => Self::AwsKms,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for ProtectorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password => f.write_str("a password"),
            Self::KeyMaterial => f.write_str("a key file"),
            Self::Token => f.write_str("a PKCS#11 token"),
            Self::Vault => f.write_str("a key in Vault"),
            Self::AwsKms => f.write_str("a key in AWS KMS"),
            Self::Other(id) => write!(f, "provider {id} of a newer program"),
        }
    }
}
