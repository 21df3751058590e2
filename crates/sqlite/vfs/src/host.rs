//! Faults of SQLite libraries that users should know.

/// First release that writes all headers of a commit after a savepoint was rolled back.
const SAVEPOINTS_MENDED: [u32; 3] = [3, 50, 2];

/// Returns the fault, in words, of SQLite `version`, as returned by `sqlite3_libversion`.
#[must_use]
pub fn fault_of(version: &str) -> Option<String> {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let number = [(); 3].map(|()| parts.next().unwrap_or(0));
    let [major, minor, patch] = SAVEPOINTS_MENDED;
    (number < SAVEPOINTS_MENDED).then(|| {
        format!(
            "SQLite {version} can lose commits in a crash: those of plain databases in WAL mode, \
             after a rollback to a savepoint (mended in {major}.{minor}.{patch})"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_named_before_the_release_that_mends_it() {
        for faulty in ["3.39.0", "3.40.1", "3.46.1", "3.49.2", "3.50.0", "3.50.1"] {
            assert!(fault_of(faulty).unwrap().contains(&format!("SQLite {faulty} ")), "{faulty}");
        }
        for mended in ["3.50.2", "3.50.4", "3.51.0", "3.54.1", "4.0"] {
            assert_eq!(fault_of(mended), None, "{mended}");
        }
    }
}
