//! Making a backup set.

mod job;
mod plan;
mod publish;
mod record;
mod write;

pub use job::BackupJob;
pub use record::{add_recipients, sign};

use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

use tdekit_backup_media::payload::MAP_KEY_LEN;
use tdekit_backup_media::{
    Compression as StoredCompression, ContentHash, Family, Holds, Id, InArchive, SetHeader,
    SetKind as StoredKind, SetSecret, SetTexts, Source as StoredSource, clean_text,
};
use tdekit_key_crypto::SecretBytes;

use self::plan::Plan;
use self::write::Record;
use crate::error::At;
use crate::feed::LogSource;
use crate::media::base::{self, OpenBase};
use crate::names::{is_object_name, refuse_object};
use crate::options::{Compression, Labels, Mode, Source};
use crate::snapshot::Snapshot;
use crate::{
    Checked, Finding, Media, OwnSets, Recipient, Run, RunError, SetKind, Target, UnwrapSecret,
};

/// Result of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupOutcome {
    /// The media set.
    pub media_id: [u8; 16],
    /// The set.
    pub set_id: [u8; 16],
    /// SHA-256 of its trailer, of the first family.
    pub trailer_sha256: [u8; 32],
    /// Its position.
    pub position: u32,
    /// Full, differential or log.
    pub kind: SetKind,
    /// Position of the base of a differential set, or of the set before a log backup.
    pub base_position: Option<u32>,
    /// Set id of that set.
    pub base: Option<[u8; 16]>,
    /// Its file or object, if it is in another media set.
    pub base_media: Option<String>,
    /// The certificates that open it.
    pub recipients: Vec<Recipient>,
    /// Pages of the database; 0 for a stream.
    pub pages: u64,
    /// Page size; 0 for a stream.
    pub page_size: u32,
    /// Pages in the set: the changed ones, for a differential set.
    pub pages_stored: u64,
    /// Bytes of the source.
    pub source_bytes: u64,
    /// Bytes before compression.
    pub payload_bytes: u64,
    /// Bytes of the blocks as stored, over all families.
    pub stored_bytes: u64,
    /// Bytes added to each copy of the media set, over all families.
    pub media_bytes: u64,
    /// Start time, milliseconds since 1970.
    pub begun_ms: i64,
    /// Time of completion.
    pub finished_ms: i64,
    /// The bytes that a signature covers, for each family; empty if the set will not be signed.
    pub signable: Vec<Signable>,
    /// True if the set's signature was published with it; otherwise [`sign`] is due if there is
    /// something to sign.
    pub signed: bool,
    /// Result of SQLite's quick_check of the database.
    pub checked: Checked,
    /// Findings at the targets: an unfinished tail that was cut off, damaged records.
    pub findings: Vec<Finding>,
}

/// The bytes that a signature on a set covers, as they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signable {
    /// SHA-256 of the set's trailer.
    pub trailer_sha256: [u8; 32],
    /// The hash of its blocks.
    pub hash: ContentHash,
    /// SHA-256 over the hashes of all its blocks.
    pub content_sha256: [u8; 32],
}

/// Bytes of a full data block, before compression.
const BLOCK_SIZE: u32 = 1 << 20;
/// Number of blocks above which they grow, so that the index stays small in memory.
const MANY_BLOCKS: u64 = 256 << 10;
const MAX_BLOCK_SIZE: u32 = 4 << 20;

/// Makes a backup set at one or more targets: all or nothing.
///
/// # Errors
/// Any error that prevents the set; earlier sets at the targets are unchanged.
pub fn backup(
    job: BackupJob<'_>,
    targets: Vec<Box<dyn Target>>,
    run: &Run<'_>,
) -> Result<BackupOutcome, RunError> {
    backup_begun(job, None, targets, run)
}

