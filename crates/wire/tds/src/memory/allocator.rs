//! The system's allocator, counting.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

use super::{gave, took};

/// The system's allocator; counts the bytes taken and given back. A program makes it its own by
/// `#[global_allocator]`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

// SAFETY: every call goes to `System` as it came, and what it returns is returned; counting takes
// no memory and does not unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout.
        let place = unsafe { System.alloc(layout) };
        if !place.is_null() {
            took(layout.size());
        }
        place
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout.
        let place = unsafe { System.alloc_zeroed(layout) };
        if !place.is_null() {
            took(layout.size());
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller vouches that the place came from here with this layout.
        unsafe { System.dealloc(place, layout) };
        gave(layout.size());
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller vouches for the place, its layout and the size.
        let moved = unsafe { System.realloc(place, layout, size) };
        if !moved.is_null() {
            gave(layout.size());
            took(size);
        }
        moved
    }
}
