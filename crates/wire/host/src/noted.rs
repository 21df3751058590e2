//! The note beside a database, `NAME-tsql`: its recovery model, and how far it is restored
//! while it is RESTORING. The database itself has no place for that which a backup would not take.
//!
//! Lines of text: `tdekit tsql 1`, 2 where there are logical names, 3 where there is the time since
//! which the model is not simple, 4 where there is the time at which the database was made, 5 where
//! there is the database of the set that it was restored from, or 6 where there are the sets of its
//! own; then `made` with the time of version 4, `full` and `changes` with the ids of the sets,
//! `recovery FULL` or `recovery BULK_LOGGED`, with the time of version 3, `restoring` with nothing
//! behind it (a restore was interrupted) or with the media set, the set, its position, the time of
//! its state and a digest of its database's name, and `data` and `log`, with the logical names of
//! the file and of its log.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tdekit_backup_run::OwnSets;
use tdekit_backup_run::labels::now_ms;
use tdekit_key_crypto::sha256;
use tdekit_key_store::Workplace;
use tdekit_sqlite_convert::with_suffix;
use tdekit_wire_tsql::{Error, Recovery};

use super::fault;

pub(crate) const SUFFIX: &str = "-tsql";
const FIRST_LINE: &str = "tdekit tsql 1";
/// Of a note with logical names, which version 1 does not have.
const NAMED_LINE: &str = "tdekit tsql 2";
/// Of a note with the time of the model, which version 2 does not have.
const TIMED_LINE: &str = "tdekit tsql 3";
/// Of a note with the time at which the database was made, which version 3 does not have.
const MADE_LINE: &str = "tdekit tsql 4";
/// Of a note with the database of the set, which version 4 does not have.
const RESTORED_LINE: &str = "tdekit tsql 5";
/// Of a note with the sets of the database's own, which version 5 does not have.
const OWN_LINE: &str = "tdekit tsql 6";
/// Longer files are not ours.
const MAX_LEN: u64 = 16 << 10;

/// The note on a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    /// When CREATE DATABASE made it, milliseconds since 1970: a backup begun before is of another
    /// database of its name. `None` for any other file, and for one that an older version made.
    pub(crate) made_ms: Option<i64>,
    /// The sets that were made of it, and those that it was restored from: no other set is of it,
    /// whatever its name. `None` for a file without a note, and where an older version noted none.
    pub(crate) own: Option<OwnSets>,
    pub(crate) recovery: Recovery,
    /// When the model ceased to be simple, milliseconds since 1970: a backup since then begins a
    /// chain of log backups. `None` under the simple model, and where an older version noted it.
    pub(crate) logged_since_ms: Option<i64>,
    /// `None` for a database that is online.
    pub(crate) restoring: Option<Restoring>,
    /// Logical names that are not made of the file's.
    pub(crate) data_name: Option<String>,
    pub(crate) log_name: Option<String>,
}

/// The state of a database that is being restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Restoring {
    /// A restore was begun, and did not end.
    Interrupted,
    /// It is as a set says.
    At(RestoredTo),
}

/// The set that a database was restored from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RestoredTo {
    pub(crate) media_id: [u8; 16],
    pub(crate) set_id: [u8; 16],
    pub(crate) position: u32,
    /// Time of its state, milliseconds since 1970.
    pub(crate) time_ms: i64,
    /// The database of the set, by [`name_digest`]; `None` where an older version noted it.
    pub(crate) database: Option<[u8; 32]>,
}

/// Returns the digest of a database's name, for names that differ in the case of ASCII letters the
/// same one. A name in a set has any length and any characters, and a note has lines.
pub(crate) fn name_digest(name: &str) -> [u8; 32] {
    sha256(&[name.to_ascii_lowercase().as_bytes()])
}

impl Noted {
    /// Returns the note of a database that is made now.
    pub(crate) fn made_now() -> Self {
        Self { made_ms: Some(now_ms()), own: Some(OwnSets::default()), ..Self::default() }
    }
}

/// Returns the path of the note.
pub(crate) fn path_of(database: &Path) -> PathBuf {
    with_suffix(database, SUFFIX)
}

/// Reads what is noted of a database.
///
/// # Errors
/// If there is a note that cannot be read: then nothing shows whether the database may be used.
pub(crate) fn read(database: &Path) -> Result<Noted, Error> {
    let path = path_of(database);
    let failed = |what: &str| fault::own(format!("{}: {what}", path.display()));
    let text = match std::fs::metadata(&path) {
        Ok(facts) if facts.is_file() && facts.len() <= MAX_LEN => std::fs::read_to_string(&path),
        Ok(_) => return Err(failed("it is not a note of T-SQL")),
        Err(error) => Err(error),
    };
    match text {
        Ok(text) => parse(&text).ok_or_else(|| failed("it is not a note of T-SQL")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Noted::default()),
        Err(error) => Err(failed(&error.to_string())),
    }
}

