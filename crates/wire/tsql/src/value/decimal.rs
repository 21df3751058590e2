//! Exact decimal arithmetic with 38 digits.

use crate::error::{Error, Result};

/// Maximum precision.
pub(crate) const MAX: u8 = 38;

/// A decimal: `unscaled` / 10^`scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dec {
    pub(crate) unscaled: i128,
    pub(crate) scale: u8,
}

/// 256 bits: high and low half.
#[derive(Clone, Copy)]
struct Wide(u128, u128);

pub(crate) fn pow10(exponent: u8) -> u128 {
    10_u128.saturating_pow(u32::from(exponent))
}

fn multiply(a: u128, b: u128) -> Wide {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a0 * b0;
    let middle = a1 * b0 + (low >> 64);
    let (middle, carry) = middle.overflowing_add(a0 * b1);
    let high = a1 * b1 + (middle >> 64) + (u128::from(carry) << 64);
    Wide(high, (middle << 64) | (low & LOW))
}

impl Wide {
    fn times(self, factor: u128) -> Option<Wide> {
        let low = multiply(self.1, factor);
        let high = multiply(self.0, factor);
        if high.0 != 0 {
            return None;
        }
        Some(Wide(high.1.checked_add(low.0)?, low.1))
    }

    /// Quotient and remainder; None when the quotient needs more than 128 bits.
    fn divide(self, by: u128) -> Option<(u128, u128)> {
        if by == 0 || self.0 >= by {
            return None;
        }
        if self.0 == 0 {
            return Some((self.1 / by, self.1 % by));
        }
        let (mut remainder, mut quotient) = (self.0, 0_u128);
        for bit in (0..128).rev() {
            let carry = remainder >> 127 == 1;
            remainder = (remainder << 1) | ((self.1 >> bit) & 1);
            quotient <<= 1;
            if carry || remainder >= by {
                remainder = remainder.wrapping_sub(by);
                quotient |= 1;
            }
        }
        Some((quotient, remainder))
    }
}

fn overflow() -> Error {
    Error::ResultOverflow { to: "numeric".to_owned() }
}

fn signed(magnitude: u128, negative: bool) -> Result<i128> {
    let value = i128::try_from(magnitude).map_err(|_| overflow())?;
    Ok(if negative { -value } else { value })
}

/// Rounds half away from zero.
fn rounded(quotient: u128, remainder: u128, by: u128) -> u128 {
    if remainder >= by - remainder { quotient + 1 } else { quotient }
}

fn fits(dec: Dec, precision: u8) -> Result<Dec> {
    if dec.unscaled.unsigned_abs() < pow10(precision) { Ok(dec) } else { Err(overflow()) }
}

impl Dec {
    pub(crate) fn new(unscaled: i128, scale: u8) -> Dec {
        Dec { unscaled, scale }
    }

    /// Returns the same number with another scale, rounded half away from zero; None if too large.
    pub(crate) fn rescale(self, scale: u8) -> Option<Dec> {
        let unscaled = if scale >= self.scale {
            let factor = i128::try_from(pow10(scale - self.scale)).ok()?;
            self.unscaled.checked_mul(factor)?
        } else {
            let by = pow10(self.scale - scale);
            let magnitude = self.unscaled.unsigned_abs();
            signed(rounded(magnitude / by, magnitude % by, by), self.unscaled < 0).ok()?
        };
        Some(Dec { unscaled, scale })
    }

    /// Returns it as a `decimal(precision, scale)`; None if it does not fit.
    pub(crate) fn to_type(self, precision: u8, scale: u8) -> Option<Dec> {
        fits(self.rescale(scale)?, precision).ok()
    }

    /// Returns the integer part.
    pub(crate) fn truncated(self) -> i128 {
        self.unscaled / i128::try_from(pow10(self.scale)).unwrap_or(i128::MAX)
    }

