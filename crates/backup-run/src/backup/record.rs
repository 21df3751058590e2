//! Records on earlier sets: more recipients, signatures.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tdekit_backup_media::signature::{SignatureHeader, block_digest, message};
use tdekit_backup_media::{
    Digest, RecipientsHeader, RecordKind, RecordPlace, SetKeys, SetSecret, Trailer,
};

use super::now_ms;
use super::plan::Plan;
use super::publish::{Unpublished, publish, sync};
use crate::error::At;
use crate::media::content_digest;
use crate::media::opened::{BlockReader, OpenSet, unwrap};
use crate::options::{Layout, Mode};
use crate::output::{Fate, lock};
use crate::pipeline::{run_threads, threads};
use crate::{Media, Recipient, Run, RunError, SetInfo, Sign, Target, UnwrapSecret, WrapSecret};

/// A record's header in one family, and its keys where it has some.
type Header<'a> = (Vec<u8>, Option<&'a SetKeys>);

/// Appends a recipients record to media sets (all mirrors or all stripes): from then on the new
/// recipients open the set as well. No data is touched.
///
/// # Errors
/// `NoSet`, `KeyNeeded`, `WrongKey`, `Store`, those of the targets.
pub fn add_recipients(
    targets: Vec<Box<dyn Target>>,
    position: Option<u32>,
    keys: &dyn UnwrapSecret,
    recipients: &dyn WrapSecret,
) -> Result<Vec<Recipient>, RunError> {
    let (mut plan, media) = open(targets)?;
    let info = media.set(position)?;
    if info.algorithm.is_none() {
        let reason = format!("set {} is not encrypted", info.position);
        return Err(RunError::Option { what: "recipients", reason });
    }
    let secret = unwrap(media.volumes(), info, keys)?;
    let recipients = recipients.wrap_secret(secret.as_bytes())?;
    let header = RecipientsHeader { time_ms: now_ms(), recipients: recipients.clone() };
    let set_keys = keys_of(&media, info, &secret)?;
    drop(secret);
    let at = At { media: "the new record", position: info.position };
    append(&mut plan, RecordKind::Recipients, info, |place, family| {
        let keys = set_keys.get(family).ok_or(RunError::Internal("a set of no family"))?;
        let bytes = header.encode(place, keys).map_err(|error| at.error(error))?;
        Ok((bytes, Some(keys)))
    })?;
    Ok(recipients)
}

/// Appends a signature record on a set, over all its blocks as they stand there.
///
/// # Errors
/// `NoSet`, `Store`, `Damaged` where a block is not what its checksum says, those of the targets.
pub fn sign(
    targets: Vec<Box<dyn Target>>,
    position: Option<u32>,
    signer: &dyn Sign,
    run: &Run<'_>,
) -> Result<(), RunError> {
    let (mut plan, media) = open(targets)?;
    let info = media.set(position)?;
    let set = OpenSet::open(media.volumes(), info, None)?;
    let digests = digests(&set, run)?;
    let at = At { media: "the new record", position: info.position };
    append(&mut plan, RecordKind::Signature, info, |place, family| {
        const NONE: RunError = RunError::Internal("a set of no family");
        let copies = set.families.get(family).map(|family| &family.copies).ok_or(NONE)?;
        let (_, placed) = copies.first().ok_or(NONE)?;
        let trailer_sha256 = placed.record.digest();
        let content_sha256 = content_digest(digests.get(family).ok_or(NONE)?);
        let message = message(&place.media_id, &place.set_id, &trailer_sha256, &content_sha256);
        let header = SignatureHeader {
            time_ms: now_ms(),
            trailer_sha256,
            content_sha256,
            certificate: signer.certificate_der().to_vec(),
            signature: signer.sign(&message)?,
        };
        Ok((header.encode(place).map_err(|error| at.error(error))?, None))
    })
}

fn open(targets: Vec<Box<dyn Target>>) -> Result<(Plan, Media), RunError> {
    let name = targets.first().map_or_else(String::new, |target| target.name());
    let mut plan = Plan::open(targets, Layout::Mirrors, Mode::Append, now_ms())?;
    match plan.media.take() {
        Some(media) => Ok((plan, media)),
        None => Err(RunError::Missing { path: name.into() }),
    }
}

/// The keys of a set in each family.
fn keys_of(media: &Media, info: &SetInfo, secret: &SetSecret) -> Result<Vec<SetKeys>, RunError> {
    let volumes = media.volumes();
    let keys = |family| {
        let found = volumes.header(family, info.ordinal);
        let (_, placed) =
            found.ok_or(RunError::MissingFamily { family, families: info.families })?;
        let name = volumes.of_family(family).next().map_or("", |volume| &volume.name);
        let at = At { media: name, position: info.position };
        SetKeys::of_set(&placed.record.header_bytes, secret).map_err(|error| at.error(error))
    };
    (0..volumes.families).map(keys).collect()
}

/// Appends a record that is a header and a trailer.
fn append<'a>(
    plan: &mut Plan,
    kind: RecordKind,
    info: &SetInfo,
    header: impl Fn(&RecordPlace, usize) -> Result<Header<'a>, RunError>,
) -> Result<(), RunError> {
    let at = At { media: "the new record", position: info.position };
    let (media_id, set_id) = (plan.media_id, info.set_id);
    let mut unpublished = Vec::new();
    for (number, family) in plan.families.iter_mut().enumerate() {
        let (ordinal, previous) = (family.ordinal, family.previous);
        let place = RecordPlace { ordinal, previous, media_id, set_id };
        let (bytes, keys) = header(&place, number)?;
        let trailer = Trailer::of_header(kind, ordinal, &bytes, now_ms())
            .and_then(|trailer| trailer.encode(keys))
            .map_err(|error| at.error(error))?;
        let mut copies = family.begin()?;
        copies.iter_mut().try_for_each(|copy| copy.write(&bytes))?;
        sync(&mut copies)?;
        unpublished.push(Unpublished { copies, trailer });
    }
    publish(unpublished)
}

/// The digest of each block, by family.
fn digests(set: &OpenSet<'_>, run: &Run<'_>) -> Result<Vec<Vec<Digest>>, RunError> {
    let mut all = Vec::new();
    for (number, family) in set.families.iter().enumerate() {
        let count = family.index.entries.len();
        let digests = Mutex::new(vec![[0; 32]; count]);
        let (next, fate) = (AtomicU64::new(0), Fate::default());
        let work = || {
            let mut reader = BlockReader::new(set)?;
            loop {
                fate.check()?;
                run.check()?;
                let index = next.fetch_add(1, Ordering::Relaxed);
                let (Ok(at), Ok(index)) = (usize::try_from(index), u32::try_from(index)) else {
                    return Ok(());
                };
                if at >= count {
                    return Ok(());
                }
                reader.check_any(set, (number, index))?;
                let digest = block_digest(reader.raw());
                if let Some(place) = lock(&digests).get_mut(at) {
                    *place = digest;
                }
            }
        };
        run_threads(threads(run), &fate, &work)?;
        let digests = std::mem::take(&mut *lock(&digests));
        all.push(digests);
    }
    Ok(all)
}
