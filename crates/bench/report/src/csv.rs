//! Tables for spreadsheets and statistics programs (RFC 4180).

use csv::{Terminator, WriterBuilder};

use crate::figures::Comparison;
use crate::figures::HEADLINE;
use crate::metric::Metric;
use crate::model::Class;
use crate::report::Report;
use crate::results::Results;

/// Returns one line for each ratio of every experiment: the contents of the report's tables. Empty
/// if there is no interval.
#[must_use]
pub fn ratios_csv(results: &Results) -> String {
    let mut text = RATIOS.to_owned();
    let pooled = results.reports().flat_map(|(_, report)| &report.summary.pooled);
    for found in pooled.filter(|found| found.id == HEADLINE) {
        text.push_str(&ratio(
            [HEADLINE, &found.what, ""],
            [found.metric.label(), &found.side, &found.against],
            (found.ratio, found.low, found.high),
            (found.restarts, None),
        ));
    }
    for (_, report) in results.reports() {
        for found in &report.summary.comparisons {
            let experiment = experiment(&report.cells, &found.class);
            text.push_str(&ratio(
                [experiment, &found.class, &statement(report, found)],
                [found.metric.label(), &found.side, &found.against],
                (found.ratio, found.low, found.high),
                (found.restarts, Some(found.pairs)),
            ));
        }
    }
    text
}

/// Returns one line for each measured block of every experiment, in the order in which they ran,
/// with a column for each metric that was measured. Empty if a block has no such value.
#[must_use]
pub fn blocks_csv(results: &Results) -> String {
    let blocks = || {
        let of = |report| move |run| (report, run);
        let reports = results.reports();
        reports
            .flat_map(move |(_, report)| report.runs.iter().map(of(report)))
            .filter(|(_, run)| run.statement.is_none())
    };
    let known = |metric: &&Metric| blocks().any(|(_, run)| run.value(**metric).is_some());
    let metrics: Vec<Metric> = Metric::EVERY.iter().filter(known).copied().collect();
    let mut header = vec!["experiment", "class", "side", "restart", "pair", "position"];
    header.extend(metrics.iter().map(|metric| metric.info().column));
    let mut text = line(&header);
    for (report, run) in blocks() {
        let mut fields = vec![
            experiment(&report.cells, &run.cell).to_owned(),
            run.cell.clone(),
            run.side.clone(),
            run.restart.to_string(),
            run.pair.to_string(),
            run.position.to_string(),
        ];
        fields.extend(metrics.iter().map(|metric| known_or_empty(run.value(*metric))));
        text.push_str(&line(&fields));
    }
    text
}

/// Columns of the table of ratios.
const RATIOS: &str =
    "experiment,class,statement,metric,side,against,ratio,low,high,restarts,pairs\r\n";

fn experiment(cells: &[Class], cell: &str) -> &'static str {
    cells.iter().find(|found| found.id == cell).map_or("", |found| found.experiment.label())
}

fn statement(report: &Report, found: &Comparison) -> String {
    let Some(index) = found.statement else { return String::new() };
    let operation = found.class.split('/').nth(1).unwrap_or_default();
    let mut known = report.statements.iter();
    known
        .find(|info| info.index == index && info.operation == operation)
        .map_or_else(|| index.to_string(), |info| format!("{index}: {}", info.what))
}

fn ratio(
    names: [&str; 3],
    of: [&str; 3],
    (ratio, low, high): (f64, Option<f64>, Option<f64>),
    (restarts, pairs): (u64, Option<u64>),
) -> String {
    let [low, high] = [low, high].map(known_or_empty);
    let numbers = [ratio.to_string(), low, high, restarts.to_string(), known_or_empty(pairs)];
    let names = names.into_iter().chain(of).map(str::to_owned);
    line(&names.chain(numbers).collect::<Vec<_>>())
}

fn known_or_empty(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn line<T: AsRef<str>>(fields: &[T]) -> String {
    let field = |field: &T| {
        let field = field.as_ref();
        // A spreadsheet takes a formula as text only after an apostrophe.
        let mark = if field.starts_with(['=', '+', '@', '\t', '\r']) { "'" } else { "" };
        format!("{mark}{field}")
    };
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    // Writing into memory never fails; the fields are UTF-8, and so is the line.
    let _never_fails = writer.write_record(fields.iter().map(field));
    writer.into_inner().ok().and_then(|line| String::from_utf8(line).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{example, holds, two_algorithms, whole};

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(line(&["a", "b c", "1"]), "a,b c,1\r\n");
        assert_eq!(line(&["a,b", "say \"x\"", "=1+1"]), "\"a,b\",\"say \"\"x\"\"\",'=1+1\r\n");
    }

    #[test]
    fn a_further_algorithm_has_its_lines() {
        let results = two_algorithms(0.92);
        let ratios = ratios_csv(&results);
        for against in ["base", "encrypted"] {
            assert!(ratios.contains(&format!(",elapsed,second,{against},")), "{ratios}");
        }
        assert!(blocks_csv(&results).contains(",crud/4-3-3,second,0,0,"));
    }

    #[test]
    fn every_ratio_and_block_is_a_line() {
        let results = example();
        let text = ratios_csv(&results);
        let report = results.embedded.as_ref().unwrap();
        let wanted = 1 + report.summary.pooled.len() + report.summary.comparisons.len();
        assert_eq!(text.lines().count(), wanted);
        assert!(text.contains("CRUD mixes,crud/4-3-3,,elapsed,encrypted,base,1.1"), "{text}");
        let text = blocks_csv(&results);
        assert_eq!(text.lines().count(), 1 + report.runs.len());
        let fields = text.lines().next().unwrap().split(',').count();
        assert!(text.lines().all(|line| line.split(',').count() == fields));
        assert!(text.contains("\r\nCRUD mixes,crud/4-3-3,base,0,0,0,1000000,"), "{text}");
    }

    #[test]
    fn backups_workloads_and_messages_have_lines_too() {
        let results = Results { embedded: None, ..whole() };
        let text = ratios_csv(&results);
        let wanted: usize =
            results.reports().map(|(_, report)| report.summary.comparisons.len()).sum();
        assert!(wanted > 60, "{wanted}");
        assert_eq!(text.lines().count(), 1 + wanted);
        holds(
            &text,
            [
                "backup matrix,backup/zstd/disk/disk,,elapsed,AES_256,none,1.1",
                "OLTP workloads,oltp_read_write/8,,throughput,tdekit,base,0.9",
                "messages,loop,,server context switches,on,off,",
            ],
        );
        let text = blocks_csv(&results);
        let wanted: usize = results.reports().map(|(_, report)| report.runs.len()).sum();
        assert_eq!(text.lines().count(), 1 + wanted);
        let header = text.lines().next().unwrap();
        assert!(header.contains(",throughput_per_s,") && header.ends_with(",output_bytes"));
        let fields = header.split(',').count();
        assert!(text.lines().all(|line| line.split(',').count() == fields), "{text}");
    }
}
