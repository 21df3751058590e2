//! Variables of the environment that a library reads by itself and puts into headers of HTTP: what
//! a header cannot hold makes such libraries panic.

use std::env;

/// The variables whose names begin with `start` and whose values have blanks or line ends around
/// them, without those: a value that was read from a file often ends in a line feed.
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

/// A value without the blanks and line ends around it; `None` where a control character is left,
/// which no header of HTTP holds.
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
