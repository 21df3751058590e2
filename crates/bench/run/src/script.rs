//! A file of SQL as statements, each of which is measured.

use std::ffi::CString;
use std::path::Path;

use crate::error::{BenchError, Result};

/// Statements that would access other files, or remove something that the bench needs.
const REFUSED: [(&str, &str); 3] = [
    ("ATTACH", "it would work on another file, of which the bench has no copy"),
    ("DETACH", "there is nothing attached"),
    ("VACUUM INTO", "it would write another file"),
];
/// Settings controlled by the bench.
const SETTINGS: [&str; 6] = [
    "journal_mode",
    "wal_checkpoint",
    "wal_autocheckpoint",
    "locking_mode",
    "cache_size",
    "synchronous",
];
/// A script is run many times, and sent to every side.
const MOST_BYTES: u64 = 1 << 20;

/// Reads and splits a script; fails on statements that cannot be measured.
pub(crate) fn read(path: &Path) -> Result<Vec<String>> {
    let state = std::fs::metadata(path).map_err(BenchError::file("cannot read", path))?;
    let refused = |reason: String| BenchError::Option { option: "--script", reason };
    if state.len() > MOST_BYTES {
        return Err(refused(format!("{} is larger than 1 MiB", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(BenchError::file("cannot read", path))?;
    let statements = split(&text).map_err(refused)?;
    if statements.is_empty() {
        return Err(refused(format!("{} holds no statement", path.display())));
    }
    for (number, statement) in (1..).zip(&statements) {
        if let Some(reason) = refusal(statement) {
            return Err(refused(format!("statement {number}: {reason}: {}", brief(statement))));
        }
    }
    Ok(statements)
}

/// Returns the start of a statement, for a line of a report.
pub(crate) fn brief(statement: &str) -> String {
    let words: Vec<String> = tokens(statement, usize::MAX);
    let line = words.join(" ");
    match line.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Splits where SQLite considers a statement complete, so that semicolons in strings, comments or
/// trigger bodies do not count.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut statements = Vec::new();
    let mut rest = text;
    let mut searched = 0;
    while let Some(at) = rest[searched..].find(';') {
        let end = searched + at + 1;
        if complete(&rest[..end])? {
            add(&mut statements, &rest[..end]);
            rest = &rest[end..];
            searched = 0;
        } else {
            searched = end;
        }
    }
    add(&mut statements, rest);
    Ok(statements)
}

fn add(statements: &mut Vec<String>, text: &str) {
    if !tokens(text, 1).is_empty() {
        statements.push(text.trim().to_owned());
    }
}

fn complete(text: &str) -> Result<bool, String> {
    let text = CString::new(text).map_err(|_| "it holds a zero byte".to_owned())?;
    Ok(tdekit_sqlite_client::is_complete(&text))
}

/// Returns the first words of a statement, in the original case, without comments and semicolons.
fn tokens(text: &str, most: usize) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ';');
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        } else if rest.is_empty() || words.len() >= most {
            return words;
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let comment = ["--", "/*"].iter().filter_map(|mark| rest[first..].find(mark)).min();
            let end = comment.map_or(end, |at| end.min(at + first));
            words.push(rest[..end].trim_end_matches(';').to_owned());
            rest = &rest[end..];
        }
    }
}

fn refusal(statement: &str) -> Option<String> {
    let words: Vec<String> =
        tokens(statement, usize::MAX).iter().map(|word| word.to_ascii_uppercase()).collect();
    let first = words.first()?;
    if first.starts_with('.') {
        return Some("a command of the shell, not SQL".to_owned());
    }
    let name = if first == "VACUUM" && words.iter().any(|word| word.starts_with("INTO")) {
        "VACUUM INTO"
    } else {
        first
    };
    if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Some((*reason).to_owned());
    }
    if first == "PRAGMA" {
        let rest = words[1..].join(" ").to_ascii_lowercase();
        let setting = SETTINGS.iter().find(|setting| rest.contains(*setting))?;
        return Some(format!("{setting} is set by the bench, see its options"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_where_sqlite_says() {
        let text = "-- first;\nSELECT ';' ;; /* a ; b */\n\
            CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; SELECT 2; END;\n\
            UPDATE a SET b = 'x;y'\n;SELECT 3 -- no end";
        let found = split(text).unwrap();
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[1].contains("SELECT 2; END;"));
        assert_eq!(brief(&found[0]), "SELECT ';'");
        assert_eq!(brief(&found[3]), "SELECT 3");
        assert_eq!(split("-- nothing\n ; \n"), Ok(Vec::new()));
        assert!(brief(&"word ".repeat(40)).ends_with("..."));
        assert!(split("SELECT 1\0;").is_err());
        assert_eq!(brief("\u{e4}\u{f6}--x\n\u{fc}"), "\u{e4}\u{f6} \u{fc}");
    }

    #[test]
    fn what_reaches_out_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("my.sql");
        for (text, reason) in [
            ("SELECT 1; ATTACH 'real.db' AS r;", "statement 2: it would work on another file"),
            ("/* x */ attach 'real.db' as r", "another file"),
            ("VACUUM main INTO 'x'", "write another file"),
            ("PRAGMA main.journal_mode = OFF", "journal_mode is set by the bench"),
            (".read other.sql", "a command of the shell"),
            ("", "holds no statement"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        std::fs::write(&path, "SELECT 1;\nVACUUM;\nPRAGMA user_version;").unwrap();
        assert_eq!(read(&path).unwrap().len(), 3);
        std::fs::write(&path, vec![b' '; 2 << 20]).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("1 MiB"));
    }
}
