//! The files of a media set together: families, mirrors, sets.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tdekit_backup_media::{
    Compression as StoredCompression, Id, RecordFields, RecordHeader, RecordKind, SetHeader,
    SetKind as StoredKind, Source as StoredSource, Trailer,
};

use super::volume::{Placed, Prepared, Volume};
use crate::output::lock;
use crate::{
    Compression, Finding, MediaSource, RunError, SetInfo, SetKind, SignatureInfo, SourceKind,
};

/// The sets of a media set.
pub(super) struct Sets {
    /// Sets whose header can be read, in order.
    pub(super) sets: Vec<SetInfo>,
    /// Faults of their positions.
    pub(super) findings: Vec<Finding>,
    /// The last position, readable or not; 0 without a set.
    pub(super) last: u32,
}

/// The files of a media set.
pub(crate) struct Volumes {
    pub(crate) all: Vec<Volume>,
    /// Number of files over which the media set is striped.
    pub(crate) families: u16,
    /// Files whose own header is damaged, and the fault. Others are read.
    unreadable: Vec<(String, RunError)>,
    /// Sets that a reader found damaged.
    damaged: Mutex<BTreeSet<Id>>,
}

impl Volumes {
    pub(crate) fn open(sources: Vec<Arc<dyn MediaSource>>) -> Result<Self, RunError> {
        let (mut all, mut unreadable) = (Vec::new(), Vec::new());
        for source in sources {
            let name = source.name();
            match Volume::open(source) {
                Ok(volume) => all.push(volume),
                Err(
                    error @ (RunError::NotMedia { .. }
                    | RunError::Damaged { .. }
                    | RunError::ShortRead { .. }),
                ) => unreadable.push((name, error)),
                Err(error) => return Err(error),
            }
        }
        let Some(first) = all.first() else {
            let nothing = || RunError::NotMedia { media: "nothing".to_owned() };
            return Err(unreadable.into_iter().next().map_or_else(nothing, |(_, error)| error));
        };
        let (media_id, families) = (first.header.media_id, first.header.family.count);
        for volume in &all {
            let header = &volume.header;
            if (header.media_id, header.family.count) != (media_id, families) {
                let (first, media) = (first.name.clone(), volume.name.clone());
                return Err(RunError::OtherMedia { first, media });
            }
        }
        Ok(Self { all, families, unreadable, damaged: Mutex::default() })
    }

    /// Notes that a reader found a set damaged.
    pub(crate) fn note_damage(&self, set_id: Id) {
        lock(&self.damaged).insert(set_id);
    }

    /// Returns the sets that readers found damaged so far.
    pub(crate) fn damaged(&self) -> BTreeSet<Id> {
        lock(&self.damaged).clone()
    }

