//! Buffers that the system can read from and write to without a copy (`O_DIRECT`).

use std::ops::{Deref, DerefMut};

/// Alignment of memory, offsets and lengths for direct I/O: the largest in use.
pub(crate) const ALIGN: usize = 4096;

/// [`ALIGN`] as an offset in a file.
pub(crate) const ALIGN_OFFSET: u64 = 4096;

/// Zeroed bytes whose address is a multiple of [`ALIGN`].
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    pub(crate) fn new(len: usize) -> Self {
        let bytes = vec![0; len + ALIGN];
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self { bytes, start, len }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// Returns true if direct I/O accepts these bytes at this offset.
pub(crate) fn is_aligned(bytes: &[u8], offset: u64) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGN)
        && bytes.len().is_multiple_of(ALIGN)
        && offset.is_multiple_of(ALIGN_OFFSET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_and_stays_so_when_moved() {
        for len in [ALIGN, 3 * ALIGN, 1 << 20] {
            let buffer = Box::new(Aligned::new(len));
            assert!(is_aligned(&buffer, 8192));
            assert!(!is_aligned(&buffer, 512));
            assert!(!is_aligned(&buffer[8..], 0));
            assert_eq!(buffer.len(), len);
        }
    }
}
