//! The verdict on one page.

use tdekit_key_crypto::WideBlockKey;

use super::keys::{TableKeys, tweak};
use super::layout::{Format, Layout, kind, lsn, own_number};
use super::{checksum, is_empty, number};
use crate::PluginError;
use crate::page::{BODY_AT, CHECKSUM_LEN, COMPRESSED_UNIT, Place};

/// Formats other than `full_crc32`: the start of the encrypted part, and the length after it.
const LEGACY_BODY_AT: usize = 38;
const LEGACY_END_LEN: usize = 8;
/// Other formats: key version, and the checksum of the encrypted page.
const LEGACY_VERSION_AT: usize = 26;
const LEGACY_SEALED_CHECKSUM_AT: usize = 30;
/// In the kind of a page of `full_crc32`: flag for a compressed page; the rest is its length.
const COMPRESSED_MARK: u16 = 1 << 15;
/// Kinds of compressed pages of the older format.
const LEGACY_COMPRESSED: u16 = 34_354;
const LEGACY_COMPRESSED_ENCRYPTED: u16 = 37_401;

/// The kinds of pages without a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// All its bytes are 0: it was never written, or was freed and wiped.
    Empty,
    /// The server writes it in the clear in every tablespace.
    ClearByRule,
    /// It claims to be unencrypted, and its checksum is right.
    Clear,
    /// It opens under the key version that it names, and belongs to this place.
    Opened {
        /// The version.
        version: u32,
    },
    /// It is encrypted, and nothing in it shows whether it opens.
    Unopened {
        /// The version.
        version: u32,
        /// The reason.
        why: Unopened,
    },
}

/// Reason why it is not known whether an encrypted page opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unopened {
    /// It is `PAGE_COMPRESSED`; its checksum is right.
    Compressed,
    /// It is `PAGE_COMPRESSED` in the older format, and has no checksum either.
    CompressedLegacy,
    /// It is a page of Aria's index with few bytes in use, which is encrypted like the redo log.
    Short,
    /// No keys were given; its checksum is right.
    NoKeys,
}

/// The faults of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Its checksum is wrong.
    Checksum,
    /// It claims to be another page.
    Number {
        /// The number in the page.
        says: u32,
    },
    /// It is compressed in a tablespace without compressed pages, or has an impossible length.
    Compression,
    /// The tablespace's key has no such version.
    NoKey {
        /// The version that it names.
        version: u32,
    },
    /// It does not open under its key: it was changed, belongs to another place, or to another key.
    Refused {
        /// The version that it names.
        version: u32,
    },
    /// It is encrypted, but the tablespace has no encryption data.
    NoCryptData {
        /// The version that it names.
        version: u32,
    },
}

/// Checks page `number` of a tablespace. `keys` are the tablespace's own: `None` to check only
/// checksums. `opened` receives the page as the server has it in memory, or nothing if it was not
/// opened, is compressed or has a fault.
///
/// # Errors
/// Those of keys that exist but cannot be obtained, and of a page of another length.
pub fn check(
    layout: &Layout,
    keys: Option<&mut TableKeys<'_>>,
    number: u32,
    page: &[u8],
    opened: &mut Vec<u8>,
) -> Result<Result<Seen, Fault>, PluginError> {
    opened.clear();
    if page.len() != layout.page_len {
        return Err(PluginError::Call { what: "a page", len: page.len() });
    }
    if is_empty(page) {
        return Ok(Ok(Seen::Empty));
    }
    let version = key_version(layout, number, page);
    let sealed = match sealed_part(layout, version, page) {
        Ok(sealed) => sealed,
        Err(fault) => return Ok(Err(fault)),
    };
    let says = own_number(page);
    if says != number {
        return Ok(Err(Fault::Number { says }));
    }
    if version == 0 {
        if !matches!(sealed, Sealed::Unchecked(_)) {
            opened.extend_from_slice(page);
        }
        let by_rule = layout.is_clear_by_rule(number, kind(page));
        return Ok(Ok(if by_rule { Seen::ClearByRule } else { Seen::Clear }));
    }
    if layout.crypt.is_none() {
        return Ok(Err(Fault::NoCryptData { version }));
    }
    let Some(keys) = keys else {
        return Ok(Ok(Seen::Unopened { version, why: Unopened::NoKeys }));
    };
    let Some(key) = keys.version(version)? else { return Ok(Err(Fault::NoKey { version })) };
    let opens = match sealed {
        Sealed::Unchecked(why) => return Ok(Ok(Seen::Unopened { version, why })),
        Sealed::Full => opens_full(layout.space, number, page, key, opened)?,
        Sealed::Legacy => opens_legacy(layout, number, page, key, opened)?,
    };
    if opens {
        return Ok(Ok(Seen::Opened { version }));
    }
    opened.clear();
    Ok(Err(Fault::Refused { version }))
}

