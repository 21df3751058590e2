//! The way through an archive's objects, one after the other. `verify` and `restore --at
//! latest-good` go the same way, so that both name the same objects.

use std::collections::BTreeMap;
use std::io;

use tdekit_backup_media::ShippedBehind;

use super::chain::At;
use super::check::{Links, closed, is_other_key, log_ends};
use super::read::{Archive, OpenChain};
use super::verify::{ArchiveReport, ChainReport, ClosedChain, ObjectFinding, Reading};
use crate::error::ArchiveError;
use crate::place::is_missing;
use crate::{Media, ObjectFault, Run, RunError, SetInfo, SetKind, UnwrapSecret, VerifyReport};

/// The walk, from the beginning of a chain.
pub(super) struct Walk<'a> {
    archive: &'a Archive,
    /// True if a chain of the archive is encrypted.
    sealed: bool,
    keys: Option<&'a dyn UnwrapSecret>,
    run: &'a Run<'a>,
    /// Faults that are known already, by the numbers of their objects.
    pub(super) known: BTreeMap<u64, ArchiveError>,
    /// True if an object that the keys do not open is an error, which ends the walk.
    pub(super) opens_all: bool,
    links: Links,
    /// The number of the next object.
    due: u64,
    /// Numbers in front of the next object that can be read and that are not there, first and last.
    missing: Vec<(u64, u64)>,
    report: ArchiveReport,
    faults: Vec<Fault>,
}

/// A fault of an object.
pub(super) struct Fault {
    pub(super) number: u64,
    pub(super) error: RunError,
    is_of_reading: bool,
}

