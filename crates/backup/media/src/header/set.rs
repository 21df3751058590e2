//! The header of a backup set.

use tdekit_key_crypto::Algorithm;
use tdekit_key_store::WrappedDek;

use super::MAX_RECIPIENTS;
use super::place::InArchive;
use super::text::MAX_TEXT_LEN;
use crate::block::BlockRules;
use crate::bytes::{Reader, put_short, put_text};
use crate::compress::Compression;
use crate::error::MediaError;
use crate::frame::{COMMON_LEN, PART, RecordKind, RecordPlace, begin, finish, set_len};
use crate::keys::{COMMITMENT_LEN, SetKeys, SetSecret};
use crate::media::Family;
use crate::payload::{LOG_ENTRY_LEN, LogForm, PAGES_HEAD_LEN};
use crate::{Digest, Id};

/// Minimum block size in bytes.
pub const MIN_BLOCK_SIZE: u32 = 4096;
/// Maximum block size in bytes.
pub const MAX_BLOCK_SIZE: u32 = 8 * 1024 * 1024 - 4096;

/// From `position` to `base trailer`.
const FIXED_LEN: usize = 112;
/// Places of the type and the flags in a header.
const TYPE_AT: usize = COMMON_LEN + 4;
const FLAGS_AT: usize = COMMON_LEN + 8;
const FULL_TYPE: u8 = 1;
/// The type of a log set of an archive, and the bytes that only such a set has behind
/// `base trailer`.
const LOG_TYPE: u8 = 3;
const LOG_LEN: usize = 40;
/// The type of a log backup in a media set.
const LOG_STATE_TYPE: u8 = 4;
const MAX_WRAPPED_LEN: usize = 4096;
const COPY_ONLY: u8 = 1;
const SOURCE_ENCRYPTED: u8 = 2;
const HAS_PAGE_MAP: u8 = 4;
const HAS_CHANGES: u8 = 8;
const IN_ARCHIVE: u8 = 16;

/// The set on which a differential set, or a log backup, is based.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    /// Its set id.
    pub set_id: Id,
    /// SHA-256 of its trailer in family 0.
    pub trailer_sha256: Digest,
}

/// The place of a log set in an archive (`docs/format/archive.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLink {
    /// The set before it: the full set that begins the chain, or the log set before.
    pub before: Base,
    /// Set id of the full set that begins the chain.
    pub chain: Id,
    /// Number of its object in the archive.
    pub number: u64,
    /// Number of the object that holds the full set; the chain's objects have all numbers from
    /// there on.
    pub first: u64,
    /// Number of transactions in the set, at least 1.
    pub transactions: u32,
    /// The form of its pages.
    pub form: LogForm,
}

/// The part of its source that a set contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetKind {
    /// Everything.
    Full,
    /// The pages that changed since a full set.
    Differential(Base),
    /// The transactions that were committed since the set before, in an archive.
    Log(LogLink),
    /// A log backup in a media set: the pages that changed since the full set, or the log backup,
    /// before it.
    LogState(Base),
}

impl SetKind {
    /// Returns the number in a header.
    fn id(self) -> u8 {
        match self {
            Self::Full => FULL_TYPE,
            Self::Differential(_) => 2,
            Self::Log(_) => LOG_TYPE,
            Self::LogState(_) => LOG_STATE_TYPE,
        }
    }

    /// Returns the set that it stands on.
    fn base(self) -> Option<Base> {
        match self {
            Self::Full => None,
            Self::Differential(base) | Self::LogState(base) => Some(base),
            Self::Log(link) => Some(link.before),
        }
    }
}

/// The kinds of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A SQLite database.
    Database {
        /// Page size in bytes: a power of two from 512 to 65536.
        page_size: u32,
        /// Pages of the database in this state.
        pages: u32,
    },
    /// A stream of bytes.
    Stream,
}

impl Source {
    /// Returns the pages of the database; 0 for a stream.
    #[must_use]
    pub fn pages(self) -> u32 {
        match self {
            Self::Database { pages, .. } => pages,
            Self::Stream => 0,
        }
    }

    /// Returns the page size of the database in bytes; 0 for a stream.
    #[must_use]
    pub fn page_size(self) -> u32 {
        match self {
            Self::Database { page_size, .. } => page_size,
            Self::Stream => 0,
        }
    }
}

