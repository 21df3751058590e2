//! An InnoDB page's record of its own place, inside the encrypted part.
//!
//! For a page in the format `full_crc32`, InnoDB has the bytes from 26 up to the checksum in its
//! last 4 bytes encrypted. They contain the tablespace's number in bytes 34 to 37 and, at their
//! end, the low half of the page's LSN. Both are also in the IV.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The start of the encrypted part, and the length of the checksum after it.
pub(crate) const BODY_AT: usize = 26;
pub(crate) const CHECKSUM_LEN: usize = 4;
/// Offset of the tablespace's number in a page.
pub(crate) const SPACE_AT: usize = 34;
/// Lengths of full pages in InnoDB.
pub(crate) const MIN_PAGE_LEN: usize = 4096;
/// Largest page of InnoDB in bytes.
pub const MAX_PAGE_LEN: usize = 65536;
/// Lengths of compressed pages are multiples of this.
pub(crate) const COMPRESSED_UNIT: usize = 256;
/// Number of bytes of a page that are not encrypted.
const CLEAR_LEN: usize = BODY_AT + CHECKSUM_LEN;
/// The tablespace of temporary tables (`SRV_TMP_SPACE_ID`), the largest assumed size of its file,
/// and the minimum alignment of its pages.
const TEMPORARY_SPACE: u32 = 0xffff_fffe;
const MAX_TEMPORARY_LEN: u64 = 1 << 40;
const MIN_TEMPORARY_STEP: u64 = 4096;
/// Default page length of servers.
const DEFAULT_PAGE_LEN: usize = 16384;

/// The IV that InnoDB makes for a page: tablespace, page, LSN, each little-endian. For a page of
/// the temporary tablespace it is the page's offset in its file (8 bytes), then 8 random ones.
pub(crate) struct Place {
    pub(crate) space: u32,
    pub(crate) page: u32,
    lsn_low: u32,
}

impl Place {
    pub(crate) fn of(iv: &[u8; 16]) -> Self {
        let word = |at: usize| u32::from_le_bytes([iv[at], iv[at + 1], iv[at + 2], iv[at + 3]]);
        Self { space: word(0), page: word(4), lsn_low: word(8) }
    }

    /// Returns true if the plaintext of a page belongs to this place.
    ///
    /// A temporary page has no LSN to compare, so only its 32 bits of tablespace are known. Another
    /// tablespace's page passes for one with that probability only if its number is a multiple of
    /// 4096 (0 is the system tablespace) and the page's own is at most 256.
    pub(crate) fn matches(&self, plaintext: &[u8]) -> bool {
        if space_of(plaintext) == Some(TEMPORARY_SPACE) && self.may_be_temporary() {
            return true;
        }
        self.is_of_table(plaintext)
    }

    /// As [`Self::matches`], for tablespaces that are not temporary: 64 bits are compared.
    pub(crate) fn is_of_table(&self, plaintext: &[u8]) -> bool {
        space_of(plaintext) == Some(self.space)
            && plaintext.last_chunk() == Some(&self.lsn_low.to_be_bytes())
    }

    /// Returns true if the IV may be an offset in the temporary tablespace.
    fn may_be_temporary(&self) -> bool {
        let offset = u64::from(self.page) << 32 | u64::from(self.space);
        offset.is_multiple_of(MIN_TEMPORARY_STEP) && offset <= MAX_TEMPORARY_LEN
    }
}

/// Returns the tablespace's number in the plaintext of the encrypted part.
fn space_of(plaintext: &[u8]) -> Option<u32> {
    let number = plaintext.get(SPACE_AT - BODY_AT..)?.first_chunk()?;
    Some(u32::from_be_bytes(*number))
}

/// Returns true if a message of this length may be a page of the format `full_crc32`, whole or
/// compressed. The key of such a tablespace is used for no other messages.
pub(crate) fn is_page_len(message_len: usize) -> bool {
    let page_len = message_len + CLEAR_LEN;
    page_len.is_multiple_of(COMPRESSED_UNIT) && page_len <= MAX_PAGE_LEN
}

/// The page length of this server, which the server itself does not report to the plugin.
pub(crate) struct PageLen {
    /// The option's value, or the longest page so far that named its place.
    len: AtomicUsize,
    /// True if it comes from the option.
    told: bool,
}

impl PageLen {
    /// Makes the page length; `None` without the option.
    pub(crate) fn new(told: Option<usize>) -> Self {
        let len = AtomicUsize::new(told.unwrap_or(DEFAULT_PAGE_LEN));
        Self { len, told: told.is_some() }
    }

