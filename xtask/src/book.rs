//! The documents as a book with a search, by mdBook. Its contents are the index, `docs/README.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::{cargo, root, run, run_quietly, target_dir};

/// The version of mdBook, which is installed below the target directory.
const MDBOOK: &str = "0.5.4";
const INDEX: &str = "docs/README.md";
/// Documents that the index does not list: the first page, and two at the end.
const FIRST: &str = "README.md";
const LAST: [&str; 2] = ["CHANGELOG.md", "SECURITY.md"];
const CONFIGURATION: &str = "\
[book]
title = \"tdekit\"
language = \"en\"

[output.html]
no-section-label = true
";

/// Makes the book in `target/book`, and returns its directory.
///
/// # Errors
/// When a document of the index is missing, or mdBook cannot be installed or fails.
pub(crate) fn make() -> Result<PathBuf> {
    let work = target_dir().join("book-source");
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("remove {}", work.display()))?;
    }
    let chapters = Chapter::of_index(&read(INDEX)?)?;
    let pages: BTreeSet<PathBuf> = chapters.iter().filter_map(|one| one.page.clone()).collect();
    let source = work.join("src");
    for page in &pages {
        let to = source.join(in_book(page));
        fs::create_dir_all(to.parent().context("a page has a directory")?)?;
        let text = with_links(page, &without_comments(&read(page)?), &pages);
        fs::write(&to, text).with_context(|| format!("write {}", to.display()))?;
    }
    fs::write(source.join("SUMMARY.md"), summary(&chapters)?)?;
    fs::write(work.join("book.toml"), CONFIGURATION)?;
    let to = target_dir().join("book");
    run(Command::new(mdbook()?).arg("build").arg("--dest-dir").arg(&to).arg(&work))?;
    ensure!(to.join("index.html").is_file(), "mdBook made no first page");
    Ok(to)
}

/// Returns the program, which is installed if it is missing.
fn mdbook() -> Result<PathBuf> {
    let at = target_dir().join("tools").join(format!("mdbook-{MDBOOK}"));
    let program = at.join("bin/mdbook");
    if !program.is_file() {
        println!("installing mdBook {MDBOOK}, once: some minutes");
        let mut install = cargo();
        install.args(["install", "--quiet", "--locked", "mdbook", "--version", MDBOOK, "--root"]);
        run_quietly(install.arg(&at))?;
    }
    Ok(program)
}

/// A line of the contents: a reader's part without a page, or a document.
#[derive(Debug, PartialEq, Eq)]
struct Chapter {
    title: String,
    page: Option<PathBuf>,
}

impl Chapter {
    /// Returns the parts and documents of the index, each once, with what stands before and after.
    fn of_index(text: &str) -> Result<Vec<Self>> {
        let page = |title: &str, page: &str| Self {
            title: title.to_owned(),
            page: Some(normal(Path::new(page))),
        };
        let mut chapters = vec![page("tdekit", FIRST)];
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                chapters.push(Self { title: title.to_owned(), page: None });
            } else if line.starts_with("- [") {
                for (title, target) in links(line).filter(|(_, target)| is_document(target)) {
                    let path = Path::new("docs").join(target);
                    let name = title.strip_suffix(".md").unwrap_or(title);
                    chapters.push(page(name, &path.to_string_lossy()));
                }
            }
        }
        ensure!(chapters.len() > 1, "{INDEX} lists no document");
        chapters.push(Self { title: "Releases".to_owned(), page: None });
        chapters.extend(LAST.map(|name| page(name.trim_end_matches(".md"), name)));
        Ok(chapters)
    }
}

fn summary(chapters: &[Chapter]) -> Result<String> {
    let mut text = "# Summary\n\n".to_owned();
    for chapter in chapters {
        match &chapter.page {
            None => writeln!(text, "\n# {}\n", chapter.title)?,
            Some(page) if page == Path::new(FIRST) => {
                writeln!(text, "[{}]({})", chapter.title, in_book(page).display())?;
            }
            Some(page) => writeln!(text, "- [{}]({})", chapter.title, in_book(page).display())?,
        }
    }
    Ok(text)
}

