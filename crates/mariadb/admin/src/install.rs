//! Installing and removing the plugin in a server.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tdekit_key_store::{PageCipher, Unlocked, replace_with_mode};
use tdekit_mariadb::{MARK_FILE, SYSTEM_KEY_ID, TEMPORARY_KEY_ID};

use crate::error::{MariadbError, failed};
use crate::given::{Given, give_to_server};
use crate::others;

/// So that `plugin-load-add=tdekit` finds it.
const INSTALLED_NAME: &str = "tdekit.so";
pub(crate) const OPTION_DIR: &str = "/etc/mysql/mariadb.conf.d";
const OPTION_FILE_NAME: &str = "99-tdekit.cnf";
const OPTION_FILE_MARK: &str = "# Written by `tdekit mariadb install`.";
const MAX_OPTION_FILE_BYTES: u64 = 1 << 20;

/// Encryption of new tables: the server's `innodb_encrypt_tables`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tables {
    /// Every table, without exceptions.
    Force,
    /// Every table that does not opt out.
    On,
    /// Tables that opt in.
    Off,
}

/// The settings of an installation.
#[derive(Debug)]
pub struct Options {
    /// Certificate that wraps the keys.
    pub certificate: String,
    /// Cipher of pages under keys that are made; by default as under key 1.
    pub page_cipher: Option<PageCipher>,
    /// User that runs the server; by default `mysql`, if root asks.
    pub server_user: Option<String>,
    /// The tables that are encrypted.
    pub tables: Tables,
    /// Number of the server's threads that encrypt in the background.
    pub encryption_threads: u8,
    /// File with the key store's password.
    pub password_file: Option<PathBuf>,
    /// File with the key store's key.
    pub key_file: Option<PathBuf>,
}

