//! Publishing a record: at all targets, or at none.

use tdekit_backup_media::TRAILER_LEN;

use crate::RunError;
use crate::target::Append;

/// A record that is complete except for its trailer, in one family.
pub(super) struct Unpublished {
    pub(super) copies: Vec<Box<dyn Append>>,
    pub(super) trailer: [u8; TRAILER_LEN],
    /// A whole record that is published with it: only if the copies are hidden until then.
    pub(super) behind: Vec<u8>,
}

/// Waits until all bytes of all copies are durable; for the only copy of a record, only those that
/// must precede its trailer: nothing else is published before it.
pub(super) fn settle(copies: &mut [Box<dyn Append>], families: usize) -> Result<(), RunError> {
    match copies {
        [only] if families == 1 => only.settle(),
        _ => sync(copies),
    }
}

/// Waits until all bytes of all copies are durable.
pub(super) fn sync(copies: &mut [Box<dyn Append>]) -> Result<(), RunError> {
    copies.iter_mut().try_for_each(|copy| copy.sync())
}

/// Publishes a record whose bytes are durable. If one copy fails, the published ones are withdrawn.
///
/// Before the first stripe becomes valid, the trailers of all stripes are durable: after a crash
/// between two, the next append completes the record.
pub(super) fn publish(mut families: Vec<Unpublished>) -> Result<(), RunError> {
    if families.len() > 1 {
        for family in &mut families {
            family.copies.iter_mut().try_for_each(|copy| copy.prepare(&family.trailer))?;
        }
    }
    let mut published: Vec<&mut Box<dyn Append>> = Vec::new();
    let mut failed = None;
    for family in &mut families {
        for copy in &mut family.copies {
            if failed.is_none() {
                failed = match family.behind.is_empty() {
                    true => copy.publish(&family.trailer).err(),
                    false => copy.publish(&[&family.trailer[..], &family.behind].concat()).err(),
                };
                // A copy that failed may have been published anyway.
                published.push(copy);
            }
        }
    }
    let Some(error) = failed else { return Ok(()) };
    for copy in published {
        // The reported error is the cause of all; remaining copies are visible to every reader.
        let _ = copy.withdraw();
    }
    Err(error)
}
