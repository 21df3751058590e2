//! A forest plot: a row for each class, a mark with its interval for each series.

use maud::{Markup, html};
use plotters::chart::LabelAreaPosition;
use plotters::style::text_anchor::HPos;

use super::axis::{Axis, Bounds};
use super::fit::fit;
use super::{
    Area, ChartError, Ink, Key, Shown, frame, legend, mark, picture, px, stroke, write,
    write_heading,
};
use crate::figures::Ratio;
use crate::format::{interval, percent};

/// An overhead: a ratio with the ends of its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mark {
    pub(crate) ratio: f64,
    pub(crate) ends: Option<[f64; 2]>,
}

impl Mark {
    pub(crate) fn of(found: &impl Ratio) -> Self {
        Self { ratio: found.ratio(), ends: found.ends().map(|ends| ends.map(|(_, end)| end)) }
    }
}

/// A line of the plot, from top to bottom.
#[derive(Debug, Clone)]
pub(crate) enum Line {
    /// The name of the lines that follow.
    Heading(String),
    /// A name, and a mark for each series.
    Row(String, Vec<Option<Mark>>),
}

/// The content of a plot. Series differ in shape and colour.
#[derive(Debug, Clone)]
pub(crate) struct Forest {
    /// The accessible name of the plot.
    pub(crate) title: String,
    pub(crate) series: Vec<Key>,
    pub(crate) lines: Vec<Line>,
}

/// Positions, in pixels.
struct Layout {
    class: &'static str,
    width: i32,
    /// Left end of the plot; names are before it, or above their row if it is 0.
    left: i32,
    /// Right end of the plot; numbers are after it.
    right: i32,
    /// Minimum distance of two marks of the axis, as a part of it.
    distance: f64,
}

const WIDE: Layout =
    Layout { class: "wide-chart", width: 940, left: 230, right: 740, distance: 0.11 };
const NARROW: Layout =
    Layout { class: "narrow-chart", width: 350, left: 0, right: 350, distance: 0.17 };

const TOP: i32 = 26;
const HEADING_HEIGHT: i32 = 30;
/// Height of a line of a name.
const NAME_HEIGHT: i32 = 16;
/// Width of a number behind a name.
const NUMBER_WIDTH: i32 = 68;
/// Distance of two series of a row.
const SERIES_HEIGHT: i32 = 15;

impl Layout {
    fn names_above(&self) -> bool {
        self.left == 0
    }

    fn height(&self, forest: &Forest, line: &Line) -> i32 {
        let series = i32::try_from(forest.series.len()).unwrap_or(1).clamp(1, 20);
        match line {
            Line::Heading(_) => HEADING_HEIGHT,
            Line::Row(..) if self.names_above() => SERIES_HEIGHT * series + 26,
            Line::Row(..) => SERIES_HEIGHT * series + 10,
        }
    }
}

/// Draws the plot in two shapes, one for wide and one for narrow screens.
///
/// # Errors
/// If plotters fails.
pub(crate) fn forest(forest: &Forest) -> Result<Markup, ChartError> {
    let wide = shape(forest, &WIDE)?;
    let narrow = shape(forest, &NARROW)?;
    Ok(html! {
        figure class="forest" {
            figcaption { (legend(&forest.series)) }
            (wide) (narrow)
        }
    })
}

fn shape(forest: &Forest, layout: &Layout) -> Result<Markup, ChartError> {
    let rows: i32 = forest.lines.iter().map(|line| layout.height(forest, line)).sum();
    picture(layout.class, &forest.title, (layout.width, TOP + rows), |root| {
        draw(root, forest, layout, rows)
    })
}

