//! How an object store keeps what a command writes.

use clap::{Args, ValueEnum};
use tdekit_backup_run::{ObjectLock, Storage};

/// Longest lock, in days.
const MAX_DAYS: i64 = 36_500;

/// Options for targets on an object store.
#[derive(Debug, Clone, Args)]
pub struct StorageArgs {
    /// On S3: lock each object for so many days, in which nobody can remove or replace it; the
    /// bucket must have been made for locks
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=MAX_DAYS))]
    object_lock: Option<u32>,
    /// Whether users with a right of their own can end the lock early
    #[arg(long, value_name = "MODE", default_value = "governance", requires = "object_lock")]
    object_lock_mode: LockMode,
    /// On S3: storage class of each object, such as STANDARD_IA [default: the bucket's own]
    #[arg(long, value_name = "CLASS")]
    storage_class: Option<String>,
}

/// Whether a lock can be ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LockMode {
    /// By users with the right s3:BypassGovernanceRetention.
    Governance,
    /// By nobody.
    Compliance,
}

impl StorageArgs {
    /// Returns the way in which objects are kept.
    #[must_use]
    pub fn storage(&self) -> Storage {
        storage(self.object_lock, self.object_lock_mode, self.storage_class.clone())
    }
}

/// Returns the way in which objects are kept.
#[must_use]
pub fn storage(days: Option<u32>, mode: LockMode, class: Option<String>) -> Storage {
    let compliance = mode == LockMode::Compliance;
    Storage { class, lock: days.map(|days| ObjectLock { days, compliance }) }
}

/// Returns the number of days of a lock.
///
/// # Errors
/// The fault, in words.
pub fn days(number: i64) -> Result<u32, String> {
    let days = Some(number).filter(|number| (1..=MAX_DAYS).contains(number));
    days.and_then(|days| u32::try_from(days).ok())
        .ok_or_else(|| format!("{number} is no number of days from 1 to {MAX_DAYS}"))
}

/// Parses the mode of a lock.
///
/// # Errors
/// The fault, in words.
pub fn parse_lock_mode(text: &str) -> Result<LockMode, String> {
    LockMode::from_str(text, true).map_err(|_| "it is neither governance nor compliance".to_owned())
}
