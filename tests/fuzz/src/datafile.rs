//! Data files of MariaDB that are read without their server.
//!
//! The encryption of pages is implemented here a second time, from `docs/format/mariadb.md`.

use std::ops::Range;

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};
use tdekit_key_crypto::{WideBlockKey, aes256_block};
use tdekit_mariadb::datafile::{
    AriaFile, AriaTable, Fault, IndexHeader, Layout, MAX_PAGE_LEN, Mode, PageHeader, Seen,
    TableKeys, pointers,
};
use tdekit_mariadb::{HANDLE_LEN, PluginError, SYSTEM_KEY_ID};

use crate::binlog::{VERSIONS, derive, server_key};
use crate::{change_bytes, split_number};

const SPACE: u32 = 9;
const LSN: u64 = 0x11_2233_4455;
const IV: [u8; 16] = [0x6B; 16];
/// The version of the pages' key, as an index.
const VERSION: usize = 2;
/// Flags of a first page, and the length of a page under them.
const FORMATS: [(Format, u32, usize); 3] = [
    (Format::Full, 1 << 4 | 3, 4096),
    (Format::Legacy, 3 << 6, 4096),
    (Format::CompressedRows, 2 << 1, 2048),
];
const ARIA_PAGE_LEN: usize = 1024;
const ARIA_HEADER_LEN: usize = 24 + 107 + 22;
const ARIA_USED: usize = 600;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Full,
    Legacy,
    CompressedRows,
}

/// Data files: the bytes as beginnings of files and as pages of the described formats, and
/// encrypted pages of each format with changes.
pub fn datafile(data: &[u8]) {
    tablespace(data);
    tablespace(&framed_first_page(data));
    aria_table(data);
    let (number, change) = split_number(data);
    for (format, flags, page_len) in FORMATS {
        // The first page is never encrypted.
        innodb_page((format, flags, page_len), number.max(1), change);
    }
    for file in [AriaFile::Data, AriaFile::Index] {
        aria_page(file, number % 2000 + 1, change);
    }
}

/// Checks the verdict on a page. One that does not open yields no content.
fn check(
    layout: &Layout,
    keys: Option<&mut TableKeys<'_>>,
    number: u32,
    page: &[u8],
) -> Result<Result<Seen, Fault>, PluginError> {
    let mut opened = vec![7];
    let seen = tdekit_mariadb::datafile::check(layout, keys, number, page, &mut opened);
    match seen {
        Ok(Ok(Seen::Opened { .. } | Seen::ClearByRule)) => assert_eq!(opened.len(), page.len()),
        Ok(Ok(Seen::Clear)) => assert!(opened.is_empty() || opened == page),
        _ => assert!(opened.is_empty(), "{seen:?}"),
    }
    seen
}

/// Checks the tree data of a page.
fn index_page(layout: &Layout, page: &[u8]) {
    let _ = (PageHeader::of(page), IndexHeader::of(page, layout.space));
    let _ = layout.single_pages(page, usize::from(page[0]) << 8);
    let (_, at) = layout.doublewrite_segment(page);
    let _ = (layout.single_pages(page, at), layout.segment_page(page, layout.space));
    for pointer in pointers(page).unwrap_or_default() {
        let _ = pointer.may_be(page, layout.space);
    }
}

