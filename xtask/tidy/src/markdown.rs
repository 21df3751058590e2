//! Rules on documents: width of prose, and links to missing files.

use std::path::Path;

use crate::Finding;

const MAX_PROSE_CHARS: usize = 120;

/// Lines of prose that are too long. Tables, fenced blocks and comments cannot be wrapped.
pub(crate) fn width(name: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut fenced, mut comment) = (false, false);
    for (at, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let fence = start.starts_with("```");
        comment |= start.starts_with("<!--");
        let chars = line.chars().count();
        let prose = !(fenced || fence || comment || start.starts_with('|'));
        if prose && chars > MAX_PROSE_CHARS {
            let what = format!("{name}:{}: {chars} characters, {MAX_PROSE_CHARS} at most", at + 1);
            findings.push(Finding::Broken(what));
        }
        fenced ^= fence;
        comment &= !line.contains("-->");
    }
    findings
}

/// Finds links from one document to a missing file.
pub(crate) fn links(root: &Path, name: &str, text: &str) -> Vec<Finding> {
    let directory = root.join(name).parent().map(Path::to_path_buf).unwrap_or_default();
    let mut findings = Vec::new();
    for rest in text.split("](").skip(1) {
        let Some(target) = rest.split(')').next() else { continue };
        let file = target.split('#').next().unwrap_or_default();
        if file.is_empty() || target.contains("://") || target.contains(char::is_whitespace) {
            continue;
        }
        if !directory.join(file).exists() {
            findings.push(Finding::Broken(format!("{name}: dead link to {target}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prose_is_found_and_what_cannot_be_wrapped_is_not() {
        let long = "é".repeat(121);
        assert_eq!(width("a.md", &long).len(), 1);
        assert_eq!(width("a.md", &long[2..]).len(), 0);
        assert_eq!(width("a.md", &format!("| {long} |")).len(), 0);
        assert_eq!(width("a.md", &format!("```\n{long}\n```\n{long}")).len(), 1);
        assert_eq!(width("a.md", &format!("<!-- {long}\n{long} -->\n{long}")).len(), 1);
    }

    #[test]
    fn dead_links_are_found() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("there.md"), "").unwrap();
        let text = "[a](there.md#x) [b](gone.md) [c](#y) [d](https://example.org/z)";
        let found = links(root.path(), "README.md", text);
        assert_eq!(found, [Finding::Broken("README.md: dead link to gone.md".into())]);
    }
}
