//! Collations by their names: locale, code page and what they distinguish. Source: the
//! documentation of Windows collations, of COLLATIONPROPERTY, and MS-TDS 2.2.5.1.2.

use crate::code_page::{OWN_PAGE, UTF8_PAGE};

/// A group of collations that differ in what they distinguish.
#[derive(Debug)]
struct Family {
    name: &'static str,
    /// Windows' number of the locale.
    lcid: u32,
    /// The code page of `char`, `varchar` and `text`.
    page: u16,
    /// Indices in [`SUFFIXES`].
    versions: &'static [u8],
    /// The locale in Unicode's data, whose order is used.
    locale: &'static str,
}

/// The parts of a name that state a version.
const SUFFIXES: [&str; 4] = ["", "_90", "_100", "_140"];
const FIRST: &[u8] = &[0];
const FIRST_90: &[u8] = &[0, 1];
const FIRST_100: &[u8] = &[0, 2];
const ONLY_100: &[u8] = &[2];

const CASE: u16 = 1;
const ACCENT: u16 = 2;
const KANA: u16 = 4;
const WIDTH: u16 = 8;
const SUPPLEMENTARY: u16 = 16;
const UTF8: u16 = 32;
const VARIATION: u16 = 64;
const BINARY: u16 = 128;
const BINARY2: u16 = 256;

const fn family(
    name: &'static str,
    (lcid, page): (u32, u16),
    versions: &'static [u8],
    locale: &'static str,
) -> Family {
    Family { name, lcid, page, versions, locale }
}

/// The families; the first is the server's, with rules of its own. A script's own locale would
/// put it before Latin, which SQL Server does not do: the root has Latin first.
const FAMILIES: &[Family] = &[
    family("SQL_Latin1_General_CP1", (1033, 1252), FIRST, ""),
    family("Latin1_General", (1033, 1252), FIRST_100, "und"),
    family("Albanian", (1052, 1250), FIRST_100, "sq"),
    family("Arabic", (1025, 1256), FIRST_100, "und"),
    family("Chinese_PRC", (2052, 936), FIRST_90, "zh"),
    family("Chinese_PRC_Stroke", (133_124, 936), FIRST_90, "zh-u-co-stroke"),
    family("Chinese_Simplified_Pinyin", (2052, 936), ONLY_100, "zh"),
    family("Chinese_Simplified_Stroke_Order", (133_124, 936), ONLY_100, "zh-u-co-stroke"),
    family("Chinese_Taiwan_Stroke", (1028, 950), FIRST_90, "zh-Hant"),
    family("Chinese_Traditional_Stroke_Count", (1028, 950), ONLY_100, "zh-Hant"),
    family("Croatian", (1050, 1250), FIRST_100, "hr"),
    family("Cyrillic_General", (1049, 1251), FIRST_100, "und"),
    family("Czech", (1029, 1250), FIRST_100, "cs"),
    family("Danish_Greenlandic", (1030, 1252), ONLY_100, "da"),
    family("Danish_Norwegian", (1030, 1252), FIRST, "da"),
    family("Estonian", (1061, 1257), FIRST_100, "et"),
    family("Finnish_Swedish", (1035, 1252), FIRST_100, "fi"),
    family("French", (1036, 1252), FIRST_100, "fr-CA"),
    family("German_PhoneBook", (66_567, 1252), FIRST_100, "de-u-co-phonebk"),
    family("Greek", (1032, 1253), FIRST_100, "und"),
    family("Hebrew", (1037, 1255), FIRST_100, "und"),
    family("Hungarian", (1038, 1250), FIRST_100, "hu"),
    family("Icelandic", (1039, 1252), FIRST_100, "is"),
    family("Japanese", (1041, 932), FIRST_90, "ja"),
    family("Japanese_XJIS", (1041, 932), &[2, 3], "ja"),
    family("Korean", (1042, 949), &[1, 2], "und"),
    family("Korean_Wansung", (1042, 949), FIRST, "und"),
    family("Latvian", (1062, 1257), FIRST_100, "lv"),
    family("Lithuanian", (1063, 1257), FIRST_100, "lt"),
    family("Modern_Spanish", (3082, 1252), FIRST_100, "es"),
    family("Norwegian", (1044, 1252), ONLY_100, "nb"),
    family("Polish", (1045, 1250), FIRST_100, "pl"),
    family("Romanian", (1048, 1250), FIRST_100, "ro"),
    family("Slovak", (1051, 1250), FIRST_100, "sk"),
    family("Slovenian", (1060, 1250), FIRST_100, "sl"),
    family("Thai", (1054, 874), FIRST_100, "und"),
    family("Traditional_Spanish", (1034, 1252), FIRST_100, "es-u-co-trad"),
    family("Turkish", (1055, 1254), FIRST_100, "tr"),
    family("Ukrainian", (1058, 1251), FIRST_100, "und"),
    family("Vietnamese", (1066, 1258), FIRST_100, "vi"),
];