/// The texts of a set. Each has at most [`MAX_TEXT_LEN`] bytes and no control character
/// ([`super::clean_text`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetTexts {
    /// Name of the set.
    pub name: String,
    /// Name of the database.
    pub database: String,
    /// Path of the database.
    pub path: String,
    /// Host that it was backed up on.
    pub host: String,
    /// User who backed it up.
    pub user: String,
    /// The user's description.
    pub description: String,
    /// Program that wrote the set, such as `tdekit 0.1.0`.
    pub program: String,
}

impl SetTexts {
    fn each(&self) -> [&String; 7] {
        let Self { name, database, path, host, user, description, program } = self;
        [name, database, path, host, user, description, program]
    }
}

/// A set's secret, wrapped for one certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// Name of the certificate.
    pub name: String,
    /// The wrapped secret, with the certificate's thumbprints.
    pub wrapped: WrappedDek,
}

/// The header of a backup set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetHeader {
    /// 1 for the first set of the media, incremented for each set.
    pub position: u32,
    /// The part of its source that it contains.
    pub kind: SetKind,
    /// The kind of its source.
    pub source: Source,
    /// Compression of its blocks.
    pub compression: Compression,
    /// Algorithm that seals its blocks; `None` for plaintext.
    pub algorithm: Option<Algorithm>,
    /// True if no later differential set may be based on it.
    pub copy_only: bool,
    /// True if the source was an encrypted database.
    pub source_encrypted: bool,
    /// True if page-map blocks contain each page's fingerprint.
    pub has_page_map: bool,
    /// The file of a striped set.
    pub family: Family,
    /// Plaintext bytes of a full data block: [`MIN_BLOCK_SIZE`] to [`MAX_BLOCK_SIZE`], a multiple
    /// of 4096 and of the page size.
    pub block_size: u32,
    /// Start of the backup, milliseconds since 1970-01-01 UTC.
    pub begun_ms: i64,
    /// Time from which it may be overwritten, milliseconds since 1970-01-01 UTC; 0 means never.
    pub expires_ms: i64,
    /// File id of an encrypted database, zeros otherwise.
    pub database_id: Id,
    /// The place of a full set or log set in its archive; `None` for a set of a media set, and for
    /// one of an archive that was written before there were lineages.
    pub archive: Option<InArchive>,
    /// Names.
    pub texts: SetTexts,
    /// The set's secret, wrapped for each: 1 to [`MAX_RECIPIENTS`], or none if and only if there is
    /// no algorithm.
    pub recipients: Vec<Recipient>,
}

/// The bytes of a set's header, and the keys under it.
#[derive(Debug)]
pub struct EncodedSet {
    /// The whole header.
    pub bytes: Vec<u8>,
    /// `None` if and only if the set has no algorithm.
    pub keys: Option<SetKeys>,
}

impl SetHeader {
    /// Encodes the header, and derives the keys from it and `secret`, which is `Some` if and only
    /// if there is an algorithm. The families of a striped set share one secret, and each has its
    /// own header.
    ///
    /// # Errors
    /// [`MediaError::Malformed`], [`MediaError::Limit`], [`MediaError::Crypto`].
    pub fn encode(
        &self,
        place: &RecordPlace,
        secret: Option<&SetSecret>,
    ) -> Result<EncodedSet, MediaError> {
        self.check()?;
        if secret.is_some() != self.algorithm.is_some() {
            return Err(MediaError::malformed(PART, "a secret goes with an algorithm"));
        }
        let mut out = begin(RecordKind::Set, place);
        self.put_fixed(&mut out);
        for text in self.texts.each() {
            put_text(&mut out, PART, "a text's length", text, MAX_TEXT_LEN)?;
        }
        let mut tail = Vec::new();
        put_recipients(&mut tail, &self.recipients)?;
        let Some((secret, algorithm)) = secret.zip(self.algorithm) else {
            set_len(&mut out, tail.len())?;
            out.extend_from_slice(&tail);
            return Ok(EncodedSet { bytes: finish(out, None), keys: None });
        };
        set_len(&mut out, COMMITMENT_LEN + tail.len())?;
        let (keys, commitment) =
            SetKeys::derive(secret, algorithm, place.set_id, self.family.index, &out)?;
        out.extend_from_slice(&commitment);
        out.extend_from_slice(&tail);
        Ok(EncodedSet { bytes: finish(out, Some(&keys)), keys: Some(keys) })
    }

