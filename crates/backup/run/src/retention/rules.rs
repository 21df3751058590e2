//! The sets that rules keep: a pure function of sets, rules and the time.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tdekit_key_store::iso8601;

use crate::date_of_ms;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// The day, week or month of a time, in milliseconds since 1970.
type Period = fn(i64) -> Reason;

/// A set's identifier.
pub(super) type SetId = [u8; 16];

/// The rules for each database: a set that one of them keeps is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// All sets of this many seconds before now.
    pub within_s: Option<u64>,
    /// The newest sets, whatever their age. Of log sets of an archive, this rule and those below
    /// keep none.
    pub last: Option<u32>,
    /// The newest set of each of the last days that have one, in UTC.
    pub daily: Option<u32>,
    /// The same for weeks, which begin on Monday.
    pub weekly: Option<u32>,
    /// The same for months.
    pub monthly: Option<u32>,
}

impl Rules {
    /// Returns true if no rule keeps anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A set, as far as the rules are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) set: SetId,
    /// The database to which it belongs; `None` if that cannot be determined.
    pub(super) database: Option<String>,
    /// The name that its set has of the database: the sets of each name stand on one another only.
    pub(super) name: String,
    /// False if the user named another database.
    pub(super) asked: bool,
    /// Time of the snapshot, milliseconds since 1970.
    pub(super) at_ms: i64,
    /// Expiration time; 0 if none was given.
    pub(super) expires_ms: i64,
    /// The sets without which it cannot be restored.
    pub(super) needs: Vec<SetId>,
    /// True for a log set of an archive.
    pub(super) is_log: bool,
    /// The full set of its chain, for a log set of an archive.
    pub(super) chain: Option<SetId>,
    /// True for a log backup.
    pub(super) is_log_backup: bool,
    /// True if another set may stand on it: a differential set, a log backup or a log set.
    pub(super) is_base: bool,
    /// True for a set of an archive: no log backup of other media stands on it.
    pub(super) in_archive: bool,
    /// True if it was once read whole with its key, and never found damaged since.
    pub(super) verified: bool,
    /// The reason why it cannot be restored.
    pub(super) fault: Option<String>,
}

impl Point {
    /// Returns the set with which its chain begins.
    pub(super) fn begins(&self) -> SetId {
        self.chain.unwrap_or(self.set)
    }
}

/// A reason to keep a set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// It is the newest one of its database.
    Newest,
    /// The next log backup stands on it.
    NewestLog,
    /// It is the newest one on which sets of its name stand, and the newest set has another name.
    NewestOfName,
    /// The next log set of an archive stands on it.
    NewestShipped,
    Within,
    Last,
    /// The newest one of this day.
    Daily(String),
    /// The newest one of the week that begins on this day.
    Weekly(String),
    /// The newest one of this month.
    Monthly(String),
    /// No other set that is kept of its database was ever verified.
    OnlyVerified,
    /// It is a part of what must be read to restore another one.
    NeededBy(SetId),
    /// Another set of its chain stays, and the chain has a fault.
    ChainStays,
    /// Its `--expire` has not come.
    NotExpired(i64),
    /// Its time is in the future, so its age is not known.
    Future,
    UnknownDatabase,
    /// It belongs to a database that was not named.
    NotAsked,
    Fault(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => write!(f, "the newest"),
            Self::NewestLog => write!(f, "the newest log backup"),
            Self::NewestOfName => write!(f, "the newest of its name"),
            Self::NewestShipped => write!(f, "the newest of an archive"),
            Self::Within => write!(f, "within --keep"),
            Self::Last => write!(f, "last"),
            Self::Daily(day) => write!(f, "daily {day}"),
            Self::Weekly(day) => write!(f, "weekly {day}"),
            Self::Monthly(month) => write!(f, "monthly {month}"),
            Self::OnlyVerified => write!(f, "the only verified one"),
            Self::NeededBy(set) => write!(f, "needed by {}", hex::encode(set)),
            Self::ChainStays => write!(f, "of a chain that stays"),
            Self::NotExpired(ms) => write!(f, "not expired before {}", date_of_ms(*ms)),
            Self::Future => write!(f, "dated in the future"),
            Self::UnknownDatabase => write!(f, "of a database that cannot be determined"),
            Self::NotAsked => write!(f, "of another database"),
            Self::Fault(fault) => write!(f, "not restorable: {fault}"),
        }
    }
}

