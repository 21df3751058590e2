//! Chains one behind the other: which of them are of another database than the rest, and which are
//! dated against their order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::SetInfo;
use crate::error::archive::{FIRST, LAST_GONE, MOVED, NO_RECORD};

/// The database of a set, as its header has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) id: [u8; 16],
    pub(super) host: String,
    pub(super) path: String,
}

/// The name of a database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Id([u8; 16]),
    Path(String, String),
}

/// Numbers that stand for databases: sets with one id of an encrypted database are of one, and
/// those with one path on one host.
#[derive(Default)]
pub(super) struct Databases(BTreeMap<Name, usize>);

/// A chain in its place.
pub(super) struct Placed {
    pub(super) database: usize,
    /// True if another database may begin here.
    pub(super) is_taken_over: bool,
}

/// Times of a chain, milliseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct Dates {
    /// The time of its full set.
    pub(super) begun_ms: i64,
    /// The time of its last set.
    pub(super) last_ms: i64,
    /// True if the shipper knew the time of the chain before, and began no earlier.
    pub(super) is_bound: bool,
    /// True if the record beside the database names it.
    pub(super) is_named: bool,
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
pub(super) struct Line {
    segments: Vec<Segment>,
    /// Number of chains of each database.
    counts: BTreeMap<usize, usize>,
    own: Own,
}

/// The database that the record beside it shows as that of the archive.
#[derive(Clone, Copy, Default)]
pub(super) struct Own {
    pub(super) database: Option<usize>,
    /// False if its chains may have been copied from another archive: they are foreign then between
    /// those of another database.
    pub(super) is_sure: bool,
}

impl Source {
    pub(super) fn of(info: &SetInfo) -> Self {
        let SetInfo { database_id, host, path, .. } = info;
        Self { id: *database_id, host: host.clone(), path: path.clone() }
    }

    fn names(&self) -> impl Iterator<Item = Name> {
        let id = (self.id != [0; 16]).then_some(Name::Id(self.id));
        id.into_iter().chain([Name::Path(self.host.clone(), self.path.clone())])
    }
}

impl Databases {
    /// Takes the sources of sets; those in one group are of one database.
    pub(super) fn of(groups: impl IntoIterator<Item = Vec<Source>>) -> Self {
        let mut known = BTreeMap::<Name, usize>::new();
        for (at, group) in groups.into_iter().enumerate() {
            let mut database = at;
            for name in group.iter().flat_map(|source| source.names()) {
                let other = *known.entry(name).or_insert(database);
                if other != database {
                    // Both names are of one database: the two become one.
                    known.values_mut().filter(|it| **it == database).for_each(|it| *it = other);
                    database = other;
                }
            }
        }
        Self(known)
    }

    /// Returns the database of a set; `None` if nothing was known of it.
    pub(super) fn get(&self, source: &Source) -> Option<usize> {
        source.names().find_map(|name| self.0.get(&name).copied())
    }

    /// Returns the database at a path on a host.
    pub(super) fn at(&self, host: &str, path: &str) -> Option<usize> {
        self.0.get(&Name::Path(host.to_owned(), path.to_owned())).copied()
    }
}

impl Line {
    /// Takes chains by their order.
    pub(super) fn of(chains: &[Placed], own: Own) -> Self {
        let (mut segments, mut counts) = (Vec::<Segment>::new(), BTreeMap::new());
        for (at, Placed { database, is_taken_over }) in chains.iter().enumerate() {
            let (database, is_taken_over) = (*database, *is_taken_over);
            *counts.entry(database).or_insert(0) += 1;
            match segments.last_mut().filter(|segment| segment.database == database) {
                Some(segment) => segment.chains.end = at + 1,
                None => segments.push(Segment { database, chains: at..at + 1, is_taken_over }),
            }
        }
        Self { segments, counts, own }
    }

    /// Returns the places of the chains that are foreign, each with that of one beside it.
    pub(super) fn judge(&self) -> Vec<(usize, usize)> {
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
                    between.partition(|it| self.is_surely_own(it));
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
        let mut behind = self.segments.iter().skip(at + 1).filter(|it| !it.is_taken_over);
        behind.any(|it| line.iter().any(|of| of.database == it.database))
            && !self.segments.get(at).is_some_and(|it| self.is_surely_own(it))
    }

    fn is_surely_own(&self, segment: &Segment) -> bool {
        self.own.is_sure && Some(segment.database) == self.own.database
    }

