//! Whether all objects of an archive are there and whole.

use std::path::Path;

use tdekit_key_store::StoreError;

use super::chain::At;
use super::check::{Links, log_ends};
use super::error::ArchiveError;
use super::read::Archive;
use super::state::state_of;
use crate::{Media, Run, RunError, SetKind, SignatureCheck, UnwrapSecret, VerifyReport};

/// Most objects from the end of which one is to be readable, to find the database's record.
const MOST_READ: usize = 8;

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

/// The outcome of verifying.
#[derive(Debug, Clone, Default)]
pub struct ArchiveReport {
    /// Number of objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects whose blocks were not opened, for lack of a key.
    pub closed: u64,
    /// The key store's error about the first object for which it has no key.
    pub no_key: Option<String>,
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
    pub fn passed_over(&self) -> impl Iterator<Item = &ObjectFinding> {
        self.findings.iter().filter(|finding| Some(finding.number) > self.good)
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
    /// structure and checksums of encrypted sets are checked.
    ///
    /// # Errors
    /// `Cancelled`; those of the keys, and of a place that cannot be read.
    pub fn verify(
        &self,
        keys: Option<&dyn UnwrapSecret>,
        run: &Run<'_>,
        told: &dyn Fn(u64),
    ) -> Result<ArchiveReport, RunError> {
        let mut report = ArchiveReport::default();
        let sealed = self.is_encrypted()?;
        let mut links = Links::default();
        let mut due = self.objects.keys().next().copied().unwrap_or(1);
        for (number, bytes) in &self.objects {
            run.check()?;
            let number = *number;
            report.objects += 1;
            report.bytes += bytes;
            let gap = (number > due).then(|| (due, number - 1));
            due = number.saturating_add(1);
            let (mut set, closed) = (None, report.closed);
            let checked = self.media(number).and_then(|media| {
                let info = media.only_info()?;
                let is_full = info.kind == SetKind::Full;
                set = Some((info.set_id, is_full));
                if sealed {
                    self.refuse_plain(number, info)?;
                }
                if let Some(gap) = gap.filter(|_| is_full) {
                    report.gaps.push(gap);
                } else if let Some((first, _)) = gap {
                    links.cut();
                    return Err(ArchiveError::MissingObject { object: self.object(first) }.into());
                }
                let with = (keys, run, &mut report);
                self.verify_object((number, *bytes), &media, &mut links, with, gap)?;
                if is_full {
                    self.chain_of(number, At::Latest)?.refuse_unbound(keys)?;
                }
                Ok(())
            });
            let mut is_of_reading = false;
            if let Some((set_id, is_full)) = set
                && report.closed == closed
                && !matches!(&checked, Err(RunError::Archive(ArchiveError::MissingObject { .. })))
            {
                let is_whole = checked.is_ok();
                report.readings.push(Reading { set_id, is_full, is_whole });
                is_of_reading = true;
            }
            match checked {
                Ok(()) => report.good = Some(number),
                Err(error @ (RunError::Cancelled | RunError::Store(_))) => return Err(error),
                Err(error) => {
                    links.cut();
                    let object = self.object(number);
                    let message = error.to_string();
                    let message = match message.contains(&object) {
                        true => message,
                        false => format!("{object}: {message}"),
                    };
                    report.findings.push(ObjectFinding { number, message, is_of_reading });
                }
            }
            told(number);
        }
        self.compare_with_record(&mut report)?;
        Ok(report)
    }

    fn verify_object(
        &self,
        (number, bytes): (u64, u64),
        media: &Media,
        links: &mut Links,
        (keys, run, report): (Option<&dyn UnwrapSecret>, &Run<'_>, &mut ArchiveReport),
        gap: Option<(u64, u64)>,
    ) -> Result<(), RunError> {
        let info = media.only_info()?;
        let transactions = info.log.map_or(0, |log| u64::from(log.transactions));
        match report.chains.last_mut() {
            Some(chain) if info.log.is_some_and(|log| log.first == chain.first) => {
                chain.last = number;
                chain.transactions += transactions;
                chain.finished_ms = info.finished_ms;
                chain.bytes += bytes;
            }
            _ => report.chains.push(ChainReport {
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
        let verified = match media.verify(Some(1), keys, run) {
            Err(RunError::Store(error @ StoreError::CertificateMissing { .. })) => {
                report.no_key.get_or_insert(error.to_string());
                media.verify(Some(1), None, run)?
            }
            verified => verified?,
        };
        let VerifyReport { opened, damages, signatures, .. } = verified;
        if let Some(reason) = damages.into_iter().next() {
            let media = self.object(number);
            return Err(RunError::Damaged { media, what: "the object".to_owned(), reason });
        }
        let holds = signatures.iter().all(|signature| signature.problem.is_none());
        report.signatures.push((number, signatures));
        if !holds {
            return Err(ArchiveError::WrongSignature { object: self.object(number) }.into());
        }
        if !opened {
            report.closed += 1;
            return Ok(());
        }
        let (_, set) = links.add((number, &self.object(number)), media, keys)?;
        if info.kind == SetKind::Log {
            log_ends(&set)?;
            return Ok(());
        }
        // The chain before it is gone: a chain is removed as a whole.
        if let (Some((first, _)), Some(before)) = (gap, set.metadata()?.archive_before)
            && before < first
            && self.objects.contains_key(&before)
        {
            let object = self.object(first);
            let message = format!("{object} is missing: object {number} was shipped behind it");
            report.findings.push(ObjectFinding { number: first, message, is_of_reading: false });
        }
        Ok(())
    }

    /// Compares the last object with what is recorded beside the database, if that is on this
    /// machine: the record says what was shipped last.
    fn compare_with_record(&self, report: &mut ArchiveReport) -> Result<(), RunError> {
        let Some((last, _)) = self.objects.last_key_value() else { return Ok(()) };
        let infos = self.objects.keys().rev().take(MOST_READ).filter_map(|number| {
            let media = self.media(*number).ok()?;
            let info = media.only_info().ok()?;
            Some((*number, info.set_id, info.host.clone(), info.path.clone()))
        });
        let Some((number, set_id, host, path)) = infos.into_iter().next() else { return Ok(()) };
        if host != crate::labels::host() || host.is_empty() {
            return Ok(());
        }
        // A record that cannot be read says nothing.
        let Ok(Some(state)) = state_of(Path::new(&path)) else { return Ok(()) };
        let Some(shipped) = state.shipped.filter(|_| state.archive == self.store.place.recorded())
        else {
            return Ok(());
        };
        let object = self.object(shipped.number);
        let message = if shipped.number > *last {
            // It may have been shipped since the objects were listed.
            match self.store.list()?.contains_key(&shipped.number) {
                true => return Ok(()),
                false => format!("{object} is missing: {path}-replica says that it was shipped"),
            }
        } else if shipped.number == number && shipped.set_id != hex::encode(set_id) {
            format!("{object} is not the object that {path}-replica says was shipped")
        } else {
            return Ok(());
        };
        if report.findings.iter().all(|finding| finding.number != shipped.number) {
            report.findings.push(ObjectFinding {
                number: shipped.number,
                message,
                is_of_reading: false,
            });
        }
        Ok(())
    }
}
