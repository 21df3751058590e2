//! The chains of an archive by their headers, read once: where they are, and where times lie.
//!
//! Nothing is verified. A chain of another database has log sets of its own, so that only what is
//! beside it shows that it is foreign (`judge.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::judge::Judged;
use super::line::Source;
use super::read::Archive;
use crate::error::ArchiveError;
use crate::{SetInfo, SetKind};

/// A full set that stands in the archive.
pub(super) struct FullSet {
    pub(super) number: u64,
    pub(super) begun_ms: i64,
    pub(super) source: Source,
    /// The last log set of its chain: the database may have moved meanwhile.
    pub(super) last: Option<LogSet>,
    /// Log sets before the next full set that name another one in its place, one for each that they
    /// name.
    pub(super) rivals: Vec<LogSet>,
    /// Why the chain was begun.
    pub(super) why: String,
    /// True if objects are missing, or a chain without its full set is, between it and the full set
    /// before: the reason why the next database follows may be gone.
    pub(super) is_behind_gap: bool,
    set_id: [u8; 16],
}

/// A log set.
pub(super) struct LogSet {
    pub(super) source: Source,
    /// Id of the full set that it names.
    pub(super) set_id: [u8; 16],
    number: u64,
    begun_ms: i64,
}

/// Log sets whose full set is missing, or cannot be read.
struct Remnant {
    /// The first of them that is there.
    number: u64,
    last: u64,
    link: Link,
    begun_ms: i64,
}

/// Number and set id of a full set.
type Link = (u64, [u8; 16]);

/// The full set of a chain and the time from which it counts.
#[derive(Clone, Copy)]
struct Dated {
    begun_ms: i64,
    link: Link,
}

/// The headers that were read.
#[derive(Default)]
struct Scan {
    fulls: Vec<FullSet>,
    remnants: Vec<Remnant>,
    /// The databases of all sets, the newest one first.
    seen: Vec<Source>,
    /// The last log sets that name a full set, until it is read.
    ends: BTreeMap<Link, LogSet>,
}

/// The chains.
#[derive(Default)]
pub(super) struct Chains {
    pub(super) judged: Judged,
    /// By the numbers of their first objects; `None` for those that are foreign.
    dated: BTreeMap<u64, Option<Dated>>,
    /// Numbers of the full sets that log sets behind them contest.
    contested: BTreeSet<u64>,
}

impl FullSet {
    /// Returns the time of the last set of its chain.
    pub(super) fn last_ms(&self) -> i64 {
        self.last.as_ref().map_or(self.begun_ms, |last| last.begun_ms.max(self.begun_ms))
    }

    /// Returns the number of the last set of its chain.
    pub(super) fn last_number(&self) -> u64 {
        self.last.as_ref().map_or(self.number, |last| last.number)
    }
}

impl Scan {
    fn note(&mut self, info: &SetInfo) -> Source {
        let source = Source::of(info);
        if !self.seen.contains(&source) {
            self.seen.push(source.clone());
        }
        source
    }

    fn add_full(&mut self, number: u64, info: SetInfo) {
        let source = self.note(&info);
        let next = self.fulls.last().map_or(u64::MAX, |next| next.number);
        let named = (number, [0; 16])..=(number, [u8::MAX; 16]);
        let links: Vec<Link> = self.ends.range(named).map(|(link, _)| *link).collect();
        let ends = links.iter().filter_map(|link| self.ends.remove(link));
        let ends = ends.filter(|end| end.number < next);
        let (last, rivals): (Vec<_>, _) = ends.partition(|end| end.set_id == info.set_id);
        self.fulls.push(FullSet {
            number,
            begun_ms: info.begun_ms,
            source,
            last: last.into_iter().next(),
            rivals,
            why: info.description,
            is_behind_gap: false,
            set_id: info.set_id,
        });
    }

    fn add_log(&mut self, (number, info): (u64, &SetInfo), (first, set_id): Link) {
        let (source, begun_ms) = (self.note(info), info.begun_ms);
        let log = LogSet { source, set_id, number, begun_ms };
        self.ends.entry((first, set_id)).or_insert(log);
    }

