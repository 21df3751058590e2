//! What the files of a media set hold together: families, mirrors, sets.

use std::collections::BTreeSet;
use std::sync::Arc;

use tdekit_backup_media::{
    Compression as StoredCompression, Id, RecordFields, RecordHeader, SetHeader,
    SetKind as StoredKind, Source as StoredSource, Trailer,
};

use super::volume::{Placed, Volume};
use crate::{
    Compression, Finding, MediaSource, RunError, SetInfo, SetKind, SignatureInfo, SourceKind,
};

/// The files of a media set.
pub(crate) struct Volumes {
    pub(crate) all: Vec<Volume>,
    /// Files that the media set is striped over.
    pub(crate) families: u16,
}

impl Volumes {
    pub(crate) fn open(sources: Vec<Arc<dyn MediaSource>>) -> Result<Self, RunError> {
        let all = sources.into_iter().map(Volume::open).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = all.first() else {
            return Err(RunError::NotMedia { media: "nothing".to_owned() });
        };
        let (media_id, families) = (first.header.media_id, first.header.family.count);
        for volume in &all {
            let header = &volume.header;
            if (header.media_id, header.family.count) != (media_id, families) {
                let (first, media) = (first.name.clone(), volume.name.clone());
                return Err(RunError::OtherMedia { first, media });
            }
        }
        let mut volumes = Self { all, families };
        volumes.cut_unfinished_stripes();
        Ok(volumes)
    }

    /// A set that was published in some stripes only was never finished.
    fn cut_unfinished_stripes(&mut self) {
        if self.families == 1 || self.missing_family().is_some() {
            return;
        }
        let last = |family| {
            let ordinals = self.of_family(family).flat_map(|volume| volume.records.last());
            ordinals.map(Placed::ordinal).max().unwrap_or(0)
        };
        let last = (0..self.families).map(last).min().unwrap_or(0);
        for volume in &mut self.all {
            volume.cut_behind(last);
        }
    }

    pub(crate) fn of_family(&self, family: u16) -> impl Iterator<Item = &Volume> {
        self.all.iter().filter(move |volume| volume.header.family.index == family)
    }

    /// The first family that no file is of.
    pub(crate) fn missing_family(&self) -> Option<u16> {
        (0..self.families).find(|family| self.of_family(*family).next().is_none())
    }

    pub(crate) fn media_id(&self) -> Id {
        self.all.first().map_or([0; 16], |volume| volume.header.media_id)
    }

    /// The record in each copy of a family, those with a readable header first.
    pub(crate) fn copies(&self, family: u16, ordinal: u32) -> Vec<(&Volume, &Placed)> {
        let copies = self.of_family(family);
        let mut copies: Vec<_> = copies
            .filter_map(|volume| volume.record(ordinal).map(|placed| (volume, placed)))
            .collect();
        copies.sort_by_key(|(_, placed)| placed.record.header.is_err());
        if let Some((_, first)) = copies.first() {
            // A mirror that holds something else does not stand in for it.
            let digest = first.record.digest();
            copies.retain(|(_, placed)| placed.record.digest() == digest);
        }
        copies
    }

    /// The readable header of a record.
    pub(crate) fn header(&self, family: u16, ordinal: u32) -> Option<(&RecordHeader, &Placed)> {
        let copies = self.copies(family, ordinal);
        let (_, placed) = copies.first()?;
        placed.record.header.as_ref().ok().map(|header| (header, *placed))
    }

    pub(crate) fn ordinals(&self) -> BTreeSet<u32> {
        self.all.iter().flat_map(|volume| volume.records.iter().map(Placed::ordinal)).collect()
    }

    /// A family that is at hand: 0 where it is.
    pub(crate) fn any_family(&self) -> u16 {
        self.all.iter().map(|volume| volume.header.family.index).min().unwrap_or(0)
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<_> = self.all.iter().flat_map(Volume::findings).collect();
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
        }
        findings
    }

    /// All sets whose header can be read, in order.
    pub(super) fn sets(&self) -> Vec<SetInfo> {
        let family = self.any_family();
        let mut sets = Vec::new();
        for ordinal in self.ordinals() {
            let Some((header, _)) = self.header(family, ordinal) else { continue };
            match &header.fields {
                RecordFields::Set(set) => {
                    let mut info = info(ordinal, header.place.set_id, set);
                    self.add_sizes(&mut info, ordinal);
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
        sets
    }

    /// A signature record, in each family.
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
                content_sha256: signed.content_sha256,
            })
        };
        (0..self.families).filter_map(in_family).collect()
    }

    /// Sums over the families that are at hand, and what is wrong with the set's records.
    fn add_sizes(&self, info: &mut SetInfo, ordinal: u32) {
        for family in 0..self.families {
            let found = self.header(family, ordinal);
            let same_set = |header: &RecordHeader| header.place.set_id == info.set_id;
            match found.filter(|(header, _)| same_set(header)) {
                Some((_, placed)) => add_trailer(info, &placed.record.trailer),
                None if self.of_family(family).next().is_none() => {}
                None => info.damage = Some(format!("file {family} of the stripes lacks it")),
            }
        }
    }
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
            StoredKind::Differential(base) => Some(base.set_id),
        },
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
