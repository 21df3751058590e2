//! Charts, drawn by plotters when the page is made: each is inline SVG and needs no script.

mod axis;
mod bands;
mod bars;
mod fit;
mod forest;
mod lines;
mod paint;

use std::io;

use maud::{Markup, PreEscaped, html};
use plotters::chart::{ChartBuilder, ChartContext, LabelAreaPosition};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Rectangle};
use plotters::prelude::SVGBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontDesc, FontFamily, FontStyle, TextStyle};

use axis::Axis;
pub(crate) use bands::{Bands, bands};
pub(crate) use bars::{Bar, Bars, bars};
pub(crate) use forest::{Forest, Line, Mark, forest};
pub(crate) use lines::{Height, Lines, Series, lines};
pub(crate) use paint::Ink;
use paint::{UNITS, in_classes};

/// A chart that plotters refused to draw.
pub(crate) type ChartError = DrawingAreaErrorKind<io::Error>;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// An entry of a legend: the ink, whose mark has a distinct shape, and the words.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) ink: Ink,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(ink: Ink, name: &str) -> Self {
        Self { ink, name: name.to_owned() }
    }
}

/// The legend of a chart.
pub(crate) fn legend(keys: &[Key]) -> Markup {
    html! {
        @for key in keys {
            span class=(format!("key {}", key.ink.class())) {
                span aria-hidden="true" { (sign(key.ink)) } " " span data-fixed { (key.name) }
            }
            " "
        }
    }
}

/// The mark of an ink as a character.
fn sign(ink: Ink) -> &'static str {
    match ink {
        Ink::Two => "■",
        Ink::Three => "▲",
        Ink::Four => "◆",
        Ink::Plain => "○",
        _ => "●",
    }
}

/// Returns one picture of `width` by `height` pixels: an image with an accessible name.
fn picture(
    class: &str,
    title: &str,
    (width, height): (i32, i32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), ChartError>,
) -> Result<Markup, ChartError> {
    let mut out = String::new();
    let [width, height] = [width, height].map(|side| units_u32(f64::from(px(side))));
    let root = SVGBackend::with_string(&mut out, (width, height)).into_drawing_area();
    draw(&root)?;
    drop(root);
    Ok(html! {
        svg class=(format!("chart {class}")) role="img" aria-label=(title)
            viewBox=(format!("0 0 {width} {height}"))
        { (PreEscaped(in_classes(&out))) }
    })
}

/// Returns a chart with its title and legend: its pictures are of this kind, such as `bar`.
fn figure(
    kind: &str,
    (title, keys): (&str, &[Key]),
    counted: Option<&str>,
    size: (i32, i32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), ChartError>,
) -> Result<Markup, ChartError> {
    let drawn = picture(&format!("{kind}-chart"), title, size, draw)?;
    Ok(html! {
        figure class=(format!("{kind}s")) data-counted=[counted] {
            figcaption { strong data-fixed { (title) } " " (legend(keys)) }
            (drawn)
        }
    })
}

/// An axis of a frame: true for grid lines at its marks, and true for a line on the axis itself.
struct Shown {
    axis: Axis,
    across: bool,
    line: bool,
}

/// Draws the axes of a plot, with space for the words at their marks, and free pixels above, below,
/// to the left and to the right.
fn frame<'a>(
    root: &Area<'a>,
    [above, below, left, right]: [i32; 4],
    words: &[(LabelAreaPosition, i32)],
    (x, y): (Shown, Shown),
) -> Result<ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>, ChartError> {
    let mut builder = ChartBuilder::on(root);
    builder.margin_top(px(above)).margin_bottom(px(below));
    builder.margin_left(px(left)).margin_right(px(right));
    for (position, room) in words {
        builder.set_label_area_size(*position, px(*room));
    }
    let mut chart = builder.build_cartesian_2d(x.axis, y.axis)?;
    let grid = Ink::Grid.stroke_width(thick(1.0));
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(grid).axis_style(grid).label_style(words_style(Ink::Quiet, 12));
    if x.line || y.line {
        mesh.set_all_tick_mark_size(px(4));
    }
    if !x.across {
        mesh.disable_x_mesh();
    }
    if !x.line {
        mesh.disable_x_axis();
    }
    if !y.across {
        mesh.disable_y_mesh();
    }
    if !y.line {
        mesh.disable_y_axis();
    }
    mesh.draw()?;
    Ok(chart)
}

/// Pixels in plotters' units.
fn px(pixels: i32) -> i32 {
    pixels.saturating_mul(UNITS)
}

/// Width of a line in plotters' units.
fn thick(pixels: f64) -> u32 {
    units_u32(pixels * f64::from(UNITS))
}

#[allow(clippy::cast_possible_truncation, reason = "rounded; what is too large saturates")]
fn units(value: f64) -> i32 {
    value.round() as i32
}

fn units_u32(value: f64) -> u32 {
    u32::try_from(units(value)).unwrap_or(0)
}

fn words_style(ink: Ink, pixels: i32) -> TextStyle<'static> {
    // The backend divides by 1.24.
    let size = f64::from(px(pixels)) * 1.24;
    let font = FontDesc::new(FontFamily::SansSerif, size, FontStyle::Normal);
    let mut style = TextStyle::from(font);
    style.color = ink.to_backend_color();
    style
}

fn place(horizontal: HPos, vertical: VPos) -> Pos {
    Pos::new(horizontal, vertical)
}

/// Writes a heading, at a place in units.
fn write_heading(root: &Area<'_>, text: &str, at: (i32, i32)) -> Result<(), ChartError> {
    let mut style = words_style(Ink::Text, 14).pos(place(HPos::Left, VPos::Center));
    style.font = style.font.style(FontStyle::Bold);
    root.draw_text(text, &style, at)
}

/// Writes a text of this size in pixels, at a place in units.
fn write(
    root: &Area<'_>,
    text: &str,
    (ink, pixels): (Ink, i32),
    anchor: HPos,
    at: (i32, i32),
) -> Result<(), ChartError> {
    root.draw_text(text, &words_style(ink, pixels).pos(place(anchor, VPos::Center)), at)
}

/// Draws the mark of an ink, around a place in units. The plain side's is hollow.
fn mark(root: &Area<'_>, ink: Ink, at: (i32, i32)) -> Result<(), ChartError> {
    let (x, y) = at;
    let half = UNITS * 4;
    match ink {
        Ink::Two => {
            let corners = [(x - half, y - half), (x + half, y + half)];
            root.draw(&Rectangle::new(corners, ink.filled()))
        }
        Ink::Three => {
            let side = half + UNITS;
            let corners = vec![(x, y - side), (x + side, y + half), (x - side, y + half)];
            root.draw(&Polygon::new(corners, ink.filled()))
        }
        Ink::Four => {
            let far = half + UNITS * 3 / 2;
            let corners = vec![(x, y - far), (x + far, y), (x, y + far), (x - far, y)];
            root.draw(&Polygon::new(corners, ink.filled()))
        }
        Ink::Plain => {
            root.draw(&Circle::new(at, half, Ink::Paper.filled()))?;
            root.draw(&Circle::new(at, half, ink.stroke_width(thick(2.0))))
        }
        _ => root.draw(&Circle::new(at, half + UNITS / 2, ink.filled())),
    }
}

/// Draws a line between places in units.
fn stroke(
    root: &Area<'_>,
    ink: Ink,
    pixels: f64,
    points: Vec<(i32, i32)>,
) -> Result<(), ChartError> {
    root.draw(&PathElement::new(points, ink.stroke_width(thick(pixels))))
}
