//! Whether all objects of an archive are there and whole.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

use super::begun::{KnownRemovals, stretches, without};
use super::read::{Archive, PassedObject};
use super::state::{Recorded, Shipped, State, read_beside, record_of, recorded_beside};
use super::store::Place;
use super::walk::Walk;
use crate::error::{ArchiveError, RecordFault};
use crate::labels::now_ms;
use crate::{Run, RunError, SignatureCheck, UnwrapSecret};

/// Most objects from the end of which one is to be readable, to find the database's record.
const MOST_READ: usize = 8;
/// Most lists of an archive whose objects go while they are read.
const MOST_LISTS: usize = 10;
/// Longest wait for an archive from which nothing goes, although the history says that `prune` is
/// at work there: it may have been killed.
const MOST_WAIT: Duration = Duration::from_secs(20);

/// A fault of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFinding {
    /// Number of the object.
    pub number: u64,
    /// The fault in words, which name the object.
    pub message: String,
    /// True if one of [`ArchiveReport::readings`] is of the object's set.
    pub is_of_reading: bool,
    /// True if the object was lost before a newer chain began, which does not need it.
    pub is_loss: bool,
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
    /// The chains of these objects.
    pub not_opened: Vec<ClosedChain>,
    /// The chains, as far as headers can be read.
    pub chains: Vec<ChainReport>,
    /// Faults.
    pub findings: Vec<ObjectFinding>,
    /// True if one of them is that an object is missing.
    pub(super) lacks: bool,
    /// The reason why nothing shows whether newer objects are missing: the record beside the
    /// database is there and cannot be read.
    pub not_compared: Option<String>,
    /// The record beside the database names another archive, of which this is a copy or a part.
    pub other_archive: Option<String>,
    /// Objects that are left of chains whose removal `prune` began, and that were not looked at:
    /// they count as gone. First and last.
    pub removal_begun: Vec<(u64, u64)>,
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

/// Objects at the end of an archive that are not what the record beside the database has.
pub(super) struct Unlike {
    /// Number of the first of them.
    pub(super) first: u64,
    /// Number of the last one.
    pub(super) last: u64,
    /// Their fault.
    pub(super) fault: ArchiveError,
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

    /// Returns true if all that is wrong is that objects were lost before a newer chain began.
    #[must_use]
    pub fn is_only_lost(&self) -> bool {
        !self.findings.is_empty() && self.findings.iter().all(|finding| finding.is_loss)
    }

    /// Returns the numbers of the objects that are wrong, and whose sets were not read.
    #[must_use]
    pub fn faults_beside(&self) -> Vec<u64> {
        let beside = self.findings.iter().filter(|finding| !finding.is_of_reading);
        beside.map(|finding| finding.number).collect()
    }

    /// Fails if something is wrong, or was not looked at.
    ///
    /// # Errors
    /// `NotWhole`, `NotVerified`, `ArchiveError::NotCompared`.
    pub fn verdict(&self, archive: &str) -> Result<(), RunError> {
        if let Some(first) = self.findings.first() {
            return Err(ArchiveError::NotWhole {
                archive: archive.to_owned(),
                first: first.message.clone(),
                findings: self.findings.len(),
            }
            .into());
        }
        match (usize::try_from(self.closed).unwrap_or(usize::MAX), &self.not_compared) {
            (0, None) => Ok(()),
            (0, Some(_)) => self.refuse_not_compared(archive),
            (closed, _) => {
                let sets = usize::try_from(self.objects).unwrap_or(usize::MAX);
                Err(RunError::NotVerified { closed, sets })
            }
        }
    }

    /// Fails if nothing shows whether newer objects are missing.
    ///
    /// # Errors
    /// `ArchiveError::NotCompared`.
    pub fn refuse_not_compared(&self, archive: &str) -> Result<(), RunError> {
        let Some(finding) = self.not_compared.clone() else { return Ok(()) };
        Err(ArchiveError::NotCompared { archive: archive.to_owned(), finding }.into())
    }
}

