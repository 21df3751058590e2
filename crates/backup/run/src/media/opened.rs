//! A set whose headers, keys and index were checked, and its blocks.

use tdekit_backup_media::payload::Metadata;
use tdekit_backup_media::{
    BLOCK_HEADER_LEN, BlockHeader, BlockKey, BlockKind, BlockOpener, ContentHash, Digest, Id,
    Index, IndexEntry, LogForm, LogLink, RecordFields, SetHeader, SetKeys, SetKind, SetSecret,
    Trailer,
};

use super::list::Volumes;
use super::volume::{Placed, Volume};
use crate::error::At;
use crate::{RunError, SetInfo, UnwrapSecret};

/// A set that is read.
pub(crate) struct OpenSet<'a> {
    pub(crate) position: u32,
    pub(crate) set_id: Id,
    pub(crate) header: &'a SetHeader,
    pub(crate) families: Vec<OpenFamily<'a>>,
    /// True if blocks can be opened: with keys, or because they are plain.
    pub(crate) readable: bool,
    volumes: &'a Volumes,
}

/// The part of a set in one family.
pub(crate) struct OpenFamily<'a> {
    pub(crate) copies: Vec<(&'a Volume, &'a Placed)>,
    pub(crate) index: Index,
    pub(crate) trailer: Trailer,
    pub(crate) keys: Option<SetKeys>,
    /// Indexes of the data blocks.
    pub(crate) data: Vec<u32>,
    /// True if a copy had no sound index.
    pub(crate) healed: bool,
    /// Digests of the verified blocks, by index: only these blocks are opened then.
    pub(crate) pinned: Option<(ContentHash, Vec<Digest>)>,
}

