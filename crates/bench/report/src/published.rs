//! Figures published by others, shown beside ours, with an explanation of their context switches.
//! The figures are in `assets/published.json` with their sources.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::format::{count, duration};
use crate::piece::Piece;
use crate::table::Table;

/// The published figures.
#[allow(clippy::expect_used, reason = "a part of the program, which every test of this file reads")]
pub(crate) static PUBLISHED: LazyLock<Published> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../assets/published.json")).expect("published figures")
});

/// Documents, and their figures in the order of the report.
#[derive(Debug, Deserialize)]
pub(crate) struct Published {
    /// By the experiment that is based on them.
    pub(crate) documents: BTreeMap<String, Document>,
    pub(crate) operations: Vec<PublishedOperation>,
    pub(crate) backups: [PublishedBackup; 3],
    /// Few threads before many.
    pub(crate) threads: [PublishedThreads; 2],
    /// Encrypted before plain.
    pub(crate) messages: [PublishedMessages; 4],
}

/// A document, in the words of the report.
#[derive(Debug, Deserialize)]
pub(crate) struct Document {
    /// Author, title, publication and date.
    pub(crate) citation: String,
    /// The machine and software of the source.
    pub(crate) environment: String,
    /// Its method.
    pub(crate) method: String,
    /// The source's result.
    pub(crate) result: String,
}

/// Figures printed in the source.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Printed {
    /// CPU in ms, reads, writes and duration.
    Table { encrypted: [u32; 4], plain: [u32; 4] },
    /// Elapsed time, encrypted over plain.
    Elapsed { elapsed: f64 },
}

/// One published figure.
#[derive(Debug, Deserialize)]
pub(crate) struct PublishedOperation {
    /// The operation measured there.
    pub(crate) operation: String,
    /// Our classes with the same kind of work.
    pub(crate) classes: Vec<String>,
    #[serde(flatten)]
    printed: Printed,
}

/// A published figure on backups, as in the source.
#[derive(Debug, Deserialize)]
pub(crate) struct PublishedBackup {
    pub(crate) what: String,
    pub(crate) there: String,
    /// True if it is the size of compressed backups, false for others; none for durations.
    pub(crate) compressed: Option<bool>,
}

/// The source's statement on throughput in words; its curves are lost.
#[derive(Debug, Deserialize)]
pub(crate) struct PublishedThreads {
    /// The end of its range of threads to which the words apply.
    pub(crate) threads: u32,
    /// Encrypted over plain, in the worst case.
    pub(crate) throughput: f64,
    pub(crate) words: String,
}

/// One column of Noveljic's table.
#[derive(Debug, Deserialize)]
pub(crate) struct PublishedMessages {
    pub(crate) server: String,
    /// True if the connection was encrypted.
    pub(crate) encrypted: bool,
    /// Elapsed time of the batch.
    elapsed_ms: u32,
    /// CPU of the batch.
    pub(crate) cpu_ms: u32,
    /// Wait time in `PREEMPTIVE_OS_ENCRYPTMESSAGE`.
    encrypt_wait_ms: u32,
    /// Context switches of the whole instance during the batch.
    switches: u32,
}

fn ratio(above: u32, below: u32) -> f64 {
    f64::from(above) / f64::from(below)
}

impl PublishedOperation {
    /// Returns elapsed time, encrypted over plain.
    pub(crate) fn elapsed_ratio(&self) -> f64 {
        match &self.printed {
            Printed::Table { encrypted, plain } => ratio(encrypted[3], plain[3]),
            Printed::Elapsed { elapsed } => *elapsed,
        }
    }

    /// Returns CPU, encrypted over plain; none if the source has no figure.
    pub(crate) fn cpu_ratio(&self) -> Option<f64> {
        match &self.printed {
            Printed::Table { encrypted, plain } => Some(ratio(encrypted[0], plain[0])),
            Printed::Elapsed { .. } => None,
        }
    }

    /// Returns a row of the source's table: the operation, then CPU, reads, writes and duration,
    /// encrypted and plain. Durations of statements have no plausible unit there.
    pub(crate) fn row(&self) -> Option<(&str, Vec<String>)> {
        let Printed::Table { encrypted, plain } = &self.printed else { return None };
        let operation = self.operation.trim_start_matches(|one: char| !one.is_alphabetic());
        let timed = if operation == self.operation { " ms" } else { "" };
        let amount = |value: u32| match value {
            ..10_000 => value.to_string(),
            _ => count(value.into()),
        };
        let words = |values: &[u32; 4]| {
            let units = [" ms", "", "", timed];
            values.iter().zip(units).map(|(one, unit)| amount(*one) + unit).collect::<Vec<_>>()
        };
        Some((operation, [encrypted, plain].into_iter().flat_map(words).collect()))
    }
}

