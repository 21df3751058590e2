//! The matrix of native backups: ciphers, compressions and directories of the server.

use std::collections::BTreeMap;

use fastrand::Rng;
use tdekit_bench_report::{Class, Experiment, Metric, Role, Run, Side};

use super::data::sums;
use super::home::Home;
use super::names::{BACKUP, Database, FILES, backup, history, moved, restore, verify};
use super::server::{Counters, of_session, refusal, timed};
use super::tds::{Connection, TdsError, Value};
use crate::error::{BenchError, Result};
use crate::experiment::{Figures, axes, class};
use crate::interrupt;
use crate::numbers::float;
use crate::plan::Config;
use crate::schedule::{Block, Ground, Kind, Place, Steering};

/// The source's ciphers.
const CIPHERS: [&str; 4] = ["AES_128", "AES_192", "AES_256", "TRIPLE_DES_3KEY"];
/// True to compress, and the name.
const COMPRESSIONS: [(bool, &str); 2] = [(false, "none"), (true, "compressed")];

/// Backups with one compression to one directory, which are compared with one another.
#[derive(Debug, Clone)]
pub(super) struct Group {
    compressed: bool,
    path: String,
    /// Classes of its backup, its verification, and its restore.
    pub(super) classes: [Class; 3],
}

impl Group {
    pub(super) fn backup(&self, cipher: Option<&str>) -> String {
        backup(Database::Base, &self.path, self.compressed, cipher)
    }

    pub(super) fn verify(&self) -> String {
        verify(&self.path)
    }

    pub(super) fn restore(&self, moves: &[(String, String)]) -> String {
        restore(&self.path, moves)
    }
}

/// Actions of a group, and their statements.
const ACTIONS: [(&str, &str); 3] = [
    ("backup", "BACKUP DATABASE"),
    ("verify", "RESTORE VERIFYONLY"),
    (
        "restore",
        "RESTORE DATABASE under another name; the rows are then held against the source's, off \
         the clock, and the database is dropped",
    ),
];

pub(super) fn groups(config: &Config) -> Vec<Group> {
    let files = config.mssql.bounds.backup_files(BACKUP);
    let mut groups = Vec::new();
    for (number, path) in (0..).zip(files) {
        let target = config.mssql.bounds.directories.get(number).map_or("server", String::as_str);
        for (compressed, compression) in COMPRESSIONS {
            let classes = ACTIONS.map(|(action, statement)| {
                let id = format!("{action}/{compression}/{number}");
                let what = if compressed { "compressed" } else { "uncompressed" };
                let label = format!("{action}, {what}, to {target}");
                let sized = (1, action);
                let mut class = class(Experiment::Backup, (id, label), statement.to_owned(), sized);
                class.axes = axes([
                    ("action", action),
                    ("compression", compression),
                    ("source", "database"),
                    ("target", target),
                ]);
                class
            });
            groups.push(Group { compressed, path: path.clone(), classes });
        }
    }
    groups
}

/// Returns the ciphers of the options.
pub(super) fn ciphers(config: &Config) -> Vec<String> {
    match &config.backup.named_ciphers {
        named if named.is_empty() => CIPHERS.map(str::to_owned).into(),
        named => named.clone(),
    }
}

/// Returns the sides, base first.
pub(super) fn sides(ciphers: &[String]) -> Vec<Side> {
    let plain = Side::new("none", "none", Role::Base);
    let of = |cipher: &String| {
        let side = Side::new(cipher, cipher, Role::Encrypted);
        side.with_cipher((cipher != AGAIN).then_some(cipher.as_str()))
    };
    std::iter::once(plain).chain(ciphers.iter().map(of)).collect()
}

/// The cipher of a control run: none, a second time.
pub(super) const AGAIN: &str = "none again";

/// Returns the ciphers that the server supports, each tried on a backup; unsupported ones are
/// reported.
pub(super) fn usable(
    connection: &mut Connection,
    (path, wanted): (&str, Vec<String>),
    limits: &mut Vec<String>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for cipher in wanted {
        interrupt::check()?;
        match connection.query(&backup(Database::Base, path, false, Some(&cipher))) {
            Ok(_) => found.push(cipher),
            Err(error) => {
                limits.push(format!("No backups with {cipher}: {}.", refusal(error)?));
            }
        }
    }
    Ok(found)
}