/// As [`backup`], of what an archive has begun.
///
/// # Errors
/// As [`backup`].
pub(crate) fn backup_begun(
    job: BackupJob<'_>,
    begun: Option<Begun>,
    targets: Vec<Box<dyn Target>>,
    run: &Run<'_>,
) -> Result<BackupOutcome, RunError> {
    run.check()?;
    check_options(&job)?;
    let holds = if begun.is_some() { Holds::Archive } else { Holds::Backups };
    if begun.is_none() {
        let object = targets.iter().map(|target| target.name()).find(|name| is_object_name(name));
        refuse_object(object)?;
    }
    let mut plan = Plan::open(targets, (job.layout, holds), job.mode, now_ms())?;
    let media = plan.media.take();
    let has_log = |media: &&Media| media.sets().iter().any(|set| set.log.is_some());
    let object = media.as_ref().filter(has_log).and_then(|media| media.names().into_iter().next());
    refuse_object(object)?;
    if !job.allow_mixed {
        refuse_mixed(media.as_ref(), job.encryption.is_some())?;
    }
    let (source, begun_ms, archive) = Opened::of(job.source, begun)?;
    let base = match (&source, job.differential || job.log) {
        (Opened::Database(snapshot), true) => {
            let wanted = (&job.labels, job.log, (job.made_ms, job.own.as_ref()));
            Some(open_base((media.as_ref(), &job.bases), snapshot, wanted, job.base_keys)?)
        }
        _ => None,
    };
    let (secret, recipients) = match job.encryption {
        Some(encryption) => {
            let secret = SetSecret::random().map_err(|error| new_set().error(error))?;
            let recipients = encryption.recipients.wrap_secret(secret.as_bytes())?;
            (Some(secret), recipients)
        }
        None => (None, Vec::new()),
    };
    let map_key = source.map_key(base.as_ref(), job.page_map && !job.copy_only)?;
    let header = SetHeader {
        position: plan.position,
        kind: source.kind(base.as_ref(), job.log),
        source: source.stored(),
        compression: stored_compression(job.compression),
        algorithm: job.encryption.map(|encryption| encryption.algorithm),
        copy_only: job.copy_only,
        source_encrypted: source.encrypted_file_id().is_some(),
        // Fingerprints and their key reveal pages of the base: sealed there, they stay sealed.
        has_page_map: map_key.is_some()
            && (job.encryption.is_some() || !base.as_ref().is_some_and(OpenBase::is_encrypted)),
        family: Family::SINGLE,
        block_size: source.block_size(),
        begun_ms,
        expires_ms: job.expires_ms,
        database_id: source.encrypted_file_id().unwrap_or([0; 16]),
        archive,
        texts: texts(&job.labels),
        recipients: recipients.clone(),
    };
    let kind = kind_of(header.kind);
    let record = Record::begin(&mut plan, header, secret.as_ref(), job.signer)?;
    drop(secret);
    let last = write::Last { check: job.check, before_publish: job.before_publish };
    let body = record.write(source, base.as_ref(), map_key, (run, last))?;
    Ok(BackupOutcome {
        media_id: plan.media_id,
        set_id: body.set_id,
        trailer_sha256: body.trailer_sha256,
        position: plan.position,
        kind,
        base_position: base.as_ref().map(OpenBase::position),
        base: base.as_ref().map(|base| base.base.set_id),
        base_media: base.as_ref().and_then(|base| base.elsewhere.clone()),
        recipients,
        pages: body.pages,
        page_size: body.page_size,
        pages_stored: body.pages_stored,
        source_bytes: body.source_bytes,
        payload_bytes: body.payload_bytes,
        stored_bytes: body.stored_bytes,
        media_bytes: body.media_bytes,
        begun_ms,
        finished_ms: body.finished_ms,
        signable: body.signable,
        signed: body.signed,
        checked: body.checked,
        findings: plan.findings,
    })
}

/// What an archive has begun, and its place there.
pub(crate) enum Begun {
    /// A snapshot and its time.
    Snapshot(Box<Snapshot>, i64, InArchive),
    /// Transactions.
    Log(Box<dyn LogSource>, InArchive),
}

