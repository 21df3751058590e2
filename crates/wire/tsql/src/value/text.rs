//! Text in the collation SQL_Latin1_General_CP1_CI_AS: case-insensitive, accent-sensitive, without
//! trailing blanks. Order: marks by code, then digits, then letters.

use std::cmp::Ordering;

use tdekit_wire_tds::code_page::{OWN_PAGE, UTF8_PAGE, encoded};

use super::collation::Order;
use crate::error::{Error, Result};

/// The characters at 0x80 to 0x9f of Windows-1252; 0 if unassigned.
const HIGH: [u32; 32] = [
    0x20ac, 0, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039,
    0x0152, 0, 0x017d, 0, 0, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc,
    0x2122, 0x0161, 0x203a, 0x0153, 0, 0x017e, 0x0178,
];
/// The base letters of 0xc0 to 0xff; a dot if there is none.
const BASES: &[u8; 64] = b"AAAAAA.CEEEEIIII.NOOOOO.OUUUUY..AAAAAA.CEEEEIIII.NOOOOO.OUUUUY.Y";

/// Returns the byte of a character in Windows-1252.
pub(crate) fn to_1252(c: char) -> Option<u8> {
    let code = u32::from(c);
    if code < 0x80 || (0xa0..0x100).contains(&code) {
        return u8::try_from(code).ok();
    }
    if let Some(at) = HIGH.iter().position(|high| *high == code) {
        return u8::try_from(0x80 + at).ok();
    }
    // those that 1252 leaves unassigned
    u8::try_from(code).ok().filter(|byte| matches!(byte, 0x81 | 0x8d | 0x8f | 0x90 | 0x9d))
}

pub(crate) fn from_1252(byte: u8) -> char {
    match byte {
        0x80..=0x9f => {
            let code = HIGH[usize::from(byte - 0x80)];
            if code == 0 { char::from(byte) } else { char::from_u32(code).unwrap_or('?') }
        }
        _ => char::from(byte),
    }
}

/// Returns a text as stored in `varchar` of a code page: `?` for characters that it lacks.
pub(crate) fn narrowed(text: &str, page: u16) -> std::borrow::Cow<'_, str> {
    let has = |c: char| match page {
        OWN_PAGE => to_1252(c).is_some(),
        _ => encoded(page, c).is_some(),
    };
    if text.is_ascii() || text.chars().all(has) {
        return text.into();
    }
    let mut made = String::with_capacity(text.len());
    for c in text.chars() {
        match has(c) {
            true => made.push(c),
            false => made.extend(std::iter::repeat_n('?', c.len_utf16())),
        }
    }
    made.into()
}

/// Returns the size of a `varchar` in bytes.
pub(crate) fn page_bytes(text: &str, page: u16) -> usize {
    match page {
        UTF8_PAGE => text.len(),
        932 | 936 | 949 | 950 if !text.is_ascii() => {
            text.chars().map(|c| encoded(page, c).map_or(1, |(_, length)| length)).sum()
        }
        _ => units(text, false),
    }
}

/// Returns as many whole characters of a `varchar` as fit into these bytes.
pub(crate) fn fitting(text: &str, page: u16, most: usize) -> &str {
    let mut bytes = 0;
    let beyond = text.char_indices().find(|(_, c)| {
        bytes += encoded(page, *c).map_or(1, |(_, length)| length);
        bytes > most
    });
    beyond.map_or(text, |(at, _)| &text[..at])
}

/// Returns the bytes of a `varchar`.
pub(crate) fn to_bytes(text: &str, page: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for c in text.chars() {
        match (page, encoded(page, c)) {
            (OWN_PAGE, _) => out.push(to_1252(c).unwrap_or(b'?')),
            (_, Some((bytes, length))) => out.extend(bytes.iter().take(length)),
            (_, None) => out.push(b'?'),
        }
    }
    out
}

/// Returns the length in units: bytes of `varchar` are characters, as each has one byte.
pub(crate) fn units(text: &str, national: bool) -> usize {
    if text.is_ascii() {
        text.len()
    } else if national {
        text.encode_utf16().count()
    } else {
        text.chars().count()
    }
}

