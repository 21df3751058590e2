//! Runs of `prune` that have not ended, with what went already.

use super::pruned::Doomed;
use super::{Catalog, failed};
use crate::RunError;

/// A file or object that a run of `prune` which has not ended recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) doomed: Doomed,
    /// True if it was recorded that it is gone.
    pub(crate) is_over: bool,
    /// True if the history knows it as a full set.
    pub(crate) is_full: bool,
}

impl Catalog {
    /// Returns all that runs of `prune` recorded of which not everything is recorded as gone.
    pub(crate) fn unfinished_removals(&self) -> Result<Vec<Removal>, RunError> {
        let read = || {
            let sql = "SELECT media_uuid, physical_device_name, parts, bytes,
                     prune_date IS NOT NULL,
                     EXISTS(SELECT * FROM backupset AS s
                         WHERE s.media_uuid = p.media_uuid AND s.type = 'D')
                 FROM prunedmedia AS p
                 WHERE begin_date IN (SELECT begin_date FROM prunedmedia WHERE prune_date IS NULL)
                 ORDER BY physical_device_name, media_uuid";
            let mut list = self.db.prepare(sql)?;
            let rows = list.query_map([], |row| {
                let doomed = Doomed {
                    media_uuid: row.get(0)?,
                    device: row.get(1)?,
                    parts: row.get(2)?,
                    bytes: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
                };
                Ok(Removal { doomed, is_over: row.get(4)?, is_full: row.get(5)? })
            })?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(failed("read", &self.path))
    }
}