/// Returns the reasons to keep each of `points`; a set without one may be removed. The newest set
/// of each database that can be restored is always kept.
pub(super) fn decide(points: &[Point], rules: &Rules, now_ms: i64) -> Vec<BTreeSet<Reason>> {
    let (broken, torn) = (broken(points), torn_chains(points));
    let mut kept: Vec<BTreeSet<Reason>> =
        points.iter().map(|point| own_reasons(point, (&broken, &torn), now_ms)).collect();
    let mut databases: BTreeMap<&str, Vec<&Point>> = BTreeMap::new();
    for point in points {
        let counts = point.asked && !is_future(point, now_ms) && !broken.contains_key(&point.set);
        if let Some(database) = point.database.as_deref().filter(|_| counts) {
            databases.entry(database).or_default().push(point);
        }
    }
    let mut chosen: BTreeMap<SetId, BTreeSet<Reason>> = BTreeMap::new();
    for mut sets in databases.into_values() {
        // The later of two of one time counts as newer.
        sets.sort_by_key(|point| point.at_ms);
        sets.reverse();
        // Copies of a set are one point in time.
        let mut seen = BTreeSet::new();
        sets.retain(|point| seen.insert(point.set));
        by_rules(&sets, rules, now_ms, &mut chosen);
    }
    for (point, reasons) in points.iter().zip(&mut kept) {
        reasons.extend(chosen.get(&point.set).into_iter().flatten().cloned());
    }
    keep_verified(points, &broken, &mut kept);
    keep_needed(points, &mut kept);
    keep_torn(points, (&broken, &torn), &mut kept);
    kept
}

/// Returns the chains of an archive, by their full sets, of which a log set cannot be restored, and
/// the full set is here. Such a chain goes or stays as a whole: what is left of it would be damage.
pub(super) fn torn_chains(points: &[Point]) -> BTreeSet<SetId> {
    let here: BTreeSet<SetId> = points.iter().map(|point| point.set).collect();
    let broken = broken(points);
    let logs = points.iter().filter(|point| broken.contains_key(&point.set));
    logs.filter_map(|point| point.chain).filter(|chain| here.contains(chain)).collect()
}

/// Keeps all of a torn chain of which one set is kept.
fn keep_torn(
    points: &[Point],
    (broken, torn): (&BTreeMap<SetId, String>, &BTreeSet<SetId>),
    kept: &mut [BTreeSet<Reason>],
) {
    let staying: BTreeSet<SetId> = points
        .iter()
        .zip(&*kept)
        .filter(|(_, it)| !it.is_empty())
        .map(|(it, _)| it.begins())
        .collect();
    let of = |point: &Point| torn.contains(&point.begins()) && staying.contains(&point.begins());
    for (point, reasons) in points.iter().zip(kept).filter(|(point, _)| of(point)) {
        match broken.get(&point.set) {
            Some(fault) => reasons.insert(Reason::Fault(fault.clone())),
            None if reasons.is_empty() => reasons.insert(Reason::ChainStays),
            None => false,
        };
    }
}

/// Reasons that do not depend on other sets of the database.
fn own_reasons(
    point: &Point,
    (broken, torn): (&BTreeMap<SetId, String>, &BTreeSet<SetId>),
    now_ms: i64,
) -> BTreeSet<Reason> {
    let mut reasons = BTreeSet::new();
    if point.database.is_none() {
        reasons.insert(Reason::UnknownDatabase);
    }
    if !point.asked {
        reasons.insert(Reason::NotAsked);
    }
    // A log set that lacks another one goes with its chain.
    let is_torn = point.fault.is_none() && point.chain.is_some_and(|it| torn.contains(&it));
    if let Some(fault) = broken.get(&point.set).filter(|_| !is_torn) {
        reasons.insert(Reason::Fault(fault.clone()));
    }
    if point.expires_ms > now_ms {
        reasons.insert(Reason::NotExpired(point.expires_ms));
    }
    if is_future(point, now_ms) {
        reasons.insert(Reason::Future);
    }
    reasons
}

/// Clocks of two machines may differ a little.
fn is_future(point: &Point, now_ms: i64) -> bool {
    point.at_ms > now_ms.saturating_add(DAY_MS)
}

/// Returns the sets that cannot be restored: those with a fault, and those that need what has one
/// or is missing.
fn broken(points: &[Point]) -> BTreeMap<SetId, String> {
    let here: BTreeSet<SetId> = points.iter().map(|point| point.set).collect();
    let mut broken: BTreeMap<SetId, String> = BTreeMap::new();
    for point in points {
        if let Some(fault) = &point.fault {
            broken.insert(point.set, fault.clone());
        } else if let Some(lacks) = point.needs.iter().find(|needed| !here.contains(*needed)) {
            let fault = format!("set {}, which it needs, is not here", hex::encode(lacks));
            broken.insert(point.set, fault);
        }
    }
    let mut needed_by: BTreeMap<SetId, Vec<SetId>> = BTreeMap::new();
    for point in points {
        for needed in &point.needs {
            needed_by.entry(*needed).or_default().push(point.set);
        }
    }
    let mut next: Vec<SetId> = broken.keys().copied().collect();
    while let Some(needed) = next.pop() {
        for set in needed_by.get(&needed).into_iter().flatten() {
            if let Entry::Vacant(entry) = broken.entry(*set) {
                let fault = format!("set {}, which it needs, is not whole", hex::encode(needed));
                entry.insert(fault);
                next.push(*set);
            }
        }
    }
    broken
}

