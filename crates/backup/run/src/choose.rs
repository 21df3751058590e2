//! The choice of the set to restore. No default chooses between sets of different databases.

use std::path::Path;

use serde::Serialize;
use tdekit_sqlite_convert::{header_of, open_file, read_area};

use crate::finding::FindingReport;
use crate::{Chain, Media, Run, RunError, SetInfo, UnwrapSecret};

/// A set that was not chosen, although it is newer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassedOver {
    /// Its place in the media set.
    pub position: u32,
    /// Its id, in hexadecimal digits.
    pub backup_set_uuid: String,
    /// The reason.
    pub reason: String,
}

/// The set that the user requests: by position, by database, by both or by neither.
#[derive(Debug, Clone, Copy, Default)]
pub struct Choice<'a> {
    /// Its place in the media set.
    pub position: Option<u32>,
    /// The database: its file name, or its path when it was backed up; for a stream its name.
    pub database: Option<&'a str>,
}

impl Choice<'_> {
    fn allows(&self, set: &SetInfo) -> bool {
        let named = |name: &str| set.database_name == name || set.path == name;
        self.database.is_none_or(named)
    }
}

/// Returns the set at a position, or the newest one that was ever finished in the media set.
///
/// # Errors
/// `SeveralDatabases` if neither position nor database decides; `NoSuchDatabase`; `LacksNewest` if
/// the history knows a newer set; `NewestUnknown`; those of [`Media::set`].
pub fn named_or_newest<'a>(
    media: &'a Media,
    choice: Choice<'_>,
    findings: &[FindingReport],
) -> Result<&'a SetInfo, RunError> {
    let set = media.set(choice.position)?;
    if choice.position.is_some() {
        return match choice.allows(set) {
            true => Ok(set),
            false => Err(no_such_database(media, choice)),
        };
    }
    refuse_several(media, choice)?;
    if let Some(newer) = findings.iter().find(|finding| finding.is_newer()) {
        return Err(RunError::LacksNewest { media: name_of(media), told: newer.message.clone() });
    }
    newest_allowed(media, choice, set)
}

/// Returns the last set that the choice allows; `last` is the newest of all. Sets after the chosen
/// one must belong to other databases: one that cannot be read may belong to this one.
fn newest_allowed<'a>(
    media: &'a Media,
    choice: Choice<'_>,
    last: &SetInfo,
) -> Result<&'a SetInfo, RunError> {
    let mut due = last.position;
    for set in media.sets().iter().rev().filter(|set| set.position <= last.position) {
        let reason = match &set.damage {
            _ if set.position != due => format!("set {due} is missing, or cannot be read"),
            Some(damage) => format!("set {}: {damage}", set.position),
            None if choice.allows(set) => return Ok(set),
            None => {
                due = due.saturating_sub(1);
                continue;
            }
        };
        return Err(RunError::NewestUnknown { media: name_of(media), reason });
    }
    Err(no_such_database(media, choice))
}

/// Refuses to choose between databases.
fn refuse_several(media: &Media, choice: Choice<'_>) -> Result<(), RunError> {
    let allowed: Vec<&SetInfo> = media.sets().iter().filter(|set| choice.allows(set)).collect();
    let Some(first) = allowed.first() else {
        return match choice.database {
            Some(_) => Err(no_such_database(media, choice)),
            None => Err(RunError::NothingReadable { media: name_of(media) }),
        };
    };
    if allowed.iter().all(|set| are_of_one_database(first, set)) {
        return Ok(());
    }
    let mut databases: Vec<String> = Vec::new();
    for set in &allowed {
        // Two directories may each have a database of the same name.
        let differ =
            |it: &&SetInfo| it.database_name == set.database_name && !are_of_one_database(it, set);
        let shown = match allowed.iter().any(differ) {
            true => set.path.clone(),
            false => set.database_name.clone(),
        };
        if !databases.contains(&shown) {
            databases.push(shown);
        }
    }
    Err(RunError::SeveralDatabases { media: name_of(media), databases })
}