    /// Fails if a file was left out: nothing may be appended then.
    pub(crate) fn refuse_unreadable(&mut self) -> Result<(), RunError> {
        match self.unreadable.pop() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    pub(crate) fn of_family(&self, family: u16) -> impl Iterator<Item = &Volume> {
        self.all.iter().filter(move |volume| volume.header.family.index == family)
    }

    /// Returns the first family without a file.
    pub(crate) fn missing_family(&self) -> Option<u16> {
        (0..self.families).find(|family| self.of_family(*family).next().is_none())
    }

    pub(crate) fn media_id(&self) -> Id {
        self.all.first().map_or([0; 16], |volume| volume.header.media_id)
    }

    /// Returns the record in each copy of a family, copies with a readable header first.
    pub(crate) fn copies(&self, family: u16, ordinal: u32) -> Vec<(&Volume, &Placed)> {
        let copies = self.of_family(family);
        let mut copies: Vec<_> = copies
            .filter_map(|volume| volume.record(ordinal).map(|placed| (volume, placed)))
            .collect();
        copies.sort_by_key(|(_, placed)| placed.record.header.is_err());
        if let Some((_, first)) = copies.first() {
            // A mirror with different content does not replace it.
            let digest = first.record.digest();
            copies.retain(|(_, placed)| placed.record.digest() == digest);
        }
        copies
    }

    /// Returns true if mirrors of a family have different records in one place.
    pub(crate) fn conflicts(&self, family: u16, ordinal: u32) -> bool {
        let mut digests = self
            .of_family(family)
            .filter_map(|volume| volume.record(ordinal))
            .map(|placed| placed.record.digest());
        let first = digests.next();
        digests.any(|digest| Some(digest) != first)
    }

    /// Returns the files with the fewest and with the most records, if stripes differ.
    pub(crate) fn uneven_stripes(&self) -> Option<(&Volume, &Volume)> {
        let last = |volume: &&Volume| volume.records.last().map_or(0, Placed::ordinal);
        let longest = |family| self.of_family(family).max_by_key(last);
        let each: Vec<&Volume> = (0..self.families).filter_map(longest).collect();
        let (oldest, newest) =
            (each.iter().copied().min_by_key(last)?, each.iter().copied().max_by_key(last)?);
        (last(&oldest) < last(&newest)).then_some((oldest, newest))
    }

    /// Returns the record that some stripes lack and that is published in others, if each stripe
    /// that lacks it has all of it and its trailer prepared: the places in [`Self::all`], and the
    /// prepared records.
    pub(crate) fn half_published(&self) -> Option<Vec<(usize, Prepared)>> {
        let (_, newest) = self.uneven_stripes()?;
        let last = newest.records.last()?;
        let set_id = last.record.header.as_ref().ok()?.place.set_id;
        let lacking = self.all.iter().enumerate();
        let lacking = lacking.filter(|(_, volume)| volume.record(last.ordinal()).is_none());
        let prepared = lacking.map(|(at, volume)| {
            let found = volume.prepared()?;
            let same = found.set_id == set_id && found.kind == last.record.trailer.kind;
            let next = volume.link().ok()?.ordinal == last.ordinal();
            (same && next).then_some((at, found))
        });
        prepared.collect()
    }

    /// Returns the readable header of a record.
    pub(crate) fn header(&self, family: u16, ordinal: u32) -> Option<(&RecordHeader, &Placed)> {
        let copies = self.copies(family, ordinal);
        let (_, placed) = copies.first()?;
        placed.record.header.as_ref().ok().map(|header| (header, *placed))
    }

    pub(crate) fn ordinals(&self) -> BTreeSet<u32> {
        self.all.iter().flat_map(|volume| volume.records.iter().map(Placed::ordinal)).collect()
    }

    /// Returns an available family: 0 if possible.
    pub(crate) fn any_family(&self) -> u16 {
        self.all.iter().map(|volume| volume.header.family.index).min().unwrap_or(0)
    }

    /// Returns the faults of the files and their records; [`Self::sets`] reports positions.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<_> = self.all.iter().flat_map(Volume::findings).collect();
        findings.extend(self.unreadable.iter().map(|(media, error)| Finding::UnreadableFile {
            media: media.clone(),
            reason: error.to_string(),
        }));
        let families = self.families;
        let missing = (0..families).filter(|family| self.of_family(*family).next().is_none());
        findings.extend(missing.map(|family| Finding::MissingFamily { family, families }));
        for family in 0..families {
            let counts = |volume: &Volume| u32::try_from(volume.records.len()).unwrap_or(u32::MAX);
            let most = self.of_family(family).map(counts).max().unwrap_or(0);
            for volume in self.of_family(family).filter(|volume| counts(volume) < most) {
                let (media, records) = (volume.name.clone(), counts(volume));
                findings.push(Finding::MirrorsDiffer { media, records, of: most });
            }
            findings.extend(self.conflict(family));
        }
        if let Some((oldest, newest)) = self.uneven_stripes() {
            let count = |volume: &Volume| volume.records.last().map_or(0, Placed::ordinal);
            findings.push(Finding::StripesDiffer {
                media: oldest.name.clone(),
                records: count(oldest),
                newer: newest.name.clone(),
                of: count(newest),
                interrupted: self.half_published().is_some(),
            });
        }
        findings
    }

    /// Returns the first record on which two mirrors of a family disagree.
    fn conflict(&self, family: u16) -> Option<Finding> {
        let mut ordinals = self.ordinals().into_iter();
        let ordinal = ordinals.find(|ordinal| self.conflicts(family, *ordinal))?;
        let mut copies = self.of_family(family).filter_map(|volume| {
            volume.record(ordinal).map(|placed| (volume, placed.record.digest()))
        });
        let (first, digest) = copies.next()?;
        let (other, _) = copies.find(|(_, other)| *other != digest)?;
        let (first, media) = (first.name.clone(), other.name.clone());
        Some(Finding::MirrorsConflict { first, media, ordinal })
    }

    /// Returns true if a record belongs to a set, according to its trailer.
    fn is_set(&self, ordinal: u32) -> bool {
        let records = self.all.iter().filter_map(|volume| volume.record(ordinal));
        records.map(|placed| placed.record.trailer.kind).any(|kind| kind == RecordKind::Set)
    }

    /// Returns all sets whose header can be read, in order, and the faults of their positions.
    ///
    /// The place in the file decides: sets count from 1, including those with a damaged header. A
    /// header with a lower position than its place is wrong; a higher one shows that sets in
    /// between are missing.
    pub(super) fn sets(&self) -> Sets {
        let (mut sets, mut findings, mut last) = (Vec::new(), Vec::new(), 0_u32);
        for ordinal in self.ordinals() {
            let found = (0..self.families).find_map(|family| self.header(family, ordinal));
            let Some((header, _)) = found else {
                last = last.saturating_add(self.is_set(ordinal).into());
                continue;
            };
            match &header.fields {
                RecordFields::Set(set) => {
                    let mut info = info(ordinal, header.place.set_id, set);
                    self.add_sizes(&mut info, ordinal);
                    findings.extend(place(&mut info, last.saturating_add(1)));
                    last = info.position;
                    sets.push(info);
                }
                RecordFields::Recipients(more) => {
                    let of_set = |info: &&mut SetInfo| info.set_id == header.place.set_id;
                    if let Some(info) = sets.iter_mut().find(of_set) {
                        info.recipients.extend_from_slice(&more.recipients);
                    }
                }
                RecordFields::Signature(_) => {
                    let of_set = |info: &&mut SetInfo| info.set_id == header.place.set_id;
                    if let Some(info) = sets.iter_mut().find(of_set) {
                        info.signatures.extend(self.signatures(ordinal));
                    }
                }
            }
        }
        if sets.is_empty() && last == 0 {
            let media = self.all.first().map_or_else(String::new, |volume| volume.name.clone());
            findings.push(Finding::NoSets { media });
        }
        Sets { sets, findings, last }
    }

