//! FFI: lines for the server's error log, which is its standard error.
#![allow(unsafe_code)]

use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum number of lines per second: a damaged file gives an error for each of its pages.
const LINES_PER_SECOND: u64 = 10;

/// The second, and the lines written in it, as `second * 2^16 + lines`.
static TOLD: AtomicU64 = AtomicU64::new(0);

/// Logs an error for the server's administrator. Never fails: a log that cannot be written stops
/// nothing.
pub(crate) fn error(text: impl Display) {
    line("ERROR", text);
}

/// Logs a warning.
pub(crate) fn warning(text: impl Display) {
    line("Warning", text);
}

/// Logs a success.
pub(crate) fn note(text: impl Display) {
    line("Note", text);
}

fn line(level: &str, text: impl Display) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let Some(last) = may_tell(&TOLD, now) else { return };
    let more = if last { " (further lines of this second are left out)" } else { "" };
    let text = format!("{} 0 [{level}] tdekit: {text}{more}\n", local_time(now));
    // In one write, so that the lines of threads do not mix.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Returns whether one more line may be written in the second `now`, and whether it is the last
/// one.
fn may_tell(told: &AtomicU64, now: u64) -> Option<bool> {
    let next = |told: u64| {
        let (second, lines) = (told >> 16, told & 0xffff);
        match second == now {
            true if lines >= LINES_PER_SECOND => None,
            true => Some(told + 1),
            false => Some(now << 16 | 1),
        }
    };
    let before = told.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
    Some(next(before)? & 0xffff == LINES_PER_SECOND)
}

/// Formats the time as the server does, in its own time zone.
fn local_time(seconds: u64) -> String {
    let Ok(seconds) = libc::time_t::try_from(seconds) else { return String::new() };
    // SAFETY: all fields of `tm` are numbers or a pointer, for which zero is valid.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to values on this stack.
    if unsafe { libc::localtime_r(&raw const seconds, &raw mut tm) }.is_null() {
        return String::new();
    }
    format!(
        "{:04}-{:02}-{:02} {:2}:{:02}:{:02}",
        i64::from(tm.tm_year) + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_second_are_limited() {
        let told = AtomicU64::new(0);
        let lines: Vec<_> = (0..12).map(|_| may_tell(&told, 5)).collect();
        assert_eq!(lines[..9], [Some(false); 9]);
        assert_eq!(lines[9..], [Some(true), None, None]);
        assert_eq!(may_tell(&told, 6), Some(false));
    }

    #[test]
    fn times_look_like_the_servers() {
        let text = local_time(0);
        assert_eq!(text.len(), "1970-01-01  0:00:00".len(), "{text}");
        assert!(text.starts_with("1970-01-01") || text.starts_with("1969-12-31"));
    }
}
