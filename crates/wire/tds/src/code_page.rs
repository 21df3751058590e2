//! Code pages of `char`, `varchar` and `text`.
//!
//! In Windows-1252, that of the server's collation, 0x80 to 0x9F differ from Latin-1; the five
//! unassigned codes stand for the control characters of the same number. The others are those of
//! the Encoding Standard.

use encoding_rs::{EncoderResult, Encoding};

/// The server's own.
pub const OWN_PAGE: u16 = 1252;
/// UTF-8.
pub const UTF8_PAGE: u16 = 65001;

const HIGH: [char; 32] = [
    '\u{20AC}', '\u{81}', '\u{201A}', '\u{192}', '\u{201E}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2C6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8D}', '\u{17D}', '\u{8F}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201C}', '\u{201D}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2DC}', '\u{2122}', '\u{161}', '\u{203A}', '\u{153}', '\u{9D}', '\u{17E}', '\u{178}',
];

fn encoding(page: u16) -> Option<&'static Encoding> {
    Some(match page {
        874 => encoding_rs::WINDOWS_874,
        932 => encoding_rs::SHIFT_JIS,
        936 => encoding_rs::GBK,
        949 => encoding_rs::EUC_KR,
        950 => encoding_rs::BIG5,
        1250 => encoding_rs::WINDOWS_1250,
        1251 => encoding_rs::WINDOWS_1251,
        1253 => encoding_rs::WINDOWS_1253,
        1254 => encoding_rs::WINDOWS_1254,
        1255 => encoding_rs::WINDOWS_1255,
        1256 => encoding_rs::WINDOWS_1256,
        1257 => encoding_rs::WINDOWS_1257,
        1258 => encoding_rs::WINDOWS_1258,
        _ => return None,
    })
}

/// Returns the text of `bytes` in a code page; U+FFFD stands for what it does not have.
#[must_use]
pub fn decode(page: u16, bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes)
        && (text.is_ascii() || page == UTF8_PAGE)
    {
        return text.to_owned();
    }
    if let Some(encoding) = encoding(page) {
        return encoding.decode_without_bom_handling(bytes).0.into_owned();
    }
    let char = |byte: &u8| match byte {
        0x80..=0x9F => HIGH.get(usize::from(byte - 0x80)).copied().unwrap_or('?'),
        _ => char::from(*byte),
    };
    bytes.iter().map(char).collect()
}

/// Returns the bytes of a character in a code page, and their number; None if it lacks it.
#[must_use]
pub fn encoded(page: u16, char: char) -> Option<([u8; 4], usize)> {
    let mut bytes = [0; 4];
    if char.is_ascii() || page == UTF8_PAGE {
        let length = char.encode_utf8(&mut bytes).len();
        return Some((bytes, length));
    }
    if let Some(encoding) = encoding(page) {
        let mut source = [0; 4];
        let source = char.encode_utf8(&mut source);
        let mut room = [0; 16];
        let mut encoder = encoding.new_encoder();
        let (result, _, length) =
            encoder.encode_from_utf8_without_replacement(source, &mut room, true);
        let found = room.get(..length).filter(|_| result == EncoderResult::InputEmpty)?;
        bytes.get_mut(..length)?.copy_from_slice(found);
        return Some((bytes, length));
    }
    let byte = match u8::try_from(char) {
        Ok(byte @ (0..=0x7F | 0xA0..=0xFF)) => byte,
        _ => {
            let at = HIGH.iter().position(|high| *high == char)?;
            u8::try_from(0x80 + at).ok()?
        }
    };
    bytes[0] = byte;
    Some((bytes, 1))
}

/// Appends as much of `text` as fits into `most` bytes; `?` stands for characters that the code
/// page lacks, as on SQL Server. Returns the number of bytes.
pub(crate) fn put(out: &mut Vec<u8>, page: u16, text: &str, most: usize) -> usize {
    let start = out.len();
    if text.is_ascii() && text.len() <= most {
        out.extend_from_slice(text.as_bytes());
        return text.len();
    }
    for char in text.chars() {
        let (bytes, length) = encoded(page, char).unwrap_or(([b'?', 0, 0, 0], 1));
        if out.len() - start + length > most {
            break;
        }
        out.extend(bytes.iter().take(length));
    }
    out.len() - start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        let mut out = Vec::new();
        assert_eq!(put(&mut out, OWN_PAGE, &decode(OWN_PAGE, &all), 999), 256);
        assert_eq!(out, all);
    }

    #[test]
    fn what_it_lacks_becomes_a_question_mark() {
        let mut out = Vec::new();
        put(&mut out, OWN_PAGE, "€ \u{3A9}é", 9);
        assert_eq!(out, [0x80, b' ', b'?', 0xE9]);
    }

    /// The bytes that Windows has for these texts.
    #[test]
    fn pages_are_those_of_windows() {
        let cases: [(u16, &str, &[u8]); 12] = [
            (874, "ก€", &[0xA1, 0x80]),
            (932, "あｱ", &[0x82, 0xA0, 0xB1]),
            (936, "中€", &[0xD6, 0xD0, 0x80]),
            (949, "한", &[0xC7, 0xD1]),
            (950, "中", &[0xA4, 0xA4]),
            (1250, "Łő", &[0xA3, 0xF5]),
            (1251, "Жё", &[0xC6, 0xB8]),
            (1253, "Ω", &[0xD9]),
            (1254, "İş", &[0xDD, 0xFE]),
            (1255, "א", &[0xE0]),
            (1257, "ė", &[0xEB]),
            (UTF8_PAGE, "Жé", &[0xD0, 0x96, 0xC3, 0xA9]),
        ];
        for (page, text, bytes) in cases {
            let mut out = Vec::new();
            put(&mut out, page, text, 9);
            assert_eq!(out, bytes, "{page}");
            assert_eq!(decode(page, bytes), text, "{page}");
        }
        // no half of a character
        let mut out = Vec::new();
        assert_eq!(put(&mut out, 932, "aあい", 4), 3);
        assert_eq!(encoded(1251, 'é'), None);
    }
}
