//! Noveljic's figures, and what its context switches are.

/// One column of the source's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedMessages {
    /// The server.
    pub server: &'static str,
    /// Whether the connection was encrypted.
    pub encrypted: bool,
    /// Elapsed time of the batch.
    pub elapsed_ms: u64,
    /// CPU of the batch.
    pub cpu_ms: u64,
    /// Waited in `PREEMPTIVE_OS_ENCRYPTMESSAGE`.
    pub encrypt_wait_ms: u64,
    /// Context switches of the whole instance meanwhile.
    pub switches: u64,
}

/// The source of the figures.
pub const PUBLISHED_MESSAGES_SOURCE: &str = "Nenad Noveljic, Excessive Context Switching due to \
     TDS Encryption, 6 September 2018: a T-SQL loop of 100,000,000 steps, a message for each";

/// The source's table.
pub const PUBLISHED_MESSAGES: [PublishedMessages; 4] = [
    PublishedMessages {
        server: "SQL Server 2014",
        encrypted: true,
        elapsed_ms: 99_690,
        cpu_ms: 84_490,
        encrypt_wait_ms: 28_266,
        switches: 1_273_235,
    },
    PublishedMessages {
        server: "SQL Server 2014",
        encrypted: false,
        elapsed_ms: 62_127,
        cpu_ms: 60_764,
        encrypt_wait_ms: 0,
        switches: 1117,
    },
    PublishedMessages {
        server: "SQL Server 2017",
        encrypted: true,
        elapsed_ms: 66_196,
        cpu_ms: 65_114,
        encrypt_wait_ms: 0,
        switches: 508,
    },
    PublishedMessages {
        server: "SQL Server 2017",
        encrypted: false,
        elapsed_ms: 62_442,
        cpu_ms: 63_165,
        encrypt_wait_ms: 0,
        switches: 500,
    },
];

/// Steps of the source's loop.
pub(crate) const STEPS: f64 = 1e8;
/// A step's answer: two DONE tokens of 13 bytes, of the loop's condition and of SET.
const STEP_BYTES: f64 = 26.0;
/// Payload of a packet of the usual 4,096 bytes.
const PACKET_PAYLOAD_BYTES: f64 = 4088.0;

/// Packets that the source's batch was answered with, by reckoning: it does not tell.
#[must_use]
pub fn published_packets() -> f64 {
    STEPS * STEP_BYTES / PACKET_PAYLOAD_BYTES
}

/// An explanation of the source's context switches, of which every number follows from its
/// table.
#[must_use]
pub fn published_reckoning() -> String {
    let [encrypted, plain, ..] = PUBLISHED_MESSAGES;
    let extra = encrypted.switches - plain.switches;
    let each = crate::report::float(extra) / published_packets();
    format!(
        "The {} switches of {} are the plain run's {} and {each:.3} for each packet: two DONE \
         tokens, 26 bytes, a step fill {} packets of 4,088 bytes, and each packet went to the \
         operating system for encryption and came back.",
        crate::format::count(crate::report::float(encrypted.switches)),
        encrypted.server,
        crate::format::count(crate::report::float(plain.switches)),
        crate::format::count(published_packets()),
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
