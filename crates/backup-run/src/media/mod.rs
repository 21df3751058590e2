//! A media set that is read: its sets, verifying, restoring.

pub(crate) mod base;
pub(crate) mod list;
pub(crate) mod opened;
mod restore;
mod verify;
pub(crate) mod volume;

pub(crate) use verify::content_digest;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tdekit_backup_media::SetKind as StoredKind;

use self::list::Volumes;
use self::opened::OpenSet;
use crate::file::FileMedia;
use crate::{Finding, MediaSource, PageSink, Run, RunError, SetInfo, SourceKind, UnwrapSecret};

/// A media set that is read.
pub struct Media {
    volumes: Volumes,
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
    /// Bytes of whole data blocks before compression; without a key, as the headers say.
    pub payload_bytes: u64,
    /// What is wrong; empty when nothing is.
    pub damages: Vec<String>,
    /// Blocks that are damaged in one mirror and whole in another.
    pub healed_blocks: u64,
    /// What became of the set's signatures.
    pub signatures: Vec<SignatureCheck>,
}

/// A signature that was checked against the blocks as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureCheck {
    /// The file of a striped media set, from 0.
    pub family: u16,
    /// When it was signed, milliseconds since 1970, as the signer says.
    pub signed_ms: i64,
    /// The signer's certificate, X.509 DER. Whether it is to be trusted is the caller's to tell.
    pub certificate_der: Vec<u8>,
    /// Its subject.
    pub subject: String,
    /// What is wrong; `None` where the signature holds.
    pub problem: Option<&'static str>,
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
    /// Opens the files or objects of one media set: any of its mirrors, all of its stripes. Some
    /// of the stripes are enough to see what the media set holds.
    ///
    /// # Errors
    /// `NotMedia`, `FutureVersion`, `OtherMedia`, `Damaged` for a media header, `Io`. Damaged
    /// records are findings.
    pub fn open(sources: Vec<Arc<dyn MediaSource>>) -> Result<Self, RunError> {
        let volumes = Volumes::open(sources)?;
        let (sets, findings) = (volumes.sets(), volumes.findings());
        Ok(Self { volumes, sets, findings })
    }

    /// As [`Self::open`], for files.
    ///
    /// # Errors
    /// As there, and `Missing`.
    pub fn open_files(paths: &[PathBuf]) -> Result<Self, RunError> {
        let open = |path: &PathBuf| Ok(Arc::new(FileMedia::open(path)?) as Arc<_>);
        Self::open(paths.iter().map(open).collect::<Result<_, RunError>>()?)
    }

    /// The media id.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.volumes.media_id()
    }

    /// Names of the files or objects.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.volumes.all.iter().map(|volume| volume.name.clone()).collect()
    }

    /// Files that the media set is striped over; 1 where it is not.
    #[must_use]
    pub fn families(&self) -> u16 {
        self.volumes.families
    }

    /// All sets whose header can be read, in order of position.
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

    /// Checks a set: with keys (or for a plain set) every block of every mirror is opened, without
    /// keys structure and checksums are checked. Signatures are checked, too.
    ///
    /// # Errors
    /// `NoSet`, `MissingFamily`, `Store` or `WrongKey` for keys that do not fit, `Damaged` or
    /// `Tampered` for a header, trailer or index without which no block is found, `Io`,
    /// `Cancelled`.
    pub fn verify(
        &self,
        position: Option<u32>,
        keys: Option<&dyn UnwrapSecret>,
        run: &Run<'_>,
    ) -> Result<VerifyReport, RunError> {
        run.check()?;
        let info = self.set(position)?;
        let set = OpenSet::open(&self.volumes, info, keys)?;
        let mut report = verify::verify(&set, info, run)?;
        report.damages.extend(verify::check_recipients(&self.volumes, &set));
        if let Err(error) = self.base_of(&set) {
            report.damages.push(error.to_string());
        }
        Ok(report)
    }

    /// Restores a database: a full set, or a differential one with its base.
    ///
    /// # Errors
    /// Whatever keeps the set from being restored whole; the sink is not finished then.
    pub fn restore_database(
        &self,
        position: Option<u32>,
        keys: Option<&dyn UnwrapSecret>,
        sink: &mut dyn PageSink,
        run: &Run<'_>,
    ) -> Result<RestoreOutcome, RunError> {
        run.check()?;
        let info = self.set(position)?;
        refuse_other(info, SourceKind::Database)?;
        let set = OpenSet::open_readable(&self.volumes, info, keys)?;
        let chain = match self.base_of(&set)? {
            Some(base) => {
                let base_set = OpenSet::open_readable(&self.volumes, base, keys)?;
                vec![base_set, set]
            }
            None => vec![set],
        };
        restore::database(&chain, sink, run)
    }

    /// Restores a stream. Bytes are written in order as their blocks are opened, so what was
    /// written before an error is right but not all: the caller publishes only on `Ok`.
    ///
    /// # Errors
    /// Whatever keeps the set from being restored whole.
    pub fn restore_stream(
        &self,
        position: Option<u32>,
        keys: Option<&dyn UnwrapSecret>,
        out: &mut (dyn Write + Send),
        run: &Run<'_>,
    ) -> Result<RestoreOutcome, RunError> {
        run.check()?;
        let info = self.set(position)?;
        refuse_other(info, SourceKind::Stream)?;
        let set = OpenSet::open_readable(&self.volumes, info, keys)?;
        restore::stream(&set, out, run)
    }

    pub(crate) fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// The base of a differential set, if it is one: there, and the very set that it was made on.
    fn base_of(&self, set: &OpenSet<'_>) -> Result<Option<&SetInfo>, RunError> {
        let StoredKind::Differential(base) = set.header.kind else { return Ok(None) };
        let found = self.sets.iter().find(|info| info.set_id == base.set_id);
        let missing = || RunError::NoBase {
            reason: format!("the base of set {} is not in the media set", set.position),
        };
        let info = found.ok_or_else(missing)?;
        let same = |ordinal| {
            let (_, placed) = self.volumes.header(0, ordinal)?;
            Some(placed.record.digest() == base.trailer_sha256)
        };
        let fits = same(info.ordinal) == Some(true)
            && info.page_size == set.header.source.page_size()
            && info.base.is_none();
        if fits {
            return Ok(Some(info));
        }
        let reason = format!("set {} is not the one it was made on", info.position);
        Err(RunError::NoBase { reason })
    }
}

fn refuse_other(info: &SetInfo, wanted: SourceKind) -> Result<(), RunError> {
    let name = |kind| match kind {
        SourceKind::Database => "a database",
        SourceKind::Stream => "a stream",
    };
    if info.source == wanted {
        return Ok(());
    }
    let (holds, wanted) = (name(info.source), name(wanted));
    Err(RunError::WrongSource { position: info.position, holds, wanted })
}

impl std::fmt::Debug for Media {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Media").field("names", &self.names()).finish_non_exhaustive()
    }
}
