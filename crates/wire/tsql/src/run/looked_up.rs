//! The state in which functions of the running statement look up objects.

use std::sync::Arc;

use super::db::Db;
use crate::error::Result;
use crate::plan::LookUp;
use crate::run::catalog::model::Snapshot;

/// The state in which functions look up objects. SQLite's kernels and the session's own expressions
/// have the same.
#[derive(Default)]
pub(crate) struct LookedUp {
    snapshot: Option<Arc<Snapshot>>,
}

impl LookedUp {
    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_deref()
    }

    /// Called before a request: what an earlier one has read does not count.
    pub(super) fn forget(&mut self) {
        self.snapshot = None;
    }

    /// Reads what is looked up in these databases, for a login from its current database: these
    /// names, or all.
    pub(super) fn read(
        &mut self,
        db: &mut Db,
        wanted: &LookUp,
        (current, login): (&str, &str),
        databases: &[String],
        names: Option<&[String]>,
    ) -> Result<()> {
        let mut snapshot = db.snapshot(current, login, databases, names)?;
        if wanted.principals {
            snapshot.logins = db.host.logins()?;
            snapshot.entered = db.entered(current, wanted.access);
        }
        let snapshot = Arc::new(snapshot);
        db.kernels.set_snapshot(Some(snapshot.clone()));
        self.snapshot = Some(snapshot);
        Ok(())
    }
}
