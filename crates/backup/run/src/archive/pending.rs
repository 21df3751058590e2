//! Transactions that were read from the log and are not shipped yet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use super::frames::LogHeader;
use super::ground::Frames;
use super::keeper::{Index, Keeper};
use super::marks::{Marks, look};
use crate::RunError;
use crate::labels::now_ms;
use crate::output::lock;

/// Maximum bytes of pages that are held in memory when the log is started anew.
const MAX_HELD_BYTES: u64 = 64 << 20;

/// The place of a page's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageAt {
    /// In the log, in the frame with this number, from 0.
    Frame(u32),
    /// Here: the log was started anew since.
    Held(Box<[u8]>),
    /// In the main file of a database without a log, whose read transaction goes on.
    Main,
}

impl PageAt {
    fn held_bytes(&self) -> Option<u64> {
        match self {
            Self::Frame(_) | Self::Main => None,
            Self::Held(bytes) => Some(bytes.len() as u64),
        }
    }
}

/// A committed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transaction {
    /// Its pages in their last state, by number, at least one.
    pub(super) pages: BTreeMap<u32, PageAt>,
    /// Pages of the database after it.
    pub(super) size: u32,
    /// Time when the commit was seen.
    pub(super) time_ms: i64,
    /// The log behind it.
    pub(super) end: Position,
}

/// A place in a log, behind a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) salts: [u8; 8],
    /// Number of frames before it.
    pub(super) frames: u32,
    /// Their checksum; that of the log's header without frames.
    pub(super) checksum: [u32; 2],
    /// SQLite's count of commits there.
    pub(super) commits: u32,
}

impl Position {
    /// Returns the end of the log.
    pub(super) fn end_of(index: &Index) -> Self {
        let Index { salts, frames, checksum, commits, .. } = *index;
        Self { salts, frames, checksum, commits }
    }
}

/// Whether what was read follows what was read before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Captured {
    /// Every commit in between is here.
    Everything,
    /// Nothing could be read just now.
    NotNow,
    /// More transactions than fit into memory; nothing was taken.
    TooMany,
    /// The log was started anew, and transactions may be missing.
    Gap,
}

/// The transactions, in order.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// The end of what was read.
    pub(super) position: Position,
    pub(super) transactions: VecDeque<Arc<Transaction>>,
    /// When commits were seen.
    marks: Arc<Mutex<Marks>>,
    /// The latest time that was given. Times never fall, whatever the clock does.
    last_ms: i64,
    /// The frames of the log that were read.
    pub(super) frames: Frames,
    /// True if transactions whose pages are in the log only were given up with it.
    lost: bool,
}

impl Pending {
    pub(super) fn new(position: Position, last_ms: i64, marks: Arc<Mutex<Marks>>) -> Self {
        let (transactions, frames) = (VecDeque::new(), Frames::default());
        Self { position, transactions, marks, last_ms, frames, lost: false }
    }

    /// Takes what is in the log only into memory, before others may start it anew. What does not
    /// fit is missing from then on.
    pub(super) fn let_go(&mut self, keeper: &mut Keeper) {
        // A log that cannot be read is as lost as one that is too long.
        self.lost |= !self.take_pages(keeper).unwrap_or(false);
    }

    /// Returns the bytes of pages that are held here; `None` if some are in the log only.
    pub(super) fn held_bytes(&self) -> Option<u64> {
        let pages = self.transactions.iter().flat_map(|each| each.pages.values());
        pages.map(|at| at.held_bytes()).sum()
    }

    /// Takes pages that are in the log only into memory. Returns false if they are too many, or of
    /// a log that was started anew since.
    ///
    /// # Errors
    /// `Log`.
    pub(super) fn take_pages(&mut self, keeper: &mut Keeper) -> Result<bool, RunError> {
        if self.held_bytes().is_some() {
            return Ok(true);
        }
        let pages: usize = self.transactions.iter().map(|each| each.pages.len()).sum();
        let salts = keeper.index().map(|index| index.salts);
        if pages as u64 * u64::from(keeper.page_size()) > MAX_HELD_BYTES {
            return Ok(false);
        }
        for transaction in &mut self.transactions {
            let is_here = Some(transaction.end.salts) == salts;
            for (page, at) in &mut Arc::make_mut(transaction).pages {
                let PageAt::Frame(number) = *at else { continue };
                if !is_here {
                    return Ok(false);
                }
                keeper.load(number)?;
                if !keeper.is_of(*page) {
                    return Err(keeper.unreadable(format!("frame {number} has changed")));
                }
                *at = PageAt::Held(keeper.page().into());
            }
        }
        Ok(true)
    }

