//! Page maps: a fingerprint of each page.

use super::pages::PAGES_HEAD_LEN;
use crate::bytes::Reader;
use crate::error::{MediaError, Part};

/// Length of a page's fingerprint in bytes.
pub const FINGERPRINT_LEN: usize = 16;
/// Number of pages in each map block; the last may have fewer.
pub const MAP_PAGES_PER_BLOCK: usize = 65_536;
/// Maximum payload of a map block in bytes.
pub const MAX_MAP_PAYLOAD_LEN: usize = PAGES_HEAD_LEN + FINGERPRINT_LEN * MAP_PAGES_PER_BLOCK;

/// Writes the payload of a map block into `out`, which is emptied first.
///
/// # Errors
/// [`MediaError::Limit`] for more than [`MAP_PAGES_PER_BLOCK`]; [`MediaError::Malformed`] for
/// none.
pub fn put_page_map(
    first_page: u32,
    fingerprints: &[[u8; FINGERPRINT_LEN]],
    out: &mut Vec<u8>,
) -> Result<(), MediaError> {
    let (count, limit) = (fingerprints.len() as u64, MAP_PAGES_PER_BLOCK as u64);
    MediaError::check_limit(Part::AnyBlock, "pages of a map", count, limit)?;
    if first_page == 0 || fingerprints.is_empty() {
        return Err(MediaError::malformed(Part::AnyBlock, "a page map without pages"));
    }
    out.clear();
    out.extend_from_slice(&u64::from(first_page).to_le_bytes());
    out.extend_from_slice(fingerprints.as_flattened());
    Ok(())
}

/// A map block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageMapBlock<'a> {
    /// Number of the first page, from 1.
    pub first_page: u32,
    /// Fingerprints of that page and the following ones.
    pub fingerprints: &'a [[u8; FINGERPRINT_LEN]],
}

impl<'a> PageMapBlock<'a> {
    /// Reads the payload of block `index`.
    ///
    /// # Errors
    /// [`MediaError::Truncated`], [`MediaError::Malformed`].
    pub fn decode(index: u64, payload: &'a [u8]) -> Result<Self, MediaError> {
        let part = Part::Block(index);
        let mut reader = Reader::new(part, payload);
        let first_page = u32::try_from(reader.u64()?).unwrap_or(0);
        let (fingerprints, rest) = reader.take(reader.rest_len())?.as_chunks();
        let pages = u32::try_from(fingerprints.len()).unwrap_or(u32::MAX);
        let counted = (1..=MAP_PAGES_PER_BLOCK).contains(&fingerprints.len())
            && rest.is_empty()
            && first_page > 0
            && first_page.checked_add(pages - 1).is_some();
        if !counted {
            return Err(MediaError::malformed(part, "it does not hold a page map"));
        }
        Ok(Self { first_page, fingerprints })
    }
}
