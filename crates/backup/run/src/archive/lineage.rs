//! The lineage of an archive's sets: which of them one writer shipped behind the other.
//!
//! A writer that begins without a record of what was shipped draws an id, and goes on behind those
//! of the archive that it finds. So sets of another archive have no id in common with those of this
//! one, whatever their numbers, their dates and their databases are.

use tdekit_backup_media::{Id, Lineage};
use tdekit_key_crypto::{random_bytes, sha256};

use crate::{RunError, SetInfo};

/// Returns the lineage of a set. One without is of its database.
pub(super) fn lineage_of(info: &SetInfo) -> Lineage {
    match &info.archive {
        Some(archive) => archive.lineage.clone(),
        None => of_database(&info.host, &info.path),
    }
}

/// Returns the lineage of sets that have none in their headers, of the database at a path.
pub(super) fn of_database(host: &str, path: &str) -> Lineage {
    let digest = sha256(&[host.as_bytes(), &[0], path.as_bytes()]);
    let mut id = [0; size_of::<Id>()];
    id.iter_mut().zip(digest).for_each(|(id, byte)| *id = byte);
    Lineage::begin(id, [])
}

/// Begins a lineage behind others.
///
/// # Errors
/// An error of the source of random numbers.
pub(super) fn begin(behind: impl IntoIterator<Item = Id>) -> Result<Lineage, RunError> {
    let mut own = [0; size_of::<Id>()];
    random_bytes(&mut own)?;
    Ok(Lineage::begin(own, behind))
}

/// Returns true if one of two lineages goes on behind the other, or both are the same.
pub(super) fn are_of_one_archive(one: &Lineage, other: &Lineage) -> bool {
    one.has(&other.own()) || other.has(&one.own())
}

/// Returns the form that records have.
pub(super) fn to_hex(lineage: &Lineage) -> Vec<String> {
    lineage.ids().iter().map(hex::encode).collect()
}

/// Reads the form that records have; `None` for one without lineage.
pub(super) fn from_hex(ids: &[String]) -> Option<Lineage> {
    let id = |text: &String| {
        let mut id = [0; size_of::<Id>()];
        hex::decode_to_slice(text, &mut id).ok().map(|()| id)
    };
    Lineage::of(ids.iter().map(id).collect::<Option<_>>()?)
}