    /// Returns true if a message of this length must be a full page, and so name its place.
    /// Compressed pages are shorter and do not.
    pub(crate) fn is_full(&self, message_len: usize) -> bool {
        let page_len = message_len + CLEAR_LEN;
        let is_one = page_len.is_power_of_two() && page_len <= MAX_PAGE_LEN;
        is_one && page_len >= self.len.load(Ordering::Relaxed)
    }

    /// Records a page that named its place.
    pub(crate) fn saw(&self, message_len: usize) {
        let page_len = message_len + CLEAR_LEN;
        let is_news = !self.told && page_len > self.len.load(Ordering::Relaxed);
        if is_news && page_len.is_power_of_two() {
            self.len.fetch_max(page_len, Ordering::Relaxed);
        }
    }
}

/// Parses the page length of an option: a value that InnoDB supports, in bytes or with a `k`.
pub(crate) fn parse_page_len(text: &str) -> Option<usize> {
    let len = match text.strip_suffix(['k', 'K']) {
        Some(kibibytes) => kibibytes.parse::<usize>().ok()?.checked_mul(1024)?,
        None => text.parse().ok()?,
    };
    let is_one = len.is_power_of_two() && (MIN_PAGE_LEN..=MAX_PAGE_LEN).contains(&len);
    is_one.then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iv() -> [u8; 16] {
        let mut iv = [0; 16];
        iv[..4].copy_from_slice(&0x0102_0304u32.to_le_bytes());
        iv[4..8].copy_from_slice(&9u32.to_le_bytes());
        iv[8..].copy_from_slice(&0x0000_0011_2233_4455u64.to_le_bytes());
        iv
    }

    #[test]
    fn a_page_is_of_its_place_only() {
        let place = Place::of(&iv());
        assert_eq!((place.space, place.page), (0x0102_0304, 9));
        let mut page = vec![0xee; 16354];
        page[8..12].copy_from_slice(&[1, 2, 3, 4]);
        page[16350..].copy_from_slice(&[0x22, 0x33, 0x44, 0x55]);
        assert!(place.matches(&page));
        for at in [8, 11, 16350, 16353] {
            page[at] ^= 1;
            assert!(!place.matches(&page), "{at}");
            page[at] ^= 1;
        }
        for len in [0, 3, 8, 11] {
            assert!(!place.matches(&page[..len]), "{len}");
        }
    }

    #[test]
    fn a_temporary_page_has_its_offset_for_a_place() {
        let mut page = vec![0xee; 16354];
        page[8..12].copy_from_slice(&[0xff, 0xff, 0xff, 0xfe]);
        let at = |offset: u64| {
            let mut iv = iv();
            iv[..8].copy_from_slice(&offset.to_le_bytes());
            Place::of(&iv)
        };
        for (offset, taken) in
            [(16384, true), (5 << 32, true), (16385, false), (2 << 40, false), (0x1234, false)]
        {
            assert_eq!(at(offset).matches(&page), taken, "{offset}");
        }
        page[8] = 0xfe;
        assert!(!at(16384).matches(&page));
    }

    #[test]
    fn only_the_full_length_must_match() {
        let told = PageLen::new(Some(8192));
        told.saw(65536 - 30);
        for (page_len, full) in [(4096, false), (8192, true), (16384, true), (8448, false)] {
            assert_eq!(told.is_full(page_len - 30), full, "{page_len}");
        }
        let guessing = PageLen::new(None);
        for (page_len, full) in [(8192, false), (16384, true), (32768, true), (131_072, false)] {
            assert_eq!(guessing.is_full(page_len - 30), full, "{page_len}");
        }
        guessing.saw(32768 - 30);
        assert!(!guessing.is_full(16384 - 30));
        assert!(guessing.is_full(32768 - 30));
        assert!(is_page_len(16354) && is_page_len(256 - 30));
        assert!(!is_page_len(16353) && !is_page_len(65536));
    }

    #[test]
    fn the_option_takes_what_innodb_takes() {
        for (text, len) in [("4096", 4096), ("64k", 65536), ("16K", 16384)] {
            assert_eq!(parse_page_len(text), Some(len));
        }
        for text in ["", "k", "2048", "128k", "12288", "-4k", "4kk", "99999999999999999999k"] {
            assert_eq!(parse_page_len(text), None, "{text}");
        }
    }
}
