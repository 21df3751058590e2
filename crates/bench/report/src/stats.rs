//! Estimators for paired measurements grouped in restarts.
//!
//! Pairs within one restart share processes, file layout and placement, so they are not
//! independent: the restart is the unit of the interval. Within a restart the Hodges-Lehmann
//! estimator (Hodges and Lehmann 1963) summarises the pairs; over restarts Student's t gives the
//! interval.
//!
//! A run whose length follows from its intervals needs more: stopping as soon as an interval is
//! narrow means stopping when the spread happens to look small, which makes the interval too
//! optimistic. The interval of [`staged_centers`] uses the spread of a first stage of fixed length
//! instead (Stein 1945). Among independent normal values the mean of any number of them is
//! independent of all their deviations from it, so any rule based on deviations alone may end the
//! run, and the interval keeps its confidence.

use statrs::distribution::{Beta, ContinuousCDF, StudentsT};

/// A location with its interval, in the unit of the given values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Mean of the groups' Hodges-Lehmann estimates.
    pub center: f64,
    /// Lower and upper end; absent with fewer than two groups.
    pub interval: Option<(f64, f64)>,
    /// Standard error of the center; absent with fewer than two groups.
    pub error: Option<f64>,
    /// Degrees of freedom of the interval.
    pub freedom: usize,
    /// Number of groups (restarts) that had at least one value.
    pub groups: usize,
    /// Number of values (pairs) over all groups.
    pub values: usize,
}

/// Returns the middle value, the mean of the two middle ones for an even count; `None` if empty.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted.get(half).copied()
    } else {
        let high = sorted.get(half)?;
        let low = sorted.get(half.checked_sub(1)?)?;
        Some(f64::midpoint(*low, *high))
    }
}

/// One-sample Hodges-Lehmann estimator: the median of the means of all pairs of values, each value
/// also paired with itself (Walsh averages). `None` if empty.
#[must_use]
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (index, first) in values.iter().enumerate() {
        averages.extend(values[index..].iter().map(|second| f64::midpoint(*first, *second)));
    }
    median(&averages)
}

/// Two-sided quantile of Student's t: the `t` with `P(|T| <= t) = confidence`. `None` if `freedom`
/// is zero or `confidence` is not strictly between 0 and 1.
#[must_use]
pub fn student_t(freedom: usize, confidence: f64) -> Option<f64> {
    student_t_of(count_f64(freedom), confidence)
}

/// As [`student_t`], for degrees of freedom that are not an integer.
fn student_t_of(freedom: f64, confidence: f64) -> Option<f64> {
    if freedom <= 0.0 || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let distribution = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(distribution.inverse_cdf(f64::midpoint(1.0, confidence)))
}

/// Estimate over groups of values, the group being the unit of the interval. Values that are not
/// finite are left out. `None` if nothing is left.
#[must_use]
pub fn grouped_estimate(groups: &[Vec<f64>], confidence: f64) -> Option<Estimate> {
    staged_estimate(groups, confidence, None)
}

/// As [`grouped_estimate`], for a run that ended when its intervals were narrow enough: `first` is
/// the number of groups of its first stage.
#[must_use]
pub fn staged_estimate(
    groups: &[Vec<f64>],
    confidence: f64,
    first: Option<usize>,
) -> Option<Estimate> {
    let values = groups.iter().flatten().filter(|value| value.is_finite()).count();
    let centers: Vec<f64> = groups.iter().filter_map(|group| center(group)).collect();
    let estimate = staged_centers(&centers, confidence, first)?;
    Some(Estimate { values, ..estimate })
}

/// Hodges-Lehmann estimate of the finite ones of `values`. `None` if there are none.
#[must_use]
pub fn center(values: &[f64]) -> Option<f64> {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    hodges_lehmann(&finite)
}