/// Applies the rules to the sets of one database, newest first.
fn by_rules(
    sets: &[&Point],
    rules: &Rules,
    now_ms: i64,
    chosen: &mut BTreeMap<SetId, BTreeSet<Reason>>,
) {
    let mut keep = |point: &Point, reason| {
        chosen.entry(point.set).or_default().insert(reason);
    };
    if let Some(newest) = sets.first() {
        keep(newest, Reason::Newest);
    }
    // The next set of each name stands on the newest of these.
    let mut names = BTreeSet::new();
    for base in sets.iter().filter(|point| point.is_base && !point.in_archive) {
        let is_newest = names.insert(&base.name);
        if is_newest && base.is_log_backup {
            keep(base, Reason::NewestLog);
        } else if is_newest && sets.first().is_some_and(|newest| newest.name != base.name) {
            keep(base, Reason::NewestOfName);
        }
    }
    // The chain that is being shipped, though other media have a newer set.
    if let Some(shipped) = sets.iter().find(|point| point.in_archive) {
        keep(shipped, Reason::NewestShipped);
    }
    if let Some(within_s) = rules.within_s {
        let within_ms = i64::try_from(within_s).unwrap_or(i64::MAX).saturating_mul(1000);
        let oldest_ms = now_ms.saturating_sub(within_ms);
        sets.iter()
            .filter(|point| point.at_ms >= oldest_ms)
            .for_each(|it| keep(it, Reason::Within));
    }
    let count = |rule: Option<u32>| usize::try_from(rule.unwrap_or(0)).unwrap_or(usize::MAX);
    // A log set of an archive on each day would keep the whole chain of that day.
    let whole: Vec<&Point> = sets.iter().copied().filter(|point| !point.is_log).collect();
    whole.iter().take(count(rules.last)).for_each(|point| keep(point, Reason::Last));
    let periods: [(_, Period); 3] =
        [(rules.daily, day_of), (rules.weekly, week_of), (rules.monthly, month_of)];
    for (rule, period_of) in periods {
        let mut taken = BTreeSet::new();
        for point in &whole {
            let period = period_of(point.at_ms);
            if taken.len() < count(rule) && taken.insert(period.clone()) {
                keep(point, period);
            }
        }
    }
}

fn day_of(at_ms: i64) -> Reason {
    Reason::Daily(first_chars(at_ms, 10))
}

/// 1 January 1970 was a Thursday.
fn week_of(at_ms: i64) -> Reason {
    let day = at_ms.div_euclid(DAY_MS);
    let monday = (day + 3).div_euclid(7) * 7 - 3;
    Reason::Weekly(first_chars(monday.saturating_mul(DAY_MS), 10))
}

fn month_of(at_ms: i64) -> Reason {
    Reason::Monthly(first_chars(at_ms, 7))
}

fn first_chars(at_ms: i64, count: usize) -> String {
    iso8601(at_ms.div_euclid(1000)).chars().take(count).collect()
}

/// Keeps the newest verified set of each database of which no other kept set was verified.
fn keep_verified(
    points: &[Point],
    broken: &BTreeMap<SetId, String>,
    kept: &mut [BTreeSet<Reason>],
) {
    // The newest verified set, and whether a kept one is verified.
    let mut verified: BTreeMap<&str, (&Point, bool)> = BTreeMap::new();
    for (point, reasons) in points.iter().zip(&*kept) {
        let Some(database) = point.database.as_deref() else { continue };
        if !point.verified || broken.contains_key(&point.set) {
            continue;
        }
        let entry = verified.entry(database).or_insert((point, false));
        entry.1 |= !reasons.is_empty();
        if point.at_ms >= entry.0.at_ms {
            entry.0 = point;
        }
    }
    for (newest, is_kept) in verified.into_values() {
        let copies = points.iter().zip(&mut *kept).filter(|(point, _)| point.set == newest.set);
        if !is_kept {
            copies.for_each(|(_, reasons)| {
                reasons.insert(Reason::OnlyVerified);
            });
        }
    }
}

/// Keeps what kept sets need, and what that needs.
fn keep_needed(points: &[Point], kept: &mut [BTreeSet<Reason>]) {
    let mut places: BTreeMap<SetId, Vec<usize>> = BTreeMap::new();
    for (at, point) in points.iter().enumerate() {
        places.entry(point.set).or_default().push(at);
    }
    let mut next: Vec<&Point> =
        points.iter().zip(&*kept).filter(|(_, it)| !it.is_empty()).map(|(it, _)| it).collect();
    while let Some(point) = next.pop() {
        for needed in &point.needs {
            for at in places.get(needed).into_iter().flatten() {
                let (Some(reasons), Some(other)) = (kept.get_mut(*at), points.get(*at)) else {
                    continue;
                };
                if reasons.is_empty() {
                    next.push(other);
                }
                reasons.insert(Reason::NeededBy(point.set));
            }
        }
    }
}

#[cfg(test)]
mod tests;