/// Returns the version that a page names; 0 means in the clear. In the older formats, the first
/// page has none.
fn key_version(layout: &Layout, page_number: u32, page: &[u8]) -> u32 {
    match layout.format {
        Format::FullCrc32 { .. } => number(page, 0),
        _ if page_number == 0 => 0,
        _ => number(page, LEGACY_VERSION_AT),
    }
}

/// The means to check whether an encrypted page opens.
enum Sealed {
    /// By its tablespace and LSN.
    Full,
    /// By the checksum of its content, 32 bits.
    Legacy,
    Unchecked(Unopened),
}

/// Checks without a key: the checksum of the page as it is in the file.
fn sealed_part(layout: &Layout, version: u32, page: &[u8]) -> Result<Sealed, Fault> {
    let right = |sum: u32, at: usize| {
        if sum == number(page, at) { Ok(()) } else { Err(Fault::Checksum) }
    };
    let field = if version == 0 { 0 } else { LEGACY_SEALED_CHECKSUM_AT };
    match layout.format {
        Format::FullCrc32 { compressed } => {
            let len = full_len(compressed, page)?;
            let body = &page[..len - CHECKSUM_LEN];
            right(checksum::full(body), body.len())?;
            let is_whole = kind(page) & COMPRESSED_MARK == 0;
            Ok(if is_whole { Sealed::Full } else { Sealed::Unchecked(Unopened::Compressed) })
        }
        Format::Legacy { compressed } => match kind(page) {
            LEGACY_COMPRESSED | LEGACY_COMPRESSED_ENCRYPTED if compressed => {
                Ok(Sealed::Unchecked(Unopened::CompressedLegacy))
            }
            LEGACY_COMPRESSED | LEGACY_COMPRESSED_ENCRYPTED => Err(Fault::Compression),
            _ => right(checksum::legacy(page), field).map(|()| Sealed::Legacy),
        },
        Format::CompressedRows => {
            right(checksum::compressed_rows(page), field).map(|()| Sealed::Legacy)
        }
    }
}

/// Returns the length of a page's content with its checksum, in bytes.
fn full_len(compressed: bool, page: &[u8]) -> Result<usize, Fault> {
    let kind = kind(page);
    if kind & COMPRESSED_MARK == 0 {
        return Ok(page.len());
    }
    let len = usize::from(kind & !COMPRESSED_MARK) * COMPRESSED_UNIT;
    let possible = compressed && len > 0 && len <= page.len();
    if possible { Ok(len) } else { Err(Fault::Compression) }
}

fn opens_full(
    space: u32,
    number: u32,
    page: &[u8],
    key: &WideBlockKey,
    plain: &mut Vec<u8>,
) -> Result<bool, PluginError> {
    let iv = tweak(space, number, lsn(page));
    let body = BODY_AT..page.len() - CHECKSUM_LEN;
    plain.extend_from_slice(page);
    key.decrypt(&iv, &page[body.clone()], &mut plain[body.clone()])?;
    Ok(Place::of(&iv).is_of_table(&plain[body]))
}

fn opens_legacy(
    layout: &Layout,
    page_number: u32,
    page: &[u8],
    key: &WideBlockKey,
    plain: &mut Vec<u8>,
) -> Result<bool, PluginError> {
    let iv = tweak(layout.space, page_number, lsn(page));
    let body = LEGACY_BODY_AT..page.len() - LEGACY_END_LEN;
    plain.extend_from_slice(page);
    key.decrypt(&iv, &page[body.clone()], &mut plain[body])?;
    // The server computed it before it encrypted the page; it is in the clear.
    let told = number(page, 0);
    Ok(match layout.format {
        Format::CompressedRows => checksum::compressed_rows(plain) == told,
        _ => checksum::legacy(plain) == told && number(page, page.len() - LEGACY_END_LEN) == told,
    })
}
