//! Example reports shared by tests: those of one document, with their summaries recomputed.

use crate::index::Stage;
use crate::model::Side;
use crate::report::{Report, Run};
use crate::results::Results;

const EXAMPLE: &str = include_str!("../../../../tests/fixtures/results/example.json");

/// Returns a run of all experiments.
pub(crate) fn whole() -> Results {
    let mut results = crate::json::from_json(EXAMPLE).unwrap();
    crate::summarize(&mut results);
    results
}

/// Returns a run of a single mix.
pub(crate) fn example() -> Results {
    Results { backup: None, oltp: None, messages: None, ..whole() }
}

/// Three restarts of two pairs; encrypted takes 1.1 times as long with 1.2 times the CPU, the peer
/// 3 times the base and 2.5 times its own plain side.
pub(crate) fn embedded() -> Report {
    whole().embedded.unwrap()
}

/// The same with a further algorithm, which takes `factor` of the first one's time and CPU.
pub(crate) fn two_algorithms(factor: f64) -> Results {
    let mut results = example();
    let report = results.embedded.as_mut().unwrap();
    let first = report.sides.iter_mut().find(|side| side.id == "encrypted").unwrap();
    first.cipher = Some("AES_256".to_owned());
    let second = Side { id: "second".to_owned(), label: "second".to_owned(), ..first.clone() };
    report.sides.insert(2, second.with_cipher(Some("AEGIS_256X2")));
    let own = report.runs.iter().filter(|run| run.side == "encrypted" && run.pair == 0);
    let more: Vec<Run> = own
        .map(|run| {
            let values = run.values.iter().map(|(metric, value)| (*metric, value * factor));
            Run { side: "second".to_owned(), values: values.collect(), ..run.clone() }
        })
        .collect();
    report.runs.extend(more);
    crate::summarize(&mut results);
    results
}

/// Three blocks. Times of a block grow with its number; AES_256 takes 1.1 times as long to the disk
/// and 1.3 times to memory, with twice the CPU and 0.02 % more bytes; the other tool takes 4 times
/// as long as without a cipher.
pub(crate) fn backup() -> Report {
    whole().backup.unwrap()
}

/// Three restarts of two pairs. At 1 thread the encrypted side does 0.96 of the transactions with
/// 1.05 times the CPU each, at 8 threads 0.99 and 1.10; the peer 0.80 and 1.25 in both.
pub(crate) fn oltp() -> Report {
    whole().oltp.unwrap()
}

/// Three restarts of two pairs: encrypted takes 1.1 times as long, 1.25 times the server's CPU and
/// 20 times its context switches.
pub(crate) fn messages() -> Report {
    let mut report = messages_with_everything();
    report.sides.retain(|side| side.id != "direct");
    report.cells.retain(|cell| cell.id == "loop");
    report.runs.retain(|run| run.cell == "loop");
    report.idle.clear();
    summarize(&mut report);
    report
}

/// With a cell that SQLite does directly in half the CPU, and idle connections.
pub(crate) fn messages_with_everything() -> Report {
    whole().messages.unwrap()
}

/// Checks that all of these words are in a text.
#[track_caller]
pub(crate) fn holds<const N: usize>(text: &str, all: [&str; N]) {
    for wanted in all {
        assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
    }
}

/// Recomputes the summary, for a run of a fixed length.
pub(crate) fn summarize(report: &mut Report) {
    report.summary = crate::summary::summary(report, Stage::fixed(0.95));
}