/// How backups are restored, and their expected contents.
#[derive(Debug)]
pub(super) struct Restoring {
    /// Files of the database, and their paths when restored. None if the server places them.
    moves: Vec<(String, String)>,
    rows: Vec<Vec<Value>>,
}

impl Restoring {
    /// Tries it on a backup; returns the server's message if backups cannot be restored.
    pub(super) fn tried(
        home: &mut Home<'_>,
        connection: &mut Connection,
        path: &str,
        ours: bool,
    ) -> Result<Result<Self, String>> {
        let rows = connection.query(&sums(Database::Base.name()))?.rows;
        let mut found = Self { moves: Vec::new(), rows };
        if !ours {
            let files = match connection.query(FILES) {
                Ok(files) => files,
                Err(error) => return refusal(error).map(Err),
            };
            let text = |row: &[Value], at: usize| Some(row.get(at)?.text()?.to_owned());
            let file = |row: &Vec<Value>| Some((text(row, 0)?, moved(&text(row, 1)?)));
            found.moves = files.rows.iter().filter_map(file).collect();
        }
        connection.query(&backup(Database::Base, path, false, None))?;
        home.expect(Database::Restored);
        match connection.query(&restore(path, &found.moves)) {
            Ok(_) => found.check(connection, path)?,
            Err(error) => {
                let words = refusal(error)?;
                home.remove(Database::Restored)?;
                return Ok(Err(words));
            }
        }
        home.remove(Database::Restored)?;
        Ok(Ok(found))
    }

    /// Compares the rows of the restored database with those of the source.
    fn check(&self, connection: &mut Connection, what: &str) -> Result<()> {
        let found = connection.query(&sums(Database::Restored.name()))?.rows;
        if found == self.rows {
            return Ok(());
        }
        let detail = format!("its rows are {found:?}, and those of the source {:?}", self.rows);
        Err(BenchError::mismatch(format!("the restored backup {what}"), detail))
    }
}

/// The matrix for the schedule.
pub(super) struct BackupGround<'a, 'h> {
    pub(super) home: &'a mut Home<'h>,
    pub(super) groups: Vec<Group>,
    /// By side; none for plain.
    pub(super) ciphers: Vec<Option<String>>,
    /// None if the server cannot restore.
    pub(super) restoring: Option<Restoring>,
    pub(super) counters: Counters,
    pub(super) figures: Figures,
    pub(super) connection: Option<Connection>,
}

/// Returns the classes of a group that are measured: restores only if there are any.
pub(super) fn measured_classes(group: &Group, restored: bool) -> impl Iterator<Item = &Class> {
    group.classes.iter().take(if restored { 3 } else { 2 })
}

impl BackupGround<'_, '_> {
    fn one(&mut self, group: &Group, place: Place) -> Result<Vec<Run>> {
        let cipher = self.ciphers.get(place.side).cloned().flatten();
        let side = self.figures.report.sides.get(place.side);
        let Some((side, connection)) = side.zip(self.connection.as_mut()) else {
            return Ok(Vec::new());
        };
        let [backed_up, verified, restored] = &group.classes;
        let batch = group.backup(cipher.as_deref());
        let mut values = measured(connection, &batch, self.counters)?;
        match connection.query(&history(Database::Base)) {
            Ok(answer) => of_history(&answer.rows, cipher.as_deref(), &side.id, &mut values)?,
            Err(error @ TdsError::ServerSaid { .. }) => {
                let limit = format!("Sizes are not known: {}.", refusal(error)?);
                if !self.figures.report.limits.contains(&limit) {
                    self.figures.report.limits.push(limit);
                }
            }
            Err(error) => return Err(error.into()),
        }
        let mut runs = vec![place.run(&backed_up.id, &side.id, values)];
        let values = measured(connection, &group.verify(), self.counters)?;
        runs.push(place.run(&verified.id, &side.id, values));
        if let Some(restoring) = &self.restoring {
            interrupt::check()?;
            self.home.expect(Database::Restored);
            let values = measured(connection, &group.restore(&restoring.moves), self.counters)?;
            runs.push(place.run(&restored.id, &side.id, values));
            restoring.check(connection, &side.id)?;
            self.home.remove(Database::Restored)?;
        }
        Ok(runs)
    }
}