    /// Adds log sets, the last one of which begins at `begun_ms`.
    fn add_remnant(&mut self, archive: &Archive, (first, last): (u64, u64), of: (Link, i64)) {
        let (link, begun_ms) = of;
        let begun_ms = match first == last {
            true => begun_ms,
            false => archive.header(first).map_or(begun_ms, |info| info.begun_ms),
        };
        match self.remnants.last_mut().filter(|remnant| remnant.link == link) {
            Some(remnant) => (remnant.number, remnant.begun_ms) = (first, begun_ms),
            None => self.remnants.push(Remnant { number: first, last, link, begun_ms }),
        }
    }
}

impl Chains {
    /// Returns why the full set at a number is none of this archive.
    pub(super) fn foreign(&self, number: u64) -> Option<&ArchiveError> {
        self.judged.foreign.get(&number)
    }

    /// Returns true if log sets behind a full set name another one in its place.
    pub(super) fn is_contested(&self, number: u64) -> bool {
        self.contested.contains(&number)
    }
}

impl Archive {
    /// Returns the chains by their headers. What cannot be read is passed over.
    pub(super) fn by_headers(&self) -> &Chains {
        self.chains.get_or_init(|| {
            let Scan { mut fulls, mut remnants, seen, .. } = self.scan();
            let firsts: Vec<_> = fulls.iter().map(|full| full.number).collect();
            remnants.retain(|of| !firsts.iter().any(|it| (of.link.0..=of.last).contains(it)));
            note_gaps(self, &mut fulls, &remnants);
            let judged = self.judge(&fulls, &seen);
            let of_full = |FullSet { number, set_id, begun_ms, .. }: &FullSet| {
                let dated = Dated { begun_ms: *begun_ms, link: (*number, *set_id) };
                (*number, (!judged.foreign.contains_key(number)).then_some(dated))
            };
            let mut dated: BTreeMap<_, _> = fulls.iter().map(of_full).collect();
            let of_remnant =
                |it: &Remnant| (it.number, Some(Dated { begun_ms: it.begun_ms, link: it.link }));
            dated.extend(remnants.iter().map(of_remnant));
            let contested = fulls.iter().filter(|full| !full.rivals.is_empty());
            let contested = contested.map(|full| full.number).collect();
            Chains { judged, dated, contested }
        })
    }

    /// Returns true for an object of a chain that is none of this archive's, as far as its full set
    /// shows: where log sets name another one, they are foreign, or the full set is.
    #[must_use]
    pub fn is_foreign(&self, number: u64) -> bool {
        let chains = self.by_headers();
        let is_wrong =
            |first| chains.foreign(first).is_some() || chains.judged.outvoted.contains(&first);
        let Some((first, chain)) = self.link_at(number) else { return is_wrong(number) };
        let full = self.header(first).filter(|full| full.kind == SetKind::Full);
        full.is_some_and(|full| is_wrong(first) == (full.set_id == chain))
    }

    /// Returns why it is not known of which database the archive is, whose chains are of several:
    /// headers alone show another one than a record does that names another archive.
    #[must_use]
    pub fn doubt(&self) -> Option<&str> {
        self.by_headers().judged.doubt.as_deref()
    }

    /// Returns the header of an object's set; `None` if it cannot be read.
    pub(super) fn header(&self, number: u64) -> Option<SetInfo> {
        self.media(number).ok()?.only_info().ok().cloned()
    }

    /// Returns the link of a log set that has the number of its place.
    fn link_at(&self, number: u64) -> Option<Link> {
        let link = self.header(number)?.log?;
        (link.number == number).then_some((link.first, link.chain))
    }

