//! The system's allocator with counting.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

use super::{gave, took};

/// The system's allocator, which counts the bytes allocated and freed. A program installs it with
/// `#[global_allocator]`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

// SAFETY: every call is passed to `System` unchanged, and its result is returned; counting
// allocates no memory and does not unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees the layout.
        let place = unsafe { System.alloc(layout) };
        if !place.is_null() {
            took(layout.size());
        }
        place
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees the layout.
        let place = unsafe { System.alloc_zeroed(layout) };
        if !place.is_null() {
            took(layout.size());
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that the place was allocated here with this layout.
        unsafe { System.dealloc(place, layout) };
        gave(layout.size());
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees the place, its layout and the size.
        let moved = unsafe { System.realloc(place, layout, size) };
        if !moved.is_null() {
            gave(layout.size());
            took(size);
        }
        moved
    }
}
