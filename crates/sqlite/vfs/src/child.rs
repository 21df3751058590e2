//! Journals named in a super-journal whose key this process cannot open.
//!
//! A connection that rolls back one database of a transaction over several checks the journals of
//! the others: the super-journal stays as long as one of them names it (`pager_delsuper` in
//! SQLite's pager.c). A journal that cannot be read may name it, so it is presented as one that
//! does: the database can be opened without the others' keys, and the others still roll back.

use std::cell::RefCell;
use std::ffi::c_char;

use crate::VfsError;
use crate::base::{BaseFile, Read};
use crate::journal::SUPER_END;

thread_local! {
    /// The super-journal that this thread opened last: SQLite opens the journals named in it right
    /// afterwards.
    static SUPER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A journal of another database, read only.
pub(crate) struct ChildJournal {
    pub(crate) base: BaseFile,
    shown: Vec<u8>,
}

impl ChildJournal {
    /// Presents the journal as one that names the super-journal, because reading it fails with
    /// `failure`. Returns that error if no super-journal is known.
    pub(crate) fn new(base: BaseFile, failure: VfsError) -> Result<Self, VfsError> {
        let name = SUPER.with_borrow(Vec::clone);
        match u32::try_from(name.len()) {
            Ok(len) if len > 0 => Ok(Self { base, shown: record(&name, len) }),
            _ => Err(failure),
        }
    }

    pub(crate) fn read(&self, out: &mut [u8], offset: u64) -> Read {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let there = self.shown.get(at..).unwrap_or_default();
        let n = there.len().min(out.len());
        let (filled, rest) = out.split_at_mut(n);
        filled.copy_from_slice(&there[..n]);
        rest.fill(0);
        if rest.is_empty() { Read::Full } else { Read::Short }
    }

    pub(crate) fn size(&self) -> u64 {
        self.shown.len() as u64
    }
}

/// Returns true if a file that is opened as a super-journal has the name of one, and remembers it.
pub(crate) fn is_super(name: &[u8]) -> bool {
    let is_one = is_super_name(name);
    if is_one {
        SUPER.set(name.to_vec());
    }
    is_one
}

/// Returns true if a name has the form of `vdbeCommit` in SQLite's vdbeaux.c: `-mj%06X9%02X` at its
/// end. Other journals are opened as if they were super-journals, but are not.
fn is_super_name(name: &[u8]) -> bool {
    let Some((_, end)) = name.split_at_checked(name.len().saturating_sub(12)) else { return false };
    match end.strip_prefix(b"-mj") {
        Some(digits) => digits.len() == 9 && digits[6] == b'9' && digits.iter().all(is_hex),
        None => false,
    }
}

fn is_hex(digit: &u8) -> bool {
    digit.is_ascii_digit() || (b'A'..=b'F').contains(digit)
}

/// Returns the record of a super-journal's name (`writeSuperJournal` in SQLite's pager.c). SQLite
/// adds up its `char`s, which are signed on some processors.
fn record(name: &[u8], len: u32) -> Vec<u8> {
    let sum = |sum: u32, byte: &u8| sum.wrapping_add_signed(i32::from(*byte as c_char));
    let checksum = name.iter().fold(0, sum);
    [name, &len.to_be_bytes(), &checksum.to_be_bytes(), SUPER_END].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_super_journals_are_noted() {
        for (name, is_one) in [
            ("/a/b.db-mj0A1B2C9FF", true),
            ("-mj0000009EF", true),
            ("/a/b.db-journal", false),
            ("/a/b.db-mj0A1B2C8FF", false),
            ("/a/b.db-mj0a1b2c9ff", false),
            ("/a/b.db-mj0A1B2C9FF-journal", false),
            ("mj", false),
            ("", false),
        ] {
            assert_eq!(is_super_name(name.as_bytes()), is_one, "{name}");
        }
    }

    /// The sum of the bytes 'a' and 'b', and the length, are before the magic bytes.
    #[test]
    fn a_record_ends_as_sqlite_reads_it() {
        let record = record(b"ab", 2);
        assert_eq!(record[..10], [b'a', b'b', 0, 0, 0, 2, 0, 0, 0, 195]);
        assert_eq!(&record[10..], SUPER_END);
    }
}
