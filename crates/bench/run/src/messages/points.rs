//! Selects of one row: the table, the prepared statement over a connection, and the same statement
//! by SQLite in the bench's own process.

use std::path::Path;

use fastrand::Rng;
use tdekit_sqlite_client::{Library, SqliteError, Statement};

use super::cells::double;
use super::tds::{Connection, Drained};
use crate::error::{BenchError, Result};

/// The database of the bench's own server that holds the table.
pub(super) const DATABASE: &str = "tdekit_points";
/// The table on a user's server: its databases are not modified.
const TEMPORARY: &str = "#tdekit_points";
const OWN: &str = "tdekit_points.dbo.points";
/// Bytes of text in a row.
const TEXT_BYTES: usize = 120;
/// Factor between a row's number and its second value.
const FACTOR: i32 = 7;
/// Cache that the endpoint gives a database, in KiB, negative as SQLite requires.
const CACHE_KIB: i32 = -2048;

/// Returns the statement, for the table of the bench's own server or for a temporary one.
pub(super) fn statement(own: bool) -> String {
    let table = if own { OWN } else { TEMPORARY };
    format!("SELECT c, k FROM {table} WHERE id = @id")
}

/// Returns numbers of rows to select.
pub(super) fn numbers(rng: &mut Rng, count: u32, rows: u32) -> Vec<i32> {
    let most = i32::try_from(rows).unwrap_or(i32::MAX);
    (0..count).map(|_| rng.i32(1..=most)).collect()
}

/// Creates the table on the bench's own server, in a separate database.
pub(super) fn make_database(connection: &mut Connection, rows: u32) -> Result<()> {
    connection.ask(&format!("CREATE DATABASE {DATABASE}"))?;
    connection.ask(&format!("USE {DATABASE}"))?;
    fill(connection, "points", rows)
}

/// `rows` is a power of two.
fn fill(connection: &mut Connection, table: &str, rows: u32) -> Result<()> {
    connection.ask(&format!(
        "CREATE TABLE {table} (id int NOT NULL PRIMARY KEY, c varchar({TEXT_BYTES}) NOT NULL, \
         k int NOT NULL)"
    ))?;
    let text: String = ('a'..='z').cycle().take(TEXT_BYTES).collect();
    connection.ask(&format!("INSERT INTO {table} (id, c, k) VALUES (1, '{text}', {FACTOR})"))?;
    double(connection, rows, |there| {
        format!(
            "INSERT INTO {table} (id, c, k) SELECT id + {there}, c, (id + {there}) * {FACTOR} \
             FROM {table}"
        )
    })
}

/// The statement as prepared on a connection.
pub(super) struct Prepared {
    handle: i32,
    /// Size of the answer to a call in bytes, the same for every row.
    answer_bytes: u64,
    /// Buffer for a message.
    message: Vec<u8>,
}

impl Prepared {
    /// Prepares it, and checks its answer for the first row. On a user's server a temporary table
    /// of `rows` rows is created for it.
    pub(super) fn make(connection: &mut Connection, own: bool, rows: u32) -> Result<Self> {
        if !own {
            fill(connection, TEMPORARY, rows)?;
        }
        let handle = connection.prepare("@id int", &statement(own))?;
        let mut made = Self { handle, answer_bytes: 0, message: Vec::new() };
        let first = connection.execute(&mut made.message, handle, &[1])?;
        if first.call != Some((1, FACTOR)) {
            return Err(mismatch(&format!("row 1 is answered with {:?}", first.call)));
        }
        made.answer_bytes = first.payload_bytes();
        Ok(made)
    }

    /// Selects rows, `each` of them in a message; returns packets, bytes and encrypted bytes of the
    /// answers.
    ///
    /// # Errors
    /// An answer of another length than expected, or whose last row is wrong.
    pub(super) fn run(
        &mut self,
        connection: &mut Connection,
        numbers: &[i32],
        each: usize,
    ) -> Result<(u64, u64, u64)> {
        let mut sum = (0, 0, 0);
        for asked in numbers.chunks(each.max(1)) {
            let found = connection.execute(&mut self.message, self.handle, asked)?;
            self.check(&found, asked)?;
            sum.0 += found.packets;
            sum.1 += found.bytes;
            sum.2 += found.wire_bytes;
        }
        Ok(sum)
    }

    fn check(&self, found: &Drained, asked: &[i32]) -> Result<()> {
        let last = asked.last().map(|number| (1, number * FACTOR));
        let calls = asked.len() as u64;
        if found.call == last && found.payload_bytes() == self.answer_bytes * calls {
            return Ok(());
        }
        Err(mismatch(&format!(
            "{calls} calls are answered with {} bytes instead of {} each, the last with {:?} \
             instead of {last:?}",
            found.payload_bytes(),
            self.answer_bytes,
            found.call
        )))
    }
}

/// The statement in the bench's own process.
pub(super) struct Direct {
    statement: Statement,
}

impl Direct {
    /// Opens the server's database; the library is the one that the server was built with, with the
    /// same cache size.
    pub(super) fn open(database: &Path) -> Result<Self> {
        let connection = Library::bundled().open(database).map_err(failed)?;
        connection
            .prepare(&format!("PRAGMA cache_size = {CACHE_KIB}"))
            .and_then(|pragma| pragma.run())
            .map_err(failed)?;
        let sql = "SELECT c, k FROM points WHERE id = ?1";
        Ok(Self { statement: connection.prepare(sql).map_err(failed)? })
    }

    /// Reads rows; each value is extracted as in a program.
    ///
    /// # Errors
    /// SQLite's, and a wrong row.
    pub(super) fn run(&self, numbers: &[i32]) -> Result<()> {
        for number in numbers {
            self.statement.bind_integer(1, i64::from(*number)).map_err(failed)?;
            let found = self.statement.step().map_err(failed)?;
            let text = self.statement.text(0);
            let fits =
                text.len() == TEXT_BYTES && self.statement.integer(1) == i64::from(number * FACTOR);
            self.statement.reset().map_err(failed)?;
            if !(found && fits) {
                return Err(mismatch(&format!("row {number} is another in the bench's process")));
            }
        }
        Ok(())
    }
}

fn mismatch(detail: &str) -> BenchError {
    BenchError::mismatch("point selects", detail)
}

fn failed(error: SqliteError) -> BenchError {
    BenchError::WorkerFailed { side: "in-process".to_owned(), message: error.to_string() }
}
