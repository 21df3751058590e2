//! The place of a run's tables on a server that is there.

use super::client::Client;
use super::swap::{ASIDE, TableSet};
use crate::error::{BenchError, Result};
use crate::progress::Progress;

/// The server's error for a user who may not make a database.
const ACCESS_DENIED: u32 = 1044;

/// A database of the run's own, or tables in one that was there. Dropping it drops them.
pub(super) struct Home<'a> {
    pub(super) client: Client,
    /// Whether the database is the run's own.
    pub(super) own: bool,
    tables: u32,
    progress: &'a Progress,
    gone: bool,
}

impl<'a> Home<'a> {
    /// # Errors
    /// Where the names of the run's tables are taken; then nothing was made.
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

    /// Drops everything. What a server that is gone keeps is told, with what drops it.
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
        // Without results there is no other place.
        if let Some(left) = self.leave() {
            self.progress.tell(&format!("warning: {left}"));
        }
    }
}

/// The statement that makes the run's own database.
pub(super) fn create(database: &str) -> String {
    format!("CREATE DATABASE `{database}`")
}

/// The statement that drops it.
pub(super) fn drop_database(database: &str) -> String {
    format!("DROP DATABASE `{database}`")
}

/// The statement that counts tables in the way of the run's.
pub(super) fn taken() -> String {
    format!(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() \
         AND (table_name LIKE 'sbtest%' OR table_name LIKE '{ASIDE}%')"
    )
}