/// Notes something of a database. A database of which nothing is to be noted has no file.
///
/// # Errors
/// Those of the file.
pub(crate) fn write(database: &Path, noted: &Noted) -> Result<(), Error> {
    let path = path_of(database);
    let failed = |what: String| fault::own(format!("{}: {what}", path.display()));
    if *noted == Noted::default() {
        return match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error.to_string())),
            _ => Ok(()),
        };
    }
    let of_store = |error: tdekit_key_store::StoreError| failed(error.to_string());
    let place = Workplace::beside(&path).map_err(of_store)?;
    let mut file = place.create().map_err(of_store)?;
    let written = file.write_all(text(noted).as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| failed(error.to_string()))?;
    place.replace().and_then(|()| place.sync_name()).map_err(of_store)
}

/// Changes what is noted of a database, where `next` has something else: no other change of this
/// server is lost by it.
///
/// # Errors
/// Those of reading and of writing the note.
pub(crate) fn change(
    database: &Path,
    next: impl FnOnce(Noted) -> Option<Noted>,
) -> Result<(), Error> {
    static CHANGES: Mutex<()> = Mutex::new(());
    let _alone = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
    next(read(database)?).map_or(Ok(()), |next| write(database, &next))
}

fn text(noted: &Noted) -> String {
    let names = [("data", &noted.data_name), ("log", &noted.log_name)];
    let named = names.iter().any(|(_, name)| name.is_some());
    let since_ms = noted.logged_since_ms.filter(|_| noted.recovery != Recovery::Simple);
    let first = match (&noted.restoring, noted.made_ms, since_ms, named) {
        _ if noted.own.is_some() => OWN_LINE,
        (Some(Restoring::At(RestoredTo { database: Some(_), .. })), _, _, _) => RESTORED_LINE,
        (_, Some(_), _, _) => MADE_LINE,
        (_, None, Some(_), _) => TIMED_LINE,
        (_, None, None, true) => NAMED_LINE,
        (_, None, None, false) => FIRST_LINE,
    };
    let mut text = format!("{first}\n");
    if let Some(made_ms) = noted.made_ms {
        text += &format!("made {made_ms}\n");
    }
    if let Some(own) = &noted.own {
        text += &line_of_ids("full", own.full());
        text += &line_of_ids("changes", own.changes());
    }
    match (noted.recovery, since_ms) {
        (Recovery::Simple, _) => {}
        (model, None) => text += &format!("recovery {}\n", model.name()),
        (model, Some(since_ms)) => text += &format!("recovery {} {since_ms}\n", model.name()),
    }
    match &noted.restoring {
        None => {}
        Some(Restoring::Interrupted) => text += "restoring\n",
        Some(Restoring::At(RestoredTo { media_id, set_id, position, time_ms, database })) => {
            let (media, set) = (hex::encode(media_id), hex::encode(set_id));
            text += &format!("restoring {media} {set} {position} {time_ms}");
            if let Some(database) = database {
                text += &format!(" {}", hex::encode(database));
            }
            text += "\n";
        }
    }
    for (which, name) in names {
        if let Some(name) = name {
            text += &format!("{which} {name}\n");
        }
    }
    text
}

fn line_of_ids(which: &str, ids: &[[u8; 16]]) -> String {
    let ids: String = ids.iter().map(|id| format!(" {}", hex::encode(id))).collect();
    format!("{which}{ids}\n")
}

fn ids_of(words: &[&str]) -> Option<Vec<[u8; 16]>> {
    let id = |word: &&str| {
        let mut id = [0; 16];
        hex::decode_to_slice(word, &mut id).ok().map(|()| id)
    };
    words.iter().map(id).collect()
}

