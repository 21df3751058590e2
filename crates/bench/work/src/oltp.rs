//! Sysbench's OLTP workloads on SQLite, the share of one process: the same tables, statements and
//! number of statements in each transaction. A writing transaction takes the write lock at once
//! (`BEGIN IMMEDIATE`), since one that first reads could not continue after another one's commit.

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tdekit_sqlite_client::{Bound, Connection, SqliteError, Statement};
use tdekit_system_use::wall_ns;

use crate::latency::Latencies;
use crate::measure::{Cost, Meter};

/// Rows of a range, as sysbench's `--range-size`.
const RANGE: i64 = 100;
/// Point selects of a transaction, as sysbench's `--point-selects`.
const POINTS: u32 = 10;
/// Number of different texts to write.
const TEXTS: usize = 1024;

macro_rules! workloads {
    ($($(#[$doc:meta])* $workload:ident = $name:literal,)*) => {
        /// A workload.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum Workload { $(#[doc = $name] $(#[$doc])* $workload,)* }

        impl Workload {
            /// Sysbench's own, in the order of the source, and the scan.
            pub const ALL: [Self; 9] = [$(Self::$workload),*];

            /// Returns its name, which is also that of sysbench's script.
            pub fn name(self) -> &'static str {
                match self { $(Self::$workload => $name,)* }
            }
        }
    };
}

workloads! {
    PointSelect = "oltp_point_select",
    ReadOnly = "oltp_read_only",
    ReadWrite = "oltp_read_write",
    WriteOnly = "oltp_write_only",
    UpdateIndex = "oltp_update_index",
    UpdateNonIndex = "oltp_update_non_index",
    Insert = "oltp_insert",
    Delete = "oltp_delete",
    /// Every row of every table, the pages from the device.
    FullScan = "full_scan",
}

/// A share of a block.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct OltpShare {
    /// The workload.
    pub workload: Workload,
    /// Number of tables.
    pub tables: u32,
    /// Rows of each table.
    pub rows: u64,
    /// Time after which no transaction begins.
    pub duration_ns: u64,
    /// Of the random numbers.
    pub seed: u64,
}

/// Result of a process's share.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct OltpDone {
    /// Cost of all.
    pub cost: Cost,
    /// Number of transactions.
    pub transactions: u64,
    /// Number of statements.
    pub queries: u64,
    /// For each transaction; see [`Latencies::counts`].
    pub times: Vec<(u64, u64)>,
}

/// Returns statements that create one of sysbench's tables.
pub fn create(table: u32) -> String {
    format!(
        "CREATE TABLE sbtest{table}(id INTEGER PRIMARY KEY AUTOINCREMENT, \
         k INTEGER NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', \
         pad CHAR(60) NOT NULL DEFAULT '')"
    )
}

/// Returns the index that sysbench creates after filling a table.
pub fn create_index(table: u32) -> String {
    format!("CREATE INDEX k_{table} ON sbtest{table}(k)")
}

/// Returns groups of eleven digits with dashes between: ten for `c`, five for `pad`.
pub fn text(rng: &mut Rng, groups: u32) -> String {
    let mut text = String::with_capacity(groups as usize * 12);
    for group in 0..groups {
        if group > 0 {
            text.push('-');
        }
        (0..11).for_each(|_| text.push(rng.digit(10)));
    }
    text
}

/// The prepared statements of one table.
struct Table {
    point: Statement,
    ranges: [Statement; 4],
    update_index: Statement,
    update_non_index: Statement,
    delete: Statement,
    insert: Statement,
    insert_new: Statement,
}

impl Table {
    fn prepare(connection: &Connection, table: u32) -> Result<Self, SqliteError> {
        let prepare =
            |sql: &str| connection.prepare(&sql.replace("sbtest", &format!("sbtest{table}")));
        Ok(Self {
            point: prepare("SELECT c FROM sbtest WHERE id=?1")?,
            ranges: [
                prepare("SELECT c FROM sbtest WHERE id BETWEEN ?1 AND ?2")?,
                prepare("SELECT SUM(k) FROM sbtest WHERE id BETWEEN ?1 AND ?2")?,
                prepare("SELECT c FROM sbtest WHERE id BETWEEN ?1 AND ?2 ORDER BY c")?,
                prepare("SELECT DISTINCT c FROM sbtest WHERE id BETWEEN ?1 AND ?2 ORDER BY c")?,
            ],
            update_index: prepare("UPDATE sbtest SET k=k+1 WHERE id=?1")?,
            update_non_index: prepare("UPDATE sbtest SET c=?1 WHERE id=?2")?,
            delete: prepare("DELETE FROM sbtest WHERE id=?1")?,
            insert: prepare("INSERT OR IGNORE INTO sbtest(id, k, c, pad) VALUES (?1, ?2, ?3, ?4)")?,
            insert_new: prepare("INSERT INTO sbtest(k, c, pad) VALUES (?1, ?2, ?3)")?,
        })
    }
}

