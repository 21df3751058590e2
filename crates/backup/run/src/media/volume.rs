//! One file, or one object and its followers: the records in it.

use std::collections::HashMap;
use std::sync::Arc;

use tdekit_backup_media::{
    Digest, Gap, GapKind, Id, MediaHeader, Record, RecordFields, RecordHeader, RecordKind, Scan,
    Scanned, TRAILER_LEN, finished_trailer,
};
use tdekit_key_crypto::sha256;

use crate::error::At;
use crate::{Finding, MediaSource, RunError};

const MAC_LEN: usize = 32;
/// Offset of a trailer's MAC.
const TRAILER_MAC_AT: usize = 216;

/// One copy of one family of a media set.
pub(crate) struct Volume {
    pub(crate) source: Arc<dyn MediaSource>,
    pub(crate) name: String,
    pub(crate) header: MediaHeader,
    /// Whole records of all parts, in file order: ordinals ascend, so each occurs once.
    pub(crate) records: Vec<Placed>,
    /// Whole records whose ordinal does not ascend: somebody put them there.
    strays: Vec<Placed>,
    /// Indexes in `records`.
    by_ordinal: HashMap<u32, usize>,
    gaps: Vec<(u32, Gap)>,
    header_digest: Digest,
    /// The last part, and the end of its whole records; `None` if damage forbids appending.
    end: Option<(u32, u64)>,
}

/// A record and its part.
pub(crate) struct Placed {
    pub(crate) part: u32,
    pub(crate) record: Record,
}

impl Placed {
    pub(crate) fn ordinal(&self) -> u32 {
        self.record.trailer.ordinal
    }
}

/// A whole record whose trailer is prepared but not valid yet.
pub(crate) struct Prepared {
    /// Offset of the trailer.
    pub(crate) at: u64,
    pub(crate) trailer: [u8; TRAILER_LEN],
    pub(crate) kind: RecordKind,
    pub(crate) set_id: Id,
}

/// The record to which the next one is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) part: u32,
    pub(crate) end: u64,
    pub(crate) previous: Digest,
    pub(crate) ordinal: u32,
}

impl Volume {
    pub(crate) fn open(source: Arc<dyn MediaSource>) -> Result<Self, RunError> {
        let name = source.name();
        let at = At { media: &name, position: 0 };
        let first = scan(&*source, 0, at)?;
        let header = first.header.clone();
        let mut volume = Self {
            name: name.clone(),
            header_digest: first.header_digest,
            header,
            records: Vec::new(),
            strays: Vec::new(),
            by_ordinal: HashMap::new(),
            gaps: Vec::new(),
            end: None,
            source,
        };
        if volume.header.part != 0 {
            return Err(RunError::OtherMedia { first: name.clone(), media: name });
        }
        volume.add(0, first);
        for part in 1..volume.source.parts() {
            let scanned = scan(&*volume.source, part, at)?;
            let header = &scanned.header;
            let same =
                (header.media_id, header.family) == (volume.header.media_id, volume.header.family);
            if !same || header.part != part {
                let media = format!("{name}, part {part}");
                return Err(RunError::OtherMedia { first: name, media });
            }
            volume.add(part, scanned);
        }
        volume.number();
        Ok(volume)
    }

    fn add(&mut self, part: u32, scanned: Scanned) {
        self.end = scanned.append_at().map(|end| (part, end));
        self.gaps.extend(scanned.gaps.into_iter().map(|gap| (part, gap)));
        for record in scanned.records {
            let last = self.records.last().map_or(0, Placed::ordinal);
            let placed = Placed { part, record };
            match placed.ordinal() > last {
                true => self.records.push(placed),
                false => self.strays.push(placed),
            }
        }
    }

    fn number(&mut self) {
        let places = self.records.iter().enumerate();
        self.by_ordinal = places.map(|(place, placed)| (placed.ordinal(), place)).collect();
    }

    /// Returns the place of the next record.
    pub(crate) fn link(&self) -> Result<Link, RunError> {
        let Some((part, end)) = self.end.filter(|_| self.strays.is_empty()) else {
            let (media, what) = (self.name.clone(), "the media set".to_owned());
            let reason = "a record cannot be read, so nothing can be appended".to_owned();
            return Err(RunError::Damaged { media, what, reason });
        };
        let (previous, ordinal) = match self.records.last() {
            Some(last) => (last.record.digest(), last.ordinal().saturating_add(1)),
            None => (self.header_digest, 1),
        };
        Ok(Link { part, end, previous, ordinal })
    }

