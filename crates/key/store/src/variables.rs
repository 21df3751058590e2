//! Environment variables that a library reads by itself and puts into HTTP headers: values that are
//! not valid in a header make such libraries panic.

use std::env;

/// Returns the variables whose names begin with `start` and whose values are surrounded by blanks
/// or line ends, with these removed: a value that was read from a file often ends in a line feed.
///
/// # Errors
/// The name of a variable that has a control character within its value.
pub fn trimmed_variables(start: &str) -> Result<Vec<(String, String)>, String> {
    let variables = env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(start))?;
        Some((name, value.into_string().ok()?))
    });
    let mut trimmed = Vec::new();
    for (name, value) in variables {
        match as_header(&value) {
            None => return Err(name),
            Some(text) if text.len() < value.len() => {
                trimmed.push((name, text.to_owned()));
            }
            Some(_) => {}
        }
    }
    Ok(trimmed)
}

/// Returns a value without the surrounding blanks and line ends; `None` if a control character
/// remains, which is not valid in an HTTP header.
#[must_use]
pub fn as_header(value: &str) -> Option<&str> {
    let text = value.trim();
    (!text.chars().any(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_go_and_control_characters_are_refused() {
        for (value, wanted) in [
            ("token\n", Some("token")),
            (" to ken\r\n", Some("to ken")),
            ("", Some("")),
            ("to\nken", None),
            ("to\u{7f}ken", None),
        ] {
            assert_eq!(as_header(value), wanted, "{value:?}");
        }
    }
}