/// Returns the units `start..start + count` of a text.
///
/// # Errors
/// If a surrogate pair would be split, which cannot be represented here.
pub(crate) fn slice(text: &str, start: usize, count: usize, national: bool) -> Result<String> {
    if text.is_ascii() {
        let start = start.min(text.len());
        let end = start.saturating_add(count).min(text.len());
        return Ok(text[start..end].to_owned());
    }
    if !national {
        return Ok(text.chars().skip(start).take(count).collect());
    }
    let units: Vec<u16> = text.encode_utf16().skip(start).take(count).collect();
    String::from_utf16(&units).map_err(|_| Error::feature("half of a surrogate pair"))
}

fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_uppercase();
    }
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => c,
    }
}

/// Returns true if two characters are equal apart from case.
pub(crate) fn same(a: char, b: char) -> bool {
    a == b || fold(a) == fold(b)
}

/// Returns true if a character is in a range of LIKE.
pub(crate) fn between(low: char, c: char, high: char) -> bool {
    let weight = weights(c);
    weights(low) <= weight && weight <= weights(high)
}

/// Returns the weight of the letter, then of its accent.
fn weights(c: char) -> (u32, u32) {
    let upper = fold(c);
    let code = u32::from(upper);
    if upper.is_ascii_uppercase() {
        return (0x2000 + code * 4, 0);
    }
    if upper.is_ascii_digit() {
        return (0x1000 + code, 0);
    }
    if let Some(at) = code.checked_sub(0xc0)
        && let Some(base) = usize::try_from(at).ok().and_then(|at| BASES.get(at))
        && *base != b'.'
    {
        return (0x2000 + u32::from(*base) * 4, code);
    }
    match upper {
        '\u{178}' => (0x2000 + u32::from(b'Y') * 4, code),
        '\u{160}' => (0x2000 + u32::from(b'S') * 4, code),
        '\u{17d}' => (0x2000 + u32::from(b'Z') * 4, code),
        // a separate letter after the one that it resembles
        '\u{c6}' => (0x2000 + u32::from(b'A') * 4 + 1, 0),
        '\u{d0}' => (0x2000 + u32::from(b'D') * 4 + 1, 0),
        '\u{152}' => (0x2000 + u32::from(b'O') * 4 + 1, 0),
        '\u{de}' => (0x2000 + u32::from(b'T') * 4 + 1, 0),
        _ if upper.is_alphabetic() => (0x4000 + code, 0),
        _ if code < 0x1000 => (code, 0),
        _ => (0x20_0000 + code, 0),
    }
}

/// Compares two texts by the collation.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let (letters, accents) = levels(a, b);
    letters.then(accents)
}

/// Compares two texts without their accents.
pub(crate) fn compare_letters(a: &str, b: &str) -> Ordering {
    levels(a, b).0
}

/// Compares letters, then accents.
fn levels(a: &str, b: &str) -> (Ordering, Ordering) {
    let (a, b) = (a.trim_end_matches(' '), b.trim_end_matches(' '));
    if a == b {
        return (Ordering::Equal, Ordering::Equal);
    }
    let mut accents = Ordering::Equal;
    let (mut left, mut right) = (a.chars(), b.chars());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return (Ordering::Equal, accents),
            // the shorter one is treated as padded with blanks
            (None, Some(other)) => match weights(' ').cmp(&weights(other)) {
                Ordering::Equal => {}
                order => return (order, accents),
            },
            (Some(one), None) => match weights(one).cmp(&weights(' ')) {
                Ordering::Equal => {}
                order => return (order, accents),
            },
            (Some(one), Some(other)) => {
                if one == other {
                    continue;
                }
                let ((w1, a1), (w2, a2)) = (weights(one), weights(other));
                if w1 != w2 {
                    return (w1.cmp(&w2), accents);
                }
                accents = accents.then(a1.cmp(&a2));
            }
        }
    }
}

/// One element of a LIKE pattern.
enum Element {
    Any,
    One,
    Char(char),
    Set(bool, Vec<(char, char)>),
}