fn draw(root: &Area<'_>, forest: &Forest, layout: &Layout, rows: i32) -> Result<(), ChartError> {
    let bounds: Vec<Bounds> = forest
        .lines
        .iter()
        .flat_map(|line| match line {
            Line::Row(_, marks) => marks.as_slice(),
            Line::Heading(_) => &[],
        })
        .flatten()
        .map(|mark| (mark.ratio, mark.ends))
        .collect();
    let axis = Axis::ratios(&bounds, layout.distance);
    let margin = if layout.names_above() { 16 } else { 0 };
    let free = [0, 0, layout.left + margin, layout.width - layout.right + margin];
    let ratios = Shown { axis: axis.clone(), across: true, line: true };
    let down = Shown { axis: Axis::span(f64::from(rows), 0.0), across: false, line: false };
    let chart = frame(root, free, &[(LabelAreaPosition::Top, TOP)], (ratios, down))?;
    let area = chart.plotting_area();
    let at = |ratio: f64, y: i32| area.map_coordinate(&(ratio, f64::from(y)));
    stroke(root, Ink::Text, 1.5, vec![at(1.0, 0), at(1.0, rows)])?;
    let mut top = 0;
    for line in &forest.lines {
        let height = layout.height(forest, line);
        match line {
            Line::Heading(name) => {
                let y = px(TOP + top + height - 11);
                write_heading(root, name, (0, y))?;
            }
            Line::Row(name, marks) => {
                let row = Row { layout, axis: &axis, name, top, height };
                row.write(root, forest, marks)?;
                row.draw(root, forest, marks, &at)?;
            }
        }
        top += height;
    }
    Ok(())
}

/// A row and its position, in pixels below the axis.
struct Row<'a> {
    layout: &'a Layout,
    axis: &'a Axis,
    name: &'a str,
    top: i32,
    height: i32,
}

