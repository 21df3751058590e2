//! Aria tables: an index file (`.MAI`), whose header describes both files, and a data file
//! (`.MAD`).

use super::checksum::{self, NO_ARIA_BITMAP_CHECKSUM, NO_ARIA_CHECKSUM};
use super::keys::{TableKeys, tweak};
use super::page::{Fault, Seen, Unopened};
use super::{is_empty, number, short_number};
use crate::PluginError;
use crate::call::is_log_piece;

/// The first bytes of an index file (maria_file_magic).
const MAGIC: [u8; 3] = [0xfe, 0xfe, 0x09];
/// In the header: its length, and the offset of the base information.
const HEADER_LEN_AT: usize = 6;
const BASE_AT: usize = 12;
/// In the base information: the first block of keys, options, block size, flag for logged rows.
const KEYS_AT: usize = 16 + 4;
const OPTIONS_AT: usize = 90;
const BLOCK_LEN_AT: usize = 100;
const LOGGED_AT: usize = 106;
const OPTION_ENCRYPTED: u16 = 1;
/// The end of an encrypted table's header: scheme, length, number, random bytes.
const CRYPT_LEN: usize = 2 + 4 + 16;
const SCHEME_1: [u8; 2] = [1, 20];
const CHECKSUM_LEN: usize = 4;
/// In pages: kind of a data page, and key versions.
const KIND_AT: usize = 7;
const KIND_MASK: u8 = 7;
const TAIL: u8 = 2;
const BLOB_HEADER_LEN: usize = 12;
const ROWS_HEADER_LEN: usize = 16;
const VERSION_LEN: usize = 4;

/// An Aria table, as described by the header of its index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AriaTable {
    /// Length of a page in bytes.
    pub page_len: usize,
    /// The first page of the index file with keys.
    pub first_key_page: u32,
    /// Number in the pages' tweaks, and the bytes from which keys are derived; `None` for an
    /// unencrypted table.
    pub crypt: Option<(u32, [u8; 16])>,
    /// True if changes are logged.
    logged: bool,
}

/// The files of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AriaFile {
    /// Rows, `.MAD`.
    Data,
    /// Keys, `.MAI`.
    Index,
}

impl AriaTable {
    /// Parses the beginning of an index file; `None` for any other file.
    #[must_use]
    pub fn parse(header: &[u8]) -> Option<Self> {
        if !header.starts_with(&MAGIC) {
            return None;
        }
        let len = usize::from(short_number(header, HEADER_LEN_AT));
        let base = header.get(usize::from(short_number(header, BASE_AT))..len)?;
        let page_len = usize::from(short_number(base, BLOCK_LEN_AT));
        if !page_len.is_power_of_two() || page_len < 1024 {
            return None;
        }
        // The server starts the keys on the page after the header. A header with another value
        // would exclude pages.
        let first_key_page = len.div_ceil(page_len);
        if number(base, KEYS_AT) as usize != first_key_page * page_len {
            return None;
        }
        let encrypted = short_number(base, OPTIONS_AT) & OPTION_ENCRYPTED != 0;
        let crypt = match encrypted {
            true => {
                let tail = header.get(len.checked_sub(CRYPT_LEN)?..len)?;
                let (scheme, rest) = tail.split_first_chunk()?;
                let (space, iv) = rest.split_first_chunk()?;
                (*scheme == SCHEME_1).then_some(())?;
                Some((u32::from_le_bytes(*space), iv.try_into().ok()?))
            }
            false => None,
        };
        let first_key_page = u32::try_from(first_key_page).ok()?;
        Some(Self { page_len, first_key_page, crypt, logged: *base.get(LOGGED_AT)? != 0 })
    }

