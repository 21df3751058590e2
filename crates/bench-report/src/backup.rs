//! The answers that the matrix of backups gives.

use crate::figures::Ratio;
use crate::format::fine_percent;
use crate::index::compression_words;
use crate::model::Metric;
use crate::report::Report;

/// The cipher that the answer is about: the run's own, or the last one.
pub(crate) fn cipher_of<'a>(report: &'a Report, algorithm: &str) -> Option<&'a str> {
    let pooled = &report.summary.pooled;
    let own = pooled.iter().find(|found| found.side == algorithm);
    own.or(pooled.last()).map(|found| found.side.as_str())
}

/// A sentence for each compression.
pub(crate) fn verdict(report: &Report, algorithm: &str) -> Vec<String> {
    let Some(cipher) = cipher_of(report, algorithm) else { return Vec::new() };
    let base = report.base().map_or("", |base| base.id.as_str());
    let sentence = |compression: &str| {
        let find = |action: &str, metric| {
            report.summary.pooled(&format!("{action}/{compression}"), metric, cipher, base)
        };
        let restore = find("restore", Metric::Elapsed)
            .map_or_else(String::new, |found| format!("; its restore {}", found.words()));
        Some(format!(
            "Backup, {}: {cipher} costs elapsed time {}, CPU {}, size {}{restore}.",
            compression_words(compression),
            find("backup", Metric::Elapsed)?.words(),
            find("backup", Metric::Cpu)?.words(),
            fine_percent(find("backup", Metric::Size)?.ratio),
        ))
    };
    report.along("compression").into_iter().filter_map(sentence).collect()
}