fn parse(text: &str) -> Option<Noted> {
    let mut lines = text.lines();
    let version = match lines.next() {
        Some(FIRST_LINE) => 1,
        Some(NAMED_LINE) => 2,
        Some(TIMED_LINE) => 3,
        Some(MADE_LINE) => 4,
        Some(RESTORED_LINE) => 5,
        Some(OWN_LINE) => 6,
        _ => return None,
    };
    let mut noted = Noted::default();
    for line in lines {
        match line.split_once(' ') {
            Some(("data", name)) if version >= 2 => {
                noted.data_name = Some(name.to_owned());
                continue;
            }
            Some(("log", name)) if version >= 2 => {
                noted.log_name = Some(name.to_owned());
                continue;
            }
            _ => {}
        }
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["made", made_ms] if version >= 4 => noted.made_ms = Some(made_ms.parse().ok()?),
            ["full", ref ids @ ..] if version >= 6 => {
                let own = noted.own.take().unwrap_or_default();
                noted.own = Some(OwnSets::of(ids_of(ids)?, own.changes().to_vec()));
            }
            ["changes", ref ids @ ..] if version >= 6 => {
                let own = noted.own.take().unwrap_or_default();
                noted.own = Some(OwnSets::of(own.full().to_vec(), ids_of(ids)?));
            }
            ["recovery", model] => noted.recovery = Recovery::of(model)?,
            ["recovery", model, since_ms] if version >= 3 => {
                noted.recovery = Recovery::of(model)?;
                noted.logged_since_ms = Some(since_ms.parse().ok()?);
            }
            ["restoring"] => noted.restoring = Some(Restoring::Interrupted),
            ["restoring", media, set, position, time_ms] => {
                let to = restored_to([media, set, position, time_ms])?;
                noted.restoring = Some(Restoring::At(to));
            }
            ["restoring", media, set, position, time_ms, database] if version >= 5 => {
                let mut to = restored_to([media, set, position, time_ms])?;
                hex::decode_to_slice(database, to.database.insert([0; 32])).ok()?;
                noted.restoring = Some(Restoring::At(to));
            }
            _ => return None,
        }
    }
    Some(noted)
}

fn restored_to([media, set, position, time_ms]: [&str; 4]) -> Option<RestoredTo> {
    let mut to = RestoredTo {
        media_id: [0; 16],
        set_id: [0; 16],
        position: position.parse().ok()?,
        time_ms: time_ms.parse().ok()?,
        database: None,
    };
    hex::decode_to_slice(media, &mut to.media_id).ok()?;
    hex::decode_to_slice(set, &mut to.set_id).ok()?;
    Some(to)
}

#[cfg(test)]
mod tests {
    use tdekit_backup_run::{MOST_CHANGES, MOST_FULL, SetKind};

    use super::*;

    /// As many sets as there can be, or none.
    fn own(any: bool) -> OwnSets {
        let mut own = OwnSets::default();
        let id = |at: usize| [u8::try_from(at).unwrap(); 16];
        if any {
            (0..MOST_FULL).for_each(|at| own.add(SetKind::Full, id(at)));
            (0..MOST_CHANGES).for_each(|at| own.add(SetKind::Log, id(at)));
        }
        own
    }

    #[test]
    fn what_was_noted_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("a.db");
        assert_eq!(read(&database), Ok(Noted::default()));
        let to = |database| RestoredTo {
            media_id: [7; 16],
            set_id: [0xab; 16],
            position: 12,
            time_ms: -5,
            database,
        };
        let at = |database| Some(Restoring::At(to(database)));
        let name = Some(name_digest("a \n name"));
        for restoring in [None, Some(Restoring::Interrupted), at(None), at(name)] {
            for recovery in [Recovery::Full, Recovery::BulkLogged, Recovery::Simple] {
                for name in [None, Some(" aw  HDD ".to_owned())] {
                    let since = Some(1_700_000_000_123).filter(|_| recovery != Recovery::Simple);
                    for logged_since_ms in [None, since] {
                        for made_ms in [None, Some(1_600_000_000_456)] {
                            let own = made_ms.map(|_| own(recovery == Recovery::Full));
                            let noted = Noted {
                                made_ms,
                                own,
                                recovery,
                                logged_since_ms,
                                restoring: restoring.clone(),
                                data_name: name.clone(),
                                log_name: name.clone(),
                            };
                            write(&database, &noted).unwrap();
                            assert_eq!(read(&database), Ok(noted));
                        }
                    }
                }
            }
        }
        write(&database, &Noted::default()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        write(&database, &Noted::default()).unwrap();
    }

    #[test]
    fn a_note_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("a.db");
        for wrong in [
            "",
            "tdekit tsql 7\n",
            "tdekit tsql 6\nfull 0001\n",
            "tdekit tsql 5\nfull\n",
            "tdekit tsql 5\nrestoring 1 2\n",
            "tdekit tsql 5\nrestoring 000102030405060708090a0b0c0d0e0f \
             000102030405060708090a0b0c0d0e0f 1 2 0001\n",
            "tdekit tsql 4\nrestoring 000102030405060708090a0b0c0d0e0f \
             000102030405060708090a0b0c0d0e0f 1 2 \
             000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f\n",
            "tdekit tsql 3\nmade 1700000000123\n",
            "tdekit tsql 4\nmade soon\n",
            "tdekit tsql 2\nrecovery FULL 1700000000123\n",
            "tdekit tsql 3\nrecovery FULL soon\n",
            "tdekit tsql 1\ndata x\n",
            "tdekit tsql 1\nrestoring x y 1 2\n",
            "\0",
        ] {
            std::fs::write(path_of(&database), wrong).unwrap();
            assert!(read(&database).is_err(), "{wrong:?}");
        }
    }
}