/// A source that is being read.
enum Opened {
    Database(Box<Snapshot>),
    Stream(Box<dyn Read + Send>),
    Log(Box<dyn LogSource>),
}

impl Opened {
    /// Opens a source. Returns the time of that too, and the place in its archive.
    fn of(
        source: Option<Source>,
        begun: Option<Begun>,
    ) -> Result<(Self, i64, Option<InArchive>), RunError> {
        let begun_ms = now_ms();
        Ok(match (begun, source) {
            (Some(Begun::Snapshot(snapshot, at_ms, place)), _) => {
                (Self::Database(snapshot), at_ms, Some(place))
            }
            (Some(Begun::Log(batch, place)), _) => {
                let begun_ms = batch.begun_ms();
                (Self::Log(batch), begun_ms, Some(place))
            }
            (None, Some(Source::Database(source))) => {
                let snapshot = Box::new(Snapshot::open(source)?);
                // Nothing that is committed later is in it.
                (Self::Database(snapshot), now_ms(), None)
            }
            (None, Some(Source::Stream(source))) => (Self::Stream(source.reader), begun_ms, None),
            (None, None) => return Err(RunError::Internal("a backup of nothing")),
        })
    }

    /// Returns the key of the page map: that of the base, or a new one for a full set if `wanted`.
    fn map_key(
        &self,
        base: Option<&OpenBase<'_>>,
        wanted: bool,
    ) -> Result<Option<SecretBytes>, RunError> {
        Ok(match (base, self) {
            (Some(base), _) => Some(base.map_key.try_clone()?),
            (None, Self::Database(_)) if wanted => Some(SecretBytes::random(MAP_KEY_LEN)?),
            _ => None,
        })
    }

    fn kind(&self, base: Option<&OpenBase<'_>>, log: bool) -> StoredKind {
        match (self, base) {
            (Self::Log(batch), _) => StoredKind::Log(batch.link()),
            (_, Some(base)) if log => StoredKind::LogState(base.base),
            (_, Some(base)) => StoredKind::Differential(base.base),
            (_, None) => StoredKind::Full,
        }
    }

    fn stored(&self) -> StoredSource {
        match self {
            Self::Database(snapshot) => {
                StoredSource::Database { page_size: snapshot.page_size(), pages: snapshot.pages() }
            }
            Self::Stream(_) => StoredSource::Stream,
            Self::Log(batch) => {
                StoredSource::Database { page_size: batch.page_size(), pages: batch.pages() }
            }
        }
    }

    fn encrypted_file_id(&self) -> Option<Id> {
        match self {
            Self::Database(snapshot) => snapshot.encrypted_file_id(),
            Self::Log(batch) => batch.encrypted_file_id(),
            Self::Stream(_) => None,
        }
    }

    fn block_size(&self) -> u32 {
        match self {
            // Its pages stand by what changed in them: larger blocks would win nothing.
            Self::Log(_) => BLOCK_SIZE,
            Self::Database(_) | Self::Stream(_) => block_size(self.bytes().unwrap_or(0)),
        }
    }

    /// `None` for a stream, whose end is not known.
    fn bytes(&self) -> Option<u64> {
        match self {
            Self::Database(snapshot) => {
                Some(u64::from(snapshot.pages()) * u64::from(snapshot.page_size()))
            }
            Self::Log(batch) => Some(batch.pages_stored() * u64::from(batch.page_size())),
            Self::Stream(_) => None,
        }
    }
}

fn kind_of(kind: StoredKind) -> SetKind {
    match kind {
        StoredKind::Full => SetKind::Full,
        StoredKind::Differential(_) => SetKind::Differential,
        StoredKind::Log(_) | StoredKind::LogState(_) => SetKind::Log,
    }
}

