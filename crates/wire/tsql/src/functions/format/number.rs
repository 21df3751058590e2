//! Numbers by standard specifiers.

use tdekit_wire_tds::{SqlType, Value};

use super::{Culture, Formatted, Refused, pattern};
use crate::error::{Error, Result};
use crate::value::{Family, family};

/// Digits of a number, without zeros in front: 0.DIGITS * 10^point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) negative: bool,
    pub(super) digits: Vec<u8>,
    pub(super) point: i32,
    /// Digits behind the point, as its type has them.
    scale: i32,
}

impl Number {
    /// Returns the digits of a value; None if it is not a number. A float has those that .NET
    /// shows.
    pub(super) fn of(value: &Value<'_>, ty: SqlType) -> Option<Number> {
        let exact = |negative: bool, unscaled: u128, scale: i32| {
            let digits: Vec<u8> = match unscaled {
                0 => Vec::new(),
                _ => unscaled.to_string().into_bytes(),
            };
            let point = i32::try_from(digits.len()).unwrap_or(0) - scale;
            Number { negative, digits, point, scale }
        };
        Some(match value {
            Value::Int(int) => exact(*int < 0, int.unsigned_abs().into(), 0),
            Value::Decimal { unscaled, scale } => {
                exact(*unscaled < 0, unscaled.unsigned_abs(), i32::from(*scale))
            }
            Value::Money(money) => exact(*money < 0, money.unsigned_abs().into(), 4),
            Value::Float(float) => {
                let digits = if ty == SqlType::Real { 6 } else { 14 };
                let text = format!("{:.*e}", digits, float.abs());
                let (digits, exponent) = text.split_once('e')?;
                let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_digit).collect();
                let point = exponent.parse::<i32>().ok()? + 1;
                let mut number = Number { negative: *float < 0.0, digits, point, scale: 0 };
                number.trim();
                number
            }
            _ => return None,
        })
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.iter().all(|digit| *digit == b'0')
    }

    /// Rounds to this many digits, half away from zero. Zero has no sign and no digits.
    pub(super) fn round(&mut self, kept: i32) {
        let kept = usize::try_from(kept).ok();
        let up = match kept {
            Some(kept) => self.digits.get(kept).is_some_and(|digit| *digit >= b'5'),
            None => false,
        };
        self.digits.truncate(kept.unwrap_or(0));
        if up {
            let mut at = self.digits.len();
            loop {
                let Some(last) = at.checked_sub(1) else {
                    self.digits = vec![b'1'];
                    self.point += 1;
                    break;
                };
                at = last;
                if self.digits[at] < b'9' {
                    self.digits[at] += 1;
                    break;
                }
                self.digits.truncate(at);
            }
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.digits.last() == Some(&b'0') {
            self.digits.pop();
        }
        if self.digits.is_empty() {
            self.negative = false;
            self.point = 0;
        }
    }

    /// The digits before the point and `places` behind it.
    fn fixed(&self, places: usize, grouped: bool) -> String {
        let digit = |place: i32| {
            let at = usize::try_from(self.point - place).ok();
            at.and_then(|at| self.digits.get(at)).map_or('0', |digit| char::from(*digit))
        };
        let whole = self.point.max(1);
        let mut text = String::new();
        for place in (1..=whole).rev() {
            text.push(digit(place));
            if grouped && place > 1 && (place - 1) % 3 == 0 {
                text.push(',');
            }
        }
        if places > 0 {
            text.push('.');
            (1..=places).for_each(|at| text.push(digit(1 - i32::try_from(at).unwrap_or(0))));
        }
        text
    }

    fn rounded(mut self, places: usize) -> Number {
        self.round(self.point + i32::try_from(places).unwrap_or(0));
        self
    }

    /// D.DDDE+DDD, with all digits if there is no number of places.
    fn scientific(&self, places: Option<usize>, letter: char, least: usize) -> String {
        let mut text = String::new();
        let at = |at: usize| self.digits.get(at).map_or('0', |digit| char::from(*digit));
        text.push(at(0));
        let places = places.unwrap_or(self.digits.len().saturating_sub(1));
        if places > 0 {
            text.push('.');
            (1..=places).for_each(|place| text.push(at(place)));
        }
        let exponent = if self.is_zero() { 0 } else { self.point - 1 };
        let sign = if exponent < 0 { '-' } else { '+' };
        text + &format!("{letter}{sign}{:0least$}", exponent.unsigned_abs())
    }

    fn general(mut self, precision: usize, ty: SqlType, upper: bool) -> String {
        let family = family(ty);
        let letter = if upper { 'E' } else { 'e' };
        if precision == 0 && family != Family::Float {
            // exact: with the zeros that it has behind the point
            let sign = if self.negative && !self.is_zero() { "-" } else { "" };
            let places = usize::try_from(self.scale).unwrap_or(0);
            return format!("{sign}{}", self.fixed(places, false));
        }
        let most = match (precision, ty) {
            (0, SqlType::Real) => 7,
            (0, _) => 15,
            (given, _) => i32::try_from(given).unwrap_or(99),
        };
        self.round(most);
        let sign = if self.negative { "-" } else { "" };
        if self.point > most || self.point < -3 {
            return format!("{sign}{}", self.scientific(None, letter, 2));
        }
        let behind = i32::try_from(self.digits.len()).unwrap_or(0) - self.point;
        format!("{sign}{}", self.fixed(usize::try_from(behind).unwrap_or(0), false))
    }
}

