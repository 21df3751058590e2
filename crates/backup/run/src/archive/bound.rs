//! Whether a full set belongs to its place: what the objects beside it, and the record beside the
//! database, say of it. Its own header names no object before it.

use std::collections::BTreeMap;

use super::chain::At;
use super::error::{ArchiveError, LAST_GONE, NO_RECORD};
use super::read::{Archive, OpenChain};
use crate::{Media, RunError, SetInfo, SetKind, UnwrapSecret};

/// Most objects behind a full set that are asked whether they belong to it, as long as they agree.
const MOST_BEHIND: usize = 4;
/// Most objects before or behind a full set from which one is to be readable.
const MOST_BESIDE: usize = 8;

/// The objects and the record beside a full set.
#[derive(Default)]
pub(super) struct Beside {
    /// The objects behind it whose headers name its number as that of their full set.
    behind: Vec<(u64, Media)>,
    /// True if the record beside the database names it.
    is_recorded: bool,
    /// Why it is none of this archive: the record names another set, or its database is another one
    /// than that of its neighbours.
    foreign: Option<ArchiveError>,
}

impl Beside {
    /// Fails if the set took the place of another: it is foreign, or most of the log sets behind
    /// it, of those that `is_authentic` accepts, name that one. The set counts for itself.
    ///
    /// # Errors
    /// `Misplaced`.
    pub(super) fn refuse(
        &self,
        (object, first, set_id): (String, u64, [u8; 16]),
        is_authentic: &dyn Fn(&Media) -> bool,
    ) -> Result<(), ArchiveError> {
        if let Some(foreign) = &self.foreign {
            return Err(foreign.clone());
        }
        if self.is_recorded {
            return Ok(());
        }
        let (mut own, mut others) = (0, BTreeMap::<[u8; 16], (usize, u64)>::new());
        for (number, media) in self.behind.iter().filter(|(_, media)| is_authentic(media)) {
            match media.only_info().ok().and_then(|info| info.log) {
                Some(link) if link.first == first && link.chain == set_id => own += 1,
                Some(link) if link.first == first => {
                    others.entry(link.chain).or_insert((0, *number)).0 += 1;
                }
                _ => {}
            }
        }
        let Some((most, number)) = others.values().max_by_key(|(count, _)| *count) else {
            return Ok(());
        };
        // Sets of several chains, none of which has two, are all that differ from it.
        if *most > own && (*most > 1 || others.len() == 1) {
            let reason = format!("is not what {number} goes on");
            return Err(ArchiveError::Misplaced { object, reason });
        }
        Ok(())
    }
}

impl OpenChain {
    /// Refuses a full set that took the place of another.
    ///
    /// # Errors
    /// `Misplaced`; those of its media set.
    pub(super) fn refuse_unbound(&self, keys: Option<&dyn UnwrapSecret>) -> Result<(), RunError> {
        let Some((first, object, set_id)) = self.alone()? else { return Ok(()) };
        // An object that does not open proves nothing.
        let is_authentic = |media: &Media| media.only(keys).is_ok();
        Ok(self.beside.refuse((object, first, set_id), &is_authentic)?)
    }
}

impl Archive {
    /// Returns the objects and the record beside a full set.
    ///
    /// # Errors
    /// `Io`, and the errors of an object store, for a place that cannot be read.
    pub(super) fn beside(&self, number: u64, info: &SetInfo) -> Result<Beside, RunError> {
        let recorded = self.recorded_full(number);
        let is_recorded = recorded.as_ref().is_some_and(|(id, _)| *id == hex::encode(info.set_id));
        let object = self.object(number);
        let foreign = match recorded {
            Some(_) if is_recorded => None,
            Some((_, record)) => {
                let reason = format!("is not the full set that {record} says was shipped");
                Some(ArchiveError::Misplaced { object, reason })
            }
            None => self.other_than_neighbours(number, info).map(|before| {
                let (of, host) = (&info.path, &info.host);
                let reason = format!("is of database {of} on {host}, and those before it {before}");
                ArchiveError::Misplaced { object, reason }
            }),
        };
        Ok(Beside { behind: self.behind(number, info), is_recorded, foreign })
    }

