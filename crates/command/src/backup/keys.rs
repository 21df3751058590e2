//! Keys that open backup sets: from the key store, or from a certificate's own files.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tdekit_backup_run::Keys;
use tdekit_console::session::{self, Ask};
use tdekit_console::{ConsoleError, GlobalArgs};
use tdekit_key_store::{CertificateBackup, StoreError, read_certificate_file};

use crate::error::CommandError;
use crate::pem::read_pem;

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

impl KeyArgs {
    /// Returns true if a certificate's own files are given.
    pub(crate) fn has_files(&self) -> bool {
        self.certificate_file.is_some() || self.pkcs12.is_some()
    }

    /// Refuses files that were given but open nothing: the set is not the one that the user has in
    /// mind.
    ///
    /// # Errors
    /// `Usage`.
    pub(crate) fn refuse_unused(&self, why: &str) -> Result<(), CommandError> {
        match (&self.pkcs12, &self.certificate_file) {
            (None, None) => Ok(()),
            (Some(_), _) => Err(CommandError::usage(format!("--pkcs12 opens nothing: {why}"))),
            _ => Err(CommandError::usage(format!("--certificate-file opens nothing: {why}"))),
        }
    }

    /// Returns the arguments that open the key store: `--key-file` names the private key's file if
    /// there is a certificate's file without `--private-key`.
    pub(crate) fn for_store(&self, global: &GlobalArgs) -> GlobalArgs {
        let mut global = global.clone();
        if self.certificate_file.is_some() && self.private_key.is_none() {
            global.key_file = None;
        }
        global
    }

    /// Returns the key in the given files, if there are any.
    ///
    /// # Errors
    /// Those of reading the keys in the files; `Secret` if there is no password for them.
    pub(crate) fn files_key(&self, global: &GlobalArgs) -> Result<Option<Keys>, CommandError> {
        let file = self.backup_password_file.as_deref();
        let password = || Ok(session::backup_password(file, Ask::Existing)?);
        let backup = match (&self.certificate_file, &self.pkcs12) {
            (Some(certificate), _) => {
                let key = self.private_key.as_deref().or(global.key_file.as_deref());
                read_pem(certificate, key, password)?
            }
            (None, Some(path)) => {
                CertificateBackup::from_pkcs12(&read_certificate_file(path)?, path, &password()?)?
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(Keys::Certificate(Box::new(backup))))
    }

    /// Returns the key in the given files, or the key store's.
    ///
    /// # Errors
    /// As [`Self::files_key`]; those of opening the key store.
    pub(crate) fn open(&self, global: &GlobalArgs) -> Result<Keys, CommandError> {
        match self.files_key(global)? {
            Some(keys) => Ok(keys),
            None => Ok(Keys::Store(Arc::new(session::open_unlocked_store(global)?))),
        }
    }

    /// As [`Self::open`]. Where there are neither files nor a key store, the reason is returned.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn open_or_missing(
        &self,
        global: &GlobalArgs,
    ) -> Result<Result<Keys, StoreError>, CommandError> {
        match self.open(global) {
            Ok(keys) => Ok(Ok(keys)),
            Err(CommandError::Console(ConsoleError::Store(
                missing @ (StoreError::Missing { .. }
                | StoreError::NoHome
                | StoreError::NoProvider { .. }),
            ))) if !self.has_files() => Ok(Err(missing)),
            Err(error) => Err(error),
        }
    }
}
