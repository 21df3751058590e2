//! The media header: the first 96 bytes of every file of a media set.

use tdekit_key_crypto::sha256;

use crate::bytes::Reader;
use crate::error::{MediaError, Part};
use crate::hash::ContentHash;
use crate::payload::LogForm;
use crate::{Digest, Id};

/// First bytes of every file of a media set.
pub const MAGIC: [u8; 16] = *b"tdekit backup\0\0\0";
/// The newest format version that this build reads and writes.
pub const FORMAT_VERSION: u16 = 5;
/// The format versions of media sets that may hold log sets, by their form, and of those whose sets
/// have their place in the archive in the header.
const WHOLE_VERSION: u16 = 3;
const CHANGES_VERSION: u16 = 4;
const ARCHIVE_VERSION: u16 = 5;
/// Length of the media header in bytes.
pub const MEDIA_HEADER_LEN: usize = 96;
/// Maximum number of files over which one media set may be striped.
pub const MAX_FAMILIES: u16 = 256;

const BODY_LEN: usize = 64;
const PART: Part = Part::MediaHeader;

/// The file of a striped media set: blocks are distributed to the families in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Family {
    /// Number of the file, from 0.
    pub index: u16,
    /// Number of files, 1 to [`MAX_FAMILIES`].
    pub count: u16,
}

impl Family {
    /// The only family of a media set that is not striped.
    pub const SINGLE: Self = Self { index: 0, count: 1 };

    /// Returns the family of data block `number`, counted from 0 over all families.
    #[must_use]
    pub fn of_block(number: u64, count: u16) -> u16 {
        u16::try_from(number % u64::from(count.max(1))).unwrap_or(0)
    }

    /// Returns how many of `total` data blocks are in this family.
    #[must_use]
    pub fn share(self, total: u64) -> u64 {
        let (index, count) = (u64::from(self.index), u64::from(self.count.max(1)));
        total.saturating_sub(index).div_ceil(count)
    }

    pub(crate) fn check(self, part: Part) -> Result<(), MediaError> {
        let limit = MAX_FAMILIES.into();
        MediaError::check_limit(part, "count of families", self.count.into(), limit)?;
        if self.index < self.count {
            return Ok(());
        }
        Err(MediaError::malformed(part, "the family is not below the count of families"))
    }
}

/// The sets that a media set may hold: programs that do not know these call it newer than
/// themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Sets of backups.
    Backups,
    /// Log sets too, in this form.
    Logs(LogForm),
    /// One set of an archive, with its place there in the header.
    Archive,
}

/// The media header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaHeader {
    /// Random identity of the media set, equal in all its files.
    pub media_id: Id,
    /// The file of a striped set.
    pub family: Family,
    /// 0 for a file; on an object store, the number of the object.
    pub part: u32,
    /// Creation time, milliseconds since 1970-01-01 UTC.
    pub made_ms: i64,
    /// The hash of blocks in signatures that are made here. It determines the format version of
    /// backups.
    pub hash: ContentHash,
    /// The sets that it may hold.
    pub holds: Holds,
}

impl MediaHeader {
    /// Encodes the header.
    ///
    /// # Errors
    /// [`MediaError::Malformed`] or [`MediaError::Limit`] for an impossible family.
    pub fn encode(&self) -> Result<[u8; MEDIA_HEADER_LEN], MediaError> {
        self.family.check(PART)?;
        let mut out = [0; MEDIA_HEADER_LEN];
        let (body, checksum) = out.split_at_mut(BODY_LEN);
        body[..16].copy_from_slice(&MAGIC);
        let version = match self.holds {
            Holds::Backups => self.hash.version().into(),
            Holds::Logs(LogForm::Whole) => WHOLE_VERSION,
            Holds::Logs(LogForm::Changes) => CHANGES_VERSION,
            Holds::Archive => ARCHIVE_VERSION,
        };
        body[16..18].copy_from_slice(&version.to_le_bytes());
        body[20..36].copy_from_slice(&self.media_id);
        body[36..38].copy_from_slice(&self.family.index.to_le_bytes());
        body[38..40].copy_from_slice(&self.family.count.to_le_bytes());
        body[40..44].copy_from_slice(&self.part.to_le_bytes());
        body[44..52].copy_from_slice(&self.made_ms.to_le_bytes());
        checksum.copy_from_slice(&sha256(&[body]));
        Ok(out)
    }

    /// Reads the header from the first [`MEDIA_HEADER_LEN`] bytes of a file.
    ///
    /// # Errors
    /// [`MediaError::NotMedia`], [`MediaError::Truncated`], [`MediaError::FutureVersion`],
    /// [`MediaError::Damaged`], [`MediaError::Malformed`], [`MediaError::Limit`].
    pub fn decode(bytes: &[u8]) -> Result<Self, MediaError> {
        if !is_media(bytes) {
            return Err(MediaError::NotMedia);
        }
        let mut reader = Reader::new(PART, bytes);
        reader.take(MAGIC.len())?;
        let version = reader.u16()?;
        if version > FORMAT_VERSION {
            return Err(MediaError::FutureVersion { found: version, supported: FORMAT_VERSION });
        }
        let mut whole = Reader::new(PART, bytes);
        let body = whole.take(BODY_LEN)?;
        if whole.array::<32>()? != sha256(&[body]) {
            return Err(MediaError::damaged(PART, "its checksum does not match"));
        }
        let holds = match version {
            WHOLE_VERSION => Holds::Logs(LogForm::Whole),
            CHANGES_VERSION => Holds::Logs(LogForm::Changes),
            ARCHIVE_VERSION => Holds::Archive,
            _ => Holds::Backups,
        };
        let hash = match u8::try_from(version) {
            _ if holds != Holds::Backups => Some(ContentHash::NEW),
            Ok(version) => ContentHash::of_version(version),
            Err(_) => None,
        };
        let hash = hash.ok_or(MediaError::malformed(PART, "there is no such format version"))?;
        reader.zeros(2)?;
        let media_id = reader.array()?;
        let family = Family { index: reader.u16()?, count: reader.u16()? };
        family.check(PART)?;
        let (part, made_ms) = (reader.u32()?, reader.i64()?);
        reader.zeros(12)?;
        Ok(Self { media_id, family, part, made_ms, hash, holds })
    }

    /// Returns the SHA-256 of the header: the `previous` of the file's first record.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn digest(&self) -> Result<Digest, MediaError> {
        Ok(sha256(&[&self.encode()?]))
    }
}

/// Returns true if a file that begins with `bytes` (16 or more) is a media set.
#[must_use]
pub fn is_media(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}