    /// Returns true if more chains are of a segment's database than of those before it. The
    /// database of the record counts more than all others.
    fn counts_more(&self, segment: &Segment, line: &[&Segment]) -> bool {
        let before: BTreeSet<usize> = line.iter().map(|it| it.database).collect();
        if let Some(own) = self.own.database
            && (own == segment.database || before.contains(&own))
        {
            return own == segment.database;
        }
        let count = |database: &usize| self.counts.get(database).copied().unwrap_or(0);
        count(&segment.database) > before.iter().map(count).sum()
    }
}

/// Returns true if another database may begin a chain for this reason. An older version gave none.
pub(super) fn takes_over(why: &str) -> bool {
    [NO_RECORD, LAST_GONE, ""].contains(&why) || why.ends_with(MOVED)
}

/// Returns true if the shipper knew the time of the chain before when it began one for this reason:
/// a chain is dated no earlier then, whatever the clock of the machine does.
pub(super) fn is_bound(why: &str) -> bool {
    let unbound = [NO_RECORD, LAST_GONE, FIRST, ""];
    !unbound.contains(&why.strip_suffix(MOVED).unwrap_or(why))
}

/// Returns the places of chains that are dated against their order, each with that of the one
/// beside it that shows it. Of those that contradict each other, as many stay as agree, first of
/// all the one that the record names, and otherwise the one in front: an older archive's chain is
/// what is found behind a newer one.
pub(super) fn misdated(chains: &[Dates]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut first = 0;
    while first < chains.len() {
        let rest = chains.get(first..).unwrap_or_default();
        let bound = rest.iter().skip(1).take_while(|chain| chain.is_bound).count();
        let run = rest.get(..=bound).unwrap_or_default();
        found.extend(misdated_in(run).into_iter().map(|(at, by)| (first + at, first + by)));
        first += bound + 1;
    }
    found
}

/// Returns the same of chains of which each but the first is bound to the one before.
fn misdated_in(run: &[Dates]) -> Vec<(usize, usize)> {
    if run.windows(2).all(|pair| matches!(pair, [before, behind] if agree(before, behind))) {
        return Vec::new();
    }
    // The most that agree up to each chain, and the one before it of these.
    let mut most = Vec::<(usize, Option<usize>)>::with_capacity(run.len());
    for chain in run {
        let before = run.iter().zip(&most).enumerate().filter(|(_, (it, _))| agree(it, chain));
        let before = before.map(|(at, (_, (count, _)))| (*count, Reverse(at))).max();
        let weight = if chain.is_named { run.len() + 1 } else { 1 };
        let (count, before) = before.map_or((0, None), |(count, Reverse(at))| (count, Some(at)));
        most.push((weight + count, before));
    }
    let last = most.iter().enumerate().map(|(at, (count, _))| (*count, Reverse(at))).max();
    let mut kept = BTreeSet::new();
    let mut next = last.map(|(_, Reverse(at))| at);
    while let Some(at) = next {
        kept.insert(at);
        next = most.get(at).and_then(|(_, before)| *before);
    }
    let others = run.iter().enumerate().filter(|(at, _)| !kept.contains(at));
    let found = others.filter_map(|(at, chain)| {
        let is_against = |by: &usize| {
            run.get(*by).is_some_and(|other| match *by < at {
                true => !agree(other, chain),
                false => !agree(chain, other),
            })
        };
        let mut nearest = kept.range(..at).rev().chain(kept.range(at..)).copied();
        nearest.find(is_against).map(|by| (at, by))
    });
    found.collect()
}

