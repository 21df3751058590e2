//! `tdekit mariadb install` and `uninstall`.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use tdekit_mariadb::{SYSTEM_KEY_ID, TEMPORARY_KEY_ID};

use crate::cli::GlobalArgs;
use crate::commands::mariadb::{InstallArgs, Tables, UninstallArgs};
use crate::commands::sqlite::find_beside;
use crate::error::CommandError;
use crate::mariadb::error::MariadbError;
use crate::{output, session};

const LIBRARY: &str = "tdekit_mariadb";
const VARIABLE: &str = "TDEKIT_MARIADB_PLUGIN";
/// So that `plugin-load-add=tdekit` finds it.
const INSTALLED_NAME: &str = "tdekit.so";
const OPTION_DIR: &str = "/etc/mysql/mariadb.conf.d";
const OPTION_FILE_NAME: &str = "99-tdekit.cnf";
const OPTION_FILE_MARK: &str = "# Written by `tdekit mariadb install`.";
const MAX_OPTION_FILE_BYTES: u64 = 1 << 20;

/// Installs the plugin.
pub(crate) fn install(args: &InstallArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let library = plugin()?;
    let plugin_dir = plugin_dir(args.plugin_dir.as_deref())?;
    let option_file = option_file(args.option_file.as_deref())?;
    refuse_foreign(&option_file)?;
    let store = session::open_unlocked_store(global)?;
    let dir = absolute(store.store().dir())?;

    let keys = store.store().server_keys()?;
    for id in [SYSTEM_KEY_ID, TEMPORARY_KEY_ID] {
        if keys.as_ref().is_none_or(|keys| keys.latest(id).is_none()) {
            store.create_server_key(id, &args.certificate)?;
            output::line(format_args!("Made key {id}, wrapped by {}.", args.certificate))?;
        }
    }
    output::warn_not_backed_up(store.store(), store.store().find(&args.certificate)?);
    give_to_server(args.server_user.as_deref(), &dir)?;

    let target = plugin_dir.join(INSTALLED_NAME);
    let bytes = fs::read(&library).map_err(failed("read", &library))?;
    replace(&target, &bytes, 0o644)?;
    output::line(format_args!("Copied the plugin to {}.", target.display()))?;

    let options = options(args, global, &dir)?;
    replace(&option_file, options.as_bytes(), 0o644)?;
    output::line(format_args!("Wrote {}:\n", option_file.display()))?;
    output::line(options)?;
    output::line(
        "Restart the server; SHOW PLUGINS then lists tdekit. Back up the key store and its \
         certificate: without them nothing that is encrypted from now on can be read.",
    )
}

/// Takes the plugin away.
pub(crate) fn uninstall(args: &UninstallArgs) -> Result<(), CommandError> {
    if let Some(client) = args.connection.client()
        && !args.force
    {
        let what = "encrypted tablespaces";
        let [encrypted] = client.numbers(
            what,
            "SELECT COUNT(*) FROM information_schema.INNODB_TABLESPACES_ENCRYPTION \
             WHERE ENCRYPTION_SCHEME = 1 AND MIN_KEY_VERSION > 0",
        )?;
        if encrypted > 0 {
            return Err(MariadbError::StillEncrypted(encrypted).into());
        }
    }
    let target = plugin_dir(args.plugin_dir.as_deref())?.join(INSTALLED_NAME);
    let option_file = option_file(args.option_file.as_deref())?;
    refuse_foreign(&option_file)?;
    for path in [&option_file, &target] {
        match fs::remove_file(path) {
            Ok(()) => output::line(format_args!("Removed {}.", path.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                output::line(format_args!("{} was not there.", path.display()))?;
            }
            Err(error) => return Err(failed("remove", path)(error)),
        }
    }
    output::line(
        "The keys stay in the key store. Tables, logs and backups that are encrypted cannot be \
         read without the plugin.",
    )
}

/// The plugin's library: `TDEKIT_MARIADB_PLUGIN`, else where the command and its other libraries
/// are.
pub(crate) fn plugin() -> Result<PathBuf, MariadbError> {
    if let Some(named) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        let path = PathBuf::from(named);
        return if path.is_file() { Ok(path) } else { Err(MariadbError::NoPlugin { path }) };
    }
    let command = env::current_exe().and_then(fs::canonicalize).unwrap_or_default();
    find_beside(&command, &format!("{DLL_PREFIX}{LIBRARY}{DLL_SUFFIX}"))
        .map_err(|path| MariadbError::NoPlugin { path })
}

