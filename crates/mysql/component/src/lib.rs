//! A keyring component for MySQL 9.7: the server asks it for the keys of its own encryption, which
//! lie in a tdekit key store as named keys (`docs/format/named-keys.md`).
//!
//! MySQL does the ciphering. The component keeps keys, generates them, and hands them out.

mod abi;
mod aes;
mod config;
mod entry;
mod error;
mod handles;
mod keyring;
mod lists;
mod memory;
mod report;

pub use config::{CONFIG_FILE, Config};
pub use error::ComponentError;
pub use keyring::{Key, Keyring};

/// Name of the component, and of its library in the server's plugin directory without `.so`.
pub const COMPONENT_NAME: &str = "component_keyring_tdekit";