/// A collation that has a name; the default is the server's, SQL_Latin1_General_CP1_CI_AS.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Collation {
    family: u8,
    version: u8,
    style: u16,
}

impl Default for Collation {
    fn default() -> Collation {
        Collation { family: 0, version: 0, style: ACCENT }
    }
}

impl std::fmt::Debug for Collation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Collation {
    /// Returns the collation of this name, in any case; None if there is none.
    #[must_use]
    pub fn parse(name: &str) -> Option<Collation> {
        let begins = |of: &Family| {
            name.get(..of.name.len()).is_some_and(|start| start.eq_ignore_ascii_case(of.name))
        };
        let families = (0_u8..).zip(FAMILIES).filter(|(_, of)| begins(of));
        let mut members = families.flat_map(|(family, of)| members(family, of));
        members.find(|known| known.name().eq_ignore_ascii_case(name))
    }

    /// Returns all collations.
    pub fn all() -> impl Iterator<Item = Collation> {
        (0_u8..).zip(FAMILIES).flat_map(|(family, of)| members(family, of))
    }

    fn of(self) -> &'static Family {
        FAMILIES.get(usize::from(self.family)).unwrap_or(&FAMILIES[0])
    }

    fn has(self, style: u16) -> bool {
        self.style & style != 0
    }

    /// Returns the name as SQL Server writes it.
    #[must_use]
    pub fn name(self) -> String {
        let suffix = SUFFIXES.get(usize::from(self.version)).copied().unwrap_or_default();
        let mut name = format!("{}{suffix}", self.of().name);
        if self.is_binary() {
            name.push_str(if self.has(BINARY2) { "_BIN2" } else { "_BIN" });
        } else {
            name.push_str(if self.has(CASE) { "_CS" } else { "_CI" });
            name.push_str(if self.has(ACCENT) { "_AS" } else { "_AI" });
        }
        let more = [(KANA, "_KS"), (WIDTH, "_WS"), (SUPPLEMENTARY, "_SC"), (VARIATION, "_VSS")];
        for (style, text) in more.into_iter().chain([(UTF8, "_UTF8")]) {
            if self.has(style) {
                name.push_str(text);
            }
        }
        name
    }

    /// Returns the description of `fn_helpcollations`.
    #[must_use]
    pub fn description(self) -> String {
        let of = self.of();
        let suffix = SUFFIXES.get(usize::from(self.version)).copied().unwrap_or_default();
        let name = if self.is_sql() { "Latin1_General" } else { of.name };
        let mut text = format!("{name}{suffix}").replace('_', "-");
        match (self.has(BINARY), self.has(BINARY2)) {
            (true, _) => text.push_str(", binary sort"),
            (_, true) => text.push_str(", binary code point comparison sort"),
            _ => {
                let parts =
                    [(CASE, "case"), (ACCENT, "accent"), (KANA, "kanatype"), (WIDTH, "width")];
                for (style, part) in parts {
                    let is = if self.has(style) { "sensitive" } else { "insensitive" };
                    text.push_str(&format!(", {part}-{is}"));
                }
            }
        }
        if self.has(SUPPLEMENTARY) || self.version == 3 && !self.is_binary() {
            text.push_str(", supplementary characters");
        }
        if self.version == 3 && !self.is_binary() {
            let is = if self.has(VARIATION) { "sensitive" } else { "insensitive" };
            text.push_str(&format!(", variation selector {is}"));
        }
        if self.has(UTF8) {
            text.push_str(", UTF8");
        }
        if self.is_sql() {
            let sort = self.sort_id();
            text.push_str(&format!(
                " for Unicode Data, SQL Server Sort Order {sort} on Code Page {} for non-Unicode \
                Data",
                of.page
            ));
        }
        text
    }

    /// Returns true if it orders by code points.
    #[must_use]
    pub fn is_binary(self) -> bool {
        self.has(BINARY | BINARY2)
    }

    /// Returns true for the collations whose names begin with `SQL_`.
    #[must_use]
    pub fn is_sql(self) -> bool {
        self.family == 0
    }

    /// Returns true if upper and lower case differ.
    #[must_use]
    pub fn case_sensitive(self) -> bool {
        self.has(CASE) || self.is_binary()
    }

    /// Returns true if letters differ by their accents.
    #[must_use]
    pub fn accent_sensitive(self) -> bool {
        self.has(ACCENT) || self.is_binary()
    }

    /// Returns true if hiragana and katakana differ.
    #[must_use]
    pub fn kana_sensitive(self) -> bool {
        self.has(KANA) || self.is_binary()
    }

    /// Returns true if characters of half and full width differ.
    #[must_use]
    pub fn width_sensitive(self) -> bool {
        self.has(WIDTH) || self.is_binary()
    }

    /// Returns the locale of Unicode's order.
    #[must_use]
    pub fn locale(self) -> &'static str {
        self.of().locale
    }

    /// Returns the code page, 65001 for UTF-8.
    #[must_use]
    pub fn code_page(self) -> u16 {
        if self.has(UTF8) { UTF8_PAGE } else { self.of().page }
    }

    /// Returns the collation that five bytes on the wire mean; None if it is not known.
    #[must_use]
    pub fn of_bytes(bytes: [u8; 5]) -> Option<Collation> {
        Collation::all().find(|known| known.bytes() == bytes)
    }

    /// Returns the code page that five bytes on the wire mean; the server's for those that are not
    /// known.
    #[must_use]
    pub fn page_of_bytes(bytes: [u8; 5]) -> u16 {
        let [a, b, c, d, sort] = bytes;
        let word = u32::from_le_bytes([a, b, c, d]);
        if word & 1 << 26 != 0 {
            return UTF8_PAGE;
        }
        match sort {
            0 => {
                let known = FAMILIES.iter().find(|of| of.lcid & 0xFFFF == word & 0xFFFF);
                known.map_or(OWN_PAGE, |of| of.page)
            }
            80..=96 => 1250,
            104..=108 => 1251,
            112..=124 => 1253,
            128..=130 => 1254,
            136..=138 => 1255,
            144..=146 => 1256,
            152..=160 => 1257,
            192 | 193 | 200 => 932,
            194 | 195 | 201 => 949,
            196 | 197 | 202 => 950,
            198 | 199 | 203 => 936,
            204..=206 => 874,
            _ => OWN_PAGE,
        }
    }

    /// Returns Windows' number of the locale.
    #[must_use]
    pub fn lcid(self) -> u32 {
        self.of().lcid
    }

    /// Returns the version: 0, then 1 for `_90`, 2 for `_100` and 3 for `_140`.
    #[must_use]
    pub fn version(self) -> u8 {
        self.version
    }

    /// Returns the style of `COLLATIONPROPERTY`: bits for what does not count.
    #[must_use]
    pub fn comparison_style(self) -> u32 {
        let bit = |counts: bool, bit| if counts { 0 } else { bit };
        bit(self.case_sensitive(), 1)
            | bit(self.accent_sensitive(), 2)
            | bit(self.kana_sensitive(), 0x1_0000)
            | bit(self.width_sensitive(), 0x2_0000)
    }

    /// Returns SQL Server's number of the order, 0 for Windows collations.
    #[must_use]
    pub fn sort_id(self) -> u8 {
        match (self.is_sql(), self.has(CASE), self.has(ACCENT)) {
            (false, ..) => 0,
            (_, true, _) => 51,
            (_, false, true) => 52,
            (_, false, false) => 54,
        }
    }

    /// Returns the five bytes that describe it on the wire.
    #[must_use]
    pub fn bytes(self) -> [u8; 5] {
        let bit = |is: bool, at: u32| u32::from(is) << at;
        let mut word = self.lcid() & 0xF_FFFF;
        word |= bit(!self.case_sensitive(), 20) | bit(!self.accent_sensitive(), 21);
        word |= bit(!self.kana_sensitive(), 22) | bit(!self.width_sensitive(), 23);
        word |= bit(self.has(BINARY), 24) | bit(self.has(BINARY2), 25) | bit(self.has(UTF8), 26);
        word |= u32::from(self.version) << 28;
        let [a, b, c, d] = word.to_le_bytes();
        [a, b, c, d, self.sort_id()]
    }
}

