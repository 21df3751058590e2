//! MySQL's server, unpacked or installed, and its keyring.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::error::ServerError;
use crate::programs::Programs;

/// Paths of the server below the directory, in archives and packages.
const SERVERS: [&str; 4] = ["bin/mysqld", "sbin/mysqld", "usr/sbin/mysqld", "usr/bin/mysqld"];
const MESSAGES: [&str; 3] = ["share", "share/mysql", "usr/share/mysql"];
const PLUGINS: [&str; 3] = ["lib/plugin", "lib/mysql/plugin", "usr/lib/mysql/plugin"];
/// The component that keeps keys in a file.
const KEYRING: &str = "component_keyring_file";

/// Settings of a server that is not in the directory for which it was built.
#[derive(Debug, Clone)]
pub(crate) struct Unpacked {
    /// The loader and the libraries that came with it, if any.
    pub(crate) loader: Option<(PathBuf, PathBuf)>,
    messages: PathBuf,
    plugins: PathBuf,
}

impl Unpacked {
    /// Returns lines for its option file.
    pub(crate) fn options(&self) -> Vec<String> {
        let option = |name: &str, path: &Path| format!("{name}={}", path.display());
        vec![
            option("lc-messages-dir", &self.messages),
            option("character-sets-dir", &self.messages.join("charsets")),
            option("plugin-dir", &self.plugins),
            "mysqlx=OFF".to_owned(),
            "secure-file-priv=".to_owned(),
        ]
    }
}

impl Programs {
    /// Finds MySQL's server below `root`: an archive of its vendor, unpacked packages, `/usr`.
    ///
    /// # Errors
    /// `NoMysql` if there is none, or if it is MariaDB's; `ProgramMissing` without a client.
    pub fn mysql(root: &Path) -> Result<Self, ServerError> {
        let none = || ServerError::NoMysql { directory: root.to_owned() };
        let first = |names: &[&str], holds: &str| {
            let mut found = names.iter().map(|name| root.join(name));
            found.find(|path| path.join(holds).exists()).ok_or_else(none)
        };
        let server = SERVERS.iter().map(|name| root.join(name)).find(|path| path.is_file());
        let server = server.ok_or_else(none)?;
        let real = server.canonicalize().map_err(ServerError::file("cannot find", &server))?;
        // MariaDB's packages use the name, too.
        if real.file_name().is_some_and(|name| name == "mariadbd") {
            return Err(none());
        }
        let libraries = root.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        let loader = match std::env::consts::ARCH {
            "aarch64" => "ld-linux-aarch64.so.1",
            _ => "ld-linux-x86-64.so.2",
        };
        let loader = libraries.join(loader);
        let unpacked = Unpacked {
            loader: loader.is_file().then_some((loader, libraries)),
            messages: first(&MESSAGES, "english")?,
            plugins: first(&PLUGINS, &format!("{KEYRING}.so"))?,
        };
        let client = Self::find_client()?;
        Ok(Self { install: server.clone(), server, client, unpacked: Some(unpacked) })
    }

    /// Returns the same server with a keyring, whose keys are in the clear in `directory`.
    ///
    /// # Errors
    /// If `directory` cannot be written.
    pub fn with_keyring(&self, directory: &Path) -> Result<Self, ServerError> {
        let Some(unpacked) = &self.unpacked else { return Ok(self.clone()) };
        let library = unpacked.plugins.join(format!("{KEYRING}.so"));
        let keys = directory.join("keyring");
        let config = format!(r#"{{"path": "{}", "read_only": false}}"#, keys.display());
        self.with_component(directory, KEYRING, &library, &config)
    }

    /// Returns the library of one of the plugins that came with MySQL's server.
    #[must_use]
    pub fn mysql_plugin(&self, name: &str) -> Option<PathBuf> {
        Some(self.unpacked.as_ref()?.plugins.join(format!("{name}.so")))
    }

    /// Returns the same server with a keyring component, which is this library. Its configuration
    /// is read beside the program and beside the component, so all three get names in `directory`.
    ///
    /// # Errors
    /// If `directory` cannot be written.
    pub fn with_component(
        &self,
        directory: &Path,
        name: &str,
        library: &Path,
        config: &str,
    ) -> Result<Self, ServerError> {
        let placed = self.placed(directory)?;
        let Some(Unpacked { plugins, .. }) = &placed.unpacked else { return Ok(placed) };
        let wrong = || ServerError::file("cannot write in", directory);
        let manifest = format!(r#"{{"components": "file://{name}"}}"#);
        symlink(library, plugins.join(format!("{name}.so"))).map_err(wrong())?;
        std::fs::write(directory.join("mysqld.my"), manifest).map_err(wrong())?;
        std::fs::write(plugins.join(format!("{name}.cnf")), config).map_err(wrong())?;
        Ok(placed)
    }

    /// Returns the same server with a name for its program in `directory`, and a plugin directory
    /// `plugins` there: a component can be installed without a change of the server's own files.
    ///
    /// # Errors
    /// If `directory` cannot be written.
    pub fn placed(&self, directory: &Path) -> Result<Self, ServerError> {
        let Some(unpacked) = &self.unpacked else { return Ok(self.clone()) };
        let wrong = || ServerError::file("cannot write in", directory);
        let (plugins, server) = (directory.join("plugins"), directory.join("mysqld"));
        std::fs::create_dir_all(&plugins).map_err(wrong())?;
        symlink(&self.server, &server).map_err(wrong())?;
        let unpacked = Some(Unpacked { plugins, ..unpacked.clone() });
        Ok(Self { server, unpacked, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_where_archives_and_packages_have_it() {
        let root = tempfile::tempdir().unwrap();
        let missing = Programs::mysql(root.path()).unwrap_err();
        assert!(matches!(missing, ServerError::NoMysql { .. }));
        for directory in ["bin", "share/english", "lib/plugin"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        for file in ["bin/mysqld", "lib/plugin/component_keyring_file.so"] {
            std::fs::write(root.path().join(file), "").unwrap();
        }
        let Ok(found) = Programs::mysql(root.path()) else { return };
        assert_eq!(found.server, root.path().join("bin/mysqld"));
        let keys = tempfile::tempdir().unwrap();
        let keyed = found.with_keyring(keys.path()).unwrap();
        assert_eq!(keyed.server, keys.path().join("mysqld"));
        let options = keyed.unpacked.unwrap().options().join("\n");
        assert!(options.contains(&format!("plugin-dir={}", keys.path().join("plugins").display())));
        // MariaDB's packages have a link of this name.
        std::fs::rename(root.path().join("bin/mysqld"), root.path().join("bin/mariadbd")).unwrap();
        symlink("mariadbd", root.path().join("bin/mysqld")).unwrap();
        assert!(matches!(Programs::mysql(root.path()), Err(ServerError::NoMysql { .. })));
    }
}
