//! The log read and held against the store's keys.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::record::{AuditRecord, Line};
use super::trail::{read_segment, segments, whole_lines};
use crate::error::StoreError;
use crate::file::AuditMark;
use crate::lock::{self, WriterLock};
use crate::store::KeyStore;
use crate::unlocked::Unlocked;

/// Something that is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditFault {
    /// The store says that there are entries, and there is no file.
    NoLog {
        /// The last entry's number.
        head: u64,
    },
    /// A line is no entry.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The line in it, from 1.
        line: usize,
        /// The fault, in words.
        reason: String,
    },
    /// An entry was changed, or written by somebody without the key.
    Forged {
        /// The file.
        path: PathBuf,
        /// The line in it, from 1.
        line: usize,
    },
    /// Entries are not there.
    Missing {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// An entry stands behind a later one, or twice.
    OutOfOrder {
        /// Its number.
        sequence: u64,
    },
    /// An entry follows another one than the one before it.
    Unchained {
        /// Its number.
        sequence: u64,
    },
    /// The log ends before the last entry that the store knows.
    Cut {
        /// The last one that is there.
        last: u64,
        /// The last one that the store knows.
        head: u64,
    },
    /// The last entry that the store knows is another one.
    OtherHead {
        /// Its number.
        sequence: u64,
    },
}

/// A log as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditReport {
    /// The entries that could be read, in the order they stand.
    pub entries: Vec<AuditRecord>,
    /// What is wrong. Without the master key, unreadable lines alone are found.
    pub faults: Vec<AuditFault>,
    /// Bytes of a last line without its end: its writer died, or the disk was full.
    pub torn_bytes: usize,
    /// Whether the store keeps a log. One of an older program does so from its next change on.
    pub kept: bool,
    /// Entries up to this number are of another machine, from which the store was restored.
    pub begins_after: u64,
}

/// Called for each entry with its file and its line there.
type OnLine<'a> = &'a mut dyn FnMut(&mut AuditReport, &Line<'_>, (&PathBuf, usize));

impl KeyStore {
    /// The audit log as it stands there. Needs no secret, so nothing of it is proved.
    ///
    /// # Errors
    /// `Io`.
    pub fn audit_log(&self) -> Result<AuditReport, StoreError> {
        self.read_audit_log(&mut |_, _, _| {})
    }

    fn read_audit_log(&self, each: OnLine<'_>) -> Result<AuditReport, StoreError> {
        let mut report = AuditReport::default();
        if let Some(anchor) = &self.file().audit {
            (report.kept, report.begins_after) = (true, anchor.base.sequence);
        }
        for path in segments(self.dir())? {
            let missing = || StoreError::io("read", &path)(io::ErrorKind::NotFound.into());
            let bytes = read_segment(&path)?.ok_or_else(missing)?;
            for (number, line) in (1..).zip(whole_lines(&bytes)) {
                match Line::decode(line) {
                    Ok(line) => {
                        each(&mut report, &line, (&path, number));
                        report.entries.push(line.record);
                    }
                    Err(error) => {
                        let (path, reason) = (path.clone(), error.to_string());
                        report.faults.push(AuditFault::Unreadable { path, line: number, reason });
                    }
                }
            }
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            report.torn_bytes += bytes.len().saturating_sub(whole);
        }
        Ok(report)
    }
}

impl Unlocked {
    /// The audit log, each entry held against the store's key and against the one before it, and
    /// the last one against the store.
    ///
    /// # Errors
    /// `Locked`, `MasterKeyChanged`, `Corrupt`, `Io`.
    pub fn verify_audit_log(&self) -> Result<AuditReport, StoreError> {
        // No entry comes while it is read. A copy on a read-only disk has no writers.
        let _lock = match WriterLock::acquire(self.store().dir(), lock::WAIT) {
            Err(StoreError::Io { .. }) => None,
            other => Some(other?),
        };
        let current = self.read_current()?;
        let Some(anchor) = &current.file().audit else { return current.audit_log() };
        let key = self.keys().open_audit_key(current.file(), &anchor.sealed_key)?;
        let mut chain = Chain { last: anchor.base, head: anchor.head, met_head: None };
        let mut report = current.read_audit_log(&mut |report, line, (path, number)| {
            if !line.holds(&key) {
                report.faults.push(AuditFault::Forged { path: path.clone(), line: number });
            }
            report.faults.extend(chain.take(line));
        })?;
        report.faults.extend(chain.end(report.entries.is_empty()));
        Ok(report)
    }
}

struct Chain {
    last: AuditMark,
    head: AuditMark,
    met_head: Option<bool>,
}

impl Chain {
    fn take(&mut self, line: &Line<'_>) -> Option<AuditFault> {
        let sequence = line.record.seq;
        if sequence == self.head.sequence {
            self.met_head = Some(line.mac == self.head.mac);
        }
        let expected = self.last.sequence.saturating_add(1);
        if sequence < expected {
            return Some(AuditFault::OutOfOrder { sequence });
        }
        let chained = line.record.prev == hex::encode(self.last.mac);
        self.last = AuditMark { sequence, mac: line.mac };
        match sequence == expected {
            false => Some(AuditFault::Missing { from: expected, to: sequence - 1 }),
            true if !chained => Some(AuditFault::Unchained { sequence }),
            true => None,
        }
    }

    fn end(&self, empty: bool) -> Option<AuditFault> {
        let head = self.head.sequence;
        match self.met_head {
            _ if self.head == AuditMark::START => None,
            Some(true) => None,
            Some(false) => Some(AuditFault::OtherHead { sequence: head }),
            None if empty => Some(AuditFault::NoLog { head }),
            None if self.last.sequence < head => {
                Some(AuditFault::Cut { last: self.last.sequence, head })
            }
            // The gap that it is in was told.
            None => None,
        }
    }
}

impl fmt::Display for AuditFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLog { head } => write!(f, "there is no log; the store knows {head} entries"),
            Self::Unreadable { path, line, reason } => {
                write!(f, "{}, line {line}: {reason}", path.display())
            }
            Self::Forged { path, line } => {
                let path = path.display();
                write!(f, "{path}, line {line}: the entry was changed or forged: its MAC is wrong")
            }
            Self::Missing { from, to } if from == to => write!(f, "entry {from} is missing"),
            Self::Missing { from, to } => write!(f, "entries {from} to {to} are missing"),
            Self::OutOfOrder { sequence } => {
                write!(f, "entry {sequence} stands behind a later one, or twice")
            }
            Self::Unchained { sequence } => {
                write!(f, "entry {sequence} was written behind another one than the one before it")
            }
            Self::Cut { last, head } => {
                write!(f, "the log ends at entry {last}; the store knows entry {head}")
            }
            Self::OtherHead { sequence } => {
                write!(f, "entry {sequence} is another one than the store knows")
            }
        }
    }
}