    /// Reads everything that was committed since. With `hold`, pages are kept in memory.
    ///
    /// # Errors
    /// `Log`: what the index says is committed cannot be read.
    pub(super) fn capture(
        &mut self,
        keeper: &mut Keeper,
        hold: bool,
    ) -> Result<Captured, RunError> {
        if self.lost {
            return Ok(Captured::Gap);
        }
        let Some(index) = look(&self.marks, keeper) else { return Ok(Captured::NotNow) };
        if index.salts != self.position.salts {
            if index.commits == self.position.commits {
                // Started anew, and nothing committed since.
                if index.frames == 0 {
                    return Ok(Captured::Everything);
                }
                return Ok(Captured::Gap);
            }
            let header = keeper.header()?;
            if header.salts != index.salts {
                return Ok(Captured::NotNow);
            }
            let begin = Position {
                salts: index.salts,
                frames: 0,
                checksum: header.checksum,
                commits: self.position.commits,
            };
            return self.capture_from(keeper, (begin, index), hold);
        }
        if index.frames == self.position.frames {
            self.position.commits = index.commits;
            return Ok(Captured::Everything);
        }
        if index.frames < self.position.frames {
            return Ok(Captured::Gap);
        }
        self.capture_from(keeper, (self.position, index), hold)
    }

    /// Reads from `from` to the log's end. Where the log was started anew since `from`, SQLite's
    /// count of commits must have risen by the number of those that are there: then none was in
    /// the log before.
    fn capture_from(
        &mut self,
        keeper: &mut Keeper,
        (from, index): (Position, Index),
        hold: bool,
    ) -> Result<Captured, RunError> {
        let wanted = u64::from(index.frames - from.frames) * u64::from(keeper.page_size());
        if hold && wanted > MAX_HELD_BYTES {
            return Ok(Captured::TooMany);
        }
        let header = keeper.header()?;
        if header.salts != index.salts {
            return Err(keeper.unreadable("its header and its index differ".to_owned()));
        }
        let begin = if from.frames == 0 { header.checksum } else { from.checksum };
        let frames = &mut self.frames;
        let (found, checksum) = read(keeper, &header, (from, begin, index), (hold, frames))?;
        if checksum != index.checksum {
            return Err(keeper.unreadable("its checksum and its index differ".to_owned()));
        }
        let commits = u32::try_from(found.len()).unwrap_or(u32::MAX);
        let anew = index.salts != self.position.salts;
        if anew && index.commits.wrapping_sub(from.commits) != commits {
            return Ok(Captured::Gap);
        }
        let mut marks = lock(&self.marks);
        for mut transaction in found {
            let seen = marks.time_of(index.salts, transaction.end.frames);
            // Without a mark, the log was started anew since the index was read.
            self.last_ms = self.last_ms.max(seen.unwrap_or_else(now_ms));
            transaction.time_ms = self.last_ms;
            self.transactions.push_back(Arc::new(transaction));
        }
        marks.read_to(index.salts, index.frames);
        drop(marks);
        self.position = Position::end_of(&index);
        Ok(Captured::Everything)
    }
}

/// Reads the transactions between a position and the log's end, and the checksum there.
fn read(
    keeper: &mut Keeper,
    header: &LogHeader,
    (from, mut checksum, index): (Position, [u32; 2], Index),
    (hold, frames): (bool, &mut Frames),
) -> Result<(Vec<Transaction>, [u32; 2]), RunError> {
    let (mut found, mut pages) = (Vec::new(), BTreeMap::new());
    let mut commits = from.commits;
    for number in from.frames..index.frames {
        let frame = keeper.frame(header, number, checksum)?;
        checksum = frame.checksum;
        frames.add(index.salts, number, (frame.page, frame.commit));
        let at = if hold { PageAt::Held(keeper.page().into()) } else { PageAt::Frame(number) };
        pages.insert(frame.page, at);
        if frame.commit == 0 {
            continue;
        }
        commits = commits.wrapping_add(1);
        let mut pages = std::mem::take(&mut pages);
        // Pages that were cut off in the same transaction.
        drop(pages.split_off(&frame.commit.saturating_add(1)));
        if pages.is_empty() {
            return Err(keeper.unreadable(format!("the transaction of frame {number} is empty")));
        }
        let frames = number.saturating_add(1);
        let end = Position { salts: index.salts, frames, checksum, commits };
        found.push(Transaction { pages, size: frame.commit, time_ms: 0, end });
    }
    if !pages.is_empty() {
        return Err(keeper.unreadable("its last transaction has no end".to_owned()));
    }
    Ok((found, checksum))
}
