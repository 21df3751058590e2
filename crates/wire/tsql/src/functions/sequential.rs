//! NEWSEQUENTIALID: each value is greater than those before, in the order of `uniqueidentifier`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

/// Units of 100 ns from 15 October 1582 to 1970 (RFC 9562, section 5.1).
const BEFORE_1970: u64 = 0x01b2_1dd2_1381_4000;

/// The last time used.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Represents the machine: random, and constant while the process runs.
static NODE: OnceLock<[u8; 8]> = OnceLock::new();

/// Returns the next one: a version 1 UUID whose time fields are in memory with the most significant
/// byte first, because SQL Server compares the groups from the last to the first, and each from its
/// first byte on.
///
/// # Errors
/// If the system provides no random numbers.
pub(super) fn next() -> Result<[u8; 16]> {
    let node = match NODE.get() {
        Some(node) => *node,
        None => {
            let mut node = [0; 8];
            getrandom::fill(&mut node)
                .map_err(|error| Error::Internal { detail: error.to_string() })?;
            node[0] = node[0] & 0x3f | 0x80;
            // not the address of a network card
            node[2] |= 1;
            *NODE.get_or_init(|| node)
        }
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(since.as_nanos() / 100).unwrap_or(u64::MAX >> 8);
    let now = now.saturating_add(BEFORE_1970);
    let mut given = now;
    let _ = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        given = now.max(last + 1);
        Some(given)
    });
    let time = given.to_be_bytes();
    let mut guid = [0; 16];
    guid[..4].copy_from_slice(&time[4..]);
    guid[4..6].copy_from_slice(&time[2..4]);
    guid[6..8].copy_from_slice(&time[..2]);
    guid[6] = guid[6] & 0x0f | 0x10;
    guid[8..].copy_from_slice(&node);
    Ok(guid)
}
