//! The last point up to which an archive is whole, and the first object that is wrong.

use std::collections::BTreeMap;

use tdekit_key_crypto::Kind;

use super::chain::At;
use super::error::ArchiveError;
use super::read::{Archive, OpenChain, PassedObject};
use super::walk::Walk;
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
        known.extend(self.unlike_record()?);
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
        let first = passed_over.first().map_or_else(String::new, |it| it.reason.clone());
        let (archive, findings) = (self.shown(), passed_over.len());
        Err(ArchiveError::NothingGood { archive, first, findings }.into())
    }

    /// Returns the error of a restore: where bytes of an object are the reason, that of the first
    /// object which the point needs and which is wrong. A restore meets them in another order.
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
            RunError::Archive(error) => error.kind() == Kind::Damaged,
            RunError::FutureVersion { .. } => true,
            error => error.is_damage(),
        };
        let Some(last) = self.number_of(at).ok().filter(|_| is_of_object) else {
            return Ok(error);
        };
        let needed = self.media(last).and_then(|media| self.first_of(last, &media)).unwrap_or(0);
        let first = self.beginning_of(last);
        let mut walk = Walk::new(self, sealed, first, (keys, run));
        walk.opens_all = true;
        for (number, bytes) in self.objects.range(first..=last) {
            walk.step(*number, *bytes)?;
        }
        let mut faults = walk.end().1.into_iter();
        Ok(faults.find(|fault| fault.number >= needed).map_or(error, |fault| fault.error))
    }

    /// Returns the number of the object from which on everything up to `last` is looked at: the
    /// full set that its header names, otherwise the nearest one before it, by the headers.
    fn beginning_of(&self, last: u64) -> u64 {
        let is_full = |number: u64| {
            let media = self.media(number).ok();
            let info = media.as_ref().and_then(|media| media.only_info().ok());
            info.is_some_and(|info| info.kind == SetKind::Full)
        };
        let named = self.media(last).and_then(|media| self.first_of(last, &media));
        if let Some(first) = named.ok().filter(|first| *first <= last && is_full(*first)) {
            return first;
        }
        let mut before = self.objects.range(..=last).map(|(number, _)| *number).rev();
        let first = self.objects.keys().next().copied().unwrap_or(last);
        before.find(|number| is_full(*number)).unwrap_or(first)
    }
}
