//! A key store of the run, separate from the user's.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::command::run;
use crate::error::{BenchError, Result};
use crate::private;

/// Its one certificate.
pub(crate) const CERTIFICATE: &str = "BenchCert";

/// Variables that point the command to a key of the user, and would take precedence over the run's.
pub(crate) const OTHER_KEYS: [&str; 3] = ["TDEKIT_PASSWORD", "TDEKIT_PASSWORD_FILE", "TDEKIT_KEY"];

/// Environment that points the command and the extension to a key store.
pub(crate) type KeyEnvironment = Vec<(OsString, OsString)>;

/// Creates a key store with one certificate in `directory`, opened by a key file.
pub(crate) fn make(tdekit: &Path, directory: &Path) -> Result<KeyEnvironment> {
    let home = directory.join("home");
    let key_file = directory.join("key");
    let random = random_key()?;
    private::write(&key_file, &random)?;
    let environment: KeyEnvironment = vec![
        ("TDEKIT_HOME".into(), home.into_os_string()),
        ("TDEKIT_KEY_FILE".into(), key_file.into_os_string()),
    ];
    run(command(tdekit, &environment).args(["key", "init"]))?;
    run(command(tdekit, &environment).args(["cert", "create", CERTIFICATE]))?;
    Ok(environment)
}

/// A command that uses the run's key store and no other key.
pub(crate) fn command(program: &Path, environment: &KeyEnvironment) -> Command {
    let mut command = Command::new(program);
    for name in OTHER_KEYS {
        command.env_remove(name);
    }
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command
}

/// Returns 32 bytes of the system's generator. They open a key store that exists as long as the
/// run.
pub(crate) fn random_key() -> Result<[u8; 32]> {
    let mut key = [0; 32];
    getrandom::fill(&mut key)
        .map_err(|error| std::io::Error::other(error.to_string()))
        .map_err(BenchError::file("cannot ask", "the system's generator"))?;
    Ok(key)
}
