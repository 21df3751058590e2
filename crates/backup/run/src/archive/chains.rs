//! The chains of an archive by their headers, read once: where they are, and where times lie.
//!
//! Nothing is verified.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tdekit_backup_media::{Base, Lineage, ShippedBehind};

use super::judge::Judged;
use super::lineage::lineage_of;
use super::read::Archive;
use crate::error::ArchiveError;
use crate::{SetInfo, SetKind};

/// The database of a set, as its header has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) host: String,
    pub(super) path: String,
}

/// Number and set id of a full set.
type Link = (u64, [u8; 16]);

/// Objects of one chain that stand one behind the other: a full set and the log sets that name it,
/// or log sets whose full set is not there.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    /// Number of its first object that is here.
    pub(super) number: u64,
    pub(super) last: u64,
    /// Number of the objects that are here.
    pub(super) objects: usize,
    /// The database of the last one.
    pub(super) source: Source,
    pub(super) lineage: Lineage,
    pub(super) is_full: bool,
    /// The object behind which the full set was shipped.
    pub(super) behind: Option<ShippedBehind>,
    /// The full set of the chain.
    pub(super) link: Link,
    /// Times of the first object that is here and of the last, milliseconds since 1970.
    begun_ms: i64,
    pub(super) last_ms: i64,
}

/// A chain, and the time from which it counts.
#[derive(Clone, Copy)]
struct Dated {
    begun_ms: i64,
    link: Link,
}

/// The chains.
#[derive(Default)]
pub(super) struct Chains {
    pub(super) judged: Judged,
    /// The last stretch that is of the archive.
    pub(super) last: Option<Stretch>,
    /// By the numbers of their first objects; `None` for those that are foreign.
    dated: BTreeMap<u64, Option<Dated>>,
    /// Numbers of the full sets in whose place log sets behind them name another one.
    contested: BTreeSet<u64>,
}

impl Source {
    pub(super) fn of(info: &SetInfo) -> Self {
        Self { host: info.host.clone(), path: info.path.clone() }
    }
}