    /// Returns a signature record, in each family.
    fn signatures(&self, ordinal: u32) -> Vec<SignatureInfo> {
        let in_family = |family| {
            let (header, _) = self.header(family, ordinal)?;
            let RecordFields::Signature(signed) = &header.fields else { return None };
            Some(SignatureInfo {
                family,
                signed_ms: signed.time_ms,
                certificate_der: signed.certificate.clone(),
                signature: signed.signature.clone(),
                message: signed.message(&header.place),
                trailer_sha256: signed.trailer_sha256,
                hash: signed.hash,
                content_sha256: signed.content_sha256,
            })
        };
        (0..self.families).filter_map(in_family).collect()
    }

    /// Adds the sums over the available families, and the faults of the set's records.
    fn add_sizes(&self, info: &mut SetInfo, ordinal: u32) {
        for family in 0..self.families {
            let found = self.header(family, ordinal);
            let same_set = |header: &RecordHeader| header.place.set_id == info.set_id;
            match found.filter(|(header, _)| same_set(header)) {
                Some(_) if self.conflicts(family, ordinal) => {
                    info.damage = Some("its mirrors hold different records".to_owned());
                }
                Some((_, placed)) => add_trailer(info, &placed.record.trailer),
                None if self.of_family(family).next().is_none() => {}
                None => {
                    let (file, files) = (u32::from(family) + 1, self.families);
                    info.damage = Some(match files {
                        1 => "its header cannot be read".to_owned(),
                        _ => format!("file {file} of the {files} stripes lacks it"),
                    });
                }
            }
        }
    }
}

/// Gives a set the position `due`, which is its place, unless its header shows that earlier sets
/// are missing.
fn place(info: &mut SetInfo, due: u32) -> Option<Finding> {
    let says = info.position;
    if says == due {
        return None;
    }
    if says > due {
        return Some(Finding::MissingSets { first: due, last: says - 1 });
    }
    info.position = due;
    info.damage = Some(format!("its header says that it is set {says}"));
    Some(Finding::WrongPosition { position: due, says })
}

fn add_trailer(info: &mut SetInfo, trailer: &Trailer) {
    info.blocks = info.blocks.saturating_add(trailer.blocks);
    info.payload_bytes = info.payload_bytes.saturating_add(trailer.data_bytes);
    info.stored_bytes = info.stored_bytes.saturating_add(trailer.stored_bytes);
    info.record_bytes = info.record_bytes.saturating_add(trailer.record_len);
    info.finished_ms = info.finished_ms.max(trailer.finished_ms);
}

fn info(ordinal: u32, set_id: Id, set: &SetHeader) -> SetInfo {
    let texts = &set.texts;
    SetInfo {
        position: set.position,
        ordinal,
        set_id,
        kind: match set.kind {
            StoredKind::Full => SetKind::Full,
            StoredKind::Differential(_) => SetKind::Differential,
            StoredKind::Log(_) | StoredKind::LogState(_) => SetKind::Log,
        },
        source: match set.source {
            StoredSource::Database { .. } => SourceKind::Database,
            StoredSource::Stream => SourceKind::Stream,
        },
        compression: match set.compression {
            StoredCompression::None => Compression::None,
            StoredCompression::Lz4 => Compression::Lz4,
            StoredCompression::Zstd(level) => Compression::Zstd { level },
        },
        algorithm: set.algorithm,
        copy_only: set.copy_only,
        source_encrypted: set.source_encrypted,
        page_map: set.has_page_map,
        block_size: set.block_size,
        page_size: set.source.page_size(),
        pages: set.source.pages().into(),
        begun_ms: set.begun_ms,
        finished_ms: i64::MIN,
        expires_ms: set.expires_ms,
        database_id: set.database_id,
        base: match set.kind {
            StoredKind::Full => None,
            StoredKind::Differential(base) | StoredKind::LogState(base) => Some(base.set_id),
            StoredKind::Log(link) => Some(link.before.set_id),
        },
        log: match set.kind {
            StoredKind::Log(link) => Some(link),
            StoredKind::Full | StoredKind::Differential(_) | StoredKind::LogState(_) => None,
        },
        archive: set.archive.clone(),
        name: texts.name.clone(),
        database_name: texts.database.clone(),
        path: texts.path.clone(),
        host: texts.host.clone(),
        user: texts.user.clone(),
        description: texts.description.clone(),
        program: texts.program.clone(),
        recipients: set.recipients.clone(),
        signatures: Vec::new(),
        blocks: 0,
        payload_bytes: 0,
        stored_bytes: 0,
        record_bytes: 0,
        families: set.family.count,
        damage: None,
    }
}
