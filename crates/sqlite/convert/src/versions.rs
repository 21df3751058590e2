//! The key versions that the pages of a file name.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tdekit_sqlite_page::page::key_version;
use tdekit_sqlite_page::{HEADER_AREA_LEN, Header, PageSize};

use crate::error::{DatabaseError, io_error};
use crate::watch::{Watch, go_on};

/// Bytes that are read at once.
const CHUNK_LEN: usize = 1 << 20;

/// The length of the file's pages, found without a key: the shortest at which its first pages name
/// versions of the header's key. The header tells what was planned when it was made, and a database
/// may get another length before its first page is written.
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

/// Counts the pages of the main file at `path` by their stored key version. It needs no key and
/// takes no lock: others may write meanwhile.
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
