//! A driver's message if a database does not open: the reason, and never a secret.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::programs::Program;
use super::store::{PASSWORD, Store};
use super::{MARKER, empty};
use crate::process::{captured, shown};

/// A password that opens nothing.
const WRONG: &str = "wrong-b07e5c1d";
/// A name that no certificate has.
const NOBODY: &str = "NoSuchCert";
/// With `tdekit_certificate` misspelt.
const MISSPELT: &str = "file:misspelt.db?tdekit_certifcate=AppCert";

/// One cause of failure.
struct Refusal {
    name: &'static str,
    /// Creates the cause in a directory, and returns the database to open.
    arrange: fn(&mut Command, &Path) -> Result<()>,
    /// The database, if it is not the encrypted one.
    database: Option<&'static str>,
    /// One of these is the reason. A driver that does not parse URIs has a different one.
    reasons: &'static [&'static str],
}

const REFUSALS: &[Refusal] = &[
    Refusal {
        name: "a wrong password",
        arrange: |command, _| {
            command.env("TDEKIT_PASSWORD", WRONG);
            Ok(())
        },
        database: None,
        reasons: &["wrong password for the key store"],
    },
    Refusal {
        name: "a password file that others can read",
        arrange: |command, directory| {
            let file = directory.join("password");
            fs::write(&file, PASSWORD).context("write the password file")?;
            fs::set_permissions(&file, Permissions::from_mode(0o444))?;
            command.env_remove("TDEKIT_PASSWORD").env("TDEKIT_PASSWORD_FILE", file);
            Ok(())
        },
        database: None,
        reasons: &["password has mode 0444: others could read it"],
    },
    Refusal {
        name: "no key store",
        arrange: |command, directory| {
            command.env("TDEKIT_HOME", directory.join("none"));
            Ok(())
        },
        database: None,
        reasons: &["there is no key store at "],
    },
    Refusal {
        name: "a new database for a certificate that is not there",
        arrange: |command, _| {
            command.env("TDEKIT_ENCRYPT_NEW", NOBODY);
            Ok(())
        },
        database: Some("new.db"),
        reasons: &["the key store has no certificate NoSuchCert"],
    },
    Refusal {
        name: "a misspelt parameter",
        arrange: |_, _| Ok(()),
        database: Some(MISSPELT),
        reasons: &["tdekit_certificate is the nearest that is", "the driver takes it for a name"],
    },
];

/// Checks that the driver of `program`, built in `build`, reports why it does not open a database:
/// the encrypted one at `sealed`, or a new one.
///
/// # Errors
/// When it reports something else, a secret, or creates a file.
pub(super) fn check(program: &Program, build: &Path, sealed: &Path, store: &Store) -> Result<()> {
    let directory = sealed.with_file_name("refused");
    for refusal in REFUSALS {
        empty(&directory)?;
        let database = refusal.database.map_or_else(|| sealed.to_path_buf(), PathBuf::from);
        let mut command = program.afresh(build, &database);
        store.give_to(&mut command);
        command.env("INTEROP_MARKER", MARKER).current_dir(&directory);
        (refusal.arrange)(&mut command, &directory)?;
        let ended = captured(&mut command)?;
        let said = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let about = || format!("{}: `{}` says {said:?}", refusal.name, shown(&command));
        ensure!(refusal.reasons.iter().any(|reason| said.contains(reason)), about());
        ensure!(!said.contains(PASSWORD) && !said.contains(WRONG), "a secret; {}", about());
        let mut left = fs::read_dir(&directory)?.flatten().map(|entry| entry.file_name());
        ensure!(left.all(|name| name == "password"), "a file was made; {}", about());
    }
    fs::remove_dir_all(&directory).context("remove the directory of refusals")
}
