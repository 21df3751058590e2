//! Locations of the server and its tools in the system's packages.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::ServerError;
use crate::mysql::Unpacked;

/// Directories of servers that a user's search path may lack.
const BESIDE_PATH: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];

/// Finds a program on the search path or in the directories of servers.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    find_on_path(name).or_else(|| first(name, BESIDE_PATH.map(PathBuf::from)))
}

/// Finds a program on the search path only, as a shell does.
#[must_use]
pub fn find_on_path(name: &str) -> Option<PathBuf> {
    first(name, std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()))
}

fn first(name: &str, directories: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    directories
        .into_iter()
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

/// The programs that a private server needs.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `mariadbd`, or `mysqld`.
    pub server: PathBuf,
    /// `mariadb-install-db`; for MySQL the server itself.
    pub install: PathBuf,
    /// `mariadb`, the client.
    pub client: PathBuf,
    /// For MySQL, settings that its server needs.
    pub(crate) unpacked: Option<Unpacked>,
}

impl Programs {
    /// Finds the programs.
    ///
    /// # Errors
    /// `ProgramMissing`, with the package that contains it.
    pub fn find() -> Result<Self, ServerError> {
        Ok(Self {
            server: find("mariadbd", "mariadb-server")?,
            install: find("mariadb-install-db", "mariadb-server")?,
            client: Self::find_client()?,
            unpacked: None,
        })
    }

    /// Returns the command of the server, without arguments.
    pub(crate) fn command(&self) -> Command {
        match self.unpacked.as_ref().and_then(|unpacked| unpacked.loader.as_ref()) {
            None => Command::new(&self.server),
            Some((loader, libraries)) => {
                let mut command = Command::new(loader);
                command.arg("--library-path").arg(libraries).arg(&self.server);
                command
            }
        }
    }

    /// Returns the command of the server, started by another program if there is one.
    pub(crate) fn command_under(&self, under: &[OsString]) -> Command {
        let server = self.command();
        let Some((program, arguments)) = under.split_first() else { return server };
        let mut command = Command::new(program);
        command.args(arguments).arg(server.get_program()).args(server.get_args());
        command
    }

    /// Finds only the client.
    ///
    /// # Errors
    /// `ProgramMissing`, with the package that contains it.
    pub fn find_client() -> Result<PathBuf, ServerError> {
        find("mariadb", "mariadb-client")
    }

    /// Returns the directory of the packages' own plugins.
    ///
    /// # Errors
    /// If the server does not report it.
    pub fn plugin_directory(&self) -> Result<PathBuf, ServerError> {
        let output = self
            .command()
            .args(["--no-defaults", "--verbose", "--help"])
            .stdin(std::process::Stdio::null())
            .output()
            .map_err(|source| ServerError::Start { program: self.server.clone(), source })?;
        let text = String::from_utf8_lossy(&output.stdout);
        let told = text.lines().find_map(|line| {
            let value = line.strip_prefix("plugin-dir ")?.trim();
            (!value.is_empty()).then(|| PathBuf::from(value))
        });
        Ok(told.unwrap_or_else(|| Path::new("/usr/lib/mysql/plugin").to_owned()))
    }
}

fn find(program: &'static str, package: &'static str) -> Result<PathBuf, ServerError> {
    find_program(program).ok_or(ServerError::ProgramMissing { program, package })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_or_named_with_their_package() {
        assert!(find_program("sh").is_some());
        let error = find("no-such-program-of-tdekit", "some-package").unwrap_err();
        assert!(matches!(error, ServerError::ProgramMissing { package: "some-package", .. }));
    }
}
