//! Installing and removing the component in a server.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use component_keyring_tdekit::{COMPONENT_NAME, CONFIG_FILE, Config};
use tdekit_key_store::{MARK_FILE, Unlocked, read_limited, replace_with_mode};
use tdekit_mariadb_admin::{Given, give_to_server, is_same_file, is_whole_elf};

use crate::error::{MysqlError, failed};

const DEFAULT_SERVER: &str = "/usr/sbin/mysqld";
const MAX_MANIFEST_BYTES: u64 = 64 << 10;

/// The settings of an installation.
#[derive(Debug)]
pub struct Options {
    /// Certificate that wraps and signs the keys.
    pub certificate: String,
    /// Namespace of the server's keys.
    pub namespace: String,
    /// User that runs the server; by default `mysql`, if root asks.
    pub server_user: Option<String>,
    /// File with the key store's password.
    pub password_file: Option<PathBuf>,
    /// File with the key store's key.
    pub key_file: Option<PathBuf>,
}

/// A finished step, reported at once.
#[derive(Debug)]
pub enum Done {
    /// The key store was given to the user that runs the server.
    StoreGiven {
        /// The key store.
        dir: PathBuf,
        /// The user.
        user: String,
    },
    /// No server user was named, and there is no user `mysql`.
    NoUser,
    /// The component was copied to the server's plugin directory.
    ComponentCopied(PathBuf),
    /// The component was there already: a system package installed it, and keeps it.
    ComponentOfPackage(PathBuf),
    /// A file was written: the configuration or the manifest.
    Written {
        /// The file.
        path: PathBuf,
        /// Its content.
        text: String,
    },
    /// A file was removed.
    Removed(PathBuf),
    /// A file to remove did not exist.
    WasNotThere(PathBuf),
}

/// The places of the component, its configuration and the manifest that has the server load it.
#[derive(Debug)]
pub struct Installation {
    library: PathBuf,
    config: PathBuf,
    manifest: PathBuf,
}

impl Installation {
    /// Finds the given places, or those of the server that is installed here.
    ///
    /// # Errors
    /// `NoServer`, `NoPluginDir`; `OtherManifest` for a manifest other than that of
    /// [`Self::install`].
    pub fn find(plugin_dir: Option<&Path>, server: Option<&Path>) -> Result<Self, MysqlError> {
        let server = server.unwrap_or(Path::new(DEFAULT_SERVER));
        let no_server = || MysqlError::NoServer { path: server.to_owned() };
        let real = fs::canonicalize(server).map_err(|_| no_server())?;
        // MariaDB's packages use the name, too.
        if !real.is_file() || real.file_name().is_some_and(|name| name == "mariadbd") {
            return Err(no_server());
        }
        let plugins = match plugin_dir {
            Some(given) => given.to_owned(),
            None => ask_plugin_dir(server).ok_or(MysqlError::NoPluginDir)?,
        };
        // The server looks beside the name by which it was started.
        let manifest = server.with_extension("my");
        let places = Self {
            library: plugins.join(format!("{COMPONENT_NAME}.so")),
            config: plugins.join(CONFIG_FILE),
            manifest,
        };
        places.refuse_other()?;
        Ok(places)
    }

    /// Installs the component from the given library, and reports each step. The manifest is last:
    /// a server that starts meanwhile does so without a keyring, as before.
    ///
    /// # Errors
    /// `NotTheComponent`, `Io`, `Server` for an unknown user, errors of the key store.
    pub fn install(
        &self,
        library: &Path,
        options: &Options,
        store: &Unlocked,
        tell: &mut dyn FnMut(Done),
    ) -> Result<(), MysqlError> {
        let bytes = fs::read(library).map_err(failed("read", library))?;
        if !is_component(&bytes) {
            return Err(MysqlError::NotTheComponent { path: library.to_owned() });
        }
        let dir = absolute(store.store().dir())?;
        let config = config_of(options, &dir)?;
        store.check_signer(&options.certificate)?;
        // Also checks the namespace, and reads the keys that are there.
        store.store().named_keys(&options.namespace)?;
        match give_to_server(options.server_user.as_deref(), &dir)? {
            Given::To(user) => tell(Done::StoreGiven { dir, user }),
            Given::NoUser => tell(Done::NoUser),
            Given::NotNeeded => {}
        }
        if is_same_file(library, &self.library) {
            tell(Done::ComponentOfPackage(self.library.clone()));
        } else {
            replace_with_mode(&self.library, &bytes, 0o644)?;
            tell(Done::ComponentCopied(self.library.clone()));
        }
        let mut text = serde_json::to_string_pretty(&config).unwrap_or_default();
        text.push('\n');
        write(&self.config, text, 0o644, tell)?;
        // The server warns of a manifest that anybody could write.
        write(&self.manifest, manifest_text(), 0o444, tell)
    }