/// Compares by file id, which a database keeps when it is moved, otherwise by name and path.
fn are_of_one_database(a: &SetInfo, b: &SetInfo) -> bool {
    let same_id = a.database_id != [0; 16] && a.database_id == b.database_id;
    same_id || (a.database_name == b.database_name && a.path == b.path)
}

/// Refuses to replace another database by the set, unless the choice names its database. A file is
/// the database of the set if it is at the same path, has its file id, or has its name and no
/// different file id.
///
/// # Errors
/// `OtherDatabase`.
pub fn refuse_other_database(
    path: &Path,
    set: &SetInfo,
    choice: Choice<'_>,
) -> Result<(), RunError> {
    if choice.database.is_some() || path == Path::new(&set.path) || !path.exists() {
        return Ok(());
    }
    let id = file_id(path);
    let same = match (id, set.database_id) {
        (Some(id), of_set) if of_set != [0; 16] => id == of_set,
        _ => path.file_name().is_some_and(|name| *name == *set.database_name),
    };
    if same {
        return Ok(());
    }
    let (position, database) = (set.position, set.database_name.clone());
    Err(RunError::OtherDatabase { path: path.to_owned(), position, database })
}

/// Returns the file id of an encrypted database whose header can be read.
fn file_id(path: &Path) -> Option<[u8; 16]> {
    let area = read_area(&open_file(path).ok()?).ok()?;
    Some(header_of(path, &area).ok()?.file_id)
}

fn name_of(media: &Media) -> String {
    media.names().into_iter().next().unwrap_or_default()
}

fn no_such_database(media: &Media, choice: Choice<'_>) -> RunError {
    let database = choice.database.unwrap_or_default().to_owned();
    RunError::NoSuchDatabase { media: name_of(media), database }
}

/// Returns the newest set of which every block can be read, with its base, and the sets passed
/// over. Every block is read: the chain restores exactly those.
///
/// # Errors
/// `SeveralDatabases`, `NoSuchDatabase`; `NothingReadable`; `NotCompared` if that is so because the
/// history cannot be read; any error other than damage, such as a missing key.
pub fn latest_readable<'a>(
    media: &'a Media,
    choice: Choice<'_>,
    keys: Option<&dyn UnwrapSecret>,
    run: &Run<'_>,
) -> Result<(Chain<'a>, Vec<PassedOver>), RunError> {
    refuse_several(media, choice)?;
    let (mut passed_over, mut unsearched) = (Vec::new(), None);
    for set in media.sets().iter().rev().filter(|set| choice.allows(set)) {
        let reason = match readable(media, set, keys, run) {
            Ok(Ok(chain)) => return Ok((chain, passed_over)),
            Ok(Err(reason)) => reason,
            Err(
                error @ (RunError::Damaged { .. }
                | RunError::BaseUnread { .. }
                | RunError::Tampered { .. }
                | RunError::ShortRead { .. }
                | RunError::WrongKey { .. }),
            ) => error.to_string(),
            // Its base may be whole, and is not at hand.
            Err(error @ RunError::NotCompared { .. }) => {
                let reason = error.to_string();
                unsearched = Some(error);
                reason
            }
            Err(error) => return Err(error),
        };
        passed_over.push(PassedOver {
            position: set.position,
            backup_set_uuid: hex::encode(set.set_id),
            reason,
        });
    }
    Err(unsearched.unwrap_or_else(|| RunError::NothingReadable { media: name_of(media) }))
}

/// Returns the set and its base, or the fault of a block.
fn readable<'a>(
    media: &'a Media,
    set: &SetInfo,
    keys: Option<&dyn UnwrapSecret>,
    run: &Run<'_>,
) -> Result<Result<Chain<'a>, String>, RunError> {
    let mut chain = media.chain(Some(set.position), keys)?;
    for report in chain.verify(run)? {
        if report.lost_blocks + report.differing_blocks > 0 {
            let first = report.damages.into_iter().next();
            return Ok(Err(first.unwrap_or_else(|| "a block cannot be read".to_owned())));
        }
        if let Some(problem) = report.signatures.iter().find_map(|signature| signature.problem) {
            return Ok(Err(format!("a signature: {problem}")));
        }
    }
    Ok(Ok(chain))
}
