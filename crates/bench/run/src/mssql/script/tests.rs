//! Scripts whose output is written by a simulated server and read back.

use tdekit_bench_report::{Metric, Results};

use super::import::import;
use super::record::{decoded, written};
use super::write;
use crate::cli::tests::config_of_script;
use crate::error::BenchError;

const SMALL: &str = "--rows 300 --restarts 2 --pairs 1";

/// Behaviour of a simulated server.
#[derive(Clone, Copy, Default)]
struct Server {
    /// The number of the error for clearing buffers.
    cold_error: u64,
    /// The number of the error for counters by text.
    texts_error: u64,
    /// The step after which a statement fails.
    fails_behind: Option<u64>,
    /// The database that is not dropped.
    keeps: Option<&'static str>,
}

fn config(words: &str) -> crate::plan::Config {
    config_of_script(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).unwrap()
}

impl Server {
    /// Returns the output of the script. Every reading of the clock and of the counters is greater
    /// than the previous one.
    fn run(self, script: &str) -> String {
        let mut output = Vec::new();
        let (mut silent, mut failed, mut ticks) = (false, false, 0_u64);
        for batch in script.split("GO\n") {
            let batch: Vec<&str> = batch.lines().filter(|line| !line.starts_with("--")).collect();
            let batch = batch.join("\n");
            let batch = batch.trim().trim_end_matches(';');
            match batch {
                "SET NOEXEC OFF" => silent = false,
                _ if silent => {}
                batch if batch.contains("N'warm only') SET NOEXEC ON") => {
                    silent = self.cold_error > 0;
                }
                batch if batch.contains("N'failed') SET NOEXEC ON") => silent = failed,
                batch => {
                    let Some((step, lines)) = self.batch(batch, failed, &mut ticks) else {
                        continue;
                    };
                    output.extend(lines);
                    if self.fails_behind == Some(step) {
                        (silent, failed) = (true, true);
                        output.push("Msg 1105, Level 17, State 2, Server X, Line 1".to_owned());
                    }
                }
            }
        }
        output.join("\n")
    }

    /// The step of a batch's record, and what it prints.
    fn batch(self, batch: &str, failed: bool, ticks: &mut u64) -> Option<(u64, Vec<String>)> {
        let mut tick = || {
            *ticks += 1;
            ticks.to_string()
        };
        if let Some(step) = batch.strip_prefix("EXEC dbo.Mark ") {
            let step = step.parse().unwrap();
            let fields: Vec<String> = (0..6).map(|_| tick()).collect();
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            return Some((step, vec![written(7, step, "mark", &fields)]));
        }
        if let Some(rest) = batch.strip_prefix("EXEC dbo.Counts ") {
            let (step, rest) = rest.split_once(", ").unwrap();
            let (_, count) = rest.rsplit_once(", ").unwrap();
            let (step, count): (u64, u64) = (step.parse().unwrap(), count.parse().unwrap());
            let line = |index: u64| {
                let fields: Vec<String> =
                    std::iter::once(index.to_string()).chain((0..6).map(|_| tick())).collect();
                let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
                written(7, step, "count", &fields)
            };
            return Some((step, (0..count).map(line).collect()));
        }
        let told = batch.rsplit_once("CONCAT('tdekit|1|', @s, '|', ")?.1;
        let told = told.split_once(", '|', (")?.0;
        let mut parts = told.split(", ");
        let step: u64 = parts.next()?.parse().ok()?;
        let kind = parts.next()?.trim_matches('\'').trim_start_matches('|');
        let mut fields: Vec<String> = Vec::new();
        for part in parts.filter(|part| *part != "'|'") {
            let value = match (part, kind) {
                ("@e", _) if batch.contains("DBCC DROPCLEANBUFFERS") => self.cold_error.to_string(),
                ("@e", _) => self.texts_error.to_string(),
                ("@w", _) => u32::from(!failed).to_string(),
                ("@l", _) => {
                    u32::from(self.keeps.is_some_and(|kept| kept == fields[0])).to_string()
                }
                ("@v", _) if fields == ["ours"] => "0".to_owned(),
                ("@v", _) => "A server 16.0.1000".to_owned(),
                ("@p", _) => "400".to_owned(),
                (fixed, _) => decoded(fixed.trim_matches('\'').trim_start_matches('|')).unwrap(),
            };
            fields.push(value);
        }
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        Some((step, vec![written(7, step, kind, &fields)]))
    }
}

