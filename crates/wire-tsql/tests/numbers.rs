//! Numbers of messages stand in `src/error` and nowhere else.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

/// The lines of a file that make a message by hand: by `new`, or by its fields.
fn made_by_hand(text: &str) -> Vec<usize> {
    let makes = |line: &str| {
        let named = |(at, _)| !line[..at].ends_with(char::is_alphanumeric);
        let fields = line.match_indices("Message {").any(named) && line.contains("number:");
        line.contains("Message::new(") || fields
    };
    (1..).zip(text.lines()).filter(|(_, line)| makes(line)).map(|(at, _)| at).collect()
}

#[test]
fn messages_are_made_in_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut table, mut elsewhere) = (0, Vec::new());
    for path in files {
        let name = path.strip_prefix(&root).unwrap().to_owned();
        let lines = made_by_hand(&fs::read_to_string(&path).unwrap());
        if name.starts_with("error") || name == Path::new("error.rs") {
            table += lines.len();
        } else {
            elsewhere.extend(lines.into_iter().map(|line| format!("{}:{line}", name.display())));
        }
    }
    assert!(table > 0, "the search finds nothing, not even the table");
    assert!(elsewhere.is_empty(), "messages made beside the table: {elsewhere:?}");
}
