//! The program that asks key services: the running one, if it is `tdekit` itself, else one that the
//! environment or the configuration names by its absolute path.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::ServiceAccess;
use crate::error::StoreError;
use crate::provider::secret_file::check_code_file;

/// The executable of this process, even if its name has changed.
const SELF: &str = "/proc/self/exe";

static THIS_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Makes this process's own program ask key services from now on; it must have the verb
/// `key-service`. For `tdekit` itself.
pub fn ask_services_by_this_program() {
    THIS_PROGRAM.store(true, Ordering::Relaxed);
}

/// The program to start.
pub(super) fn program(access: &ServiceAccess) -> Result<PathBuf, StoreError> {
    if THIS_PROGRAM.load(Ordering::Relaxed) {
        return Ok(match Path::new(SELF).exists() {
            true => PathBuf::from(SELF),
            false => {
                std::env::current_exe().map_err(StoreError::io("find", Path::new("tdekit")))?
            }
        });
    }
    let Some(named) = &access.program else {
        return Err(StoreError::NoServiceProgram { service: access.service.to_string() });
    };
    let path = fs::canonicalize(named).map_err(StoreError::io("find", named))?;
    let metadata = fs::metadata(&path).map_err(StoreError::io("find", &path))?;
    if !named.is_absolute() || !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(StoreError::InvalidValue {
            what: "program that asks key services",
            value: named.display().to_string(),
            reason: "is no program by its whole path",
        });
    }
    check_code_file(named)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::{AwsKmsKey, KeyService};

    fn access(program: Option<&Path>) -> ServiceAccess {
        let key = "arn:aws:kms:eu-central-1:111122223333:key/a".to_owned();
        let service =
            AwsKmsKey { key, endpoint: None, ca_file: None, credentials_file: None, profile: None };
        let program = program.map(Path::to_owned);
        ServiceAccess { service: KeyService::AwsKms(service), program, timeout_s: None }
    }

    #[test]
    fn only_a_program_that_others_cannot_exchange_is_started() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("bin");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("tdekit");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode));
        mode(&path, 0o755).unwrap();
        mode(&inner, 0o755).unwrap();
        assert_eq!(program(&access(Some(&path))).unwrap(), fs::canonicalize(&path).unwrap());
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(program(&access(Some(&link))).unwrap(), fs::canonicalize(&path).unwrap());

        mode(&path, 0o775).unwrap();
        let insecure = |result| matches!(result, Err(StoreError::InsecureFile { .. }));
        assert!(insecure(program(&access(Some(&path)))));
        mode(&path, 0o755).unwrap();
        mode(&inner, 0o777).unwrap();
        assert!(insecure(program(&access(Some(&path)))));
        assert!(insecure(program(&access(Some(&link)))));
        mode(&inner, 0o755).unwrap();
        mode(&path, 0o644).unwrap();
        assert!(matches!(program(&access(Some(&path))), Err(StoreError::InvalidValue { .. })));
        assert!(matches!(program(&access(Some(&inner))), Err(StoreError::InvalidValue { .. })));
        assert!(matches!(program(&access(None)), Err(StoreError::NoServiceProgram { .. })));
        assert!(program(&access(Some(Path::new("tdekit")))).is_err());
    }
}
