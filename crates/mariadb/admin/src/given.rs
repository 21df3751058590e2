//! The key store as the property of the user that runs a server.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use crate::error::{MariadbError, failed};

/// What [`give_to_server`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// The store belongs to this user.
    To(String),
    /// No user was named, and there is no user `mysql`.
    NoUser,
    /// Who asks is not root, and has a server of their own.
    NotNeeded,
}

/// Gives the key store to the server's user, so that the server can read it while the command still
/// changes it as root. A user other than root can only have a server of their own.
///
/// # Errors
/// `NoUser` for a named user that the system does not know, `Io`.
pub fn give_to_server(user: Option<&str>, dir: &Path) -> Result<Given, MariadbError> {
    if !rustix::process::geteuid().is_root() && user.is_none() {
        return Ok(Given::NotNeeded);
    }
    let name = user.unwrap_or("mysql");
    let ids = ["-u", "-g"].map(|which| {
        let output = Command::new("id").args([which, name]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse::<u32>().ok()
    });
    let [Some(uid), Some(gid)] = ids else {
        return match user {
            Some(user) => Err(MariadbError::NoUser(user.to_owned())),
            None => Ok(Given::NoUser),
        };
    };
    let give = |path: &Path| {
        chown(path, Some(uid), Some(gid)).map_err(failed("change the owner of", path))
    };
    give(dir)?;
    for entry in fs::read_dir(dir).map_err(failed("read", dir))? {
        let entry = entry.map_err(failed("read", dir))?;
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            give(&entry.path())?;
        }
    }
    Ok(Given::To(name.to_owned()))
}
