//! Reading a mapped file: advice to the system, and to the processor.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// Number of consecutive forward steps after which a scan is assumed.
const SCAN_LEN: u32 = 8;
/// Maximum number of steps that count. A scan of an index leaves its sequence at each interior
/// page, so a stray read cancels `SCAN_LEN` of them and not all.
const MAX_SCAN_LEN: u32 = 4 * SCAN_LEN;
/// Maximum number of bytes that a scan skips from one range to the next.
const SCAN_STRIDE_LEN: u64 = 256 * 1024;
/// Initial and maximum length of a request to read ahead of a scan, bytes. Each request follows
/// when the scan has reached the range of the previous one.
const FIRST_AHEAD_LEN: u64 = 16 * 1024;
const MAX_AHEAD_LEN: u64 = 1 << 20;
/// Files up to this length are read at once when they are first mapped and are not in memory:
/// otherwise each page would cost a fault, while reads of the file use readahead.
const SMALL_LEN: u64 = 512 * 1024;
/// Growth factor of requests.
const AHEAD_GROWTH: u64 = 4;
/// Number of consecutive scan starts that found everything in memory before some are not checked,
/// and the maximum number, as a power of two, that are skipped for each one that is checked.
const WARM_STARTS: u32 = 4;
const MAX_SKIPPED_LOG2: u32 = 6;
/// Bytes that the processor fetches at once.
const LINE_LEN: usize = 64;
/// Lines at the start of a range that are prefetched before it is read: after them the processor
/// has recognized the sequential read, and fetches the rest itself.
const FIRST_LINES: usize = 16;

/// State of the mapping that the VFS below keeps.
#[derive(Default)]
pub(crate) struct Mapping {
    pub(crate) allowed: bool,
    /// True if the file was opened for writing.
    writable: bool,
    /// Size of the file when it was last mapped.
    pub(crate) len: u64,
    pub(crate) misses: u64,
    /// Address of the file's first byte; 0 before anything was mapped.
    start: usize,
    /// End of the range that was last read.
    last_end: u64,
    /// True if that range began where the previous one ended.
    adjacent: bool,
    scan: Scan,
    /// Consecutive scan starts that found everything in memory, and the number to skip.
    warm_starts: u32,
    skipped: u32,
}

/// Reads that advance through the file.
#[derive(Default)]
struct Scan {
    /// Forward steps minus stray reads.
    steps: u32,
    /// End of the last step's range.
    end: u64,
    /// Length of the next request to read ahead; 0 before the first one.
    ahead_len: u64,
    /// End of the requested range; the next request is due when a step has passed `due`.
    ahead_end: u64,
    due: u64,
}

impl Mapping {
    /// Makes the state of a file that is not mapped yet, opened for writing or only for reading.
    pub(crate) fn new(writable: bool) -> Self {
        Self { writable, ..Self::default() }
    }

    /// Records that nothing is mapped any more.
    pub(crate) fn forget(&mut self) {
        (self.len, self.start) = (0, 0);
    }

    /// Advises the system on the use of the mapping. By default it reads megabytes around each
    /// fault, where a `pread` of one page reads that page; and it does not recognize scans.
    #[inline]
    pub(crate) fn advise(&mut self, at: usize, offset: u64, len: usize) {
        let start = at.wrapping_sub(usize::try_from(offset).unwrap_or(0));
        if start != self.start {
            self.start = start;
            self.scan = Scan::default();
            self.advise_range(0, self.len, libc::MADV_RANDOM);
            self.read_if_small();
        }
        // A page that was opened before is recognized by its seal, at the end; no more is read
        // then.
        prefetch_line(at.wrapping_add(len.saturating_sub(1)));
        let (last_end, end) = (self.last_end, offset + len as u64);
        self.last_end = end;
        let goes_on = is_step(self.scan.end, offset);
        self.adjacent = offset == last_end || (goes_on && offset == self.scan.end);
        if !goes_on && !is_step(last_end, offset) {
            self.scan.stray();
            return;
        }
        self.scan.steps = (self.scan.steps + 1).min(MAX_SCAN_LEN);
        self.scan.end = end;
        if !goes_on || self.scan.ahead_len == 0 {
            self.scan.ahead_len = 0;
            if self.adjacent || self.is_scan() {
                self.begin_ahead(offset);
            }
        } else if end > self.scan.due {
            self.read_ahead();
        }
    }

