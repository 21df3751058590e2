//! Copies of media sets: their bytes, never their content.

use tdekit_backup_media::{MEDIA_HEADER_LEN, TRAILER_LEN};

use crate::error::ArchiveError;
use crate::media::volume::Volume;
use crate::names::is_object_name;
use crate::place::{Place, targets_kept};
use crate::progress::Meter;
use crate::target::{Append, AppendAt, Target};
use crate::{FindingReport, Media, Run, RunError, Storage};

/// Bytes that are read at once.
const PIECE_LEN: usize = 1 << 20;

/// A copy that has its names, and can be taken back.
pub struct Copied {
    /// Bytes of one copy, over all of its files.
    pub bytes: u64,
    copies: Vec<Box<dyn Append>>,
}

impl Copied {
    /// Removes the copies again.
    pub fn withdraw(mut self) {
        for copy in &mut self.copies {
            // The reported error is the cause; a copy that stays is like any damaged media.
            let _ = copy.withdraw();
        }
    }
}

/// Copies a media set: to each of `to`, or if it is striped, each of its files to one of them. A
/// copy is one file or one object, whatever the number of parts, and gets its name when all of its
/// bytes are durable. Nothing may be there. The caller verifies it.
///
/// # Errors
/// `Unsound` if the media set has a finding; `NoBackupThere`; `MissingFamily`; `Option` for a wrong
/// number of targets; `Exists`; those of reading and writing.
pub fn copy(
    media: &Media,
    to: &[Place],
    storage: &Storage,
    run: &Run<'_>,
) -> Result<Copied, RunError> {
    refuse_unsound(media)?;
    let object = to.iter().map(Place::shown).find(|name| is_object_name(name));
    object.map_or(Ok(()), |object| Err(ArchiveError::NoBackupThere { object }))?;
    let volumes = media.volumes();
    let families = volumes.families;
    if families > 1 && usize::from(families) != to.len() {
        let reason = format!("it is striped over {families} files, and there are {}", to.len());
        return Err(RunError::Option { what: "targets", reason });
    }
    let mut pairs: Vec<(&Volume, &[Place])> = Vec::new();
    for family in 0..families {
        let missing = || RunError::MissingFamily { family, families };
        let volume = volumes.of_family(family).next().ok_or_else(missing)?;
        let places = match families {
            1 => to,
            _ => to.get(usize::from(family)..=usize::from(family)).unwrap_or_default(),
        };
        pairs.push((volume, places));
    }
    let sizes = pairs.iter().map(|(volume, _)| len(volume)).collect::<Result<Vec<_>, _>>()?;
    let total = sizes.iter().sum();
    let meter = Meter::new(run, Some(total));
    let mut prepared = Vec::new();
    for ((volume, places), bytes) in pairs.into_iter().zip(sizes) {
        let targets = targets_kept(places, bytes, storage)?;
        prepared.push(write(volume, targets, &meter)?);
    }
    let mut done = Copied { bytes: total, copies: Vec::new() };
    for Written { copies, trailer } in prepared {
        for mut copy in copies {
            let published = copy.publish(&trailer);
            // One that failed may have its name all the same.
            done.copies.push(copy);
            if let Err(error) = published {
                done.withdraw();
                return Err(error);
            }
        }
    }
    Ok(done)
}

/// The copies of a file, complete but for the trailer at their end.
struct Written {
    copies: Vec<Box<dyn Append>>,
    trailer: Vec<u8>,
}

fn refuse_unsound(media: &Media) -> Result<(), RunError> {
    let name = || media.names().into_iter().next().unwrap_or_default();
    let findings = media.findings();
    if let Some(first) = findings.first() {
        let (findings, first) = (findings.len(), FindingReport::of(first).message);
        return Err(RunError::Unsound { media: name(), findings, first });
    }
    match media.sets().iter().find_map(|set| set.damage.clone()) {
        Some(first) => Err(RunError::Unsound { media: name(), findings: 1, first }),
        None => Ok(()),
    }
}

/// Writes all but the trailer at the end, and waits until it is durable.
fn write(
    volume: &Volume,
    targets: Vec<Box<dyn Target>>,
    meter: &Meter<'_>,
) -> Result<Written, RunError> {
    let mut copies = Vec::new();
    for mut target in targets {
        if target.open()?.is_some() {
            let why = "a copy replaces nothing";
            return Err(RunError::Taken { place: target.name(), why });
        }
        copies.push(target.append(AppendAt::New { replace: false })?);
    }
    // What was read and not written yet: in the end, the trailer.
    let mut held: Vec<u8> = Vec::new();
    let mut piece = vec![0; PIECE_LEN];
    for part in 0..volume.source.parts() {
        let end = volume.source.part_len(part)?;
        let mut at = first_of(part);
        while at < end {
            let length = usize::try_from(end - at).unwrap_or(PIECE_LEN).min(PIECE_LEN);
            let read = piece.get_mut(..length).unwrap_or_default();
            meter.take(length as u64)?;
            volume.source.read_at(part, at, read)?;
            held.extend_from_slice(read);
            let ready = held.len().saturating_sub(TRAILER_LEN);
            copies.iter_mut().try_for_each(|copy| copy.write(held.get(..ready).unwrap_or(&[])))?;
            held.drain(..ready);
            meter.add(length as u64, length as u64);
            at += length as u64;
        }
    }
    copies.iter_mut().try_for_each(|copy| copy.sync())?;
    Ok(Written { copies, trailer: held })
}

/// Each part of an object begins with a header of its own; those behind the first only say which
/// part it is.
fn first_of(part: u32) -> u64 {
    if part == 0 { 0 } else { MEDIA_HEADER_LEN as u64 }
}

fn len(volume: &Volume) -> Result<u64, RunError> {
    (0..volume.source.parts()).try_fold(0_u64, |bytes, part| {
        Ok(bytes + volume.source.part_len(part)?.saturating_sub(first_of(part)))
    })
}
