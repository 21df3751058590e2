//! Whether a chain of log backups has begun since a database's recovery model was simple.

use tdekit_backup_media::clean_text;

use crate::elsewhere::{Subject, known_sets};
use crate::media::base::Wanted;
use crate::names::is_object_name;
use crate::operator::Operator;
use crate::place::{Place, open};
use crate::{CatalogSet, Media, RunError, SetInfo, SetKind, SourceKind, date_of_ms};

/// Returns true if a full or differential set of a database, not copy-only, was begun at this time
/// or later: one at `places`, one of `bases`, or one that the history knows. Full sets of archives
/// do not count, as no log backup stands on them.
///
/// # Errors
/// Those of a history that cannot be read.
pub fn is_begun_since(
    operator: &dyn Operator,
    (places, bases): (&[Place], &[Media]),
    subject: Subject<'_>,
    since_ms: i64,
) -> Result<bool, RunError> {
    let (shown, name) = (clean_text(&subject.path.to_string_lossy()), clean_text(subject.name));
    let (database_id, made_ms) = (subject.database_id.unwrap_or_default(), subject.made_ms);
    let (path, own) = (Some(shown.as_str()), subject.own);
    let wanted = Wanted { name: &name, database_id: &database_id, path, made_ms, own };
    let begins = |set: &SetInfo| {
        set.source == SourceKind::Database
            && set.kind != SetKind::Log
            && !set.copy_only
            && !set.is_of_archive()
            && set.begun_ms >= since_ms
            && wanted.is_of(set)
    };
    // A new media set is not there yet; who appends opens it again, and names what is wrong.
    let there = open(places).ok().map(|opened| opened.media);
    let named = there.iter().chain(bases).flat_map(Media::all);
    if named.flat_map(Media::sets).any(begins) {
        return Ok(true);
    }
    let known = known_sets(operator)?;
    let is_of = |set: &CatalogSet| match own {
        Some(own) => own.has_uuid(&set.backup_set_uuid),
        None => set.database_name == name && set.database_path == shown,
    };
    Ok(known.iter().any(|set| is_of(set) && is_known(set, since_ms)))
}

fn is_known(set: &CatalogSet, since_ms: i64) -> bool {
    let of_archive = set.devices.iter().any(|it| is_object_name(&it.physical_device_name));
    let since = date_of_ms(since_ms);
    let form = |date: &str| date.bytes().map(|it| it.is_ascii_digit()).collect::<Vec<_>>();
    // Dates of one form are in the order of their times; another text is none.
    set.kind != "L"
        && !set.is_copy_only
        && !set.is_stream
        && !of_archive
        && form(&set.backup_start_date) == form(&since)
        && set.backup_start_date >= since
}
