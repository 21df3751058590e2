//! ALTER INDEX .. REBUILD, and CHECKPOINT.

use std::time::{Duration, Instant};

use super::index::index_name;
use crate::ast::Name;
use crate::catalog::model::NULLS;
use crate::catalog::{Table, TableKind};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::db::failure;
use crate::run::work::Run;

/// How long CHECKPOINT waits for those who read and write.
const PATIENCE: Duration = Duration::from_secs(5);

impl Run<'_> {
    /// Rebuilds an index of a table, or all of them. A rowid table itself is no index.
    pub(crate) fn rebuild(&mut self, index: Option<&str>, name: &Name) -> Result<()> {
        let table = self.find(name)?.filter(|table| matches!(table.kind, TableKind::Table));
        let table = table.ok_or_else(|| Error::InvalidObject { name: name.text() })?;
        let wanted = match index {
            None => vec![table.sql()],
            Some(index) => self.stored_indexes(&table, index)?,
        };
        self.define(&table.schema.clone(), |run| {
            wanted.iter().try_for_each(|what| run.sql(&format!("REINDEX {what}"), &table.database))
        })
    }

    /// SQLite's names of an index; one over columns that may be NULL has two parts.
    fn stored_indexes(&mut self, table: &Table, index: &str) -> Result<Vec<String>> {
        let kernels = self.s.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        let full = index_name(&table.name, index);
        let named = self.named_constraints(table)?;
        let connection = self.s.db.connection()?;
        let sql = "SELECT name FROM pragma_index_list(?1, ?2)";
        let mut list = connection.prepare(sql).map_err(fail)?;
        let all = list.query_map([&table.name, &table.schema], |row| row.get::<_, String>(0));
        let all: Vec<String> =
            all.and_then(Iterator::collect::<rusqlite::Result<_>>).map_err(fail)?;
        let beside = format!("{full}{NULLS}");
        let is = |own: &String| [&full, &beside].iter().any(|name| own.eq_ignore_ascii_case(name));
        let own: Vec<String> = all.iter().filter(|own| is(own)).cloned().collect();
        // keys that stand in the table's own text have names of SQLite's: all are rebuilt for one
        let key = named.iter().any(|known| known.name.eq_ignore_ascii_case(index));
        match (own.is_empty(), key) {
            (false, _) => {
                let schema = quote(&table.schema);
                Ok(own.iter().map(|name| format!("{schema}.{}", quote(name))).collect())
            }
            (true, true) => Ok(vec![table.sql()]),
            (true, false) => {
                let (index, table) = (index.to_owned(), table.name.clone());
                Err(Error::NoIndex { index, table })
            }
        }
    }

    /// Writes the current database's log into its file, all of it.
    pub(crate) fn checkpoint(&mut self) -> Result<()> {
        let name = self.s.state.database.clone();
        let failed =
            |detail: &str| Error::NoCheckpoint { name: name.clone(), detail: detail.to_owned() };
        if self.s.state.transaction.is_open() {
            return Err(Error::feature("CHECKPOINT within a transaction"));
        }
        let schema = self.s.db.schema(&name)?;
        let sql = format!("PRAGMA {}.wal_checkpoint(FULL)", quote(&schema));
        let until = Instant::now() + PATIENCE;
        loop {
            let kernels = self.s.db.kernels.clone();
            let connection = self.s.db.connection()?;
            let busy = connection.query_row(&sql, [], |row| row.get::<_, i64>(0));
            match busy {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(failure(&kernels, &error, &name)),
            }
            if self.sink.cancelled() {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(failed("other sessions use it"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
