//! Which chains of an archive are of another database than the archive, or of another archive of
//! the same one: by their headers, and by records beside databases.

use std::collections::{BTreeMap, BTreeSet};

use super::chains::FullSet;
use super::line::{Databases, Dates, Line, Placed, Source, is_bound, misdated, takes_over};
use super::owner::{Owner, Record};
use super::read::Archive;
use crate::date_of_ms;
use crate::error::ArchiveError;

/// The verdict on the chains, by headers and records.
#[derive(Default)]
pub(super) struct Judged {
    /// Why full sets are none of this archive, by their numbers.
    pub(super) foreign: BTreeMap<u64, ArchiveError>,
    /// Number of the full set that the record of the archive's database names, if it is here.
    pub(super) named: Option<u64>,
    /// Why the archive may be another database's than the records show, or than headers do.
    pub(super) doubt: Option<String>,
    /// Full sets that most log sets behind them contradict, where nothing else shows that they are
    /// foreign.
    pub(super) outvoted: BTreeSet<u64>,
    /// The databases of chains that are foreign.
    others: BTreeSet<usize>,
    homes: Homes,
    databases: Databases,
}

/// The databases of the archive.
#[derive(Default)]
struct Homes {
    /// The one that its record shows, where that is sure.
    own: Option<usize>,
    /// The databases of the chains that stay, by the numbers of their full sets, as far as no log
    /// set contests their places.
    chains: BTreeMap<u64, usize>,
}

/// An archive and its chains, to be judged.
struct Case<'a> {
    archive: &'a Archive,
    fulls: &'a [FullSet],
    databases: &'a Databases,
    records: &'a [Record],
}

/// The chain at the place of a full set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// The full set's, which no log set of another database contests.
    Alone,
    /// The full set's.
    Full,
    /// The one of log sets behind it that name another full set: its place in the list of rivals.
    Rival(usize),
    /// The archive's own, whose record names another full set.
    Recorded,
}

impl Homes {
    /// Returns true for the database of the archive's record; without one, for that of a chain with
    /// another number than `but`.
    fn has(&self, database: Option<usize>, but: u64) -> bool {
        let mut chains = self.chains.iter().filter(|(number, _)| **number != but);
        database.is_some_and(|database| match self.own {
            Some(own) => own == database,
            None => chains.any(|(_, home)| *home == database),
        })
    }
}

impl Judged {
    /// Returns true if a log set behind the full set `first` shows nothing of it: the archive is of
    /// the full set's database, as far as the other chains show, and not of the log set's.
    pub(super) fn is_stranger(&self, first: u64, (full, log): (&Source, &Source)) -> bool {
        let is_home = |source| self.homes.has(self.databases.get(source), first);
        is_home(full) && !is_home(log)
    }
}

impl Archive {
    /// Judges the chains of full sets, the oldest first. `seen` has the databases of all sets that
    /// were read, the newest one first.
    pub(super) fn judge(&self, fulls: &[FullSet], seen: &[Source]) -> Judged {
        let of_full = |full: &FullSet| {
            let last = full.last.as_ref().map(|last| last.source.clone());
            [Some(full.source.clone()), last].into_iter().flatten().collect()
        };
        let alone = seen.iter().map(|source| vec![source.clone()]);
        let databases = Databases::of(fulls.iter().map(of_full).chain(alone));
        let records = self.records(seen, &databases);
        let owner = self.owner(&records);
        let case = Case { archive: self, fulls, databases: &databases, records: &records };
        let mut judged = case.judge(&owner);
        if owner.own.database.is_some() && !owner.own.is_sure {
            let without = case.judge(&Owner::default());
            let is_same = judged.foreign.keys().eq(without.foreign.keys());
            let doubt = if is_same { None } else { case.doubt(&owner) };
            // The archive may be that of a database whose record is gone, or on another machine.
            let is_elsewhere = |of: &usize| records.iter().any(|record| record.database == *of);
            if !judged.others.iter().all(is_elsewhere) {
                judged = without;
            }
            judged.doubt = doubt;
        }
        case.judge_dates(&mut judged);
        judged.databases = databases;
        judged
    }
}