/// Mean of independent values with its interval, in the order in which they were measured. With
/// `first` the interval is the wider of two: the one by the spread of the first `first` values,
/// which is valid whenever the run ended by widths alone, and Student's over all, which reflects
/// noise that has grown since. `None` without values.
#[must_use]
pub fn staged_centers(centers: &[f64], confidence: f64, first: Option<usize>) -> Option<Estimate> {
    let center = mean(centers)?;
    let scale = count_f64(centers.len()).sqrt();
    let spread = |stage: &[f64]| -> Option<(f64, f64, usize)> {
        let freedom = stage.len().checked_sub(1)?;
        let error = deviation(stage)? / scale;
        Some((student_t(freedom, confidence)? * error, error, freedom))
    };
    let stage = first.filter(|first| *first >= 2).and_then(|first| centers.get(..first));
    let widest = [Some(centers), stage]
        .into_iter()
        .flatten()
        .filter_map(spread)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    Some(Estimate {
        center,
        interval: widest.map(|(half, ..)| (center - half, center + half)),
        error: widest.map(|(_, error, _)| error),
        freedom: widest.map_or(0, |(.., freedom)| freedom),
        groups: centers.len(),
        values: centers.len(),
    })
}

/// Returns the mean; `None` if empty.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count_f64(values.len()))
}

/// Returns the standard deviation of a sample; `None` with fewer than two values.
#[must_use]
pub fn deviation(values: &[f64]) -> Option<f64> {
    let center = mean(values)?;
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let squares: f64 = values.iter().map(|value| (value - center).powi(2)).sum();
    Some((squares / count_f64(freedom)).sqrt())
}

/// `new` minus `old`, two independent estimates, with Welch's interval.
#[must_use]
pub fn welch_difference(
    new: &Estimate,
    old: &Estimate,
    confidence: f64,
) -> (f64, Option<(f64, f64)>) {
    let difference = new.center - old.center;
    let interval = new.error.zip(old.error).and_then(|(one, other)| {
        let (one, other) = (one.powi(2), other.powi(2));
        let part = |square: f64, freedom: usize| square.powi(2) / count_f64(freedom.max(1));
        let parts = part(one, new.freedom) + part(other, old.freedom);
        let half = if parts > 0.0 {
            student_t_of((one + other).powi(2) / parts, confidence)? * (one + other).sqrt()
        } else {
            0.0
        };
        Some((difference - half, difference + half))
    });
    (difference, interval)
}

/// Clopper and Pearson's interval of a share, of which `hits` of `tries` are known: from 0 to 1
/// without tries.
#[must_use]
pub fn share_interval(hits: u64, tries: u64, confidence: f64) -> (f64, f64) {
    let tail = (1.0 - confidence) / 2.0;
    let missed = tries.saturating_sub(hits);
    let quantile = |one: u64, other: u64, share: f64| {
        let count = |count: u64| count_f64(usize::try_from(count).unwrap_or(usize::MAX));
        Beta::new(count(one), count(other)).ok().map(|beta| beta.inverse_cdf(share))
    };
    // A count of 0 has no such distribution: the bound is the end of the range.
    (
        quantile(hits, missed + 1, tail).unwrap_or(0.0),
        quantile(hits + 1, missed, 1.0 - tail).unwrap_or(1.0),
    )
}

/// Returns the number of values at the start that belong to a warm-up: the truncation point of MSER
/// (White 1997), which minimises the standard error of the mean of the rest, in the first half. 0
/// if the series is level or empty.
#[must_use]
pub fn settled_after(values: &[f64]) -> usize {
    let rule = |cut: usize| -> Option<f64> {
        let rest = values.get(cut..).filter(|rest| !rest.is_empty())?;
        let center = mean(rest)?;
        let squares: f64 = rest.iter().map(|value| (value - center).powi(2)).sum();
        Some(squares / count_f64(rest.len()).powi(2))
    };
    (0..=values.len() / 2)
        .filter_map(|cut| Some((cut, rule(cut)?)))
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .map_or(0, |(cut, _)| cut)
}

impl Estimate {
    /// Converts from logarithms to ratios. The standard error stays that of the logarithm. An
    /// interval with an infinite end has no meaning and cannot be stored in a document: it is
    /// dropped.
    #[must_use]
    pub fn exp(self) -> Self {
        Self {
            center: self.center.exp(),
            interval: self
                .interval
                .map(|(low, high)| (low.exp(), high.exp()))
                .filter(|(_, high)| high.is_finite()),
            ..self
        }
    }

    /// Returns half of the interval's length; none without an interval.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        self.interval.map(|(low, high)| (high - low) / 2.0)
    }
}

fn count_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
