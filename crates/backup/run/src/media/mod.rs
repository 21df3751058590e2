//! A media set that is read: its sets, verifying, restoring.

pub(crate) mod base;
mod chain;
pub(crate) mod list;
mod newest;
mod only;
mod onto;
pub(crate) mod opened;
mod replay;
mod restore;
mod same;
mod states;
mod verify;
pub(crate) mod volume;

pub use chain::Chain;
pub use onto::Onto;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tdekit_backup_media::SetKind as StoredKind;

use self::list::Volumes;
use self::opened::OpenSet;
use crate::error::ArchiveError;
use crate::file::FileMedia;
use crate::{Finding, MediaSource, PageSink, Run, RunError, SetInfo, UnwrapSecret};

/// A media set that is read.
pub struct Media {
    volumes: Volumes,
    sets: Vec<SetInfo>,
    /// The last position, whether or not its set is readable.
    last: u32,
    findings: Vec<Finding>,
    /// Other media sets, with sets that those of this one stand on.
    others: Vec<Media>,
    /// The reason why no others were looked for, and whether another program caused it.
    unsearched: Option<(String, bool)>,
    /// Bases that the history knows on other media, and that are not there or cannot be read.
    lost: Vec<LostBase>,
}

/// A base that the history knows, and that cannot be taken from where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostBase {
    pub(crate) set_id: [u8; 16],
    pub(crate) why: Loss,
    /// The reason in words, with its place.
    pub(crate) reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Nothing, or other media, are there.
    Absent,
    /// What is there is not as it was written.
    Damaged,
    /// The place could not be looked at.
    OutOfReach,
}

/// Result of verifying. Damage is an entry, not an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Position of the set.
    pub position: u32,
    /// True if blocks were opened with the key (or are plain); otherwise only checksums, lengths
    /// and order were checked.
    pub opened: bool,
    /// Blocks that were checked, over all families.
    pub blocks: u64,
    /// Bytes of whole data blocks before compression; without a key, according to the headers.
    pub payload_bytes: u64,
    /// Damages found; empty when there are none.
    pub damages: Vec<String>,
    /// Blocks that are damaged in one mirror and whole in another.
    pub healed_blocks: u64,
    /// Blocks that are damaged in every mirror: the set cannot be restored.
    pub lost_blocks: u64,
    /// Blocks that are whole in two mirrors but differ.
    pub differing_blocks: u64,
    /// The state of the set's signatures.
    pub signatures: Vec<SignatureCheck>,
    /// The error about the set that it stands on, if that is not at hand: its own blocks say
    /// nothing of that.
    pub base: Option<NoBaseHere>,
}

/// The reason why the base of a set was not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoBaseHere {
    /// It is not there, or cannot be read.
    Lost {
        /// The reason in words.
        reason: String,
        /// True if it is not there, as far as is known.
        is_missing: bool,
    },
    /// The history, which knows where it is, cannot be read.
    NotSearched {
        /// The reason in words.
        reason: String,
        /// True if another program writes the history.
        is_busy: bool,
    },
}

/// A signature that was checked against the actual blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureCheck {
    /// The file of a striped media set, from 0.
    pub family: u16,
    /// Time of the signature, milliseconds since 1970, according to the signer.
    pub signed_ms: i64,
    /// The signer's certificate, X.509 DER. The caller decides whether to trust it.
    pub certificate_der: Vec<u8>,
    /// Its subject.
    pub subject: String,
    /// The fault; `None` if the signature is valid.
    pub problem: Option<&'static str>,
}

/// The outcome of a restore.
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
    /// Blocks that one mirror lacked and another supplied.
    pub healed_blocks: u64,
    /// Pages of log sets that were compared with the ones that were shipped, by their checks.
    pub compared_pages: u64,
}