/// Returns the results of an output with the options of a script.
fn read(output: &str) -> Result<Results, BenchError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), output).unwrap();
    import(file.path(), config_of_script)
}

#[test]
fn a_scripts_output_is_the_report_of_a_run() {
    let config = config(SMALL);
    let script = write(&config).unwrap();
    assert_eq!(script, write(&config).unwrap());
    let results = read(&Server::default().run(&script)).unwrap();
    assert!(results.incomplete.is_empty() && results.warnings.is_empty(), "{results:?}");
    let report = results.server.as_ref().unwrap();
    assert_eq!(report.text("server"), "A server 16.0.1000");
    assert_eq!(report.text("edition"), "A server 16.0.1000");
    assert!(report.text("counters").starts_with("sys.dm_exec_query_stats"));
    assert_eq!((report.cells.len(), report.sides.len()), (12, 2));
    assert_eq!(report.sides[1].label, "TDE");
    // Two sides and restarts of twelve classes, and of 31 statements warm and cold.
    let whole = report.runs.iter().filter(|run| run.statement.is_none()).count();
    assert_eq!((whole, report.runs.len() - whole), (2 * 2 * 12, 2 * 2 * 2 * 31));
    // The simulated counters rise by one at every reading, microseconds of statements and
    // milliseconds of sessions.
    for run in &report.runs {
        let cpu = run.value(Metric::Cpu).unwrap();
        let rebuilt = run.cell.contains("reindex") || run.cell.contains("backup");
        assert!(cpu >= if rebuilt { 1e6 } else { 1e3 }, "{run:?}");
        assert!(run.value(Metric::ClientElapsed).unwrap() >= 1e3, "{run:?}");
    }
    assert_eq!(
        results.command,
        format!(
            "tdekit bench mssql-script --experiment operations {SMALL} \
        --seed 1 --algorithm AES_256 --scan-time 3600"
        )
    );
    assert!((report.number("data_bytes") - 400.0 * 8192.0).abs() < 1e-9);
    assert!(!report.summary.comparisons.is_empty());
}

#[test]
fn rights_that_lack_are_told() {
    let script = write(&config(SMALL)).unwrap();
    let server = Server { cold_error: 2571, texts_error: 300, ..Server::default() };
    let results = read(&server.run(&script)).unwrap();
    let report = results.server.unwrap();
    assert_eq!(report.text("counters"), "sys.dm_exec_sessions");
    assert!(report.cells.iter().all(|cell| !cell.id.ends_with("cold")));
    let limits = report.limits.join("\n");
    for wanted in ["No cold classes", "Msg 2571", "Msg 300", "whole milliseconds"] {
        assert!(limits.contains(wanted), "{limits}");
    }
    let warm = config(&format!("{SMALL} --warm-only"));
    let results = read(&Server::default().run(&write(&warm).unwrap())).unwrap();
    let report = results.server.unwrap();
    assert_eq!(report.cells.len(), 7);
    assert!(!report.limits.join("\n").contains("No cold classes"));
    let control = config(&format!("{SMALL} --aa"));
    let results = read(&Server::default().run(&write(&control).unwrap())).unwrap();
    assert!(results.control && results.server.unwrap().sides[1].cipher.is_none());
}

/// Wherever a script fails: earlier measurements are kept and marked, or there are none.
#[test]
fn a_script_that_fails_gives_what_it_measured_before() {
    let script = write(&config(SMALL)).unwrap();
    let mut measured = Vec::new();
    for step in (1..640).step_by(7) {
        let server = Server {
            fails_behind: Some(step),
            keeps: Some("tdekit_bench_base"),
            ..Server::default()
        };
        match read(&server.run(&script)) {
            Ok(results) => {
                assert!(results.incomplete[0].contains("the script stopped in or behind"));
                assert!(results.warnings[0].contains("DROP DATABASE tdekit_bench_base"));
                measured.push(results.server.unwrap().runs.len());
            }
            Err(BenchError::NothingScripted { reason, .. }) => {
                assert!(measured.is_empty() && reason.contains("stopped"), "{step}: {reason}");
            }
            Err(error) => panic!("{step}: {error}"),
        }
    }
    assert!(measured.len() > 50 && measured.is_sorted(), "{measured:?}");
}

