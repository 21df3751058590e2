//! Whether a full set belongs to its place: what the objects beside it, and the record beside the
//! database, say of it.

use std::collections::BTreeMap;

use super::chain::At;
use super::lineage::lineage_of;
use super::read::{Archive, OpenChain};
use crate::error::ArchiveError;
use crate::{Media, RunError, SetInfo, SetKind, UnwrapSecret};

/// Most objects behind a full set that are asked whether they belong to it, as long as they agree.
const MOST_BEHIND: usize = 4;

/// The objects and the record beside a full set.
#[derive(Default)]
pub(super) struct Beside {
    /// The objects behind it whose headers name its number as that of their full set; none for a
    /// point in a log set, whose links show that, where nothing contests it.
    behind: Vec<(u64, Media)>,
    /// True if the record beside the database names it.
    is_recorded: bool,
    /// Why it is none of this archive, by the headers.
    foreign: Option<ArchiveError>,
}

impl Beside {
    /// Fails if the set took the place of another: it is foreign, or most of the log sets behind
    /// it, of those that `is_authentic` accepts, name that one. The set counts for itself if one of
    /// them names it.
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
        if own > 0 {
            own += 1;
        }
        // Sets of several chains, none of which has two, are all that differ from it.
        if *most > own && (*most > 1 || others.len() == 1) {
            let reason = format!("is not what {number} goes on");
            return Err(ArchiveError::Misplaced { object, reason });
        }
        Ok(())
    }
}

impl OpenChain {
    /// Refuses a full set that took the place of another, or of whose chain the headers show that
    /// it is foreign.
    ///
    /// # Errors
    /// `Misplaced`; those of its media set.
    pub(super) fn refuse_unbound(&self, keys: Option<&dyn UnwrapSecret>) -> Result<(), RunError> {
        self.refuse_foreign_chain()?;
        let (first, object, set_id) = self.base()?;
        // An object that does not open proves nothing.
        let is_authentic = |media: &Media| media.only(keys).is_ok();
        Ok(self.beside.refuse((object, first, set_id), &is_authentic)?)
    }

    /// Refuses each point of a chain that is foreign by the headers.
    ///
    /// # Errors
    /// `Misplaced`.
    pub(super) fn refuse_foreign_chain(&self) -> Result<(), RunError> {
        self.beside.foreign.clone().map_or(Ok(()), |foreign| Err(foreign.into()))
    }
}

impl Archive {
    /// Returns what is known of a full set by the objects and the record beside it; with `is_alone`
    /// by those behind it too, as where these contest its place.
    pub(super) fn beside(&self, number: u64, info: &SetInfo, is_alone: bool) -> Beside {
        let chains = self.by_headers();
        let mut behind = match is_alone || chains.is_contested(number) {
            true => self.followers(number, info),
            false => Vec::new(),
        };
        behind.retain(|(_, media)| {
            media.only_info().is_ok_and(|log| chains.judged.has(&lineage_of(log)))
        });
        Beside {
            behind,
            is_recorded: chains.judged.named == Some(number),
            foreign: chains.foreign(number).cloned(),
        }
    }

    /// Returns true if most log sets behind a full set name another one in its place, by their
    /// headers.
    pub(super) fn is_outvoted(&self, number: u64) -> bool {
        let Some(info) = self.header(number) else { return false };
        let beside = Beside { behind: self.followers(number, &info), ..Beside::default() };
        beside.refuse((self.object(number), number, info.set_id), &|_| true).is_err()
    }

    /// Returns why the chain that begins with the object at a number is none of this archive, by
    /// headers alone; `None` for an object of which nothing shows that.
    pub(super) fn foreign(&self, number: u64) -> Option<ArchiveError> {
        if let Some(foreign) = self.by_headers().foreign(number) {
            return Some(foreign.clone());
        }
        let info = self.header(number).filter(|info| info.kind == SetKind::Full)?;
        let beside = self.beside(number, &info, true);
        beside.refuse((self.object(number), number, info.set_id), &|_| true).err()
    }

    /// Returns why an object is none of this archive, by headers alone, or by the record.
    fn foreign_at(&self, number: u64) -> Option<ArchiveError> {
        let fault = self.by_headers().judged.branch.fault(number).cloned();
        fault.or_else(|| self.foreign(number))
    }

    /// Opens the objects that a time needs, of which the one at `number` is the last by the
    /// headers.
    ///
    /// # Errors
    /// As [`Self::chain`].
    pub(super) fn chain_by_time(&self, number: u64, at: At) -> Result<OpenChain, RunError> {
        let mut chain = self.chain_of(number, at)?;
        let next = self.objects.range(number.saturating_add(1)..).next().map(|(next, _)| *next);
        match next {
            Some(next) if next == number + 1 => match self.foreign_at(next) {
                None => chain.next = Some((next, self.media(next)?)),
                foreign => chain.refused = foreign,
            },
            Some(next) => chain.hole = Some(self.hole(number + 1, next - 1)),
            None => {
                let lacking = self.unlike_record()?.filter(|lacking| lacking.last > number);
                chain.hole = lacking.map(|lacking| self.hole(number + 1, lacking.last));
            }
        }
        Ok(chain)
    }

    /// Returns the first objects behind a full set that say that they belong to its chain; all of
    /// them where these do not agree that it is this set.
    fn followers(&self, first: u64, full: &SetInfo) -> Vec<(u64, Media)> {
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
}