fn members(family: u8, of: &'static Family) -> impl Iterator<Item = Collation> {
    of.versions.iter().flat_map(move |version| {
        let styles = styles(family, *version).into_iter();
        styles.map(move |style| Collation { family, version: *version, style })
    })
}

/// Returns the styles that the collations of a family have.
fn styles(family: u8, version: u8) -> Vec<u16> {
    if family == 0 {
        return vec![ACCENT, CASE | ACCENT, 0];
    }
    let mut styles = vec![BINARY, BINARY2];
    if version >= 2 {
        styles.push(BINARY2 | UTF8);
    }
    for base in 0..16 {
        let more: &[u16] = match version {
            0 => &[0],
            3 => &[0, VARIATION, UTF8, VARIATION | UTF8],
            _ => &[0, SUPPLEMENTARY, SUPPLEMENTARY | UTF8],
        };
        styles.extend(more.iter().map(|more| base | more));
    }
    styles
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_are_found() {
        let mut seen = HashSet::new();
        for known in Collation::all() {
            assert!(seen.insert(known.name()), "{known:?}");
            // it stands in the declared type of a column, whose affinity is that of text
            assert!(!known.name().to_lowercase().contains("int"), "{known:?}");
        }
        for known in Collation::all().step_by(37) {
            assert_eq!(Collation::parse(&known.name().to_lowercase()), Some(known));
        }
        let wrong = ["Latin1_General_90_CI_AS", "Latin1_General_CI_AS_SC", "Korean_CI_AS", "x", ""];
        for name in wrong.into_iter().chain(["SQL_Latin1_General_CP1_BIN2", "Latin1_General_CI"]) {
            assert_eq!(Collation::parse(name), None, "{name}");
        }
        for known in Collation::all() {
            assert_eq!(Collation::page_of_bytes(known.bytes()), known.code_page(), "{known:?}");
        }
        assert_eq!(Collation::default().name(), crate::product::COLLATION);
        assert_eq!(Collation::default().bytes(), crate::type_info::COLLATION);
    }

    /// As SQL Server has them.
    #[test]
    fn properties_are_sql_servers() {
        let of = |name: &str| Collation::parse(name).unwrap();
        let facts = |name: &str| {
            let found = of(name);
            let (page, lcid) = (found.code_page(), found.lcid());
            (page, lcid, found.comparison_style(), found.version(), found.sort_id())
        };
        assert_eq!(facts("SQL_Latin1_General_CP1_CI_AS"), (1252, 1033, 196_609, 0, 52));
        assert_eq!(facts("Latin1_General_100_CS_AI"), (1252, 1033, 196_610, 2, 0));
        assert_eq!(facts("Japanese_XJIS_140_CI_AS_KS_WS_VSS"), (932, 1041, 1, 3, 0));
        assert_eq!(facts("German_PhoneBook_BIN2"), (1252, 66_567, 0, 0, 0));
        assert_eq!(facts("Polish_100_CI_AI_SC_UTF8"), (65001, 1045, 196_611, 2, 0));
        assert_eq!(of("Cyrillic_General_CI_AS").bytes(), [0x19, 0x04, 0xD0, 0, 0]);
        assert_eq!(of("Latin1_General_100_BIN2_UTF8").bytes(), [0x09, 0x04, 0, 0x26, 0]);
        assert_eq!(
            of("SQL_Latin1_General_CP1_CI_AS").description(),
            "Latin1-General, case-insensitive, accent-sensitive, kanatype-insensitive, \
            width-insensitive for Unicode Data, SQL Server Sort Order 52 on Code Page 1252 for \
            non-Unicode Data"
        );
        assert_eq!(of("Greek_BIN2").description(), "Greek, binary code point comparison sort");
    }
}
