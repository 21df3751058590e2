//! The operator of the engine: names the key store, and receives warnings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tdekit_key_store::{KeyStore, StoreAccess, StoreError, Unlocked, iso8601};

use crate::RunError;

/// A command, or a server.
pub trait Operator: Send + Sync {
    /// Returns the key store, and its secret.
    fn access(&self) -> StoreAccess;

    /// Receives a notice of something that stops nothing but that the operator should know.
    fn tell(&self, notice: &Notice<'_>);
}

/// A notice for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Notice<'a> {
    /// Others can change files in the key store's directory.
    #[error(
        "the key store's directory {} has mode {mode:04o}: others can put an older key store \
         there, or take this one away", .dir.display()
    )]
    StoreExposed {
        /// The directory.
        dir: &'a Path,
        /// Its mode.
        mode: u32,
    },
    /// A certificate will soon make no new backups and wrap no new keys.
    #[error(
        "certificate {name} expires in {days} day(s), at {}: it makes no new backups from then on",
        iso8601(*.not_after)
    )]
    Expires {
        /// The certificate.
        name: &'a str,
        /// Remaining days.
        days: i64,
        /// End of validity, in seconds since 1970.
        not_after: i64,
    },
    /// A certificate that opens a set has expired.
    #[error("certificate {name} expired at {}; it still opens", iso8601(*.not_after))]
    Expired {
        /// The certificate.
        name: &'a str,
        /// End of validity, in seconds since 1970.
        not_after: i64,
    },
    /// A certificate for which the existing sets are encrypted, but the new one will not be.
    #[error(
        "the sets that are there open with certificate {certificate}, which is not in the key \
         store: the new one will not"
    )]
    NotInherited {
        /// Its name and thumbprint.
        certificate: &'a str,
    },
    /// A plain database is restored where an encrypted one was.
    #[error(
        "the backup is plain, and so is {} now, where an encrypted database stood", .path.display()
    )]
    PlainNow {
        /// The database.
        path: &'a Path,
    },
    /// A media set was not compared with the backup history.
    #[error("not compared with the backup history: {error}")]
    NotCompared {
        /// The reason.
        error: &'a RunError,
    },
    /// The backup history could not record the operation.
    #[error("the backup history was not written: {error}")]
    NotRecorded {
        /// The reason.
        error: &'a RunError,
    },
    /// The key store could not record that a media set needs its certificates.
    #[error("the key store could not note the media set: {error}")]
    NotNoted {
        /// The reason.
        error: &'a StoreError,
    },
    /// The audit log lacks the operation: nobody here can write to the key store.
    #[error("the key store's audit log lacks it: {error}")]
    NotLogged {
        /// The reason.
        error: &'a StoreError,
    },
    /// The key store could not remove a media set that no longer exists.
    #[error("the key store still lists what was replaced: {error}")]
    NotForgotten {
        /// The reason.
        error: &'a StoreError,
    },
}

impl dyn Operator + '_ {
    /// Returns the directory of the key store, which may not exist.
    ///
    /// # Errors
    /// Those of [`StoreAccess::dir`].
    pub fn store_dir(&self) -> Result<PathBuf, StoreError> {
        self.access().dir()
    }

    /// Reads the key store; needs no secret.
    ///
    /// # Errors
    /// Those of [`StoreAccess::open`].
    pub fn open_store(&self) -> Result<KeyStore, StoreError> {
        let store = self.access().open()?;
        if let Some(mode) = store.exposed_mode() {
            self.tell(&Notice::StoreExposed { dir: store.dir(), mode });
        }
        Ok(store)
    }

    /// Reads the key store and opens its master key. Never prompts.
    ///
    /// # Errors
    /// Those of `open_store` and of [`StoreAccess::unlock`].
    pub fn open_unlocked(&self) -> Result<Arc<Unlocked>, StoreError> {
        let store = self.open_store()?;
        self.access().unlock(&store).map(Arc::new)
    }

    /// Sends a notice of a certificate that expires soon.
    pub fn tell_expiring(&self, name: &str, not_after: i64) {
        if let Some(days) = tdekit_key_store::expires_soon(not_after) {
            self.tell(&Notice::Expires { name, days, not_after });
        }
    }
}
