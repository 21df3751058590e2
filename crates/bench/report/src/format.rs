//! Formatting of numbers for readers.

/// Format of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    /// A ratio as an overhead.
    Percent,
    /// A ratio as an overhead without its unit.
    Bare,
    /// A ratio as an overhead with three decimals.
    Fine,
    /// A ratio as a cost in a sentence: without a sign, whole percents from 10 on.
    Cost,
    /// The same without its unit.
    BareCost,
    /// A ratio below 1 as a cost: what is missing to the whole.
    Loss,
    /// The same without its unit.
    BareLoss,
    /// A ratio as a factor.
    Times,
    /// Nanoseconds.
    Duration,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Any count.
    Count,
    /// Any amount, with decimals according to its size.
    Amount,
    /// A small number with two decimals.
    Decimal,
    /// A difference in points of a percent, with its sign.
    Points,
    /// Thousandths as a percentage.
    Permille,
    /// Millionths as a percentage.
    Millionths,
    /// A part of a whole in percent.
    Share,
    /// The same in whole percents from 10 on.
    Part,
    /// A part of something as growth in percent.
    Growth,
}

impl As {
    /// Returns its name on the page.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Percent | Self::Bare | Self::Fine | Self::Cost | Self::BareCost => "overhead",
            Self::Loss | Self::BareLoss => "loss",
            Self::Times => "factor",
            Self::Duration => "nanoseconds",
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Count | Self::Amount | Self::Decimal | Self::Points => "count",
            Self::Permille => "thousandths",
            Self::Millionths => "millionths",
            Self::Share | Self::Part | Self::Growth => "growth",
        }
    }

    /// Returns the formatted number.
    pub(crate) fn words(self, value: f64) -> String {
        match self {
            Self::Percent => percent(value),
            Self::Bare => percent(value).trim_end_matches(" %").to_owned(),
            Self::Cost => format!("{} %", points(value - 1.0)),
            Self::BareCost => points(value - 1.0),
            Self::Loss => format!("{} %", points(1.0 - value)),
            Self::BareLoss => points(1.0 - value),
            Self::Fine => fine_percent(value),
            Self::Times => times(value),
            Self::Duration => duration(value),
            Self::Seconds => duration(value * 1e9),
            Self::Bytes => bytes(value),
            Self::Count => count(value),
            Self::Amount => amount(value),
            Self::Decimal => format!("{value:.2}"),
            // Adding zero turns -0.0 into 0.0.
            Self::Points => format!("{:+.2}", (value * 100.0).round() / 100.0 + 0.0),
            Self::Permille => format!("{} %", value / 10.0),
            Self::Millionths => format!("{} %", value / 10_000.0),
            Self::Share => format!("{:.1} %", value * 100.0),
            Self::Part => format!("{} %", points(value)),
            Self::Growth => format!("{:+.2} %", value * 100.0),
        }
    }
}

