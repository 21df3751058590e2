//! Where plotters draws to: SVG elements that name their colour by class. So one chart serves
//! light and dark paper and print, and the style sheet alone knows the colours.

use std::fmt::{self, Write};

use maud::html;
use plotters::style::Color;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontStyle,
};

/// plotters counts in whole units; one of them is this part of a CSS pixel.
pub(super) const UNITS: i32 = 10;

/// The role of a stroke or a text. Each is a class of the style sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Text,
    Quiet,
    Grid,
    Paper,
    /// The plain side.
    Plain,
    One,
    Two,
    Three,
    Four,
}

impl Ink {
    /// Those of the sides beside the plain one. A run with more shows the rest in the tables.
    pub(crate) const SIDES: [Self; 4] = [Self::One, Self::Two, Self::Three, Self::Four];

    /// Its class in the style sheet.
    pub(crate) fn class(self) -> &'static str {
        CLASSES[self as usize]
    }
}

/// Classes of the inks, in their order.
const CLASSES: [&str; 9] =
    ["text", "quiet", "grid", "paper", "plain", "one", "two", "three", "four"];

/// plotters carries the place in [`CLASSES`] where it would carry a colour.
impl Color for Ink {
    fn to_backend_color(&self) -> BackendColor {
        BackendColor { alpha: 1.0, rgb: (0, 0, *self as u8) }
    }
}

/// The class of the ink that plotters carried.
fn class(color: BackendColor) -> &'static str {
    CLASSES.get(usize::from(color.rgb.2)).unwrap_or(&CLASSES[0])
}

/// Appends SVG elements to a text.
pub(super) struct Paint<'a> {
    pub(super) out: &'a mut String,
    /// Width and height, in units.
    pub(super) size: (u32, u32),
}

type Drawn = Result<(), DrawingErrorKind<fmt::Error>>;

impl Paint<'_> {
    fn put(&mut self, element: fmt::Arguments<'_>) -> Drawn {
        self.out.write_fmt(element).map_err(DrawingErrorKind::DrawingError)
    }

    fn shape<S: BackendStyle>(&mut self, style: &S, fill: bool, shape: &str) -> Drawn {
        let color = style.color();
        if color.alpha == 0.0 {
            return Ok(());
        }
        let ink = class(color);
        if fill {
            self.put(format_args!("<{shape} class=\"fill {ink}\"/>"))
        } else {
            let width = Pixels(i32::try_from(style.stroke_width()).unwrap_or(UNITS));
            self.put(format_args!("<{shape} class=\"stroke {ink}\" stroke-width=\"{width}\"/>"))
        }
    }
}

/// Units as pixels.
struct Pixels(i32);

impl fmt::Display for Pixels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 % UNITS == 0 {
            write!(f, "{}", self.0 / UNITS)
        } else {
            write!(f, "{:.1}", f64::from(self.0) / f64::from(UNITS))
        }
    }
}

fn path<I: IntoIterator<Item = BackendCoord>>(points: I, closed: bool) -> String {
    let mut data = String::new();
    for (index, (x, y)) in points.into_iter().enumerate() {
        data.push(if index == 0 { 'M' } else { 'L' });
        data.push_str(&format!("{} {}", Pixels(x), Pixels(y)));
    }
    if closed {
        data.push('Z');
    }
    format!("path d=\"{data}\"")
}

impl DrawingBackend for Paint<'_> {
    type ErrorType = fmt::Error;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn {
        let corner = (point.0 + UNITS, point.1 + UNITS);
        self.draw_rect(point, corner, &color, true)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        self.shape(style, false, &path([from, to], false))
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let (left, top) = upper_left;
        let (right, bottom) = bottom_right;
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
        self.shape(style, fill, &path(corners, true))
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        points: I,
        style: &S,
    ) -> Drawn {
        self.shape(style, false, &path(points, false))
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let radius = Pixels(i32::try_from(radius).unwrap_or(0));
        let (x, y) = (Pixels(center.0), Pixels(center.1));
        self.shape(style, fill, &format!("circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\""))
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        points: I,
        style: &S,
    ) -> Drawn {
        self.shape(style, true, &path(points, true))
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, at: BackendCoord) -> Drawn {
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        let down = match style.anchor().v_pos {
            VPos::Top => ".8em",
            VPos::Center => ".35em",
            VPos::Bottom => "0",
        };
        let ink = class(style.color());
        let size = style.size() / f64::from(UNITS);
        let weight = match style.style() {
            FontStyle::Bold => " font-weight=\"650\"",
            _ => "",
        };
        let escaped = html! { (text) }.into_string();
        self.put(format_args!(
            "<text class=\"fill {ink}\" x=\"{}\" y=\"{}\" dy=\"{down}\" text-anchor=\"{anchor}\" \
             font-size=\"{size}\"{weight}>{escaped}</text>",
            Pixels(at.0),
            Pixels(at.1)
        ))
    }

    /// The width of an average letter is about half of the font's size.
    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<fmt::Error>> {
        let letters = f64::from(u32::try_from(text.chars().count()).unwrap_or(u32::MAX));
        Ok((super::units_u32(letters * style.size() * 0.52), super::units_u32(style.size())))
    }
}

#[cfg(test)]
mod tests {
    use plotters::prelude::{Circle, IntoDrawingArea, PathElement};

    use super::*;
    use crate::plot::{place, words_style};

    #[test]
    fn elements_name_their_ink_and_count_in_pixels() {
        let mut out = String::new();
        let root = Paint { out: &mut out, size: (1000, 500) }.into_drawing_area();
        root.draw(&PathElement::new(vec![(5, 10), (995, 400)], Ink::Two.stroke_width(15))).unwrap();
        root.draw(&Circle::new((100, 200), 45, Ink::Four.filled())).unwrap();
        let style = words_style(Ink::Quiet, 12).pos(place(HPos::Right, VPos::Center));
        root.draw_text("a < b", &style, (300, 400)).unwrap();
        drop(root);
        assert_eq!(
            out,
            "<path d=\"M0.5 1L99.5 40\" class=\"stroke two\" stroke-width=\"1.5\"/>\
             <circle cx=\"10\" cy=\"20\" r=\"4.5\" class=\"fill four\"/>\
             <text class=\"fill quiet\" x=\"30\" y=\"40\" dy=\".35em\" text-anchor=\"end\" \
             font-size=\"12\">a &lt; b</text>"
        );
    }

    #[test]
    fn every_ink_comes_back_from_plotters() {
        for (ink, name) in [(Ink::Text, "text"), (Ink::Plain, "plain"), (Ink::Four, "four")] {
            assert_eq!((class(ink.to_rgba().to_backend_color()), ink.class()), (name, name));
        }
    }
}