    /// Returns why the full set at a number is none of this archive, by headers alone; `None` for
    /// an object of which nothing shows that.
    ///
    /// # Errors
    /// As [`Self::beside`].
    pub(super) fn foreign(&self, number: u64) -> Result<Option<ArchiveError>, RunError> {
        let Ok(media) = self.media(number) else { return Ok(None) };
        let Ok(info) = media.only_info() else { return Ok(None) };
        if info.kind != SetKind::Full {
            return Ok(None);
        }
        let beside = self.beside(number, info)?;
        Ok(beside.refuse((self.object(number), number, info.set_id), &|_| true).err())
    }

    /// Opens the objects that a time needs, of which the one at `number` is the last by the
    /// headers. A full set that is foreign is passed over: what is before it may be what was meant.
    ///
    /// # Errors
    /// As [`Self::chain`].
    pub(super) fn chain_by_time(&self, mut number: u64, at: At) -> Result<OpenChain, RunError> {
        let mut refused = None;
        while let Some(error) = self.foreign(number)? {
            match self.objects.range(..number).next_back() {
                None => return Err(error.into()),
                Some((before, _)) => number = *before,
            }
            refused = Some(error);
        }
        let mut chain = self.chain_of(number, at)?;
        chain.refused = refused;
        let next = self.objects.range(number.saturating_add(1)..).next().map(|(next, _)| *next);
        match next {
            _ if chain.refused.is_some() => {}
            Some(next) if next == number + 1 => match self.foreign(next)? {
                None => chain.next = Some((next, self.media(next)?)),
                foreign => chain.refused = foreign,
            },
            Some(next) => chain.hole = Some(self.hole(number + 1, next - 1)),
            None => {
                let lacking = self.unlike_record()?.filter(|(shipped, _)| *shipped > number);
                chain.hole = lacking.map(|(shipped, _)| self.hole(number + 1, shipped));
            }
        }
        Ok(chain)
    }

    /// Returns the first objects behind a full set that say that they belong to its chain; all of
    /// them where these do not agree that it is this set.
    fn behind(&self, first: u64, full: &SetInfo) -> Vec<(u64, Media)> {
        let (mut found, mut agree) = (Vec::new(), true);
        for (number, _) in self.objects.range(first.saturating_add(1)..) {
            if agree && found.len() >= MOST_BEHIND {
                break;
            }
            let Ok(media) = self.media(*number) else { continue };
            match media.only_info().map(|info| info.log) {
                Ok(Some(link)) if link.first == first => {
                    agree &= link.chain == full.set_id;
                    found.push((*number, media));
                }
                Ok(_) => break,
                Err(_) => {}
            }
        }
        found
    }

    /// Returns the database of the object before a full set, if that and the one behind it are of
    /// another database than the set. Who took an archive over, or moved a database, goes on with
    /// another one's.
    fn other_than_neighbours(&self, number: u64, info: &SetInfo) -> Option<String> {
        // An older version gave no reason.
        if [NO_RECORD, LAST_GONE, ""].contains(&info.description.as_str()) {
            return None;
        }
        let read = |number: &u64| Some(self.media(*number).ok()?.only_info().ok()?.clone());
        let mut before = self.objects.range(..number).rev().take(MOST_BESIDE);
        let before = before.find_map(|(number, _)| read(number))?;
        let mut behind = self.objects.range(number.saturating_add(1)..).take(MOST_BESIDE);
        let behind = behind.find_map(|(number, _)| read(number));
        let goes_on = behind.is_some_and(|behind| is_of_one(&behind, info));
        let is_other = !is_of_one(&before, info) && !goes_on;
        is_other.then(|| format!("of {} on {}", before.path, before.host))
    }
}

/// Returns true if two sets are of one database.
fn is_of_one(a: &SetInfo, b: &SetInfo) -> bool {
    let same_id = a.database_id == b.database_id && a.database_id != [0; 16];
    same_id || (&a.host, &a.path) == (&b.host, &b.path)
}
