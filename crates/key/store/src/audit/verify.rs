//! Reads the log and checks it against the store's keys.

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

/// A fault of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditFault {
    /// The store records entries, but there is no file.
    NoLog {
        /// Number of the last entry.
        head: u64,
    },
    /// A line is not an entry.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The line in it, counted from 1.
        line: usize,
        /// The fault, in words.
        reason: String,
    },
    /// An entry was changed, or written by someone without the key.
    Forged {
        /// The file.
        path: PathBuf,
        /// The line in it, counted from 1.
        line: usize,
    },
    /// Entries are missing.
    Missing {
        /// Number of the first missing entry.
        from: u64,
        /// Number of the last missing entry.
        to: u64,
    },
    /// An entry follows a later one, or occurs twice.
    OutOfOrder {
        /// Its number.
        sequence: u64,
    },
    /// An entry is chained to another entry than the one before it.
    Unchained {
        /// Its number.
        sequence: u64,
    },
    /// The log ends before the last entry that the store records.
    Cut {
        /// Number of the last entry present.
        last: u64,
        /// Number of the last entry that the store records.
        head: u64,
    },
    /// The last entry differs from the one that the store records.
    OtherHead {
        /// Its number.
        sequence: u64,
    },
}

/// A log as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditReport {
    /// The readable entries, in file order.
    pub entries: Vec<AuditRecord>,
    /// The faults. Without the master key, only unreadable lines are found.
    pub faults: Vec<AuditFault>,
    /// Bytes of an incomplete last line: its writer died, or the disk was full.
    pub torn_bytes: usize,
    /// True if the store keeps a log. A store of an older program starts one with its next change.
    pub kept: bool,
    /// Entries up to this number were made on another machine, from which the store was restored.
    pub begins_after: u64,
}

/// Called for each entry with its file and its line there.
type OnLine<'a> = &'a mut dyn FnMut(&mut AuditReport, &Line<'_>, (&PathBuf, usize));

impl KeyStore {
    /// Reads the audit log. Needs no secret, so nothing in it is verified.
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
    /// Reads the audit log, and checks each entry against the store's key and the previous entry,
    /// and the last entry against the store.
    ///
    /// # Errors
    /// `Locked`, `MasterKeyChanged`, `Corrupt`, `Io`.
    pub fn verify_audit_log(&self) -> Result<AuditReport, StoreError> {
        // No entry may be added during the read. A copy on a read-only disk has no writers.
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
            // The gap that contains it was reported already.
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
