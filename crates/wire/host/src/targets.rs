//! Targets of backups: never a database's own file, and whose sets are on them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tdekit_backup_run::place::Place;
use tdekit_sqlite_convert::{SIDE_SUFFIXES, with_suffix};
use tdekit_wire_tsql::{Device, Error};

use super::databases::{Databases, EXTENSIONS, Found};
use super::keys::Keys;
use super::{backup, fault, noted, restore};

/// Refuses a target that is a database or a file beside one, that has the name of either in the
/// served directory or of a note anywhere, and all in the directory of the key store: WITH FORMAT
/// would replace it, and what is not there would be taken for a database or a note.
///
/// # Errors
/// 3201.
pub(crate) fn refuse_own(
    (databases, keys): (&Databases, &Keys),
    places: &[Place],
) -> Result<(), Error> {
    let files = databases.found()?;
    for place in places {
        let Place::File(path) = place else { continue };
        let own = identity(path);
        let is_file = own.is_some() && files.iter().any(|found| identity(&found.path) == own);
        if is_file || is_reserved((databases, &files), path) || keys.is_within(path) {
            let denied = std::io::ErrorKind::PermissionDenied.into();
            return Err(fault::device(&databases.shown(path), &denied).into());
        }
    }
    Ok(())
}

/// Returns true for a name that only databases and the files beside them have. No other statement
/// makes a file of this name, which would be served or read later.
///
/// # Errors
/// If the databases cannot be listed.
pub(crate) fn is_of_database(databases: &Databases, path: &Path) -> Result<bool, Error> {
    Ok(is_reserved((databases, &databases.found()?), path))
}

fn is_reserved((databases, files): (&Databases, &[Found]), path: &Path) -> bool {
    let parent = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
    let within = parent.as_deref() == Some(databases.dir());
    let real = parent.zip(path.file_name()).map(|(parent, name)| parent.join(name));
    // Of a database elsewhere, the names beside its file.
    let is_beside = real.is_some_and(|real| {
        files.iter().any(|found| sides().any(|side| with_suffix(&found.path, side) == real))
    });
    let name = path.file_name().map(OsStr::as_encoded_bytes).unwrap_or_default();
    // The database that it would be the note of may be attached later.
    let is_note = name.ends_with(noted::SUFFIX.as_bytes());
    is_beside || is_note || within && is_name(databases, path)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Suffixes of the files beside a database.
fn sides() -> impl Iterator<Item = &'static str> {
    SIDE_SUFFIXES.into_iter().chain([noted::SUFFIX])
}

/// Returns true for a name of a database or of a file beside one.
fn is_name(databases: &Databases, path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return true };
    let base = sides().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    let extension = Path::new(base).extension().and_then(|extension| extension.to_str());
    let only = databases.only_file().and_then(Path::file_name);
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
        || only.is_some_and(|only| only == base)
}

/// Returns the names of the databases whose sets are on these devices. Devices that are not there
/// have none.
///
/// # Errors
/// 3201, 3241 and the like for a file whose sets cannot be read.
pub(crate) fn databases_on(
    (databases, keys): (&Databases, &Keys),
    devices: &[Device<String>],
) -> Result<Vec<String>, Error> {
    let places = backup::places(databases, devices)?;
    let there = |place: &Place| match place {
        Place::File(path) => fs::symlink_metadata(path).is_ok(),
        _ => true,
    };
    let places: Vec<Place> = places.into_iter().filter(there).collect();
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let opened = restore::opened(keys, &places)?;
    let sets = opened.media.sets().iter();
    Ok(sets.map(|set| set.database_name.clone()).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use tdekit_key_store::PasswordParams;
    use tdekit_wire_endpoint::Sessions;

    use super::*;
    use crate::files::Drives;
    use crate::tests::Silent;

    #[test]
    fn a_database_is_no_target_under_any_name() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        let databases = Databases::new(&data, Sessions::default(), Drives::default()).unwrap();
        databases.create("other").unwrap();
        let home = dir.path().join("home");
        fs::create_dir(&home).unwrap();
        let keys = Keys::new(Arc::new(Silent(home.clone())), PasswordParams::default());
        let beside = dir.path().join("link.bak");
        std::os::unix::fs::symlink(data.join("other.db"), &beside).unwrap();
        let number = |path: &Path| {
            let place = Place::File(path.to_owned());
            refuse_own((&databases, &keys), &[place]).err().map(|error| error.code().0)
        };
        for name in
            ["other.db", "new.db", "other.db-wal", "other.db-tsql", "x.sqlite3", "master.db"]
        {
            assert_eq!(number(&data.join(name)), Some(3201), "{name}");
            assert_eq!(number(&data.join("../data").join(name)), Some(3201), "{name}");
        }
        assert_eq!(number(&beside), Some(3201));
        assert_eq!(number(&home.join("x.bak")), Some(3201), "the key store's directory");
        assert_eq!(number(&dir.path().join("any.mdf-tsql")), Some(3201), "a note");
        for name in ["other.bak", "other.db.bak", "wal"] {
            assert_eq!(number(&data.join(name)), None, "{name}");
        }
    }
}
