//! The key store that a restore makes on a machine where its certificate is not known yet.

use std::path::Path;

use tdekit_backup_run::{RunError, SetInfo, inherit::certificates_for};
use tdekit_console::{ConsoleError, GlobalArgs, output, session};
use tdekit_key_store::{
    CertificateBackup, KeyStore, PasswordParams, StoreError, Unlocked, thumbprint,
};

use crate::error::CommandError;

/// Returns the key store, which is made if there is none. It gets the certificate of `backup`,
/// which opens `set`, unless it has another for which the database at `path` can be encrypted.
///
/// # Errors
/// `NoStoreYet` if there is no secret for a new key store; those of the key store.
pub(crate) fn store_for(
    backup: &CertificateBackup,
    set: &SetInfo,
    path: &Path,
    global: &GlobalArgs,
) -> Result<Unlocked, CommandError> {
    let recipient = set.recipients.iter().find(|each| backup.unwraps(&each.wrapped));
    let recipient = recipient.ok_or(RunError::KeyNeeded { position: set.position })?;
    let mut unlocked = match session::open_unlocked_store(global) {
        Ok(unlocked) => unlocked,
        Err(ConsoleError::Store(StoreError::Missing { .. })) => {
            let secret = session::secret_to_set(global).map_err(|error| match error {
                ConsoleError::NoSecret { .. } => CommandError::from(RunError::NoStoreYet {
                    path: path.to_owned(),
                    name: recipient.name.clone(),
                    thumbprint: thumbprint(&recipient.wrapped.sha256),
                }),
                error => error.into(),
            })?;
            let dir = session::store_dir(global)?;
            let made = KeyStore::create(&dir, &secret, PasswordParams::default())?;
            output::note(format_args!("Made the key store {}", made.store().path().display()));
            made
        }
        Err(error) => return Err(error.into()),
    };
    if certificates_for(set, unlocked.store()).is_empty() {
        let info = unlocked.import_certificate(&recipient.name, backup)?;
        let (name, thumbprint) = (&info.name, info.thumbprint());
        output::note(format_args!(
            "Restored certificate {name} ({thumbprint}) into the key store; next: tdekit key \
             backup --out FILE"
        ));
    }
    Ok(unlocked)
}
