//! The state of the targets, and the place of the next record.

use std::path::PathBuf;
use std::sync::Arc;

use tdekit_backup_media::media::MAX_FAMILIES;
use tdekit_backup_media::{
    ContentHash, Family, Holds, Id, MediaHeader, RecordKind, TRAILER_LEN, is_media,
};
use tdekit_key_crypto::random_bytes;

use crate::error::At;
use crate::media::list::Volumes;
use crate::media::volume::{Link, Placed, Volume};
use crate::options::{Layout, Mode};
use crate::target::{Append, AppendAt, MediaSource, Target};
use crate::{Finding, Media, RunError};

/// Targets that were opened and locked, by family.
pub(super) struct Plan {
    pub(super) media_id: Id,
    /// Position of the next set.
    pub(super) position: u32,
    pub(super) families: Vec<FamilyPlan>,
    /// The existing media set; `None` for a new one.
    pub(super) media: Option<Media>,
    pub(super) findings: Vec<Finding>,
}

/// Place of the next record of one family.
pub(super) struct FamilyPlan {
    pub(super) previous: [u8; 32],
    pub(super) ordinal: u32,
    targets: Vec<Box<dyn Target>>,
    place: AppendAt,
    /// Header of a new media set.
    new_header: MediaHeader,
}

/// Bytes per step of copying to a mirror that lacks records.
const COPY_LEN: usize = 1 << 20;

impl Plan {
    /// Opens the targets. A new media set may hold log sets of the form `logs`.
    pub(super) fn open(
        mut targets: Vec<Box<dyn Target>>,
        (layout, holds): (Layout, Holds),
        mode: Mode,
        now_ms: i64,
    ) -> Result<Self, RunError> {
        if targets.is_empty() || targets.len() > usize::from(MAX_FAMILIES) {
            let reason = format!("there are {}, and 1 to {MAX_FAMILIES} may be", targets.len());
            return Err(RunError::Option { what: "targets", reason });
        }
        let mut sources = Vec::new();
        let mut empty = false;
        for target in &mut targets {
            let source = target.open()?;
            let is_empty = match &source {
                Some(source) => source.parts() == 1 && source.part_len(0)? == 0,
                None => false,
            };
            if let (Some(source), Mode::Create) = (&source, mode) {
                return Err(taken(&**source, is_empty));
            }
            if let (Some(source), Mode::Replace, false) = (&source, mode, is_empty) {
                refuse_other_file(&**source)?;
            }
            empty |= is_empty;
            sources.push(source.filter(|_| !is_empty && mode == Mode::Append));
        }
        if sources.iter().any(Option::is_some) {
            return Self::behind(targets, sources, now_ms);
        }
        Self::new_media(targets, (layout, holds), mode == Mode::Replace || empty, now_ms)
    }

    /// Plans a new media set.
    fn new_media(
        targets: Vec<Box<dyn Target>>,
        (layout, holds): (Layout, Holds),
        replace: bool,
        now_ms: i64,
    ) -> Result<Self, RunError> {
        let mut media_id = [0; 16];
        random_bytes(&mut media_id)?;
        let groups: Vec<Vec<Box<dyn Target>>> = match layout {
            Layout::Mirrors => vec![targets],
            Layout::Stripes => targets.into_iter().map(|target| vec![target]).collect(),
        };
        let count = u16::try_from(groups.len()).unwrap_or(u16::MAX);
        let mut families = Vec::new();
        for (targets, index) in groups.into_iter().zip(0..) {
            let family = Family { index, count };
            let hash = ContentHash::NEW;
            let made_ms = now_ms;
            let new_header = MediaHeader { media_id, family, part: 0, made_ms, hash, holds };
            let previous = new_header.digest().map_err(|error| new_at().error(error))?;
            let place = AppendAt::New { replace };
            families.push(FamilyPlan { previous, ordinal: 1, targets, place, new_header });
        }
        Ok(Self { media_id, position: 1, families, media: None, findings: Vec::new() })
    }