    /// Returns the limits for its blocks.
    #[must_use]
    pub fn block_rules(&self) -> BlockRules {
        let head = match self.source {
            Source::Database { .. } => PAGES_HEAD_LEN,
            Source::Stream => 0,
        };
        BlockRules {
            compression: self.compression != Compression::None,
            algorithm: self.algorithm,
            max_data_len: self.block_size.saturating_add(u32::try_from(head).unwrap_or(0)),
            page_map: self.has_page_map,
        }
    }

    /// Returns true if its pages stand by what changed.
    fn has_changes(&self) -> bool {
        matches!(self.kind, SetKind::Log(LogLink { form: LogForm::Changes, .. }))
    }

    /// Returns the number of pages in each data block of a full set but the last; 0 for a stream.
    #[must_use]
    pub fn pages_per_block(&self) -> u32 {
        self.block_size.checked_div(self.source.page_size()).unwrap_or(0)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, MediaError> {
        let mut set = Self::read_fixed(reader)?;
        let texts = &mut set.texts;
        let SetTexts { name, database, path, host, user, description, program } = texts;
        for text in [name, database, path, host, user, description, program] {
            *text = reader.text("a text's length", MAX_TEXT_LEN)?;
        }
        if set.algorithm.is_some() {
            reader.take(COMMITMENT_LEN)?;
        }
        set.recipients = read_recipients(reader)?;
        set.check()?;
        Ok(set)
    }

    fn put_fixed(&self, out: &mut Vec<u8>) {
        let no_base = Base { set_id: [0; 16], trailer_sha256: [0; 32] };
        let base = self.kind.base().unwrap_or(no_base);
        let (compression, level) = self.compression.id_and_level();
        let flags = if self.copy_only { COPY_ONLY } else { 0 }
            | if self.source_encrypted { SOURCE_ENCRYPTED } else { 0 }
            | if self.has_page_map { HAS_PAGE_MAP } else { 0 }
            | if self.has_changes() { HAS_CHANGES } else { 0 }
            | if self.archive.is_some() { IN_ARCHIVE } else { 0 };
        out.extend_from_slice(&self.position.to_le_bytes());
        out.push(self.kind.id());
        out.push(if self.source == Source::Stream { 2 } else { 1 });
        out.push(compression);
        out.push(self.algorithm.map_or(0, Algorithm::id));
        out.push(flags);
        out.extend_from_slice(&level.to_le_bytes());
        out.extend_from_slice(&self.family.index.to_le_bytes());
        out.extend_from_slice(&self.family.count.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.block_size.to_le_bytes());
        out.extend_from_slice(&self.source.page_size().to_le_bytes());
        out.extend_from_slice(&u64::from(self.source.pages()).to_le_bytes());
        out.extend_from_slice(&self.begun_ms.to_le_bytes());
        out.extend_from_slice(&self.expires_ms.to_le_bytes());
        out.extend_from_slice(&self.database_id);
        out.extend_from_slice(&base.set_id);
        out.extend_from_slice(&base.trailer_sha256);
        debug_assert_eq!(out.len(), COMMON_LEN + FIXED_LEN);
        if let SetKind::Log(link) = self.kind {
            out.extend_from_slice(&link.chain);
            out.extend_from_slice(&link.number.to_le_bytes());
            out.extend_from_slice(&link.first.to_le_bytes());
            out.extend_from_slice(&link.transactions.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            debug_assert_eq!(out.len(), COMMON_LEN + FIXED_LEN + LOG_LEN);
        }
        if let Some(archive) = &self.archive {
            archive.put(out);
        }
    }

    fn read_fixed(reader: &mut Reader<'_>) -> Result<Self, MediaError> {
        let position = reader.u32()?;
        let (kind, source) = (reader.u8()?, reader.u8()?);
        let (compression, algorithm) = (reader.u8()?, reader.u8()?);
        let (flags, level) = (reader.u8()?, i8::from_le_bytes(reader.array()?));
        let family = Family { index: reader.u16()?, count: reader.u16()? };
        reader.zeros(2)?;
        let (block_size, page_size, pages) = (reader.u32()?, reader.u32()?, reader.u64()?);
        let (begun_ms, expires_ms) = (reader.i64()?, reader.i64()?);
        let database_id = reader.array()?;
        let base = Base { set_id: reader.array()?, trailer_sha256: reader.array()? };
        let no_base = base.set_id == [0; 16] && base.trailer_sha256 == [0; 32];
        let form = if flags & HAS_CHANGES == 0 { LogForm::Whole } else { LogForm::Changes };
        let kind = match kind {
            FULL_TYPE if no_base => SetKind::Full,
            2 if !no_base => SetKind::Differential(base),
            LOG_TYPE if !no_base => SetKind::Log(read_link(reader, base, form)?),
            LOG_STATE_TYPE if !no_base => SetKind::LogState(base),
            1..=LOG_STATE_TYPE => {
                return Err(MediaError::malformed(PART, "type and base do not agree"));
            }
            _ => return Err(MediaError::malformed(PART, "there is no such type of set")),
        };
        let source = match source {
            1 => Source::Database {
                page_size,
                pages: u32::try_from(pages).map_err(|_| MediaError::Limit {
                    part: PART,
                    what: "pages",
                    value: pages,
                    limit: u32::MAX.into(),
                })?,
            },
            2 if page_size == 0 && pages == 0 => Source::Stream,
            2 => return Err(MediaError::malformed(PART, "a stream has no pages")),
            _ => return Err(MediaError::malformed(PART, "there is no such source")),
        };
        let compression = Compression::from_id_and_level(compression, level)?;
        let algorithm = match algorithm {
            0 => None,
            id => Some(Algorithm::from_id(id).ok_or(MediaError::UnknownAlgorithm { id })?),
        };
        let known = COPY_ONLY | SOURCE_ENCRYPTED | HAS_PAGE_MAP | HAS_CHANGES | IN_ARCHIVE;
        if flags & !known != 0 {
            return Err(MediaError::malformed(PART, "there is no such flag"));
        }
        let archive = match flags & IN_ARCHIVE != 0 {
            true => Some(InArchive::read(reader, kind == SetKind::Full)?),
            false => None,
        };
        let set = Self {
            position,
            kind,
            source,
            compression,
            algorithm,
            copy_only: flags & COPY_ONLY != 0,
            source_encrypted: flags & SOURCE_ENCRYPTED != 0,
            has_page_map: flags & HAS_PAGE_MAP != 0,
            family,
            block_size,
            begun_ms,
            expires_ms,
            database_id,
            archive,
            texts: SetTexts::default(),
            recipients: Vec::new(),
        };
        if flags & HAS_CHANGES != 0 && !set.has_changes() {
            return Err(MediaError::malformed(PART, "a flag of log sets"));
        }
        Ok(set)
    }

    /// Checks the rules that apply to both reading and writing.
    fn check(&self) -> Result<(), MediaError> {
        let rule = |holds: bool, reason| match holds {
            true => Ok(()),
            false => Err(MediaError::malformed(PART, reason)),
        };
        self.family.check(PART)?;
        rule(self.position > 0, "positions begin with 1")?;
        let sizes = MIN_BLOCK_SIZE..=MAX_BLOCK_SIZE;
        rule(sizes.contains(&self.block_size), "its block size is out of bounds")?;
        rule(self.block_size.is_multiple_of(4096), "its block size is no multiple of 4096")?;
        if let Source::Database { page_size, .. } = self.source {
            let valid = page_size.is_power_of_two() && (512..=65536).contains(&page_size);
            rule(valid, "there is no such page size")?;
            let whole = self.block_size.is_multiple_of(page_size);
            rule(whole, "its block size is no multiple of its page size")?;
        } else {
            rule(self.kind == SetKind::Full, "a stream has full sets only")?;
            rule(!self.has_page_map, "a stream has no page map")?;
        }
        if let Some(base) = self.kind.base() {
            rule(base.set_id != [0; 16], "a set that is not full needs its base")?;
        }
        if let SetKind::Log(link) = self.kind {
            rule(!self.has_page_map, "a log set has no page map")?;
            rule(link.transactions > 0, "a log set without transactions")?;
            let follows = link.first > 0 && link.first < link.number;
            rule(follows, "a log set has a number behind that of its full set")?;
            let is_second = link.number - link.first == 1;
            rule(is_second == (link.before.set_id == link.chain), "number and chain disagree")?;
            let room = self.source.page_size().saturating_add(LOG_ENTRY_LEN);
            rule(self.block_size >= room, "its block size is too small for a page of a log")?;
        }
        if let Some(archive) = &self.archive {
            let is_log = matches!(self.kind, SetKind::Log(_));
            rule(is_log || self.kind == SetKind::Full, "a set that no archive has")?;
            rule(self.source != Source::Stream, "a stream in an archive")?;
            rule(is_log == archive.full.is_none(), "its place is that of another type")?;
            let in_order = archive.full.is_none_or(|full| full.is_in_order());
            rule(in_order, "its number is not behind that of the object before")?;
        }
        if let Compression::Zstd(level) = self.compression {
            rule((-7..=22).contains(&level) && level != 0, "there is no such level of zstd")?;
        }
        let sealed = self.algorithm.is_some();
        rule(sealed != self.recipients.is_empty(), "recipients and algorithm do not agree")
    }
}

/// Returns the number of bytes before the commitment in a set's header: the context of its keys.
pub(crate) fn context_len(header: &[u8]) -> Result<usize, MediaError> {
    let mut reader = Reader::new(PART, header);
    reader.take(COMMON_LEN + FIXED_LEN)?;
    if header.get(TYPE_AT) == Some(&LOG_TYPE) {
        reader.take(LOG_LEN)?;
    }
    if header.get(FLAGS_AT).is_some_and(|flags| flags & IN_ARCHIVE != 0) {
        InArchive::pass(&mut reader, header.get(TYPE_AT) == Some(&FULL_TYPE))?;
    }
    for _ in 0..7 {
        reader.short("a text's length", MAX_TEXT_LEN)?;
    }
    Ok(header.len() - reader.rest_len())
}

fn read_link(reader: &mut Reader<'_>, before: Base, form: LogForm) -> Result<LogLink, MediaError> {
    let chain = reader.array()?;
    let (number, first) = (reader.u64()?, reader.u64()?);
    let transactions = reader.u32()?;
    reader.zeros(4)?;
    Ok(LogLink { before, chain, number, first, transactions, form })
}

pub(super) fn put_recipients(
    out: &mut Vec<u8>,
    recipients: &[Recipient],
) -> Result<(), MediaError> {
    let (count, limit) = (recipients.len(), MAX_RECIPIENTS);
    MediaError::check_limit(PART, "recipients", count as u64, limit as u64)?;
    out.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes());
    for recipient in recipients {
        put_text(out, PART, "a name's length", &recipient.name, MAX_TEXT_LEN)?;
        let wrapped = recipient.wrapped.encode();
        let wrapped =
            wrapped.map_err(|_| MediaError::malformed(PART, "a wrapped key is too long"))?;
        put_short(out, PART, "a wrapped key's length", &wrapped, MAX_WRAPPED_LEN)?;
    }
    Ok(())
}

pub(super) fn read_recipients(reader: &mut Reader<'_>) -> Result<Vec<Recipient>, MediaError> {
    let count = reader.u16()?;
    MediaError::check_limit(PART, "recipients", count.into(), MAX_RECIPIENTS as u64)?;
    let mut recipients = Vec::new();
    for _ in 0..count {
        let name = reader.text("a name's length", MAX_TEXT_LEN)?;
        let bytes = reader.short("a wrapped key's length", MAX_WRAPPED_LEN)?;
        let unreadable = |_| MediaError::malformed(PART, "a wrapped key cannot be read");
        let (wrapped, len) = WrappedDek::decode(bytes).map_err(unreadable)?;
        if len != bytes.len() {
            return Err(MediaError::malformed(PART, "bytes follow a wrapped key"));
        }
        recipients.push(Recipient { name, wrapped });
    }
    Ok(recipients)
}
