//! Latencies of single operations: a histogram in each worker, merged by the driver.

use hdrhistogram::Histogram;
use tdekit_bench_report::Latency;

/// Values below share a bucket.
const LEAST_NS: u64 = 16;
/// One hour; longer values count as an hour.
const MOST_NS: u64 = 3_600_000_000_000;
/// Significant digits.
const DIGITS: u8 = 3;

/// Points of a distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// Minimum.
    pub min_ns: u64,
    /// Mean.
    pub avg_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 95 of 100 are faster.
    pub p95_ns: u64,
    /// 99 of 100 are faster.
    pub p99_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

/// Counts of latencies, each value with three significant digits.
pub struct Latencies {
    histogram: Option<Histogram<u64>>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// Returns empty counts.
    #[must_use]
    pub fn new() -> Self {
        // The bounds are constant and valid: an error cannot occur.
        Self { histogram: Histogram::new_with_bounds(LEAST_NS, MOST_NS, DIGITS).ok() }
    }

    /// Adds one latency.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(latency_ns);
        }
    }

    /// Returns every value that occurred, with its count.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let Some(histogram) = &self.histogram else { return Vec::new() };
        histogram
            .iter_recorded()
            .map(|found| (found.value_iterated_to(), found.count_since_last_iteration()))
            .collect()
    }

    /// Adds the counts of another process.
    pub fn add(&mut self, counts: &[(u64, u64)]) {
        if let Some(histogram) = &mut self.histogram {
            for (value, count) in counts {
                histogram.saturating_record_n(*value, *count);
            }
        }
    }

    /// Returns points of the distribution, `None` if empty.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let histogram = self.filled()?;
        let at = |share| histogram.value_at_quantile(share);
        Some(Percentiles {
            min_ns: histogram.min(),
            avg_ns: whole(histogram.mean()),
            p50_ns: at(0.5),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            max_ns: histogram.max(),
        })
    }

    /// Returns the distribution of all blocks of a class and side, `None` if empty.
    pub fn report(&self, class: &str, side: &str) -> Option<Latency> {
        let histogram = self.filled()?;
        Some(Latency {
            class: class.to_owned(),
            side: side.to_owned(),
            operations: histogram.len(),
            mean_ns: histogram.mean(),
            p50_ns: histogram.value_at_quantile(0.5),
            p90_ns: histogram.value_at_quantile(0.9),
            p95_ns: histogram.value_at_quantile(0.95),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        })
    }

    fn filled(&self) -> Option<&Histogram<u64>> {
        self.histogram.as_ref().filter(|histogram| !histogram.is_empty())
    }
}

/// Returns the nearest integer; 0 for smaller values, the maximum for larger ones.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast saturates at both ends"
)]
pub fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_travel_and_add_up() {
        let mut worker = Latencies::new();
        assert!(worker.percentiles().is_none() && worker.counts().is_empty());
        (1..=1000_u64).for_each(|number| worker.record(number * 1_000));
        worker.record(u64::MAX);
        let mut driver = Latencies::new();
        driver.add(&worker.counts());
        driver.add(&worker.counts());
        let found = driver.report("crud/4-3-3", "base").unwrap();
        assert_eq!(found.operations, 2002);
        let close = |found: u64, wanted: u64| found.abs_diff(wanted) * 500 <= wanted;
        assert!(close(found.p50_ns, 501_000) && close(found.p99_ns, 991_000), "{found:?}");
        assert!(close(found.max_ns, MOST_NS), "{found:?}");
        let all = driver.percentiles().unwrap();
        assert!((984..=1_000).contains(&all.min_ns) && close(all.p95_ns, 951_000), "{all:?}");
        // The hour has a visible weight: 2 of 2,002.
        assert!(close(all.avg_ns, whole(found.mean_ns)) && all.avg_ns > 3_000_000_000, "{all:?}");
        assert_eq!((all.p50_ns, all.p99_ns), (found.p50_ns, found.p99_ns));
    }
}