/// Returns a document's path in the book. mdBook makes `index.html` of each `README.md`, and leaves
/// links to it as they are; so the book has none.
fn in_book(page: &Path) -> PathBuf {
    match page == Path::new(FIRST) {
        true => "index.md".into(),
        false => page.to_owned(),
    }
}

/// Returns the text of `page` with links that lead in the book. The index is the contents beside
/// each page, so links to it, and to what is not in the book, become plain text.
fn with_links(page: &Path, text: &str, pages: &BTreeSet<PathBuf>) -> String {
    let directory = page.parent().unwrap_or(Path::new(""));
    let up = "../".repeat(directory.components().count());
    let mut made = text.to_owned();
    for (title, target) in links(text) {
        let (file, place) = target.split_once('#').map_or((target, ""), |(file, at)| (file, at));
        if file.is_empty() || target.contains("://") {
            continue;
        }
        let path = normal(&directory.join(file));
        let old = format!("[{title}]({target})");
        let new = match pages.contains(&path) {
            true if place.is_empty() => format!("[{title}]({up}{})", in_book(&path).display()),
            true => format!("[{title}]({up}{}#{place})", in_book(&path).display()),
            false => title.to_owned(),
        };
        made = made.replace(&old, &new);
    }
    made
}

/// Returns titles and targets of the links in a Markdown text.
fn links(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("](").filter_map(|(at, _)| {
        let title = text[..at].rsplit_once('[')?.1;
        let target = text[at + 2..].split(')').next()?;
        (!title.contains(']') && !target.contains(char::is_whitespace)).then_some((title, target))
    })
}

fn is_document(target: &str) -> bool {
    Path::new(target).extension().is_some_and(|end| end == "md")
}

/// Commands that documents run unseen are of no use in a book.
fn without_comments(text: &str) -> String {
    let mut parts = text.split("<!--");
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        made.push_str(part.split_once("-->").map_or("", |(_, after)| after));
    }
    made
}

/// Resolves `..` in a path of the repository.
fn normal(path: &Path) -> PathBuf {
    let mut made = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(made.pop()),
            other => made.push(other),
        }
    }
    made
}

fn read(name: impl AsRef<Path>) -> Result<String> {
    let path = root().join(name);
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_are_the_index() {
        let index = "# Documents\n\n## For auditors\n\n- [crypto.md](crypto.md): algorithms\n\
                     - [A.md](../A.md): how; [B.md](../B.md): more\n- no link\n";
        let chapters = Chapter::of_index(index).unwrap();
        let text = summary(&chapters).unwrap();
        let wanted = "# Summary\n\n[tdekit](index.md)\n\n# For auditors\n\n\
                      - [crypto](docs/crypto.md)\n- [A](A.md)\n- [B](B.md)\n\n# Releases\n\n\
                      - [CHANGELOG](CHANGELOG.md)\n- [SECURITY](SECURITY.md)\n";
        assert_eq!(text, wanted);
        assert!(Chapter::of_index("# Nothing\n").is_err());
    }

    #[test]
    fn links_lead_in_the_book_or_are_text() {
        let pages = ["README.md", "docs/keys.md", "docs/format/page.md"].map(PathBuf::from).into();
        let of = |page: &str, text: &str| with_links(Path::new(page), text, &pages);
        assert_eq!(of("docs/keys.md", "[a](../README.md#x)"), "[a](../index.md#x)");
        assert_eq!(of("docs/format/page.md", "[k](../keys.md)"), "[k](../../docs/keys.md)");
        assert_eq!(
            of("README.md", "[k](docs/keys.md#at), [i](docs/README.md)"),
            "[k](docs/keys.md#at), i"
        );
        assert_eq!(
            of("README.md", "[s](crates/a.rs) [w](https://x.example/) [h](#here)"),
            "s [w](https://x.example/) [h](#here)"
        );
        assert_eq!(without_comments("a <!-- b\nc --> d"), "a  d");
    }
}
