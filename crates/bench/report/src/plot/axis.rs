//! Axes for plotters: ratios and counts of threads by their logarithm, amounts from 0.

use std::ops::Range;

use plotters::coord::ranged1d::{
    KeyPointHint, KeyPointWeight, NoDefaultFormatting, Ranged, ValueFormatter,
};

use super::units;

/// An axis with its marks.
#[derive(Clone)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    marks: Vec<f64>,
    words: fn(f64) -> String,
}

/// Overheads that may be marked, in percent.
const MARKS: [f64; 33] = [
    -99.0, -90.0, -75.0, -50.0, -40.0, -30.0, -20.0, -15.0, -10.0, -5.0, -4.0, -3.0, -2.0, -1.0,
    -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0, 200.0, 400.0, 900.0,
    1900.0, 4900.0, 9900.0,
];

/// A ratio and the ends of its interval.
pub(super) type Bounds = (f64, Option<[f64; 2]>);

impl Axis {
    /// Ratios, shown as overheads in percent; equal distances are equal factors, as in the
    /// estimation of ratios. Covers 0 %, every ratio and the intervals unless they dwarf the
    /// ratios. Two marks are at least `distance` of its length apart.
    pub(super) fn ratios(all: &[Bounds], distance: f64) -> Self {
        let mut low = 0.0_f64;
        let mut high = 0.0_f64;
        for (ratio, _) in all {
            low = low.min(ratio.ln());
            high = high.max(ratio.ln());
        }
        let reach = ((high - low) * 0.75).max(0.02);
        let (least, most) = (low - reach, high + reach);
        for [from, to] in all.iter().filter_map(|(_, ends)| *ends) {
            low = low.min(from.ln().max(least));
            high = high.max(to.ln().min(most));
        }
        let margin = ((high - low) * 0.03).max(0.002);
        let ends = Self::span((low - margin).exp(), (high + margin).exp());
        let mut axis = Self { logarithmic: true, words: overhead, ..ends };
        axis.marks = axis.overhead_marks(distance);
        axis
    }

    /// Returns 0 %, then marks on either side as space permits.
    fn overhead_marks(&self, distance: f64) -> Vec<f64> {
        let ratio = |mark: &f64| 1.0 + mark / 100.0;
        let (left, right): (Vec<f64>, Vec<f64>) =
            MARKS.iter().map(ratio).partition(|ratio| *ratio < 1.0);
        let mut marks = vec![1.0];
        for side in [left.into_iter().rev().collect::<Vec<_>>(), right] {
            let mut last = self.share(1.0);
            for ratio in side.into_iter().filter(|ratio| self.holds(*ratio)) {
                let share = self.share(ratio);
                if (share - last).abs() >= distance {
                    marks.push(ratio);
                    last = share;
                }
            }
        }
        marks
    }

    /// An axis from one place to another, without marks: if the low end is above the high one, it
    /// goes down.
    pub(super) fn span(low: f64, high: f64) -> Self {
        Self { low, high, logarithmic: false, marks: Vec::new(), words: plain }
    }

    /// Numbers that double, such as threads: each is marked.
    pub(super) fn doubling(values: &[f64]) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min).max(f64::MIN_POSITIVE);
        let high = values.iter().copied().fold(low, f64::max);
        let margin = (high / low).powf(0.04).max(1.02);
        let ends = Self::span(low / margin, high * margin);
        Self { logarithmic: true, marks: values.to_vec(), ..ends }
    }

    /// Amounts from 0 to at least `most`, with about five round marks.
    pub(super) fn from_zero(most: f64, words: fn(f64) -> String) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let power = 10.0_f64.powf((most / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| most / step <= 5.0)
            .unwrap_or(most);
        let marks: Vec<f64> = (0..=6_u8)
            .map(|index| f64::from(index) * step)
            .take_while(|mark| *mark < most + step)
            .collect();
        let high = marks.last().copied().unwrap_or(most).max(most);
        Self { marks, words, ..Self::span(0.0, high) }
    }

    pub(super) fn holds(&self, value: f64) -> bool {
        value >= self.low.min(self.high) && value <= self.high.max(self.low)
    }

    /// Returns the position of a value as a part of the axis's length, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let place = |value: f64| if self.logarithmic { value.ln() } else { value };
        let length = place(self.high) - place(self.low);
        let share = (place(value) - place(self.low)) / length;
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }
}