    /// Plans a record after the existing ones at the targets.
    fn behind(
        mut targets: Vec<Box<dyn Target>>,
        sources: Vec<Option<Arc<dyn MediaSource>>>,
        now_ms: i64,
    ) -> Result<Self, RunError> {
        let missing = targets.iter().zip(&sources).find(|(_, source)| source.is_none());
        if let Some((target, _)) = missing {
            let reason = format!("nothing stands at {}, and a media set at another", target.name());
            return Err(RunError::TargetsDiffer { reason });
        }
        let sources: Vec<_> = sources.into_iter().flatten().collect();
        let mut media = Media::open_whole(sources.clone())?;
        let mut findings = Vec::new();
        if finish_record(&mut targets, media.volumes())? {
            findings = media.findings().to_vec();
            media = Media::open_whole(sources)?;
        }
        let volumes = media.volumes();
        let families = volumes.families;
        if let Some(family) = volumes.missing_family() {
            return Err(RunError::MissingFamily { family, families });
        }
        refuse_uneven_stripes(volumes)?;
        let mut groups: Vec<Vec<(Box<dyn Target>, &Volume)>> =
            (0..families).map(|_| Vec::new()).collect();
        for (target, volume) in targets.into_iter().zip(&volumes.all) {
            let family = usize::from(volume.header.family.index);
            if let Some(group) = groups.get_mut(family) {
                group.push((target, volume));
            }
        }
        let families = groups.into_iter().map(|group| FamilyPlan::behind(group, now_ms));
        let families = families.collect::<Result<Vec<_>, _>>()?;
        findings.extend_from_slice(media.findings());
        let position = next_position(&media);
        Ok(Self { media_id: media.id(), position, families, media: Some(media), findings })
    }

    /// Returns the hash of blocks in signatures. Programs that know only the media set's version
    /// must be able to read appended sets.
    pub(super) fn hash(&self) -> ContentHash {
        self.families.first().map_or(ContentHash::NEW, |family| family.new_header.hash)
    }
}

impl FamilyPlan {
    fn behind(mut group: Vec<(Box<dyn Target>, &Volume)>, now_ms: i64) -> Result<Self, RunError> {
        let (longest, link) = catch_up(&mut group)?;
        let new_header = MediaHeader {
            part: link.part.saturating_add(1),
            made_ms: now_ms,
            ..longest.header.clone()
        };
        Ok(Self {
            previous: link.previous,
            ordinal: link.ordinal,
            targets: group.into_iter().map(|(target, _)| target).collect(),
            place: AppendAt::Behind { part: link.part, end: link.end },
            new_header,
        })
    }

    /// Starts the record at each target; a new file or part has its media header.
    pub(super) fn begin(&mut self) -> Result<Vec<Box<dyn Append>>, RunError> {
        let header = self.new_header.encode().map_err(|error| new_at().error(error))?;
        let mut copies = Vec::new();
        for target in &mut self.targets {
            let mut copy = target.append(self.place)?;
            if matches!(self.place, AppendAt::New { .. }) || target.part_per_record() {
                copy.write(&header)?;
            }
            copies.push(copy);
        }
        Ok(copies)
    }
}

/// Completes a record that is valid in some stripes but not yet in others, if all of it is there.
/// `targets` are in the order of the volumes. Returns true if there was one.
fn finish_record(targets: &mut [Box<dyn Target>], volumes: &Volumes) -> Result<bool, RunError> {
    let Some(prepared) = volumes.half_published() else { return Ok(false) };
    for (at, record) in prepared {
        let target = targets.get_mut(at).ok_or(RunError::Internal("a volume of no target"))?;
        target.finish(record.at, &record.trailer)?;
    }
    Ok(true)
}

