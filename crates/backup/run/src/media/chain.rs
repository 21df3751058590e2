//! A set to restore, and its base.

use std::io::Write;

use super::onto::{self, Onto};
use super::opened::OpenSet;
use super::{RestoreOutcome, VerifyReport, replay, restore, verify};
use crate::snapshot::Snapshot;
use crate::{DatabaseSource, PageSink, Run, RunError, SetInfo, SourceKind};

/// A set and its base, or a chain of an archive, opened: their headers, trailers and indexes were
/// read and checked once, and verifying and restoring use those. After [`Self::verify`]
/// only the verified blocks are restored.
pub struct Chain<'a> {
    /// The base first.
    sets: Vec<(&'a SetInfo, OpenSet<'a>)>,
    /// Where log sets follow the full one: the last transaction of the last set that is wanted, and
    /// the pages of the database behind it.
    cut: Option<(u32, u32)>,
    is_archive: bool,
}

impl<'a> Chain<'a> {
    pub(super) fn new(sets: Vec<(&'a SetInfo, OpenSet<'a>)>) -> Self {
        Self { sets, cut: None, is_archive: false }
    }

    /// Makes a chain of an archive: a full set, and with `cut` log sets that follow it.
    pub(crate) fn of_archive(
        sets: Vec<(&'a SetInfo, OpenSet<'a>)>,
        cut: Option<(u32, u32)>,
    ) -> Self {
        Self { sets, cut, is_archive: true }
    }

    /// Returns the sets: a full one, then perhaps the differential one based on it, or the log sets
    /// or log backups behind it.
    pub fn sets(&self) -> impl Iterator<Item = &'a SetInfo> + '_ {
        self.sets.iter().map(|(info, _)| *info)
    }

    /// Returns the name of the object with the set at `index`, if the chain is of an archive.
    pub(crate) fn object(&self, index: usize) -> Option<&str> {
        let (_, set) = self.sets.get(index).filter(|_| self.is_archive)?;
        let (volume, _) = set.families.first()?.copies.first()?;
        Some(&volume.name)
    }

    /// Reads every block of every copy and checks the signatures, in the order of [`Self::sets`].
    /// From then on only those blocks are restored, whatever happens to the files.
    ///
    /// # Errors
    /// As [`crate::Media::verify`].
    pub fn verify(&mut self, run: &Run<'_>) -> Result<Vec<VerifyReport>, RunError> {
        let mut reports = Vec::with_capacity(self.sets.len());
        for (info, set) in &mut self.sets {
            let (report, digests) = verify::verify(set, info, true, run)?;
            let (hash, digests) =
                digests.into_iter().next().ok_or(RunError::Internal("no digest of a set"))?;
            for (family, digests) in set.families.iter_mut().zip(digests) {
                family.pinned = Some((hash, digests));
            }
            reports.push(report);
        }
        Ok(reports)
    }

    /// Restores a database.
    ///
    /// # Errors
    /// Any error that prevents restoring the complete set; the sink is not finished then.
    pub fn restore_database(
        &self,
        sink: &mut dyn PageSink,
        run: &Run<'_>,
    ) -> Result<RestoreOutcome, RunError> {
        self.last(SourceKind::Database)?;
        let sets: Vec<&OpenSet<'_>> = self.sets.iter().map(|(_, set)| set).collect();
        match self.cut {
            None => restore::database(&sets, sink, run),
            Some(cut) => replay::database(&sets, cut, sink, run),
        }
    }

    /// Restores a set of [`crate::Media::alone`] onto a database that is as an earlier set left it.
    /// Every page of the outcome is in the set, or is the database's and was compared with the
    /// set's page map.
    ///
    /// # Errors
    /// Any error that prevents that; the sink is not finished then, nor where the database differs.
    pub fn restore_onto(
        &self,
        database: DatabaseSource,
        sink: &mut dyn PageSink,
        run: &Run<'_>,
    ) -> Result<Onto, RunError> {
        let [(_, set)] = &self.sets[..] else {
            return Err(RunError::Internal("several sets onto a database"));
        };
        self.last(SourceKind::Database)?;
        onto::database(set, &Snapshot::open(database)?, sink, run)
    }

    /// Writes the pages of the last set, a log set, each once and in its last state. Returns the
    /// number of those that were compared with the ones that were shipped.
    ///
    /// # Errors
    /// Any error that prevents that; the sink is not finished then.
    pub(crate) fn replay_log(
        &self,
        sink: &mut dyn PageSink,
        run: &Run<'_>,
    ) -> Result<u64, RunError> {
        match (self.sets.last(), self.cut) {
            (Some((_, set)), Some(cut)) => replay::log(set, cut, sink, run),
            _ => Err(RunError::Internal("a chain of no log set")),
        }
    }

    /// Restores a stream. Bytes are written in order as their blocks are opened, so the bytes
    /// written before an error are correct but incomplete: the caller publishes only on `Ok`.
    ///
    /// # Errors
    /// Any error that prevents restoring the complete set.
    pub fn restore_stream(
        &self,
        out: &mut (dyn Write + Send),
        run: &Run<'_>,
    ) -> Result<RestoreOutcome, RunError> {
        restore::stream(self.last(SourceKind::Stream)?, out, run)
    }

    /// Returns the requested set, if it is of this kind.
    fn last(&self, wanted: SourceKind) -> Result<&OpenSet<'a>, RunError> {
        let name = |kind| match kind {
            SourceKind::Database => "a database",
            SourceKind::Stream => "a stream",
        };
        let (info, set) = self.sets.last().ok_or(RunError::Internal("a chain of no set"))?;
        if info.source == wanted {
            return Ok(set);
        }
        let (holds, wanted) = (name(info.source), name(wanted));
        Err(RunError::WrongSource { position: info.position, holds, wanted })
    }
}

impl std::fmt::Debug for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let positions: Vec<u32> = self.sets().map(|set| set.position).collect();
        f.debug_struct("Chain").field("positions", &positions).finish_non_exhaustive()
    }
}
