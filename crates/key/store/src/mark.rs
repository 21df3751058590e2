//! The mark in a server's data directory, which names the keys that encrypt its files.
//!
//! Without it, a server with other keys would start to read its logs, find noise, and suggest a
//! forced recovery that discards data.

use std::path::Path;

use crate::disk::{read_ordinary, replace_with_mode};
use crate::error::StoreError;

/// The mark's file in a data directory: `docs/format/mariadb.md`.
pub const MARK_FILE: &str = "tdekit-keys";

const BEGIN: &str = "tdekit server keys ";
const MAX_BYTES: u64 = 256;
const MODE: u32 = 0o660;

/// Returns the id of the file of keys that a data directory's mark names; `None` if it has no mark.
///
/// # Errors
/// `Corrupt` for a file that is not a mark, `Io`.
pub fn read_mark(data_directory: &Path) -> Result<Option<[u8; 16]>, StoreError> {
    let path = data_directory.join(MARK_FILE);
    let Some(bytes) = read_ordinary(&path, MAX_BYTES)? else { return Ok(None) };
    let id = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| text.strip_prefix(BEGIN)?.strip_suffix('\n'))
        .and_then(|digits| hex::decode(digits).ok()?.try_into().ok());
    let damaged = || StoreError::Corrupt {
        field: "mark of a data directory",
        reason: format!("{} is not one", path.display()),
    };
    id.ok_or_else(damaged).map(Some)
}

/// Writes the mark of a data directory, whose files these keys are known to encrypt.
///
/// # Errors
/// `BeingWritten`, `Io`.
pub fn write_mark(data_directory: &Path, file_id: &[u8; 16]) -> Result<(), StoreError> {
    let text = format!("{BEGIN}{}\n", hex::encode(file_id));
    replace_with_mode(&data_directory.join(MARK_FILE), text.as_bytes(), MODE)
}