/// A record that is only in some stripes was published, or it would not be there: a stripe without
/// it is an older copy, or was truncated. Nothing may be cut off to make them even.
fn refuse_uneven_stripes(volumes: &Volumes) -> Result<(), RunError> {
    if let Some((oldest, newest)) = volumes.uneven_stripes() {
        let records = |volume: &Volume| volume.records.last().map_or(0, Placed::ordinal);
        let reason = format!(
            "{} is older than {}: it has {} record(s) and the other {}. Put a whole copy of it \
             back, or begin a new media set",
            oldest.name,
            newest.name,
            records(oldest),
            records(newest)
        );
        return Err(RunError::TargetsDiffer { reason });
    }
    for ordinal in volumes.ordinals() {
        let set_id =
            |family| volumes.header(family, ordinal).map(|(header, _)| header.place.set_id);
        let mut ids = (0..volumes.families).filter_map(set_id);
        let first = ids.next();
        if ids.any(|id| Some(id) != first) {
            let reason = format!("the stripes hold different sets in record {ordinal}");
            return Err(RunError::TargetsDiffer { reason });
        }
    }
    Ok(())
}

/// Sets with a damaged header are counted by their trailers.
fn next_position(media: &Media) -> u32 {
    let seen = media.sets().iter().map(|set| set.position).max().unwrap_or(0);
    let volumes = media.volumes().all.iter();
    let counted = volumes.map(|volume| {
        let sets =
            volume.records.iter().filter(|placed| placed.record.trailer.kind == RecordKind::Set);
        u32::try_from(sets.count()).unwrap_or(u32::MAX)
    });
    counted.max().unwrap_or(0).max(seen).saturating_add(1)
}

/// Returns the error about what is at the place of a new media set.
fn taken(source: &dyn MediaSource, is_empty: bool) -> RunError {
    match refuse_other_file(source) {
        Err(RunError::NotMedia { media: place }) if !is_empty => {
            RunError::Taken { place, why: "is no media set of tdekit" }
        }
        _ => RunError::Exists { path: PathBuf::from(source.name()) },
    }
}

/// Refuses to replace anything but media: a database may have been named by mistake.
fn refuse_other_file(source: &dyn MediaSource) -> Result<(), RunError> {
    let mut magic = [0; 16];
    let len = source.part_len(0)?;
    if len >= magic.len() as u64 {
        source.read_at(0, 0, &mut magic)?;
    }
    if is_media(&magic) { Ok(()) } else { Err(RunError::NotMedia { media: source.name() }) }
}

fn new_at() -> At<'static> {
    At { media: "the new media set", position: 0 }
}

/// Makes mirrors equal: a crash between publishing on two of them leaves one a record behind.
fn catch_up<'a>(
    group: &mut [(Box<dyn Target>, &'a Volume)],
) -> Result<(&'a Volume, Link), RunError> {
    let longest = group.iter().map(|(_, volume)| *volume).max_by_key(|v| v.records.len());
    let longest = longest.ok_or(RunError::Internal("a family without files"))?;
    let link = longest.link()?;
    for (target, volume) in group {
        let behind = volume.link()?;
        if behind == link {
            continue;
        }
        let place = (behind.part, behind.ordinal.saturating_sub(1));
        let is_start = match longest.record(place.1) {
            Some(record) => record.record.digest() == behind.previous && record.part == place.0,
            None => behind.ordinal == 1 && volume.header == longest.header,
        };
        if !is_start || target.part_per_record() || behind.end > link.end {
            let reason = format!("{} and {} hold other records", longest.name, volume.name);
            return Err(RunError::TargetsDiffer { reason });
        }
        copy_records(&mut **target, longest, &behind, link.end)?;
    }
    Ok((longest, link))
}

/// Appends the bytes of whole records from another mirror.
fn copy_records(
    target: &mut dyn Target,
    from: &Volume,
    behind: &Link,
    end: u64,
) -> Result<(), RunError> {
    let mut copy = target.append(AppendAt::Behind { part: behind.part, end: behind.end })?;
    let body_end = end.saturating_sub(TRAILER_LEN as u64);
    let mut at = behind.end;
    let mut bytes = vec![0; COPY_LEN];
    while at < body_end {
        let len = usize::try_from(body_end - at).unwrap_or(COPY_LEN).min(COPY_LEN);
        let piece = bytes.get_mut(..len).unwrap_or_default();
        from.source.read_at(behind.part, at, piece)?;
        copy.write(piece)?;
        at += len as u64;
    }
    let mut trailer = [0; TRAILER_LEN];
    from.source.read_at(behind.part, body_end, &mut trailer)?;
    copy.sync()?;
    copy.publish(&trailer)
}