    /// Reads the headers from the last one on. Of a chain, those of its last object and of its full
    /// set are read; of one whose full set is not the one that its log sets name, that of its first
    /// object too.
    fn scan(&self) -> Scan {
        let (mut scan, mut below) = (Scan::default(), u64::MAX);
        while let Some((number, _)) = self.objects.range(..below).next_back() {
            let number = *number;
            below = number;
            let Some(info) = self.header(number) else { continue };
            match info.log {
                None if info.kind == SetKind::Full => scan.add_full(number, info),
                Some(link) if link.number == number && link.first < number => {
                    let own = (link.first, link.chain);
                    scan.add_log((number, &info), own);
                    let full = self.header(link.first);
                    if full.as_ref().is_some_and(|full| is_full(full, link.chain)) {
                        below = link.first.saturating_add(1);
                        continue;
                    }
                    // A log set that is foreign names a chain that is not here.
                    let lowest = self.objects.range(link.first.saturating_add(1)..number).next();
                    let lowest = lowest.map(|(lowest, _)| *lowest);
                    let lowest = lowest.filter(|lowest| self.link_at(*lowest) == Some(own));
                    let first = lowest.unwrap_or(number);
                    if lowest.is_some() {
                        below = link.first.saturating_add(1);
                    }
                    if full.is_none() {
                        scan.add_remnant(self, (first, number), (own, info.begun_ms));
                    }
                }
                _ => {}
            }
        }
        scan.fulls.reverse();
        scan
    }

    /// Returns the object that a time is in: the last one that begins by then, of the last chain
    /// that does, by the headers. Dates of foreign chains do not count, nor those of log sets that
    /// do not name the full set before them.
    ///
    /// # Errors
    /// `Misplaced` if all chains that begin by then are foreign; `None` if there are none.
    pub(super) fn at_time(&self, time_ms: i64) -> Result<Option<u64>, crate::RunError> {
        let chains = self.by_headers();
        if chains.dated.is_empty() {
            // Its error says why there is no chain.
            return Ok(self.objects.keys().next_back().copied());
        }
        let mut end = u64::MAX;
        let mut refused = None;
        for (first, dated) in chains.dated.iter().rev() {
            let (first, span) = (*first, *first..end);
            end = first;
            refused = match dated {
                None => chains.foreign(first).cloned().or(refused),
                Some(dated) if dated.begun_ms > time_ms => None,
                Some(dated) => match self.foreign(first) {
                    None => return Ok(Some(self.at_time_in(span, dated.link, time_ms))),
                    foreign => foreign,
                },
            };
        }
        match refused {
            Some(refused) => Err(refused.into()),
            None => Ok(None),
        }
    }

    /// Returns the last object of a chain that begins by a time. One whose header cannot be read,
    /// or is none of the chain's, counts as the one before it: it will be an error.
    fn at_time_in(&self, span: Range<u64>, link: Link, time_ms: i64) -> u64 {
        let first = span.start;
        let numbers: Vec<u64> = self.objects.range(span).map(|(number, _)| *number).collect();
        let begins_by = |number: &u64| {
            let info = self.header(*number)?;
            let log = info.log.filter(|log| log.number == *number)?;
            ((log.first, log.chain) == link).then_some(info.begun_ms <= time_ms)
        };
        // The first object does.
        let (mut low, mut high) = (1, numbers.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let readable = numbers.get(low..=middle).unwrap_or_default().iter().rev();
            match readable.into_iter().find_map(begins_by) {
                Some(false) => high = middle,
                Some(true) | None => low = middle + 1,
            }
        }
        numbers.get(low.saturating_sub(1)).copied().unwrap_or(first)
    }
}

fn is_full(info: &SetInfo, set_id: [u8; 16]) -> bool {
    info.kind == SetKind::Full && info.set_id == set_id
}

/// Notes which full sets objects that are missing, or log sets without one, are in front of.
fn note_gaps(archive: &Archive, fulls: &mut [FullSet], remnants: &[Remnant]) {
    let mut before = None;
    for full in fulls {
        if let Some(before) = before.replace(full.number) {
            let places = full.number - before;
            let there = archive.objects.range(before..full.number).count();
            let is_between = |of: &Remnant| (before..full.number).contains(&of.number);
            full.is_behind_gap =
                usize::try_from(places).ok() != Some(there) || remnants.iter().any(is_between);
        }
    }
}