fn check_options(job: &BackupJob<'_>) -> Result<(), RunError> {
    let refuse = |what, reason: &str| Err(RunError::Option { what, reason: reason.to_owned() });
    if let Compression::Zstd { level } = job.compression
        && !((-7..=22).contains(&level) && level != 0)
    {
        return refuse("compression", "levels of zstd are -7 to -1 and 1 to 22");
    }
    let what = if job.log { "log" } else { "differential" };
    match (&job.source, job.differential || job.log) {
        _ if job.differential && job.log => refuse(what, "a differential set is another set"),
        (Some(Source::Stream(_)), true) => refuse(what, "a stream has no pages to compare"),
        (_, true) if job.copy_only && !job.log => refuse(what, "a set that is no base has none"),
        (_, true) if job.mode != Mode::Append => {
            refuse(what, "it is appended to the media set of its base")
        }
        _ => Ok(()),
    }
}

fn refuse_mixed(media: Option<&Media>, encrypted: bool) -> Result<(), RunError> {
    let Some(media) = media else { return Ok(()) };
    match media.sets().iter().find(|set| set.algorithm.is_some() != encrypted) {
        Some(_) => {
            let (has, wanted) =
                if encrypted { ("plain", "encrypted") } else { ("encrypted", "plain") };
            Err(RunError::MixedEncryption { has, wanted })
        }
        None => Ok(()),
    }
}

/// Opens the base.
fn open_base<'a>(
    (own, others): (Option<&'a Media>, &'a [Media]),
    snapshot: &Snapshot,
    (labels, log, (made_ms, of_database)): (&Labels, bool, (Option<i64>, Option<&OwnSets>)),
    keys: Option<&dyn UnwrapSecret>,
) -> Result<OpenBase<'a>, RunError> {
    let database_id = snapshot.encrypted_file_id().unwrap_or([0; 16]);
    let (name, path) = (clean_text(&labels.database_name), clean_text(&labels.path));
    let path = Some(path.as_str()).filter(|path| !path.is_empty());
    let (name, database_id) = (name.as_str(), &database_id);
    let wanted = base::Wanted { name, database_id, path, made_ms, own: of_database };
    let all: Vec<&Media> = own.into_iter().chain(others).collect();
    let (media, info) = base::find(&all, wanted, log)?;
    let mut base = OpenBase::open(media.volumes(), info, keys)?;
    if base.page_size() != snapshot.page_size() {
        let reason = "the database's page size has changed since".to_owned();
        return Err(RunError::NoBase { reason });
    }
    let elsewhere = own.is_none_or(|own| own.id() != media.id());
    base.elsewhere = media.names().into_iter().next().filter(|_| elsewhere);
    Ok(base)
}

fn texts(labels: &Labels) -> SetTexts {
    SetTexts {
        name: clean_text(&labels.set_name),
        database: clean_text(&labels.database_name),
        path: clean_text(&labels.path),
        host: clean_text(&labels.host),
        user: clean_text(&labels.user),
        description: clean_text(&labels.description),
        program: clean_text(&labels.program),
    }
}

fn stored_compression(compression: Compression) -> StoredCompression {
    match compression {
        Compression::None => StoredCompression::None,
        Compression::Lz4 => StoredCompression::Lz4,
        Compression::Zstd { level } => StoredCompression::Zstd(level),
    }
}

fn block_size(bytes: u64) -> u32 {
    let mut size = BLOCK_SIZE;
    while size < MAX_BLOCK_SIZE && bytes / u64::from(size) > MANY_BLOCKS {
        size *= 2;
    }
    size
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

fn new_set() -> At<'static> {
    At { media: "the new set", position: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greater_database_has_greater_blocks() {
        assert_eq!(block_size(0), 1 << 20);
        assert_eq!(block_size(256 << 30), 1 << 20);
        assert_eq!(block_size(300 << 30), 2 << 20);
        assert_eq!(block_size(1 << 60), 4 << 20);
    }
}
