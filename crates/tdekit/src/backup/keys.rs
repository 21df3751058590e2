//! Keys that open backup sets: of the key store, or of a certificate's own files.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tdekit_backup_run::{Recipient, UnwrapSecret};
use tdekit_key_store::{
    CertificateBackup, SecretBytes, StoreError, Unlocked, WrappedDek, iso8601, now_seconds,
};

use crate::cli::GlobalArgs;
use crate::commands::cert::{read, read_pem};
use crate::error::CommandError;
use crate::output;
use crate::session::{self, Ask};

/// Arguments that name a key besides the key store's.
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// Open with the certificate in this PEM file and the private key in the one that --key-file
    /// names (or in the same), not with the key store
    #[arg(long, value_name = "FILE")]
    certificate_file: Option<PathBuf>,
    /// The private key's PEM file, where --key-file opens the key store
    #[arg(long, value_name = "FILE", requires = "certificate_file")]
    private_key: Option<PathBuf>,
    /// Open with the certificate and key in this PKCS#12 file
    #[arg(long, value_name = "FILE", conflicts_with = "certificate_file")]
    pkcs12: Option<PathBuf>,
    /// File with the password of these files [default: $TDEKIT_BACKUP_PASSWORD, else a prompt]
    #[arg(long, value_name = "FILE")]
    backup_password_file: Option<PathBuf>,
}

/// A key that is at hand.
pub(crate) enum Keys {
    /// The key store.
    Store(Arc<Unlocked>),
    /// A certificate's own files.
    Certificate(Box<CertificateBackup>),
}

impl KeyArgs {
    /// Whether a certificate's own files are named.
    pub(crate) fn has_files(&self) -> bool {
        self.certificate_file.is_some() || self.pkcs12.is_some()
    }

    /// Files that were named and open nothing: the set is not the one that the user thinks of.
    ///
    /// # Errors
    /// `Usage`.
    pub(crate) fn refuse_unused(&self, why: &str) -> Result<(), CommandError> {
        match (&self.pkcs12, &self.certificate_file) {
            (None, None) => Ok(()),
            (Some(_), _) => Err(CommandError::Usage(format!("--pkcs12 opens nothing: {why}"))),
            _ => Err(CommandError::Usage(format!("--certificate-file opens nothing: {why}"))),
        }
    }

    /// What opens the key store beside these: `--key-file` names the private key's file where
    /// there is a certificate's file without `--private-key`.
    pub(crate) fn for_store(&self, global: &GlobalArgs) -> GlobalArgs {
        let mut global = global.clone();
        if self.certificate_file.is_some() && self.private_key.is_none() {
            global.key_file = None;
        }
        global
    }

    /// The key of the files that are named, if any are.
    ///
    /// # Errors
    /// What the files say; `Secret` when there is no password for them.
    pub(crate) fn files_key(&self, global: &GlobalArgs) -> Result<Option<Keys>, CommandError> {
        let file = self.backup_password_file.as_deref();
        let password = || session::backup_password(file, Ask::Existing);
        let backup = match (&self.certificate_file, &self.pkcs12) {
            (Some(certificate), _) => {
                let key = self.private_key.as_deref().or(global.key_file.as_deref());
                read_pem(certificate, key, password)?
            }
            (None, Some(path)) => CertificateBackup::from_pkcs12(&read(path)?, path, &password()?)?,
            (None, None) => return Ok(None),
        };
        Ok(Some(Keys::Certificate(Box::new(backup))))
    }

    /// The key of the files that are named, else the key store's.
    ///
    /// # Errors
    /// As [`Self::files_key`]; those of opening the key store.
    pub(crate) fn open(&self, global: &GlobalArgs) -> Result<Keys, CommandError> {
        match self.files_key(global)? {
            Some(keys) => Ok(keys),
            None => Ok(Keys::Store(Arc::new(session::open_unlocked_store(global)?))),
        }
    }
}

impl Keys {
    /// Warns of those of a set's recipients whose certificate is here and has expired, or will
    /// soon.
    pub(crate) fn warn_of_ends(&self, recipients: &[Recipient]) {
        let mut told = Vec::new();
        for (name, not_after) in self.ends(recipients) {
            if told.contains(&name) {
                continue;
            }
            match not_after < now_seconds() {
                true => output::warning(format_args!(
                    "certificate {name} expired at {}; it still opens",
                    iso8601(not_after)
                )),
                false => output::warn_expiring(&name, not_after),
            }
            told.push(name);
        }
    }

    /// Names of those of a set's recipients whose certificate is here, and when it expires.
    fn ends(&self, recipients: &[Recipient]) -> Vec<(String, i64)> {
        let end = |recipient: &Recipient| match self {
            Self::Store(unlocked) => {
                let certificates = unlocked.store().certificates().iter();
                certificates
                    .filter(|info| info.public_key_sha256 == recipient.wrapped.public_key_sha256)
                    .map(|info| info.not_after)
                    .max()
            }
            Self::Certificate(backup) if backup.unwraps(&recipient.wrapped) => {
                backup.not_after().ok()
            }
            Self::Certificate(_) => None,
        };
        let named = |recipient: &Recipient| Some((recipient.name.clone(), end(recipient)?));
        recipients.iter().filter_map(named).collect()
    }
}

impl UnwrapSecret for Keys {
    fn unwrap_secret(&self, wrapped: &[WrappedDek]) -> Result<SecretBytes, StoreError> {
        match self {
            Self::Store(unlocked) => unlocked.unwrap_dek(wrapped),
            Self::Certificate(backup) => backup.unwrap_dek(wrapped),
        }
    }
}
