//! Where followers ship to: a directory of the trial, or a prefix in a bucket.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
#[cfg(feature = "object-stores")]
use std::sync::Arc;

#[cfg(feature = "object-stores")]
use super::bucket::{Prefix, Store};
use crate::error::Result;
use crate::plan::BucketAddress;

/// Finished objects by their names below the archive, with their sizes.
pub(super) type Objects = BTreeMap<String, u64>;

/// The archives of a run, one for each trial.
pub(super) enum Archives {
    Directories,
    #[cfg(feature = "object-stores")]
    Bucket(Arc<Store>),
}

/// The archive of a trial. Dropping it removes the objects in a bucket; a directory goes with its
/// trial.
pub(super) enum Archive {
    Directory(PathBuf),
    #[cfg(feature = "object-stores")]
    Bucket(Prefix),
}

impl Archives {
    /// Opens the bucket that the user named, with the variables of the process.
    ///
    /// # Errors
    /// `Store` if it cannot be listed.
    #[cfg(feature = "object-stores")]
    pub(super) fn open(address: Option<&BucketAddress>) -> Result<Self> {
        let Some(address) = address else { return Ok(Self::Directories) };
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Ok(Self::Bucket(Arc::new(Store::open(address, variables)?)))
    }

    /// Refuses a bucket: this build has no client of object stores.
    ///
    /// # Errors
    /// `NotBuilt` for a bucket.
    #[cfg(not(feature = "object-stores"))]
    pub(super) fn open(address: Option<&BucketAddress>) -> Result<Self> {
        match address {
            None => Ok(Self::Directories),
            Some(_) => Err(crate::error::BenchError::NotBuilt { what: "object stores" }),
        }
    }

    /// Returns a new archive for the trial in this directory.
    pub(super) fn of(&self, trial: &Path) -> Result<Archive> {
        match self {
            Self::Directories => Ok(Archive::Directory(trial.join("archive"))),
            #[cfg(feature = "object-stores")]
            Self::Bucket(store) => {
                let name = trial.file_name().unwrap_or_default().to_string_lossy();
                Ok(Archive::Bucket(Store::prefix(store, &name)))
            }
        }
    }

    /// Returns what a reader of the figures must know of the place.
    pub(super) fn limit(&self) -> String {
        let shared = "Writers, followers and archive share the machine: its processors, and the \
                      file system of --dir.";
        match self {
            Self::Directories => {
                format!("{shared} Archives are directories; no network is between.")
            }
            #[cfg(feature = "object-stores")]
            Self::Bucket(store) => format!(
                "Archives are in {}. A server on this machine shares its processors. Whether an \
                 object is there is asked by a list of its names, so the time until a commit is \
                 there holds that of one request.",
                store.shown()
            ),
        }
    }
}

impl Archive {
    /// Returns the address as `tdekit` takes it.
    pub(super) fn address(&self) -> OsString {
        match self {
            Self::Directory(path) => path.clone().into_os_string(),
            #[cfg(feature = "object-stores")]
            Self::Bucket(prefix) => prefix.address().into(),
        }
    }

    /// Returns the address as Litestream takes it.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Directory(path) => format!("file://{}", path.display()),
            #[cfg(feature = "object-stores")]
            Self::Bucket(prefix) => prefix.url(),
        }
    }

    /// Returns the finished objects that are there now.
    pub(super) fn objects(&self) -> Result<Objects> {
        match self {
            Self::Directory(path) => Ok(in_directory(path)),
            #[cfg(feature = "object-stores")]
            Self::Bucket(prefix) => prefix.objects(),
        }
    }

    /// Returns true if an object with new transactions is there that is not in `known`.
    pub(super) fn has_new(&self, known: &Objects) -> Result<bool> {
        match self {
            Self::Directory(path) => {
                let now = in_directory(path);
                Ok(now.keys().any(|name| !known.contains_key(name) && is_new(name)))
            }
            #[cfg(feature = "object-stores")]
            Self::Bucket(prefix) => prefix.has_new(known),
        }
    }
}

/// Returns true for the name of a finished object of a follower's.
pub(super) fn is_finished(name: &str) -> bool {
    let ends = |ending: &str| name.ends_with(ending);
    // Where tdekit makes its objects in a directory.
    let unfinished = name.split('/').any(|part| part.starts_with("tdekit-new."));
    !unfinished && (ends(".tdekit") || ends(".ltx"))
}

/// Returns true for a finished object that holds new transactions, and not earlier ones once more:
/// one of ours, or of Litestream's level 0.
pub(super) fn is_new(name: &str) -> bool {
    name.ends_with(".tdekit") || is_of_level(name, 0)
}

/// Returns true for an object of Litestream's first compaction.
pub(super) fn is_compacted(name: &str) -> bool {
    is_of_level(name, 1)
}

/// Litestream names levels `0` in a directory, and `0000` in a bucket.
fn is_of_level(name: &str, level: u8) -> bool {
    let folder = name.rsplit('/').nth(1).unwrap_or_default();
    folder == level.to_string() || folder == format!("{level:04x}")
}

fn in_directory(archive: &Path) -> Objects {
    let mut found = Objects::new();
    let mut directories = vec![archive.to_owned()];
    while let Some(directory) = directories.pop() {
        // It may be made, or removed, at this moment.
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(facts) = entry.metadata() else { continue };
            let name = path.strip_prefix(archive).unwrap_or(&path).to_string_lossy().into_owned();
            if facts.is_dir() {
                directories.push(path);
            } else if is_finished(&name) {
                found.insert(name, facts.len());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_objects_count_and_compactions_are_not_new() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = directory.path().join("archive").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, [0; 7]).unwrap();
            name.to_owned()
        };
        let archive = Archives::Directories.of(directory.path()).unwrap();
        assert_eq!(archive.objects().unwrap(), Objects::new(), "it is not made yet");
        let ours = put("0000000000000001.tdekit");
        let new = put("ltx/0/0000000000000002-0000000000000002.ltx");
        let compacted = put("ltx/1/0000000000000001-0000000000000002.ltx");
        put("tdekit-new.77/0000000000000002.tdekit");
        put("ltx/0/0000000000000003-0000000000000003.ltx.tmp");
        let found = archive.objects().unwrap();
        let wanted: Objects = [&ours, &new, &compacted].map(|name| (name.clone(), 7)).into();
        assert_eq!(found, wanted);
        assert!(!archive.has_new(&found).unwrap());
        put("ltx/2/0000000000000001-0000000000000002.ltx");
        assert!(!archive.has_new(&found).unwrap(), "a compaction");
        put("ltx/0/0000000000000004-0000000000000004.ltx");
        assert!(archive.has_new(&found).unwrap());
        assert!(is_new(&ours) && is_new("0000/0000000000000002-0000000000000002.ltx"));
        assert!(!is_new("0001/0000000000000001-0000000000000002.ltx"));
    }
}
