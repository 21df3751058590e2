//! What keeps an encrypted database from becoming plain, or from being replaced by what anybody can
//! have made, without a word.

use std::fs::File;
use std::io;
use std::path::Path;

use tdekit_backup_run::SetInfo;
use tdekit_key_store::{BackupPolicy, StoreError, backup_policy};
use tdekit_sqlite_convert::{FileKind, Form, io_error, read_area};

use crate::backup::error::BackupError;
use crate::cli::GlobalArgs;
use crate::error::CommandError;
use crate::{output, session};

/// What the user said about a restore that lowers the protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Consent {
    /// `--plain`.
    pub(crate) plain: bool,
    /// `--allow-unauthenticated`.
    pub(crate) unauthenticated: bool,
    /// Every set that is restored has the signature that was asked for.
    pub(crate) signed: bool,
}

/// Refuses to put a plain database, or the content of a plain set, in the place of an encrypted
/// database: nobody knows who made that. `path` is resolved.
///
/// # Errors
/// `Downgrade`, `Unauthenticated`; `Io` for a file that cannot be read.
pub(crate) fn refuse(
    path: &Path,
    form: &Form,
    sets: &[&SetInfo],
    consent: Consent,
) -> Result<(), CommandError> {
    if consent.plain || !is_encrypted(path)? {
        return Ok(());
    }
    let path = path.to_owned();
    if matches!(form, Form::Plain) {
        return Err(BackupError::Downgrade { path }.into());
    }
    let sealed = sets.iter().all(|set| set.algorithm.is_some());
    if !sealed && !consent.signed && !consent.unauthenticated {
        return Err(BackupError::Unauthenticated { path }.into());
    }
    Ok(())
}

/// Warns of a plain database under a name at which nothing stands, and where the key store knows
/// of an encrypted one.
pub(crate) fn warn(path: &Path, form: &Form, global: &GlobalArgs) {
    if !matches!(form, Form::Plain) || path.exists() {
        return;
    }
    let uses = session::open_store(global).ok().and_then(|store| store.uses().ok());
    if uses.unwrap_or_default().iter().any(|known| known.path == path) {
        output::warning(format_args!(
            "the backup is plain, and so is {} now, where an encrypted database stood",
            path.display()
        ));
    }
}

/// Whether an encrypted database stands there.
fn is_encrypted(path: &Path) -> Result<bool, CommandError> {
    match File::open(path) {
        Ok(file) => {
            let area = read_area(&file).map_err(io_error("read", path))?;
            Ok(FileKind::of(&area) == FileKind::Encrypted)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error("open", path)(error).into()),
    }
}

/// What `[backup] require` in the configuration asks of each set; nothing where there is no store.
///
/// # Errors
/// `Store` for a configuration that cannot be read.
pub(crate) fn policy(global: &GlobalArgs) -> Result<BackupPolicy, CommandError> {
    match session::store_dir(global) {
        Ok(dir) => Ok(backup_policy(&dir)?),
        Err(CommandError::Store(StoreError::NoHome)) => Ok(BackupPolicy::default()),
        Err(error) => Err(error),
    }
}

/// Refuses a plain set where the configuration requires encrypted ones.
///
/// # Errors
/// `PlainSet`.
pub(crate) fn refuse_plain(policy: &BackupPolicy, sets: &[&SetInfo]) -> Result<(), BackupError> {
    match sets.iter().find(|set| policy.encrypted && set.algorithm.is_none()) {
        Some(set) => Err(BackupError::PlainSet { position: set.position }),
        None => Ok(()),
    }
}

/// Refuses to make a set that the configuration would not restore.
///
/// # Errors
/// `WouldBeRefused`.
pub(crate) fn refuse_backup(
    global: &GlobalArgs,
    encrypted: bool,
    signed: bool,
) -> Result<(), CommandError> {
    let policy = policy(global)?;
    let lacks = if policy.encrypted && !encrypted {
        "encrypted sets: --certificate NAME makes one"
    } else if policy.signed_by.is_some() && !signed {
        "signed sets: --sign NAME makes one"
    } else {
        return Ok(());
    };
    Err(BackupError::WouldBeRefused { lacks }.into())
}
