//! Numbers by custom patterns: `#,##0.00;(#,##0.00);-`.

use super::number::Number;
use super::{Formatted, Refused};

/// A part of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// 0, or # without `true`.
    Digit(bool),
    Point,
    Comma,
    /// % and ‰, which also scale.
    Sign(char),
    Literal(char),
    /// The letter, true with `+`, the least number of digits.
    Exponent(char, bool, usize),
}

/// The layout of the digits of a section.
#[derive(Debug, Default)]
struct Layout {
    digits: i32,
    /// Number of digits before the point.
    point: i32,
    /// Where the first and the last 0 are.
    first: Option<i32>,
    last: i32,
    scale: i32,
    groups: bool,
    scientific: bool,
}

/// # Errors
/// For a pattern that ends within a quotation.
pub(super) fn format(number: Number, pattern: &str) -> Formatted {
    let sections = sections(pattern)?;
    let section = |at: usize| if sections.get(at).is_some_and(|s| !s.is_empty()) { at } else { 0 };
    let mut chosen = match (number.is_zero(), number.negative) {
        (true, _) => section(2),
        (false, true) => section(1),
        (false, false) => 0,
    };
    loop {
        let pieces: &[Piece] = sections.get(chosen).map_or(&[], Vec::as_slice);
        let layout = layout(pieces);
        let mut shown = number.clone();
        if shown.is_zero() {
            shown.round(0);
        } else {
            shown.point += layout.scale;
            shown.round(match layout.scientific {
                true => layout.digits,
                false => shown.point + layout.digits - layout.point,
            });
            if shown.is_zero() && section(2) != chosen {
                chosen = section(2);
                continue;
            }
        }
        return Ok(write(&shown, pieces, &layout, chosen == 0));
    }
}

fn sections(pattern: &str) -> Result<Vec<Vec<Piece>>, Refused> {
    let mut sections = vec![Vec::new()];
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let piece = match c {
            ';' => {
                sections.push(Vec::new());
                continue;
            }
            '0' | '#' => Piece::Digit(c == '0'),
            '.' => Piece::Point,
            ',' => Piece::Comma,
            '%' | '‰' => Piece::Sign(c),
            '\'' | '"' => {
                let section = sections.last_mut().ok_or(Refused)?;
                section.extend(chars.by_ref().take_while(|part| *part != c).map(Piece::Literal));
                continue;
            }
            '\\' => match chars.next() {
                Some(c) => Piece::Literal(c),
                None => continue,
            },
            'E' | 'e' => {
                let mut ahead = chars.clone();
                let sign = ahead.next_if(|c| matches!(c, '+' | '-'));
                let mut zeros = 0;
                while ahead.next_if_eq(&'0').is_some() {
                    zeros += 1;
                }
                if zeros == 0 {
                    Piece::Literal(c)
                } else {
                    chars = ahead;
                    Piece::Exponent(c, sign == Some('+'), zeros)
                }
            }
            c => Piece::Literal(c),
        };
        sections.last_mut().ok_or(Refused)?.push(piece);
    }
    Ok(sections)
}

fn layout(pieces: &[Piece]) -> Layout {
    let mut layout = Layout::default();
    let mut point: Option<i32> = None;
    // where the last commas stand, and how many
    let mut commas: Option<(i32, i32)> = None;
    for piece in pieces {
        match piece {
            Piece::Digit(zero) => {
                if *zero {
                    layout.first.get_or_insert(layout.digits);
                    layout.last = layout.digits + 1;
                }
                layout.digits += 1;
            }
            Piece::Point => point = point.or(Some(layout.digits)),
            Piece::Comma if layout.digits > 0 && point.is_none() => {
                commas = Some(match commas {
                    Some((at, count)) if at == layout.digits => (at, count + 1),
                    other => {
                        layout.groups |= other.is_some();
                        (layout.digits, 1)
                    }
                });
            }
            Piece::Sign(sign) => layout.scale += if *sign == '%' { 2 } else { 3 },
            Piece::Exponent(..) => layout.scientific = true,
            Piece::Comma | Piece::Literal(_) => {}
        }
    }
    layout.point = point.unwrap_or(layout.digits);
    if let Some((at, count)) = commas {
        if at == layout.point {
            layout.scale -= 3 * count;
        } else {
            layout.groups = true;
        }
    }
    layout
}

fn write(number: &Number, pieces: &[Piece], layout: &Layout, signed: bool) -> String {
    // zeros stand from this place before the point to that place behind it
    let first = layout.first.map_or(0, |first| (layout.point - first).max(0));
    let last = (layout.point - layout.last).min(0);
    let (mut place, mut surplus) = match layout.scientific {
        true => (layout.point, 0),
        false => (number.point.max(layout.point), number.point - layout.point),
    };
    let mut digits = number.digits.iter().map(|digit| char::from(*digit)).peekable();
    let mut text = String::new();
    if signed && number.negative {
        text.push('-');
    }
    let mut pointed = false;
    let group = |text: &mut String, place: i32| {
        if layout.groups && place > 1 && (place - 1) % 3 == 0 {
            text.push(',');
        }
    };
    for piece in pieces {
        if matches!(piece, Piece::Digit(_) | Piece::Point) {
            // digits for which there is no character in the pattern
            while surplus > 0 {
                text.push(digits.next().unwrap_or('0'));
                group(&mut text, place);
                place -= 1;
                surplus -= 1;
            }
        }
        match piece {
            Piece::Digit(_) => {
                let digit = if surplus < 0 {
                    surplus += 1;
                    (place <= first).then_some('0')
                } else {
                    digits.next().or_else(|| (place > last).then_some('0'))
                };
                if let Some(digit) = digit {
                    text.push(digit);
                    group(&mut text, place);
                }
                place -= 1;
            }
            Piece::Point => {
                let behind = layout.point < layout.digits && digits.peek().is_some();
                if place == 0 && !pointed && (last < 0 || behind) {
                    text.push('.');
                    pointed = true;
                }
            }
            Piece::Comma => {}
            Piece::Sign(c) | Piece::Literal(c) => text.push(*c),
            Piece::Exponent(letter, plus, least) => {
                let exponent = if number.is_zero() { 0 } else { number.point - layout.point };
                let sign = match exponent {
                    ..0 => "-",
                    _ if *plus => "+",
                    _ => "",
                };
                let least = (*least).min(10);
                text.push_str(&format!("{letter}{sign}{:0least$}", exponent.unsigned_abs()));
            }
        }
    }
    text
}
