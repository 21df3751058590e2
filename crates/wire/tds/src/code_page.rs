//! Windows-1252, the code page of the server's collation. 0x80 to 0x9F differ from Latin-1; the
//! five unassigned codes stand for the control characters of the same number.

const HIGH: [char; 32] = [
    '\u{20AC}', '\u{81}', '\u{201A}', '\u{192}', '\u{201E}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2C6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8D}', '\u{17D}', '\u{8F}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201C}', '\u{201D}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2DC}', '\u{2122}', '\u{161}', '\u{203A}', '\u{153}', '\u{9D}', '\u{17E}', '\u{178}',
];

/// Returns the text of `bytes`.
pub(crate) fn decode(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes)
        && text.is_ascii()
    {
        return text.to_owned();
    }
    let char = |byte: &u8| match byte {
        0x80..=0x9F => HIGH.get(usize::from(byte - 0x80)).copied().unwrap_or('?'),
        _ => char::from(*byte),
    };
    bytes.iter().map(char).collect()
}

/// Appends `text`; `?` stands for characters that the code page lacks, as on SQL Server. Returns
/// the number of bytes.
pub(crate) fn put(out: &mut Vec<u8>, text: &str) -> usize {
    if text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
        return text.len();
    }
    let start = out.len();
    out.extend(text.chars().map(|char| match u8::try_from(char) {
        Ok(byte @ (0..=0x7F | 0xA0..=0xFF)) => byte,
        _ => match HIGH.iter().position(|high| *high == char) {
            Some(at) => u8::try_from(0x80 + at).unwrap_or(b'?'),
            None => b'?',
        },
    }));
    out.len() - start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        let mut out = Vec::new();
        assert_eq!(put(&mut out, &decode(&all)), 256);
        assert_eq!(out, all);
    }

    #[test]
    fn what_it_lacks_becomes_a_question_mark() {
        let mut out = Vec::new();
        put(&mut out, "€ \u{3A9}é");
        assert_eq!(out, [0x80, b' ', b'?', 0xE9]);
    }
}
