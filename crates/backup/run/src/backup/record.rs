//! Records on earlier sets: more recipients, signatures.

use tdekit_backup_media::signature::{SignatureHeader, message};
use tdekit_backup_media::{
    Holds, RecipientsHeader, RecordKind, RecordPlace, SetKeys, SetSecret, Trailer,
};

use super::plan::Plan;
use super::publish::{Unpublished, publish, sync};
use super::{BackupOutcome, Signable, now_ms};
use crate::error::At;
use crate::media::opened::unwrap;
use crate::options::{Layout, Mode};
use crate::{Media, Recipient, RunError, SetInfo, Sign, Target, UnwrapSecret, WrapSecret};

/// A record's header in one family, and its keys if it has some.
type Header<'a> = (Vec<u8>, Option<&'a SetKeys>);

/// Appends a recipients record to media sets (all mirrors or all stripes): from then on the new
/// recipients can open the set as well. No data is touched.
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

/// Appends a signature record on a set that was just made for signing, over the blocks as they were
/// written. Nothing is read back: data that somebody put in their place in the meantime is not
/// signed.
///
/// # Errors
/// `NoSet` if another set is there now, `Option` for a set that was not made for signing, `Store`,
/// those of the targets.
pub fn sign(
    targets: Vec<Box<dyn Target>>,
    made: &BackupOutcome,
    signer: &dyn Sign,
) -> Result<(), RunError> {
    let (mut plan, media) = open(targets)?;
    let info = media.set(Some(made.position))?;
    if info.set_id != made.set_id {
        let sets = u32::try_from(media.sets().len()).unwrap_or(u32::MAX);
        return Err(RunError::NoSet { position: made.position, sets });
    }
    let at = At { media: "the new record", position: info.position };
    append(&mut plan, RecordKind::Signature, info, |place, family| {
        let none = || {
            let reason = "the set was not made to be signed".to_owned();
            RunError::Option { what: "signature", reason }
        };
        let signable = *made.signable.get(family).ok_or_else(none)?;
        Ok((signature_header(place, signable, signer, at)?, None))
    })
}

/// Returns the whole record of a signature at `place`.
pub(super) fn signature_record(
    place: &RecordPlace,
    signable: Signable,
    signer: &dyn Sign,
    at: At<'_>,
) -> Result<Vec<u8>, RunError> {
    let header = signature_header(place, signable, signer, at)?;
    let trailer = Trailer::of_header(RecordKind::Signature, place.ordinal, &header, now_ms())
        .and_then(|trailer| trailer.encode(None))
        .map_err(|error| at.error(error))?;
    Ok([&header[..], &trailer].concat())
}

fn signature_header(
    place: &RecordPlace,
    Signable { trailer_sha256, hash, content_sha256 }: Signable,
    signer: &dyn Sign,
    at: At<'_>,
) -> Result<Vec<u8>, RunError> {
    let message = message(hash, place, &trailer_sha256, &content_sha256);
    let header = SignatureHeader {
        time_ms: now_ms(),
        trailer_sha256,
        hash,
        content_sha256,
        certificate: signer.certificate_der().to_vec(),
        signature: signer.sign(&message)?,
    };
    header.encode(place).map_err(|error| at.error(error))
}

fn open(targets: Vec<Box<dyn Target>>) -> Result<(Plan, Media), RunError> {
    let name = targets.first().map_or_else(String::new, |target| target.name());
    let mut plan = Plan::open(targets, (Layout::Mirrors, Holds::Backups), Mode::Append, now_ms())?;
    match plan.media.take() {
        Some(media) => Ok((plan, media)),
        None => Err(RunError::Missing { path: name.into() }),
    }
}

/// Returns the keys of a set in each family.
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

/// Appends a record that consists of a header and a trailer.
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
        unpublished.push(Unpublished { copies, trailer, behind: Vec::new() });
    }
    publish(unpublished)
}
