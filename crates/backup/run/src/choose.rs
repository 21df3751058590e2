//! The choice of the set to restore.

use serde::Serialize;

use crate::finding::FindingReport;
use crate::{Chain, Media, Run, RunError, SetInfo, UnwrapSecret};

/// A set that was not taken, though it is newer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassedOver {
    /// Its place in the media set.
    pub position: u32,
    /// Its id, in hexadecimal digits.
    pub backup_set_uuid: String,
    /// The reason.
    pub reason: String,
}

/// The set at a position, or the newest one that was ever finished in the media set.
///
/// # Errors
/// `LacksNewest` where the history knows a newer set; those of [`Media::set`].
pub fn named_or_newest<'a>(
    media: &'a Media,
    position: Option<u32>,
    findings: &[FindingReport],
) -> Result<&'a SetInfo, RunError> {
    let set = media.set(position)?;
    match findings.iter().find(|finding| finding.is_newer()) {
        Some(newer) if position.is_none() => {
            let media = media.names().into_iter().next().unwrap_or_default();
            Err(RunError::LacksNewest { media, told: newer.message.clone() })
        }
        _ => Ok(set),
    }
}

/// The newest set of which every block can be read, with its base, and what was passed over. Every
/// block is read: the chain restores those and no others.
///
/// # Errors
/// `NothingReadable`; whatever is no damage, such as a key that is missing.
pub fn latest_readable<'a>(
    media: &'a Media,
    keys: Option<&dyn UnwrapSecret>,
    run: &Run<'_>,
) -> Result<(Chain<'a>, Vec<PassedOver>), RunError> {
    let mut passed_over = Vec::new();
    for set in media.sets().iter().rev() {
        let reason = match readable(media, set, keys, run) {
            Ok(Ok(chain)) => return Ok((chain, passed_over)),
            Ok(Err(reason)) => reason,
            Err(
                error @ (RunError::Damaged { .. }
                | RunError::Tampered { .. }
                | RunError::ShortRead { .. }
                | RunError::WrongKey { .. }),
            ) => error.to_string(),
            Err(error) => return Err(error),
        };
        passed_over.push(PassedOver {
            position: set.position,
            backup_set_uuid: hex::encode(set.set_id),
            reason,
        });
    }
    let media = media.names().into_iter().next().unwrap_or_default();
    Err(RunError::NothingReadable { media })
}

/// The set and its base, or what is wrong with a block.
fn readable<'a>(
    media: &'a Media,
    set: &SetInfo,
    keys: Option<&dyn UnwrapSecret>,
    run: &Run<'_>,
) -> Result<Result<Chain<'a>, String>, RunError> {
    let mut chain = media.chain(Some(set.position), keys)?;
    for report in chain.verify(run)? {
        if report.lost_blocks + report.differing_blocks > 0 {
            let first = report.damages.into_iter().next();
            return Ok(Err(first.unwrap_or_else(|| "a block cannot be read".to_owned())));
        }
    }
    Ok(Ok(chain))
}
