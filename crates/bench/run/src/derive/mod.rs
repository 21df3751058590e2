//! From a database's own tables, columns, keys and rows to the statements of the operations
//! experiment: 10 SELECT, 5 INSERT, 8 UPDATE, 5 DELETE, and a rebuild of every index.
//!
//! Candidates are built here; whether one can be executed (checks, triggers, foreign keys,
//! functions of the application) is determined by rehearsing it on a copy.

mod build;
mod change;
mod sample;
mod schema;

use fastrand::Rng;
use rusqlite::Connection;

use crate::job::{Operation, Planned, Rehearsal};
use build::Kind;

/// Number of statements of each type, as in the source document.
const QUOTA: [(Operation, &[Kind]); 4] = {
    use Kind::{Index, IndexRange, IndexedColumn, Join, Key, Range, Scan};
    [
        (Operation::Select, &[Key, Index, Key, Index, Key, Index, Range, IndexRange, Join, Scan]),
        (Operation::Insert, &[Key; 5]),
        (
            Operation::Update,
            &[Key, IndexedColumn, Key, IndexedColumn, Key, IndexedColumn, Range, Index],
        ),
        (Operation::Delete, &[Key, Key, Key, Range, Index]),
    ]
};

/// A statement that may be measured.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    kind: Kind,
    pub(crate) planned: Planned,
}

/// The statements derived from a database.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    pub(crate) candidates: Vec<Candidate>,
    /// `REINDEX` of every index.
    pub(crate) reindex: Vec<Planned>,
    /// Full scans of the largest table: sum over a column, count of rows.
    pub(crate) scans: Option<Scans>,
    pub(crate) tables: u64,
    pub(crate) indexes: u64,
    /// True if the schema declares foreign keys, in which case an application is assumed to enforce
    /// them.
    pub(crate) foreign_keys: bool,
    /// Excluded parts, with the reasons.
    pub(crate) notes: Vec<String>,
}

/// Statements of the scans experiment.
#[derive(Debug, Clone)]
pub(crate) struct Scans {
    pub(crate) table: String,
    pub(crate) rows: u64,
    pub(crate) sum_sql: String,
    pub(crate) count_sql: String,
}

impl Derived {
    /// Returns everything to be tried before it is measured: the candidates, then the indexes.
    pub(crate) fn tried(&self) -> Vec<Planned> {
        let candidates = self.candidates.iter().map(|candidate| candidate.planned.clone());
        candidates.chain(self.reindex.iter().cloned()).collect()
    }
}

/// Reads schema and samples of `connection`'s main database and builds candidates. Only reads.
pub(crate) fn derive(connection: &Connection, seed: u64) -> rusqlite::Result<Derived> {
    let mut rng = Rng::with_seed(seed);
    let mut schema = schema::read(connection)?;
    let mut derived = Derived {
        tables: schema.tables.len() as u64,
        indexes: schema.tables.iter().map(|table| table.indexes.len() as u64).sum(),
        foreign_keys: schema.tables.iter().any(|table| !table.foreign_keys.is_empty()),
        notes: std::mem::take(&mut schema.notes),
        ..Derived::default()
    };
    derived.reindex = build::reindex(&schema.tables);
    let sampled = sample::tables(connection, schema.tables, &mut rng, &mut derived.notes)?;
    derived.scans = build::scans(&sampled);
    derived.candidates = build::candidates(connection, &sampled, &mut rng, &mut derived.notes);
    Ok(derived)
}

/// Chooses the plan from candidates and their rehearsals, in the order of [`Derived::tried`].
/// Statements without side effects come first. Returns the plan and a list of what is missing from
/// it.
pub(crate) fn choose(derived: &Derived, rehearsals: &[Rehearsal]) -> (Vec<Planned>, Vec<String>) {
    let mut usable: Vec<(bool, Candidate)> = derived
        .candidates
        .iter()
        .zip(rehearsals)
        .filter_map(|(candidate, rehearsal)| {
            let mut candidate = candidate.clone();
            let mut outcome = rehearsal.failures.iter();
            candidate.planned.variants.retain(|_| matches!(outcome.next(), Some(None)));
            (!candidate.planned.variants.is_empty()).then_some((rehearsal.side_effects, candidate))
        })
        .collect();
    usable.sort_by_key(|(side_effects, _)| *side_effects);
    let mut notes = refusals(derived, rehearsals);
    let mut plan = Vec::new();
    for (operation, kinds) in QUOTA {
        let mut offers: Vec<(u32, bool, &Candidate)> = usable
            .iter()
            .filter(|(_, candidate)| candidate.planned.operation == operation)
            .map(|(side_effects, candidate)| (0, *side_effects, candidate))
            .collect();
        for kind in kinds {
            // The least used of the kind, or of any if the database has none of the kind.
            let offered = |of_kind: bool| {
                move |(_, _, candidate): &&mut (u32, bool, &Candidate)| {
                    !of_kind || candidate.kind == *kind
                }
            };
            let has_kind = offers.iter().any(|(_, _, candidate)| candidate.kind == *kind);
            let Some((uses, side_effects, candidate)) =
                offers.iter_mut().filter(offered(has_kind)).min_by_key(|(uses, ..)| *uses)
            else {
                notes.push(format!("No {} can be derived.", operation.name()));
                break;
            };
            *uses += 1;
            if *side_effects {
                notes.push(format!(
                    "{} on {}: triggers or foreign keys change further rows, which are not taken \
                     back between blocks; they are the same on every side.",
                    operation.name(),
                    candidate.planned.table
                ));
            }
            plan.push(candidate.planned.clone());
        }
    }
    notes.dedup();
    let of_indexes = rehearsals.get(derived.candidates.len()..).unwrap_or_default();
    for (planned, rehearsal) in derived.reindex.iter().zip(of_indexes) {
        match rehearsal.failures.iter().flatten().next() {
            Some(reason) => notes.push(format!("Cannot {}: {reason}.", planned.what)),
            None => plan.push(planned.clone()),
        }
    }
    (plan, notes)
}

type Group<'a> = (Operation, &'a str);

/// One note for each table and operation whose candidates all failed.
fn refusals(derived: &Derived, rehearsals: &[Rehearsal]) -> Vec<String> {
    let mut groups: Vec<(Group<'_>, Vec<&Option<String>>)> = Vec::new();
    for (candidate, rehearsal) in derived.candidates.iter().zip(rehearsals) {
        let group = (candidate.planned.operation, candidate.planned.table.as_str());
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, failures)) => failures.extend(&rehearsal.failures),
            None => groups.push((group, rehearsal.failures.iter().collect())),
        }
    }
    let note = |((operation, table), failures): (Group<'_>, Vec<&Option<String>>)| {
        let all = failures.iter().all(|failure| failure.is_some());
        let reason = failures.first()?.as_ref().filter(|_| all)?;
        // SQLite's message may contain the statement, but never a value.
        Some(format!("No {} on {table}: {reason}.", operation.name()))
    };
    groups.into_iter().filter_map(note).collect()
}

#[cfg(test)]
mod tests;
