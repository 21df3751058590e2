//! Rules on the text of tracked files: length, lines, words, and required documents.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{Finding, markdown};

const MAX_FILE_LINES: usize = 700;
const NEAR_FILE_LINES: usize = 600;
const MAX_LINE_CHARS: usize = 100;

/// File name extensions of source written by people.
const SOURCE: &[&str] = &["rs", "py", "js", "go", "java", "bash", "sh"];
/// Files written by tools.
const GENERATED: &[&str] = &["Cargo.lock", "go.sum", "package-lock.json"];

/// Words that finished source must not contain, concatenated so that this file passes.
const FORBIDDEN_IN_RUST: &[&str] = &[
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("#[ign", "ore"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
];
/// A test that runs only in `make test-all`, and in a landing that reaches it; the reason follows.
const FULL_FORM: &str = concat!("#[ign", "ore = \"full: ");
/// Paths of a developer's machine; no tracked file may name one.
const FORBIDDEN_ANYWHERE: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/fa", "rm/")];

/// Packages that open no file and no socket (ARCHITECTURE.md).
const PURE: &[&str] =
    &["crates/sqlite/page/src/", "crates/backup/media/src/", "crates/wire/tds/src/"];
const FORBIDDEN_IN_PURE: &[&str] = &["std::fs", "std::net", "std::process", "std::env", "libc::"];

/// A package that defines a format, and the document that specifies it.
const FORMATS: &[(&str, &str)] = &[
    ("crates/key/store", "docs/format/keystore.md"),
    ("crates/sqlite/page", "docs/format/page.md"),
    ("crates/backup/media", "docs/format/media.md"),
];

/// Documents of the repository itself.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "docs/threat-model.md",
];

/// Checks every file that git tracks or would track.
///
/// # Errors
/// When git does not list the files or one cannot be read.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let list = git.output().context("start git")?;
    ensure!(list.status.success(), "git ls-files: {}", String::from_utf8_lossy(&list.stderr));
    let list = String::from_utf8(list.stdout).context("read the list of files")?;
    let mut findings = documents(root);
    for name in list.lines() {
        let path = root.join(name);
        if !path.is_file() {
            continue; // deleted, and not yet committed
        }
        let bytes = std::fs::read(&path).with_context(|| format!("read {name}"))?;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            findings.extend(check_file(name, text));
            if has_extension(name, "md") {
                findings.extend(markdown::width(name, text));
                findings.extend(markdown::links(root, name, text));
            }
        }
    }
    Ok(findings)
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

fn documents(root: &Path) -> Vec<Finding> {
    let of_formats = FORMATS.iter().filter(|(package, _)| root.join(package).is_dir());
    of_formats
        .map(|(_, document)| document)
        .chain(DOCUMENTS)
        .filter(|document| !root.join(document).is_file())
        .map(|document| Finding::Broken(format!("{document} is missing")))
        .collect()
}

fn check_file(name: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if GENERATED.iter().any(|generated| name.ends_with(generated)) {
        return findings;
    }
    let rust = has_extension(name, "rs");
    let source = SOURCE.iter().any(|extension| has_extension(name, extension));
    if rust {
        findings.extend(file_length(name, text.lines().count()));
    }
    for (at, line) in text.lines().enumerate() {
        let mut broken = |what: String| {
            findings.push(Finding::Broken(format!("{name}:{}: {what}", at + 1)));
        };
        let chars = line.chars().count();
        if source && chars > MAX_LINE_CHARS {
            broken(format!("{chars} characters, {MAX_LINE_CHARS} at most"));
        }
        let full_form = line.trim_start().starts_with(FULL_FORM);
        let words = if rust && !full_form { FORBIDDEN_IN_RUST } else { &[] };
        for word in words.iter().chain(FORBIDDEN_ANYWHERE).filter(|word| line.contains(**word)) {
            broken(format!("holds `{word}`"));
        }
        if rust && PURE.iter().any(|pure| name.starts_with(pure)) {
            for word in FORBIDDEN_IN_PURE.iter().filter(|word| line.contains(**word)) {
                broken(format!("`{word}` in a package that opens no file and no socket"));
            }
        }
    }
    findings
}

fn file_length(name: &str, lines: usize) -> Option<Finding> {
    if lines > MAX_FILE_LINES {
        let what = format!("{name}: {lines} lines, {MAX_FILE_LINES} at most");
        Some(Finding::Broken(what))
    } else if lines > NEAR_FILE_LINES {
        Some(Finding::Near(format!("{name}: {lines} lines")))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(name: &str, text: &str) -> usize {
        check_file(name, text)
            .iter()
            .filter(|finding| matches!(finding, Finding::Broken(_)))
            .count()
    }

    #[test]
    fn long_files_and_lines_are_found() {
        assert_eq!(broken("a.rs", &"x\n".repeat(700)), 0);
        assert_eq!(broken("a.rs", &"x\n".repeat(701)), 1);
        assert_eq!(check_file("a.rs", &"x\n".repeat(601)).len(), 1);
        assert_eq!(broken("a.rs", &"é".repeat(100)), 0);
        assert_eq!(broken("a.py", &"é".repeat(101)), 1);
        assert_eq!(broken("a.md", &"é".repeat(101)), 0);
    }

    #[test]
    fn forbidden_words_are_found_with_their_line() {
        let text = format!("fn a() {{\n    {}\n}}", concat!("todo", "!()"));
        let found = check_file("crates/a.rs", &text);
        assert_eq!(
            found,
            [Finding::Broken(format!("crates/a.rs:2: holds `{}`", concat!("todo", "!(")))]
        );
        assert_eq!(broken("README.md", &text), 0);
        assert_eq!(broken("a.rs", concat!("    #[ign", "ore]")), 1);
        assert_eq!(broken("a.rs", concat!("    #[ign", "ore = \"full: 97 s\"]")), 0);
        assert_eq!(broken("README.md", concat!("see /wo", "rk/main")), 1);
    }

    #[test]
    fn pure_packages_open_nothing() {
        assert_eq!(broken("crates/sqlite/page/src/lib.rs", "use std::fs::File;"), 1);
        assert_eq!(broken("crates/sqlite/page/tests/a.rs", "use std::fs::File;"), 0);
        assert_eq!(broken("crates/sqlite/vfs/src/lib.rs", "use std::fs::File;"), 0);
    }

    #[test]
    fn generated_files_are_left_alone() {
        assert_eq!(broken("Cargo.lock", concat!("/wo", "rk/", "main")), 0);
    }

    #[test]
    fn documents_of_formats_must_be() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(documents(root.path()).len(), DOCUMENTS.len());
        std::fs::create_dir_all(root.path().join("crates/sqlite/page")).unwrap();
        assert_eq!(documents(root.path()).len(), DOCUMENTS.len() + 1);
    }
}
