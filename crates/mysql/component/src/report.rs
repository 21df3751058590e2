//! Lines for the server's error log, which is its standard error.

use std::fmt::Display;
use std::io::Write;

use tdekit_key_store::{iso8601, now_seconds};

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
    let text = format!("{} 0 [{level}] [tdekit] {text}\n", iso8601(now_seconds()));
    // In one write, so that the lines of threads do not mix.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