impl<'a> OpenSet<'a> {
    /// Checks headers, MACs and indexes. Without keys, an encrypted set is not readable. Damage is
    /// noted.
    pub(crate) fn open(
        volumes: &'a Volumes,
        info: &SetInfo,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<Self, RunError> {
        Self::check(volumes, info, keys).inspect_err(|error| {
            if error.is_damage() {
                volumes.note_damage(info.set_id);
            }
        })
    }

    fn check(
        volumes: &'a Volumes,
        info: &SetInfo,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<Self, RunError> {
        let (position, ordinal) = (info.position, info.ordinal);
        if let (None, Some(damage)) = (volumes.missing_family(), &info.damage) {
            let media = volumes.all.first().map_or_else(String::new, |it| it.name.clone());
            let what = format!("set {position}");
            return Err(RunError::Damaged { media, what, reason: damage.clone() });
        }
        if let Some(family) = volumes.missing_family() {
            return Err(RunError::MissingFamily { family, families: volumes.families });
        }
        let secret = match (info.algorithm, keys) {
            (Some(_), Some(keys)) => Some(unwrap(volumes, info, keys)?),
            _ => None,
        };
        let mut families = Vec::new();
        let mut header = None;
        for family in 0..volumes.families {
            let copies = volumes.copies(family, ordinal);
            let Some((volume, placed)) = copies.first().copied() else {
                return Err(lacking(volumes, family, position));
            };
            let at = At { media: &volume.name, position };
            let set = match &placed.record.header {
                Ok(found) if found.place.set_id == info.set_id => found.as_set(),
                _ => None,
            };
            let Some(set) = set else { return Err(lacking(volumes, family, position)) };
            if !agrees(header.get_or_insert(set), set) {
                let (media, what) = (volume.name.clone(), format!("set {position}"));
                let reason = "its header and that of another stripe do not agree".to_owned();
                return Err(RunError::Damaged { media, what, reason });
            }
            let keys = match &secret {
                Some(secret) => {
                    let keys = SetKeys::of_set(&placed.record.header_bytes, secret);
                    let keys = keys.map_err(|error| at.error(error))?;
                    let trailer = keys.check_trailer(&placed.record.trailer_bytes);
                    trailer.map_err(|error| at.error(error))?;
                    Some(keys)
                }
                None => None,
            };
            families.push(open_family(copies, set, keys, position)?);
        }
        let header = header.ok_or(RunError::Internal("a set of no family"))?;
        let readable = info.algorithm.is_none() || secret.is_some();
        Ok(Self { position, set_id: info.set_id, header, families, readable, volumes })
    }

    /// Notes that a reader found it damaged.
    pub(crate) fn note_damage(&self) {
        self.volumes.note_damage(self.set_id);
    }

    /// As [`Self::open`], for a set that must be readable.
    pub(crate) fn open_readable(
        volumes: &'a Volumes,
        info: &SetInfo,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<Self, RunError> {
        let set = Self::open(volumes, info, keys)?;
        if set.readable { Ok(set) } else { Err(RunError::KeyNeeded { position: info.position }) }
    }

    /// Returns the number of transactions of a log set.
    pub(crate) fn log_transactions(&self) -> Option<u32> {
        self.log_link().map(|link| link.transactions)
    }

    /// Returns the place of a log set in its archive.
    pub(crate) fn log_link(&self) -> Option<LogLink> {
        match self.header.kind {
            SetKind::Log(link) => Some(link),
            SetKind::Full | SetKind::Differential(_) | SetKind::LogState(_) => None,
        }
    }

    /// Returns the form of a log set's pages.
    pub(crate) fn log_form(&self) -> LogForm {
        self.log_link().map_or(LogForm::Changes, |link| link.form)
    }

    /// Returns the number of data blocks over all families.
    pub(crate) fn data_blocks(&self) -> u64 {
        self.families.first().map_or(0, |family| family.trailer.data_blocks)
    }

    /// Returns their bytes before compression.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.families.iter().map(|family| family.trailer.data_bytes).sum()
    }

    /// Returns family and index of the data block with this number over all families.
    pub(crate) fn data_block(&self, number: u64) -> Option<(usize, u32)> {
        let count = self.families.len() as u64;
        let family = usize::try_from(number.checked_rem(count)?).ok()?;
        let at = usize::try_from(number / count).ok()?;
        Some((family, *self.families.get(family)?.data.get(at)?))
    }

    /// Reads the metadata, which is in family 0.
    pub(crate) fn metadata(&self) -> Result<Metadata, RunError> {
        let family = self.families.first().ok_or(RunError::Internal("a set of no family"))?;
        let last = u32::try_from(family.index.entries.len().saturating_sub(1)).unwrap_or(0);
        let mut reader = BlockReader::new(self)?;
        let mut payload = Vec::new();
        reader.read(self, (0, last), &mut payload)?;
        let name = family.copies.first().map_or("", |(volume, _)| &volume.name);
        let at = At { media: name, position: self.position };
        Metadata::decode(&payload).map_err(|error| at.error(error))
    }

    /// Returns the index entry of a block.
    pub(crate) fn entry(&self, (family, index): (usize, u32)) -> Option<&IndexEntry> {
        let index = usize::try_from(index).ok()?;
        self.families.get(family)?.index.entries.get(index)
    }
}

/// Returns true if the headers of a set in two families agree.
fn agrees(first: &SetHeader, other: &SetHeader) -> bool {
    SetHeader { family: first.family, ..other.clone() } == *first
}

fn open_family<'a>(
    copies: Vec<(&'a Volume, &'a Placed)>,
    set: &SetHeader,
    keys: Option<SetKeys>,
    position: u32,
) -> Result<OpenFamily<'a>, RunError> {
    let mut failed = None;
    let mut opened = None;
    for (volume, placed) in &copies {
        match read_index(volume, placed, set, position) {
            Ok(index) => {
                opened.get_or_insert((index, placed.record.trailer));
            }
            Err(error) => failed = Some(error),
        }
    }
    let healed = failed.is_some();
    let Some((index, trailer)) = opened else {
        return Err(failed.unwrap_or(RunError::Internal("a record of no file")));
    };
    let kinds = index.entries.iter().zip(0..);
    let data = kinds.filter(|(entry, _)| entry.kind == BlockKind::Data).map(|(_, at)| at).collect();
    Ok(OpenFamily { copies, index, trailer, keys, data, healed, pinned: None })
}

