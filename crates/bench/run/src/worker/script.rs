//! The user's own statements: run in their order as by an application, each measured alone with its
//! commit, SQLite's cache emptied before each. Their changes are undone outside of the timing, so
//! that every repetition and every side finds the same database.

use tdekit_sqlite_client::{Library, SqliteError};

use super::command::write_out;
use super::{Database, WorkerError};
use crate::error::BenchError;
use crate::job::Undo;
use crate::subject::remove_logs;
use tdekit_bench_work::{Cost, Meter};

/// A script that was tried.
pub(super) struct Script {
    statements: Vec<String>,
    undo: Undo,
}

impl Script {
    /// Runs the statements once, to determine which of them change the database, and undoes them.
    pub(super) fn plan(
        database: &mut Database,
        statements: Vec<String>,
        undo: Undo,
    ) -> Result<(Self, Vec<bool>), WorkerError> {
        let mut writes = Vec::new();
        for (number, sql) in (1..).zip(&statements) {
            let failed = |source: SqliteError| WorkerError::Statement { number, source };
            let statement = database.connection.prepare(sql).map_err(failed)?;
            if statement.parameters() > 0 {
                return Err(WorkerError::Parameters { number, sql: sql.clone() });
            }
            writes.push(!statement.is_read_only());
            statement.run().map_err(failed)?;
        }
        let undo = if writes.contains(&true) { undo } else { Undo::Nothing };
        Ok((Self { statements, undo }, writes))
    }

    /// Runs the script `times` times; returns the cost of each statement, all repetitions together.
    pub(super) fn run(
        &self,
        library: Library,
        database: &mut Database,
        times: u64,
    ) -> Result<Vec<Cost>, WorkerError> {
        // Starts from a fresh connection on the original database.
        self.put_back(library, database)?;
        let mut sums = vec![Cost::default(); self.statements.len()];
        for time in 0..times {
            for (sql, sum) in self.statements.iter().zip(&mut sums) {
                let connection = &database.connection;
                let statement = connection.prepare(sql)?;
                connection.release_memory();
                let (_, cost) = Meter::whole(connection, || statement.run())?;
                if time == 0 {
                    sum.start_ns = cost.start_ns;
                }
                sum.add(&cost);
                sum.end_ns = cost.end_ns;
                sum.operations += 1;
            }
            self.put_back(library, database)?;
        }
        Ok(sums)
    }

    /// Undoes the changes of the statements, and opens again: no repetition finds the caches of the
    /// previous one.
    fn put_back(&self, library: Library, database: &mut Database) -> Result<(), WorkerError> {
        if self.undo == Undo::Log {
            database.connection.keep_log_on_close()?;
        }
        database.reopen(library, |path| {
            if self.undo != Undo::Nothing {
                remove_logs(path)?;
            }
            if let Undo::Copy(from) = &self.undo {
                std::fs::copy(from, path).map_err(BenchError::file("cannot copy to", path))?;
                write_out(path, false)?;
            }
            Ok(())
        })
    }
}
