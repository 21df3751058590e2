//! Gaps in archives of binary logs that were reported: `binlog-gaps.json` in the key store's
//! directory. It decides only whether a gap is a warning again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tdekit_backup_run::place::Place;
use tdekit_console::{GlobalArgs, session};
use tdekit_key_store::{read_ordinary, replace_with_mode};

use crate::error::CommandError;

const FILE_NAME: &str = "binlog-gaps.json";
const VERSION: u32 = 1;
const MODE: u32 = 0o600;
/// Longer files are not records.
const MAX_LEN: u64 = 1 << 20;

/// First and last number of logs that an archive lacks and the server purged.
pub(crate) type Gap = (u64, u64);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    version: u32,
    /// By the path or address of the archive.
    archives: BTreeMap<String, Vec<Gap>>,
}

/// The gaps of one archive that earlier runs reported.
#[derive(Debug)]
pub(crate) struct ReportedGaps {
    path: Option<PathBuf>,
    archive: String,
    record: Record,
}

impl ReportedGaps {
    /// Reads them. A file that cannot be read as a record of this version has none.
    pub(crate) fn of(global: &GlobalArgs, archive: &Place) -> Self {
        let path = session::kept_dir(global).ok().map(|dir| dir.join(FILE_NAME));
        let bytes = path.as_ref().and_then(|path| read_ordinary(path, MAX_LEN).ok()?);
        let record = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let record = record.filter(|record: &Record| record.version == VERSION).unwrap_or_default();
        let recorded = archive.recorded().map(|path| path.to_string_lossy().into_owned());
        Self { path, archive: recorded.unwrap_or_else(|| archive.shown()), record }
    }

    /// Returns true if the gap, or a longer one, was reported.
    pub(crate) fn has(&self, (first, last): Gap) -> bool {
        let known = self.record.archives.get(&self.archive);
        known.is_some_and(|known| known.iter().any(|gap| gap.0 <= first && last <= gap.1))
    }

    /// Records the gaps of the archive, each of which was reported.
    ///
    /// # Errors
    /// Errors of writing the file.
    pub(crate) fn record(&mut self, gaps: &[Gap]) -> Result<(), CommandError> {
        let known = self.record.archives.get(&self.archive).map_or(&[][..], Vec::as_slice);
        if known == gaps {
            return Ok(());
        }
        self.record.version = VERSION;
        match gaps {
            [] => drop(self.record.archives.remove(&self.archive)),
            _ => drop(self.record.archives.insert(self.archive.clone(), gaps.to_vec())),
        }
        let Some(path) = &self.path else { return Ok(()) };
        let bytes = serde_json::to_vec(&self.record).unwrap_or_default();
        Ok(replace_with_mode(path, &bytes, MODE)?)
    }
}
