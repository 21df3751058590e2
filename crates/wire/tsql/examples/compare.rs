//! Compares two builds of this crate's tests: for each of their statements, the text and the values
//! that SQLite gets, and the rows that it returns.
//!
//! `cargo run -p tdekit-wire-tsql --example compare -- OLD NEW`, where both are test programs
//! (`target/debug/deps/it-..`) with debug assertions. OLD runs twice: what differs between its runs
//! (times, random values) is not compared. The exit code is 1 if rows or values differ.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The statements of each thread: text, values, kernels, rows.
type Record = BTreeMap<String, Vec<Vec<String>>>;

/// The file of the threads that tests start.
const UNNAMED: &str = "-";

/// Number of differences that are shown of each kind.
const SHOWN: usize = 12;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [old, new, filter @ ..] = args.as_slice() else {
        eprintln!("usage: compare OLD NEW [FILTER ..]");
        return ExitCode::FAILURE;
    };
    match compare(old, new, filter) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(old: &str, new: &str, filter: &[String]) -> std::io::Result<bool> {
    let (first, second) = (record(old, filter)?, record(old, filter)?);
    let changed = record(new, filter)?;
    let (mut same, mut volatile) = (0, 0);
    let mut differences: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (thread, statements) in &first {
        let none = Vec::new();
        let again = second.get(thread).unwrap_or(&none);
        let now = changed.get(thread).unwrap_or(&none);
        if thread == UNNAMED {
            // these run in any order
            let texts = |record: &[Vec<String>]| -> BTreeSet<String> {
                record.iter().map(|fields| fields[0].clone()).collect()
            };
            let stable = &texts(statements) & &texts(again);
            volatile += statements.len();
            let gone = &stable - &texts(now);
            differences.entry("text").or_default().extend(gone);
            continue;
        }
        if statements.len() != again.len() {
            volatile += statements.len();
            continue;
        }
        if statements.len() != now.len() {
            let shown = format!("{thread}: {} statements, now {}", statements.len(), now.len());
            differences.entry("rows").or_default().push(shown);
            continue;
        }
        for ((one, two), new) in statements.iter().zip(again).zip(now) {
            let differs = |at: usize| one[at] == two[at] && one[at] != new[at];
            let kind = match (differs(3), differs(0), differs(1), differs(2)) {
                (true, ..) => "rows",
                (_, true, ..) => "text",
                (_, _, true, _) => "values",
                (.., true) => "kernels",
                _ if one == two => {
                    same += 1;
                    continue;
                }
                _ => {
                    volatile += 1;
                    continue;
                }
            };
            let shown = format!(
                "{thread}\n  old: {}\n  new: {}",
                one.join("\n       "),
                new.join("\n       ")
            );
            differences.entry(kind).or_default().push(shown);
        }
    }
    println!("{same} statements are the same, {volatile} differ from run to run");
    for (kind, found) in differences.iter().filter(|(_, found)| !found.is_empty()) {
        println!("{kind}: {} differ", found.len());
        found.iter().take(SHOWN).for_each(|shown| println!("{shown}"));
    }
    Ok(!differences.contains_key("rows"))
}

/// Runs the tests in their crate's directory and reads what they recorded.
fn record(program: &str, filter: &[String]) -> std::io::Result<Record> {
    let directory = tempfile::tempdir()?;
    let output = Command::new(std::path::absolute(program)?)
        .args(filter)
        .env("TSQL_TRACE", directory.path())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        let shown = String::from_utf8_lossy(&output.stdout);
        let failed = shown.lines().filter(|line| line.ends_with("FAILED"));
        failed.for_each(|line| eprintln!("{program}: {line}"));
    }
    let mut record = Record::new();
    for file in std::fs::read_dir(directory.path())? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        record.insert(name, statements(&path)?);
    }
    Ok(record)
}

fn statements(path: &Path) -> std::io::Result<Vec<Vec<String>>> {
    let text = std::fs::read_to_string(path)?;
    let fields = |line: &str| {
        let mut fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
        fields.resize(4, String::new());
        fields
    };
    Ok(text.lines().map(fields).collect())
}
