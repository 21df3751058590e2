//! Parsing and formatting of dates and times (CONVERT's styles).

use tdekit_wire_tds::SqlType;

use super::datetime::{DAYS_1900, Moment, Part, civil, from_civil, get};
use super::language::{Language, US_ENGLISH};

const SECOND: i64 = 10_000_000;

/// Order of day and month in dates of digits with separators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Mdy,
    Dmy,
    Ymd,
}

impl Order {
    /// Returns the name that SET DATEFORMAT has for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Order::Mdy => "mdy",
            Order::Dmy => "dmy",
            Order::Ymd => "ymd",
        }
    }
}

/// How dates are read and written as text: SET DATEFORMAT, and the names of SET LANGUAGE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DateText {
    pub(crate) order: Order,
    pub(crate) language: &'static Language,
}

impl Default for DateText {
    fn default() -> DateText {
        DateText { order: Order::Mdy, language: &US_ENGLISH }
    }
}

#[derive(Default)]
struct Found {
    date: Option<i64>,
    ticks: Option<i64>,
    offset_min: i64,
}

fn year_of(text: &str) -> Option<i64> {
    let year: i64 = text.parse().ok()?;
    match text.len() {
        4 => Some(year),
        // two digit year cutoff: 2049
        1 | 2 => Some(if year < 50 { 2000 + year } else { 1900 + year }),
        _ => None,
    }
}

/// Parses a date, a time, or both. None if it is neither.
pub(crate) fn parse(text: &str, how: DateText) -> Option<Moment> {
    parse_text(text, how, false)
}

/// As [`parse`], for datetime and smalldatetime: with days before months, a day follows a year that
/// comes first, too, unless a `T` is behind the date. Source: the documentation of SET DATEFORMAT.
pub(crate) fn parse_datetime(text: &str, how: DateText) -> Option<Moment> {
    parse_text(text, how, how.order == Order::Dmy)
}

fn parse_text(text: &str, how: DateText, day_second: bool) -> Option<Moment> {
    let text = text.trim();
    let mut found = Found::default();
    if text.is_empty() {
        return Some(Moment { days: DAYS_1900, ticks: 0, offset_min: 0 });
    }
    let (date, time) = split(text)?;
    if !date.is_empty() {
        let iso = text.get(date.len()..).is_some_and(|rest| rest.starts_with(['T', 't']));
        found.date = Some(parse_date(date.trim(), how, day_second && !iso)?);
    }
    if !time.is_empty() {
        let (ticks, offset_min) = parse_time(time.trim())?;
        found.ticks = Some(ticks);
        found.offset_min = offset_min;
    }
    Some(Moment {
        days: found.date.unwrap_or(DAYS_1900),
        ticks: found.ticks.unwrap_or(0),
        offset_min: found.offset_min,
    })
}

/// Returns the time that a text names, as T-SQL reads it, in milliseconds since 1970-01-01 UTC. The
/// server's time zone is UTC.
#[must_use]
pub fn unix_ms(text: &str) -> Option<i64> {
    ms_of(parse(text, DateText::default())?)
}

/// Returns a time in milliseconds since 1970-01-01 UTC.
pub(crate) fn ms_of(Moment { days, ticks, offset_min }: Moment) -> Option<i64> {
    const DAYS_1970: i64 = DAYS_1900 + 25_567;
    let minutes = (days - DAYS_1970).checked_mul(24 * 60)?.checked_sub(offset_min)?;
    minutes.checked_mul(60_000)?.checked_add(ticks / 10_000)
}

/// Splits the text before the first word that has a colon, or AM or PM.
fn split(text: &str) -> Option<(&str, &str)> {
    if let Some((date, time)) = text.split_once(['T', 't'])
        && date.len() >= 8
        && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        && time.contains(':')
    {
        return Some((date, time));
    }
    let Some(colon) = text.find(':') else {
        let upper = text.to_ascii_uppercase();
        if upper.ends_with("AM") || upper.ends_with("PM") {
            let digits = text.len() - 2;
            if text[..digits].trim().bytes().all(|byte| byte.is_ascii_digit()) {
                return Some(("", text));
            }
        }
        return Some((text, ""));
    };
    let start = text[..colon].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    if !text.is_char_boundary(start) {
        return None;
    }
    Some((text[..start].trim(), &text[start..]))
}

