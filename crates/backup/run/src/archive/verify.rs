//! Whether all objects of an archive are there and whole.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use super::error::ArchiveError;
use super::read::{Archive, PassedObject};
use super::state::state_of;
use super::walk::Walk;
use crate::{Run, RunError, SignatureCheck, UnwrapSecret};

/// Most objects from the end of which one is to be readable, to find the database's record.
const MOST_READ: usize = 8;
/// Most lists of an archive whose objects go while they are read.
const MOST_LISTS: usize = 3;
/// Time in which the next object of a chain goes that is being removed.
const REMOVING: Duration = Duration::from_secs(1);

/// A fault of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFinding {
    /// Number of the object.
    pub number: u64,
    /// The fault in words, which name the object.
    pub message: String,
    /// True if one of [`ArchiveReport::readings`] is of the object's set.
    pub is_of_reading: bool,
}

/// A chain: a full set and the log sets behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// Number of the object with the full set.
    pub first: u64,
    /// Number of the last object.
    pub last: u64,
    /// Transactions in the log sets.
    pub transactions: u64,
    /// Time of the full set, milliseconds since 1970.
    pub begun_ms: i64,
    /// Time at which the last set was written.
    pub finished_ms: i64,
    /// Bytes of all objects.
    pub bytes: u64,
    /// The host that shipped it, and the path of the database there.
    pub database: (String, String),
    /// Why it was begun; empty if its full set is not there, or an older version began it.
    pub why: String,
}

/// Objects that none of the keys at hand opens, one behind the other, with the same certificates.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ClosedChain {
    /// Number of the first object.
    pub first: u64,
    /// Number of the last one.
    pub last: u64,
    /// Names and thumbprints of the certificates that open them, as the headers have them.
    pub certificates: Vec<String>,
}

/// The outcome of verifying.
#[derive(Debug, Clone, Default)]
pub struct ArchiveReport {
    /// Number of objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects whose blocks were not opened, for lack of a key.
    pub closed: u64,
    /// The chains of these objects, where keys are at hand.
    pub not_opened: Vec<ClosedChain>,
    /// The chains, as far as headers can be read.
    pub chains: Vec<ChainReport>,
    /// Faults.
    pub findings: Vec<ObjectFinding>,
    /// Gaps in front of a full set: objects that were removed, or that were lost. First and last.
    pub gaps: Vec<(u64, u64)>,
    /// Number of the last object up to which its chain is whole, as far as it was read. `restore
    /// --at latest-good` passes over those behind it.
    pub good: Option<u64>,
    /// The signatures of each object, checked against its blocks.
    pub signatures: Vec<(u64, Vec<SignatureCheck>)>,
    /// The sets that were read, and whether each is whole: all of its blocks were opened, and it
    /// belongs to its place.
    pub readings: Vec<Reading>,
}

/// Result of reading one set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The set.
    pub set_id: [u8; 16],
    /// True for the full set of a chain.
    pub is_full: bool,
    /// True if nothing is wrong with it.
    pub is_whole: bool,
}

impl ArchiveReport {
    /// Returns the findings about objects that `restore --at latest-good` passes over.
    #[must_use]
    pub fn passed_over(&self, archive: &Archive) -> Vec<PassedObject> {
        let passed = self.findings.iter().filter(|finding| Some(finding.number) > self.good);
        let passed = passed.map(|finding| PassedObject {
            number: finding.number,
            object: archive.object(finding.number),
            reason: finding.message.clone(),
        });
        passed.collect()
    }

    /// Fails if something is wrong.
    ///
    /// # Errors
    /// `NotWhole`, `NotVerified`.
    pub fn verdict(&self, archive: &str) -> Result<(), RunError> {
        if let Some(first) = self.findings.first() {
            return Err(ArchiveError::NotWhole {
                archive: archive.to_owned(),
                first: first.message.clone(),
                findings: self.findings.len(),
            }
            .into());
        }
        match usize::try_from(self.closed).unwrap_or(usize::MAX) {
            0 => Ok(()),
            closed => {
                let sets = usize::try_from(self.objects).unwrap_or(usize::MAX);
                Err(RunError::NotVerified { closed, sets })
            }
        }
    }
}

