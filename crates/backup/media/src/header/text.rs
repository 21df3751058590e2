//! Texts of a header.

/// Maximum length of a text in a header, in bytes of UTF-8.
pub const MAX_TEXT_LEN: usize = 4096;

/// Prepares `text` for a header: control characters become U+FFFD, and text longer than
/// [`MAX_TEXT_LEN`] is cut at a character boundary.
#[must_use]
pub fn clean_text(text: &str) -> String {
    let mut clean = String::with_capacity(text.len().min(MAX_TEXT_LEN));
    for mut char in text.chars() {
        if char.is_control() {
            char = char::REPLACEMENT_CHARACTER;
        }
        if clean.len() + char.len_utf8() > MAX_TEXT_LEN {
            break;
        }
        clean.push(char);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced_and_long_texts_cut() {
        assert_eq!(clean_text("a\u{1b}[2Jb\n"), "a\u{FFFD}[2Jb\u{FFFD}");
        assert_eq!(clean_text(&"é".repeat(MAX_TEXT_LEN)), "é".repeat(MAX_TEXT_LEN / 2));
        let odd = format!("x{}", "é".repeat(MAX_TEXT_LEN));
        assert_eq!(clean_text(&odd).len(), MAX_TEXT_LEN - 1);
    }
}
