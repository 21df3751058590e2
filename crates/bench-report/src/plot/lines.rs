//! Lines over a number that doubles, such as threads: a line and a mark of its own for each series.

use maud::{Markup, html};
use plotters::chart::{ChartBuilder, LabelAreaPosition};
use plotters::series::LineSeries;
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::{Area, ChartError, Ink, Key, legend, mark, picture, px, thick, words_style, write};

/// The points of one side, from left to right.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) key: Key,
    /// Where each stands, above 0, and the amount, in the unit that [`Lines::words`] takes.
    pub(crate) points: Vec<(f64, f64)>,
}

/// The content of a plot.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    /// Shown above, and names the plot for those who do not see it.
    pub(crate) title: String,
    /// Title of the lower axis.
    pub(crate) across: String,
    /// How an amount is written on the left axis.
    pub(crate) words: fn(f64) -> String,
    pub(crate) series: Vec<Series>,
}

const WIDTH: i32 = 384;
const HEIGHT: i32 = 250;

/// The plot. Amounts begin at 0, so that heights compare.
///
/// # Errors
/// When plotters fails.
pub(crate) fn lines(lines: &Lines) -> Result<Markup, ChartError> {
    let keys: Vec<Key> = lines.series.iter().map(|series| series.key.clone()).collect();
    let drawn = picture("line-chart", &lines.title, (WIDTH, HEIGHT), |root| draw(root, lines))?;
    Ok(html! {
        figure class="lines" {
            figcaption { strong data-fixed { (lines.title) } " " (legend(&keys)) }
            (drawn)
        }
    })
}

fn draw(root: &Area<'_>, lines: &Lines) -> Result<(), ChartError> {
    let all = || lines.series.iter().flat_map(|series| &series.points);
    let mut steps: Vec<f64> = all().map(|(x, _)| *x).collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    let most = all().map(|(_, y)| *y).fold(0.0, f64::max);
    let tall = Axis::from_zero(most, lines.words);
    let mut chart = ChartBuilder::on(root)
        .margin_top(px(10))
        .margin_right(px(12))
        .set_label_area_size(LabelAreaPosition::Left, px(60))
        .set_label_area_size(LabelAreaPosition::Bottom, px(42))
        .build_cartesian_2d(Axis::doubling(&steps), tall)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .axis_style(Ink::Grid.stroke_width(thick(1.0)))
        .bold_line_style(Ink::Grid.stroke_width(thick(1.0)))
        .label_style(words_style(Ink::Quiet, 12))
        .set_all_tick_mark_size(px(4))
        .draw()?;
    write(
        root,
        &lines.across,
        (Ink::Quiet, 12),
        HPos::Center,
        (px(WIDTH / 2 + 25), px(HEIGHT - 9)),
    )?;
    for series in &lines.series {
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
        };
        let plot = Lines {
            title: "Transactions".to_owned(),
            across: "threads".to_owned(),
            words: whole,
            series: vec![series(Ink::Plain, "plain", 10.0), series(Ink::Two, "tdekit", 9.0)],
        };
        let page = lines(&plot).unwrap().into_string();
        // A hollow mark is a disc of paper under a ring.
        assert_eq!(page.matches("<circle").count(), 6);
        assert_eq!(page.matches("Z\" class=\"fill two\"").count(), 3);
        holds(&page, ["threads", ">64<", ">600/s<", "○</span>", "■</span>", ">tdekit<"]);
    }
}
