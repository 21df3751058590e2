//! The key versions that the pages of a file name.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tdekit_sqlite_page::page::key_version;
use tdekit_sqlite_page::{HEADER_AREA_LEN, Header, PageSize};

use crate::error::{DatabaseError, io_error};
use crate::watch::{Watch, go_on};

/// Bytes per read.
const CHUNK_LEN: usize = 1 << 20;

/// Finds the page size of the file without a key: the smallest at which its first pages name
/// versions of the header's key. The header has the size that was planned at its creation, and a
/// database may get another one before its first page is written.
pub(crate) fn page_size_in(
    path: &Path,
    file: &File,
    header: &Header,
) -> Result<PageSize, DatabaseError> {
    const MOST_PAGES: usize = 16;
    let known = |page: &[u8]| {
        let version = key_version(page);
        header.deks.iter().any(|dek| Some(dek.version) == version)
    };
    for size in (9..=16).filter_map(|log2| PageSize::new(1 << log2).ok()) {
        let mut start = vec![0; MOST_PAGES * size.len()];
        let read = file.read_at(&mut start, HEADER_AREA_LEN).map_err(io_error("read", path))?;
        let mut pages = start[..read].chunks_exact(size.len());
        if pages.len() > 0 && pages.all(known) {
            return Ok(size);
        }
    }
    Ok(header.page_size)
}

/// Counts the pages of the main file at `path` by their stored key version. Needs no key and takes
/// no lock: others may write in the meantime.
pub(crate) fn pages_by_key_version(
    path: &Path,
    file: &File,
    size: PageSize,
    watch: &dyn Watch,
) -> Result<BTreeMap<u32, u64>, DatabaseError> {
    let mut counted = BTreeMap::new();
    let mut chunk = vec![0; CHUNK_LEN];
    let mut at = HEADER_AREA_LEN;
    loop {
        go_on(watch)?;
        let read = file.read_at(&mut chunk, at).map_err(io_error("read", path))?;
        let whole = read - read % size.len();
        if whole == 0 {
            return Ok(counted);
        }
        for version in chunk[..whole].chunks_exact(size.len()).filter_map(key_version) {
            *counted.entry(version).or_default() += 1;
        }
        at += whole as u64;
    }
}