/// Returns the letter and the number of a standard specifier; None for a custom pattern.
fn standard(pattern: &str) -> Option<(char, Option<usize>)> {
    let mut chars = pattern.chars();
    let letter = chars.next().filter(char::is_ascii_alphabetic)?;
    let digits = chars.as_str();
    if digits.len() > 2 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((letter, digits.parse().ok()))
}

/// # Errors
/// For a specifier of .NET that is not covered.
pub(super) fn format(
    number: Number,
    ty: SqlType,
    text: &str,
    culture: Culture,
) -> Result<Formatted> {
    let text = if text.is_empty() { "G" } else { text };
    let Some((letter, given)) = standard(text) else {
        return Ok(pattern::format(number, text));
    };
    let int = family(ty) == Family::Int;
    let signed = |number: &Number, text: String| match number.negative {
        true => format!("-{text}"),
        false => text,
    };
    Ok(Ok(match letter.to_ascii_uppercase() {
        'N' | 'F' => {
            let places = given.unwrap_or(2);
            let number = number.rounded(places);
            let grouped = letter.eq_ignore_ascii_case(&'N');
            signed(&number, number.fixed(places, grouped))
        }
        'C' => {
            let places = given.unwrap_or(2);
            let number = number.rounded(places);
            let text = format!("{}{}", culture.either("$", "¤"), number.fixed(places, true));
            if number.negative { format!("({text})") } else { text }
        }
        'P' => {
            let places = given.unwrap_or(2);
            let point = number.point + if number.is_zero() { 0 } else { 2 };
            let number = Number { point, ..number }.rounded(places);
            let sign = culture.either("%", " %");
            signed(&number, format!("{}{sign}", number.fixed(places, true)))
        }
        'E' => {
            let places = given.unwrap_or(6);
            let mut number = number;
            number.round(i32::try_from(places).unwrap_or(99) + 1);
            signed(&number, number.scientific(Some(places), letter, 3))
        }
        'G' => number.general(given.unwrap_or(0), ty, letter == 'G'),
        'D' if int => {
            let digits = number.fixed(0, false);
            signed(&number, format!("{digits:0>0$}", given.unwrap_or(1)))
        }
        'X' if int => hexadecimal(&number, ty, letter == 'X', given.unwrap_or(1)),
        'R' if family(ty) == Family::Float => {
            return Err(Error::feature("the specifier R of FORMAT"));
        }
        _ => return Ok(Err(Refused)),
    }))
}

/// A negative number is its two's complement in the width of its type.
fn hexadecimal(number: &Number, ty: SqlType, upper: bool, least: usize) -> String {
    let fold = |sum: u64, digit: &u8| {
        sum.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')))
    };
    let size = number.digits.iter().fold(0_u64, fold);
    let width = match ty {
        SqlType::TinyInt => 8,
        SqlType::SmallInt => 16,
        SqlType::Int => 32,
        _ => 64,
    };
    let bits =
        if number.negative { size.wrapping_neg() & (u64::MAX >> (64 - width)) } else { size };
    match upper {
        true => format!("{bits:0least$X}"),
        false => format!("{bits:0least$x}"),
    }
}