/// Everything that a connection has prepared.
pub struct Oltp {
    tables: Vec<Table>,
    begin: Statement,
    begin_write: Statement,
    commit: Statement,
    scans: Vec<Statement>,
    c: Vec<&'static str>,
    pad: Vec<&'static str>,
}

impl Oltp {
    /// Prepares the statements on `tables` tables.
    ///
    /// # Errors
    /// When SQLite refuses one.
    pub fn prepare(connection: &Connection, tables: u32) -> Result<Self, SqliteError> {
        let mut rng = Rng::with_seed(0x6f6c_7470);
        // They live as long as the worker, so that binding copies nothing.
        let mut texts = |groups: u32| -> Vec<&'static str> {
            (0..TEXTS).map(|_| &*text(&mut rng, groups).leak()).collect()
        };
        let scan =
            |table| connection.prepare(&format!("SELECT SUM(LENGTH(pad)) FROM sbtest{table}"));
        Ok(Self {
            tables: (1..=tables)
                .map(|table| Table::prepare(connection, table))
                .collect::<Result<_, _>>()?,
            begin: connection.prepare("BEGIN")?,
            begin_write: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            scans: (1..=tables).map(scan).collect::<Result<_, _>>()?,
            c: texts(10),
            pad: texts(5),
        })
    }

    /// Runs transactions until the time is over.
    ///
    /// # Errors
    /// When a statement fails.
    pub fn run(&self, connection: &Connection, share: &OltpShare) -> Result<OltpDone, SqliteError> {
        if share.workload == Workload::FullScan {
            return self.scan(connection);
        }
        let mut hand = Hand {
            oltp: self,
            rng: Rng::with_seed(share.seed),
            rows: i64::try_from(share.rows).unwrap_or(i64::MAX).max(1),
            queries: 0,
        };
        let mut done = OltpDone::default();
        let mut times = Latencies::new();
        let work = || -> Result<(), SqliteError> {
            let mut now = wall_ns();
            let end = now.saturating_add(share.duration_ns);
            while now < end {
                hand.transaction(share.workload)?;
                let after = wall_ns();
                times.record(after.saturating_sub(now));
                done.transactions += 1;
                now = after;
            }
            Ok(())
        };
        let ((), cost) = Meter::whole(connection, work)?;
        done.cost = Cost { operations: done.transactions, ..cost };
        done.queries = hand.queries;
        done.times = times.counts();
        Ok(done)
    }

    /// Reads every row of every table once, with an empty cache; the result counts pages.
    fn scan(&self, connection: &Connection) -> Result<OltpDone, SqliteError> {
        connection.release_memory();
        let work = || self.scans.iter().try_for_each(|scan| scan.run().map(drop));
        let ((), cost) = Meter::whole(connection, work)?;
        let pages = cost.logical_reads;
        let queries = self.scans.len() as u64;
        Ok(OltpDone { cost, transactions: pages, queries, times: Vec::new() })
    }
}

/// One run's random numbers and counts.
struct Hand<'a> {
    oltp: &'a Oltp,
    rng: Rng,
    rows: i64,
    queries: u64,
}