    /// Makes the system read all of a small file, unless its middle and its end are in memory.
    fn read_if_small(&self) {
        let is_there = || self.is_cached(self.len / 2) && self.is_cached(self.len);
        if self.len <= SMALL_LEN && !is_there() {
            self.advise_range(0, self.len, libc::MADV_WILLNEED);
        }
    }

    /// Returns true if the last reads are part of a scan.
    #[inline]
    pub(crate) fn is_scan(&self) -> bool {
        self.scan.steps >= SCAN_LEN
    }

    /// Prefetches the range that is likely to be read after the one at `at`: `next` bytes from the
    /// file's start if that is known, otherwise the following one.
    #[inline]
    pub(crate) fn expect(&self, at: usize, len: usize, next: Option<u64>) {
        match next.map(usize::try_from) {
            Some(Ok(next)) => prefetch(self.start.wrapping_add(next), len),
            _ if self.adjacent => prefetch(at.wrapping_add(len), len),
            _ => {}
        }
    }

    /// Starts reading ahead of a scan that has reached `offset`. If scans repeatedly find
    /// everything in memory, most short ones are not worth the check.
    fn begin_ahead(&mut self, offset: u64) {
        (self.scan.ahead_len, self.scan.ahead_end) = (FIRST_AHEAD_LEN, offset);
        if self.skipped > 0 && !self.is_scan() {
            self.skipped -= 1;
            self.scan.due = offset + 2 * FIRST_AHEAD_LEN;
        } else {
            self.read_ahead();
        }
    }

    /// Makes the system read the next part of a scan, unless it is in memory.
    #[cold]
    fn read_ahead(&mut self) {
        let (scan, first) = (&self.scan, self.scan.ahead_len == FIRST_AHEAD_LEN);
        let from = if first { scan.ahead_end } else { scan.ahead_end.max(scan.end) }.min(self.len);
        let to = (from + scan.ahead_len).min(self.len);
        // A request for pages that are already in memory looks up each of them, which costs a scan
        // of cached pages 3 %.
        let there = self.is_cached(from) && (first || self.is_cached(to.saturating_sub(1)));
        if there {
            self.warm_starts = self.warm_starts.saturating_add(u32::from(first));
            let log2 = self.warm_starts.saturating_sub(WARM_STARTS).min(MAX_SKIPPED_LOG2);
            self.skipped = (1 << log2) - 1;
        } else {
            (self.warm_starts, self.skipped) = (0, 0);
            self.advise_range(from, to, libc::MADV_WILLNEED);
        }
        self.scan.ahead_end = from + self.scan.ahead_len;
        self.scan.due = from;
        let growth = if there { MAX_AHEAD_LEN } else { AHEAD_GROWTH };
        self.scan.ahead_len = self.scan.ahead_len.saturating_mul(growth).min(MAX_AHEAD_LEN);
    }

    /// Returns true if the system has the page at `offset` in memory. For a file that only others
    /// may write, Linux (since 5.2) does not reveal it, and reports true: for those this always
    /// returns false.
    fn is_cached(&self, offset: u64) -> bool {
        if !self.writable {
            return false;
        }
        let at = page_start(offset.min(self.len.saturating_sub(1)), system_page_len());
        let Ok(skip) = usize::try_from(at) else { return false };
        let mut state = 0_u8;
        let place: *mut u8 = &mut state;
        // SAFETY: one byte is written for the one page, whatever is mapped there.
        let code = unsafe { libc::mincore((self.start + skip) as *mut c_void, 1, place.cast()) };
        code == 0 && state & 1 == 1
    }

    /// Advises on whole system pages; advice may fail without harm.
    fn advise_range(&self, from: u64, to: u64, advice: c_int) {
        let from = page_start(from, system_page_len());
        let (Ok(skip), Ok(len)) = (usize::try_from(from), usize::try_from(to.saturating_sub(from)))
        else {
            return;
        };
        if len > 0 {
            // SAFETY: both kinds of advice leave every byte as it is, whatever is mapped there.
            unsafe { libc::madvise((self.start + skip) as *mut c_void, len, advice) };
        }
    }
}