fn overhead(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() < 0.05 {
        "0 %".to_owned()
    } else if (percent - percent.round()).abs() < 0.05 {
        format!("{percent:+.0} %")
    } else {
        format!("{percent:+.1} %")
    }
}

fn plain(value: f64) -> String {
    format!("{value}")
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + units(self.share(*value) * f64::from(limit.1 - limit.0))
    }

    /// Returns the marks, with no lighter lines between them.
    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight() {
            KeyPointWeight::Bold => self.marks.clone(),
            KeyPointWeight::Any => Vec::new(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        plain(*value)
    }

    fn format_ext(&self, value: &f64) -> String {
        (self.words)(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISTANCE: f64 = 0.1;

    fn axis(ratio: f64, low: f64, high: f64) -> Axis {
        Axis::ratios(&[(ratio, Some([low, high]))], DISTANCE)
    }

    #[test]
    fn marks_fit_the_range() {
        assert!(axis(1.03, 1.01, 1.05).marks.len() >= 3);
        let wide = axis(8.0, 0.5, 20.0);
        assert!(wide.marks.contains(&1.0), "{:?}", wide.marks);
        assert!(wide.marks.iter().any(|mark| *mark >= 5.0), "{:?}", wide.marks);
        let mut places: Vec<f64> = wide.marks.iter().map(|mark| wide.share(*mark)).collect();
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= DISTANCE));
    }

    #[test]
    fn a_huge_interval_does_not_dwarf_the_ratios() {
        let axis = axis(1.1, 0.01, 90.0);
        assert!(axis.high < 1.3 && axis.low > 0.9, "{} {}", axis.low, axis.high);
        assert_eq!(axis.map(&1e9, (0, 1000)), 1000);
        assert_eq!(axis.map(&1e-9, (0, 1000)), 0);
    }

    #[test]
    fn equal_factors_are_equal_distances() {
        let axis = Axis::ratios(&[(0.25, None), (4.0, None)], DISTANCE);
        let at = |ratio: f64| axis.map(&ratio, (0, 10_000));
        assert!((at(2.0) - at(1.0) - (at(1.0) - at(0.5))).abs() <= 1);
        assert_eq!(axis.format_ext(&1.0), "0 %");
        assert_eq!(axis.format_ext(&1.5), "+50 %");
        assert_eq!(axis.format_ext(&0.995), "-0.5 %");
    }

    #[test]
    fn amounts_begin_at_zero_with_round_marks() {
        let axis = Axis::from_zero(4321.0, plain);
        assert_eq!(axis.marks, [0.0, 1000.0, 2000.0, 3000.0, 4000.0, 5000.0]);
        assert_eq!((axis.low, axis.high), (0.0, 5000.0));
        for broken in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(axis.map(&broken, (0, 100)) >= 0);
            assert!(Axis::from_zero(broken, plain).high > 0.0);
        }
    }

    #[test]
    fn threads_are_marked_and_rows_go_down() {
        let axis = Axis::doubling(&[1.0, 8.0, 64.0]);
        let at = |value: f64| axis.map(&value, (0, 10_000));
        assert!((at(8.0) - at(1.0) - (at(64.0) - at(8.0))).abs() <= 1);
        let rows = Axis::span(4.0, 0.0);
        assert!(rows.map(&0.0, (400, 0)) < rows.map(&1.0, (400, 0)));
        assert_eq!(Axis::doubling(&[4.0]).map(&4.0, (0, 100)), 50);
    }
}
