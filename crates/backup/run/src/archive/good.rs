//! The last point up to which an archive is whole, and the first object that is wrong.

use std::collections::BTreeMap;

use tdekit_key_crypto::Kind;

use super::chain::At;
use super::read::{Archive, OpenChain, PassedObject};
use super::walk::Walk;
use crate::error::ArchiveError;
use crate::{Run, RunError, SetKind, UnwrapSecret};

impl Archive {
    /// Returns the objects up to which everything is whole, each block opened, and all that are
    /// passed over for that, as [`Self::verify`] names them, the first one first. A plain chain is
    /// passed over with `sealed`; so are the objects in `known`, which a restore found wrong, and
    /// what goes on behind them.
    ///
    /// # Errors
    /// `NothingGood`; `Closed`; `Cancelled`; those of the keys, and of a store.
    pub fn latest_good(
        &self,
        sealed: bool,
        known: &BTreeMap<u64, ArchiveError>,
        (keys, run): (Option<&dyn UnwrapSecret>, &Run<'_>),
    ) -> Result<(OpenChain, Vec<PassedObject>), RunError> {
        let mut known = known.clone();
        known.extend(self.unlike_record()?.map(|unlike| (unlike.first, unlike.fault)));
        let (mut passed_over, mut end) = (Vec::new(), u64::MAX);
        while let Some((last, _)) = self.objects.range(..=end).next_back() {
            let first = self.beginning_of(*last);
            let mut walk = Walk::new(self, sealed, first, (keys, run));
            walk.opens_all = true;
            walk.known = known.split_off(&first);
            for (number, bytes) in self.objects.range(first..=end) {
                walk.step(*number, *bytes)?;
            }
            let (report, _) = walk.end();
            let mut passed = report.passed_over(self);
            passed.append(&mut passed_over);
            if let Some(good) = report.good {
                return Ok((self.chain_of(good, At::LatestGood)?, passed));
            }
            passed_over = passed;
            let Some(before) = first.checked_sub(1) else { break };
            end = before;
        }
        let findings = passed_over.len();
        let first = passed_over.into_iter().next();
        let (first, object) = first.map(|first| (first.reason, first.object)).unwrap_or_default();
        let archive = self.shown();
        Err(ArchiveError::NothingGood { archive, first, object, findings }.into())
    }

    /// Returns the error of a restore: where bytes of an object are the reason, or the key of one
    /// that is not here, that of the first object which the point needs and which is wrong. A
    /// restore meets them in another order. Where none of the keys at hand opens any object that
    /// the point needs, nothing is looked for.
    ///
    /// # Errors
    /// `Cancelled`; those of the keys, and of a store.
    pub fn first_fault(
        &self,
        (at, error): (At, RunError),
        sealed: bool,
        (keys, run): (Option<&dyn UnwrapSecret>, &Run<'_>),
    ) -> Result<RunError, RunError> {
        let is_of_object = match &error {
            RunError::Archive(ArchiveError::Closed { .. }) => {
                self.number_of(at).is_ok_and(|last| self.opens_some(last, keys))
            }
            // It is not of an object that the point needs.
            RunError::Archive(ArchiveError::Lost { .. }) => false,
            // Objects before those that are missing may be wrong.
            RunError::Archive(ArchiveError::Hole { .. }) => true,
            RunError::Archive(error) => error.kind() == Kind::Damaged,
            RunError::FutureVersion { .. } => true,
            error => error.is_damage(),
        };
        let last = match (self.number_of(at), at) {
            (Ok(last), _) => Some(last),
            // It is missing: what is before it is needed too.
            (Err(_), At::Transaction(number, _)) => {
                self.objects.range(..number).next_back().map(|(last, _)| *last)
            }
            (Err(_), _) => None,
        };
        let Some(last) = last.filter(|_| is_of_object) else { return Ok(error) };
        let mut needed =
            self.media(last).and_then(|media| self.first_of(last, &media)).unwrap_or(0);
        let mut first = self.beginning_of(last);
        // Which chain belongs there is not known: it may be the one before.
        if self.belongs_elsewhere(last, keys)
            && let Some((before, _)) = self.objects.range(..last).next_back()
        {
            (needed, first) = (0, self.beginning_of(*before));
        }
        let mut walk = Walk::new(self, sealed, first, (keys, run));
        for (number, bytes) in self.objects.range(first..=last) {
            walk.step(*number, *bytes)?;
        }
        let mut faults = walk.end().1.into_iter();
        Ok(faults.find(|fault| fault.number >= needed).map_or(error, |fault| fault.error))
    }

    /// Returns true if an object is a full set that belongs to another place.
    fn belongs_elsewhere(&self, number: u64, keys: Option<&dyn UnwrapSecret>) -> bool {
        let Ok(media) = self.media(number) else { return false };
        let says = media.only(keys).and_then(|(info, set)| {
            let is_full = info.kind == SetKind::Full;
            let place = info.archive.as_ref().and_then(|archive| archive.full);
            match place {
                Some(place) => Ok(Some(place.number)),
                None if is_full => Ok(set.metadata()?.archive_number),
                None => Ok(None),
            }
        });
        says.is_ok_and(|says| says.is_some_and(|says| says != number))
    }

    /// Returns true if the keys open an object of the chain of `last`, up to it.
    fn opens_some(&self, last: u64, keys: Option<&dyn UnwrapSecret>) -> bool {
        let chain = self.chain_of(last, At::Latest);
        chain.is_ok_and(|chain| chain.opens_some(keys))
    }

    /// Returns the number of the object from which on everything up to `last` is looked at: the
    /// full set that its header names, otherwise the nearest one before that, by the headers.
    fn beginning_of(&self, last: u64) -> u64 {
        let is_full = |number: u64| {
            let media = self.media(number).ok();
            let info = media.as_ref().and_then(|media| media.only_info().ok());
            info.is_some_and(|info| info.kind == SetKind::Full)
        };
        let named = self.media(last).and_then(|media| self.first_of(last, &media));
        // A full set behind the one that is named may be that one, in another's place.
        let named = named.ok().filter(|first| *first <= last).unwrap_or(last);
        let mut before = self.objects.range(..=named).map(|(number, _)| *number).rev();
        let first = self.objects.keys().next().copied().unwrap_or(last);
        before.find(|number| is_full(*number)).unwrap_or(first)
    }
}