impl Archive {
    /// Opens every block of every object with the keys, and checks each link. Without keys,
    /// structure and checksums of encrypted sets are checked. Where objects go meanwhile, as
    /// `prune` removes whole chains, those that are left are looked at once more.
    ///
    /// # Errors
    /// `Empty` if all objects went; `Cancelled`; those of the keys, and of a place that cannot be
    /// read.
    pub fn verify(
        &mut self,
        keys: Option<&dyn UnwrapSecret>,
        run: &Run<'_>,
    ) -> Result<ArchiveReport, RunError> {
        for _ in 0..MOST_LISTS {
            let report = self.verify_listed((keys, run))?;
            if report.findings.is_empty() || !self.list_again(run)? {
                return Ok(report);
            }
        }
        self.verify_listed((keys, run))
    }

    fn verify_listed(
        &self,
        (keys, run): (Option<&dyn UnwrapSecret>, &Run<'_>),
    ) -> Result<ArchiveReport, RunError> {
        let known = self.unlike_record()?.into_iter().collect();
        let first = self.objects.keys().next().copied().unwrap_or(1);
        let mut walk = Walk::new(self, self.is_encrypted()?, first, (keys, run));
        walk.known = known;
        for (number, bytes) in &self.objects {
            walk.step(*number, *bytes)?;
        }
        Ok(walk.end().0)
    }

    /// Takes the objects that are there now, if some are gone since they were listed: once no more
    /// go. Returns false if none is gone.
    fn list_again(&mut self, run: &Run<'_>) -> Result<bool, RunError> {
        let (mut before, mut gone) = (self.objects.clone(), false);
        loop {
            run.check()?;
            let now = self.store.list()?;
            if before.keys().all(|number| now.contains_key(number)) {
                break;
            }
            (before, gone) = (now, true);
            sleep(REMOVING);
        }
        if before.is_empty() {
            return Err(ArchiveError::Empty { archive: self.shown() }.into());
        }
        if gone {
            self.objects = before;
        }
        Ok(gone)
    }

    /// Returns true if none of a chain's objects is there any more, and others are: `prune` removed
    /// it. One that is being removed is waited for.
    ///
    /// # Errors
    /// `Cancelled`; those of a place that cannot be read.
    pub fn is_removed(&self, (first, last): (u64, u64), run: &Run<'_>) -> Result<bool, RunError> {
        let mut before = None;
        loop {
            run.check()?;
            let now = self.store.list()?;
            let left = now.range(first..=last).count();
            if left == 0 || before == Some(left) {
                return Ok(left == 0 && !now.is_empty());
            }
            before = Some(left);
            sleep(REMOVING);
        }
    }

    /// Compares the last object with what is recorded beside the database, if that is on this
    /// machine: the record says what was shipped last. Returns the number of an object that is
    /// missing, or is another one, with the fault.
    ///
    /// # Errors
    /// `Io`, and the errors of an object store, for a place that cannot be read.
    pub(super) fn unlike_record(&self) -> Result<Option<(u64, ArchiveError)>, RunError> {
        let Some((last, _)) = self.objects.last_key_value() else { return Ok(None) };
        let infos = self.objects.keys().rev().take(MOST_READ).filter_map(|number| {
            let media = self.media(*number).ok()?;
            let info = media.only_info().ok()?;
            Some((*number, info.set_id, info.host.clone(), info.path.clone()))
        });
        let Some((number, set_id, host, path)) = infos.into_iter().next() else {
            return Ok(None);
        };
        if host != crate::labels::host() || host.is_empty() {
            return Ok(None);
        }
        // A record that cannot be read says nothing.
        let Ok(Some(state)) = state_of(Path::new(&path)) else { return Ok(None) };
        let Some(shipped) = state.shipped.filter(|_| state.archive == self.store.place.recorded())
        else {
            return Ok(None);
        };
        let (object, record) =
            (self.object(shipped.number), PathBuf::from(format!("{path}-replica")));
        let fault = if shipped.number > *last {
            // It may have been shipped since the objects were listed.
            if self.store.list()?.contains_key(&shipped.number) {
                return Ok(None);
            }
            ArchiveError::LacksShipped { object, record }
        } else if shipped.number == number && shipped.set_id != hex::encode(set_id) {
            let reason = format!("is not the object that {} says was shipped", record.display());
            ArchiveError::Misplaced { object, reason }
        } else {
            return Ok(None);
        };
        Ok(Some((shipped.number, fault)))
    }
}
