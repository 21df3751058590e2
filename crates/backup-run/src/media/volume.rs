//! One file, or one object and its followers: the records that stand there.

use std::collections::HashMap;
use std::sync::Arc;

use tdekit_backup_media::media::MEDIA_HEADER_LEN;
use tdekit_backup_media::{
    Digest, Gap, GapKind, MediaHeader, Record, RecordFields, RecordHeader, Scan, Scanned,
};

use crate::error::At;
use crate::{Finding, MediaSource, RunError};

const MAC_LEN: usize = 32;
/// Where a trailer's MAC stands.
const TRAILER_MAC_AT: usize = 216;

/// One copy of one family of a media set.
pub(crate) struct Volume {
    pub(crate) source: Arc<dyn MediaSource>,
    pub(crate) name: String,
    pub(crate) header: MediaHeader,
    /// Whole records of all parts, in order.
    pub(crate) records: Vec<Placed>,
    /// Places in `records`.
    by_ordinal: HashMap<u32, usize>,
    gaps: Vec<(u32, Gap)>,
    header_digest: Digest,
    /// The last part, and where its whole records end; `None` where damage forbids to append.
    end: Option<(u32, u64)>,
}

/// A record and the part that it stands in.
pub(crate) struct Placed {
    pub(crate) part: u32,
    pub(crate) record: Record,
}

impl Placed {
    pub(crate) fn ordinal(&self) -> u32 {
        self.record.trailer.ordinal
    }
}

/// What the next record is appended behind.
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
        self.records.extend(scanned.records.into_iter().map(|record| Placed { part, record }));
    }

    fn number(&mut self) {
        let places = self.records.iter().enumerate();
        self.by_ordinal = places.map(|(place, placed)| (placed.ordinal(), place)).collect();
    }

    /// Leaves out records behind `last`, which were published in some stripes only. They count as
    /// an unfinished tail.
    pub(super) fn cut_behind(&mut self, last: u32) {
        let Some(cut) = self.records.iter().position(|placed| placed.ordinal() > last) else {
            return;
        };
        let cut: Vec<_> = self.records.drain(cut..).collect();
        for placed in cut {
            let range = placed.record.start..placed.record.end();
            self.gaps.push((placed.part, Gap { range, kind: GapKind::UnfinishedTail }));
        }
        let end = match self.records.last() {
            Some(last) => (last.part, last.record.end()),
            None => (0, MEDIA_HEADER_LEN as u64),
        };
        self.end = self.end.map(|_| end);
        self.number();
    }

    /// Where the next record goes.
    pub(crate) fn link(&self) -> Result<Link, RunError> {
        let Some((part, end)) = self.end else {
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

    pub(crate) fn record(&self, ordinal: u32) -> Option<&Placed> {
        self.by_ordinal.get(&ordinal).and_then(|place| self.records.get(*place))
    }

    /// What is wrong here, or should be known.
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
        findings
    }
}

/// Whether a record is of no key: of a plain set, or a signature.
fn needs_no_mac(header: &RecordHeader) -> bool {
    match &header.fields {
        RecordFields::Set(set) => set.algorithm.is_none(),
        RecordFields::Recipients(_) => false,
        RecordFields::Signature(_) => true,
    }
}

/// Whether both MACs of a record are zeros.
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
