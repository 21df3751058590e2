//! A forest plot as inline SVG: one row a class, elapsed and CPU with their intervals.

use maud::{Markup, html};

use crate::format::{interval, percent};
use crate::model::Comparison;

const WIDTH: f64 = 760.0;
const LABEL_WIDTH: f64 = 220.0;
const RIGHT_MARGIN: f64 = 36.0;
const ROW_HEIGHT: f64 = 34.0;
const TOP: f64 = 30.0;
/// Distance of the two markers of a row from its middle.
const OFFSET: f64 = 6.0;

/// One row: a name, elapsed and CPU overhead.
pub(crate) struct Row<'a> {
    pub(crate) label: String,
    pub(crate) elapsed: Option<&'a Comparison>,
    pub(crate) cpu: Option<&'a Comparison>,
}

/// Overheads that may be marked, in percent.
const MARKS: [f64; 27] = [
    -99.0, -90.0, -75.0, -50.0, -30.0, -20.0, -15.0, -10.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0,
    2.0, 3.0, 4.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 400.0, 900.0, 1900.0,
];
/// Least distance of two marks.
const MARK_DISTANCE: f64 = 52.0;

/// The logarithms of the ratios shown at the left and right end. Equal distances are equal
/// factors, as the ratios are estimated.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// Covers 0 %, every ratio and, as far as they do not dwarf the ratios, the intervals.
    fn over(rows: &[Row<'_>]) -> Self {
        let all: Vec<&Comparison> =
            rows.iter().flat_map(|row| [row.elapsed, row.cpu]).flatten().collect();
        let mut low = 0.0_f64;
        let mut high = 0.0_f64;
        for found in &all {
            low = low.min(found.ratio.ln());
            high = high.max(found.ratio.ln());
        }
        let reach = ((high - low) * 0.75).max(0.02);
        let (least, most) = (low - reach, high + reach);
        for found in &all {
            low = low.min(found.low.map_or(low, |end| end.ln().max(least)));
            high = high.max(found.high.map_or(high, |end| end.ln().min(most)));
        }
        let margin = ((high - low) * 0.03).max(0.002);
        Self { low: low - margin, high: high + margin }
    }

    fn x(&self, ratio: f64) -> f64 {
        let share = (ratio.ln() - self.low) / (self.high - self.low).max(f64::MIN_POSITIVE);
        LABEL_WIDTH + share.clamp(0.0, 1.0) * (WIDTH - LABEL_WIDTH - RIGHT_MARGIN)
    }

    /// Overheads in percent that are marked: 0 %, then to either side what has room.
    fn marks(&self) -> Vec<f64> {
        let mut marks = vec![0.0];
        let zero = self.x(1.0);
        let shown = |mark: &f64| {
            let log = (1.0 + mark / 100.0).ln();
            log >= self.low && log <= self.high
        };
        for right in [true, false] {
            let mut last = zero;
            let side: Vec<f64> = MARKS
                .into_iter()
                .filter(|mark| if right { *mark > 0.0 } else { *mark < 0.0 })
                .filter(shown)
                .collect();
            let ordered: Box<dyn Iterator<Item = f64>> =
                if right { Box::new(side.into_iter()) } else { Box::new(side.into_iter().rev()) };
            for mark in ordered {
                let x = self.x(1.0 + mark / 100.0);
                if (x - last).abs() >= MARK_DISTANCE {
                    marks.push(mark);
                    last = x;
                }
            }
        }
        marks
    }
}

/// The plot. `title` names it for those who do not see it; its numbers stand in each row's title.
pub(crate) fn forest(title: &str, rows: &[Row<'_>]) -> Markup {
    let axis = Axis::over(rows);
    let height = TOP + ROW_HEIGHT * index_f64(rows.len()) + 8.0;
    let zero = axis.x(1.0);
    html! {
        svg class="forest" role="img" aria-label=(title) viewBox=(format!("0 0 {WIDTH} {height}")) {
            title { (title) }
            @for mark in axis.marks() {
                @let x = n(axis.x(1.0 + mark / 100.0));
                line class="grid" x1=(x) x2=(x) y1=(TOP) y2=(height) {}
                text class="tick" x=(x) y=(TOP - 10.0) text-anchor="middle" {
                    (if mark == 0.0 { "0 %".to_owned() } else { format!("{mark:+.0} %") })
                }
            }
            line class="zero" x1=(n(zero)) x2=(n(zero)) y1=(TOP) y2=(height) {}
            @for (index, row) in rows.iter().enumerate() {
                @let middle = TOP + ROW_HEIGHT * (index_f64(index) + 0.5);
                text class="label" x=(LABEL_WIDTH - 12.0) y=(n(middle + 4.0)) text-anchor="end" {
                    (row.label)
                }
                @if let Some(found) = row.elapsed {
                    g class="elapsed" {
                        title { (row.label) ", elapsed: " (words(found)) }
                        (whisker(&axis, found, middle - OFFSET))
                        circle cx=(n(axis.x(found.ratio))) cy=(n(middle - OFFSET)) r="4.5" {}
                    }
                }
                @if let Some(found) = row.cpu {
                    g class="cpu" {
                        title { (row.label) ", CPU: " (words(found)) }
                        (whisker(&axis, found, middle + OFFSET))
                        rect x=(n(axis.x(found.ratio) - 4.0)) y=(n(middle + OFFSET - 4.0))
                            width="8" height="8" {}
                    }
                }
            }
        }
    }
}

fn whisker(axis: &Axis, found: &Comparison, y: f64) -> Markup {
    html! {
        @if let (Some(low), Some(high)) = (found.low, found.high) {
            line class="whisker" x1=(n(axis.x(low)))
                x2=(n(axis.x(high))) y1=(n(y)) y2=(n(y)) {}
        }
    }
}

fn words(found: &Comparison) -> String {
    format!("{} ({})", percent(found.ratio), interval(found.low, found.high))
}

fn n(value: f64) -> String {
    format!("{value:.1}")
}

fn index_f64(index: usize) -> f64 {
    f64::from(u32::try_from(index).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(ratio: f64, low: f64, high: f64) -> Axis {
        let results = crate::json::tests::example();
        let mut found = results.summary.comparisons[0].clone();
        (found.ratio, found.low, found.high) = (ratio, Some(low), Some(high));
        Axis::over(&[Row { label: "mix".to_owned(), elapsed: Some(&found), cpu: None }])
    }

    #[test]
    fn marks_fit_the_range() {
        assert!(axis(1.03, 1.01, 1.05).marks().len() >= 3);
        let wide = axis(8.0, 0.5, 20.0);
        let marks = wide.marks();
        assert!(marks.contains(&0.0) && marks.iter().any(|mark| *mark >= 400.0), "{marks:?}");
        let mut places: Vec<f64> = marks.iter().map(|mark| wide.x(1.0 + mark / 100.0)).collect();
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= MARK_DISTANCE));
    }

    #[test]
    fn a_huge_interval_does_not_dwarf_the_ratios() {
        let axis = axis(1.1, 0.01, 90.0);
        assert!(axis.high < 0.25 && axis.low > -0.1, "{} {}", axis.low, axis.high);
        assert!(axis.x(1e9) <= WIDTH - RIGHT_MARGIN);
        assert!(axis.x(1e-9) >= LABEL_WIDTH);
    }
}