#[test]
fn what_is_no_whole_output_of_one_script_is_refused() {
    let script = write(&config(SMALL)).unwrap();
    let output = Server::default().run(&script);
    let refused = |output: &str| match read(output) {
        Err(BenchError::Output { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let lines: Vec<&str> = output.lines().collect();
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat().join("\n");
    assert!(refused("").contains("no record"));
    assert!(refused(&lines[..lines.len() - 1].join("\n")).contains("end"));
    for at in (0..lines.len() - 1).step_by(11) {
        let reason = refused(&without(at));
        let known = ["missing", "no such record", "another number"];
        assert!(known.iter().any(|known| reason.contains(known)), "{at}: {reason}");
    }
    assert!(refused(&[output.as_str(), &output].join("\n")).contains("twice"));
    let cold = lines.iter().position(|line| line.contains("/cold|")).unwrap();
    let warm = lines[cold].replace("cold", "warm");
    assert!(refused(&output.replace(lines[cold], &warm)).contains("changed"));
    // With a valid check.
    for (from, to) in [("operations/select/warm", "operations/select/hot"), ("encrypted", "peer")] {
        let changed: Vec<String> =
            lines
                .iter()
                .map(|line| {
                    if line.contains("|block|") {
                        again(line, from, to)
                    } else {
                        (*line).to_owned()
                    }
                })
                .collect();
        assert!(refused(&changed.join("\n")).contains("no such"), "{from}");
    }
    let many =
        again(lines.iter().find(|line| line.contains("--rows")).unwrap(), "=300", "=99999999999");
    let old = lines.iter().find(|line| line.contains("--rows")).unwrap();
    let error = read(&output.replace(old, &many)).unwrap_err();
    assert!(matches!(error, BenchError::Option { .. }), "{error}");
}

/// Returns a record with other fields, as a script would have written it.
fn again(line: &str, from: &str, to: &str) -> String {
    let parts: Vec<&str> = line.split('|').collect();
    let [_, _, session, step, kind, fields @ .., _, _] = parts.as_slice() else { panic!("{line}") };
    let fields = fields.iter().map(|field| decoded(field).unwrap().replace(from, to));
    let fields: Vec<String> = fields.collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    written(session.parse().unwrap(), step.parse().unwrap(), kind, &fields)
}

/// Any change of an output, with valid or invalid checks: results or a reason, never a panic.
#[test]
fn any_change_of_an_output_is_read_or_refused() {
    let script = write(&config("--rows 100 --restarts 1 --pairs 1 --warm-only")).unwrap();
    let output = Server::default().run(&script);
    let lines: Vec<String> = output.lines().map(str::to_owned).collect();
    let mut rng = fastrand::Rng::with_seed(4712);
    for _ in 0..600 {
        let mut changed = lines.clone();
        let at = rng.usize(..changed.len());
        let other = rng.usize(..changed.len());
        match rng.u8(..5) {
            0 => drop(changed.remove(at)),
            1 => changed.swap(at, other),
            2 => {
                changed[at] =
                    again(&changed[at], "1", &rng.u64(..999_999_999_999_999_999).to_string())
            }
            3 => changed[at] = again(&changed[at], "0", "999999999999999999"),
            _ => changed.insert(at, lines[other].clone()),
        }
        match read(&changed.join("\n")) {
            Ok(results) => drop(tdekit_bench_report::html(&results).unwrap()),
            Err(error) => {
                assert!(error.hint().is_some() || matches!(error, BenchError::Option { .. }))
            }
        }
    }
}

#[test]
fn scripts_have_bounds_and_say_what_they_do() {
    let small = write(&config(SMALL)).unwrap();
    assert!(small.is_ascii() && !small.contains("$("));
    let joined = small.replace("\n-- ", " ");
    for wanted in [
        "-- What encryption costs",
        "tempdb",
        "MB there and 1 connection(s)",
        "DROP CERTIFICATE tdekit_bench_certificate",
        "SET ENCRYPTION ON;",
        "WAITFOR DELAY",
        "DBCC DROPCLEANBUFFERS;",
        "ALTER INDEX ALL ON dbo.Card REBUILD;",
    ] {
        assert!(joined.contains(wanted), "{wanted}");
    }
    // It contains the statements of a run with the same options.
    let usual = write(&config("")).unwrap();
    assert!(usual.len() < 4 << 20, "{}", usual.len());
    let refused = |words: &str| {
        let config = config(words);
        write(&config).unwrap_err().to_string()
    };
    assert!(refused("--restarts 1000 --pairs 1000").contains("--restarts"));
    for words in [
        "--algorithm AES_256;DROP",
        "--experiment crud",
        "--rows 100000000",
        "--restarts 0",
        "--max-time 5",
    ] {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        assert!(config_of_script(&words).is_err(), "{words:?}");
    }
}
