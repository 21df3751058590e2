//! Memory for pages that come and go by the thousand: mappings of their own, so that the system
//! gets it back. The allocator keeps what it was given in pieces of a page.
#![allow(unsafe_code)]

use std::ptr::{NonNull, null_mut};
use std::slice;

/// Bytes of a slab: a multiple of each page size of SQLite.
const SLAB_LEN: usize = 1 << 20;

/// Places for pages of one length.
pub(crate) struct Slabs {
    page_len: usize,
    slabs: Vec<Slab>,
    /// Numbers of places that hold no page.
    free: Vec<usize>,
}

impl Slabs {
    /// Places of `page_len` bytes, which is not 0.
    pub(crate) fn new(page_len: usize) -> Self {
        Self { page_len: page_len.max(1), slabs: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn page_len(&self) -> usize {
        self.page_len
    }

    /// Copies a page, at most as long as a place, into a free one, and returns its number.
    pub(crate) fn put(&mut self, page: &[u8]) -> usize {
        if self.free.is_empty() {
            let first = self.slabs.len() * self.places();
            let slab = Slab::new(SLAB_LEN.max(self.page_len));
            self.slabs.push(slab);
            self.free.extend((first..first + self.places()).rev());
        }
        let place = self.free.pop().unwrap_or_default();
        let page_len = self.page_len;
        if let Some(bytes) = self.bytes_mut(place) {
            let len = page.len().min(page_len);
            bytes[..len].copy_from_slice(&page[..len]);
        }
        place
    }

    /// Returns the page at a place that `put` returned.
    pub(crate) fn get(&self, place: usize) -> &[u8] {
        let (slab, at) = (place / self.places(), place % self.places() * self.page_len);
        self.slabs
            .get(slab)
            .and_then(|slab| slab.bytes().get(at..at + self.page_len))
            .unwrap_or(&[])
    }

    /// Returns the page at a place, for changing it.
    pub(crate) fn bytes_mut(&mut self, place: usize) -> Option<&mut [u8]> {
        let (slab, at) = (place / self.places(), place % self.places() * self.page_len);
        self.slabs.get_mut(slab)?.bytes_mut().get_mut(at..at + self.page_len)
    }

    /// Frees a place.
    pub(crate) fn free(&mut self, place: usize) {
        self.free.push(place);
    }

    /// Number of places of a slab.
    fn places(&self) -> usize {
        (SLAB_LEN / self.page_len).max(1)
    }
}

/// One piece of memory, filled with zeros at first.
enum Slab {
    Mapped(NonNull<u8>, usize),
    /// Where the system maps nothing more, for which there may be a limit.
    Heap(Vec<u8>),
}

impl Slab {
    fn new(len: usize) -> Self {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
        );
        // SAFETY: a new mapping at an address that the system chooses changes no other memory.
        let start = unsafe { libc::mmap(null_mut(), len, protection, flags, -1, 0) };
        match NonNull::new(start.cast::<u8>()).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Self::Mapped(start, len),
            None => Self::Heap(vec![0; len]),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: `new` mapped `len` readable bytes there, which stay until `drop`; the shared
            // reference to `self` keeps others from changing them.
            Self::Mapped(start, len) => unsafe { slice::from_raw_parts(start.as_ptr(), *len) },
            Self::Heap(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: as in `bytes`, and the exclusive reference to `self` keeps all others away.
            Self::Mapped(start, len) => unsafe { slice::from_raw_parts_mut(start.as_ptr(), *len) },
            Self::Heap(bytes) => bytes,
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if let Self::Mapped(start, len) = self {
            // SAFETY: `new` mapped exactly this, and no reference to it outlives `self`.
            unsafe { libc::munmap(start.as_ptr().cast(), *len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_hold_their_pages_and_are_used_again() {
        for page_len in [512, 4096, 65536] {
            let mut slabs = Slabs::new(page_len);
            let count = 2 * SLAB_LEN / page_len + 1;
            let page = |n: usize| vec![u8::try_from(n % 251).unwrap(); page_len];
            let places: Vec<usize> = (0..count).map(|n| slabs.put(&page(n))).collect();
            assert_eq!(slabs.slabs.len(), 3);
            for (n, place) in places.iter().enumerate() {
                assert_eq!(slabs.get(*place), page(n), "{page_len} {n}");
            }
            slabs.free(places[1]);
            assert_eq!(slabs.put(&page(7)), places[1]);
            assert_eq!(slabs.get(places[1]), page(7));
            assert_eq!(slabs.get(places[0]), page(0));
        }
    }

    #[test]
    fn memory_of_the_heap_serves_as_well() {
        let mut slabs = Slabs::new(SLAB_LEN);
        slabs.slabs.push(Slab::Heap(vec![0; SLAB_LEN]));
        slabs.free.push(0);
        assert_eq!(slabs.put(&[3; SLAB_LEN]), 0);
        assert_eq!((slabs.get(0)[0], slabs.get(0).len()), (3, SLAB_LEN));
    }
}
