//! Times of transactions, counted in buckets whose width is below 1/64 of their value.

use serde::{Deserialize, Serialize};
use tdekit_bench_report::OltpLatency;

/// Buckets a power of two.
const PARTS: u64 = 64;
const PARTS_BITS: u32 = PARTS.trailing_zeros();

/// Counts by bucket, with the exact ends and sum.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Times {
    counts: Vec<u64>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u64,
    count: u64,
}

/// The bucket of a value: below 64 each value has its own, above it is the upper bits that count.
fn bucket(ns: u64) -> usize {
    let place = if ns < PARTS {
        ns
    } else {
        let shift = ns.ilog2() - PARTS_BITS;
        u64::from(shift + 1) * PARTS + (ns >> shift) - PARTS
    };
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// The largest value of a bucket.
fn top(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    ((bucket % PARTS + PARTS + 1) << shift) - 1
}

impl Times {
    /// Takes in one time.
    #[inline]
    pub(crate) fn add(&mut self, ns: u64) {
        let place = bucket(ns);
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.count += 1;
    }

    /// Takes in another process's times.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        let least = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.min_ns = least;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.count += other.count;
    }

    /// The value that a share, in thousandths, of all times does not exceed.
    fn at(&self, permille: u64) -> u64 {
        let wanted = (self.count * permille).div_ceil(1000).max(1);
        let mut sum = 0;
        for (place, count) in self.counts.iter().enumerate() {
            sum += count;
            if sum >= wanted {
                return top(place).min(self.max_ns);
            }
        }
        0
    }

    /// What a report tells of them.
    pub(crate) fn latency(&self) -> OltpLatency {
        OltpLatency {
            min_ns: self.min_ns,
            avg_ns: self.sum_ns.checked_div(self.count).unwrap_or(0),
            p50_ns: self.at(500),
            p95_ns: self.at(950),
            p99_ns: self.at(990),
            max_ns: self.max_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_within_a_64th() {
        let mut last = 0;
        for ns in (0..5000).chain((0..60).map(|shift| (1_u64 << shift) + 12345)) {
            let place = bucket(ns);
            assert!(top(place) >= ns && top(place) - ns <= ns / 64, "{ns}: {}", top(place));
            if ns < 5000 {
                assert!(place == last || place == last + 1, "{ns}");
                last = place;
            }
        }
    }

    #[test]
    fn percentiles_of_a_thousand() {
        let (mut one, mut two) = (Times::default(), Times::default());
        for ms in 1..=500_u64 {
            one.add(ms * 1_000_000);
            two.add((ms + 500) * 1_000_000);
        }
        one.merge(&two);
        one.merge(&Times::default());
        let found = one.latency();
        assert_eq!((found.min_ns, found.max_ns), (1_000_000, 1_000_000_000));
        assert_eq!(found.avg_ns, 500_500_000);
        for (value, wanted) in
            [(found.p50_ns, 500_000_000), (found.p95_ns, 950_000_000), (found.p99_ns, 990_000_000)]
        {
            assert!(value >= wanted && value - wanted <= wanted / 64, "{value} is not {wanted}");
        }
        assert_eq!(Times::default().latency(), OltpLatency::default());
    }
}
