//! Times, which .NET formats as spans: separators are quoted or escaped.

use super::dates::{SECOND, fraction, literal};
use super::{Formatted, Refused};

pub(super) fn format(ticks: u64, pattern: &str) -> Formatted {
    let ticks = i64::try_from(ticks).map_err(|_| Refused)?;
    let seconds = ticks / SECOND;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let rest = ticks % SECOND;
    let short = fraction(ticks, 7, true)?;
    let behind = if short.is_empty() { String::new() } else { format!(".{short}") };
    match pattern {
        "" | "c" | "t" | "T" => {
            let behind = if rest == 0 { String::new() } else { format!(".{rest:07}") };
            return Ok(format!("{hour:02}:{minute:02}:{second:02}{behind}"));
        }
        "g" => return Ok(format!("{hour}:{minute:02}:{second:02}{behind}")),
        "G" => return Ok(format!("0:{hour:02}:{minute:02}:{second:02}.{rest:07}")),
        _ if pattern.chars().count() == 1 => return Err(Refused),
        _ => {}
    }
    let chars: Vec<char> = pattern.chars().collect();
    let mut text = String::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let mut run = chars[at..].iter().take_while(|next| **next == c).count();
        let mut part = c;
        let mut taken = run;
        if c == '%' {
            part = *chars.get(at + 1).filter(|next| **next != '%').ok_or(Refused)?;
            (run, taken) = (1, 2);
        }
        let padded = |number: i64| match run {
            1 => Ok(number.to_string()),
            2 => Ok(format!("{number:02}")),
            _ => Err(Refused),
        };
        match part {
            'd' if run <= 8 => text.push_str(&"0".repeat(run)),
            'h' => text.push_str(&padded(hour)?),
            'm' => text.push_str(&padded(minute)?),
            's' => text.push_str(&padded(second)?),
            'f' | 'F' => text.push_str(&fraction(ticks, run, part == 'F')?),
            '\'' | '"' | '\\' => taken = literal(&chars[at..], &mut text)?,
            _ => return Err(Refused),
        }
        at += taken;
    }
    Ok(text)
}