fn parse_date(text: &str, how: DateText, day_second: bool) -> Option<i64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return match text.len() {
            8 => from_civil(
                text[..4].parse().ok()?,
                text[4..6].parse().ok()?,
                text[6..].parse().ok()?,
            ),
            6 => {
                from_civil(year_of(&text[..2])?, text[2..4].parse().ok()?, text[4..].parse().ok()?)
            }
            4 => from_civil(text.parse().ok()?, 1, 1),
            _ => None,
        };
    }
    let fields: Vec<&str> =
        text.split(['-', '/', '.', ' ', ',']).filter(|field| !field.is_empty()).collect();
    let [a, b, c] = fields.as_slice() else { return None };
    if let Some(month) = how.language.month_number(a) {
        return from_civil(year_of(c)?, month, b.parse().ok()?);
    }
    if let Some(month) = how.language.month_number(b) {
        if a.len() == 4 {
            return from_civil(year_of(a)?, month, c.parse().ok()?);
        }
        return from_civil(year_of(c)?, month, a.parse().ok()?);
    }
    if fields.iter().any(|field| !field.bytes().all(|byte| byte.is_ascii_digit())) {
        return None;
    }
    if a.len() == 4 {
        let (month, day) = if day_second { (c, b) } else { (b, c) };
        return from_civil(year_of(a)?, month.parse().ok()?, day.parse().ok()?);
    }
    let (year, month, day) = match how.order {
        Order::Mdy => (*c, *a, *b),
        Order::Dmy => (*c, *b, *a),
        Order::Ymd => (*a, *b, *c),
    };
    from_civil(year_of(year)?, month.parse().ok()?, day.parse().ok()?)
}

/// `hh:mm[:ss[.fffffff]] [AM|PM] [Z|+hh:mm]`: units of 100 ns, and minutes ahead of UTC.
fn parse_time(text: &str) -> Option<(i64, i64)> {
    let upper = text.to_ascii_uppercase();
    let mut rest = upper.as_str();
    let mut offset_min = 0;
    if let Some(before) = rest.strip_suffix('Z') {
        rest = before;
    } else if let Some(at) = rest.rfind(['+', '-']) {
        let (hours, minutes) = rest[at + 1..].split_once(':')?;
        let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
        offset_min = hours * 60 + minutes;
        if hours > 14 || minutes > 59 || offset_min > 840 {
            return None;
        }
        if &rest[at..=at] == "-" {
            offset_min = -offset_min;
        }
        rest = &rest[..at];
    }
    rest = rest.trim_end();
    let half = if let Some(before) = rest.strip_suffix("AM") {
        rest = before;
        Some(0)
    } else if let Some(before) = rest.strip_suffix("PM") {
        rest = before;
        Some(12)
    } else {
        None
    };
    let fields: Vec<&str> = rest.trim().split(':').collect();
    let mut hour: i64 = fields.first()?.parse().ok()?;
    if let Some(half) = half {
        if !((1..=12).contains(&hour) || half == 0 && hour == 0) {
            return None;
        }
        hour = hour % 12 + half;
    }
    let minute: i64 = fields.get(1).map_or(Ok(0), |field| field.parse()).ok()?;
    let mut ticks = 0;
    if let Some(seconds) = fields.get(2) {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let whole: i64 = whole.parse().ok()?;
        if !(0..=59).contains(&whole) {
            return None;
        }
        ticks = whole * SECOND + fraction_ticks(fraction)?;
    }
    if fields.len() == 4 {
        // hh:mm:ss:mmm
        if fields[2].contains('.') || fields[3].len() > 3 {
            return None;
        }
        ticks += fields[3].parse::<i64>().ok()? * 10_000;
    }
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || fields.len() > 4 {
        return None;
    }
    Some(((hour * 60 + minute) * 60 * SECOND + ticks, offset_min))
}

/// Returns the number of digits of the fraction of a second, without trailing zeros; 0 if there is
/// none.
pub(crate) fn fraction_digits(text: &str) -> usize {
    let seconds = text.rsplit_once(':').map_or("", |(_, seconds)| seconds);
    let fraction = seconds.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    fraction.get(..digits).unwrap_or_default().trim_end_matches('0').len()
}

fn fraction_ticks(fraction: &str) -> Option<i64> {
    if fraction.is_empty() {
        return Some(0);
    }
    if fraction.len() > 7 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{fraction:0<7}").parse().ok()
}

/// Returns the fraction of a second as shown for this type, with its decimal point; `datetime`
/// shows milliseconds.
fn fraction(moment: Moment, ty: SqlType) -> String {
    let ticks = moment.ticks % SECOND;
    let digits = match ty {
        SqlType::Time(scale) | SqlType::DateTime2(scale) | SqlType::DateTimeOffset(scale) => scale,
        SqlType::SmallDateTime | SqlType::Date => return String::new(),
        _ => 3,
    };
    if digits == 0 {
        return String::new();
    }
    let text = format!("{ticks:07}");
    format!(".{}", &text[..usize::from(digits)])
}

