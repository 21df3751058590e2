//! Checksums of pages.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C: the checksum at the end of a page of the format `full_crc32`, over all bytes before it,
/// and that of the redo log.
#[must_use]
pub fn full(page: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(page)
}

/// Checksum of a page of the older format: without the bytes that contain checksums, and without
/// key version and the checksum after encryption, which are bytes 26 to 33.
pub(super) fn legacy(page: &[u8]) -> u32 {
    let body = page.get(38..page.len().saturating_sub(8)).unwrap_or_default();
    part(page, 4, 26) ^ full(body)
}

/// Checksum of a page of a table with `ROW_FORMAT=COMPRESSED`.
pub(super) fn compressed_rows(page: &[u8]) -> u32 {
    part(page, 4, 16) ^ part(page, 24, 26) ^ part(page, 34, page.len())
}

/// Checksum of a page of Aria: CRC-32 as in zlib, started with the page's number. The two values
/// that mean "none" are not checksums.
pub(super) fn aria(number: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32IsoHdlc, u64::from(!number));
    digest.update(bytes);
    // The algorithm's values have 32 bits.
    u32::try_from(digest.finalize()).unwrap_or(u32::MAX).min(NO_ARIA_BITMAP_CHECKSUM - 1)
}

/// The value in place of a checksum of an Aria bitmap page without one.
pub(super) const NO_ARIA_BITMAP_CHECKSUM: u32 = 0xffff_fffe;
/// The same for other pages.
pub(super) const NO_ARIA_CHECKSUM: u32 = 0xffff_ffff;

fn part(page: &[u8], from: usize, to: usize) -> u32 {
    full(page.get(from..to).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of the CRC catalogue.
    #[test]
    fn they_are_the_catalogues() {
        assert_eq!(full(b"123456789"), 0xe306_9283);
        assert_eq!(aria(0, b"123456789"), 0xcbf4_3926);
        // Started with a number as zlib's crc32() is: as if bytes with that checksum came before.
        assert_eq!(aria(aria(0, b"1234"), b"56789"), 0xcbf4_3926);
    }
}