impl<'a> Walk<'a> {
    /// Begins at an object: what is before it has no part in what is behind it.
    pub(super) fn new(
        archive: &'a Archive,
        sealed: bool,
        first: u64,
        (keys, run): (Option<&'a dyn UnwrapSecret>, &'a Run<'a>),
    ) -> Self {
        let before = archive.objects.range(..first).next_back();
        Self {
            archive,
            sealed,
            keys,
            run,
            known: BTreeMap::new(),
            opens_all: false,
            links: Links::default(),
            due: before.map_or(first, |(number, _)| number.saturating_add(1)),
            missing: Vec::new(),
            report: ArchiveReport::default(),
            faults: Vec::new(),
        }
    }

    /// Opens the next object, and checks that it goes on behind the one before. Its fault is noted.
    ///
    /// # Errors
    /// `Cancelled`; `Closed` if that ends the walk; those of the keys, and of a store.
    pub(super) fn step(&mut self, number: u64, bytes: u64) -> Result<(), RunError> {
        self.run.check()?;
        self.report.objects += 1;
        self.report.bytes += bytes;
        if number > self.due {
            self.missing.push((self.due, number - 1));
        }
        self.due = number.saturating_add(1);
        let (mut set, not_opened) = (None, self.report.closed);
        let archive = self.archive;
        let checked =
            archive.media(number).and_then(|media| self.look((number, bytes), &media, &mut set));
        let checked = checked.map_err(|error| match is_missing(&error) {
            true => ArchiveError::MissingObject { object: archive.object(number) }.into(),
            false => error,
        });
        let is_gone =
            matches!(&checked, Err(RunError::Archive(ArchiveError::MissingObject { .. })));
        let known = self.known.remove(&number).map_or(Ok(()), |known| Err(RunError::from(known)));
        let checked = checked.and(known);
        // A set that is not in its place may be whole in its own, or another database's.
        let is_elsewhere =
            matches!(&checked, Err(RunError::Archive(ArchiveError::Misplaced { .. })));
        let mut is_of_reading = false;
        if let Some((set_id, is_full)) = set
            && self.report.closed == not_opened
            && !(is_gone || is_elsewhere)
        {
            self.report.readings.push(Reading { set_id, is_full, is_whole: checked.is_ok() });
            is_of_reading = true;
        }
        match checked {
            Ok(()) => self.report.good = Some(number),
            Err(error) if ends_walk(&error) || (!self.opens_all && is_denied(&error)) => {
                return Err(error);
            }
            Err(error) => {
                self.links.cut();
                self.faults.push(Fault { number, error, is_of_reading });
            }
        }
        Ok(())
    }

    /// Returns what was found, and the faults by the numbers of their objects.
    pub(super) fn end(mut self) -> (ArchiveReport, Vec<Fault>) {
        // No record says what they were.
        self.report.gaps.append(&mut self.missing);
        for (number, error) in std::mem::take(&mut self.known) {
            if self.faults.iter().any(|fault| fault.number == number) {
                continue;
            }
            self.faults.push(Fault { number, error: error.into(), is_of_reading: false });
        }
        self.faults.sort_by_key(|fault| fault.number);
        self.report.lacks = self.faults.iter().any(|fault| {
            use ArchiveError::{LacksShipped, Lost, MissingObject};
            let RunError::Archive(error) = &fault.error else { return false };
            matches!(error, MissingObject { .. } | LacksShipped { .. } | Lost { .. })
        });
        let archive = self.archive;
        let finding = |fault: &Fault| {
            let (object, message) = (archive.object(fault.number), fault.error.to_string());
            let message = match message.contains(&object) {
                true => message,
                false => format!("{object}: {message}"),
            };
            ObjectFinding {
                number: fault.number,
                message,
                is_of_reading: fault.is_of_reading,
                is_loss: matches!(&fault.error, RunError::Archive(ArchiveError::Lost { .. })),
            }
        };
        self.report.findings = self.faults.iter().map(finding).collect();
        (self.report, self.faults)
    }

    fn look(
        &mut self,
        (number, bytes): (u64, u64),
        media: &Media,
        set: &mut Option<([u8; 16], bool)>,
    ) -> Result<(), RunError> {
        let info = media.only_info()?;
        let is_full = info.kind == SetKind::Full;
        *set = Some((info.set_id, is_full));
        if self.sealed {
            self.archive.refuse_plain(number, info)?;
        }
        let gap = self.judge_missing(number, info);
        self.note_chain((number, bytes), info);
        let chain = if is_full { Some(self.archive.chain_of(number, At::Latest)?) } else { None };
        // Whether a key here opens it does not matter then.
        chain.as_ref().map_or(Ok(()), OpenChain::refuse_foreign_chain)?;
        self.open(number, media, gap)?;
        chain.map_or(Ok(()), |chain| chain.refuse_unbound(self.keys))
    }

    /// Judges the numbers in front of an object that are not there: those in front of a full set
    /// may be gone, those of a chain may not. Returns the first and last in front of a full set.
    fn judge_missing(&mut self, number: u64, info: &SetInfo) -> Option<(u64, u64)> {
        let missing = std::mem::take(&mut self.missing);
        let Some(link) = info.log else {
            self.report.gaps.extend(&missing);
            return missing.first().copied();
        };
        let is_gone = |first: u64| missing.iter().any(|gap| (gap.0..=gap.1).contains(&first));
        let is_first = self.report.objects == 1 && link.first < number;
        let lost = match missing.first() {
            _ if is_gone(link.first) => link.first,
            _ if is_first && !self.archive.objects.contains_key(&link.first) => link.first,
            Some((first, _)) => *first,
            None => return None,
        };
        for (first, last) in missing.iter().filter(|(first, _)| *first < lost) {
            self.report.gaps.push((*first, *last.min(&(lost - 1))));
        }
        self.links.cut();
        let error = ArchiveError::MissingObject { object: self.archive.object(lost) }.into();
        self.faults.push(Fault { number: lost, error, is_of_reading: false });
        None
    }

    fn note_chain(&mut self, (number, bytes): (u64, u64), info: &SetInfo) {
        let transactions = info.log.map_or(0, |log| u64::from(log.transactions));
        match self.report.chains.last_mut() {
            Some(chain) if info.log.is_some_and(|log| log.first == chain.first) => {
                chain.last = number;
                chain.transactions += transactions;
                chain.finished_ms = info.finished_ms;
                chain.bytes += bytes;
            }
            _ => self.report.chains.push(ChainReport {
                first: info.log.map_or(number, |log| log.first),
                last: number,
                transactions,
                begun_ms: info.begun_ms,
                finished_ms: info.finished_ms,
                bytes,
                database: (info.host.clone(), info.path.clone()),
                why: match info.log {
                    None => info.description.clone(),
                    Some(_) => String::new(),
                },
            }),
        }
    }

    /// Opens the blocks of an object, as far as its key is here, and checks its link.
    fn open(
        &mut self,
        number: u64,
        media: &Media,
        gap: Option<(u64, u64)>,
    ) -> Result<(), RunError> {
        let (info, object) = (media.only_info()?, self.archive.object(number));
        let (verified, other_key) = match media.verify(Some(1), self.keys, self.run) {
            Err(error) if matches!(&error, RunError::Store(error) if is_other_key(error)) => {
                (media.verify(Some(1), None, self.run)?, Some(error))
            }
            verified => (verified?, None),
        };
        let VerifyReport { opened, damages, signatures, .. } = verified;
        if let Some(reason) = damages.into_iter().next() {
            return Err(RunError::Damaged { media: object, what: "the object".to_owned(), reason });
        }
        let holds = signatures.iter().all(|signature| signature.problem.is_none());
        self.report.signatures.push((number, signatures));
        if !holds {
            return Err(ArchiveError::WrongSignature { object }.into());
        }
        if !opened {
            // If it or the one before is wrong, its key does not matter.
            self.links.pass_closed((number, &object), info)?;
            self.report.closed += 1;
            self.note_closed(number, info);
            return match other_key.filter(|_| self.opens_all) {
                Some(error) => Err(closed(error, &object, info)),
                None => Ok(()),
            };
        }
        let (_, set) = self.links.add((number, &object), media, self.keys)?;
        if info.kind == SetKind::Log {
            log_ends(&set)?;
            return Ok(());
        }
        let behind = info.archive.as_ref().and_then(|archive| archive.full?.behind);
        if let (Some((first, last)), Some(behind)) = (gap, behind)
            && is_lost(behind, first)
            && self.archive.objects.contains_key(&behind.first)
        {
            let last = last.min(behind.number);
            let error = self.archive.lost((first, last), number).into();
            self.faults.push(Fault { number: first, error, is_of_reading: false });
        }
        Ok(())
    }

    fn note_closed(&mut self, number: u64, info: &SetInfo) {
        let certificates = info.certificates();
        match self.report.not_opened.last_mut() {
            Some(chain) if chain.last + 1 == number && chain.certificates == certificates => {
                chain.last = number;
            }
            _ => {
                let chain = ClosedChain { first: number, last: number, certificates };
                self.report.not_opened.push(chain);
            }
        }
    }
}

/// Returns true if objects from `first` on were lost that a full set was shipped behind. `prune`
/// removes a whole chain, or leaves of it the full set alone: then nobody knows.
pub(super) fn is_lost(behind: ShippedBehind, first: u64) -> bool {
    behind.number >= first && behind.first > 0 && behind.first.saturating_add(1) < first
}

/// Returns true if the system refuses an object to whoever asks: that is nothing of the object. All
/// that can be restored without it is found all the same.
fn is_denied(error: &RunError) -> bool {
    let is_denied = |source: &io::Error| source.kind() == io::ErrorKind::PermissionDenied;
    matches!(error, RunError::Io { source, .. } if is_denied(source))
}

/// Returns true if an error is not a fault of one object.
fn ends_walk(error: &RunError) -> bool {
    match error {
        RunError::Cancelled | RunError::Store(_) => true,
        RunError::Archive(ArchiveError::Closed { .. }) => true,
        RunError::Object { fault, .. } => {
            !matches!(fault, ObjectFault::NoObject | ObjectFault::Changed)
        }
        _ => false,
    }
}
