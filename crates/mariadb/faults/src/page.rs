//! Pages of InnoDB's `full_crc32` format, as far as an attacker needs them: the checksum and the
//! part in clear text (storage/innobase/include/fil0fil.h, buf0checksum.cc).

use std::path::Path;

/// Default page size.
pub const PAGE_BYTES: usize = 16_384;
/// Number of bytes at the beginning of an encrypted page that are in clear text: key version, page
/// number, neighbours, LSN, type.
pub const CLEAR_BYTES: usize = 26;
/// Length of the checksum at the end.
pub const CHECKSUM_BYTES: usize = 4;
/// Offset of the page type.
const TYPE_AT: usize = 24;
/// A page of an index tree.
pub const TYPE_INDEX: u16 = 17_855;

/// CRC-32C (Castagnoli, reflected), as InnoDB computes it.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 }
        })
    })
}

/// Returns true if a page's checksum is right.
pub fn is_sound(page: &[u8]) -> bool {
    let (body, sum) = page.split_at(page.len() - CHECKSUM_BYTES);
    crc32c(body).to_be_bytes() == sum
}

/// Writes the right checksum.
pub fn mend(page: &mut [u8]) {
    let (body, sum) = page.split_at_mut(PAGE_BYTES - CHECKSUM_BYTES);
    sum.copy_from_slice(&crc32c(body).to_be_bytes());
}

/// Returns a page's type.
pub fn kind(page: &[u8]) -> u16 {
    u16::from_be_bytes([page[TYPE_AT], page[TYPE_AT + 1]])
}

/// Returns the key version of a page: 0 for clear text.
pub fn key_version(page: &[u8]) -> u32 {
    u32::from_be_bytes([page[0], page[1], page[2], page[3]])
}

/// Returns the numbers of a file's pages that are encrypted pages of an index tree.
pub fn encrypted_index_pages(path: &Path) -> Vec<usize> {
    let bytes = std::fs::read(path).unwrap();
    bytes
        .chunks_exact(PAGE_BYTES)
        .enumerate()
        .filter(|(_, page)| kind(page) == TYPE_INDEX && key_version(page) != 0)
        .map(|(number, _)| number)
        .collect()
}

/// Flips bits of one byte of a page in a file; with `mended`, the checksum is corrected.
pub fn flip(path: &Path, number: usize, offset: usize, bits: u8, mended: bool) {
    let mut bytes = std::fs::read(path).unwrap();
    let page = &mut bytes[number * PAGE_BYTES..(number + 1) * PAGE_BYTES];
    assert!(is_sound(page), "page {number} was not sound before");
    page[offset] ^= bits;
    if mended {
        mend(page);
    }
    std::fs::write(path, bytes).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the CRC catalogue.
    #[test]
    fn the_checksum_is_the_catalogues() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn a_mended_page_is_sound() {
        let mut page = vec![7_u8; PAGE_BYTES];
        assert!(!is_sound(&page));
        mend(&mut page);
        assert!(is_sound(&page));
    }
}
