//! The chains of an archive by their headers, read once: which of them are of another database than
//! the rest, and where times lie.
//!
//! Nothing is verified. A chain of another database has log sets of its own, so that only what is
//! beside it shows that it is foreign: the reason for which a chain of the next database begins.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::read::Archive;
use super::verify::RecordedFull;
use crate::error::ArchiveError;
use crate::error::archive::{LAST_GONE, MOVED, NO_RECORD};
use crate::{SetInfo, SetKind};

/// The database of a set, as its header has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    id: [u8; 16],
    host: String,
    path: String,
}

/// A full set that stands in the archive.
#[derive(Debug, Clone)]
struct FullSet {
    number: u64,
    set_id: [u8; 16],
    begun_ms: i64,
    source: Source,
    /// The database of the last log set of its chain: it may have moved meanwhile.
    last_source: Option<Source>,
    /// Why the chain was begun.
    why: String,
    /// True if objects are missing, or a chain without its full set is, between it and the full set
    /// before: the reason why the next database follows may be gone.
    is_behind_gap: bool,
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

/// The chains.
#[derive(Default)]
pub(super) struct Chains {
    /// Why full sets are none of this archive, by their numbers.
    foreign: BTreeMap<u64, ArchiveError>,
    /// By the numbers of their first objects; `None` for those that are foreign.
    dated: BTreeMap<u64, Option<Dated>>,
    /// Number of the full set that the record beside the database names.
    recorded: Option<u64>,
}

impl Source {
    fn of(info: &SetInfo) -> Self {
        let SetInfo { database_id, host, path, .. } = info;
        Self { id: *database_id, host: host.clone(), path: path.clone() }
    }
}

impl Chains {
    /// Returns why the full set at a number is none of this archive.
    pub(super) fn foreign(&self, number: u64) -> Option<&ArchiveError> {
        self.foreign.get(&number)
    }

    /// Returns the number of the full set that the record beside the database names, if it is here.
    pub(super) fn recorded(&self) -> Option<u64> {
        self.recorded
    }
}

impl Archive {
    /// Returns the chains by their headers. What cannot be read is passed over.
    pub(super) fn by_headers(&self) -> &Chains {
        self.chains.get_or_init(|| {
            let (mut fulls, mut remnants) = self.scan();
            let firsts: Vec<_> = fulls.iter().map(|full| full.number).collect();
            remnants.retain(|of| !firsts.iter().any(|it| (of.link.0..=of.last).contains(it)));
            self.note_gaps(&mut fulls, &remnants);
            let all: Vec<_> = fulls.iter().map(|it| (it.number, it.set_id, it.begun_ms)).collect();
            let (foreign, recorded) = self.judge(fulls);
            let of_full = |(number, set_id, begun_ms)| {
                let dated = Dated { begun_ms, link: (number, set_id) };
                (number, (!foreign.contains_key(&number)).then_some(dated))
            };
            let mut dated: BTreeMap<_, _> = all.into_iter().map(of_full).collect();
            let of_remnant =
                |it: &Remnant| (it.number, Some(Dated { begun_ms: it.begun_ms, link: it.link }));
            dated.extend(remnants.iter().map(of_remnant));
            Chains { foreign, dated, recorded }
        })
    }

    /// Returns true for an object of a chain of another database.
    pub(crate) fn is_foreign(&self, number: u64) -> bool {
        let first = self.link_at(number).map_or(number, |(first, _)| first);
        self.by_headers().foreign(first).is_some()
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
    fn scan(&self) -> (Vec<FullSet>, Vec<Remnant>) {
        let (mut fulls, mut remnants) = (Vec::new(), Vec::<Remnant>::new());
        let mut ends = BTreeMap::<Link, Source>::new();
        let mut below = u64::MAX;
        while let Some((number, _)) = self.objects.range(..below).next_back() {
            let number = *number;
            below = number;
            let Some(info) = self.header(number) else { continue };
            match info.log {
                None if info.kind == SetKind::Full => fulls.push(FullSet {
                    number,
                    set_id: info.set_id,
                    begun_ms: info.begun_ms,
                    source: Source::of(&info),
                    last_source: ends.remove(&(number, info.set_id)),
                    why: info.description,
                    is_behind_gap: false,
                }),
                Some(link) if link.number == number && link.first < number => {
                    let own = (link.first, link.chain);
                    ends.entry(own).or_insert_with(|| Source::of(&info));
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
                        add_remnant(&mut remnants, (first, number), own, self, info.begun_ms);
                    }
                }
                _ => {}
            }
        }
        fulls.reverse();
        (fulls, remnants)
    }