/// Checks that the first page, and pages as it describes them, cause no panic.
fn tablespace(data: &[u8]) {
    let Ok(layout) = Layout::parse(&padded(data)) else { return };
    let mut page: Vec<u8> = data.iter().copied().cycle().take(layout.page_len).collect();
    let (own, _) = split_number(data.get(4..).unwrap_or_default());
    for number in [0, 1, 5, 64, 16384, own.swap_bytes(), u32::MAX] {
        let map = layout.map_page(number);
        assert!(map <= number);
        let doublewrite = layout.is_doublewrite(&page, number);
        assert!(!doublewrite || layout.space == 0);
        let _ = layout.is_used(&page, number);
        index_page(&layout, &page);
        for mend in [None, Some(Format::Full), Some(Format::Legacy), Some(Format::CompressedRows)] {
            if let Some(format) = mend {
                mend_checksum(format, &mut page);
            }
            let iv = layout.crypt.map_or(IV, |crypt| crypt.iv);
            let mut keys = TableKeys::new(&server_key, SYSTEM_KEY_ID, iv);
            check(&layout, Some(&mut keys), number, &page).unwrap().ok();
            let seen = check(&layout, None, number, &page).unwrap();
            assert!(!matches!(seen, Ok(Seen::Opened { .. })), "without a key");
        }
    }
    let short = check(&layout, None, 1, &page[1..]);
    assert!(matches!(short, Err(PluginError::Call { .. })));
}

fn aria_table(data: &[u8]) {
    let Some(table) = AriaTable::parse(data) else { return };
    let page: Vec<u8> = data.iter().copied().cycle().take(table.page_len).collect();
    for file in [AriaFile::Data, AriaFile::Index] {
        for number in [0, 1, 2, 2721, u32::MAX] {
            let iv = table.crypt.map_or(IV, |(_, iv)| iv);
            let mut keys = TableKeys::new(&server_key, SYSTEM_KEY_ID, iv);
            table.check(file, Some(&mut keys), number, &page).unwrap().ok();
            let seen = table.check(file, None, number, &page).unwrap();
            assert!(!matches!(seen, Ok(Seen::Opened { .. })), "without a key");
        }
        let short = table.check(file, None, 1, &page[1..]);
        assert!(matches!(short, Err(PluginError::Call { .. })));
    }
}

/// An encrypted page opens to its original content. With another LSN or other encrypted bytes it
/// does not, even with a corrected checksum.
fn innodb_page(kind: (Format, u32, usize), number: u32, change: &[u8]) {
    let (format, flags, page_len) = kind;
    let layout = Layout::parse(&first_page(flags, page_len)).unwrap();
    let crypt = layout.crypt.unwrap();
    assert_eq!((layout.page_len, crypt.iv, crypt.mode), (page_len, IV, Mode::Default));
    let sealed = sealed_page(format, page_len, number);
    let mut keys = TableKeys::new(&server_key, SYSTEM_KEY_ID, IV);
    let whole = Ok(Seen::Opened { version: VERSIONS[VERSION].0 });
    assert_eq!(check(&layout, Some(&mut keys), number, &sealed).unwrap(), whole, "{format:?}");
    let other = number.wrapping_add(1).max(1);
    let elsewhere = check(&layout, Some(&mut keys), other, &sealed).unwrap();
    assert_eq!(elsewhere, Err(Fault::Number { says: number }));

    let body = body(format, page_len);
    let mut changed = sealed.clone();
    change_bytes(&mut changed, change);
    let matters = changed[16..24] != sealed[16..24] || changed[body.clone()] != sealed[body];
    for mended in [false, true] {
        if mended {
            mend_checksum(format, &mut changed);
        }
        let seen = check(&layout, Some(&mut keys), number, &changed).unwrap();
        let opened = matches!(seen, Ok(Seen::Opened { .. }));
        assert!(!(opened && matters), "{format:?}: a changed page was taken");
    }
}

/// As [`innodb_page`].
fn aria_page(file: AriaFile, number: u32, change: &[u8]) {
    let table = AriaTable::parse(&aria_header()).unwrap();
    assert_eq!((table.page_len, table.first_key_page), (ARIA_PAGE_LEN, 1));
    let (sealed, body) = sealed_aria_page(file, number);
    let mut keys = TableKeys::new(&server_key, SYSTEM_KEY_ID, IV);
    let whole = Ok(Seen::Opened { version: VERSIONS[VERSION].0 });
    assert_eq!(table.check(file, Some(&mut keys), number, &sealed).unwrap(), whole, "{file:?}");
    let elsewhere = table.check(file, Some(&mut keys), number + 1, &sealed).unwrap();
    assert!(matches!(elsewhere, Err(Fault::Refused { .. })), "{elsewhere:?}");

    let mut changed = sealed.clone();
    change_bytes(&mut changed, change);
    let matters = changed[..7] != sealed[..7] || changed[body.clone()] != sealed[body];
    let seen = table.check(file, Some(&mut keys), number, &changed).unwrap();
    let opened = matches!(seen, Ok(Seen::Opened { .. }));
    assert!(!(opened && matters), "{file:?}: a changed page was taken");
}