    /// Checks a page of an encrypted table. Not for the pages of the header.
    ///
    /// # Errors
    /// Those of keys that exist but cannot be obtained, and of a page of another length.
    pub fn check(
        &self,
        file: AriaFile,
        keys: Option<&mut TableKeys<'_>>,
        number: u32,
        page: &[u8],
    ) -> Result<Result<Seen, Fault>, PluginError> {
        if page.len() != self.page_len {
            return Err(PluginError::Call { what: "a page", len: page.len() });
        }
        if is_empty(page) {
            return Ok(Ok(Seen::Empty));
        }
        if file == AriaFile::Data && number.is_multiple_of(self.bitmap_step()) {
            return Ok(check_bitmap(number, page));
        }
        let Some((head_len, used)) = self.extent(file, page) else {
            return Ok(Err(Fault::Checksum));
        };
        let version_at = match file {
            AriaFile::Data => head_len - VERSION_LEN,
            // Version, number of the key, flags, used bytes.
            AriaFile::Index => head_len - VERSION_LEN - 4,
        };
        let version = little(page, version_at);
        if version == 0 {
            return Ok(Ok(Seen::Clear));
        }
        let Some(keys) = keys else {
            return Ok(Ok(Seen::Unopened { version, why: Unopened::NoKeys }));
        };
        let Some(key) = keys.version(version)? else { return Ok(Err(Fault::NoKey { version })) };
        // The plugin takes so few bytes for a piece of the redo log, and encrypts them in the same
        // way.
        if is_log_piece(used - head_len) {
            return Ok(Ok(Seen::Unopened { version, why: Unopened::Short }));
        }
        let (space, _) = self.crypt.unwrap_or_default();
        let mut plain = page[..used].to_vec();
        key.decrypt(
            &tweak(space, number, lsn(page)),
            &page[head_len..used],
            &mut plain[head_len..],
        )?;
        // The server computes it before it encrypts the page, without the version.
        plain[version_at..version_at + VERSION_LEN].fill(0);
        let told = little(page, self.page_len - CHECKSUM_LEN);
        let opened = told != NO_ARIA_CHECKSUM && checksum::aria(number, &plain) == told;
        Ok(if opened { Ok(Seen::Opened { version }) } else { Err(Fault::Refused { version }) })
    }

    /// Returns the bounds of a page's encrypted part.
    fn extent(&self, file: AriaFile, page: &[u8]) -> Option<(usize, usize)> {
        let end = self.page_len - CHECKSUM_LEN;
        let (head, used) = match file {
            AriaFile::Data if page[KIND_AT] & KIND_MASK <= TAIL => (ROWS_HEADER_LEN, end),
            AriaFile::Data => (BLOB_HEADER_LEN, end),
            AriaFile::Index => {
                // LSN, transaction if present, version, key, flags, used bytes.
                let head = if self.logged { 21 } else { 15 };
                (head, usize::from(short_number(page, head - 2)))
            }
        };
        (head <= used && used <= end).then_some((head, used))
    }

    /// Returns the number of pages from one bitmap page of the data file to the next.
    fn bitmap_step(&self) -> u32 {
        let units = (self.page_len - CHECKSUM_LEN) / 6;
        u32::try_from(units * 16 + 1).unwrap_or(u32::MAX)
    }
}

/// Checks a page of the bitmap, which is in the clear.
fn check_bitmap(number: u32, page: &[u8]) -> Result<Seen, Fault> {
    let (body, sum) = page.split_at(page.len() - CHECKSUM_LEN);
    let told = little(sum, 0);
    if told == NO_ARIA_BITMAP_CHECKSUM || told == checksum::aria(number, body) {
        return Ok(Seen::ClearByRule);
    }
    Err(Fault::Checksum)
}

/// Returns a page's LSN, or the random number in its place: 3 bytes of file, 4 of offset.
fn lsn(page: &[u8]) -> u64 {
    let file = u64::from(page[0]) | u64::from(page[1]) << 8 | u64::from(page[2]) << 16;
    file << 32 | u64::from(little(page, 3))
}

/// Returns the little-endian 4-byte number at an offset; 0 if the bytes end before.
fn little(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u32::from_le_bytes(*word))
}
