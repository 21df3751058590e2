//! The place of a run's tables on an existing server.

use super::client::Client;
use super::swap::{ASIDE, TableSet};
use crate::error::{BenchError, Result};
use crate::progress::Progress;

/// The server's error for a user who may not create a database.
const ACCESS_DENIED: u32 = 1044;

/// A database of the run, or tables in an existing one. Dropping it drops them.
pub(super) struct Home<'a> {
    pub(super) client: Client,
    /// True if the database was created by the run.
    pub(super) own: bool,
    tables: u32,
    progress: &'a Progress,
    gone: bool,
}

impl<'a> Home<'a> {
    /// # Errors
    /// If the names of the run's tables are taken; then nothing was created.
    pub(super) fn make(mut client: Client, tables: u32, progress: &'a Progress) -> Result<Self> {
        let own = format!("{ASIDE}{:016x}", fastrand::u64(..));
        match client.sql(&create(&own)) {
            Ok(_) => {
                client.database = own;
                return Ok(Self { client, own: true, tables, progress, gone: false });
            }
            Err(BenchError::MySql { number: ACCESS_DENIED, .. }) => {}
            Err(error) => return Err(error),
        }
        if client.sql(&taken())?.trim() != "0" {
            let reason = format!(
                "the user may not make a database, and {} holds tables named sbtest* or {ASIDE}*",
                client.database
            );
            return Err(BenchError::option("--target", reason));
        }
        Ok(Self { client, own: false, tables, progress, gone: false })
    }

    /// Drops everything. If the server cannot be reached, returns what remains, with the statement
    /// that drops it.
    pub(super) fn leave(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.gone, true) {
            return None;
        }
        let leave = match self.own {
            true => drop_database(&self.client.database),
            false => TableSet::drop_all(self.tables),
        };
        let error = self.client.sql(&leave).err()?;
        Some(format!("the run's tables are still on the server ({error}); to remove them: {leave}"))
    }
}

impl Drop for Home<'_> {
    fn drop(&mut self) {
        // Without results there is no other place for it.
        if let Some(left) = self.leave() {
            self.progress.tell(&format!("warning: {left}"));
        }
    }
}

/// Returns the statement that creates the run's own database.
pub(super) fn create(database: &str) -> String {
    format!("CREATE DATABASE `{database}`")
}

/// Returns the statement that drops it.
pub(super) fn drop_database(database: &str) -> String {
    format!("DROP DATABASE `{database}`")
}

/// Returns the statement that counts tables with the run's names.
pub(super) fn taken() -> String {
    format!(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() \
         AND (table_name LIKE 'sbtest%' OR table_name LIKE '{ASIDE}%')"
    )
}
