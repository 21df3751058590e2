//! Parameters of a main file's URI (<https://www.sqlite.org/uri.html>). Those that begin with
//! `tdekit` are ours: a misspelt one, or one without a value, would leave a database plain that
//! should be encrypted, so it is refused before there is a file.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::VfsError;
use crate::api::Api;
use crate::ffi;
use crate::scratch::PARAMETER;

/// Prefix of our parameters.
const OURS: &str = "tdekit";
/// The known parameters; the last one is for our own connections.
const KNOWN: [&CStr; 7] = [
    c"tdekit",
    c"tdekit_algorithm",
    c"tdekit_anchors",
    c"tdekit_certificate",
    c"tdekit_freshness",
    c"tdekit_home",
    PARAMETER,
];

/// Refuses unknown parameters with our prefix, or ours without a value; and a new file whose name
/// is a URI of ours that a driver has not parsed.
///
/// # Safety
/// `name` and `flags` are what SQLite passed to `xOpen`.
pub(crate) unsafe fn check(api: Api, name: *const c_char, flags: c_int) -> Result<(), VfsError> {
    if flags & ffi::OPEN_MAIN_DB == 0 || name.is_null() {
        return Ok(());
    }
    let mut seen = Vec::new();
    for index in 0.. {
        // SAFETY: this function's own contract.
        let Some(key) = (unsafe { api.uri_key(name, index) }) else { break };
        if !is_ours(&key) && !resembles(&key) {
            continue;
        }
        if seen.contains(&key) {
            return Err(VfsError::RepeatedParameter { name: key });
        }
        let Some(known) = KNOWN.into_iter().find(|known| known.to_bytes() == key.as_bytes()) else {
            return Err(VfsError::UnknownParameter { nearest: nearest(&key), name: key });
        };
        // SAFETY: as above.
        if unsafe { api.uri_parameter(name, known) }.is_none_or(|value| value.is_empty()) {
            return Err(VfsError::NoValue { name: format!("the URI's parameter {key}") });
        }
        seen.push(key);
    }
    // SAFETY: as above; the name is terminated.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    let is_new = || std::fs::metadata(path).map_or(true, |found| found.len() == 0);
    match is_uri(path) && is_new() {
        true => Err(VfsError::UriAsName { path: path.to_owned() }),
        false => Ok(()),
    }
}

fn is_ours(key: &str) -> bool {
    key.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS))
}

/// Returns true if a parameter differs from one of ours by two typing errors, or by three in a
/// long name, such as `tde_certificate`.
fn resembles(key: &str) -> bool {
    let known = KNOWN.into_iter().filter_map(|known| known.to_str().ok());
    let mut long = known.filter(|known| known.len() > OURS.len());
    long.any(|known| strsim::damerau_levenshtein(known, key) <= 2.max(known.len() / OURS.len()))
}

fn nearest(key: &str) -> &'static str {
    let key = key.to_ascii_lowercase();
    let public = KNOWN.into_iter().filter(|known| *known != PARAMETER);
    let names = public.filter_map(|known| known.to_str().ok());
    // A common beginning counts most: names are cut short more often than they are misspelt.
    let likeness = |known: &str| strsim::jaro_winkler(known, &key);
    names.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).unwrap_or(OURS)
}

/// Returns true if a path, made absolute from a driver's file name, has a parameter of ours. The
/// part before it does not matter: `file:` may be missing, or be spelled differently.
fn is_uri(path: &Path) -> bool {
    let path = path.to_string_lossy();
    let path = path.replace("%3F", "?").replace("%3f", "?");
    let parameters = path.split_once('?').map_or("", |(_, parameters)| parameters);
    let mut keys = parameters.split('&').map(|each| each.split('=').next().unwrap_or(each));
    keys.any(|key| is_ours(key) || resembles(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_told() {
        for (key, wanted) in [
            ("tdekit_cert", "tdekit_certificate"),
            ("tdekit_certificates", "tdekit_certificate"),
            ("TDEKIT_CERTIFICATE", "tdekit_certificate"),
            ("tdekit_freshnes", "tdekit_freshness"),
            ("tdekit-algorithm", "tdekit_algorithm"),
            ("tdekitt", "tdekit"),
        ] {
            assert!(is_ours(key));
            assert_eq!(nearest(key), wanted, "{key}");
        }
        assert!(resembles("tdkit_certificate") && resembles("tdekti_home"));
        assert!(!resembles("certificate") && !resembles("mode") && !resembles("cache"));
        assert!(!is_ours("vfs") && !is_ours("tde") && !is_ours("\u{fc}dekit"));
    }

    #[test]
    fn a_uri_in_a_name_is_seen() {
        for (path, wanted) in [
            ("/a/file:x.db?tdekit_certificate=AppCert", true),
            ("/a/file:/b/x.db?mode=rwc&tdekit_home=/h", true),
            ("/a/file:x.db?mode=ro", false),
            ("/a/FILE:x.db?tdekit=plain", true),
            ("/a/x.db?tdekit_certificate=A", true),
            ("/a/ file:x.db%3ftdekit_certificate=A", true),
            ("/a/file:x.db?tdekti_certificate=A", true),
            ("/a/file:x.db?mode=rwc&tde_certificate=A", true),
            ("/a/x.db?certificate=A", false),
            ("/a/file:x.db", false),
        ] {
            assert_eq!(is_uri(Path::new(path)), wanted, "{path}");
        }
    }
}
