//! Guards against downgrade: no encrypted database becomes plain, or is replaced by a set of
//! unproven origin, unless the user agrees.

use std::fs::File;
use std::io;
use std::path::Path;

use tdekit_key_store::{BackupPolicy, StoreError, backup_policy};
use tdekit_sqlite_convert::{FileKind, Form, io_error, read_area};

use crate::operator::{Notice, Operator};
use crate::signature::Signer;
use crate::{RunError, SetInfo};

/// The user's consent to a restore that lowers the protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Consent {
    /// `--plain`.
    pub plain: bool,
    /// `--allow-unauthenticated`.
    pub unauthenticated: bool,
    /// Every restored set has the requested signature.
    pub signed: bool,
}

/// Refuses to replace an encrypted database by a plain one, or by sets that anybody can have made.
/// `is_our_own` returns whether we signed the sets; it is called only if it matters, because every
/// block may have to be read. `path` is resolved.
///
/// # Errors
/// `Downgrade`, `Unauthenticated`; `Io` for a file that cannot be read; those of `is_our_own`.
pub fn refuse(
    path: &Path,
    form: &Form,
    consent: Consent,
    is_our_own: impl FnOnce() -> Result<bool, RunError>,
) -> Result<(), RunError> {
    if consent.plain || !is_encrypted(path)? {
        return Ok(());
    }
    let path = path.to_owned();
    if matches!(form, Form::Plain) {
        return Err(RunError::Downgrade { path });
    }
    if consent.signed || consent.unauthenticated || is_our_own()? {
        return Ok(());
    }
    Err(RunError::Unauthenticated { path })
}

/// Warns of a plain database under an unused name for which the key store knows an encrypted one.
pub fn warn(path: &Path, form: &Form, operator: &dyn Operator) {
    if !matches!(form, Form::Plain) || path.exists() {
        return;
    }
    let uses = operator.open_store().ok().and_then(|store| store.uses().ok());
    if uses.unwrap_or_default().iter().any(|known| known.path == path) {
        operator.tell(&Notice::PlainNow { path });
    }
}

/// Returns true if an encrypted database exists there.
fn is_encrypted(path: &Path) -> Result<bool, RunError> {
    match File::open(path) {
        Ok(file) => {
            let area = read_area(&file).map_err(io_error("read", path))?;
            Ok(FileKind::of(&area) == FileKind::Encrypted)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error("open", path)(error).into()),
    }
}

/// Returns the requirements of `[backup] require` in the configuration; none if there is no store.
///
/// # Errors
/// `Store` for a configuration that cannot be read.
pub fn policy(operator: &dyn Operator) -> Result<BackupPolicy, RunError> {
    match operator.access().dir() {
        Ok(dir) => Ok(backup_policy(&dir)?),
        Err(StoreError::NoHome) => Ok(BackupPolicy::default()),
        Err(error) => Err(error.into()),
    }
}

/// Refuses a plain set if the configuration requires encrypted ones.
///
/// # Errors
/// `PlainSet`.
pub fn refuse_plain(policy: &BackupPolicy, sets: &[&SetInfo]) -> Result<(), RunError> {
    match sets.iter().find(|set| policy.encrypted && set.algorithm.is_none()) {
        Some(set) => Err(RunError::PlainSet { position: set.position }),
        None => Ok(()),
    }
}

/// Refuses to make a set that the configuration would not restore.
///
/// # Errors
/// `WouldBeRefused`.
pub fn refuse_backup(
    policy: &BackupPolicy,
    encrypted: bool,
    signer: Option<&Signer>,
) -> Result<(), RunError> {
    let wanted = policy.signed_by.as_ref();
    let lacks = if policy.encrypted && !encrypted {
        "encrypted sets: --certificate NAME makes one"
    } else if wanted.is_some_and(|wanted| !signer.is_some_and(|signer| signer.is(wanted))) {
        "sets signed by another certificate: --sign NAME makes one"
    } else {
        return Ok(());
    };
    Err(RunError::WouldBeRefused { lacks })
}