/// The file's beginning, as the command reads it.
fn padded(data: &[u8]) -> Vec<u8> {
    let mut first = data.to_vec();
    first.resize(MAX_PAGE_LEN, 0);
    first
}

/// Returns `data` with the fields that every first page has.
fn framed_first_page(data: &[u8]) -> Vec<u8> {
    let mut page = data.to_vec();
    page.resize(data.len().max(64), 0);
    page[4..8].fill(0);
    page[24..26].copy_from_slice(&8_u16.to_be_bytes());
    let space: [u8; 4] = page[34..38].try_into().unwrap();
    page[38..42].copy_from_slice(&space);
    page
}

/// The first page of an encrypted tablespace.
fn first_page(flags: u32, page_len: usize) -> Vec<u8> {
    let mut page = framed_first_page(&vec![0; page_len]);
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(34, &SPACE.to_be_bytes());
    put(38, &SPACE.to_be_bytes());
    put(46, &100_u32.to_be_bytes());
    put(50, &90_u32.to_be_bytes());
    put(54, &flags.to_be_bytes());
    // `ROW_FORMAT=COMPRESSED` has the extents of the server's pages, here of 16 KiB.
    let extent_pages = if page_len == 4096 { 256 } else { 64 };
    let crypt_at = 38 + 38 + 112 + (24 + extent_pages / 4) * page_len / extent_pages;
    put(crypt_at, b"s\x0e\x0cREt\x01\x10");
    put(crypt_at + 8, &IV);
    put(crypt_at + 24, &VERSIONS[VERSION].0.to_be_bytes());
    put(crypt_at + 28, &SYSTEM_KEY_ID.to_be_bytes());
    page
}

/// The encrypted part of a page.
fn body(format: Format, page_len: usize) -> Range<usize> {
    match format {
        Format::Full => 26..page_len - 4,
        Format::Legacy | Format::CompressedRows => 38..page_len - 8,
    }
}

/// Returns the checksum of a page.
fn checksum(format: Format, page: &[u8]) -> u32 {
    let crc = |part: Range<usize>| crc32_iscsi(&page[part]);
    match format {
        Format::Full => crc(0..page.len() - 4),
        Format::Legacy => crc(4..26) ^ crc(38..page.len() - 8),
        Format::CompressedRows => crc(4..16) ^ crc(24..26) ^ crc(34..page.len()),
    }
}

/// Sets the correct checksum of an encrypted page.
fn mend_checksum(format: Format, page: &mut [u8]) {
    let sum = checksum(format, page).to_be_bytes();
    let at = if format == Format::Full { page.len() - 4 } else { 30 };
    page[at..at + 4].copy_from_slice(&sum);
}

fn sealed_page(format: Format, page_len: usize, number: u32) -> Vec<u8> {
    let mut page = vec![7; page_len];
    page[4..8].copy_from_slice(&number.to_be_bytes());
    page[16..24].copy_from_slice(&LSN.to_be_bytes());
    page[24..26].copy_from_slice(&17855_u16.to_be_bytes());
    page[34..38].copy_from_slice(&SPACE.to_be_bytes());
    let version = VERSIONS[VERSION].0.to_be_bytes();
    let end = page_len - 8;
    match format {
        Format::Full => {
            page[..4].copy_from_slice(&version);
            page[end..end + 4].copy_from_slice(&LSN.to_be_bytes()[4..]);
        }
        Format::Legacy | Format::CompressedRows => {
            let sum = checksum(format, &page).to_be_bytes();
            page[..4].copy_from_slice(&sum);
            if format == Format::Legacy {
                page[end..end + 4].copy_from_slice(&sum);
            }
            page[26..30].copy_from_slice(&version);
        }
    }
    encrypt(number, LSN, &mut page[body(format, page_len)]);
    mend_checksum(format, &mut page);
    page
}