pub(crate) fn offset_text(minutes: i64) -> String {
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
}

/// Formats the moment in one of CONVERT's styles; None for an unknown style.
#[allow(clippy::too_many_lines)]
pub(crate) fn format(
    moment: Moment,
    ty: SqlType,
    style: i64,
    language: &Language,
) -> Option<String> {
    let (year, month, day) = civil(moment.days);
    let at = |part| get(moment, part, 7);
    let (hour, minute, second) = (at(Part::Hour), at(Part::Minute), at(Part::Second));
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let half = if hour < 12 { "AM" } else { "PM" };
    let year_text = if style < 100 && !matches!(style, 0 | 9 | 13 | 14 | 20 | 21 | 23 | 24 | 25) {
        format!("{:02}", year % 100)
    } else {
        format!("{year:04}")
    };
    let time = format!("{hour:02}:{minute:02}:{second:02}");
    let part = fraction(moment, ty);
    let offset = match ty {
        SqlType::DateTimeOffset(_) => format!(" {}", offset_text(moment.offset_min)),
        _ => String::new(),
    };
    let only_date = ty == SqlType::Date;
    let only_time = matches!(ty, SqlType::Time(_));
    let both = |date: String, time: String| {
        if only_date {
            date
        } else if only_time {
            time
        } else {
            format!("{date} {time}{offset}")
        }
    };
    let mon = language.short_month(month);
    let date = match style {
        1 | 101 => format!("{month:02}/{day:02}/{year_text}"),
        2 | 102 => format!("{year_text}.{month:02}.{day:02}"),
        3 | 103 => format!("{day:02}/{month:02}/{year_text}"),
        4 | 104 => format!("{day:02}.{month:02}.{year_text}"),
        5 | 105 => format!("{day:02}-{month:02}-{year_text}"),
        6 | 106 => format!("{day:02} {mon} {year_text}"),
        7 | 107 => format!("{mon} {day:02}, {year_text}"),
        10 | 110 => format!("{month:02}-{day:02}-{year_text}"),
        11 | 111 => format!("{year_text}/{month:02}/{day:02}"),
        12 | 112 => format!("{year_text}{month:02}{day:02}"),
        23 => format!("{year:04}-{month:02}-{day:02}"),
        8 | 24 | 108 => return if only_date { None } else { Some(time) },
        14 | 114 => {
            let part = part.replace('.', ":");
            return if only_date { None } else { Some(format!("{time}{part}")) };
        }
        0 | 100 => {
            return Some(both(
                format!("{mon} {day:2} {year:04}"),
                format!("{twelve:2}:{minute:02}{half}"),
            ));
        }
        9 | 109 => {
            let part = part.replacen('.', separator(ty), 1);
            return Some(both(
                format!("{mon} {day:2} {year:04}"),
                format!("{twelve:2}:{minute:02}:{second:02}{part}{half}"),
            ));
        }
        13 | 113 => {
            let part = part.replacen('.', separator(ty), 1);
            return Some(both(format!("{day:02} {mon} {year:04}"), format!("{time}{part}")));
        }
        20 | 120 => {
            return Some(both(format!("{year:04}-{month:02}-{day:02}"), time));
        }
        21 | 25 | 121 => {
            return Some(both(format!("{year:04}-{month:02}-{day:02}"), format!("{time}{part}")));
        }
        126 | 127 => {
            if only_date {
                return Some(format!("{year:04}-{month:02}-{day:02}"));
            }
            // a zero fraction is omitted for datetime
            let nothing = part.bytes().all(|byte| matches!(byte, b'.' | b'0'));
            let part = if ty == SqlType::DateTime && nothing { "" } else { part.as_str() };
            if only_time {
                return Some(format!("{time}{part}"));
            }
            let offset = match ty {
                SqlType::DateTimeOffset(_) if style == 126 => offset_text(moment.offset_min),
                SqlType::DateTimeOffset(_) => return None,
                _ => String::new(),
            };
            return Some(format!("{year:04}-{month:02}-{day:02}T{time}{part}{offset}"));
        }
        _ => return None,
    };
    if only_time { None } else { Some(date) }
}

fn separator(ty: SqlType) -> &'static str {
    if ty == SqlType::DateTime { ":" } else { "." }
}
