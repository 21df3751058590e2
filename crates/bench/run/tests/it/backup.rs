//! The backup matrix end to end, through its program and a stand-in for the command: its work,
//! reports and cleanup, and the data kept if a run does not complete.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Place, done, refused, signal, text, wait_until};
use rusqlite::Connection;
use tdekit_bench_report::{Metric, Report, Role};

const STAND_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand_in/tdekit.sh");
/// The words of the matrix in every test: two ciphers and two compressions.
const SMALL: &str =
    "--experiment backup --cipher AES_256 --compression none --compression zstd --seed 4";

/// Returns a place with two devices.
fn devices() -> Place {
    let place = Place::new();
    for name in ["one", "two"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    place
}

/// Returns the bench of a small matrix on one device, with the stand-in as its command.
fn small(place: &Place, line: &str) -> Command {
    sized(place, "200kB", line)
}

fn sized(place: &Place, size: &str, line: &str) -> Command {
    let device = format!("one={}", place.path("one").display());
    let mut command = place.library(&format!("{SMALL} --size {size} --device {device} {line}"));
    command.env("TDEKIT_COMMAND", STAND_IN).env("TDEKIT_EXTENSION", "unused");
    command
}

fn matrix(place: &Place) -> Report {
    place.results().backup.unwrap()
}

fn nothing_is_left(place: &Place) {
    for name in ["copies", "one", "two"] {
        assert_eq!(place.names(name), Vec::<String>::new(), "in {name}");
    }
}

/// Checks that results exist and are marked, and that the files are removed.
fn is_partial(place: &Place, output: &Output, code: i32, reason: &str) {
    let (table, errors) = text(output);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(table.contains("incomplete: "), "{table}");
    assert!(!place.partial(reason).backup.unwrap().runs.is_empty());
    nothing_is_left(place);
}

#[test]
fn the_matrix_runs_every_cell_in_every_block() {
    let place = devices();
    let two = format!("two={}", place.path("two").display());
    let table = done(&mut small(&place, &format!("--device {two} --restarts 3")));
    nothing_is_left(&place);
    let results = place.results();
    assert_eq!(results.incomplete, Vec::<String>::new());
    assert!(results.embedded.is_none());
    let matrix = results.backup.as_ref().unwrap();
    // Two ciphers, two compressions, two sources, two targets.
    let restored = matrix.cells.iter().filter(|cell| cell.axis("action") == "restore").count();
    assert_eq!((matrix.cells.len(), restored, matrix.runs.len()), (16, 8, 16 * 3 * 2));
    for cell in &matrix.cells {
        for side in ["none", "AES_256"] {
            let found = matrix.summary.totals(&cell.id, side).unwrap();
            assert_eq!(found.blocks, 3);
            let name = if cell.axis("action") == "backup" { 16.0 } else { 0.0 };
            let size = matrix.number("source_bytes") + name;
            assert!((found.values[&Metric::Size].most - size).abs() < 0.5, "{}", cell.id);
            assert!(found.median(Metric::Cpu) > 0.0 && found.median(Metric::PeakMemory) > 0.0);
        }
        let elapsed = matrix.summary.comparison(&cell.id, Metric::Elapsed, "AES_256", "none");
        assert_eq!(elapsed.unwrap().restarts, 3);
    }
    // The positions of a block are a permutation, and differ from block to block.
    let orders: Vec<Vec<(&str, &str)>> = (0..3)
        .map(|block| {
            let runs = matrix.runs.iter().filter(|run| run.restart == block);
            let backups: Vec<_> = runs.filter(|run| run.cell.starts_with("backup/")).collect();
            assert!((0..).zip(&backups).all(|(index, run)| run.position == index));
            backups.iter().map(|run| (run.cell.as_str(), run.side.as_str())).collect()
        })
        .collect();
    assert!(orders[0] != orders[1] && orders[1] != orders[2]);
    assert!(table.contains("backup, zstd, one to two, AES_256"), "{table}");
    assert_eq!(crate::common::embedded(&place.path("report.html")), results);
}

#[test]
fn the_users_database_is_only_read() {
    let place = devices();
    let database = place.path("app.db");
    Connection::open(&database)
        .unwrap()
        .execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES (zeroblob(300000))")
        .unwrap();
    let before = std::fs::read(&database).unwrap();
    done(&mut small(&place, "app.db --restarts 2 --no-restore"));
    assert_eq!(std::fs::read(&database).unwrap(), before);
    let matrix = matrix(&place);
    assert_eq!(matrix.text("label"), "app.db");
    assert!(matrix.runs.iter().all(|run| run.cell.starts_with("backup/")));
    nothing_is_left(&place);
}

#[test]
fn other_tools_run_in_the_same_blocks() {
    let place = devices();
    let table = done(&mut small(&place, "--backup-peer cp --restarts 2 --warm"));
    assert!(table.contains("AES_256 against cp"), "{table}");
    let matrix = matrix(&place);
    assert_eq!(matrix.cells.len(), 2 * (2 + 1));
    let cp = matrix.sides.iter().find(|side| side.id == "cp").unwrap();
    assert_eq!(cp.role, Role::Reference);
    assert!(format!("{:?}", cp.facts["version"]).contains("cp"), "{cp:?}");
    let cell = "restore/zstd/one/one";
    let found = matrix.summary.comparison(cell, Metric::Size, "AES_256", "cp").unwrap();
    assert!((found.ratio - 1.0).abs() < 1e-9);
    nothing_is_left(&place);
}

#[test]
fn base_against_base_is_a_control() {
    let place = devices();
    let table = done(&mut small(&place, "--aa --restarts 2"));
    assert!(table.contains("the true overhead is 0 %"), "{table}");
    assert!(matrix(&place).sides.iter().all(|side| side.id.starts_with("none")));
}

/// Full backups are rows of the operations experiment, here plain against plain.
#[test]
#[ignore = "full: a bench"]
fn full_backups_are_rows_of_the_operations() {
    let place = devices();
    let mut command = place.library("--aa --quick --rows 300 --restarts 2 --experiment operations");
    command.env("TDEKIT_COMMAND", STAND_IN);
    // A command that refuses leaves them out, with the reason in the report.
    let table = done(command.env("STAND_IN_REFUSE", "1"));
    assert!(!table.contains("full backup"), "{table}");
    let notes = place.results().subject.notes;
    assert!(notes.iter().any(|note| note.contains("error: refused")), "{notes:?}");
    let table = done(command.env_remove("STAND_IN_REFUSE"));
    assert!(table.contains("full backup, zstd"), "{table}");
    let report = place.results().embedded.unwrap();
    for id in ["operations/backup-compressed/warm", "operations/backup-plain/warm"] {
        let found = report.summary.comparison(id, Metric::Elapsed, "control", "base").unwrap();
        assert_eq!(found.restarts, 2, "{id}");
    }
    nothing_is_left(&place);
}

#[test]
fn a_silent_plain_backup_and_lost_data_are_errors() {
    let place = devices();
    let output = small(&place, "--restarts 2").env("STAND_IN_PLAIN", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        place.results().incomplete[0].contains("AES_256 was asked for, and inspect names none")
    );
    nothing_is_left(&place);
    let output = small(&place, "--restarts 2").env("STAND_IN_LOSE", "1").output().unwrap();
    is_partial(&place, &output, 1, "bytes were restored of");
}

#[test]
fn a_full_disk_and_a_killed_command_leave_partial_results() {
    for (end, reason) in [("full", "No space left on device"), ("kill", "signal: 9")] {
        let place = devices();
        let output = small(&place, "")
            .env("STAND_IN_COUNT", place.path("count"))
            .env("STAND_IN_LAST", "4")
            .env("STAND_IN_END", end)
            .output()
            .unwrap();
        is_partial(&place, &output, 1, reason);
        assert_eq!(matrix(&place).runs.len(), 6, "{end}");
    }
}

/// Ctrl-C, and the end of the worker: both end the running command.
#[test]
fn an_interrupt_ends_the_command_and_keeps_what_was_measured() {
    for (whom, code, reason) in [("bench", 130, "interrupted"), ("worker", 1, "signal: 9")] {
        let place = devices();
        let child = small(&place, "")
            .env("STAND_IN_COUNT", place.path("count"))
            .env("STAND_IN_LAST", "3")
            .env("STAND_IN_END", "hang")
            .spawn()
            .unwrap();
        let said = || std::fs::read_to_string(place.path("count.pid")).unwrap_or_default();
        wait_until("the run does not begin", || said().ends_with('\n'));
        let hanging = said();
        match whom {
            "bench" => signal(child.id().cast_signed(), "INT"),
            _ => signal(parent_of(hanging.trim()), "KILL"),
        }
        let output = child.wait_with_output().unwrap();
        is_partial(&place, &output, code, reason);
        let command = format!("/proc/{}", hanging.trim());
        wait_until("the command goes on", || !Path::new(&command).exists());
    }
}

fn parent_of(process: &str) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("PPid:")).unwrap();
    line.trim_start_matches("PPid:").trim().parse().unwrap()
}

#[test]
fn what_cannot_be_run_is_named() {
    let place = devices();
    let errors = refused(small(&place, "").env("STAND_IN_HELP", "2"));
    assert!(errors.contains("has no command `backup`"), "{errors}");
    let missing = place.path("not-there").display().to_string();
    let device = format!("three={missing}");
    let errors = refused(&mut small(&place, &format!("--device {device}")));
    assert!(errors.contains(&missing), "{errors}");
    let errors = refused(&mut sized(&place, "1000GB", ""));
    assert!(errors.contains("bytes in") && errors.contains("--size"), "{errors}");
    let errors = refused(small(&place, "--backup-peer restic").env("PATH", &missing));
    assert!(errors.contains("hint: apt-get install restic"), "{errors}");
    nothing_is_left(&place);
    assert!(!place.path("results.json").exists());
}
