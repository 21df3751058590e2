//! The bench's own share of the OLTP workloads.

use crate::model::Metric;
use crate::report::Report;

/// Returns the cell where the bench's own code takes the largest part of the base's CPU, its CPU
/// for each transaction, and that part. A scan drives one statement only, so it is not
/// representative.
pub(crate) fn own_share(report: &Report) -> Option<(&str, f64, f64)> {
    let base = report.base()?;
    let shares = report.cells.iter().filter(|cell| cell.unit == "transaction").filter_map(|cell| {
        let totals = report.summary.totals(&cell.id, &base.id)?;
        let own = totals.values.get(&Metric::OwnCpu)?.each?;
        let all = report.median(&cell.id, &base.id, Metric::CpuEach).filter(|all| *all > 0.0)?;
        (own > 0.0).then_some((cell.id.as_str(), own, own / all))
    });
    shares.max_by(|one, other| one.2.total_cmp(&other.2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn the_benchs_own_share_is_the_largest_one_of_the_base() {
        let mut report = examples::oltp();
        // 200 ns of 100,000 each; less in blocks with more transactions.
        let (_, _, share) = own_share(&report).unwrap();
        assert!((share - 2_000_000.0 / 10_450.0 / 100_000.0).abs() < 2e-4, "{share}");
        for run in &mut report.runs {
            run.values.remove(&Metric::OwnCpu);
        }
        examples::summarize(&mut report);
        assert!(own_share(&report).is_none());
    }

    #[test]
    fn pages_are_no_part_of_the_whole() {
        let mut report = examples::oltp();
        report.cells[1].unit = "page".to_owned();
        examples::summarize(&mut report);
        let summary = &report.summary;
        assert_eq!(
            summary.pooled("all", Metric::CpuEach, "tdekit", "base").unwrap().cells.len(),
            1
        );
        let cell = "oltp_read_write/8";
        assert!(summary.comparison(cell, Metric::CpuEach, "tdekit", "base").is_some());
    }

    #[test]
    fn an_engine_whose_cpu_is_unknown_has_no_cpu_ratio() {
        let mut report = examples::oltp();
        for run in &mut report.runs {
            run.values.remove(&Metric::Cpu);
        }
        examples::summarize(&mut report);
        let all = |metric| report.summary.pooled("all", metric, "tdekit", "base");
        assert!(all(Metric::CpuEach).is_none() && all(Metric::Throughput).is_some());
        assert_eq!(report.median("oltp_read_write/1", "base", Metric::CpuEach), None);
    }
}
