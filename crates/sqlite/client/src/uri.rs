//! URIs of files (<https://www.sqlite.org/uri.html>).

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Besides letters and digits, only characters without a meaning in a URI stay unquoted.
const QUOTED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

/// Returns the URI of a file for SQLite, with every byte quoted that could have another meaning.
#[must_use]
pub fn file_uri(path: &Path) -> String {
    format!("file:{}", percent_encode(path.as_os_str().as_bytes(), QUOTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_that_could_mean_something_is_quoted() {
        let path = Path::new("/a b/c?d#e%f&g=h/\u{fc}.db");
        assert_eq!(file_uri(path), "file:/a%20b/c%3Fd%23e%25f%26g%3Dh/%C3%BC.db");
    }
}
