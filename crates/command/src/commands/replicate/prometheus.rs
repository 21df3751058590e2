//! The state of replication in the text format of Prometheus.

use std::fmt::Write;

use tdekit_backup_run::archive::Shipped;
use tdekit_key_store::now_seconds;

use super::status::Followed;
use crate::overview::metrics::{head, label};

/// Beginning of each file of metrics.
pub(super) const BEGIN: &str = "# HELP tdekit_replicate_running ";

/// A value of a database; `None` if it is not known, and then there is no line.
type Value = fn(&Followed) -> Option<i64>;

const METRICS: [(&str, &str, Value); 9] = [
    ("tdekit_replicate_running", "Whether a process follows the database.", |it| {
        Some(it.running.into())
    }),
    ("tdekit_replicate_failed", "Whether the last try to ship failed.", |it| {
        Some(it.state.error.is_some().into())
    }),
    (
        "tdekit_replicate_current_timestamp_seconds",
        "All that was committed by then is in the archive.",
        |it| it.state.current_ms.map(seconds),
    ),
    (
        "tdekit_replicate_last_shipped_timestamp_seconds",
        "When the last object was shipped.",
        |it| last(it, |shipped| seconds(shipped.shipped_ms)),
    ),
    (
        "tdekit_replicate_last_transaction_timestamp_seconds",
        "When the last transaction that was shipped was seen.",
        |it| last(it, |shipped| seconds(shipped.time_ms)),
    ),
    ("tdekit_replicate_last_object", "Number of the last object.", |it| {
        last(it, |shipped| i64::try_from(shipped.number).unwrap_or(i64::MAX))
    }),
    (
        "tdekit_replicate_snapshot_timestamp_seconds",
        "When the full set was begun on which the last object builds.",
        |it| last(it, |shipped| seconds(shipped.snapshot_ms)),
    ),
    ("tdekit_replicate_snapshot_bytes", "Size of that set.", |it| {
        last(it, |shipped| i64::try_from(shipped.full_bytes).unwrap_or(i64::MAX))
    }),
    ("tdekit_replicate_log_bytes", "Size of the log sets behind it.", |it| {
        last(it, |shipped| i64::try_from(shipped.log_bytes).unwrap_or(i64::MAX))
    }),
];

fn last(followed: &Followed, value: impl Fn(&Shipped) -> i64) -> Option<i64> {
    followed.state.shipped.as_ref().map(value)
}

fn seconds(ms: i64) -> i64 {
    ms.div_euclid(1000)
}

/// Returns the metrics of databases.
pub(super) fn of(all: &[Followed]) -> String {
    let mut out = String::new();
    for (name, help, value) in METRICS {
        head(&mut out, name, help);
        for followed in all {
            let Some(value) = value(followed) else { continue };
            let path = label(&followed.database);
            let _ = writeln!(out, "{name}{{path=\"{path}\"}} {value}");
        }
    }
    let name = "tdekit_replicate_status_timestamp_seconds";
    head(&mut out, name, "When this was written.");
    let _ = writeln!(out, "{name} {}", now_seconds());
    out
}