fn agree(before: &Dates, behind: &Dates) -> bool {
    before.last_ms <= behind.begun_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: &str = "the last full set is old";
    const NONE: [usize; 0] = [];

    /// Chains of a path each, which begin for a reason each.
    fn placed(chains: &[(&str, &str)]) -> Vec<Placed> {
        let placed = |(path, why): &(&str, &str)| Placed {
            database: path.as_bytes()[0].into(),
            is_taken_over: takes_over(why),
        };
        chains.iter().map(placed).collect()
    }

    fn source(id: [u8; 16], path: &str) -> Source {
        Source { id, host: "host".to_owned(), path: path.to_owned() }
    }

    /// Returns the numbers of the chains that are foreign, where the record names one.
    fn foreign(chains: &[Placed], named: Option<usize>) -> Vec<usize> {
        judged(chains, named, true)
    }

    fn judged(chains: &[Placed], named: Option<usize>, is_sure: bool) -> Vec<usize> {
        let own = Own { database: named.map(|number| chains[number - 1].database), is_sure };
        let mut found: Vec<_> =
            Line::of(chains, own).judge().into_iter().map(|(at, _)| at + 1).collect();
        found.sort_unstable();
        found
    }

    fn of(chains: &[(&str, &str)], named: Option<usize>) -> Vec<usize> {
        foreign(&placed(chains), named)
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
        assert_eq!(of(&[first, ("b", NO_RECORD), a], Some(2)), NONE);
    }

    #[test]
    fn a_record_of_another_archive_does_not_count_between_chains_of_another_database() {
        let (first, a, b) = (("a", "the archive is empty"), ("a", AGE), ("b", AGE));
        let of = |chains: &[_], named| judged(&placed(chains), Some(named), false);
        assert_eq!(of(&[first, a, b], 3), [1, 2]);
        assert_eq!(of(&[first, ("b", NO_RECORD), b], 3), NONE);
        assert_eq!(of(&[first, b, a], 2), [2]);
        assert_eq!(of(&[first, ("b", NO_RECORD), a], 2), [2]);
    }

    #[test]
    fn behind_a_gap_nothing_shows_that_a_chain_is_foreign() {
        let (first, a, b) = (("a", "the archive is empty"), ("a", AGE), ("b", AGE));
        let mut all = placed(&[first, b, a]);
        all[1].is_taken_over = true;
        assert_eq!(foreign(&all, None), [2]);
        all[2].is_taken_over = true;
        assert_eq!(foreign(&all, None), NONE);
    }

    #[test]
    fn a_database_keeps_its_id_and_is_followed_where_its_chain_goes_on() {
        let of = |path| source([0; 16], path);
        let (a, b, c) = (of("a"), of("b"), of("c"));
        let (d, e) = (source([9; 16], "d"), source([9; 16], "c"));
        let groups = |of: &[&[&Source]]| {
            let group = |group: &&[&Source]| group.iter().map(|it| (*it).clone()).collect();
            of.iter().map(group).collect::<Vec<_>>()
        };
        let databases = Databases::of(groups(&[&[&a], &[&b], &[&c]]));
        assert_ne!(databases.get(&a), databases.get(&b));
        assert_eq!((databases.at("host", "b"), databases.get(&d)), (databases.get(&b), None));
        // The first chain goes on under another path, another one under an id.
        let databases = Databases::of(groups(&[&[&a, &b], &[&c], &[&b, &d], &[&e]]));
        for source in [&a, &b, &c, &d, &e] {
            assert_eq!(databases.get(source), databases.get(&a), "{source:?}");
        }
    }

    /// Chains by their first and last dates, of which the record may name one.
    fn against(chains: &[(i64, i64)], unbound: &[usize], named: Option<usize>) -> Vec<usize> {
        let dates = |(at, (begun_ms, last_ms)): (usize, &(i64, i64))| Dates {
            begun_ms: *begun_ms,
            last_ms: *last_ms,
            is_bound: !unbound.contains(&at),
            is_named: named == Some(at),
        };
        let chains: Vec<_> = chains.iter().enumerate().map(dates).collect();
        misdated(&chains).into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn a_chain_is_dated_behind_the_one_before_it_unless_nothing_bound_it() {
        let (old, first, middle, last) = ((1, 3), (10, 13), (14, 16), (16, 19));
        assert_eq!(against(&[first, middle, last], &[], None), NONE);
        assert_eq!(against(&[first, old, last], &[], None), [1]);
        assert_eq!(against(&[first, middle, old], &[], None), [2]);
        assert_eq!(against(&[first, old, last], &[1], None), NONE);
        // Behind that one, chains are bound to it.
        assert_eq!(against(&[last, old, first, (4, 5), middle], &[1], None), [3]);
        assert_eq!(against(&[last, old], &[], None), [1]);
        assert_eq!(against(&[last, first, middle], &[], None), [0]);
        // A newer archive's.
        assert_eq!(against(&[first, (30, 33), last], &[], None), [2]);
        assert_eq!(against(&[first, (30, 33), last], &[], Some(2)), [1]);
        assert_eq!(against(&[first, middle, old], &[], Some(2)), [0, 1]);
        // Nothing happened for some time.
        assert_eq!(against(&[(5, 5), (5, 5), (5, 9)], &[], None), NONE);
    }

    #[test]
    fn reasons_that_need_a_record_bind_a_chain() {
        for why in [NO_RECORD, LAST_GONE, "", FIRST] {
            assert!(!is_bound(why) && !is_bound(&format!("{why}{MOVED}")), "{why}");
        }
        assert!(is_bound(AGE) && is_bound(&format!("{AGE}{MOVED}")));
    }
}
