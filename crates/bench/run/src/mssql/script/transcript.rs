//! The findings of a script, from its records: complete, in order, and of one run.

use std::collections::{BTreeMap, BTreeSet};

use super::super::server::Used;
use super::read::Fault;
use super::record::Record;
use super::{kind, name};

/// Nanoseconds of the units of sessions, statements and clocks.
const SESSION_NS: u64 = 1_000_000;
const STATEMENT_NS: u64 = 1_000;

/// The session's counters at a moment, and the clock.
#[derive(Debug, Clone, Copy)]
struct Mark {
    used: Used,
    clock_us: u64,
}

/// A statement's counters up to then, and its number of executions.
#[derive(Debug, Clone, Copy)]
struct Count {
    used: Used,
    executions: u64,
}

/// A block, with the records around each of its statements.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) line: usize,
    pub(super) cell: String,
    pub(super) side: String,
    pub(super) restart: u32,
    pub(super) pair: u32,
    pub(super) position: u32,
    marks: Vec<Mark>,
    /// Before and after, by statement.
    counts: [Vec<Count>; 2],
}

/// The findings of a script.
#[derive(Debug)]
pub(super) struct Transcript {
    pub(super) options: Vec<(String, String)>,
    pub(super) facts: BTreeMap<String, String>,
    /// Numbers of the errors by which permissions were refused; 0 if granted.
    pub(super) rights: BTreeMap<String, u64>,
    pub(super) pages: u64,
    pub(super) blocks: Vec<Found>,
    /// Things that remain on the server, and how each is removed.
    pub(super) left: Vec<(String, String)>,
    /// Where the script stopped before it was finished.
    pub(super) stopped: Option<String>,
    /// The first and the last reading of the clock, microseconds since 2020.
    pub(super) clock_us: Option<(u64, u64)>,
}

impl Transcript {
    pub(super) fn of(records: &[Record]) -> Result<Self, Fault> {
        let end = ended(records)?;
        let rights = rights(records)?;
        let refused = rights.get(name::COLD).is_some_and(|error| *error > 0);
        in_order(records, &end, refused)?;
        let mut found = Self {
            options: Vec::new(),
            facts: BTreeMap::new(),
            rights,
            pages: 0,
            blocks: Vec::new(),
            left: Vec::new(),
            stopped: None,
            clock_us: None,
        };
        let begun = found.take(records)?;
        let wanted = end.blocks - if refused { end.cold } else { 0 };
        if end.whole && begun != wanted {
            let reason = format!("{begun} of {wanted} blocks are in the output");
            return Err(Fault::whole(reason));
        }
        if !end.whole {
            found.stopped = Some(stopped(records));
        }
        Ok(found)
    }

    /// Takes all records; returns the number of blocks that were begun.
    fn take(&mut self, records: &[Record]) -> Result<u64, Fault> {
        let mut begun = 0;
        let mut rest = records;
        while let Some((record, behind)) = rest.split_first() {
            rest = behind;
            let wrong = || Fault::at(record.line, "the script writes no such record");
            match record.kind.as_str() {
                kind::OPTION => {
                    let [name, value] = record.words().ok_or_else(wrong)?;
                    let value = value.strip_prefix('=').ok_or_else(wrong)?.to_owned();
                    self.options.push((name, value));
                }
                kind::FACT => {
                    let [name, value] = record.words().ok_or_else(wrong)?;
                    self.facts.insert(name, value);
                }
                kind::PAGES => [self.pages] = record.numbers().ok_or_else(wrong)?,
                kind::BLOCK => {
                    begun += 1;
                    let block = block(record, behind)?;
                    let Some((block, taken)) = block else { continue };
                    rest = behind.get(taken..).unwrap_or_default();
                    self.look(&block);
                    self.blocks.push(block);
                }
                kind::LEFT => {
                    let [what, how, remains] = record.words().ok_or_else(wrong)?;
                    self.left.extend((remains != "0").then_some((what, how)));
                }
                // Those of an unfinished block.
                kind::MARK | kind::COUNT if begun > 0 => {}
                kind::MAY | kind::END => {}
                _ => return Err(wrong()),
            }
        }
        Ok(begun)
    }

    fn look(&mut self, block: &Found) {
        for mark in &block.marks {
            let (first, last) = self.clock_us.unwrap_or((mark.clock_us, mark.clock_us));
            self.clock_us = Some((first.min(mark.clock_us), last.max(mark.clock_us)));
        }
    }
}

/// Contents of the last record.
struct End {
    whole: bool,
    blocks: u64,
    cold: u64,
    /// The last step of the measuring.
    measured: u64,
}

fn ended(records: &[Record]) -> Result<End, Fault> {
    let Some(last) = records.last() else {
        return Err(Fault::whole("no record of a script is in it"));
    };
    if last.kind != kind::END {
        let reason = "the end of the script's output is missing: it was cut, or the script was \
                      ended before it could drop what it made";
        return Err(Fault::whole(reason));
    }
    match last.numbers() {
        Some([whole, blocks, cold, measured, step])
            if cold <= blocks && measured < step && step == last.step =>
        {
            Ok(End { whole: whole == 1, blocks, cold, measured })
        }
        _ => Err(Fault::at(last.line, "the script writes no such record")),
    }
}

