//! The JSON document.

mod older;

use serde::Deserialize;
use serde_json::Value;

use crate::model::{OLDER_SCHEMAS, Results, SCHEMA};
use crate::summary::summarize;

/// Why a document could not be read.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Not JSON, or not of the shape.
    #[error("not a results document: {0}")]
    Shape(#[from] serde_json::Error),
    /// Another or a newer document.
    #[error("results document of schema `{found}`; this version reads `{SCHEMA}`")]
    Schema {
        /// The document's own name for its shape.
        found: String,
    },
    /// A chart of the page.
    #[error("a chart cannot be drawn: {reason}")]
    Chart {
        /// The chart library's message.
        reason: String,
    },
}

impl JsonError {
    pub(crate) fn chart(error: impl std::fmt::Display) -> Self {
        Self::Chart { reason: error.to_string() }
    }
}

/// The document as text, ending in a newline.
///
/// # Errors
/// Fails when a number cannot be written as JSON.
pub fn to_json(results: &Results) -> Result<String, JsonError> {
    let mut text = serde_json::to_string_pretty(results)?;
    text.push('\n');
    Ok(text)
}

/// Reads a document. What is computed of an older one is computed anew.
///
/// # Errors
/// Fails on anything but a document of [`SCHEMA`] or an older one.
pub fn from_json(text: &str) -> Result<Results, JsonError> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let head: Head = serde_json::from_str(text)?;
    if head.schema == SCHEMA {
        return Ok(serde_json::from_str(text)?);
    }
    if !OLDER_SCHEMAS.contains(&head.schema.as_str()) {
        return Err(JsonError::Schema { found: head.schema });
    }
    let mut document: Value = serde_json::from_str(text)?;
    older::bring_up(&mut document);
    let mut results = serde_json::from_value(document)?;
    summarize(&mut results);
    Ok(results)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::figures::Comparison;
    use crate::metric::Metric;
    use crate::model::*;
    use crate::report::{Report, Run, measured};
    use crate::summary::summarize;

    fn side(id: &str, role: Role, plain: Option<&str>) -> Side {
        Side {
            id: id.to_owned(),
            label: id.to_owned(),
            role,
            library: Library {
                origin: "system".to_owned(),
                version: "3.40.1".to_owned(),
                source_id: "2022-12-28".to_owned(),
                compile_options: vec!["THREADSAFE=1".to_owned()],
            },
            cipher: (role == Role::Peer).then(|| "aes".to_owned()),
            plain: plain.map(str::to_owned),
            facts: crate::report::Facts::new(),
        }
    }

    /// `scale`: elapsed time and CPU in hundredths of the base's.
    fn run(side: &str, restart: u32, pair: u32, scale: (u64, u64)) -> Run {
        let level = 1_000_000 + u64::from(restart) * 50_000 + u64::from(pair) * 10_000;
        let values = [
            (Metric::Elapsed, level * scale.0 / 100),
            (Metric::Cpu, level * scale.1 / 100),
            (Metric::User, level * scale.1 / 200),
            (Metric::System, level * scale.1 / 200),
            (Metric::PagesRead, 10),
            (Metric::PagesWritten, 20),
            (Metric::DeviceRead, 0),
            (Metric::DeviceWrite, 4096),
            (Metric::VoluntarySwitches, 3),
            (Metric::InvoluntarySwitches, 1),
            (Metric::Instructions, level * 3 * scale.1 / 100),
        ];
        Run {
            cell: "crud/4-3-3".to_owned(),
            statement: None,
            side: side.to_owned(),
            restart,
            pair,
            position: 0,
            values: measured(values.map(|(metric, value)| (metric, Some(value)))),
        }
    }

    fn settings() -> Settings {
        Settings {
            journal_mode: "wal".to_owned(),
            synchronous: "normal".to_owned(),
            cache_size: -2000,
            page_size_bytes: 4096,
            processes: 4,
            rows: Some(100_000),
            restarts: 3,
            pairs: 2,
            busy_wait_us: 100,
            algorithm: "AES_256".to_owned(),
            confidence_permille: 950,
            seed: 1,
            stopping: None,
            rate_per_s: None,
            think_time: None,
            drop_caches: false,
        }
    }

    /// Three restarts of two pairs; encrypted takes 1.1 times as long with 1.2 times the CPU, the
    /// peer 3 times the base and 2.5 times its own plain side.
    pub(crate) fn example() -> Results {
        let sides = vec![
            side("base", Role::Base, None),
            side("encrypted", Role::Encrypted, None),
            side("peer", Role::Peer, Some("peer-plain")),
            side("peer-plain", Role::PeerPlain, None),
        ];
        let mut report = Report::new(Experiment::Embedded, sides);
        for restart in 0..3 {
            for pair in 0..2 {
                report.runs.push(run("base", restart, pair, (100, 100)));
                report.runs.push(run("encrypted", restart, pair, (110, 120)));
                report.runs.push(run("peer-plain", restart, pair, (120, 120)));
                report.runs.push(run("peer", restart, pair, (300, 300)));
            }
            for (side, value) in [("base", 3e6), ("encrypted", 4e6)] {
                report.probes.push(Probe {
                    kind: ProbeKind::ProcessMemory,
                    side: side.to_owned(),
                    restart,
                    value,
                });
            }
        }
        report.cells.push(Class {
            id: "crud/4-3-3".to_owned(),
            experiment: Experiment::Crud,
            label: "mix 4/3/3".to_owned(),
            what: "4 reads, 3 updates, 3 inserts of every 10 loops".to_owned(),
            operations: 400,
            unit: "loop".to_owned(),
            axes: std::collections::BTreeMap::new(),
        });
        let mut results = Results {
            schema: SCHEMA.to_owned(),
            tool: Tool { name: "tdekit".to_owned(), version: "0.1.0".to_owned() },
            started: "2026-11-21T06:00:00Z".to_owned(),
            duration_s: 12.5,
            incomplete: Vec::new(),
            warnings: Vec::new(),
            control: false,
            command: "tdekit bench --quick".to_owned(),
            environment: Environment::default(),
            settings: settings(),
            subject: Subject {
                label: "generated <Vendor & Card>".to_owned(),
                generated: true,
                bytes: 61_000_000,
                page_size_bytes: 4096,
                tables: 4,
                indexes: 6,
                notes: Vec::new(),
            },
            embedded: Some(report),
            backup: None,
            oltp: None,
            messages: None,
            noise: None,
        };
        summarize(&mut results);
        results
    }

    /// The report of the example.
    pub(crate) fn embedded() -> Report {
        example().embedded.unwrap()
    }

    #[test]
    fn round_trip() {
        let results = example();
        let text = to_json(&results).unwrap();
        assert_eq!(from_json(&text).unwrap(), results);
    }

    #[test]
    fn experiments_with_sides_of_their_own_make_the_round_trip_too() {
        let results = crate::examples::whole();
        let text = to_json(&results).unwrap();
        assert_eq!(from_json(&text).unwrap(), results);
    }

    /// Documents as the versions before wrote them: read, summarised again, and shown.
    #[test]
    fn documents_of_older_schemas_are_read() {
        for (name, text) in [
            ("1", include_str!("../../../tests/fixtures/results/tdekit-bench-1.json")),
            ("2", include_str!("../../../tests/fixtures/results/tdekit-bench-2.json")),
        ] {
            let results = from_json(text).unwrap();
            assert!(text.contains(&format!("tdekit-bench/{name}")));
            assert_eq!(results.schema, SCHEMA);
            let before: Value = serde_json::from_str(text).unwrap();
            let before = &before["summary"];
            let summary = &results.embedded.as_ref().unwrap().summary;
            assert!(before.get("headlines").is_none() && !summary.pooled.is_empty());
            let old: Vec<Comparison> =
                serde_json::from_value(before["comparisons"].clone()).unwrap();
            assert!(!old.is_empty());
            for (old, new) in old.iter().zip(&summary.comparisons) {
                assert_eq!((old.metric, &old.side), (new.metric, &new.side), "{name}");
                assert!((old.ratio - new.ratio).abs() < 1e-12, "{name}");
            }
            assert!(crate::terminal(&results).contains("mix 4/3/3"));
        }
    }

    #[test]
    fn another_schema_is_refused() {
        let text = to_json(&example()).unwrap().replace(SCHEMA, "tdekit-bench/99");
        assert!(matches!(
            from_json(&text),
            Err(JsonError::Schema { found }) if found == "tdekit-bench/99"
        ));
        assert!(matches!(from_json("{}"), Err(JsonError::Shape(_))));
        assert!(matches!(from_json("not json"), Err(JsonError::Shape(_))));
    }
}
