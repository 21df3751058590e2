//! Arguments that every command takes: the key store, and the receiver of warnings.

use std::path::PathBuf;
use std::sync::Once;

use clap::Args;
use tdekit_backup_run::{Notice, Operator};
use tdekit_key_store::StoreAccess;

use crate::output;

/// Arguments that every command takes.
#[derive(Debug, Clone, Args)]
pub struct GlobalArgs {
    /// Directory of the key store [default: $TDEKIT_HOME, else ~/.local/share/tdekit]
    #[arg(long, global = true, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Open the key store with the password in this file
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "key_file")]
    pub password_file: Option<PathBuf>,
    /// Open the key store with the key in this file
    #[arg(long, global = true, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Show all columns of tables, and names as they are, however narrow the terminal is
    #[arg(long, global = true)]
    pub wide: bool,
}

impl Operator for GlobalArgs {
    fn access(&self) -> StoreAccess {
        StoreAccess {
            dir: self.store.clone(),
            password_file: self.password_file.clone(),
            key_file: self.key_file.clone(),
        }
    }

    /// Prints a warning and its hint on standard error. The warning of an exposed key store is
    /// printed once, however often the store is opened.
    fn tell(&self, notice: &Notice<'_>) {
        static TOLD: Once = Once::new();
        match notice {
            Notice::StoreExposed { .. } => TOLD.call_once(|| output::notice(notice)),
            _ => output::notice(notice),
        }
    }
}
