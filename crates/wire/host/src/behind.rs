//! Judges whether a backup set can be restored over a database that is RESTORING: by the ids in the
//! headers of sets, and by the set that the database was restored from, wherever the media lie.

use std::path::Path;

use tdekit_backup_run::{Media, SetInfo, SetKind};
use tdekit_wire_tds::messages::ServerError;
use tdekit_wire_tsql::Error;

use super::fault;
use super::keys::Keys;
use super::media::lsn_of;
use super::noted::{RestoredTo, Restoring, name_digest};
use super::recovery_path::{is_other, was_left_out};

/// The source of the pages that a set does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ground {
    /// The sets that it stands on: all of them are at hand.
    Media,
    /// The database, as the set left it that it was restored from.
    Database {
        /// The state, as a log sequence number.
        at: u64,
        /// True if that set is the one before; otherwise only the pages show that none is missing.
        is_next: bool,
    },
}

impl Ground {
    /// Returns the error for a page of the database that is not the one of the set's state.
    pub(crate) fn differs(self, path: &Path, page: u32) -> Error {
        match self {
            Self::Database { at, is_next: false } => ServerError::LogMissing { at }.into(),
            _ => fault::own(format!(
                "Page {page} of {} is not as the set left it that the database was restored from: \
                 its file was changed since. Begin again with RESTORE DATABASE.",
                path.display()
            )),
        }
    }
}

/// Returns what a differential set or a full one is restored from.
///
/// # Errors
/// 3136 for a differential set whose base is not there.
pub(crate) fn database_set(media: &Media, set: &SetInfo) -> Result<Ground, Error> {
    let is_missing = media.is_base_missing(set) && !media.is_unsearched();
    match set.kind == SetKind::Differential && media.lacks_base(set) && is_missing {
        true => Err(ServerError::NoBaseToRestore {}.into()),
        false => Ok(Ground::Media),
    }
}

/// Returns true for a set of the database that is being restored under this name: of the same one
/// as the set that it was restored from, or of the one of this name where a restore was cut off.
pub(crate) fn is_of_same(set: &SetInfo, restoring: &Restoring, name: &str) -> bool {
    let named = set.database_name.eq_ignore_ascii_case(name);
    match restoring {
        Restoring::At(RestoredTo { database: Some(database), .. }) => {
            *database == name_digest(&set.database_name)
        }
        // An older version noted the set only.
        Restoring::At(to) => named || set.set_id == to.set_id,
        Restoring::Interrupted => named,
    }
}

/// Returns what a log backup is restored from.
///
/// # Errors
/// 4305 where one before it is missing, 4326 for one that the database is beyond, 4330 for one of
/// another path of recovery. `full` is the full set that the database was restored from.
pub(crate) fn log(
    (media, keys): (&Media, &Keys),
    set: &SetInfo,
    (to, full): (&RestoredTo, Option<[u8; 16]>),
) -> Result<Ground, Error> {
    let chain: Vec<&SetInfo> = media.with_base(set).collect();
    let lsn = |set: &SetInfo| lsn_of(set.begun_ms, set.position);
    let at_lsn = lsn_of(to.time_ms, to.position);
    let too_early = || ServerError::LogTooEarly { last: lsn(set), at: at_lsn }.into();
    let before = chain.iter().rev().nth(1).copied();
    let too_recent = || match before {
        Some(before) => ServerError::LogTooRecent { first: lsn(before), at: at_lsn }.into(),
        None => ServerError::LogMissing { at: at_lsn }.into(),
    };
    let is_whole = !media.lacks_base(set);
    let on_database = |is_next| match is_whole {
        true => Ground::Media,
        false => Ground::Database { at: at_lsn, is_next },
    };
    if set.base == Some(to.set_id) {
        return Ok(on_database(true));
    }
    if set.set_id == to.set_id {
        return Err(too_early());
    }
    if chain.iter().any(|it| it.base == Some(to.set_id)) {
        return Err(too_recent());
    }
    let is_behind = |it: &SetInfo| match media.media_of(it).id() == to.media_id {
        true => it.position > to.position,
        false => it.begun_ms > to.time_ms,
    };
    let mut all = media.all().flat_map(Media::sets);
    let at = all.find(|it| it.set_id == to.set_id && it.position == to.position);
    let other = || Error::from(ServerError::OtherPath {});
    let is_other = is_other((media, keys), set, (at, full));
    let is_other_name = at.is_some_and(|at| at.database_name != set.database_name);
    if is_other.unwrap_or(is_other_name) {
        return Err(other());
    }
    let was_left_out = |before| was_left_out(media, before, (at, to));
    if !is_whole {
        // Another chain may be meant as well: nothing at hand shows it.
        return match before {
            _ if !is_behind(set) => Err(too_early()),
            Some(before) if is_behind(before) => Err(too_recent()),
            Some(before) if was_left_out(before) => Err(other()),
            Some(_) => Ok(on_database(false)),
            // The log backup before it may be one that the differential set goes beyond.
            None if at.is_some_and(|at| at.kind == SetKind::Differential) => Ok(on_database(false)),
            None => Err(too_recent()),
        };
    }
    if is_other.is_none() {
        return Err(other());
    }
    if !is_behind(set) {
        return Err(too_early());
    }
    // One before it that is not beyond the state leads to the same pages.
    match before {
        Some(before) if is_behind(before) => Err(too_recent()),
        Some(before) if was_left_out(before) => Err(other()),
        Some(_) => Ok(Ground::Media),
        None => Err(other()),
    }
}