fn elements(pattern: &str, escape: Option<char>) -> Vec<Element> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        at += 1;
        if Some(c) == escape && at < chars.len() {
            out.push(Element::Char(chars[at]));
            at += 1;
            continue;
        }
        match c {
            '%' => out.push(Element::Any),
            '_' => out.push(Element::One),
            '[' => {
                let Some(length) = chars[at..].iter().skip(1).position(|c| *c == ']') else {
                    // never closed: it matches nothing
                    out.push(Element::Set(false, Vec::new()));
                    return out;
                };
                let mut inner = &chars[at..at + 1 + length];
                at += length + 2;
                let negated = inner.first() == Some(&'^');
                if negated {
                    inner = &inner[1..];
                }
                let mut ranges = Vec::new();
                let mut i = 0;
                while i < inner.len() {
                    if i + 2 < inner.len() && inner[i + 1] == '-' {
                        ranges.push((inner[i], inner[i + 2]));
                        i += 3;
                    } else {
                        ranges.push((inner[i], inner[i]));
                        i += 1;
                    }
                }
                out.push(Element::Set(negated, ranges));
            }
            _ => out.push(Element::Char(c)),
        }
    }
    out
}

/// Returns the bounds of all texts that begin as a LIKE pattern does: those texts are greater than
/// the first and less than the second, in the order of [`compare`]. None if the pattern begins with
/// a wildcard, or if its last letter has no neighbour.
pub(crate) fn prefix_range(pattern: &str, escape: Option<char>) -> Option<(String, String)> {
    let mut prefix = String::new();
    let mut last = None;
    for element in elements(pattern, escape) {
        let Element::Char(c) = element else { break };
        prefix.extend(last.replace(c));
    }
    let last = last?;
    let (below, above) = neighbours(last)?;
    // The lower bound excludes the texts that begin with the letter below, except those that
    // continue with the maximum character.
    Some((format!("{prefix}{below}{}", char::MAX), format!("{prefix}{above}")))
}

/// Returns the nearest characters whose letters weigh less and more than this one's.
fn neighbours(c: char) -> Option<(char, char)> {
    let weight = weights(c).0;
    let code = u32::from(fold(c));
    let near = code.saturating_sub(64)..code.saturating_add(65);
    let candidates = (0x21..0x180).chain(near).filter_map(char::from_u32);
    let (mut below, mut above) = (None, None);
    for candidate in candidates.filter(|candidate| *candidate != ' ') {
        let other = weights(candidate).0;
        if other < weight && below.is_none_or(|(known, _)| other > known) {
            below = Some((other, candidate));
        }
        if other > weight && above.is_none_or(|(known, _)| other < known) {
            above = Some((other, candidate));
        }
    }
    Some((below?.1, above?.1))
}

fn matches_one(element: &Element, c: char, order: &Order) -> bool {
    match element {
        Element::Any => false,
        Element::One => true,
        Element::Char(wanted) => order.same(*wanted, c),
        Element::Set(negated, ranges) => {
            let inside = ranges.iter().any(|(low, high)| order.between(*low, c, *high));
            inside != *negated
        }
    }
}

/// LIKE. The time is bounded by the product of the lengths.
pub(crate) fn like(text: &str, pattern: &str, escape: Option<char>, order: &Order) -> bool {
    let elements = elements(pattern, escape);
    let chars: Vec<char> = text.chars().collect();
    let (mut at, mut element) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if let Some(Element::Any) = elements.get(element) {
            retry = Some((element + 1, at));
            element += 1;
        } else if at < chars.len()
            && elements.get(element).is_some_and(|wanted| matches_one(wanted, chars[at], order))
        {
            at += 1;
            element += 1;
        } else if at == chars.len() && element == elements.len() {
            return true;
        } else if let Some((after, from)) = retry
            && from < chars.len()
        {
            retry = Some((after, from + 1));
            at = from + 1;
            element = after;
        } else {
            return false;
        }
    }
}