/// Formats an amount with decimals according to its size.
pub(crate) fn amount(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => count(value),
        size if size >= 10.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Formats a ratio as an overhead: 1.031 is `+3.1 %`, 5 is `+400 %`.
pub(crate) fn percent(ratio: f64) -> String {
    let overhead = (ratio - 1.0) * 100.0;
    if overhead.abs() >= 99.95 {
        format!("{overhead:+.0} %")
    } else {
        // Adding zero turns -0.0 into 0.0.
        format!("{:+.1} %", (overhead * 10.0).round() / 10.0 + 0.0)
    }
}

/// Formats a share in percent without its unit: a decimal below 10 only.
fn points(share: f64) -> String {
    let percent = share * 100.0;
    // Adding zero turns -0.0 into 0.0.
    match percent.abs() {
        size if size >= 9.95 => format!("{:.0}", percent.round() + 0.0),
        _ => format!("{:.1}", (percent * 10.0).round() / 10.0 + 0.0),
    }
}

/// Formats a ratio near 1 as an overhead with three decimals: 1.0002 is `+0.020 %`.
pub(crate) fn fine_percent(ratio: f64) -> String {
    // Adding zero turns -0.0 into 0.0.
    format!("{:+.3} %", ((ratio - 1.0) * 1e5).round() / 1e3 + 0.0)
}

/// Formats a ratio as a factor: `x0.28`.
pub(crate) fn times(ratio: f64) -> String {
    format!("x{ratio:.2}")
}

/// An interval is too wide to be useful if the ratio of its ends exceeds this factor.
const WIDEST: f64 = 10.0;
/// In place of an interval.
pub(crate) const TOO_WIDE: &str = "too wide to tell";
pub(crate) const NO_INTERVAL: &str = "no interval";

/// Returns true if an interval of ratios is too wide to be shown.
pub(crate) fn too_wide([low, high]: [f64; 2]) -> bool {
    high > low * WIDEST
}

/// Formats an interval of ratios as overheads: `-0.3 to +2.7`, `no interval` if it is absent.
pub(crate) fn interval(ends: Option<[f64; 2]>) -> String {
    match ends {
        Some(ends) if too_wide(ends) => TOO_WIDE.to_owned(),
        Some(ends) => ends.map(|end| As::Bare.words(end)).join(" to "),
        None => NO_INTERVAL.to_owned(),
    }
}

/// Formats nanoseconds with three significant digits and a unit.
pub(crate) fn duration(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds.abs() {
        size if size < 1e3 => (nanoseconds, "ns"),
        size if size < 1e6 => (nanoseconds / 1e3, "us"),
        size if size < 1e9 => (nanoseconds / 1e6, "ms"),
        _ => (nanoseconds / 1e9, "s"),
    };
    format!("{} {unit}", significant(value))
}

/// Formats bytes with three significant digits and a unit of 1,000.
pub(crate) fn bytes(count: f64) -> String {
    let (value, unit) = match count.abs() {
        size if size < 1e3 => return format!("{count:.0} B"),
        size if size < 1e6 => (count / 1e3, "kB"),
        size if size < 1e9 => (count / 1e6, "MB"),
        _ => (count / 1e9, "GB"),
    };
    format!("{} {unit}", significant(value))
}

/// Formats a count, grouped by thousands.
pub(crate) fn count(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digit.is_ascii_digit() {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn significant(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overheads() {
        assert_eq!(percent(1.0306), "+3.1 %");
        assert_eq!(percent(0.9), "-10.0 %");
        assert_eq!(percent(0.999_99), "+0.0 %");
        assert_eq!(percent(5.0), "+400 %");
        assert_eq!(fine_percent(1.0003), "+0.030 %");
        assert_eq!(fine_percent(0.999_999_9), "+0.000 %");
        assert_eq!(times(0.275), "x0.28");
        assert_eq!(interval(Some([0.997, 1.027])), "-0.3 to +2.7");
        assert_eq!(interval(None), "no interval");
        assert_eq!(interval(Some([0.5, 1e9])), "too wide to tell");
        assert_eq!(interval(Some([0.037, 21.27])), "too wide to tell");
        assert_eq!(interval(Some([149.0, 151.0])), "+14800 to +15000");
    }

    #[test]
    fn costs_in_a_sentence() {
        assert_eq!(As::Cost.words(1.1523), "15 %");
        assert_eq!(As::Cost.words(1.031), "3.1 %");
        assert_eq!(As::Cost.words(0.9996), "0.0 %");
        assert_eq!(As::BareCost.words(0.88), "-12");
        assert_eq!(As::Loss.words(0.975), "2.5 %");
        assert_eq!(As::BareLoss.words(0.8), "20");
    }

    #[test]
    fn units() {
        assert_eq!(duration(12_340.0), "12.3 us");
        assert_eq!(duration(1_234_000_000.0), "1.23 s");
        assert_eq!(bytes(61_440_000.0), "61.4 MB");
        assert_eq!(bytes(12.0), "12 B");
        assert_eq!(count(1_234_567.0), "1,234,567");
        assert_eq!(count(999.0), "999");
        assert_eq!(count(1000.0), "1,000");
    }
}
