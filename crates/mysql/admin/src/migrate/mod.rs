//! Keys from and to the keyrings of MySQL that keep them in a file.

mod component_file;
mod plugin_file;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tdekit_key_store::{
    NamedKeys, NewKey, Unlocked, give_to_owner_of_directory, read_ordinary, write_new,
};

use crate::error::{MysqlError, failed};

const MAX_BYTES: u64 = 64 << 20;

/// A keyring of MySQL that keeps its keys in a file whose format is public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKeyring {
    /// `component_keyring_file` of MySQL 8.0.24 and newer.
    Component,
    /// The plugin `keyring_file` of MySQL 5.7 to 8.3.
    Plugin,
}

impl FileKeyring {
    /// The server's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Component => "component_keyring_file",
            Self::Plugin => "keyring_file",
        }
    }

    /// Reads the bytes of its file.
    ///
    /// # Errors
    /// The fault, in words.
    pub fn read(self, bytes: &[u8]) -> Result<Vec<NewKey>, String> {
        match self {
            Self::Component if plugin_file::is_one(bytes) => {
                Err(format!("this is a file of {}", Self::Plugin.name()))
            }
            Self::Component => component_file::read(bytes),
            Self::Plugin => plugin_file::read(bytes),
        }
    }

    /// Returns the bytes of a file with these keys, which are as good as in the clear in it.
    ///
    /// # Errors
    /// The fault, in words.
    pub fn write(self, keys: &[NewKey]) -> Result<Vec<u8>, String> {
        match self {
            Self::Component => component_file::write(keys),
            Self::Plugin => Ok(plugin_file::write(keys)),
        }
    }
}

/// Adds the keys of a keyring's file to a namespace: all of them in one write, or none. Reads each
/// back and compares it. The file stays as it is. Returns the number of keys.
///
/// # Errors
/// `KeyringFile`; `Store` if a name is taken; `NotTheSame`.
pub fn import_keyring_file(
    store: &Unlocked,
    keyring: FileKeyring,
    file: &Path,
    namespace: &str,
    certificate: &str,
) -> Result<usize, MysqlError> {
    // Both keyrings write the new state there first, then over the file.
    let backup = with_ending(file, ".backup");
    if backup.exists() {
        let reason = format!(
            "{} is beside it: the server's last write of its keys did not end. Start the server \
             with its keyring once more and stop it",
            backup.display()
        );
        return Err(wrong(file, &reason));
    }
    let keys = read(keyring, file)?;
    let stored = store.add_named_keys(namespace, certificate, &keys)?;
    compare(store, &stored, &keys, &format!("namespace {namespace}"))?;
    Ok(keys.len())
}

/// Returns a process of this machine that has the keyring loaded, if one can be seen: its keys may
/// change after they were taken. Root sees all processes, others their own.
#[must_use]
pub fn process_with(keyring: FileKeyring) -> Option<u32> {
    let library = format!("/{}.so", keyring.name());
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.find(|id| {
        let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap_or_default();
        maps.lines().any(|line| line.trim_end_matches(" (deleted)").ends_with(&library))
    })
}

/// Writes all keys of a namespace to a new file for a keyring, in the clear, readable by its owner
/// only: the directory's owner, if root writes it. Reads it back and compares each key. Returns the
/// number of keys.
///
/// # Errors
/// `NoKeys`, `NotTheSame`; `Store` if the file exists; `Io`.
pub fn export_keyring_file(
    store: &Unlocked,
    keyring: FileKeyring,
    namespace: &str,
    file: &Path,
) -> Result<usize, MysqlError> {
    let none = || MysqlError::NoKeys { namespace: namespace.to_owned() };
    let stored = store.store().named_keys(namespace)?.ok_or_else(none)?;
    let file_key = store.open_named_keys(&stored)?;
    let mut keys = Vec::new();
    for (name, _) in stored.iter() {
        let Some((key, secret)) = stored.open(&file_key, name)? else { continue };
        keys.push(NewKey { name: name.clone(), kind: key.kind.clone(), secret });
    }
    let bytes = keyring.write(&keys).map_err(|reason| wrong(file, &reason))?;
    write_new(file, &bytes)?;
    let keys = read(keyring, file)?;
    if keys.len() != stored.count() {
        return Err(MysqlError::NotTheSame { place: file.display().to_string() });
    }
    compare(store, &stored, &keys, &file.display().to_string())?;
    File::open(file)
        .and_then(|written| give_to_owner_of_directory(&written, file))
        .map_err(failed("change the owner of", file))?;
    Ok(keys.len())
}

/// Compares keys with those of a namespace.
fn compare(
    store: &Unlocked,
    stored: &NamedKeys,
    keys: &[NewKey],
    place: &str,
) -> Result<(), MysqlError> {
    let file_key = store.open_named_keys(stored)?;
    for key in keys {
        let found = stored.open(&file_key, &key.name)?;
        let same = found.is_some_and(|(found, secret)| {
            found.kind == key.kind && secret.ct_eq(key.secret.expose())
        });
        if !same {
            return Err(MysqlError::NotTheSame { place: place.to_owned() });
        }
    }
    Ok(())
}

fn read(keyring: FileKeyring, file: &Path) -> Result<Vec<NewKey>, MysqlError> {
    let bytes =
        read_ordinary(file, MAX_BYTES)?.ok_or_else(|| wrong(file, "there is no such file"))?;
    keyring.read(&bytes).map_err(|reason| wrong(file, &reason))
}

fn wrong(file: &Path, reason: &str) -> MysqlError {
    MysqlError::KeyringFile { path: file.to_owned(), reason: reason.to_owned() }
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_other_keyring_is_named() {
        let plugin = FileKeyring::Plugin.write(&[]).unwrap();
        let told = FileKeyring::Component.read(&plugin).unwrap_err();
        assert!(told.contains("a file of keyring_file"), "{told}");
        let component = FileKeyring::Component.write(&[]).unwrap();
        let told = FileKeyring::Plugin.read(&component).unwrap_err();
        assert!(told.contains("does not begin"), "{told}");
        for keyring in [FileKeyring::Component, FileKeyring::Plugin] {
            assert!(read(keyring, Path::new("/nowhere/keyring")).is_err());
            assert!(keyring.read(b"").is_err());
        }
    }
}