impl Row<'_> {
    /// Returns the middle of a series' line.
    fn middle(&self, index: i32) -> i32 {
        let first = if self.layout.names_above() { 26 } else { 5 };
        self.top + first + SERIES_HEIGHT * index + SERIES_HEIGHT / 2
    }

    fn write(
        &self,
        root: &Area<'_>,
        forest: &Forest,
        marks: &[Option<Mark>],
    ) -> Result<(), ChartError> {
        let narrow = self.layout.names_above();
        let series = i32::try_from(forest.series.len()).unwrap_or(1);
        let y = if narrow { self.top + 16 } else { self.top + self.height / 2 };
        let (x, anchor) =
            if narrow { (0, HPos::Left) } else { (self.layout.left - 14, HPos::Right) };
        // Numbers of the series stand behind a name, or it has its column.
        let (room, lines) = match narrow {
            true => (self.layout.width - series * NUMBER_WIDTH, 1),
            false => (self.layout.left - 14, self.height / NAME_HEIGHT),
        };
        let names = fit(self.name, (13, room), lines);
        let first = y - NAME_HEIGHT * (i32::try_from(names.len()).unwrap_or(1) - 1) / 2;
        for (line, name) in (0..).zip(&names) {
            let y = px(TOP + first + NAME_HEIGHT * line);
            write(root, name, (Ink::Text, 13), anchor, (px(x), y))?;
        }
        if !narrow {
            let rule = px(TOP + self.top);
            stroke(root, Ink::Grid, 0.6, vec![(0, rule), (px(self.layout.width), rule)])?;
        }
        for (index, (key, found)) in (0..).zip(forest.series.iter().zip(marks)) {
            let Some(found) = found else { continue };
            let number = percent(found.ratio);
            if narrow {
                let x = px(self.layout.width - (series - 1 - index) * NUMBER_WIDTH);
                write(root, &number, (key.ink, 13), HPos::Right, (x, px(TOP + y)))?;
            } else {
                let y = px(TOP + self.middle(index));
                let (middle, right) = (self.layout.right + 72, self.layout.width);
                write(root, &number, (key.ink, 13), HPos::Right, (px(middle), y))?;
                let ends = interval(found.ends);
                write(root, &ends, (Ink::Quiet, 12), HPos::Right, (px(right), y))?;
            }
        }
        Ok(())
    }

    fn draw(
        &self,
        root: &Area<'_>,
        forest: &Forest,
        marks: &[Option<Mark>],
        at: &dyn Fn(f64, i32) -> (i32, i32),
    ) -> Result<(), ChartError> {
        for (index, (key, found)) in (0..).zip(forest.series.iter().zip(marks)) {
            let Some(found) = found else { continue };
            let y = self.middle(index);
            if let Some([low, high]) = found.ends {
                stroke(root, key.ink, 2.0, vec![at(low, y), at(high, y)])?;
                // An interval that continues beyond the plot ends in an arrow.
                for (end, length) in [(low, 6), (high, -6)] {
                    if !self.axis.holds(end) {
                        let (x, y) = at(end, y);
                        let back = |up: i32| (x + px(length), y + px(up));
                        stroke(root, key.ink, 2.0, vec![back(-4), (x, y), back(4)])?;
                    }
                }
            }
            mark(root, key.ink, at(found.ratio, y))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(low: f64, high: f64) -> Forest {
        let found = |ratio| Some(Mark { ratio, ends: Some([low, high]) });
        Forest {
            title: "Overhead <of> all".to_owned(),
            series: vec![Key::new(Ink::One, "elapsed"), Key::new(Ink::Two, "CPU")],
            lines: vec![
                Line::Heading("CRUD".to_owned()),
                Line::Row("mix & read".to_owned(), vec![found(1.031), found(1.012)]),
                Line::Row("write".to_owned(), vec![None, found(0.98)]),
            ],
        }
    }

    #[test]
    fn both_shapes_hold_names_and_numbers() {
        let page = forest(&example(0.97, 1.05)).unwrap().into_string();
        assert_eq!(page.matches("<svg").count(), 2);
        for wanted in ["mix &amp; read", "+3.1 %", "+1.2 %", "-2.0 %", "Overhead &lt;of&gt; all"] {
            assert_eq!(page.matches(wanted).count(), 2, "{wanted}");
        }
        // Only the wide shape has space for the intervals.
        assert_eq!(page.matches("-3.0 to +5.0").count(), 3);
        assert!(page.contains("■</span> <span data-fixed>CPU"), "{page}");
        // Circles for elapsed, one in each shape.
        assert_eq!(page.matches("<circle").count(), 2);
    }

    /// A statement of a script is its own name.
    #[test]
    fn long_names_stay_in_their_place() {
        let mut long = example(0.97, 1.05);
        let name = "SELECT count(*), sum(amount) FROM orders JOIN customers USING (customer) WHERE \
                    city = 'Aachen'";
        long.lines[1] = Line::Row(name.to_owned(), vec![None, None]);
        let page = forest(&long).unwrap().into_string();
        // Two lines where there is space for them, one where there is not.
        assert_eq!(page.matches("…</text>").count() + page.matches("…\n</text>").count(), 2);
        assert!(!page.contains(name) && page.contains("SELECT count(*)"), "{page}");
        assert_eq!(page.matches("<text").count(), {
            long.lines[1] = Line::Row("short".to_owned(), vec![None, None]);
            forest(&long).unwrap().into_string().matches("<text").count() + 1
        });
    }

    #[test]
    fn an_interval_beyond_the_plot_ends_in_an_arrow() {
        let strokes = |page: &str| page.matches("class=\"stroke one\"").count();
        let inside = forest(&example(0.97, 1.05)).unwrap().into_string();
        let beyond = forest(&example(0.97, 1e6)).unwrap().into_string();
        assert_eq!(strokes(&inside), 2);
        assert_eq!(strokes(&beyond), 4);
    }

    #[test]
    fn nothing_to_plot_is_still_a_picture() {
        let mut nothing = example(0.9, 1.1);
        nothing.lines.clear();
        assert!(forest(&nothing).unwrap().into_string().contains("<svg"));
    }
}
