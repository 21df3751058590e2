//! The stock `sqlite3` shell.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::store::forget_tdekit;
use crate::process::output;

/// A shell without tdekit: no key in its environment, no `~/.sqliterc`.
fn stock() -> Command {
    let mut command = Command::new("sqlite3");
    forget_tdekit(&mut command);
    command.args(["-batch", "-bail", "-init", "/dev/null"]);
    command
}

/// Runs `script` on the plain `database`.
pub(super) fn sql(database: &Path, script: &str) -> Command {
    let mut command = stock();
    command.arg(database).arg(script);
    command
}

/// Runs `script` on `database` through the extension, which is loaded first.
pub(super) fn sql_through(extension: &Path, database: &Path, script: &str) -> Command {
    let mut command = stock();
    // The extension is loaded on the second connection; the URI is opened when it is first used.
    command
        .args(["-cmd", ".connection 1"])
        .args(["-cmd", &format!(".load {}", quoted(extension))])
        .args(["-cmd", ".connection 0"])
        .arg(format!("file://{}", database.display()))
        .arg(script);
    command
}

/// Quotes a path for the shell's dot commands.
fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{path}\"")
}

/// Checks that two plain databases have the same content, by `.dump` and by `.sha3sum`.
///
/// # Errors
/// When one cannot be read, or they differ; the error shows the first line that does.
pub(super) fn same_content(left: &Path, right: &Path) -> Result<()> {
    let (left_dump, right_dump) =
        (output(&mut sql(left, ".dump"))?, output(&mut sql(right, ".dump"))?);
    same_text(&left_dump, &right_dump)?;
    if left_dump.lines().count() < 4 {
        bail!("{} holds nothing to compare", left.display());
    }
    let (left_sum, right_sum) =
        (output(&mut sql(left, ".sha3sum"))?, output(&mut sql(right, ".sha3sum"))?);
    if left_sum != right_sum {
        bail!(".sha3sum differs: {left_sum} and {right_sum}");
    }
    Ok(())
}

/// Checks that two texts are equal.
///
/// # Errors
/// When they are not; the error shows the first line that differs.
pub(super) fn same_text(left: &str, right: &str) -> Result<()> {
    if left == right {
        return Ok(());
    }
    let (mut one, mut other) = (left.lines(), right.lines());
    let mut number = 0_usize;
    loop {
        number += 1;
        let (one, other) = (one.next(), other.next());
        if one != other || one.is_none() {
            let end = "the end of the text";
            let (one, other) = (one.unwrap_or(end), other.unwrap_or(end));
            bail!("differ in line {number}: {} and {}", start(one), start(other));
        }
    }
}

/// Enough of a line to recognise it.
fn start(line: &str) -> String {
    line.chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_compared_by_row() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, value: u32| {
            let path = dir.path().join(name);
            let script = format!("CREATE TABLE t(a); INSERT INTO t VALUES('x'),({value});");
            output(&mut sql(&path, &script)).unwrap();
            path
        };
        let (one, same, other) = (make("one", 5), make("same", 5), make("other", 6));
        same_content(&one, &same).unwrap();
        let error = same_content(&one, &other).unwrap_err().to_string();
        assert!(error.contains("VALUES(5)") && error.contains("VALUES(6)"), "{error}");
        let empty = dir.path().join("empty");
        output(&mut sql(&empty, "VACUUM")).unwrap();
        assert!(same_content(&empty, &empty).is_err(), "nothing compared");
    }

    #[test]
    fn a_text_that_ends_early_differs() {
        assert!(same_text("a\nb", "a").is_err());
        assert!(same_text("a", "a\n").is_err());
        same_text("a\nb", "a\nb").unwrap();
    }
}