    pub(crate) fn add(self, other: Dec, precision: u8, scale: u8) -> Result<Dec> {
        let common = self.scale.max(other.scale);
        let (a, b) = (self.unscaled.unsigned_abs(), other.unscaled.unsigned_abs());
        let wide_a = multiply(a, pow10(common - self.scale));
        let wide_b = multiply(b, pow10(common - other.scale));
        let (sum, negative) = if (self.unscaled < 0) == (other.unscaled < 0) {
            (plus(wide_a, wide_b), self.unscaled < 0)
        } else if below(wide_a, wide_b) {
            (minus(wide_b, wide_a), other.unscaled < 0)
        } else {
            (minus(wide_a, wide_b), self.unscaled < 0)
        };
        narrow(sum, common, negative, precision, scale)
    }

    pub(crate) fn neg(self) -> Dec {
        Dec { unscaled: -self.unscaled, scale: self.scale }
    }

    pub(crate) fn mul(self, other: Dec, precision: u8, scale: u8) -> Result<Dec> {
        let wide = multiply(self.unscaled.unsigned_abs(), other.unscaled.unsigned_abs());
        let negative = (self.unscaled < 0) != (other.unscaled < 0);
        narrow(wide, self.scale + other.scale, negative, precision, scale)
    }

    /// Digits beyond the scale are truncated, as in SQL Server.
    pub(crate) fn div(self, other: Dec, precision: u8, scale: u8) -> Result<Dec> {
        if other.unscaled == 0 {
            return Err(Error::DivideByZero {});
        }
        let up = i16::from(scale) + i16::from(other.scale) - i16::from(self.scale);
        let mut wide = Wide(0, self.unscaled.unsigned_abs());
        let by = other.unscaled.unsigned_abs();
        let mut left = u8::try_from(up.unsigned_abs()).unwrap_or(u8::MAX);
        if up < 0 {
            wide = Wide(0, wide.1 / pow10(left.min(MAX)));
        } else {
            while left > 0 {
                let step = left.min(MAX);
                wide = wide.times(pow10(step)).ok_or_else(overflow)?;
                left -= step;
            }
        }
        let (quotient, _) = wide.divide(by).ok_or_else(overflow)?;
        let negative = (self.unscaled < 0) != (other.unscaled < 0);
        fits(Dec { unscaled: signed(quotient, negative)?, scale }, precision)
    }

    pub(crate) fn rem(self, other: Dec, precision: u8, scale: u8) -> Result<Dec> {
        if other.unscaled == 0 {
            return Err(Error::DivideByZero {});
        }
        let common = self.scale.max(other.scale);
        let (Some(a), Some(b)) = (self.rescale(common), other.rescale(common)) else {
            return Err(overflow());
        };
        let dec = Dec { unscaled: a.unscaled % b.unscaled, scale: common };
        dec.to_type(precision, scale).ok_or_else(overflow)
    }

    pub(crate) fn compare(self, other: Dec) -> std::cmp::Ordering {
        let negative = (self.unscaled < 0, other.unscaled < 0);
        if negative.0 != negative.1 {
            return negative.1.cmp(&negative.0);
        }
        let common = self.scale.max(other.scale);
        let a = multiply(self.unscaled.unsigned_abs(), pow10(common - self.scale));
        let b = multiply(other.unscaled.unsigned_abs(), pow10(common - other.scale));
        let order = (a.0, a.1).cmp(&(b.0, b.1));
        if negative.0 { order.reverse() } else { order }
    }

    /// Returns the nearest 64-bit float.
    pub(crate) fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(0.0)
    }

    /// At most 17 significant digits of a float are used; None if too large.
    pub(crate) fn from_f64(value: f64, precision: u8, scale: u8) -> Option<Dec> {
        if !value.is_finite() || value.abs() >= 1e38 {
            return None;
        }
        let text = format!("{value:.16e}");
        let (digits, exponent) = text.split_once('e')?;
        let exponent: i32 = exponent.parse().ok()?;
        let negative = digits.starts_with('-');
        let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
        let unscaled: u128 = digits.parse().ok()?;
        // value = unscaled * 10^(exponent - 16)
        let shift = exponent - 16 + i32::from(scale);
        let magnitude = if shift >= 0 {
            let factor = pow10(u8::try_from(shift).ok().filter(|s| *s <= MAX)?);
            unscaled.checked_mul(factor)?
        } else {
            let down = shift.unsigned_abs();
            if down > 38 {
                0
            } else {
                let by = pow10(u8::try_from(down).ok()?);
                rounded(unscaled / by, unscaled % by, by)
            }
        };
        let dec = Dec { unscaled: signed(magnitude, negative).ok()?, scale };
        fits(dec, precision).ok()
    }

    /// Parses digits with a sign and a decimal point; None if it is not a number, or has more than
    /// 38 digits.
    pub(crate) fn parse(text: &str) -> Option<Dec> {
        let text = text.trim();
        let (negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let all = format!("{whole}{fraction}");
        if !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let significant = all.trim_start_matches('0');
        if significant.len() > usize::from(MAX) {
            return None;
        }
        let magnitude: u128 = if significant.is_empty() { 0 } else { significant.parse().ok()? };
        let scale = u8::try_from(fraction.len()).ok().filter(|scale| *scale <= MAX)?;
        Some(Dec { unscaled: signed(magnitude, negative).ok()?, scale })
    }
}