/// Where the server has its plugins, by its own help.
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

/// The value in the table that ends the server's help.
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

/// Refuses an option file that is there and is not ours.
fn refuse_foreign(path: &Path) -> Result<(), CommandError> {
    let Some(bytes) = tdekit_key_store::read_limited(path, MAX_OPTION_FILE_BYTES)? else {
        return Ok(());
    };
    if bytes.starts_with(OPTION_FILE_MARK.as_bytes()) {
        return Ok(());
    }
    Err(MariadbError::ForeignFile { path: path.to_owned() }.into())
}

/// The option file's content.
fn options(args: &InstallArgs, global: &GlobalArgs, dir: &Path) -> Result<String, CommandError> {
    let mut secret = String::new();
    for (name, path) in [("password-file", &global.password_file), ("key-file", &global.key_file)] {
        if let Some(path) = path {
            secret = format!("tdekit-{name} = {}\n", quoted(&absolute(path)?)?);
        }
    }
    let tables = match args.tables {
        Tables::Force => "FORCE",
        Tables::On => "ON",
        Tables::Off => "OFF",
    };
    let (certificate, threads) = (&args.certificate, args.encryption_threads);
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

/// A path as an option file takes it.
fn quoted(path: &Path) -> Result<String, CommandError> {
    let text = path.to_str().filter(|text| !text.contains(['"', '\\', '\n']));
    let text = text.ok_or_else(|| {
        CommandError::Usage(format!("an option file cannot hold the path {}", path.display()))
    })?;
    Ok(format!("\"{text}\""))
}

/// Makes the key store the server's own, so that the server can read it and the command goes on
/// changing it as root. Somebody who is not root can only have a server of their own.
fn give_to_server(user: Option<&str>, dir: &Path) -> Result<(), CommandError> {
    if !rustix::process::geteuid().is_root() && user.is_none() {
        return Ok(());
    }
    let name = user.unwrap_or("mysql");
    let ids = ["-u", "-g"].map(|which| {
        let output = Command::new("id").args([which, name]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse::<u32>().ok()
    });
    let [Some(uid), Some(gid)] = ids else {
        return match user {
            Some(user) => Err(MariadbError::NoUser(user.to_owned()).into()),
            None => {
                output::warning(
                    "there is no user mysql; --server-user names the one that the server runs as, \
                     who must be able to read the key store",
                );
                Ok(())
            }
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
    output::line(format_args!("Made the key store {} the property of {name}.", dir.display()))
}

/// Puts a file in the place of one that a running server may have open.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CommandError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tdekit-new");
    let new = path.with_file_name(name);
    let _ = fs::remove_file(&new);
    let write = || -> io::Result<()> {
        let options = fs::OpenOptions::new().write(true).create_new(true).mode(mode).to_owned();
        let mut file = options.open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&new);
        failed("write", path)(error)
    })
}

fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path).map_err(failed("resolve", path))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CommandError {
    let path = path.to_owned();
    move |source| CommandError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
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
        replace(&path, b"[mariadbd]\n", 0o644).unwrap();
        assert!(refuse_foreign(&path).is_err());
        replace(&path, OPTION_FILE_MARK.as_bytes(), 0o644).unwrap();
        assert!(refuse_foreign(&path).is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