    fn note_gaps(&self, fulls: &mut [FullSet], remnants: &[Remnant]) {
        let mut before = None;
        for full in fulls {
            if let Some(before) = before.replace(full.number) {
                let places = full.number - before;
                let there = self.objects.range(before..full.number).count();
                let is_between = |of: &Remnant| (before..full.number).contains(&of.number);
                full.is_behind_gap =
                    usize::try_from(places).ok() != Some(there) || remnants.iter().any(is_between);
            }
        }
    }

    /// Returns why full sets are foreign, by their numbers, and the number of the one that the
    /// record beside the database names.
    fn judge(&self, mut fulls: Vec<FullSet>) -> (BTreeMap<u64, ArchiveError>, Option<u64>) {
        let mut foreign = BTreeMap::new();
        let mut named = None;
        if let Some(RecordedFull { number, set_id, record, is_of_place }) = self.recorded_full()
            && let Some(full) = fulls.iter().find(|full| full.number == number)
        {
            if hex::encode(full.set_id) == set_id {
                // A foreign chain may be a copy of one that the record of its database names.
                named = is_of_place.then_some(number);
            } else {
                let reason = format!("is not the full set that {record} says was shipped");
                let object = self.object(number);
                foreign.insert(number, ArchiveError::Misplaced { object, reason });
                fulls.retain(|full| full.number != number);
            }
        }
        for (at, beside) in Line::of(&fulls, named).judge() {
            let (Some(full), Some(other)) = (fulls.get(at), fulls.get(beside)) else { continue };
            let (of, host) = (&full.source.path, &full.source.host);
            let those = if other.number < full.number { "before" } else { "behind" };
            let Source { path, host: other, .. } = &other.source;
            let reason =
                format!("is of database {of} on {host}, and those {those} it of {path} on {other}");
            let object = self.object(full.number);
            foreign.insert(full.number, ArchiveError::Misplaced { object, reason });
        }
        (foreign, named)
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

/// Adds log sets, of which the last one begins at `begun_ms`.
fn add_remnant(
    remnants: &mut Vec<Remnant>,
    (first, last): (u64, u64),
    link: Link,
    archive: &Archive,
    begun_ms: i64,
) {
    let begun_ms = match first == last {
        true => begun_ms,
        false => archive.header(first).map_or(begun_ms, |info| info.begun_ms),
    };
    match remnants.last_mut().filter(|remnant| remnant.link == link) {
        Some(remnant) => (remnant.number, remnant.begun_ms) = (first, begun_ms),
        None => remnants.push(Remnant { number: first, last, link, begun_ms }),
    }
}

/// Chains of one database, one behind the other.
#[derive(Clone)]
struct Segment {
    /// Stands for the database.
    database: usize,
    /// Places of its chains in the list.
    chains: Range<usize>,
    /// True if another database may begin here.
    is_taken_over: bool,
}

/// The segments of an archive.
struct Line {
    segments: Vec<Segment>,
    /// Number of chains of each database.
    counts: BTreeMap<usize, usize>,
    /// The database that the record beside it shows.
    own: Option<usize>,
}

impl Line {
    /// Takes full sets, and the number of the one that the record beside the database names.
    fn of(fulls: &[FullSet], named: Option<u64>) -> Self {
        let databases = databases(fulls);
        let (mut segments, mut counts) = (Vec::<Segment>::new(), BTreeMap::new());
        let mut own = None;
        for ((at, full), database) in fulls.iter().enumerate().zip(databases) {
            *counts.entry(database).or_insert(0) += 1;
            if named == Some(full.number) {
                own = Some(database);
            }
            match segments.last_mut().filter(|segment| segment.database == database) {
                Some(segment) => segment.chains.end = at + 1,
                None => {
                    let is_taken_over = full.is_behind_gap || takes_over(&full.why);
                    segments.push(Segment { database, chains: at..at + 1, is_taken_over });
                }
            }
        }
        Self { segments, counts, own }
    }

    /// Returns the places of the chains that are foreign, each with that of one beside it.
    fn judge(&self) -> Vec<(usize, usize)> {
        let (mut line, mut foreign) = (Vec::<&Segment>::new(), Vec::<&Segment>::new());
        for (at, segment) in self.segments.iter().enumerate() {
            if line.is_empty() || segment.is_taken_over {
                line.push(segment);
                continue;
            }
            // It goes on behind a chain of its own database.
            if let Some(at) = line.iter().rposition(|it| it.database == segment.database) {
                let between = line.drain(at + 1..);
                let (kept, others): (Vec<_>, Vec<_>) =
                    between.partition(|it| Some(it.database) == self.own);
                foreign.extend(others);
                line.extend(kept);
                line.push(segment);
            } else if self.counts_more(segment, &line) && !self.goes_on_behind(at, &line) {
                // Chains of its database were compared with those that are foreign now.
                foreign.retain(|it| it.database != segment.database);
                foreign.append(&mut line);
                line.push(segment);
            } else {
                foreign.push(segment);
            }
        }
        let beside = |of: &Segment| {
            let before = line.iter().rev().find(|it| it.chains.end <= of.chains.start);
            let behind = line.iter().find(|it| it.chains.start >= of.chains.end);
            let before = before.map(|it| it.chains.end - 1);
            before.or(behind.map(|it| it.chains.start))
        };
        let foreign = foreign.into_iter().filter_map(|of| Some((of, beside(of)?)));
        foreign.flat_map(|(of, beside)| of.chains.clone().map(move |at| (at, beside))).collect()
    }

    /// Returns true if a database of a line goes on behind a segment without a reason: between its
    /// chains, the number of others does not count, but the record does.
    fn goes_on_behind(&self, at: usize, line: &[&Segment]) -> bool {
        let is_own = |of: &Segment| Some(of.database) == self.own;
        let mut behind = self.segments.iter().skip(at + 1).filter(|it| !it.is_taken_over);
        behind.any(|it| line.iter().any(|of| of.database == it.database))
            && !self.segments.get(at).is_some_and(is_own)
    }

    /// Returns true if more chains are of a segment's database than of those before it. The
    /// database of the record counts more than all others.
    fn counts_more(&self, segment: &Segment, line: &[&Segment]) -> bool {
        let before: BTreeSet<usize> = line.iter().map(|it| it.database).collect();
        if let Some(own) = self.own
            && (own == segment.database || before.contains(&own))
        {
            return own == segment.database;
        }
        let count = |database: &usize| self.counts.get(database).copied().unwrap_or(0);
        count(&segment.database) > before.iter().map(count).sum()
    }
}

/// Returns true if another database may begin a chain for this reason. An older version gave none.
fn takes_over(why: &str) -> bool {
    [NO_RECORD, LAST_GONE, ""].contains(&why) || why.ends_with(MOVED)
}

/// Returns a number for each full set that stands for its database: sets with one id of an
/// encrypted database are of one, and those with one path on one host.
fn databases(fulls: &[FullSet]) -> Vec<usize> {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Name<'a> {
        Id([u8; 16]),
        Path(&'a str, &'a str),
    }
    let mut known = BTreeMap::<Name<'_>, usize>::new();
    let mut found: Vec<usize> = Vec::with_capacity(fulls.len());
    for (at, full) in fulls.iter().enumerate() {
        let sources = [Some(&full.source), full.last_source.as_ref()];
        let names = sources.into_iter().flatten().flat_map(|Source { id, host, path }| {
            let id = (*id != [0; 16]).then_some(Name::Id(*id));
            id.into_iter().chain([Name::Path(host, path)])
        });
        let mut database = at;
        for name in names {
            let other = *known.entry(name).or_insert(database);
            if other != database {
                // Both names are of one database: the two become one.
                found.iter_mut().chain(known.values_mut()).for_each(|it| {
                    if *it == database {
                        *it = other;
                    }
                });
                database = other;
            }
        }
        found.push(database);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: &str = "the last full set is old";
    const NONE: [u64; 0] = [];

    /// Chains of a path each, which begin for a reason each.
    fn fulls(chains: &[(&str, &str)]) -> Vec<FullSet> {
        let full = |(number, (path, why)): (u64, &(&str, &str))| FullSet {
            number,
            set_id: [7; 16],
            begun_ms: 0,
            source: source([0; 16], path),
            last_source: None,
            why: (*why).to_owned(),
            is_behind_gap: false,
        };
        (1..).zip(chains).map(full).collect()
    }

    fn source(id: [u8; 16], path: &str) -> Source {
        Source { id, host: "host".to_owned(), path: path.to_owned() }
    }

    /// Returns the numbers of the chains that are foreign.
    fn foreign(fulls: &[FullSet], named: Option<u64>) -> Vec<u64> {
        let judged = Line::of(fulls, named).judge();
        let mut found: Vec<_> = judged.iter().map(|(at, _)| fulls[*at].number).collect();
        found.sort_unstable();
        found
    }

    fn of(chains: &[(&str, &str)], named: Option<u64>) -> Vec<u64> {
        foreign(&fulls(chains), named)
    }

    #[test]
    fn a_chain_of_another_database_needs_a_reason() {
        let first = ("a", "the archive is empty");
        let (a, b) = (("a", AGE), ("b", AGE));
        assert_eq!(of(&[first, a, a], None), NONE);
        assert_eq!(of(&[first, b, a], None), [2]);
        assert_eq!(of(&[first, b, b, b, a], None), [2, 3, 4]);
        assert_eq!(of(&[("b", "the archive is empty"), a, a], None), [1]);
        assert_eq!(of(&[first, a, b], None), [3]);
        // The newer one, where both have as many.
        assert_eq!(of(&[first, b], None), [2]);
        assert_eq!(of(&[first, b, a, ("c", AGE), a], None), [2, 4]);
        assert_eq!(of(&[first, b, ("c", AGE), a], None), [2, 3]);
        let of_two = [("b", "the archive is empty"), a, b, a, a];
        assert_eq!(of(&of_two, None), [1, 3]);
    }

    #[test]
    fn a_reason_of_a_take_over_holds_unless_the_first_database_goes_on_without_one() {
        let (first, a, b) = (("a", "the archive is empty"), ("a", AGE), ("b", AGE));
        let moved = format!("the database changed{MOVED}");
        for why in [NO_RECORD, LAST_GONE, "", &moved] {
            assert_eq!(of(&[first, ("b", why), b], None), NONE, "{why}");
            assert_eq!(of(&[first, ("b", why), b, ("a", why), a], None), NONE, "{why}");
            assert_eq!(of(&[first, ("b", why), b, a], None), [2, 3], "{why}");
        }
        // With the database that took it over, more chains stand against a third one.
        let third = [first, ("b", NO_RECORD), ("c", AGE), ("c", AGE)];
        assert_eq!(of(&third, None), [3, 4]);
    }

    #[test]
    fn the_record_counts_more_than_numbers() {
        let (first, a, b) = (("a", "the archive is empty"), ("a", AGE), ("b", AGE));
        assert_eq!(of(&[first, a, b], Some(3)), [1, 2]);
        assert_eq!(of(&[("b", AGE), a], Some(2)), [1]);
        assert_eq!(of(&[first, b, b, b], Some(1)), [2, 3, 4]);
        assert_eq!(of(&[first, b, a], Some(2)), [1, 3]);
    }

    #[test]
    fn behind_a_gap_nothing_shows_that_a_chain_is_foreign() {
        let (first, a, b) = (("a", "the archive is empty"), ("a", AGE), ("b", AGE));
        let mut all = fulls(&[first, b, a]);
        all[1].is_behind_gap = true;
        assert_eq!(foreign(&all, None), [2]);
        all[2].is_behind_gap = true;
        assert_eq!(foreign(&all, None), NONE);
    }

    #[test]
    fn a_database_keeps_its_id_and_is_followed_where_its_chain_goes_on() {
        let mut all = fulls(&[("a", "the archive is empty"), ("b", AGE), ("b", AGE), ("c", AGE)]);
        assert_eq!(foreign(&all, None), [1, 4]);
        // The first chain goes on under another path, and the fourth has an id.
        all[0].last_source = Some(source([0; 16], "b"));
        assert_eq!(foreign(&all, None), [4]);
        all[2].last_source = Some(source([9; 16], "d"));
        all[3].source.id = [9; 16];
        assert_eq!(foreign(&all, None), NONE);
    }
}