impl Scan {
    fn stray(&mut self) {
        self.steps = self.steps.saturating_sub(SCAN_LEN);
        if self.steps < SCAN_LEN {
            *self = Self::default();
        }
    }
}

/// Returns the start of the system page that contains `offset`. The system accepts no other
/// address: it would return `EINVAL`, and neither take advice nor report anything.
fn page_start(offset: u64, page_len: u64) -> u64 {
    offset & !(page_len - 1)
}

/// Length of the system's pages, a power of two: 4 KiB on x86-64, up to 64 KiB on aarch64.
pub(crate) fn system_page_len() -> u64 {
    static PAGE_LEN: OnceLock<u64> = OnceLock::new();
    *PAGE_LEN.get_or_init(|| {
        // SAFETY: sysconf has no precondition.
        let len = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) });
        len.ok().filter(|len| len.is_power_of_two()).unwrap_or(4096)
    })
}

/// Returns true if a scan that has reached `from` continues at `offset`. A table's pages are among
/// those of its indexes, so it may skip forward.
#[inline]
fn is_step(from: u64, offset: u64) -> bool {
    from != 0 && offset >= from && offset - from <= SCAN_STRIDE_LEN
}

/// Prefetches the start of a sealed page that is about to be opened.
#[inline]
pub(crate) fn prefetch_start(at: usize) {
    for line in 0..FIRST_LINES {
        prefetch_line(at.wrapping_add(line * LINE_LEN));
    }
}

/// Prefetches the start of a range, and its end, where a page has its seal.
#[inline]
fn prefetch(at: usize, len: usize) {
    prefetch_start(at);
    prefetch_line(at.wrapping_add(len.saturating_sub(1)));
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_line(at: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint; it neither faults nor changes anything at any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at as *const i8) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch_line(_at: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_systems_pages() {
        for len in [4096, 16384, 65536] {
            for offset in [0, 1, 4096, 16384, 20480, 65535, 65536, 200_000, u64::MAX] {
                let start = page_start(offset, len);
                assert!(start.is_multiple_of(len) && offset - start < len, "{offset} of {len}");
            }
        }
    }

    /// Returns true if the system has read the page at `offset` of a mapping into memory.
    fn comes(mapping: &Mapping, offset: u64) -> bool {
        (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            mapping.is_cached(offset)
        })
    }

    #[test]
    fn a_small_file_is_read_at_once() {
        use std::io::Write;
        use std::os::fd::AsRawFd;

        // Temporary directories may be in memory, where nothing is read.
        let program = std::env::current_exe().unwrap();
        let on_disk = program.parent().unwrap();
        let mut file = tempfile::tempfile_in(on_disk).unwrap();
        file.write_all(&vec![7; 300_000]).unwrap();
        file.sync_all().unwrap();
        // SAFETY: the file is open; the advice changes no byte.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        // SAFETY: a new mapping of an open file, which is not cut while it lives.
        let start = unsafe {
            let (shared, fd) = (libc::MAP_SHARED, file.as_raw_fd());
            libc::mmap(std::ptr::null_mut(), 300_000, libc::PROT_READ, shared, fd, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        let mut mapping = Mapping::new(true);
        mapping.len = 300_000;
        mapping.advise(start as usize + 16384, 16384, 1024);
        assert!((0..300_000).step_by(4096).all(|offset| comes(&mapping, offset)));
        // SAFETY: the mapping just made, which nothing references any more.
        unsafe { libc::munmap(start, 300_000) };
    }

    #[test]
    fn the_system_answers_for_every_offset_of_a_mapped_file() {
        let len = 4 * usize::try_from(system_page_len()).unwrap();
        // SAFETY: a new anonymous mapping, which is not read.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the mapping is ours, and has this length.
        unsafe { start.cast::<u8>().write_bytes(1, len) };
        let mut mapping = Mapping::new(true);
        (mapping.start, mapping.len) = (start as usize, len as u64);
        for offset in (0..mapping.len).step_by(1000) {
            assert!(mapping.is_cached(offset), "{offset}");
        }
        // SAFETY: the mapping just made, which nothing references any more.
        unsafe { libc::munmap(start, len) };
    }
}