/// A finished step, reported at once.
#[derive(Debug)]
pub enum Done {
    /// A key was made.
    KeyMade(u32),
    /// All keys that the server needs exist already.
    KeysThere,
    /// The key store was given to the user that runs the server.
    StoreGiven {
        /// The key store.
        dir: PathBuf,
        /// The user.
        user: String,
    },
    /// No server user was named, and there is no user `mysql`.
    NoUser,
    /// The plugin was copied to the server's plugin directory.
    PluginCopied(PathBuf),
    /// The plugin was there already: a system package installed it, and keeps it.
    PluginOfPackage(PathBuf),
    /// The option file is written.
    OptionsWritten {
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

/// Destination of the plugin, and the option file that makes the server load it.
#[derive(Debug)]
pub struct Installation {
    plugin_dir: PathBuf,
    option_file: PathBuf,
}

impl Installation {
    /// Finds the given places, or those of the server that is installed here.
    ///
    /// # Errors
    /// `NoPluginDir`, `NoOptionDir`, `ForeignFile` if somebody else wrote the option file.
    pub fn find(
        plugin_dir: Option<&Path>,
        option_file: Option<&Path>,
    ) -> Result<Self, MariadbError> {
        let plugin_dir = self::plugin_dir(plugin_dir)?;
        let option_file = self::option_file(option_file)?;
        refuse_foreign(&option_file)?;
        Ok(Self { plugin_dir, option_file })
    }

    /// Installs the plugin from the given library, and reports each step.
    ///
    /// # Errors
    /// `OtherPlugin` if the server's options load another one for encryption; `NotThePlugin`,
    /// `NoUser`, `UnwritablePath`, `Io`, errors of the key store.
    pub fn install(
        &self,
        library: &Path,
        options: &Options,
        store: &Unlocked,
        tell: &mut dyn FnMut(Done),
    ) -> Result<(), MariadbError> {
        let bytes = fs::read(library).map_err(failed("read", library))?;
        if !is_plugin(&bytes) {
            return Err(MariadbError::NotThePlugin { path: library.to_owned() });
        }
        others::refuse(&self.option_file)?;
        let dir = absolute(store.store().dir())?;
        let keys = store.store().server_keys()?;
        for id in [SYSTEM_KEY_ID, TEMPORARY_KEY_ID] {
            if keys.as_ref().is_none_or(|keys| keys.latest(id).is_none()) {
                store.create_server_key(id, &options.certificate, options.page_cipher)?;
                tell(Done::KeyMade(id));
            }
        }
        tell(Done::KeysThere);
        match give_to_server(options.server_user.as_deref(), &dir)? {
            Given::To(user) => tell(Done::StoreGiven { dir: dir.clone(), user }),
            Given::NoUser => tell(Done::NoUser),
            Given::NotNeeded => {}
        }
        let target = self.plugin_dir.join(INSTALLED_NAME);
        if is_same_file(library, &target) {
            tell(Done::PluginOfPackage(target));
        } else {
            replace_with_mode(&target, &bytes, 0o644)?;
            tell(Done::PluginCopied(target));
        }
        let text = option_text(options, &dir)?;
        replace_with_mode(&self.option_file, text.as_bytes(), 0o644)?;
        tell(Done::OptionsWritten { path: self.option_file.clone(), text });
        Ok(())
    }

    /// Removes the plugin, with the mark in the data directory if that is known, and reports each
    /// step. The file of a system package, which is the same as `library`, stays.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove(
        &self,
        library: Option<&Path>,
        data: Option<&Path>,
        tell: &mut dyn FnMut(Done),
    ) -> Result<(), MariadbError> {
        let ours = [self.option_file.clone(), self.plugin_dir.join(INSTALLED_NAME)];
        let mark = data.map(|data| data.join(MARK_FILE));
        for path in ours.into_iter().chain(mark) {
            if library.is_some_and(|library| is_same_file(library, &path)) {
                tell(Done::PluginOfPackage(path));
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
}

/// Returns true if a file is a whole shared library with the server's plugin entry point and our
/// name.
fn is_plugin(bytes: &[u8]) -> bool {
    let has = |wanted: &[u8]| bytes.windows(wanted.len()).any(|found| found == wanted);
    is_whole_elf(bytes) && has(b"_maria_plugin_declarations_") && has(b"tdekit")
}

/// Returns true for a shared library that was not cut: the table of sections, which linkers write
/// last, is within the file (System V ABI, "ELF Header", of 64 bits, little-endian).
#[must_use]
pub fn is_whole_elf(bytes: &[u8]) -> bool {
    let field = |at: usize| bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes);
    let table = bytes.get(0x28..0x30).and_then(|it| it.try_into().ok()).map(u64::from_le_bytes);
    let end = || table?.checked_add(u64::from(field(0x3A)?) * u64::from(field(0x3C)?));
    bytes.starts_with(b"\x7fELF") && end().is_some_and(|end| end <= bytes.len() as u64)
}

/// Returns true if both names refer to the same file.
#[must_use]
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    file(one).is_some_and(|found| file(other) == Some(found))
}

/// Returns the server's plugin directory, from its own help.
fn plugin_dir(given: Option<&Path>) -> Result<PathBuf, MariadbError> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let server = ["mariadbd", "/usr/sbin/mariadbd"].into_iter().find_map(|program| {
        let output =
            Command::new(program).args(["--no-defaults", "--verbose", "--help"]).output().ok()?;
        plugin_dir_in(&String::from_utf8_lossy(&output.stdout))
    });
    let from_config = || {
        let output = Command::new("mariadb_config").arg("--plugindir").output().ok()?;
        let dir = String::from_utf8(output.stdout).ok()?;
        Some(PathBuf::from(dir.trim()))
    };
    server.or_else(from_config).filter(|dir| dir.is_dir()).ok_or(MariadbError::NoPluginDir)
}

/// Returns the value in the table at the end of the server's help.
fn plugin_dir_in(help: &str) -> Option<PathBuf> {
    let mut values = help.lines().filter_map(|line| {
        let value = line.strip_prefix("plugin-dir")?;
        value.starts_with(char::is_whitespace).then(|| PathBuf::from(value.trim()))
    });
    values.find(|dir| dir.is_absolute())
}

fn option_file(given: Option<&Path>) -> Result<PathBuf, MariadbError> {
    match given {
        Some(given) => Ok(given.to_owned()),
        None if Path::new(OPTION_DIR).is_dir() => Ok(Path::new(OPTION_DIR).join(OPTION_FILE_NAME)),
        None => Err(MariadbError::NoOptionDir),
    }
}

/// Refuses an existing option file that is not ours.
fn refuse_foreign(path: &Path) -> Result<(), MariadbError> {
    let Some(bytes) = tdekit_key_store::read_limited(path, MAX_OPTION_FILE_BYTES)? else {
        return Ok(());
    };
    if bytes.starts_with(OPTION_FILE_MARK.as_bytes()) {
        return Ok(());
    }
    Err(MariadbError::ForeignFile { path: path.to_owned() })
}

/// Returns the option file's content.
fn option_text(options: &Options, dir: &Path) -> Result<String, MariadbError> {
    let mut secret = String::new();
    let files = [("password-file", &options.password_file), ("key-file", &options.key_file)];
    for (name, path) in files {
        if let Some(path) = path {
            secret = format!("tdekit-{name} = {}\n", quoted(&absolute(path)?)?);
        }
    }
    let tables = match options.tables {
        Tables::Force => "FORCE",
        Tables::On => "ON",
        Tables::Off => "OFF",
    };
    let (certificate, threads) = (&options.certificate, options.encryption_threads);
    let store = quoted(dir)?;
    Ok(format!(
        "{OPTION_FILE_MARK} `uninstall` removes it; other options belong elsewhere.\n\
         [mariadbd]\n\
         plugin-load-add = tdekit\n\
         tdekit-key-store = {store}\n\
         {secret}\
         tdekit-certificate = \"{certificate}\"\n\
         innodb-encrypt-tables = {tables}\n\
         innodb-encrypt-temporary-tables = ON\n\
         innodb-encrypt-log = ON\n\
         innodb-encryption-threads = {threads}\n\
         innodb-encryption-rotate-key-age = 1\n\
         aria-encrypt-tables = ON\n\
         encrypt-binlog = ON\n\
         encrypt-tmp-files = ON\n\
         encrypt-tmp-disk-tables = ON\n"
    ))
}

/// Quotes a path for an option file.
fn quoted(path: &Path) -> Result<String, MariadbError> {
    let text = path.to_str().filter(|text| !text.contains(['"', '\\', '\n']));
    let text = text.ok_or_else(|| MariadbError::UnwritablePath { path: path.to_owned() })?;
    Ok(format!("\"{text}\""))
}

fn absolute(path: &Path) -> Result<PathBuf, MariadbError> {
    std::path::absolute(path).map_err(failed("resolve", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_servers_help_tells_its_plugin_directory() {
        let help = "  --plugin-dir=name   Directory for plugins\n\
                    plugin-load  (No default value)\n\
                    plugin-dir                     /usr/lib/mysql/plugin/\n\
                    port                           3306\n";
        assert_eq!(plugin_dir_in(help), Some("/usr/lib/mysql/plugin/".into()));
        assert_eq!(plugin_dir_in("plugin-dir-x /a\nplugin-dir (No default value)\n"), None);
    }

    #[test]
    fn paths_that_an_option_file_cannot_hold_are_refused() {
        assert_eq!(quoted(Path::new("/a b")).unwrap(), "\"/a b\"");
        assert!(quoted(Path::new("/a\"b")).is_err());
        assert!(quoted(Path::new("/a\nb")).is_err());
    }

    #[test]
    fn only_our_own_option_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("o.cnf");
        assert!(refuse_foreign(&path).is_ok());
        let victim = dir.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join("o.cnf.tdekit-new")).unwrap();
        replace_with_mode(&path, b"[mariadbd]\n", 0o644).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        assert!(refuse_foreign(&path).is_err());
        replace_with_mode(&path, OPTION_FILE_MARK.as_bytes(), 0o644).unwrap();
        assert!(refuse_foreign(&path).is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }
    #[test]
    fn the_plugin_of_a_system_package_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (plugin, library) = (dir.path().join(INSTALLED_NAME), dir.path().join("library.so"));
        fs::write(&plugin, "of a package").unwrap();
        std::os::unix::fs::symlink(&plugin, &library).unwrap();
        let option_file = dir.path().join("o.cnf");
        let places = Installation { plugin_dir: dir.path().to_owned(), option_file };
        let mut told = Vec::new();
        places.remove(Some(&library), None, &mut |done| told.push(done)).unwrap();
        assert!(plugin.is_file() && matches!(told[1], Done::PluginOfPackage(_)));
        // A copy is not a package's plugin, although its bytes are the same.
        fs::remove_file(&library).unwrap();
        fs::write(&library, "of a package").unwrap();
        places.remove(Some(&library), None, &mut |_| {}).unwrap();
        assert!(!plugin.exists() && library.is_file());
    }
}
