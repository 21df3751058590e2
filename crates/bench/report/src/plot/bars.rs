//! Horizontal bars from zero, one below the other, each with its name above and its amount after
//! it.

use maud::Markup;
use plotters::chart::LabelAreaPosition;
use plotters::element::Rectangle;
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::{Area, ChartError, Ink, Shown, figure, frame, px, stroke, write};

/// A bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) ink: Ink,
    pub(crate) value: f64,
    /// Ends of its interval.
    pub(crate) ends: Option<[f64; 2]>,
}

/// The content of a plot.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    /// Shown above the plot, and its accessible name.
    pub(crate) title: String,
    /// Formats an amount.
    pub(crate) words: fn(f64) -> String,
    pub(crate) bars: Vec<Bar>,
}

const WIDTH: i32 = 384;
const ROW_HEIGHT: i32 = 38;
const STEP: usize = 38;
const TOP: i32 = 24;
/// Space for the longest bar's amount.
const BEHIND: i32 = 74;

/// Draws the plot.
///
/// # Errors
/// If plotters fails.
pub(crate) fn bars(bars: &Bars) -> Result<Markup, ChartError> {
    let rows = i32::try_from(bars.bars.len()).unwrap_or(0).saturating_mul(ROW_HEIGHT);
    figure("bar", (&bars.title, &[]), None, (WIDTH, TOP + rows), |root| draw(root, bars, rows))
}

fn draw(root: &Area<'_>, bars: &Bars, rows: i32) -> Result<(), ChartError> {
    let reach = |bar: &Bar| bar.ends.map_or(bar.value, |[_, high]| high.max(bar.value));
    let most = bars.bars.iter().map(reach).fold(0.0, f64::max);
    let amounts = Shown { axis: Axis::from_zero(most, bars.words), across: true, line: false };
    let rows = Shown { axis: Axis::span(f64::from(rows), 0.0), across: false, line: false };
    let words = [(LabelAreaPosition::Top, TOP)];
    let chart = frame(root, [0, 0, 2, BEHIND], &words, (amounts, rows))?;
    let area = chart.plotting_area();
    for (top, bar) in (0..).step_by(STEP).zip(&bars.bars) {
        let at = |value: f64, y: i32| area.map_coordinate(&(value, f64::from(top + y)));
        let corners = [at(0.0, 20), at(bar.value, 34)];
        root.draw(&Rectangle::new(corners, bar.ink.filled()))?;
        if let Some(ends) = bar.ends {
            stroke(root, Ink::Text, 1.5, ends.map(|end| at(end, 27)).to_vec())?;
        }
        write(root, &bar.name, (Ink::Text, 13), HPos::Left, at(0.0, 11))?;
        let (x, y) = at(reach(bar), 27);
        write(root, &(bars.words)(bar.value), (bar.ink, 13), HPos::Left, (x + px(6), y))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::holds;

    #[test]
    fn bars_begin_at_zero_and_hold_their_amounts() {
        let bar =
            |name: &str, value, ends| Bar { name: name.to_owned(), ink: Ink::One, value, ends };
        let plot = Bars {
            title: "Switches".to_owned(),
            words: |value| format!("{value:.1}"),
            bars: vec![bar("there", 10.0, None), bar("here", 5.0, Some([4.0, 6.0]))],
        };
        let page = bars(&plot).unwrap().into_string();
        holds(&page, [">there<", ">here<", ">10.0<", ">5.0<"]);
        let ends: Vec<f64> = page
            .split("<rect x=\"20\"")
            .filter_map(|rect| rect.split_once("width=\"")?.1.split_once('"')?.0.parse().ok())
            .skip(1)
            .collect();
        assert_eq!(ends.len(), 2, "{page}");
        assert!((ends[0] / ends[1] - 2.0).abs() < 0.02, "{ends:?}");
    }
}