impl Case<'_> {
    fn judge(&self, owner: &Owner) -> Judged {
        let named = owner.first.filter(|_| owner.is_here);
        let mut judged = Judged { named, ..Judged::default() };
        let alone: Vec<_> = self.fulls.iter().map(|full| self.stands_alone(full, owner)).collect();
        judged.homes = self.homes(&alone, owner);
        let mut line = Vec::with_capacity(self.fulls.len());
        for (full, alone) in self.fulls.iter().zip(alone) {
            // Log sets of the same database may be another archive's, or the full set is.
            if alone == Some(Stands::Alone)
                && named != Some(full.number)
                && !full.rivals.is_empty()
                && self.archive.is_outvoted(full.number)
            {
                judged.outvoted.insert(full.number);
            }
            let stands = alone.unwrap_or_else(|| self.contested(full, &mut judged));
            line.push(self.placed(full, stands, owner));
        }
        for (at, beside) in Line::of(&line, owner.own).judge() {
            let (Some(full), Some(other)) = (self.fulls.get(at), self.fulls.get(beside)) else {
                continue;
            };
            let those = if other.number < full.number { "before" } else { "behind" };
            judged.others.extend(line.get(at).map(|it| it.database));
            let error = self.of_another(full, (those, &other.source));
            judged.foreign.entry(full.number).or_insert(error);
        }
        if let Some(number) = owner.first.filter(|_| !owner.is_here)
            && self.fulls.iter().any(|full| full.number == number)
            && let Some(record) =
                self.records.iter().find(|it| Some(it.database) == owner.own.database)
        {
            judged.foreign.insert(number, self.displaced(number, record));
        }
        let Judged { homes, foreign, .. } = &mut judged;
        homes.chains.retain(|number, _| !foreign.contains_key(number));
        judged
    }

    /// Returns the chain at a full set's place where nothing contests that.
    fn stands_alone(&self, full: &FullSet, owner: &Owner) -> Option<Stands> {
        if owner.first == Some(full.number) {
            return Some(if owner.is_here { Stands::Alone } else { Stands::Recorded });
        }
        let own = self.databases.get(&full.source);
        let is_contested = full.rivals.iter().any(|it| self.databases.get(&it.source) != own);
        (!is_contested).then_some(Stands::Alone)
    }

    /// Returns the databases of the chains that nothing contests, and that are not foreign among
    /// each other.
    fn homes(&self, alone: &[Option<Stands>], owner: &Owner) -> Homes {
        let chains = self.fulls.iter().zip(alone);
        let chains = chains.filter_map(|(full, stands)| Some((full, (*stands)?)));
        let (numbers, line): (Vec<_>, Vec<_>) =
            chains.map(|(full, stands)| (full.number, self.placed(full, stands, owner))).unzip();
        let foreign = Line::of(&line, owner.own).judge();
        let foreign: BTreeSet<_> = foreign.into_iter().map(|(at, _)| at).collect();
        let chains = numbers.into_iter().zip(line).enumerate();
        let chains = chains.filter(|(at, _)| !foreign.contains(at));
        let chains = chains.map(|(_, (number, placed))| (number, placed.database)).collect();
        Homes { own: owner.own.database.filter(|_| owner.own.is_sure), chains }
    }

    /// Returns which chain stands at the place of a full set that log sets of another database
    /// contest: that of the archive's database. If that is either of them, or neither, it is that
    /// of most objects.
    fn contested(&self, full: &FullSet, judged: &mut Judged) -> Stands {
        let is_home = |source: &Source| judged.homes.has(self.databases.get(source), full.number);
        let at = full.rivals.iter().position(|rival| is_home(&rival.source));
        let is_at_home = is_home(&full.source);
        let is_foreign = !is_at_home && at.is_some();
        if (is_at_home && at.is_none()) || !(is_foreign || self.archive.is_outvoted(full.number)) {
            return Stands::Full;
        }
        let at = at.unwrap_or(0);
        let Some(rival) = full.rivals.get(at) else { return Stands::Full };
        let names = |record: &&Record| {
            let (first, chain) = (record.shipped.first, &record.shipped.chain);
            record.is_here && first == full.number && *chain == hex::encode(rival.set_id)
        };
        if let Some(record) = self.records.iter().find(names) {
            judged.foreign.insert(full.number, self.displaced(full.number, record));
        } else if is_foreign {
            let error = self.of_another(full, ("behind", &rival.source));
            judged.foreign.insert(full.number, error);
        } else {
            judged.outvoted.insert(full.number);
        }
        Stands::Rival(at)
    }

    fn placed(&self, full: &FullSet, stands: Stands, owner: &Owner) -> Placed {
        let (database, is_here) = match stands {
            Stands::Alone | Stands::Full => (self.databases.get(&full.source), true),
            Stands::Rival(at) => {
                let rival = full.rivals.get(at);
                (rival.and_then(|rival| self.databases.get(&rival.source)), false)
            }
            Stands::Recorded => (owner.own.database, false),
        };
        Placed {
            // Each database of a full set or a log set is known.
            database: database.unwrap_or(usize::MAX),
            // The full set that is not here may have given a reason.
            is_taken_over: !is_here || full.is_behind_gap || takes_over(&full.why),
        }
    }

    fn of_another(&self, full: &FullSet, (those, of): (&str, &Source)) -> ArchiveError {
        let Source { path, host, .. } = &full.source;
        let Source { path: other_path, host: other_host, .. } = of;
        let reason = format!(
            "is of database {path} on {host}, and those {those} it of {other_path} on {other_host}"
        );
        ArchiveError::Misplaced { object: self.archive.object(full.number), reason }
    }

    fn displaced(&self, number: u64, record: &Record) -> ArchiveError {
        let reason = format!("is not the full set that {} says was shipped", record.record);
        ArchiveError::Misplaced { object: self.archive.object(number), reason }
    }

    fn doubt(&self, owner: &Owner) -> Option<String> {
        let record = self.records.iter().find(|it| Some(it.database) == owner.own.database)?;
        let Record { path, record, shipped, .. } = record;
        Some(format!(
            "{record} names another archive, which has object {} of this one too: whether this is \
             a copy of that, of {path}, or the archive of another database, is not known",
            shipped.number
        ))
    }

    /// Adds the chains that are dated against their order.
    fn judge_dates(&self, judged: &mut Judged) {
        let is_kept = |full: &FullSet| {
            !judged.foreign.contains_key(&full.number) && !judged.outvoted.contains(&full.number)
        };
        let kept = self.fulls.iter().enumerate().filter(|(_, full)| is_kept(full));
        let kept: Vec<_> = kept.collect();
        let mut next = 0;
        let dates = kept.iter().map(|(at, full)| {
            // The chain that belongs in a foreign one's place may have begun at any time.
            let is_next = std::mem::replace(&mut next, at + 1) == *at;
            Dates {
                begun_ms: full.begun_ms,
                last_ms: full.last_ms(),
                is_bound: is_next && !full.is_behind_gap && is_bound(&full.why),
                is_named: judged.named == Some(full.number),
            }
        });
        let dates: Vec<_> = dates.collect();
        for (at, by) in misdated(&dates) {
            let (Some((_, full)), Some((_, other))) = (kept.get(at), kept.get(by)) else {
                continue;
            };
            let reason = match other.number < full.number {
                true => format!(
                    "was begun at {}, before object {} was written ({}): one of the two is of \
                     another archive",
                    date_of_ms(full.begun_ms),
                    other.last_number(),
                    date_of_ms(other.last_ms())
                ),
                false => format!(
                    "has a chain up to {}, and object {} behind it was begun before that ({}): \
                     one of the two is of another archive",
                    date_of_ms(full.last_ms()),
                    other.number,
                    date_of_ms(other.begun_ms)
                ),
            };
            let object = self.archive.object(full.number);
            judged.foreign.insert(full.number, ArchiveError::Misplaced { object, reason });
        }
    }
}