    /// Removes manifest, configuration and component, with the mark in the data directory if that
    /// is known, and reports each step. The file of a system package, which is the same as
    /// `library`, stays.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove(
        &self,
        library: Option<&Path>,
        data: Option<&Path>,
        tell: &mut dyn FnMut(Done),
    ) -> Result<(), MysqlError> {
        let ours = [self.manifest.clone(), self.config.clone(), self.library.clone()];
        for path in ours.into_iter().chain(data.map(|data| data.join(MARK_FILE))) {
            if library.is_some_and(|library| is_same_file(library, &path)) {
                tell(Done::ComponentOfPackage(path));
                continue;
            }
            match fs::remove_file(&path) {
                Ok(()) => tell(Done::Removed(path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    tell(Done::WasNotThere(path));
                }
                Err(error) => return Err(failed("remove", &path)(error)),
            }
        }
        Ok(())
    }

    /// Refuses a manifest that loads other components, which the server would be left without.
    fn refuse_other(&self) -> Result<(), MysqlError> {
        let Some(bytes) = read_limited(&self.manifest, MAX_MANIFEST_BYTES)? else { return Ok(()) };
        let found = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
        let ours = serde_json::from_str::<serde_json::Value>(&manifest_text()).ok();
        match found.is_some() && found == ours {
            true => Ok(()),
            false => Err(MysqlError::OtherManifest { path: self.manifest.clone() }),
        }
    }
}

fn write(
    path: &Path,
    text: String,
    mode: u32,
    tell: &mut dyn FnMut(Done),
) -> Result<(), MysqlError> {
    replace_with_mode(path, text.as_bytes(), mode)?;
    tell(Done::Written { path: path.to_owned(), text });
    Ok(())
}

fn config_of(options: &Options, store: &Path) -> Result<Config, MysqlError> {
    let whole = |path: &Option<PathBuf>| path.as_deref().map(absolute).transpose();
    Ok(Config {
        store: store.to_owned(),
        namespace: options.namespace.clone(),
        certificate: options.certificate.clone(),
        password_file: whole(&options.password_file)?,
        key_file: whole(&options.key_file)?,
    })
}

fn manifest_text() -> String {
    format!("{{ \"components\": \"file://{COMPONENT_NAME}\" }}\n")
}

/// Returns true if a file is a shared library with the server's entry point and our name.
fn is_component(bytes: &[u8]) -> bool {
    let has = |wanted: &[u8]| bytes.windows(wanted.len()).any(|found| found == wanted);
    is_whole_elf(bytes) && has(b"list_components") && has(COMPONENT_NAME.as_bytes())
}

/// Returns the server's plugin directory, from its own help.
fn ask_plugin_dir(server: &Path) -> Option<PathBuf> {
    let output = Command::new(server)
        .args(["--no-defaults", "--verbose", "--help"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut values = help.lines().filter_map(|line| {
        let value = line.strip_prefix("plugin-dir")?;
        value.starts_with(char::is_whitespace).then(|| PathBuf::from(value.trim()))
    });
    values.find(|dir| dir.is_absolute())
}

fn absolute(path: &Path) -> Result<PathBuf, MysqlError> {
    std::path::absolute(path).map_err(failed("resolve", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_of_other_components_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let server = dir.path().join("mysqld");
        let find = || Installation::find(Some(dir.path()), Some(&server));
        assert!(matches!(find(), Err(MysqlError::NoServer { .. })));
        fs::write(&server, "").unwrap();
        let places = find().unwrap();
        assert_eq!(places.manifest, dir.path().join("mysqld.my"));
        fs::write(&places.manifest, r#"{"components": "file://component_keyring_file"}"#).unwrap();
        assert!(matches!(find(), Err(MysqlError::OtherManifest { .. })));
        fs::write(&places.manifest, "{").unwrap();
        assert!(matches!(find(), Err(MysqlError::OtherManifest { .. })));
        fs::write(&places.manifest, r#"{"components":"file://component_keyring_tdekit"}"#).unwrap();
        find().unwrap();
        // MariaDB's packages have a link of this name.
        fs::rename(&server, dir.path().join("mariadbd")).unwrap();
        std::os::unix::fs::symlink("mariadbd", &server).unwrap();
        assert!(matches!(find(), Err(MysqlError::NoServer { .. })));
    }

    #[test]
    fn what_was_installed_is_removed_but_for_a_packages_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mysqld"), "").unwrap();
        let places =
            Installation::find(Some(dir.path()), Some(&dir.path().join("mysqld"))).unwrap();
        let library = dir.path().join("lib.so");
        fs::write(&places.library, "of a package").unwrap();
        std::os::unix::fs::symlink(&places.library, &library).unwrap();
        fs::write(&places.manifest, manifest_text()).unwrap();
        let mut told = Vec::new();
        places.remove(Some(&library), None, &mut |done| told.push(done)).unwrap();
        assert!(matches!(told[0], Done::Removed(_)) && matches!(told[1], Done::WasNotThere(_)));
        assert!(matches!(told[2], Done::ComponentOfPackage(_)) && places.library.is_file());
        // A header without sections, then the names.
        let mut file = [&b"\x7fELF"[..], &[0; 60], b"component_keyring_tdekit"].concat();
        assert!(!is_component(&file));
        file.extend_from_slice(b" list_components");
        assert!(is_component(&file));
        // Its table of sections was behind what is left of it.
        file[0x29] = 1;
        assert!(!is_component(&file));
    }
}