impl Archive {
    /// Opens every block of every object with the keys, and checks each link. Without keys,
    /// structure and checksums of encrypted sets are checked. Where an object is missing, `prune`
    /// may be at work, which removes whole chains: once no more objects go, and `known.is_pruning`
    /// is false, those that are left are looked at once more. What `known.begun` returns is left of
    /// chains that it began to remove: it is not looked at.
    ///
    /// # Errors
    /// `Empty` if all objects went; `Cancelled`; those of the keys, and of a place that cannot be
    /// read.
    pub fn verify(
        &mut self,
        (keys, run): (Option<&dyn UnwrapSecret>, &Run<'_>),
        known: &KnownRemovals<'_>,
    ) -> Result<ArchiveReport, RunError> {
        for _ in 0..MOST_LISTS {
            self.leave_out(&(known.begun)(self));
            let report = self.verify_listed((keys, run))?;
            if !report.lacks || !self.list_again(run, known.is_pruning)? {
                return Ok(report);
            }
        }
        self.leave_out(&(known.begun)(self));
        self.verify_listed((keys, run))
    }

    /// Leaves objects out of what is looked at; not if they are all that there is.
    fn leave_out(&mut self, begun: &BTreeSet<u64>) {
        if self.objects.keys().all(|number| begun.contains(number)) {
            return;
        }
        self.left_out = stretches(begun);
        if !begun.is_empty() {
            self.objects.retain(|number, _| !begun.contains(number));
            self.chains = OnceLock::new();
        }
    }

    fn verify_listed(
        &self,
        (keys, run): (Option<&dyn UnwrapSecret>, &Run<'_>),
    ) -> Result<ArchiveReport, RunError> {
        let known = self.unlike_record()?.map(|unlike| (unlike.first, unlike.fault));
        let first = self.objects.keys().next().copied().unwrap_or(1);
        let mut walk = Walk::new(self, self.is_encrypted()?, first, (keys, run));
        walk.known = known.into_iter().collect();
        for (number, bytes) in &self.objects {
            walk.step(*number, *bytes)?;
        }
        let mut report = walk.end().0;
        report.not_compared = self.unread_record().map(|error| error.to_string());
        report.other_archive = self.other_archive();
        report.gaps = without(&report.gaps, &self.left_out);
        report.removal_begun.clone_from(&self.left_out);
        Ok(report)
    }

    /// Takes the objects that are there now, if some are gone since they were listed: once no more
    /// go. Returns false if none is gone.
    fn list_again(
        &mut self,
        run: &Run<'_>,
        is_pruning: &dyn Fn(&Self) -> bool,
    ) -> Result<bool, RunError> {
        let removing = self.store.removing();
        let (mut before, mut gone, mut same) = (self.objects.clone(), false, 0);
        loop {
            run.check()?;
            let now = self.store.list()?;
            if !before.keys().all(|number| now.contains_key(number)) {
                (before, gone, same) = (now, true, 0);
            } else if same > 0 && (same * removing >= MOST_WAIT || !is_pruning(self)) {
                break;
            } else {
                same += 1;
            }
            sleep(removing);
        }
        if before.is_empty() {
            return Err(ArchiveError::Empty { archive: self.shown() }.into());
        }
        if gone {
            self.objects = before;
            self.chains = OnceLock::new();
        }
        Ok(gone)
    }

    /// Returns true if none of a chain's objects is there any more, and others are: `prune` removed
    /// it. One that is being removed is waited for.
    ///
    /// # Errors
    /// `Cancelled`; those of a place that cannot be read.
    pub fn is_removed(
        &self,
        (first, last): (u64, u64),
        run: &Run<'_>,
        is_pruning: &dyn Fn(&Self) -> bool,
    ) -> Result<bool, RunError> {
        let removing = self.store.removing();
        let (mut before, mut same) = (None, 0);
        loop {
            run.check()?;
            let now = self.store.list()?;
            let left = now.range(first..=last).count();
            same = if before == Some(left) { same + 1 } else { 0 };
            let is_still = || same * removing >= MOST_WAIT || !is_pruning(self);
            if left == 0 || (same > 0 && is_still()) {
                return Ok(left == 0 && !now.is_empty());
            }
            before = Some(left);
            sleep(removing);
        }
    }

    /// Compares the last object with what is recorded beside the database, if that is on this
    /// machine: the record says what was shipped last. Returns the objects that are missing, or the
    /// one that is another one, with the fault.
    ///
    /// # Errors
    /// `Io`, and the errors of an object store, for a place that cannot be read.
    pub(super) fn unlike_record(&self) -> Result<Option<Unlike>, RunError> {
        // Of a record that cannot be read, `unread_record` says so.
        let chains = self.by_headers();
        let Some((shipped, record)) = &chains.judged.recorded else { return Ok(None) };
        let number = shipped.number;
        if !self.objects.contains_key(&number) {
            let last = chains.last.as_ref().map_or(0, |chain| chain.last);
            // Another one goes on behind it, or it was shipped since the objects were listed.
            if last > number || self.store.list()?.contains_key(&number) {
                return Ok(None);
            }
            let (first, last) = (last.saturating_add(1), number);
            let (object, record) = (self.object(first), PathBuf::from(record));
            let fault = ArchiveError::LacksShipped { object, first, last, record };
            return Ok(Some(Unlike { first, last, fault }));
        }
        let there = self.header(number);
        if there.is_none_or(|there| hex::encode(there.set_id) == shipped.set_id) {
            return Ok(None);
        }
        let reason = format!("is not the object that {record} says was shipped");
        let fault = ArchiveError::Misplaced { object: self.object(number), reason };
        Ok(Some(Unlike { first: number, last: number, fault }))
    }

    /// Returns the error that the record beside the database is there and cannot be read, or is
    /// another database's, if that is on this machine: nothing shows then whether the newest
    /// objects are missing.
    #[must_use]
    pub fn unread_record(&self) -> Option<ArchiveError> {
        let path = self.shipped_here()?;
        let reason = match recorded_beside(&path) {
            Recorded::Unread(reason) => reason,
            Recorded::State(state)
                if !self.is_compared_with(&state) && !self.is_of_one_database(&state, &path) =>
            {
                RecordFault::OfAnother
            }
            Recorded::Nothing | Recorded::State(_) => return None,
        };
        Some(ArchiveError::UnreadRecord { record: record_of(&path), reason })
    }

    /// Returns that the record beside the database, if that is on this machine, names another
    /// archive, and an object that is not here: as for a copy of an archive that has gone on since.
    #[must_use]
    pub fn other_archive(&self) -> Option<String> {
        let path = self.shipped_here()?;
        let Recorded::State(state) = recorded_beside(&path) else { return None };
        let is_other = !state.archive.is_empty()
            && !self.is_compared_with(&state)
            && self.is_of_one_database(&state, &path);
        let (record, archive) = (record_of(&path), state.archive);
        is_other.then(|| {
            format!(
                "{} names another archive, {archive}: newer objects were not looked for",
                record.display()
            )
        })
    }

    /// Returns true if a record is of this archive: it names its place, or an object that is here.
    fn is_compared_with(&self, state: &State) -> bool {
        state.archive == self.store.place.recorded()
            || state.shipped.as_ref().is_some_and(|shipped| self.holds(shipped))
    }

    /// Returns true if the last object of a record is here under its number.
    pub(super) fn holds(&self, shipped: &Shipped) -> bool {
        self.has_set(shipped.number, &shipped.set_id)
    }

    pub(super) fn has_set(&self, number: u64, set_id: &str) -> bool {
        self.header(number).is_some_and(|info| hex::encode(info.set_id) == set_id)
    }

    /// Returns true if the record beside a database is its own: it is of that file, or the chain
    /// that it names is here, or the archive that it names is that of the database's path.
    fn is_of_one_database(&self, state: &State, database: &Path) -> bool {
        if !state.is_of_other_file(database) {
            return true;
        }
        let is_here = |shipped: &Shipped| self.has_set(shipped.first, &shipped.chain);
        state.shipped.as_ref().is_some_and(is_here) || path_of(state, database) == Some(true)
    }

    /// Returns the path of the database of the last object whose header can be read, if that was
    /// shipped from this machine: the one whose record names the archive, or an object that is
    /// here, if there is one. An object of another archive may be the last.
    pub(super) fn shipped_here(&self) -> Option<PathBuf> {
        let (host, own) = (crate::labels::host(), self.store.place.recorded());
        let read: Vec<_> = self.last_read().collect();
        let (of, last) = read.first()?;
        let mut looked = BTreeSet::new();
        let mut here = Vec::new();
        for (of, path) in &read {
            if *of == host && !host.is_empty() && looked.insert(path) {
                here.extend(recorded(path).map(|state| (path, state)));
            }
        }
        let holds = |state: &State| state.shipped.as_ref().is_some_and(|it| self.holds(it));
        let found = here.iter().find(|(_, state)| state.archive == own);
        let found = found.or_else(|| here.iter().find(|(_, state)| holds(state)));
        let is_here = *of == host && !host.is_empty();
        found.map(|(path, _)| *path).or(is_here.then_some(last)).cloned()
    }

    /// Returns host and path of the database of the last object whose header can be read.
    fn last_shipped(&self) -> Option<(String, PathBuf)> {
        self.last_read().next()
    }

    /// Returns the same of the last objects whose headers can be read, the last one first.
    fn last_read(&self) -> impl Iterator<Item = (String, PathBuf)> {
        self.objects.keys().rev().take(MOST_READ).filter_map(|number| {
            let info = self.header(*number)?;
            Some((info.host, PathBuf::from(info.path)))
        })
    }
}

/// Returns the record of a database that is followed, or was; `None` without one. It claims nothing
/// for a time that is later than now.
///
/// # Errors
/// `UnreadRecord` for what is there and cannot be read, or is of another database.
pub fn state_of(database: &Path) -> Result<Option<State>, RunError> {
    let mut state = read_beside(database)?;
    if let Some(state) = &mut state {
        state.current_ms = state.current_by(now_ms());
    }
    if state.as_ref().is_some_and(|state| is_of_another(state, database)) {
        let (record, reason) = (record_of(database), RecordFault::OfAnother);
        return Err(ArchiveError::UnreadRecord { record, reason }.into());
    }
    Ok(state)
}

/// Compares an archive in a directory with the record beside a database, by headers alone. Returns
/// why it is not what was shipped: nothing is there, or it cannot be read, or the last object is
/// missing, or another one, or a chain is of another archive. An archive in an object store is not
/// asked.
///
/// # Errors
/// As [`state_of`].
pub fn unlike_shipped(database: &Path) -> Result<Option<RunError>, RunError> {
    let Some(state) = state_of(database)? else { return Ok(None) };
    let Some(shipped) = &state.shipped else { return Ok(None) };
    let place = Place::of(state.archive.as_ref());
    if let Place::Prefix(_) = place {
        return Ok(None);
    }
    let compared = Archive::open(&place).and_then(|archive| {
        if let Some(unlike) = archive.unlike_record()? {
            return Ok(Some(unlike.fault));
        }
        let judged = &archive.by_headers().judged;
        if judged.recorded.is_some() || archive.holds(shipped) {
            return Ok(judged.foreign.values().next().cloned());
        }
        // Nothing here is of the database, or can be read.
        let (number, record) = (shipped.number, record_of(database));
        let object = archive.object(number);
        Ok(Some(ArchiveError::LacksShipped { object, first: number, last: number, record }))
    });
    Ok(match compared {
        Ok(unlike) => unlike.map(RunError::from),
        Err(error) => Some(error),
    })
}

/// Returns true if a record is of another file than that of a database, and the objects in its
/// archive are of another path.
fn is_of_another(state: &State, database: &Path) -> bool {
    state.is_of_other_file(database) && path_of(state, database) == Some(false)
}

/// Returns whether the objects in a record's archive are of a database's path; `None` if the
/// archive cannot be read, or was not shipped from this machine.
fn path_of(state: &State, database: &Path) -> Option<bool> {
    let archive = Archive::open(&Place::of(state.archive.as_ref())).ok()?;
    let (host, path) = archive.last_shipped()?;
    let resolved = std::fs::canonicalize(database).ok()?;
    (host == crate::labels::host()).then(|| resolved == path)
}

/// Returns the record beside a database, if it is whole.
pub(super) fn recorded(database: &Path) -> Option<State> {
    match recorded_beside(database) {
        Recorded::State(state) => Some(*state),
        Recorded::Nothing | Recorded::Unread(_) => None,
    }
}