impl Chains {
    /// Returns why the chain that begins with an object is none of this archive.
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
            let stretches = self.scan();
            let judged = self.judge(&stretches);
            let is_foreign = |it: &Stretch| judged.foreign.contains_key(&it.number);
            let fulls: Vec<_> =
                stretches.iter().filter(|it| it.is_full).map(|it| it.number).collect();
            let has_full = |it: &Stretch| fulls.iter().any(|at| (it.link.0..=it.last).contains(at));
            let lone = stretches.iter().filter(|it| !it.is_full);
            let contesting = lone.filter(|it| has_full(it) && !is_foreign(it));
            let contested = contesting.map(|it| it.link.0).collect();
            // Log sets in whose place a full set is have no say in what times are there.
            let dated = stretches.iter().filter(|it| it.is_full || !has_full(it)).map(|it| {
                let dated = Dated { begun_ms: it.begun_ms, link: it.link };
                (it.number, (!is_foreign(it)).then_some(dated))
            });
            let dated = dated.collect();
            let last = stretches.iter().rev().find(|it| !is_foreign(it)).cloned();
            Chains { judged, last, dated, contested }
        })
    }

    /// Returns true for an object that is none of this archive's, as far as headers show.
    #[must_use]
    pub fn is_foreign(&self, number: u64) -> bool {
        let chains = self.by_headers();
        let Some(info) = self.header(number) else { return false };
        if !chains.judged.has(&lineage_of(&info)) || chains.judged.branch.fault(number).is_some() {
            return true;
        }
        let is_wrong = |first| chains.foreign(first).is_some() || self.is_outvoted(first);
        let Some((first, chain)) = self.link_at(number) else { return is_wrong(number) };
        // Log sets that name another full set are foreign, or the full set is.
        let full = self.header(first).filter(|full| full.kind == SetKind::Full);
        full.is_some_and(|full| is_wrong(first) == (full.set_id == chain))
    }

    /// Returns why it is not known of which database the archive is, whose chains are of several:
    /// headers alone show another one than a record does that names another archive.
    #[must_use]
    pub fn doubt(&self) -> Option<&str> {
        self.by_headers().judged.doubt.as_deref()
    }

    /// Returns the lineage of the archive; `None` where no header can be read.
    pub(super) fn lineage(&self) -> Option<Lineage> {
        self.by_headers().judged.lineage.clone()
    }

    /// Returns lineage and number of the last object that is of the archive.
    pub(super) fn end(&self) -> (Option<Lineage>, Option<u64>) {
        let last = self.by_headers().last.as_ref();
        (last.map(|last| last.lineage.clone()), last.map(|last| last.last))
    }

    /// Returns how a full set names an object behind which it is shipped; `None` for one that
    /// cannot be read.
    pub(super) fn behind(&self, number: u64) -> Option<ShippedBehind> {
        let media = self.media(number).ok()?;
        let info = media.only_info().ok()?;
        let set = Base { set_id: info.set_id, trailer_sha256: media.only_digest().ok()? };
        let first = match self.link_at(number) {
            None => number,
            Some((first, chain)) => {
                self.header(first).filter(|full| is_full(full, chain)).map_or(0, |_| first)
            }
        };
        Some(ShippedBehind { number, first, set })
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
    /// object too. Returns the chains, the oldest first.
    fn scan(&self) -> Vec<Stretch> {
        let (mut found, mut below) = (Vec::<Stretch>::new(), u64::MAX);
        while let Some((number, _)) = self.objects.range(..below).next_back() {
            let number = *number;
            below = number;
            let Some(info) = self.header(number) else { continue };
            match info.log {
                None if info.kind == SetKind::Full && is_at(&info, number) => {
                    found.push(self.stretch((number, &info), (number, &info)));
                }
                Some(link) if link.number == number && link.first < number => {
                    let own = (link.first, link.chain);
                    let full = self.header(link.first).filter(|full| is_full(full, link.chain));
                    if let Some(full) = full {
                        found.push(self.stretch((link.first, &full), (number, &info)));
                        below = link.first;
                        continue;
                    }
                    let lowest = self.objects.range(link.first.saturating_add(1)..number).next();
                    let lowest = lowest.map(|(lowest, _)| *lowest);
                    let lowest = lowest.filter(|lowest| self.link_at(*lowest) == Some(own));
                    if lowest.is_some() {
                        below = link.first.saturating_add(1);
                    }
                    let first = lowest.unwrap_or(number);
                    let header = lowest.and_then(|first| self.header(first));
                    let header = header.as_ref().unwrap_or(&info);
                    match found.last_mut().filter(|it| !it.is_full && it.link == own) {
                        Some(behind) => {
                            let last = behind.last;
                            (behind.number, behind.begun_ms) = (first, header.begun_ms);
                            behind.objects = self.objects.range(first..=last).count();
                        }
                        None => found.push(self.stretch((first, header), (number, &info))),
                    }
                }
                _ => {}
            }
        }
        found.reverse();
        found
    }

    fn stretch(&self, first: (u64, &SetInfo), last: (u64, &SetInfo)) -> Stretch {
        let ((number, first), (last, info)) = (first, last);
        let is_full = first.kind == SetKind::Full;
        let full = first.archive.as_ref().and_then(|archive| archive.full);
        let named = info.log.map(|link| (link.first, link.chain));
        Stretch {
            number,
            last,
            objects: self.objects.range(number..=last).count(),
            source: Source::of(info),
            lineage: lineage_of(first),
            is_full,
            behind: full.and_then(|full| full.behind),
            link: named.filter(|_| !is_full).unwrap_or((number, first.set_id)),
            begun_ms: first.begun_ms,
            last_ms: info.begun_ms,
        }
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

/// Returns false for a full set that belongs to the place of another object.
fn is_at(info: &SetInfo, number: u64) -> bool {
    let place = info.archive.as_ref().and_then(|archive| archive.full);
    place.is_none_or(|place| place.number == number)
}

fn is_full(info: &SetInfo, set_id: [u8; 16]) -> bool {
    info.kind == SetKind::Full && info.set_id == set_id
}