fn measured(
    connection: &mut Connection,
    batch: &str,
    counters: Counters,
) -> Result<BTreeMap<Metric, f64>> {
    let before = match counters {
        Counters::Clock => None,
        _ => Some(of_session(connection)?),
    };
    let elapsed_ns = timed(connection, batch)?;
    let mut values = BTreeMap::from([(Metric::Elapsed, float(elapsed_ns))]);
    if let Some(before) = before {
        let used = of_session(connection)?.since(&before);
        if used.cpu_ns > 0 {
            values.insert(Metric::Cpu, float(used.cpu_ns));
        }
    }
    Ok(values)
}

/// Returns sizes and duration of the last backup from the server's history. A backup that is not
/// encrypted as requested is a failure.
fn of_history(
    rows: &[Vec<Value>],
    cipher: Option<&str>,
    side: &str,
    values: &mut BTreeMap<Metric, f64>,
) -> Result<()> {
    let row = rows.first().map(Vec::as_slice).unwrap_or_default();
    let int = |at: usize| row.get(at).and_then(Value::int).and_then(|one| u64::try_from(one).ok());
    // The size on the medium; if the server does not report one, the size before compression.
    if let Some(bytes) = int(1).or(int(0)) {
        values.insert(Metric::Size, float(bytes));
    }
    if let Some(ms) = int(2).filter(|ms| *ms > 0) {
        values.insert(Metric::HistoryElapsed, float(ms * 1_000_000));
    }
    let said = row.get(3).and_then(Value::text).map(plain_name).unwrap_or_default();
    if said == cipher.map(plain_name).unwrap_or_default() {
        return Ok(());
    }
    let detail = format!("the history names the algorithm {said:?}, and {cipher:?} was asked for");
    Err(BenchError::mismatch(format!("backup {side}"), detail))
}

/// The history contains `aes_256` and `triple_des_3key`.
fn plain_name(text: &str) -> String {
    text.trim().to_uppercase().replace(['_', ' '], "")
}

impl Ground for BackupGround<'_, '_> {
    /// Index of the group.
    type Cell = usize;
    type Found = Run;

    fn cells(&mut self, kind: Kind) -> Vec<usize> {
        self.figures.wanted(kind, 0..self.groups.len(), |at| {
            let group = self.groups.get(*at).into_iter();
            let restored = self.restoring.is_some();
            let classes = group.flat_map(|group| measured_classes(group, restored));
            classes.map(|class| class.id.clone()).collect()
        })
    }

    fn name(&self, at: &usize) -> String {
        self.groups.get(*at).map_or_else(String::new, |group| group.classes[0].id.clone())
    }

    fn sides(&self, _: &usize, _pair: u32) -> Vec<usize> {
        (0..self.ciphers.len()).collect()
    }

    fn prepare(&mut self, _: u32, _: &[usize], _: &mut Rng, _: &mut Steering) -> Result<()> {
        self.connection = Some(self.home.open(None)?);
        Ok(())
    }

    fn block(&mut self, at: &usize, place: Place, _: &mut Steering) -> Result<Block<Run>> {
        let Some(group) = self.groups.get(*at).cloned() else { return Ok(Block::Done(Vec::new())) };
        self.one(&group, place).map(Block::Done)
    }

    fn keep(&mut self, found: Vec<Run>) {
        self.figures.keep(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_that_is_not_encrypted_as_asked_is_a_failure() {
        let row = |name: Option<&str>| {
            let name = name.map_or(Value::Null, |name| Value::Text(name.to_owned()));
            vec![vec![Value::Int(900), Value::Int(300), Value::Int(2_000), name, Value::Null]]
        };
        let mut values = BTreeMap::new();
        of_history(&row(Some("aes_256")), Some("AES_256"), "x", &mut values).unwrap();
        assert!((values[&Metric::Size] - 300.0).abs() < 1e-9);
        assert!((values[&Metric::HistoryElapsed] - 2e9).abs() < 1e-3);
        of_history(&row(None), None, "x", &mut values).unwrap();
        for (said, wanted) in
            [(None, Some("AES_256")), (Some("aes_128"), Some("AES_256")), (Some("aes_128"), None)]
        {
            let found = of_history(&row(said), wanted, "x", &mut values);
            assert!(matches!(found, Err(BenchError::Mismatch { .. })), "{said:?} {wanted:?}");
        }
        assert!(of_history(&[], Some("AES_256"), "x", &mut values).is_err());
    }
}