fn read_index(
    volume: &Volume,
    placed: &Placed,
    set: &SetHeader,
    position: u32,
) -> Result<Index, RunError> {
    let trailer = &placed.record.trailer;
    // The record was found to be whole, so the index is no longer than the file.
    let mut bytes = vec![0; usize::try_from(trailer.index_len).unwrap_or(usize::MAX)];
    let offset = placed.record.start.saturating_add(trailer.index_offset);
    volume.source.read_at(placed.part, offset, &mut bytes)?;
    let at = At { media: &volume.name, position };
    Index::open(&bytes, set, trailer).map_err(|error| at.error(error))
}

fn lacking(volumes: &Volumes, family: u16, position: u32) -> RunError {
    let media = volumes.of_family(family).next().map_or_else(String::new, |v| v.name.clone());
    let reason = "its header is not there, or cannot be read".to_owned();
    RunError::Damaged { media, what: format!("set {position}"), reason }
}

/// Unwraps the secret through a recipient of the set's header or of a later record. Only a secret
/// that fits the header's commitment is accepted, so a record that somebody inserted cannot hide
/// the real recipients.
pub(crate) fn unwrap(
    volumes: &Volumes,
    info: &SetInfo,
    keys: &dyn UnwrapSecret,
) -> Result<SetSecret, RunError> {
    let family = volumes.any_family();
    let Some((header, placed)) = volumes.header(family, info.ordinal) else {
        return Err(lacking(volumes, family, info.position));
    };
    let name = volumes.of_family(family).next().map_or("", |volume| &volume.name);
    let at = At { media: name, position: info.position };
    let mut groups = Vec::new();
    groups.extend(header.as_set().map(|set| &set.recipients));
    for ordinal in volumes.ordinals() {
        if let Some((header, _)) = volumes.header(family, ordinal)
            && let RecordFields::Recipients(more) = &header.fields
            && header.place.set_id == info.set_id
        {
            groups.push(&more.recipients);
        }
    }
    let mut refusal = None;
    for group in groups {
        let wrapped: Vec<_> = group.iter().map(|recipient| recipient.wrapped.clone()).collect();
        let opened = keys.unwrap_secret(&wrapped).map_err(RunError::from).and_then(|secret| {
            let secret = SetSecret::from_unwrapped(secret).map_err(|error| at.error(error))?;
            SetKeys::of_set(&placed.record.header_bytes, &secret)
                .map_err(|error| at.error(error))?;
            Ok(secret)
        });
        match opened {
            Ok(secret) => return Ok(secret),
            Err(error @ RunError::Tampered { .. }) => return Err(error),
            Err(error) => refusal = Some(more_telling(refusal, error)),
        }
    }
    Err(refusal.unwrap_or(RunError::KeyNeeded { position: info.position }))
}

/// Selects the refusal to report among several groups of recipients: one for which a key was
/// available, otherwise all certificates that would do.
fn more_telling(before: Option<RunError>, now: RunError) -> RunError {
    use tdekit_key_store::StoreError::{CertificateMissing, OtherCertificate};
    match (before, now) {
        (
            Some(RunError::Store(OtherCertificate { given, mut wanted })),
            RunError::Store(OtherCertificate { wanted: more, .. }),
        ) => {
            wanted.extend(more);
            RunError::Store(OtherCertificate { given, wanted })
        }
        (
            Some(RunError::Store(CertificateMissing { mut wanted })),
            RunError::Store(CertificateMissing { wanted: more }),
        ) => {
            wanted.extend(more);
            RunError::Store(CertificateMissing { wanted })
        }
        (Some(before), RunError::Store(CertificateMissing { .. })) => before,
        (_, now) => now,
    }
}

/// Reads and opens blocks of one set, for one thread.
pub(crate) struct BlockReader {
    opener: BlockOpener,
    keys: Vec<BlockKey>,
    raw: Vec<u8>,
}

impl BlockReader {
    pub(crate) fn new(set: &OpenSet<'_>) -> Result<Self, RunError> {
        let at = At { media: "", position: set.position };
        let opener = BlockOpener::new(set.header.compression).map_err(|error| at.error(error))?;
        let key = |(family, number): (&OpenFamily<'_>, u16)| match &family.keys {
            Some(keys) => keys.block_key(),
            None => Ok(BlockKey::plain(set.set_id, number)),
        };
        let keys = set.families.iter().zip(0..).map(key).collect::<Result<_, _>>();
        Ok(Self { opener, keys: keys.map_err(|error| at.error(error))?, raw: Vec::new() })
    }

