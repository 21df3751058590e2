//! Removing a media file.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tdekit_backup_media::MEDIA_HEADER_LEN;

use super::{is_at, lock, sync_parent};
use crate::RunError;
use crate::found::{Expected, State, decode};

/// Returns the state of the file in comparison with what is expected of it.
pub(crate) fn state(path: &Path, expected: &Expected) -> Result<State, RunError> {
    match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_file() => {}
        Ok(_) => return Ok(State::Foreign),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::Gone),
        Err(error) => return Err(RunError::io("open", path)(error)),
    }
    state_of(&File::open(path).map_err(RunError::io("open", path))?, path, expected)
}

/// Removes the file if it is as expected. A writer keeps it until it has finished.
pub(crate) fn remove(path: &Path, expected: &Expected) -> Result<(), RunError> {
    let changed = || RunError::ChangedMeanwhile { media: path.display().to_string() };
    let file = match state(path, expected)? {
        State::Gone => return Ok(()),
        State::Whole => File::open(path).map_err(RunError::io("open", path))?,
        State::Begun | State::Grown | State::Foreign => return Err(changed()),
    };
    lock(&file, path)?;
    let is_here = is_at(&file, path).map_err(RunError::io("open", path))?;
    if !is_here || state_of(&file, path, expected)? != State::Whole {
        return Err(changed());
    }
    fs::remove_file(path).map_err(RunError::io("remove", path))?;
    sync_parent(path)
}

fn state_of(file: &File, path: &Path, expected: &Expected) -> Result<State, RunError> {
    let bytes = file.metadata().map_err(RunError::io("read", path))?.len();
    if bytes < MEDIA_HEADER_LEN as u64 {
        return Ok(State::Foreign);
    }
    let mut head = [0; MEDIA_HEADER_LEN];
    file.read_exact_at(&mut head, 0).map_err(RunError::io("read", path))?;
    match decode(&head, &path.display().to_string()) {
        Ok(Some(header)) if header.media_id == expected.media_id => match bytes == expected.bytes {
            true => Ok(State::Whole),
            false => Ok(State::Grown),
        },
        _ => Ok(State::Foreign),
    }
}