fn aria_header() -> Vec<u8> {
    let mut header = vec![0; ARIA_HEADER_LEN];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    let (len, page_len) = (153_u16, 1024_u16);
    put(0, &[0xfe, 0xfe, 0x09]);
    put(6, &len.to_be_bytes());
    put(12, &24_u16.to_be_bytes());
    put(24 + 16, &u64::from(page_len).to_be_bytes());
    put(24 + 90, &1_u16.to_be_bytes());
    put(24 + 100, &page_len.to_be_bytes());
    put(24 + 106, &[1]);
    let tail = ARIA_HEADER_LEN - 22;
    put(tail, &[1, 20]);
    put(tail + 2, &SPACE.to_le_bytes());
    put(tail + 6, &IV);
    header
}

/// An encrypted page of Aria, and its encrypted range.
fn sealed_aria_page(file: AriaFile, number: u32) -> (Vec<u8>, Range<usize>) {
    let mut page = vec![7; ARIA_PAGE_LEN];
    let end = ARIA_PAGE_LEN - 4;
    // 3 bytes of file, 4 of offset.
    let (log, offset) = ([1, 2, 3], 0x4433_2211_u32);
    page[..3].copy_from_slice(&log);
    page[3..7].copy_from_slice(&offset.to_le_bytes());
    let (version_at, body) = match file {
        AriaFile::Data => {
            page[7] = 1;
            (12, 16..end)
        }
        AriaFile::Index => {
            page[19..21].copy_from_slice(&600_u16.to_be_bytes());
            (13, 21..ARIA_USED)
        }
    };
    page[version_at..version_at + 4].fill(0);
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32IsoHdlc, u64::from(!number));
    digest.update(&page[..body.end]);
    // Above are two values that mean "none".
    let sum = u32::try_from(digest.finalize()).unwrap().min(0xffff_fffd);
    page[end..].copy_from_slice(&sum.to_le_bytes());
    page[version_at..version_at + 4].copy_from_slice(&VERSIONS[VERSION].0.to_le_bytes());
    let lsn = 0x0003_0201_u64 << 32 | u64::from(offset);
    encrypt(number, lsn, &mut page[body.clone()]);
    (page, body)
}

/// The wide block over GMAC under the tablespace's key.
fn encrypt(number: u32, lsn: u64, body: &mut [u8]) {
    let handle = derive(VERSION, 0, &[], HANDLE_LEN);
    let passed = aes256_block(handle.expose().try_into().unwrap(), IV).unwrap();
    let key = derive(VERSION, 1, passed.expose(), WideBlockKey::GMAC_KEY_LEN);
    let mut tweak = SPACE.to_le_bytes().to_vec();
    tweak.extend(number.to_le_bytes());
    tweak.extend(lsn.to_le_bytes());
    let plain = body.to_vec();
    WideBlockKey::gmac(key.expose()).unwrap().encrypt(&tweak, &plain, body).unwrap();
}

/// Beginnings of files that are read to the end.
pub(crate) fn seeds() -> Vec<crate::seeds::Seed> {
    let first = FORMATS.map(|(_, flags, page_len)| ("datafile", first_page(flags, page_len)));
    first.into_iter().chain([("datafile", aria_header())]).collect()
}

#[cfg(test)]
pub(crate) fn is_read(seed: &[u8]) -> bool {
    Layout::parse(&padded(seed)).is_ok_and(|layout| layout.crypt.is_some())
        || AriaTable::parse(seed).is_some_and(|table| table.crypt.is_some())
}
