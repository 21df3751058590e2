//! Paths in statements.

use std::path::{Path, PathBuf};

/// Resolves a path of a statement: a relative one is in `base`. `None` for Windows paths, which
/// would otherwise become odd file names.
pub(crate) fn resolve(base: &Path, named: &str) -> Option<PathBuf> {
    let drive = named.as_bytes().get(1) == Some(&b':');
    let foreign = drive || named.contains('\\') || named.contains('\0') || named.is_empty();
    (!foreign).then(|| base.join(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_paths_are_not_taken_for_names() {
        let base = Path::new("/data");
        assert_eq!(resolve(base, "a.bak"), Some("/data/a.bak".into()));
        assert_eq!(resolve(base, "/b/a.bak"), Some("/b/a.bak".into()));
        for named in ["D:\\backup\\a.bak", "D:a", "a\\b", "", "a\0"] {
            assert_eq!(resolve(base, named), None, "{named}");
        }
    }
}
