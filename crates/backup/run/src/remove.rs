//! Removing a media set from one place.

use std::path::Path;
use std::{fs, io};

use crate::found::{Expected, State};
use crate::place::Place;
use crate::{RunError, file, stores};

/// Returns the state of a place.
pub(crate) fn state(place: &Place, expected: &Expected) -> Result<State, RunError> {
    match place {
        Place::File(path) => file::state(path, expected),
        Place::Object(address) => stores::state(address, expected),
        Place::Standard => Err(RunError::StandardInput),
    }
}

/// Removes a media set from a place, and checks that it is gone. What is not as expected stays.
///
/// # Errors
/// `ChangedMeanwhile`, `Locked`, `Io`; those of an object store.
pub(crate) fn remove(place: &Place, expected: &Expected) -> Result<(), RunError> {
    match place {
        Place::File(path) => file::remove(path, expected),
        Place::Object(address) => stores::remove(address, expected),
        Place::Standard => Err(RunError::StandardInput),
    }
}

/// Returns the place that was recorded under this name.
pub(crate) fn place_of(recorded: &str) -> Place {
    Place::of(Path::new(recorded).as_os_str())
}

/// Returns true if a file was removed, rather than being out of reach: its directory has others. An
/// unmounted disk leaves an empty directory, or none.
pub(crate) fn was_removed(path: &Path) -> bool {
    let is_absent = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
    let others = path.parent().and_then(|directory| fs::read_dir(directory).ok());
    fs::symlink_metadata(path).is_err_and(is_absent)
        && others.is_some_and(|mut others| others.next().is_some())
}
