//! Names that fit into their space: a picture cannot measure its reader's font, so widths are those
//! of a wide one.

/// Breaks a text into at most `lines` lines; what is left out is an ellipsis. Size of the letters
/// and width are in pixels.
pub(super) fn fit(text: &str, (size, width): (i32, i32), lines: i32) -> Vec<String> {
    let room = f64::from(width) / f64::from(size.max(1));
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if wide(rest) <= room {
            found.push(rest.to_owned());
            break;
        }
        let last = i32::try_from(found.len()).is_ok_and(|count| count + 1 >= lines);
        let (line, behind) = split(rest, if last { room - letter('…') } else { room }, !last);
        if last {
            found.push(format!("{}…", line.trim_end()));
            break;
        }
        found.push(line.trim_end().to_owned());
        rest = behind.trim_start();
    }
    found
}

/// Splits off what fits, at least a letter, if possible `between` words.
fn split(text: &str, room: f64, between: bool) -> (&str, &str) {
    let mut used = 0.0;
    let mut end = 0;
    for (at, one) in text.char_indices() {
        used += letter(one);
        if used > room && end > 0 {
            break;
        }
        end = at + one.len_utf8();
    }
    let word = text[..end].rfind(' ').filter(|at| between && *at > 0);
    text.split_at(word.unwrap_or(end))
}

fn wide(text: &str) -> f64 {
    text.chars().map(letter).sum()
}

/// Width of a letter, in parts of its size.
fn letter(one: char) -> f64 {
    match one {
        'i' | 'j' | 'l' | 'f' | 't' | 'r' | 'I' | '.' | ',' | ':' | ';' | '|' | '!' | '(' | ')'
        | '[' | ']' | '/' | '-' | ' ' | '\'' => 0.40,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 1.0,
        'A'..='Z' => 0.74,
        ' '..='~' => 0.64,
        // Scripts with letters as wide as they are high.
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_broken_then_cut() {
        assert_eq!(fit("short", (13, 200), 2), ["short"]);
        let long = "SELECT name FROM customers WHERE city = 'Aachen' ORDER BY name LIMIT 10";
        let two = fit(long, (13, 216), 2);
        assert_eq!(two.len(), 2);
        assert!(long.starts_with(&two[0]) && two[1].ends_with('…'), "{two:?}");
        assert!(two.iter().all(|line| wide(line) * 13.0 <= 216.0), "{two:?}");
        let one = fit(long, (13, 200), 1);
        assert!(one.len() == 1 && one[0].ends_with('…') && wide(&one[0]) * 13.0 <= 200.0);
    }

    #[test]
    fn a_word_without_end_and_no_space_at_all_are_cut() {
        assert_eq!(fit(&"x".repeat(500), (13, 216), 3).len(), 3);
        assert_eq!(fit("ééé", (13, 0), 1), ["é…"]);
        assert!(fit("", (13, 100), 1).is_empty());
    }
}
