//! Lines over a number that doubles, such as threads: a line with its own mark for each series.

use maud::Markup;
use plotters::chart::LabelAreaPosition;
use plotters::series::LineSeries;
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::{Area, ChartError, Ink, Key, Shown, figure, frame, mark, px, thick, write};

/// The points of one side, from left to right.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) key: Key,
    /// Position of each, above 0, and the amount, in the unit of [`Height`].
    pub(crate) points: Vec<(f64, f64)>,
    /// True if there are values between the points.
    pub(crate) joined: bool,
}

/// The quantity of a plot.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Height {
    /// Amounts from 0, so that heights are comparable, with their format on the left axis.
    Amount(fn(f64) -> String),
    /// Ratios, as overheads in percent.
    Ratio,
}

/// The content of a plot.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    /// Shown above the plot, and its accessible name.
    pub(crate) title: String,
    /// Title of the lower axis.
    pub(crate) across: String,
    pub(crate) height: Height,
    pub(crate) series: Vec<Series>,
}

const WIDTH: i32 = 384;
const HEIGHT: i32 = 250;

/// Draws the plot.
///
/// # Errors
/// If plotters fails.
pub(crate) fn lines(lines: &Lines) -> Result<Markup, ChartError> {
    let keys: Vec<Key> = lines.series.iter().map(|series| series.key.clone()).collect();
    figure("line", (&lines.title, &keys), None, (WIDTH, HEIGHT), |root| draw(root, lines))
}

fn draw(root: &Area<'_>, lines: &Lines) -> Result<(), ChartError> {
    let all = || lines.series.iter().flat_map(|series| &series.points);
    let mut steps: Vec<f64> = all().map(|(x, _)| *x).collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    let heights = match lines.height {
        Height::Amount(words) => Axis::from_zero(all().map(|(_, y)| *y).fold(0.0, f64::max), words),
        Height::Ratio => Axis::ratios(&all().map(|(_, y)| (*y, None)).collect::<Vec<_>>(), 0.12),
    };
    let steps = Shown { axis: Axis::doubling(&steps), across: false, line: true };
    let amounts = Shown { axis: heights, across: true, line: true };
    let words = [(LabelAreaPosition::Left, 60), (LabelAreaPosition::Bottom, 42)];
    let mut chart = frame(root, [10, 0, 0, 12], &words, (steps, amounts))?;
    let title = (px(WIDTH / 2 + 25), px(HEIGHT - 9));
    write(root, &lines.across, (Ink::Quiet, 12), HPos::Center, title)?;
    for series in lines.series.iter().filter(|series| series.joined) {
        let points = series.points.iter().copied();
        chart.draw_series(LineSeries::new(points, series.key.ink.stroke_width(thick(2.0))))?;
    }
    for series in &lines.series {
        for point in &series.points {
            mark(root, series.key.ink, chart.plotting_area().map_coordinate(point))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::holds;

    fn whole(value: f64) -> String {
        format!("{value:.0}/s")
    }

    #[test]
    fn each_series_has_a_line_and_marks_of_its_own() {
        let series = |ink, name: &str, scale: f64| Series {
            key: Key::new(ink, name),
            points: [1.0, 8.0, 64.0].map(|x| (x, x * scale)).to_vec(),
            joined: true,
        };
        let plot = Lines {
            title: "Transactions".to_owned(),
            across: "threads".to_owned(),
            height: Height::Amount(whole),
            series: vec![series(Ink::Plain, "plain", 10.0), series(Ink::Two, "tdekit", 9.0)],
        };
        let page = lines(&plot).unwrap().into_string();
        // A hollow mark is a disc of paper under a ring.
        assert_eq!(page.matches("<circle").count(), 6);
        assert_eq!(page.matches("<rect ").count(), 3);
        holds(&page, ["threads", ">64<", ">600/s<", "○</span>", "■</span>", ">tdekit<"]);
    }

    #[test]
    fn ratios_are_overheads_and_words_are_marks_alone() {
        let series = |ink, joined, points: [(f64, f64); 2]| Series {
            key: Key::new(ink, "x"),
            points: points.to_vec(),
            joined,
        };
        let plot = Lines {
            title: "Throughput".to_owned(),
            across: "threads".to_owned(),
            height: Height::Ratio,
            series: vec![
                series(Ink::Plain, false, [(1.0, 0.8), (256.0, 0.95)]),
                series(Ink::One, true, [(1.0, 0.9), (8.0, 1.02)]),
            ],
        };
        let page = lines(&plot).unwrap().into_string();
        holds(&page, [">-20 %<", ">0 %<", ">256<"]);
        // Rings of the hollow marks, and one line.
        assert_eq!(page.matches("stroke plain").count(), 2);
        assert_eq!(page.matches("stroke one").count(), 1);
    }
}
