//! The intervals of many runs side by side, from the lowest ratio to the highest, with a line at
//! the truth: those that miss it stand out.

use maud::Markup;
use plotters::chart::LabelAreaPosition;
use plotters::element::Circle;
use plotters::style::Color;

use super::axis::{Axis, Bounds};
use super::{Area, ChartError, Ink, Key, Mark, Shown, figure, frame, mark, px, stroke};

/// The content of a plot.
#[derive(Debug, Clone)]
pub(crate) struct Bands {
    /// Shown above the plot, and its accessible name.
    pub(crate) title: String,
    /// The true ratio.
    pub(crate) truth: f64,
    /// Place in the document of the count of those that hold the truth.
    pub(crate) counted: String,
    /// One for each run.
    pub(crate) bands: Vec<Mark>,
}

const WIDTH: i32 = 384;
const HEIGHT: i32 = 250;
/// Minimum distance of two marks of the axis, as a part of it.
const DISTANCE: f64 = 0.11;

/// Draws the plot.
///
/// # Errors
/// If plotters fails.
pub(crate) fn bands(bands: &Bands) -> Result<Markup, ChartError> {
    let keys = [Key::new(Ink::One, "holds the truth"), Key::new(Ink::Two, "does not")];
    let (title, counted) = ((bands.title.as_str(), &keys[..]), Some(bands.counted.as_str()));
    figure("band", title, counted, (WIDTH, HEIGHT), |root| draw(root, bands))
}

fn draw(root: &Area<'_>, bands: &Bands) -> Result<(), ChartError> {
    let mut sorted = bands.bands.clone();
    sorted.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
    let bounds: Vec<Bounds> = sorted.iter().map(|band| (band.ratio, band.ends)).collect();
    let count = f64::from(u32::try_from(sorted.len()).unwrap_or(u32::MAX));
    let places = Shown { axis: Axis::span(0.0, count.max(1.0)), across: false, line: false };
    let ratios = Shown { axis: Axis::ratios(&bounds, DISTANCE), across: true, line: true };
    let words = [(LabelAreaPosition::Left, 60)];
    let chart = frame(root, [10, 10, 0, 8], &words, (places, ratios))?;
    let area = chart.plotting_area();
    for (place, band) in (0_u32..).zip(&sorted) {
        let at = |ratio: f64| area.map_coordinate(&(f64::from(place) + 0.5, ratio));
        let Some([low, high]) = band.ends else { continue };
        let holds = (low..=high).contains(&bands.truth);
        let ink = if holds { Ink::One } else { Ink::Two };
        stroke(root, ink, if holds { 1.0 } else { 2.0 }, vec![at(low), at(high)])?;
        if holds {
            root.draw(&Circle::new(at(band.ratio), px(1), ink.filled()))?;
        } else {
            mark(root, ink, at(band.ratio))?;
        }
    }
    let across = |place: f64| area.map_coordinate(&(place, bands.truth));
    stroke(root, Ink::Text, 1.5, vec![across(0.0), across(count)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::holds;

    #[test]
    fn those_that_miss_the_truth_differ() {
        let band = |ratio: f64| Mark { ratio, ends: Some([ratio - 0.01, ratio + 0.01]) };
        let plot = Bands {
            title: "Elapsed time".to_owned(),
            truth: 1.0,
            counted: "rows/0".to_owned(),
            bands: [1.005, 1.02, 0.995, 0.97].map(band).to_vec(),
        };
        let page = bands(&plot).unwrap().into_string();
        assert_eq!(page.matches("class=\"stroke one\"").count(), 2, "{page}");
        assert_eq!(page.matches("class=\"stroke two\"").count(), 2, "{page}");
        assert_eq!(page.matches("class=\"fill two\"").count(), 2, "{page}");
        holds(&page, [">0 %<", "does not", "data-counted=\"rows/0\""]);
    }

    #[test]
    fn nothing_to_plot_is_still_a_picture() {
        let plot = Bands {
            title: "None".to_owned(),
            truth: 1.03,
            counted: String::new(),
            bands: Vec::new(),
        };
        assert!(bands(&plot).unwrap().into_string().contains("<svg"));
    }
}