impl Media {
    /// Opens the files or objects of one media set: any of its mirrors, all of its stripes. Some of
    /// the stripes are enough to list its content.
    ///
    /// # Errors
    /// `FutureVersion`, `OtherMedia`, `Io`; `NotMedia` or `Damaged` if no file has a whole media
    /// header. If only some files lack it, and for damaged records, there are findings.
    pub fn open(sources: Vec<Arc<dyn MediaSource>>) -> Result<Self, RunError> {
        let volumes = Volumes::open(sources)?;
        let (found, mut findings) = (volumes.sets(), volumes.findings());
        findings.extend(found.findings);
        let (sets, last) = (found.sets, found.last);
        let (others, lost) = (Vec::new(), Vec::new());
        Ok(Self { volumes, sets, last, findings, others, unsearched: None, lost })
    }

    /// As [`Self::open`], for appending: every file is readable.
    pub(crate) fn open_whole(sources: Vec<Arc<dyn MediaSource>>) -> Result<Self, RunError> {
        let mut media = Self::open(sources)?;
        media.volumes.refuse_unreadable()?;
        Ok(media)
    }

    /// As [`Self::open`], for files.
    ///
    /// # Errors
    /// As there, and `Missing`.
    pub fn open_files(paths: &[PathBuf]) -> Result<Self, RunError> {
        let open = |path: &PathBuf| Ok(Arc::new(FileMedia::open(path)?) as Arc<_>);
        Self::open(paths.iter().map(open).collect::<Result<_, RunError>>()?)
    }

