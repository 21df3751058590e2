//! Noveljic's figures, and what its context switches are.

use crate::format::{count, duration};
use crate::piece::Piece;
use crate::report::float;
use crate::table::Table;

/// One column of the source's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PublishedMessages {
    /// The server.
    pub(crate) server: &'static str,
    /// Whether the connection was encrypted.
    pub(crate) encrypted: bool,
    /// Elapsed time of the batch.
    elapsed_ms: u64,
    /// CPU of the batch.
    pub(crate) cpu_ms: u64,
    /// Waited in `PREEMPTIVE_OS_ENCRYPTMESSAGE`.
    encrypt_wait_ms: u64,
    /// Context switches of the whole instance meanwhile.
    switches: u64,
}

const fn published(server: &'static str, encrypted: bool, figures: [u64; 4]) -> PublishedMessages {
    let [elapsed_ms, cpu_ms, encrypt_wait_ms, switches] = figures;
    PublishedMessages { server, encrypted, elapsed_ms, cpu_ms, encrypt_wait_ms, switches }
}

/// The source of the figures.
pub(crate) const PUBLISHED_MESSAGES_SOURCE: &str = "Nenad Noveljic, Excessive Context Switching \
     due to TDS Encryption, 6 September 2018: a T-SQL loop of 100,000,000 steps, a message for \
     each";

/// The source's table.
pub(crate) const PUBLISHED_MESSAGES: [PublishedMessages; 4] = [
    published("SQL Server 2014", true, [99_690, 84_490, 28_266, 1_273_235]),
    published("SQL Server 2014", false, [62_127, 60_764, 0, 1117]),
    published("SQL Server 2017", true, [66_196, 65_114, 0, 508]),
    published("SQL Server 2017", false, [62_442, 63_165, 0, 500]),
];

/// Steps of the source's loop.
const STEPS: f64 = 1e8;
/// A step's answer: two DONE tokens of 13 bytes, of the loop's condition and of SET.
const STEP_BYTES: f64 = 26.0;
/// Payload of a packet of the usual 4,096 bytes.
const PACKET_PAYLOAD_BYTES: f64 = 4088.0;

impl PublishedMessages {
    /// Elapsed time of a step.
    pub(crate) fn step_ns(&self) -> f64 {
        float(self.elapsed_ms) * 1e6 / STEPS
    }

    /// Context switches a packet.
    pub(crate) fn switches_each(&self) -> f64 {
        float(self.switches) / packets()
    }
}

/// Packets that the source's batch was answered with, by reckoning: it does not tell.
fn packets() -> f64 {
    STEPS * STEP_BYTES / PACKET_PAYLOAD_BYTES
}

/// The source's table, with what follows for a step and a packet.
pub(crate) fn published_table() -> Table {
    let rows = PUBLISHED_MESSAGES.iter().map(|found| {
        let connection = if found.encrypted { "encrypted" } else { "plain" };
        let ms = |value: u64| format!("{value} ms");
        [
            format!("{}, {connection}", found.server),
            ms(found.elapsed_ms),
            duration(found.step_ns()),
            ms(found.cpu_ms),
            ms(found.encrypt_wait_ms),
            count(float(found.switches)),
            format!("{:.3}", found.switches_each()),
        ]
        .map(Piece::from)
        .to_vec()
    });
    let head = ["Server", "Elapsed", "A step", "CPU", "Waited to encrypt", "Context switches"];
    let head = head.into_iter().chain(["A packet"]);
    Table::new("The source's table of messages", head, rows)
}

/// An explanation of the source's context switches, of which every number follows from its
/// table.
pub(crate) fn published_reckoning() -> String {
    let [encrypted, plain, ..] = PUBLISHED_MESSAGES;
    let each = float(encrypted.switches - plain.switches) / packets();
    format!(
        "The {} switches of {} are the plain run's {} and {each:.3} for each packet: two DONE \
         tokens, 26 bytes, a step fill {} packets of 4,088 bytes, and each packet went to the \
         operating system for encryption and came back.",
        count(float(encrypted.switches)),
        encrypted.server,
        count(float(plain.switches)),
        count(packets()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_two_a_packet() {
        let said = published_reckoning();
        assert!(said.contains("1,273,235") && said.contains("1,117"), "{said}");
        assert!(said.contains("2.000 for each packet") && said.contains("636,008"), "{said}");
    }

    #[test]
    fn ratios_agree_with_the_collection() {
        let [e14, p14, e17, p17] = PUBLISHED_MESSAGES;
        let ratio = |above: u64, below: u64| above as f64 / below as f64;
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