    /// Returns the record after the last one, if all of it is there and its trailer is prepared.
    pub(crate) fn prepared(&self) -> Option<Prepared> {
        let link = self.link().ok()?;
        let len = self.source.part_len(link.part).ok()?;
        let at = len.checked_sub(TRAILER_LEN as u64)?;
        let mut bytes = [0; TRAILER_LEN];
        self.source.read_at(link.part, at, &mut bytes).ok()?;
        let (trailer, facts) = finished_trailer(&bytes)?;
        let mut header = vec![0; usize::try_from(facts.header_len).ok()?];
        self.source.read_at(link.part, link.end, &mut header).ok()?;
        let place = RecordHeader::decode(&header).ok()?.place;
        let is_next = facts.ordinal == link.ordinal
            && link.end.checked_add(facts.record_len) == Some(len)
            && place.ordinal == link.ordinal
            && place.previous == link.previous
            && place.media_id == self.header.media_id
            && sha256(&[&header]) == facts.header_sha256;
        is_next.then_some(Prepared { at, trailer, kind: facts.kind, set_id: place.set_id })
    }

    pub(crate) fn record(&self, ordinal: u32) -> Option<&Placed> {
        self.by_ordinal.get(&ordinal).and_then(|place| self.records.get(*place))
    }

    /// Returns true if something that is not a record of the media set, or not a known one, is
    /// after the record `ordinal`, or in the place of a record that another mirror has.
    pub(super) fn has_unknown_behind(&self, ordinal: u32, mirrors: &[&Self]) -> bool {
        let end = self.record(ordinal).map(|last| (last.part, last.record.end()));
        let is_behind = |place: (u32, u64)| end.is_none_or(|end| place >= end);
        let begins = |place: (u32, u64)| {
            let mut records = mirrors.iter().flat_map(|mirror| &mirror.records);
            records.any(|placed| (placed.part, placed.record.start) == place)
        };
        let mut gaps = self.gaps.iter().map(|(part, gap)| (*part, gap.range.start));
        let mut strays = self.strays.iter().map(|placed| (placed.part, placed.record.start));
        gaps.any(|place| is_behind(place) && !begins(place)) || strays.any(is_behind)
    }

    /// Returns the faults and properties of this file that a reader should know.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (_, gap) in &self.gaps {
            let (media, offset) = (self.name.clone(), gap.range.start);
            findings.push(match gap.kind {
                GapKind::UnfinishedTail => {
                    let bytes = gap.range.end.saturating_sub(offset);
                    Finding::UnfinishedTail { media, offset, bytes }
                }
                GapKind::Damaged => {
                    let reason = "it is no whole record".to_owned();
                    Finding::DamagedRecord { media, ordinal: None, offset, reason }
                }
            });
        }
        let mut before = Some((0, self.header_digest));
        for placed in &self.records {
            let (ordinal, record) = (placed.ordinal(), &placed.record);
            match &record.header {
                Err(error) => findings.push(Finding::DamagedRecord {
                    media: self.name.clone(),
                    ordinal: Some(ordinal),
                    offset: record.start,
                    reason: error.to_string(),
                }),
                Ok(header) => {
                    if needs_no_mac(header) && !has_no_mac(record) {
                        findings.push(Finding::DamagedRecord {
                            media: self.name.clone(),
                            ordinal: Some(ordinal),
                            offset: record.start,
                            reason: "a MAC stands where there is no key".to_owned(),
                        });
                    }
                    let follows = before.is_some_and(|(last, digest)| {
                        ordinal == last + 1 && header.place.previous == digest
                    });
                    if !follows {
                        let media = self.name.clone();
                        findings.push(Finding::BrokenChain { media, ordinal });
                    }
                }
            }
            before = Some((ordinal, record.digest()));
        }
        let strays = self.strays.iter().map(Placed::ordinal);
        findings.extend(
            strays.map(|ordinal| Finding::BrokenChain { media: self.name.clone(), ordinal }),
        );
        findings
    }
}

/// Returns true if a record has no key: it belongs to a plain set, or is a signature.
fn needs_no_mac(header: &RecordHeader) -> bool {
    match &header.fields {
        RecordFields::Set(set) => set.algorithm.is_none(),
        RecordFields::Recipients(_) => false,
        RecordFields::Signature(_) => true,
    }
}

/// Returns true if both MACs of a record are zeros.
fn has_no_mac(record: &Record) -> bool {
    let header = record.header_bytes.last_chunk::<MAC_LEN>();
    let trailer = record.trailer_bytes.get(TRAILER_MAC_AT..TRAILER_MAC_AT + MAC_LEN);
    header == Some(&[0; MAC_LEN]) && trailer == Some(&[0; MAC_LEN])
}

fn scan(source: &dyn MediaSource, part: u32, at: At<'_>) -> Result<Scanned, RunError> {
    let mut scan = Scan::new(source.part_len(part)?);
    let mut bytes = Vec::new();
    while let Some(range) = scan.wanted() {
        let len = range.end.saturating_sub(range.start);
        bytes.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
        source.read_at(part, range.start, &mut bytes)?;
        scan.feed(&bytes).map_err(|error| at.error(error))?;
    }
    scan.finish().map_err(|error| at.error(error))
}
