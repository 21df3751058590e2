//! The colours of a chart. plotters writes SVG with a colour for each ink; the picture then
//! replaces them by classes, so one chart serves light and dark paper and print, and only the style
//! sheet defines colours.

use plotters::style::Color;
use plotters_backend::BackendColor;

/// plotters uses whole units; this many are a CSS pixel.
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
    /// Inks of the sides beside the plain one. If a run has more, the rest is only in the tables.
    pub(crate) const SIDES: [Self; 4] = [Self::One, Self::Two, Self::Three, Self::Four];

    /// Returns its class in the style sheet.
    pub(crate) fn class(self) -> &'static str {
        CLASSES[self as usize]
    }
}

/// Classes of the inks, in their order.
const CLASSES: [&str; 9] =
    ["text", "quiet", "grid", "paper", "plain", "one", "two", "three", "four"];

/// plotters carries the index in [`CLASSES`] in place of a colour.
impl Color for Ink {
    fn to_backend_color(&self) -> BackendColor {
        BackendColor { alpha: 1.0, rgb: (0, 0, *self as u8) }
    }
}

/// Returns the elements of a picture, without the `svg` around them, with classes in place of
/// colours.
pub(super) fn in_classes(svg: &str) -> String {
    let (_, inside) = svg.split_once('>').unwrap_or_default();
    let inside = inside.trim_end().trim_end_matches("</svg>");
    let mut inside = inside.replace('\n', "").replace(" font-family=\"sans-serif\"", "");
    inside = inside.replace(" opacity=\"1\"", "");
    for (number, class) in CLASSES.iter().enumerate() {
        for kind in ["fill", "stroke"] {
            let colour = format!("{kind}=\"#0000{number:02X}\"");
            inside = inside.replace(&colour, &format!("class=\"{kind} {class}\""));
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use plotters::prelude::{Circle, IntoDrawingArea, PathElement, SVGBackend};
    use plotters::style::text_anchor::{HPos, VPos};

    use super::*;
    use crate::plot::{place, words_style};

    #[test]
    fn elements_name_their_ink_by_class() {
        let mut out = String::new();
        let root = SVGBackend::with_string(&mut out, (1000, 500)).into_drawing_area();
        root.draw(&PathElement::new(vec![(5, 10), (995, 400)], Ink::Two.stroke_width(15))).unwrap();
        root.draw(&Circle::new((100, 200), 45, Ink::Four.filled())).unwrap();
        let style = words_style(Ink::Quiet, 12).pos(place(HPos::Right, VPos::Center));
        root.draw_text("a < b", &style, (300, 400)).unwrap();
        drop(root);
        let found = in_classes(&out);
        for wanted in [
            "class=\"stroke two\" stroke-width=\"15\"",
            "cx=\"100\" cy=\"200\" r=\"45\" class=\"fill four\"",
            "class=\"fill quiet\">a &lt; b</text>",
        ] {
            assert!(found.contains(wanted), "{found}");
        }
        assert!(!found.contains('#') && !found.contains("svg"), "{found}");
    }
}
