//! The pages in a write-ahead log, according to its index in shared memory, for a database whose
//! log is sealed (<https://www.sqlite.org/walformat.html>, 2.1 and 2.2).

use super::ffi::{MainFile, number};

/// Bytes of a region of the index.
const REGION_LEN: usize = 32 * 1024;
/// Page numbers per region; in the first, the header replaces some.
const NUMBERS: usize = 4096;
/// Number of 32-bit numbers in that header.
const HEADER_NUMBERS: usize = 34;
const VERSION: u32 = 3_007_000;
/// Maximum number of frames that are listed: otherwise the list would take too much memory.
const MAX_FRAMES: u32 = 4 << 20;

/// Returns the page numbers of all frames in the index, in order and without duplicates: those of
/// the snapshot, and perhaps others. `None` if they cannot be determined.
///
/// The connection holds a read transaction, so the index has the frames of its snapshot, unless the
/// log was completely copied before and restarted since: then the snapshot needs none of them.
pub(super) fn page_numbers(file: &MainFile<'_>, page_size: u32) -> Option<Vec<u32>> {
    let first = file.log_index(0, REGION_LEN)?;
    let header = |at: usize| first.get(at).map_or(0, number);
    let frames = header(4);
    if header(0) != VERSION || frames > MAX_FRAMES {
        return None;
    }
    // The index of an empty log has no page size.
    if frames > 0 && page_size_of(header(3)) != page_size {
        return None;
    }
    let mut numbers = Vec::new();
    let mut left = usize::try_from(frames).ok()?;
    for region in 0.. {
        let skipped = if region == 0 { HEADER_NUMBERS } else { 0 };
        if left == 0 {
            break;
        }
        let here = file.log_index(region, REGION_LEN)?;
        let taken = left.min(NUMBERS - skipped);
        numbers.extend(here.iter().skip(skipped).take(taken).map(number));
        left -= taken;
    }
    numbers.sort_unstable();
    numbers.dedup();
    Some(numbers)
}

/// Returns the page size, from the fourth number of the header: two bytes of flags, then the size
/// in two bytes, of which 1 stands for 65,536.
fn page_size_of(number: u32) -> u32 {
    let bytes = number.to_ne_bytes();
    match u16::from_ne_bytes([bytes[2], bytes[3]]) {
        1 => 65_536,
        size => size.into(),
    }
}
