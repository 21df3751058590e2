//! Tables for spreadsheets and statistics programs (RFC 4180).

use std::fmt::Write;

use crate::model::{Comparison, Results};

/// One line for each ratio: what the report's tables show. Empty where there is no interval.
#[must_use]
pub fn ratios_csv(results: &Results) -> String {
    let mut text = line(&[
        "experiment",
        "class",
        "statement",
        "metric",
        "side",
        "against",
        "ratio",
        "low",
        "high",
        "restarts",
        "pairs",
    ]);
    for found in &results.summary.headlines {
        text.push_str(&ratio(
            ["headline", &found.what, ""],
            [found.metric.label(), &found.side, &found.against],
            (found.ratio, found.low, found.high),
            (found.restarts, None),
        ));
    }
    for found in &results.summary.comparisons {
        let class = results.classes.iter().find(|class| class.id == found.class);
        let experiment = class.map_or("", |class| class.experiment.label());
        text.push_str(&ratio(
            [experiment, &found.class, &statement(results, found)],
            [found.metric.label(), &found.side, &found.against],
            (found.ratio, found.low, found.high),
            (found.restarts, Some(found.pairs)),
        ));
    }
    text
}

/// One line for each measured block, in the order in which they ran.
#[must_use]
pub fn blocks_csv(results: &Results) -> String {
    let mut text = line(&[
        "class",
        "side",
        "restart",
        "pair",
        "position",
        "elapsed_ns",
        "cpu_ns",
        "user_ns",
        "system_ns",
        "pages_read",
        "pages_written",
        "device_read_bytes",
        "device_write_bytes",
        "retries",
        "voluntary_switches",
        "involuntary_switches",
        "instructions",
        "latency_p50_ns",
        "latency_p95_ns",
        "latency_p99_ns",
        "latency_max_ns",
    ]);
    for sample in &results.samples {
        let latency = |pick: fn(&crate::LatencySample) -> u64| {
            sample.latency.as_ref().map_or_else(String::new, |found| pick(found).to_string())
        };
        let numbers = [
            u64::from(sample.restart),
            u64::from(sample.pair),
            u64::from(sample.position),
            sample.elapsed_ns,
            sample.cpu_ns,
            sample.user_ns,
            sample.system_ns,
            sample.logical_reads,
            sample.logical_writes,
            sample.device_read_bytes,
            sample.device_write_bytes,
            sample.retries,
            sample.voluntary_switches,
            sample.involuntary_switches,
        ];
        let mut fields = vec![sample.class.clone(), sample.side.clone()];
        fields.extend(numbers.map(|number| number.to_string()));
        fields.push(sample.instructions.map_or_else(String::new, |count| count.to_string()));
        fields.push(latency(|found| found.p50_ns));
        fields.push(latency(|found| found.p95_ns));
        fields.push(latency(|found| found.p99_ns));
        fields.push(latency(|found| found.max_ns));
        text.push_str(&line(&fields));
    }
    text
}

fn statement(results: &Results, found: &Comparison) -> String {
    let Some(index) = found.statement else { return String::new() };
    let operation = found.class.split('/').nth(1).unwrap_or_default();
    results
        .statements
        .iter()
        .find(|info| info.index == index && info.operation == operation)
        .map_or_else(|| index.to_string(), |info| format!("{index}: {}", info.what))
}

fn ratio(
    names: [&str; 3],
    of: [&str; 3],
    (ratio, low, high): (f64, Option<f64>, Option<f64>),
    (restarts, pairs): (u64, Option<u64>),
) -> String {
    let end = |end: Option<f64>| end.map_or_else(String::new, |end| end.to_string());
    let numbers = [
        ratio.to_string(),
        end(low),
        end(high),
        restarts.to_string(),
        pairs.map_or_else(String::new, |pairs| pairs.to_string()),
    ];
    let names = names.into_iter().chain(of).map(str::to_owned);
    line(&names.chain(numbers).collect::<Vec<_>>())
}

fn line<T: AsRef<str>>(fields: &[T]) -> String {
    let mut line = String::new();
    for (index, field) in fields.iter().enumerate() {
        let field = field.as_ref();
        let comma = if index == 0 { "" } else { "," };
        // A formula is text to a spreadsheet only behind an apostrophe.
        let formula = field.starts_with(['=', '+', '@', '\t', '\r']);
        let mark = if formula { "'" } else { "" };
        if formula || field.contains([',', '"', '\n', '\r']) {
            let _never_fails = write!(line, "{comma}\"{mark}{}\"", field.replace('"', "\"\""));
        } else {
            let _never_fails = write!(line, "{comma}{field}");
        }
    }
    line.push_str("\r\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::example;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(line(&["a", "b c", "1"]), "a,b c,1\r\n");
        assert_eq!(line(&["a,b", "say \"x\"", "=1+1"]), "\"a,b\",\"say \"\"x\"\"\",\"'=1+1\"\r\n");
    }

    #[test]
    fn every_ratio_and_block_is_a_line() {
        let results = example();
        let text = ratios_csv(&results);
        let wanted = 1 + results.summary.headlines.len() + results.summary.comparisons.len();
        assert_eq!(text.lines().count(), wanted);
        assert!(text.contains("CRUD mixes,crud/4-3-3,,elapsed,encrypted,base,1.1"), "{text}");
        let text = blocks_csv(&results);
        assert_eq!(text.lines().count(), 1 + results.samples.len());
        let fields = text.lines().next().unwrap().split(',').count();
        assert!(text.lines().all(|line| line.split(',').count() == fields));
    }
}
