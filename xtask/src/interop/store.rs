//! A separate key store, and the release build's command using it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{empty, output};
use crate::shipped::{command_path, extension_path};

const CERTIFICATE: &str = "AppCert";
pub(super) const PASSWORD: &str = "only for the interop tests";

/// A key store with one certificate.
pub(super) struct Store {
    home: PathBuf,
}

impl Store {
    /// Creates a new store in `home`, which is emptied first.
    ///
    /// # Errors
    /// When the command refuses.
    pub(super) fn create(home: &Path) -> Result<Self> {
        empty(home)?;
        let store = Self { home: home.to_path_buf() };
        store.tdekit(&["key", "init"], None)?;
        store.tdekit(&["cert", "create", CERTIFICATE], None)?;
        Ok(store)
    }

    /// Encrypts `database`, and checks that its status shows it.
    ///
    /// # Errors
    /// When the command refuses, or the status does not name the certificate.
    pub(super) fn encrypt(&self, database: &Path) -> Result<()> {
        self.tdekit(&["encrypt", "--certificate", CERTIFICATE], Some(database))?;
        self.expect_encrypted(database)
    }

    /// Checks that the status of `database` shows certificate and algorithm.
    ///
    /// # Errors
    /// When it does not.
    pub(super) fn expect_encrypted(&self, database: &Path) -> Result<()> {
        let status = self.tdekit(&["status", "--json"], Some(database))?;
        for word in [CERTIFICATE, "AES_256"] {
            if !status.contains(word) {
                bail!("the status does not tell {word}: {status}");
            }
        }
        Ok(())
    }

    /// Creates an encrypted backup of `database`, compressed by zstd, in the new media set `media`.
    ///
    /// # Errors
    /// When the command refuses.
    pub(super) fn backup(&self, database: &Path, media: &Path) -> Result<()> {
        let media = media.to_string_lossy();
        let mut arguments = vec!["backup", "--to", &media, "--certificate", CERTIFICATE];
        arguments.extend(["--compression", "zstd", "--encryption", "AES_256"]);
        self.tdekit(&arguments, Some(database)).map(drop)
    }

    /// Appends a signed differential backup of `database` to the media set `media`.
    ///
    /// # Errors
    /// When the command refuses.
    pub(super) fn backup_changes(&self, database: &Path, media: &Path) -> Result<()> {
        let media = media.to_string_lossy();
        let mut arguments = vec!["backup", "--to", &media, "--certificate", CERTIFICATE];
        arguments.extend(["--differential", "--sign", CERTIFICATE]);
        self.tdekit(&arguments, Some(database)).map(drop)
    }

    /// Writes the certificate's private key to the new file `key`, under [`PASSWORD`].
    ///
    /// # Errors
    /// When the command refuses.
    pub(super) fn export_key(&self, key: &Path) -> Result<()> {
        let certificate = key.with_extension("certificate");
        let (key, certificate) = (key.to_string_lossy(), certificate.to_string_lossy());
        let to = ["--out", &certificate, "--key-out", &key];
        self.tdekit(&[&["cert", "backup", CERTIFICATE], &to[..]].concat(), None).map(drop)
    }

    /// Decrypts `database`.
    ///
    /// # Errors
    /// When the command refuses.
    pub(super) fn decrypt(&self, database: &Path) -> Result<()> {
        self.tdekit(&["decrypt"], Some(database)).map(drop)
    }

    /// Gives `command` access to encrypted databases: the path of the extension, and the keys.
    pub(super) fn give_to(&self, command: &mut Command) {
        command
            .env("TDEKIT_EXTENSION", extension_path())
            .env("TDEKIT_HOME", &self.home)
            .env("TDEKIT_PASSWORD", PASSWORD);
    }

    /// Makes `command` create new databases encrypted.
    pub(super) fn encrypt_new<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        self.give_to(command);
        command.env("TDEKIT_ENCRYPT_NEW", CERTIFICATE)
    }

    fn tdekit(&self, arguments: &[&str], database: Option<&Path>) -> Result<String> {
        let mut command = Command::new(command_path());
        forget_tdekit(&mut command);
        self.give_to(&mut command);
        command.env("TDEKIT_BACKUP_PASSWORD", PASSWORD);
        command.args(arguments).args(database);
        output(&mut command).with_context(|| format!("tdekit {}", arguments.join(" ")))
    }
}

/// Removes every setting of tdekit from `command`'s environment: the user's settings would
/// otherwise apply to the test databases.
pub(super) fn forget_tdekit(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TDEKIT_") {
            command.env_remove(name);
        }
    }
}