/// Number of steps of the source's loop.
const STEPS: f64 = 1e8;
/// Size of a step's answer: two DONE tokens of 13 bytes, of the loop's condition and of SET.
const STEP_BYTES: f64 = 26.0;
/// Payload of a packet of the usual 4,096 bytes.
const PACKET_PAYLOAD_BYTES: f64 = 4088.0;

impl PublishedMessages {
    /// Returns the elapsed time of a step.
    pub(crate) fn step_ns(&self) -> f64 {
        f64::from(self.elapsed_ms) * 1e6 / STEPS
    }

    /// Returns the context switches for each packet.
    pub(crate) fn switches_each(&self) -> f64 {
        f64::from(self.switches) / packets()
    }
}

/// Returns the calculated number of packets in the answer to the source's batch, which the source
/// does not state.
fn packets() -> f64 {
    STEPS * STEP_BYTES / PACKET_PAYLOAD_BYTES
}

/// Returns the source's table, with derived figures for a step and a packet.
pub(crate) fn published_table() -> Table {
    let rows = PUBLISHED.messages.iter().map(|found| {
        let connection = if found.encrypted { "encrypted" } else { "plain" };
        let ms = |value: u32| format!("{value} ms");
        [
            format!("{}, {connection}", found.server),
            ms(found.elapsed_ms),
            duration(found.step_ns()),
            ms(found.cpu_ms),
            ms(found.encrypt_wait_ms),
            count(found.switches.into()),
            format!("{:.3}", found.switches_each()),
        ]
        .map(Piece::from)
        .to_vec()
    });
    let head = ["Server", "Elapsed", "A step", "CPU", "Waited to encrypt", "Context switches"];
    let head = head.into_iter().chain(["A packet"]);
    Table::new("The source's table of messages", head, rows)
}

/// Returns an explanation of the source's context switches, with every number derived from its
/// table.
pub(crate) fn published_reckoning() -> String {
    let [encrypted, plain, ..] = PUBLISHED.messages.each_ref();
    let each = f64::from(encrypted.switches - plain.switches) / packets();
    format!(
        "The {} switches of {} are the plain run's {} and {each:.3} for each packet: two DONE \
         tokens, 26 bytes, a step fill {} packets of 4,088 bytes, and each packet went to the \
         operating system for encryption and came back.",
        count(encrypted.switches.into()),
        encrypted.server,
        count(plain.switches.into()),
        count(packets()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ratios as in the collection of published figures.
    #[test]
    fn ratios_agree_with_the_collection() {
        let expected = [
            (1.112, Some(2.413)),
            (1.203, Some(3.906)),
            (1.275, Some(4.630)),
            (1.793, Some(7.968)),
            (1.278, Some(2.013)),
            (1.109, Some(1.200)),
            (1.263, Some(1.187)),
            (1.0636, None),
        ];
        for (figure, (elapsed, cpu)) in PUBLISHED.operations.iter().zip(expected) {
            assert!((figure.elapsed_ratio() - elapsed).abs() < 6e-4, "{figure:?}");
            match (figure.cpu_ratio(), cpu) {
                (Some(found), Some(wanted)) => assert!((found - wanted).abs() < 6e-4, "{figure:?}"),
                (found, wanted) => assert_eq!(found, wanted, "{figure:?}"),
            }
        }
    }

    #[test]
    fn rows_are_those_of_the_source() {
        let row = |index: usize| {
            PUBLISHED.operations[index].row().map(|(name, all)| (name, all.join(" ")))
        };
        let statement = "7390 ms 121,576 18 26,037,103 3062 ms 121,397 1 23,409,175";
        assert_eq!(row(0), Some(("SELECT", statement.to_owned())));
        let rebuild = "14,936 ms 347,345 46,028 21,898 ms 7420 ms 347,116 46,190 17,133 ms";
        assert_eq!(row(4), Some(("rebuild of every index", rebuild.to_owned())));
        assert_eq!(row(7), None);
    }

    #[test]
    fn switches_are_two_a_packet() {
        let said = published_reckoning();
        assert!(said.contains("1,273,235") && said.contains("1,117"), "{said}");
        assert!(said.contains("2.000 for each packet") && said.contains("636,008"), "{said}");
    }

    #[test]
    fn messages_agree_with_the_collection() {
        let [e14, p14, e17, p17] = PUBLISHED.messages.each_ref();
        for (found, wanted) in [
            (ratio(e14.elapsed_ms, p14.elapsed_ms), 1.605),
            (ratio(e14.cpu_ms, p14.cpu_ms), 1.390),
            (ratio(e17.elapsed_ms, p17.elapsed_ms), 1.060),
            (ratio(e17.cpu_ms, p17.cpu_ms), 1.031),
        ] {
            assert!((found - wanted).abs() < 6e-4, "{found} {wanted}");
        }
    }
}