fn plus(a: Wide, b: Wide) -> Wide {
    let (low, carry) = a.1.overflowing_add(b.1);
    Wide(a.0.wrapping_add(b.0).wrapping_add(u128::from(carry)), low)
}

fn minus(a: Wide, b: Wide) -> Wide {
    let (low, borrow) = a.1.overflowing_sub(b.1);
    Wide(a.0.wrapping_sub(b.0).wrapping_sub(u128::from(borrow)), low)
}

fn below(a: Wide, b: Wide) -> bool {
    (a.0, a.1) < (b.0, b.1)
}

/// Brings a wide number of scale `from` to `decimal(precision, scale)`.
fn narrow(wide: Wide, from: u8, negative: bool, precision: u8, scale: u8) -> Result<Dec> {
    let magnitude = if from > scale {
        // truncating digits first does not change whether the rest is half or more
        let down = from - scale;
        let first = down.saturating_sub(MAX);
        let (cut, by) = if first == 0 {
            let by = pow10(down);
            let (quotient, remainder) = wide.divide(by).ok_or_else(overflow)?;
            return fits(
                Dec { unscaled: signed(rounded(quotient, remainder, by), negative)?, scale },
                precision,
            );
        } else {
            (wide.divide(pow10(MAX)).ok_or_else(overflow)?.0, pow10(first))
        };
        rounded(cut / by, cut % by, by)
    } else {
        let wide = wide.times(pow10(scale - from)).ok_or_else(overflow)?;
        if wide.0 != 0 {
            return Err(overflow());
        }
        wide.1
    };
    fits(Dec { unscaled: signed(magnitude, negative)?, scale }, precision)
}

impl std::fmt::Display for Dec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = self.unscaled.unsigned_abs().to_string();
        let scale = usize::from(self.scale);
        let sign = if self.unscaled < 0 { "-" } else { "" };
        if scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        let digits = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        write!(f, "{sign}{whole}.{fraction}")
    }
}

/// Precision and scale of `a op b`, by SQL Server's rules.
pub(crate) fn result_type(op: crate::value::arith::BinOp, a: (u8, u8), b: (u8, u8)) -> (u8, u8) {
    use crate::value::arith::BinOp;
    let ((p1, s1), (p2, s2)) = ((i16::from(a.0), i16::from(a.1)), (i16::from(b.0), i16::from(b.1)));
    let (precision, scale) = match op {
        BinOp::Add | BinOp::Sub => {
            let scale = s1.max(s2);
            let whole = (p1 - s1).max(p2 - s2);
            let precision = whole + scale + 1;
            if precision > 38 { (38, scale.min((38 - whole).max(0))) } else { (precision, scale) }
        }
        BinOp::Mul => reduced(p1 + p2 + 1, s1 + s2),
        BinOp::Div => {
            let scale = 6.max(s1 + p2 + 1);
            reduced(p1 - s1 + s2 + scale, scale)
        }
        _ => ((p1 - s1).min(p2 - s2) + s1.max(s2), s1.max(s2)),
    };
    let precision = u8::try_from(precision.clamp(1, 38)).unwrap_or(38);
    let scale = u8::try_from(scale.max(0)).unwrap_or(0).min(precision);
    (precision, scale)
}

fn reduced(precision: i16, scale: i16) -> (i16, i16) {
    if precision <= 38 {
        return (precision, scale);
    }
    (38, (38 - (precision - scale)).max(scale.min(6)))
}
