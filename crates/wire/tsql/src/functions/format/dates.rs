//! Dates by standard specifiers and custom patterns.

use super::{Culture, Formatted, Refused};
use crate::value::datetime::{Moment, civil};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Ticks of 100 ns in a second.
pub(super) const SECOND: i64 = 10_000_000;

/// `offset` is true for a datetimeoffset.
pub(super) fn format(moment: Moment, offset: bool, pattern: &str, culture: Culture) -> Formatted {
    let pattern = if pattern.is_empty() { "G" } else { pattern };
    let mut chars = pattern.chars();
    let (Some(letter), None) = (chars.next(), chars.next()) else {
        return custom(moment, offset, pattern);
    };
    let short = culture.either("M/d/yyyy", "MM/dd/yyyy");
    let long = culture.either("dddd, MMMM d, yyyy", "dddd, dd MMMM yyyy");
    let (time, seconds) = match culture {
        Culture::American => ("h:mm tt", "h:mm:ss tt"),
        Culture::Invariant => ("HH:mm", "HH:mm:ss"),
    };
    let utc = || {
        let ticks = moment.ticks - moment.offset_min * 60 * SECOND;
        let day = 86_400 * SECOND;
        let days = moment.days + ticks.div_euclid(day);
        Moment { days, ticks: ticks.rem_euclid(day), offset_min: 0 }
    };
    let (moment, pattern) = match letter {
        'd' => (moment, short.to_owned()),
        'D' => (moment, long.to_owned()),
        't' => (moment, time.to_owned()),
        'T' => (moment, seconds.to_owned()),
        'f' => (moment, format!("{long} {time}")),
        'F' => (moment, format!("{long} {seconds}")),
        'g' => (moment, format!("{short} {time}")),
        'G' if offset => (moment, format!("{short} {seconds} zzz")),
        'G' => (moment, format!("{short} {seconds}")),
        'M' | 'm' => (moment, culture.either("MMMM d", "MMMM dd").to_owned()),
        'Y' | 'y' => (moment, culture.either("MMMM yyyy", "yyyy MMMM").to_owned()),
        's' => (moment, "yyyy'-'MM'-'dd'T'HH':'mm':'ss".to_owned()),
        'u' => (utc(), "yyyy'-'MM'-'dd HH':'mm':'ss'Z'".to_owned()),
        'o' | 'O' => (moment, "yyyy'-'MM'-'dd'T'HH':'mm':'ss.fffffffK".to_owned()),
        'r' | 'R' => (utc(), "ddd, dd MMM yyyy HH':'mm':'ss 'GMT'".to_owned()),
        'U' if !offset => (moment, format!("{long} {seconds}")),
        _ => return Err(Refused),
    };
    custom(moment, offset, &pattern)
}

/// The first letters of a name.
fn brief(name: &str) -> &str {
    name.get(..3).unwrap_or(name)
}

fn custom(moment: Moment, offset: bool, pattern: &str) -> Formatted {
    let chars: Vec<char> = pattern.chars().collect();
    let mut text = String::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let run = chars[at..].iter().take_while(|next| **next == c).count();
        let taken = match c {
            '\'' | '"' | '\\' => literal(&chars[at..], &mut text)?,
            '%' => {
                // one letter alone
                let next = chars.get(at + 1).filter(|next| **next != '%').ok_or(Refused)?;
                part(moment, offset, *next, 1, &mut text)?;
                2
            }
            c => {
                let count = if c.is_ascii_alphabetic() { run } else { 1 };
                part(moment, offset, c, count, &mut text)?;
                count
            }
        };
        at += taken;
    }
    Ok(text)
}

/// Writes a quotation or an escaped character, and returns its length in the pattern.
pub(super) fn literal(chars: &[char], text: &mut String) -> Result<usize, Refused> {
    let quote = *chars.first().ok_or(Refused)?;
    if quote == '\\' {
        text.push(*chars.get(1).ok_or(Refused)?);
        return Ok(2);
    }
    let mut at = 1;
    loop {
        let c = *chars.get(at).ok_or(Refused)?;
        at += 1;
        if c == quote {
            return Ok(at);
        }
        if c == '\\' {
            text.push(*chars.get(at).ok_or(Refused)?);
            at += 1;
        } else {
            text.push(c);
        }
    }
}

/// The digits of a fraction of a second; with `F`, without zeros at the end.
pub(super) fn fraction(ticks: i64, run: usize, short: bool) -> Result<String, Refused> {
    let digits = format!("{:07}", ticks.rem_euclid(SECOND));
    let shown = digits.get(..run).ok_or(Refused)?;
    Ok(if short { shown.trim_end_matches('0') } else { shown }.to_owned())
}

fn part(
    moment: Moment,
    offset: bool,
    c: char,
    run: usize,
    text: &mut String,
) -> Result<(), Refused> {
    let (year, month, day) = civil(moment.days);
    let seconds = moment.ticks / SECOND;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let padded = |number: i64| if run == 1 { number.to_string() } else { format!("{number:02}") };
    let weekday = usize::try_from(moment.days.rem_euclid(7)).map_err(|_| Refused)?;
    let named = |names: &[&'static str], at: usize| names.get(at).copied().ok_or(Refused);
    let made = match c {
        'd' if run < 3 => padded(day),
        'd' if run == 3 => brief(named(&DAYS, weekday)?).to_owned(),
        'd' => named(&DAYS, weekday)?.to_owned(),
        'M' if run < 3 => padded(month),
        'M' => {
            let at = usize::try_from(month - 1).map_err(|_| Refused)?;
            let name = named(&MONTHS, at)?;
            if run == 3 { brief(name).to_owned() } else { name.to_owned() }
        }
        'y' if run < 3 => padded(year % 100),
        'y' => format!("{year:0run$}", run = run.min(99)),
        'h' => padded(if hour % 12 == 0 { 12 } else { hour % 12 }),
        'H' => padded(hour),
        'm' => padded(minute),
        's' => padded(second),
        't' => {
            let name = if hour < 12 { "AM" } else { "PM" };
            name.get(..run.min(2)).unwrap_or(name).to_owned()
        }
        'f' => fraction(moment.ticks, run, false)?,
        'F' => {
            let digits = fraction(moment.ticks, run, true)?;
            if digits.is_empty() && text.ends_with('.') {
                text.pop();
            }
            digits
        }
        'g' => "A.D.".to_owned(),
        'K' if !offset => String::new(),
        'z' | 'K' => {
            let sign = if moment.offset_min < 0 { '-' } else { '+' };
            let minutes = moment.offset_min.abs();
            match (c, run) {
                ('z', 1) => format!("{sign}{}", minutes / 60),
                ('z', 2) => format!("{sign}{:02}", minutes / 60),
                _ => format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60),
            }
        }
        c => std::iter::repeat_n(c, run).collect(),
    };
    text.push_str(&made);
    Ok(())
}
