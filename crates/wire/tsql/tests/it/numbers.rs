//! Numbers of messages are in `src/messages` and nowhere else.

use std::fs;
use std::path::{Path, PathBuf};

/// The packages that report errors to clients.
const TELL: &[&str] = &["tsql", "endpoint", "host"];

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

/// Returns the lines of a file that construct a message by hand: by `new`, or by its fields.
fn made_by_hand(text: &str) -> Vec<usize> {
    let makes = |line: &str| {
        let named = |(at, _)| !line[..at].ends_with(char::is_alphanumeric);
        let fields = line.match_indices("Message {").any(named) && line.contains("number:");
        line.contains("Message::new(") || fields
    };
    (1..).zip(text.lines()).filter(|(_, line)| makes(line)).map(|(at, _)| at).collect()
}

/// Returns the files of a package below a folder, and the lines of each that construct a message by
/// hand.
fn lines(package: &str, below: &str) -> Vec<(PathBuf, Vec<usize>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(package).join(below);
    let mut files = Vec::new();
    sources(&root, &mut files);
    let read = |path: PathBuf| {
        let lines = made_by_hand(&fs::read_to_string(&path).unwrap());
        (path, lines)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn messages_are_made_in_one_place() {
    let table: usize = lines("tds", "src/messages").iter().map(|(_, found)| found.len()).sum();
    assert!(table > 0, "the search finds nothing, not even the table");
    for package in TELL {
        let files = lines(package, "src");
        assert!(files.len() > 10, "{package} has moved");
        let elsewhere: Vec<_> = files.into_iter().filter(|(_, found)| !found.is_empty()).collect();
        assert!(elsewhere.is_empty(), "messages made beside the table: {elsewhere:?}");
    }
}
