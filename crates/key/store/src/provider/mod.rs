//! Providers, which open the master key. One file each.

mod agent;
mod aws_profile;
mod environment;
mod key_material;
mod password;
mod secret_file;
mod service;
mod token;

use std::fmt;
use std::path::{Path, PathBuf};

use tdekit_key_crypto::SecretBytes;
use tdekit_key_crypto::password::PasswordParams;

pub(crate) use agent::knows as agent_knows;
pub use agent::{AGENT_VARIABLE, AgentKey, AgentQuestion};
pub use aws_profile::AwsProfile;
pub use environment::{
    BackupPolicy, CONFIG_FILE_NAME, OverviewConfig, RetentionConfig, backup_policy,
    overview_config, retention_config, serve_drives, service_unlock, unlocks_from_configuration,
    unlocks_from_environment,
};
pub(crate) use environment::{Configured, from_configuration, from_environment, logs_openings};
pub use key_material::{MIN_KEY_BYTES, generate_key_file};
pub use password::password_cost;
pub use secret_file::{
    check_code_file, check_opened_code, check_private_file, read_key_file, read_password_file,
    read_private_file,
};
pub use service::{
    AwsKmsKey, KeyService, ServiceAccess, ServiceAnswer, ServiceKeyName, ServiceOperation,
    ServiceRequest, VaultKey, ask_services_by_this_program, service_key,
};
pub use token::{Pin, TokenAccess, TokenKey, generate_token_key, token_key};

pub use crate::derive::Binding;
use crate::error::StoreError;
use crate::file::Protector;
use crate::protector_kind::ProtectorKind;

use agent::Agent;
use key_material::KeyMaterial;
use password::Password;
use service::ServiceProvider;
use token::TokenProvider;

/// Seals and opens the master key with a secret of its own: a password, a key, a token's slot.
///
/// A provider that keeps its secret elsewhere (a hardware token, a key service) stores the data
/// that locates it in [`Protector::params`] and the device's answer in [`Protector::sealed`].
pub trait Provider: Send + Sync {
    /// The kind of protector that it makes and opens.
    fn kind(&self) -> ProtectorKind;

    /// Seals `master_key`, bound to `binding`.
    ///
    /// # Errors
    /// `BadSecret`, `Crypto`, or errors of the provider's device.
    fn seal(&self, master_key: &SecretBytes, binding: &Binding) -> Result<Protector, StoreError>;

    /// Opens the output of [`Provider::seal`]. `protector.kind` is this provider's.
    ///
    /// # Errors
    /// `WrongPassword` or `WrongKey` when the secret is the wrong one, `Corrupt` when the protector
    /// is damaged.
    fn open(&self, protector: &Protector, binding: &Binding) -> Result<SecretBytes, StoreError>;
}

/// A secret that opens a store, or its location.
pub enum Unlock {
    /// A password.
    Password(SecretBytes),
    /// A file whose first line is the password.
    PasswordFile(PathBuf),
    /// Key material of at least [`MIN_KEY_BYTES`].
    Key {
        /// The key.
        key: SecretBytes,
        /// Its origin, for messages.
        origin: String,
    },
    /// A file whose bytes are the key.
    KeyFile(PathBuf),
    /// A token, through PKCS#11.
    Token(TokenAccess),
    /// A key in a key service.
    Service(ServiceAccess),
    /// An agent's socket. The agent has the hash of the password; it opens but never seals.
    Agent(PathBuf),
    /// A provider of the caller's own.
    Provider(Box<dyn Provider>),
}

impl Unlock {
    /// Returns the kind of protector that this opens.
    #[must_use]
    pub fn kind(&self) -> ProtectorKind {
        match self {
            Self::Password(_) | Self::PasswordFile(_) | Self::Agent(_) => ProtectorKind::Password,
            Self::Key { .. } | Self::KeyFile(_) => ProtectorKind::KeyMaterial,
            Self::Token(_) => ProtectorKind::Token,
            Self::Service(access) => access.service.kind(),
            Self::Provider(provider) => provider.kind(),
        }
    }

    /// Calls `f` with the provider, after reading the secret from its file if it is in one. `cost`
    /// applies to a password that seals; for opening, the store determines the cost.
    ///
    /// # Errors
    /// `BadSecret`, `InsecureFile`, `Io`; errors of `f`.
    pub fn with_provider<T>(
        &self,
        cost: PasswordParams,
        f: impl FnOnce(&dyn Provider) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self {
            Self::Password(password) => f(&Password::new(password.try_clone()?, "password", cost)?),
            Self::PasswordFile(path) => {
                f(&Password::new(read_password_file(path)?, &shown(path), cost)?)
            }
            Self::Key { key, origin } => f(&KeyMaterial::new(key.try_clone()?, origin)?),
            Self::KeyFile(path) => f(&KeyMaterial::new(read_key_file(path)?, &shown(path))?),
            Self::Token(access) => f(&TokenProvider::new(access)?),
            Self::Service(access) => f(&ServiceProvider::new(access)?),
            Self::Agent(socket) => f(&Agent { socket }),
            Self::Provider(provider) => f(provider.as_ref()),
        }
    }
}

impl fmt::Debug for Unlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password(_) => f.write_str("Password(redacted)"),
            Self::PasswordFile(path) => write!(f, "PasswordFile({})", path.display()),
            Self::Key { origin, .. } => write!(f, "Key({origin}, redacted)"),
            Self::KeyFile(path) => write!(f, "KeyFile({})", path.display()),
            Self::Token(access) => write!(f, "Token({})", access.module.display()),
            Self::Service(access) => write!(f, "Service({})", access.service),
            Self::Agent(socket) => write!(f, "Agent({})", socket.display()),
            Self::Provider(provider) => write!(f, "Provider({})", provider.kind()),
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