    /// Returns the bytes of the block that was last read, including its header.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Opens a block into `out`, whose length is set. Returns true if a copy was damaged and
    /// another one supplied it.
    pub(crate) fn read(
        &mut self,
        set: &OpenSet<'_>,
        block: (usize, u32),
        out: &mut Vec<u8>,
    ) -> Result<bool, RunError> {
        let entry = set.entry(block).ok_or(RunError::Internal("a block of no entry"))?;
        out.resize(usize::try_from(entry.payload_len).unwrap_or(usize::MAX), 0);
        self.read_into(set, block, out)
    }

    /// As [`Self::read`], into a buffer with the payload's length.
    pub(crate) fn read_into(
        &mut self,
        set: &OpenSet<'_>,
        block: (usize, u32),
        out: &mut [u8],
    ) -> Result<bool, RunError> {
        let copies = set.families.get(block.0).map_or(0, |family| family.copies.len());
        let mut failed = None;
        for copy in 0..copies {
            match self.read_copy(set, block, copy, out) {
                Ok(()) => return Ok(failed.is_some()),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        let failed = failed.unwrap_or(RunError::Internal("a block of no file"));
        if failed.is_damage() {
            set.note_damage();
        }
        Err(failed)
    }

    /// Opens a block of one copy.
    pub(crate) fn read_copy(
        &mut self,
        set: &OpenSet<'_>,
        block: (usize, u32),
        copy: usize,
        out: &mut [u8],
    ) -> Result<(), RunError> {
        let (header, at) = self.fetch(set, block, copy)?;
        let key = self.keys.get_mut(block.0).ok_or(RunError::Internal("a block of no family"))?;
        let stored = self.raw.get(BLOCK_HEADER_LEN..).unwrap_or_default();
        self.opener.open(key, &header, stored, out).map_err(|error| at.error(error))
    }

    /// Checks a block of one copy without a key.
    pub(crate) fn check_copy(
        &mut self,
        set: &OpenSet<'_>,
        block: (usize, u32),
        copy: usize,
    ) -> Result<(), RunError> {
        let (header, at) = self.fetch(set, block, copy)?;
        let stored = self.raw.get(BLOCK_HEADER_LEN..).unwrap_or_default();
        header.check_stored(stored).map_err(|error| at.error(error))
    }

    /// Reads a block's bytes, and checks its header against the index.
    fn fetch<'a>(
        &mut self,
        set: &'a OpenSet<'_>,
        block: (usize, u32),
        copy: usize,
    ) -> Result<(BlockHeader, At<'a>), RunError> {
        const NONE: RunError = RunError::Internal("a block of no entry");
        let entry = set.entry(block).ok_or(NONE)?;
        let family = set.families.get(block.0).ok_or(NONE)?;
        let (volume, placed) = family.copies.get(copy).ok_or(NONE)?;
        let at = At { media: &volume.name, position: set.position };
        self.raw.resize(usize::try_from(entry.block_len()).unwrap_or(usize::MAX), 0);
        let offset = placed.record.start.saturating_add(entry.offset);
        volume.source.read_at(placed.part, offset, &mut self.raw)?;
        let head = self.raw.first_chunk().ok_or(NONE)?;
        let header = BlockHeader::decode(head).map_err(|error| at.error(error))?;
        entry.check(block.1.into(), &header).map_err(|error| at.error(error))?;
        let index = usize::try_from(block.1).unwrap_or(usize::MAX);
        let other = |(hash, digests): &(ContentHash, Vec<Digest>)| {
            digests.get(index) != Some(&hash.of_block(&self.raw))
        };
        if family.pinned.as_ref().is_some_and(other) {
            let (media, what) = (volume.name.clone(), format!("set {}", set.position));
            let reason = format!("block {} is not the one that was verified", block.1);
            return Err(RunError::Damaged { media, what, reason });
        }
        Ok((header, at))
    }
}