impl<'a> Hand<'a> {
    /// Returns a table: as in sysbench, one for all statements of a kind.
    fn table(&mut self) -> &'a Table {
        let tables = &self.oltp.tables;
        &tables[self.rng.usize(..tables.len())]
    }

    fn id(&mut self) -> i64 {
        self.rng.i64(1..=self.rows)
    }

    fn pick(&mut self, texts: &[&'static str]) -> Bound {
        texts[self.rng.usize(..texts.len())].into()
    }

    fn ask<const N: usize>(
        &mut self,
        statement: &Statement,
        values: [Bound; N],
    ) -> Result<(), SqliteError> {
        self.queries += 1;
        statement.run_with(values).map(drop)
    }

    fn transaction(&mut self, workload: Workload) -> Result<(), SqliteError> {
        let oltp = self.oltp;
        match workload {
            Workload::PointSelect => {
                let table = self.table();
                self.by_id(&table.point)
            }
            Workload::ReadOnly | Workload::ReadWrite | Workload::WriteOnly => {
                let writes = workload != Workload::ReadOnly;
                self.ask(if writes { &oltp.begin_write } else { &oltp.begin }, [])?;
                if workload != Workload::WriteOnly {
                    self.reads()?;
                }
                if writes {
                    self.writes()?;
                }
                self.ask(&oltp.commit, [])
            }
            Workload::UpdateIndex => self.update_index(),
            Workload::UpdateNonIndex => self.update_non_index(),
            Workload::Insert => {
                let table = self.table();
                let values = [self.id().into(), self.pick(&oltp.c), self.pick(&oltp.pad)];
                self.ask(&table.insert_new, values)
            }
            Workload::Delete => {
                let table = self.table();
                self.by_id(&table.delete)
            }
            // Run by `Oltp::scan`.
            Workload::FullScan => Ok(()),
        }
    }

    fn by_id(&mut self, statement: &Statement) -> Result<(), SqliteError> {
        let id = self.id();
        self.ask(statement, [id.into()])
    }

    fn reads(&mut self) -> Result<(), SqliteError> {
        let table = self.table();
        for _ in 0..POINTS {
            self.by_id(&table.point)?;
        }
        for kind in 0..table.ranges.len() {
            let (table, first) = (self.table(), self.id());
            self.ask(&table.ranges[kind], [first.into(), (first + RANGE - 1).into()])?;
        }
        Ok(())
    }

    fn writes(&mut self) -> Result<(), SqliteError> {
        self.update_index()?;
        self.update_non_index()?;
        let (table, id) = (self.table(), self.id());
        self.ask(&table.delete, [id.into()])?;
        let oltp = self.oltp;
        let values = [id.into(), self.id().into(), self.pick(&oltp.c), self.pick(&oltp.pad)];
        self.ask(&table.insert, values)
    }

    fn update_index(&mut self) -> Result<(), SqliteError> {
        let table = self.table();
        self.by_id(&table.update_index)
    }

    fn update_non_index(&mut self) -> Result<(), SqliteError> {
        let table = self.table();
        let values = [self.pick(&self.oltp.c), self.id().into()];
        self.ask(&table.update_non_index, values)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use tdekit_sqlite_client::Library;

    fn filled() -> Connection {
        let connection = Library::bundled().open(Path::new(":memory:")).unwrap();
        let mut rng = Rng::with_seed(1);
        for table in 1..=2 {
            connection.execute(&create(table)).unwrap();
            for _ in 0..200 {
                let (c, pad) = (text(&mut rng, 10), text(&mut rng, 5));
                let k = rng.u32(1..=200);
                connection
                    .execute(&format!(
                        "INSERT INTO sbtest{table}(k, c, pad) VALUES({k}, '{c}', '{pad}')"
                    ))
                    .unwrap();
            }
            connection.execute(&create_index(table)).unwrap();
        }
        connection
    }

    fn share(workload: Workload, duration_ns: u64) -> OltpShare {
        OltpShare { workload, tables: 2, rows: 200, duration_ns, seed: 5 }
    }

    #[test]
    fn every_workload_runs_with_sysbenchs_numbers_of_statements() {
        let connection = filled();
        let oltp = Oltp::prepare(&connection, 2).unwrap();
        for workload in Workload::ALL {
            if workload == Workload::FullScan {
                continue;
            }
            let done = oltp.run(&connection, &share(workload, 3_000_000)).unwrap();
            let each = match workload {
                Workload::ReadOnly => 16,
                Workload::ReadWrite => 20,
                Workload::WriteOnly => 6,
                _ => 1,
            };
            assert!(done.transactions > 0);
            assert_eq!(done.queries, done.transactions * each, "{workload:?}");
            assert_eq!(done.times.iter().map(|(_, count)| count).sum::<u64>(), done.transactions);
        }
        assert!(oltp.scan(&connection).unwrap().queries == 2);
    }

    #[test]
    fn texts_have_sysbenchs_lengths() {
        let mut rng = Rng::with_seed(1);
        assert_eq!((text(&mut rng, 10).len(), text(&mut rng, 5).len()), (119, 59));
    }

    #[test]
    fn reads_and_writes_leave_as_many_rows() {
        let connection = filled();
        let oltp = Oltp::prepare(&connection, 2).unwrap();
        oltp.run(&connection, &share(Workload::WriteOnly, 20_000_000)).unwrap();
        let count = connection.query_text("SELECT COUNT(*) FROM sbtest1").unwrap();
        assert_eq!(count.as_deref(), Some("200"));
    }
}