fn rights(records: &[Record]) -> Result<BTreeMap<String, u64>, Fault> {
    let of = |record: &Record| {
        let wrong = || Fault::at(record.line, "the script writes no such record");
        let [name, error] = record.words().ok_or_else(wrong)?;
        Ok((name, error.parse().map_err(|_| wrong())?))
    };
    records.iter().filter(|record| record.kind == kind::MAY).map(of).collect()
}

/// Checks that steps are consecutive, except for those that the script left out: cold blocks if
/// buffers may not be cleared, and after a failure all up to the end.
fn in_order(records: &[Record], end: &End, refused: bool) -> Result<(), Fault> {
    let session = records.first().map(|record| record.session);
    let mut last = (0, "");
    for record in records {
        let kind = record.kind.as_str();
        let fault = |reason: &str| Err(Fault::at(record.line, reason));
        if Some(record.session) != session {
            return fault("this record is of another run: a file holds the output of one");
        }
        let again = kind == kind::COUNT && last.1 == kind::COUNT && record.step == last.0;
        let after_failure = !end.whole && kind == kind::LEFT && record.step == end.measured + 1;
        let after_cold = refused && matches!(kind, kind::BLOCK | kind::LEFT);
        match record.step {
            step if step == last.0 + 1 || again => {}
            step if step <= last.0 => return fault("this record is out of its order, or is twice"),
            _ if after_failure || after_cold => {}
            _ => return fault("records before this one are missing"),
        }
        last = (record.step, kind);
    }
    Ok(())
}

/// Returns a block, and the number of the following records that belong to it; none if it was not
/// finished.
fn block(record: &Record, behind: &[Record]) -> Result<Option<(Found, usize)>, Fault> {
    let wrong = || Fault::at(record.line, "the script writes no such record");
    let [cell, side, restart, pair, position, following] = record.words().ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let last = record.step + u64::from(number(&following)?);
    let own = behind.iter().take_while(|next| next.step <= last && next.kind != kind::BLOCK);
    let own: Vec<&Record> = own.collect();
    if own.last().is_none_or(|found| found.step != last) {
        return Ok(None);
    }
    let mut found = Found {
        line: record.line,
        cell,
        side,
        restart: number(&restart)?,
        pair: number(&pair)?,
        position: number(&position)?,
        marks: Vec::new(),
        counts: [Vec::new(), Vec::new()],
    };
    for next in &own {
        let wrong = || Fault::at(next.line, "the script writes no such record");
        match next.kind.as_str() {
            kind::MARK => {
                let [cpu, read, written, fetched, elapsed, clock_us] =
                    next.numbers().ok_or_else(wrong)?;
                let used = Used::counted([cpu, read, written, fetched, elapsed], SESSION_NS);
                found.marks.push(Mark { used, clock_us });
            }
            kind::COUNT => {
                let [index, executions, cpu, read, written, fetched, elapsed] =
                    next.numbers().ok_or_else(wrong)?;
                let used = Used::counted([cpu, read, written, fetched, elapsed], STATEMENT_NS);
                let place = &mut found.counts[usize::from(next.step == last)];
                if index != place.len() as u64 {
                    return Err(wrong());
                }
                place.push(Count { used, executions });
            }
            _ => return Err(wrong()),
        }
    }
    Ok(Some((found, own.len())))
}

/// Returns where a script stopped.
fn stopped(records: &[Record]) -> String {
    let blocks = records.iter().filter(|record| record.kind == kind::BLOCK);
    let last = blocks.filter_map(|record| Some((record, record.words::<6>()?))).next_back();
    match last {
        None => "the script stopped before its first block; the server's message stands in its \
                 output"
            .to_owned(),
        Some((record, [cell, side, ..])) => format!(
            "the script stopped in or behind {cell} on {side} (line {} of its output); the \
             server's message stands there",
            record.line
        ),
    }
}

impl Found {
    /// Returns the cost of each of this many statements: by its text, if the server counts it so,
    /// else by the session; and the time between the readings around it.
    pub(super) fn costs(
        &self,
        statements: usize,
        by_text: bool,
    ) -> Result<Vec<(Option<Used>, u64)>, Fault> {
        let [before, after] = &self.counts;
        let counted = before.len() == statements && after.len() == statements;
        if self.marks.len() != 2 * statements || (by_text && !counted) {
            return Err(Fault::at(self.line, "the block has another number of statements"));
        }
        let between = |pair: &[Mark]| {
            let [first, last] = pair else { return (None, 0) };
            let ns = last.clock_us.saturating_sub(first.clock_us).saturating_mul(1_000);
            (Some(last.used.since(&first.used)), ns)
        };
        let mut costs: Vec<(Option<Used>, u64)> = self.marks.chunks(2).map(between).collect();
        if by_text {
            for ((cost, _), (before, after)) in costs.iter_mut().zip(before.iter().zip(after)) {
                // A plan that the server has since discarded has no counters.
                let ran = after.executions > before.executions;
                *cost = ran.then(|| after.used.since(&before.used));
            }
        }
        Ok(costs)
    }
}

/// Checks that no block occurs twice.
pub(super) fn each_once(blocks: &[Found]) -> Result<(), Fault> {
    let mut known = BTreeSet::new();
    for block in blocks {
        if !known.insert((&block.cell, &block.side, block.restart, block.pair)) {
            return Err(Fault::at(block.line, "this block is in the output twice"));
        }
    }
    Ok(())
}