/// Returns the position of `needle` in `text` (in characters), searching from `start`.
pub(crate) fn find(text: &[char], needle: &[char], start: usize, order: &Order) -> Option<usize> {
    if needle.is_empty() || needle.len() > text.len() {
        return None;
    }
    (start..=text.len() - needle.len())
        .find(|at| needle.iter().zip(&text[*at..]).all(|(a, b)| order.same(*a, *b)))
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::{
        UTF8_PAGE, compare, fitting, from_1252, narrowed, page_bytes, prefix_range, to_1252,
        to_bytes,
    };
    use crate::value::collation::Order;

    fn like(text: &str, pattern: &str, escape: Option<char>) -> bool {
        super::like(text, pattern, escape, &Order::default())
    }

    #[test]
    fn collation() {
        assert_eq!(compare("abc  ", "ABC"), Ordering::Equal);
        assert_eq!(compare("abc", "abd"), Ordering::Less);
        assert_eq!(compare("é", "e"), Ordering::Greater);
        assert_eq!(compare("éa", "eb"), Ordering::Less);
        assert_eq!(compare("_", "a"), Ordering::Less);
        assert_eq!(compare("9", "a"), Ordering::Less);
        assert_eq!(compare("É", "é"), Ordering::Equal);
        assert_eq!(compare("a\t", "a"), Ordering::Less);
    }

    #[test]
    fn patterns() {
        assert!(like("test01-x", "TEST%", None));
        assert!(like("a%b", "a!%b", Some('!')));
        assert!(!like("axb", "a!%b", Some('!')));
        assert!(like("abc", "[a-c]b[^d]", None));
        assert!(!like("abd", "[a-c]b[^d]", None));
        assert!(like("", "%", None));
        assert!(!like("", "_", None));
        assert!(like("a]", "a[]]", None));
        assert!(!like(&"a".repeat(2000), &format!("{}b", "%a".repeat(200)), None));
    }

    #[test]
    fn ranges_hold_what_their_pattern_finds() {
        let letters: Vec<char> = (0..0x250)
            .chain(0x400..0x460)
            .chain([0x2020, 0x20ac, 0xfffd, 0x1_f600, 0x10_ffff])
            .filter_map(char::from_u32)
            .collect();
        let tails = ["", " ", "\0", "\0\0\0", "\t", "zz", "\u{10ffff}\u{10ffff}x", "Ü"];
        for c in &letters {
            for head in ["", "ab", "a ", "ÿ"] {
                let pattern = format!("{head}!{c}%");
                let Some((low, high)) = prefix_range(&pattern, Some('!')) else {
                    assert!(matches!(c, '\0' | '\u{10ffff}'), "{c:?}");
                    continue;
                };
                for other in letters.iter().filter(|other| super::same(**other, *c)) {
                    for tail in tails {
                        let found = format!("{head}{other}{tail}");
                        assert!(like(&found, &pattern, Some('!')));
                        assert_eq!(compare(&found, &low), Ordering::Greater, "{found:?} {low:?}");
                        assert_eq!(compare(&found, &high), Ordering::Less, "{found:?} {high:?}");
                    }
                }
            }
        }
        let bounds = |pattern: &str| prefix_range(pattern, None);
        assert_eq!(bounds("ab%"), Some(("aÆ\u{10ffff}".to_owned(), "aC".to_owned())));
        for none in ["", "%a", "_a", "[a]b"] {
            assert_eq!(bounds(none), None);
        }
    }

    #[test]
    fn code_page_goes_round() {
        for byte in 0..=255 {
            assert_eq!(to_1252(from_1252(byte)), Some(byte));
        }
        assert_eq!(narrowed("a€ж", 1252), "a€?");
        assert_eq!(narrowed("ж€é😀", 1251), "ж€???");
        assert_eq!((page_bytes("aあ", 932), page_bytes("aあ", UTF8_PAGE)), (3, 4));
        assert_eq!((fitting("aあい", 932, 4), fitting("ab", 932, 4)), ("aあ", "ab"));
        assert_eq!(to_bytes("aжé", 1251), [b'a', 0xe6, b'?']);
    }
}