    /// Returns the media id.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.volumes.media_id()
    }

    /// Returns the names of the files or objects.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.volumes.all.iter().map(|volume| volume.name.clone()).collect()
    }

    /// Returns the number of parts and of bytes of each file or object, in the order of
    /// [`Self::names`].
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn extents(&self) -> Result<Vec<(u32, u64)>, RunError> {
        let extent = |volume: &volume::Volume| {
            let parts = volume.source.parts();
            let bytes = (0..parts).try_fold(0_u64, |bytes, part| {
                Ok::<_, RunError>(bytes.saturating_add(volume.source.part_len(part)?))
            })?;
            Ok((parts, bytes))
        };
        self.volumes.all.iter().map(extent).collect()
    }

    /// Returns the number of files over which the media set is striped; 1 if it is not.
    #[must_use]
    pub fn families(&self) -> u16 {
        self.volumes.families
    }

    /// Returns all sets whose header can be read, in order of position.
    #[must_use]
    pub fn sets(&self) -> &[SetInfo] {
        &self.sets
    }

    /// Returns the last position, whether or not its set can be read.
    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    /// Returns the findings: unfinished tails, damaged records, missing stripes.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the set at a position; `None` means the newest that was ever finished here.
    ///
    /// # Errors
    /// `NoSet`; `Damaged` if sets after that position exist but it does not; without a position
    /// `NewestUnknown`, or `MissingFamily`.
    pub fn set(&self, position: Option<u32>) -> Result<&SetInfo, RunError> {
        let Some(position) = position else { return newest::newest(&self.volumes, &self.sets) };
        if let Some(found) = self.sets.iter().find(|set| set.position == position) {
            return Ok(found);
        }
        if (1..=self.last).contains(&position) {
            let media = self.names().into_iter().next().unwrap_or_default();
            let reason = "it is missing, or its header cannot be read".to_owned();
            return Err(RunError::Damaged { media, what: format!("set {position}"), reason });
        }
        let sets = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
        Err(RunError::NoSet { position, sets })
    }

    /// Returns the full set on which a differential set of this database would be based, if any;
    /// `file_id` is zeros for a plain database.
    #[must_use]
    pub fn base_for(&self, database_name: &str, file_id: &[u8; 16]) -> Option<&SetInfo> {
        let (name, made_ms) = (database_name, None);
        let wanted = base::Wanted { name, database_id: file_id, path: None, made_ms, own: None };
        base::candidate(self, wanted, false)
    }

    /// Adds a media set that sets of this one may stand on.
    pub fn add_other(&mut self, other: Self) {
        if self.all().all(|media| media.id() != other.id()) {
            self.others.push(other);
        }
    }

    /// Notes that the history, which knows the media sets with missing bases, cannot be read.
    pub(crate) fn note_unsearched(&mut self, error: &RunError) {
        self.unsearched = Some((error.to_string(), error.is_busy()));
    }

    /// Notes that a base which the history knows could not be taken from where it is.
    pub(crate) fn note_lost(&mut self, lost: LostBase) {
        self.lost.push(lost);
    }

    pub(crate) fn lost(&self) -> &[LostBase] {
        &self.lost
    }

    /// Returns what is known of a base that could not be taken from where the history has it.
    pub(crate) fn lost_base(&self, set_id: [u8; 16]) -> Option<&LostBase> {
        self.all().flat_map(Self::lost).find(|lost| lost.set_id == set_id)
    }

    /// Returns the identifiers of the sets, of [`Self::all`], that readers found damaged so far.
    pub(crate) fn damaged(&self) -> BTreeSet<[u8; 16]> {
        self.all().flat_map(|media| media.volumes.damaged()).collect()
    }

    /// Returns true if the history, which knows the media sets with missing bases, cannot be read.
    #[must_use]
    pub fn is_unsearched(&self) -> bool {
        self.unsearched.is_some()
    }

    /// Returns true if a set, or one that it stands on, has no base at hand.
    #[must_use]
    pub fn lacks_base(&self, set: &SetInfo) -> bool {
        let first = self.with_base(set).next();
        first.is_some_and(|first| first.base.is_some() && first.log.is_none())
    }

    /// Returns true if nothing shows that the base which a set lacks is there and cannot be read.
    #[must_use]
    pub fn is_base_missing(&self, set: &SetInfo) -> bool {
        let lacks = self.with_base(set).next().and_then(|first| first.base);
        match lacks.and_then(|base| self.lost_base(base)) {
            Some(lost) => lost.why == Loss::Absent,
            None => !self.media_of(set).findings().iter().any(Finding::hides_set),
        }
    }

    pub(crate) fn take_others(&mut self) -> Vec<Self> {
        std::mem::take(&mut self.others)
    }

    pub(crate) fn into_others(self) -> Vec<Self> {
        self.others
    }

    /// Returns this media set, then the others that were added.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// Returns true if sets stand on each of the others.
    pub(crate) fn uses_others(&self) -> bool {
        let all: Vec<&Self> = self.all().collect();
        let stands_on = |media: &Self, set: &SetInfo| {
            let base = base::of(&all, set);
            base.is_some_and(|base| media.sets.iter().any(|it| std::ptr::eq(it, base)))
        };
        self.others.iter().all(|other| {
            let mut above = self.all().filter(|media| media.id() != other.id());
            above.any(|media| media.sets.iter().any(|set| stands_on(other, set)))
        })
    }

    /// Returns true if the base of a set is missing, and all are of one database: then that base
    /// may stand on the others.
    pub(crate) fn lacks_a_link(&self) -> bool {
        let of = |set: &SetInfo| {
            let SetInfo { database_name, path, host, .. } = set;
            (database_name.clone(), path.clone(), host.clone())
        };
        let own = self.sets.last().map(of);
        self.missing_base(&BTreeSet::new()).is_some()
            && self.others.iter().all(|it| it.sets.iter().any(|set| Some(of(set)) == own))
    }

    /// Returns the media set that a set of [`Self::all`] is in.
    #[must_use]
    pub fn media_of(&self, set: &SetInfo) -> &Self {
        let holds = |media: &&Self| {
            media.sets.iter().any(|it| (it.set_id, it.ordinal) == (set.set_id, set.ordinal))
        };
        self.all().find(holds).unwrap_or(self)
    }

    /// Returns a set that the base of a set must be, if it is in none of [`Self::all`].
    pub(crate) fn missing_base(&self, except: &BTreeSet<[u8; 16]>) -> Option<[u8; 16]> {
        let all: Vec<&Self> = self.all().collect();
        let mut sets = all.iter().flat_map(|media| &media.sets).filter(|set| set.log.is_none());
        sets.find_map(|set| {
            let base = set.base.filter(|base| !except.contains(base))?;
            base::of(&all, set).is_none().then_some(base)
        })
    }

    /// Returns the sets that restoring a set reads: the bases of a differential set or of a log
    /// backup, as far as they exist, then the set.
    pub fn with_base<'a>(&'a self, set: &'a SetInfo) -> impl Iterator<Item = &'a SetInfo> {
        base::chain(&self.all().collect::<Vec<_>>(), set).into_iter()
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
        self.verify_set(self.set(position)?, keys, run)
    }

    /// As [`Self::verify`], for a set of [`Self::all`].
    ///
    /// # Errors
    /// As there.
    pub fn verify_set(
        &self,
        info: &SetInfo,
        keys: Option<&dyn UnwrapSecret>,
        run: &Run<'_>,
    ) -> Result<VerifyReport, RunError> {
        run.check()?;
        let volumes = &self.media_of(info).volumes;
        let set = OpenSet::open(volumes, info, keys)?;
        let (mut report, _) = verify::verify(&set, info, false, run)?;
        report.damages.extend(verify::check_recipients(volumes, &set));
        match self.base_of(info, &set) {
            Ok(_) => {}
            Err(RunError::NotCompared { finding: reason, is_busy, .. }) => {
                report.base = Some(NoBaseHere::NotSearched { reason, is_busy });
            }
            Err(error) if self.lacks_base(info) => {
                let is_missing = self.is_base_missing(info);
                report.base = Some(NoBaseHere::Lost { reason: error.to_string(), is_missing });
            }
            Err(error) => report.damages.push(error.to_string()),
        }
        if !report.damages.is_empty() {
            set.note_damage();
        }
        Ok(report)
    }

    /// Checks structure and checksums of a set of [`Self::all`], and that its base is the one that
    /// it was made on. Nothing is opened, and no signature checked. Returns the first damage.
    ///
    /// # Errors
    /// As [`Self::verify`].
    pub(crate) fn check_set(
        &self,
        info: &SetInfo,
        run: &Run<'_>,
    ) -> Result<Option<String>, RunError> {
        let mut set = OpenSet::open(&self.media_of(info).volumes, info, None)?;
        set.readable = false;
        let unsigned = SetInfo { signatures: Vec::new(), ..info.clone() };
        let (report, _) = verify::verify(&set, &unsigned, false, run)?;
        self.base_of(info, &set)?;
        Ok(report.damages.into_iter().next())
    }

    /// Restores a database: a full set, a differential one with its base, or a log backup with all
    /// that it stands on.
    ///
    /// # Errors
    /// Any error that prevents restoring the complete set; the sink is not finished then.
    pub fn restore_database(
        &self,
        position: Option<u32>,
        keys: Option<&dyn UnwrapSecret>,
        sink: &mut dyn PageSink,
        run: &Run<'_>,
    ) -> Result<RestoreOutcome, RunError> {
        run.check()?;
        self.chain(position, keys)?.restore_database(sink, run)
    }

    /// Opens a set for reading, with its bases. Their headers, trailers and indexes are checked
    /// here, once.
    ///
    /// # Errors
    /// As [`Self::set`] and [`Self::verify`]; `KeyNeeded`; `Damaged` for a missing base.
    pub fn chain(
        &self,
        position: Option<u32>,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<Chain<'_>, RunError> {
        let info = self.set(position)?;
        if info.log.is_some() {
            let media = self.names().into_iter().next().unwrap_or_default();
            return Err(ArchiveError::LogAlone { media }.into());
        }
        let mut sets = Vec::new();
        let mut next = Some(info);
        while let Some(info) = next {
            let set = OpenSet::open_readable(&self.media_of(info).volumes, info, keys)?;
            next = self.base_of(info, &set)?;
            sets.push((info, set));
        }
        sets.reverse();
        Ok(Chain::new(sets))
    }

    /// Opens a log backup without those that it stands on, for [`Chain::restore_onto`].
    ///
    /// # Errors
    /// As [`Self::chain`]; `NoBase` for a set without a page map.
    pub fn alone(
        &self,
        position: u32,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<Chain<'_>, RunError> {
        let info = self.set(Some(position))?;
        if !info.is_log_backup() || !info.page_map {
            let reason = format!("set {} is no log backup with a page map", info.position);
            return Err(RunError::NoBase { reason });
        }
        let set = OpenSet::open_readable(&self.volumes, info, keys)?;
        Ok(Chain::new(vec![(info, set)]))
    }

    /// Restores a stream. Bytes are written in order as their blocks are opened, so the bytes
    /// written before an error are correct but incomplete: the caller publishes only on `Ok`.
    ///
    /// # Errors
    /// Any error that prevents restoring the complete set.
    pub fn restore_stream(
        &self,
        position: Option<u32>,
        keys: Option<&dyn UnwrapSecret>,
        out: &mut (dyn Write + Send),
        run: &Run<'_>,
    ) -> Result<RestoreOutcome, RunError> {
        run.check()?;
        self.chain(position, keys)?.restore_stream(out, run)
    }

    pub(crate) fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Returns the base of a differential set or of a log backup, if it is one: it must exist
    /// before the set, or on other media, and be the very set on which it was made.
    fn base_of(&self, info: &SetInfo, set: &OpenSet<'_>) -> Result<Option<&SetInfo>, RunError> {
        let (base, log) = match set.header.kind {
            StoredKind::Full | StoredKind::Log(_) => return Ok(None),
            StoredKind::Differential(base) => (base, false),
            StoredKind::LogState(base) => (base, true),
        };
        let own = self.media_of(info);
        let damaged = |reason: &str| {
            let media = own.names().into_iter().next().unwrap_or_default();
            let what = format!("set {}", set.position);
            RunError::Damaged { media, what, reason: reason.to_owned() }
        };
        let all = self.all().flat_map(|media| media.sets.iter().map(move |info| (media, info)));
        let mut found = all.filter(|(_, info)| info.set_id == base.set_id).peekable();
        if found.peek().is_none() {
            let message = "its base is not in the media set, or cannot be read; if it is on other \
                           media, name these first";
            let lost = self.lost_base(base.set_id);
            let Some((error, is_busy)) = &self.unsearched else {
                return Err(match lost {
                    Some(LostBase { why: Loss::OutOfReach, reason, .. }) => RunError::BaseUnread {
                        media: own.names().into_iter().next().unwrap_or_default(),
                        position: set.position,
                        reason: reason.clone(),
                    },
                    Some(lost) => damaged(&format!("{message}: {}", lost.reason)),
                    None => damaged(message),
                });
            };
            let media = own.names().into_iter().next().unwrap_or_default();
            let finding = format!(
                "set {} stands on a set that is not in the media set, and the backup history, \
                 which knows the other media, cannot be read: {error}",
                set.position
            );
            return Err(RunError::NotCompared { media, finding, is_busy: *is_busy });
        }
        let is_base = |(media, info): &(&Self, &SetInfo)| {
            let header = media.volumes.header(0, info.ordinal);
            header.is_some_and(|(_, placed)| placed.record.digest() == base.trailer_sha256)
                && info.page_size == set.header.source.page_size()
                && (media.id() != own.id() || info.position < set.position)
                && (info.base.is_none() || log && info.is_log_backup())
        };
        match found.find(is_base) {
            Some((_, info)) => Ok(Some(info)),
            None => Err(damaged("its base is not the one it was made on")),
        }
    }
}

impl std::fmt::Debug for Media {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Media").field("names", &self.names()).finish_non_exhaustive()
    }
}
