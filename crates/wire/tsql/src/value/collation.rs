//! The order of text in every collation. That of SQL_Latin1_General_CP1 is in [`text`], binary ones
//! compare code points, and all others take Unicode's order of their locale.
//!
//! Indexes of databases depend on these orders. Another order needs another name of its collation
//! in SQLite ([`sqlite_name`]).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{OnceLock, PoisonError, RwLock};

use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, Strength};
use icu_collator::{Collator, CollatorBorrowed};
use icu_locale_core::Locale;
use rusqlite::Connection;
use tdekit_wire_tds::messages::CollationError;
use tdekit_wire_tds::{Collation, SqlType};

use super::{is_text, text};
use crate::error::Result;

/// The collation of SQLite that stands for the server's own.
pub(crate) const OWN: &str = "TSQL";
/// Before the name of any other.
const PREFIX: &str = "TSQL_";

/// Names of the database's and the server's collation, which are the same.
const DEFAULTS: [&str; 2] = ["DATABASE_DEFAULT", "CATALOG_DEFAULT"];

/// # Errors
/// 448 for an unknown name.
pub(crate) fn named(name: &str) -> Result<Collation> {
    if DEFAULTS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(Collation::default());
    }
    let unknown = || CollationError::Unknown { name: name.to_owned() }.into();
    Collation::parse(name).ok_or_else(unknown)
}

/// Returns the name of a collation in SQLite's text.
pub(crate) fn sqlite_name(collation: Collation) -> String {
    if collation == Collation::default() {
        OWN.to_owned()
    } else {
        format!("{PREFIX}{}", collation.name())
    }
}

/// Returns the collation of a column of this type in SQLite's text.
pub(crate) fn clause(ty: SqlType, collation: Collation) -> String {
    if is_text(ty) { format!(" COLLATE {}", sqlite_name(collation)) } else { String::new() }
}

/// Gives a connection the collation that a statement asks for, if it is one of these.
pub(crate) fn provide(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    let known = name.split_at_checked(PREFIX.len());
    let known = known.filter(|(prefix, _)| prefix.eq_ignore_ascii_case(PREFIX));
    match known.and_then(|(_, name)| Collation::parse(name)) {
        Some(collation) => {
            let order = Order::of(collation);
            connection.create_collation(name, move |a: &str, b: &str| order.compare(a, b))
        }
        // SQLite reports that there is none
        None => Ok(()),
    }
}

/// The order of one collation.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    collation: Collation,
    rule: Rule,
}

#[derive(Clone, Copy)]
enum Rule {
    /// SQL_Latin1_General_CP1.
    Own,
    Binary,
    Unicode(&'static CollatorBorrowed<'static>),
}

impl Default for Order {
    fn default() -> Order {
        Order::of(Collation::default())
    }
}

impl Order {
    pub(crate) fn of(collation: Collation) -> Order {
        let rule = if collation.is_binary() {
            Rule::Binary
        } else if collation.is_sql() {
            Rule::Own
        } else {
            unicode(collation).map_or(Rule::Binary, Rule::Unicode)
        };
        Order { collation, rule }
    }

    /// Compares two texts; blanks at the end do not count.
    pub(crate) fn compare(&self, a: &str, b: &str) -> Ordering {
        if self.collation == Collation::default() {
            return text::compare(a, b);
        }
        let (a, b) = (a.trim_end_matches(' '), b.trim_end_matches(' '));
        if a == b {
            return Ordering::Equal;
        }
        self.exact(a, b)
    }

    /// Compares two characters, as ranges of LIKE do.
    pub(crate) fn compare_chars(&self, a: char, b: char) -> Ordering {
        match self.rule {
            Rule::Binary => a.cmp(&b),
            _ if a == b => Ordering::Equal,
            _ => self.exact(a.encode_utf8(&mut [0; 4]), b.encode_utf8(&mut [0; 4])),
        }
    }

    /// Returns true if two characters are equal.
    pub(crate) fn same(&self, a: char, b: char) -> bool {
        if self.collation == Collation::default() {
            return text::same(a, b);
        }
        a == b || self.compare_chars(a, b) == Ordering::Equal
    }

    /// Returns true if a character is in a range of LIKE.
    pub(crate) fn between(&self, low: char, c: char, high: char) -> bool {
        if self.collation == Collation::default() {
            return text::between(low, c, high);
        }
        self.compare_chars(low, c).is_le() && self.compare_chars(c, high).is_le()
    }

    fn exact(&self, a: &str, b: &str) -> Ordering {
        match self.rule {
            Rule::Own => self.own(a, b),
            Rule::Binary => binary(a, b),
            Rule::Unicode(collator) => self.by_unicode(collator, a, b),
        }
    }

    /// The same letters differ by accents, then by case: upper case is first.
    fn own(&self, a: &str, b: &str) -> Ordering {
        let letters = text::compare_letters(a, b);
        let accents = || match self.collation.accent_sensitive() {
            true => text::compare(a, b),
            false => Ordering::Equal,
        };
        let case = || match self.collation.case_sensitive() {
            true => a.chars().cmp(b.chars()),
            false => Ordering::Equal,
        };
        letters.then_with(accents).then_with(case)
    }

    fn by_unicode(&self, collator: &CollatorBorrowed<'static>, a: &str, b: &str) -> Ordering {
        let (case, kana) = (self.collation.case_sensitive(), self.collation.kana_sensitive());
        let width = self.collation.width_sensitive();
        // Unicode distinguishes kana and widths where it distinguishes case
        let order = match case && !(kana && width) && !(a.is_ascii() && b.is_ascii()) {
            true => {
                let plain = |text: &str| -> String {
                    text.chars().map(|c| folded(c, !kana, !width)).collect()
                };
                collator.compare(&plain(a), &plain(b))
            }
            false => collator.compare(a, b),
        };
        let kinds = |kind: fn(char) -> Option<bool>| {
            a.chars().filter_map(kind).cmp(b.chars().filter_map(kind))
        };
        let order = if kana { order.then_with(|| kinds(kana_kind)) } else { order };
        if width { order.then_with(|| kinds(width_kind)) } else { order }
    }
}

/// Code points, as if the shorter text went on with blanks.
fn binary(a: &str, b: &str) -> Ordering {
    let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    match (a.as_bytes().get(common), b.as_bytes().get(common)) {
        (Some(a), Some(b)) => a.cmp(b),
        (Some(a), None) => a.cmp(&b' ').then(Ordering::Greater),
        (None, Some(b)) => b' '.cmp(b).then(Ordering::Less),
        (None, None) => Ordering::Equal,
    }
}

/// Katakana as hiragana, and characters of another width as usual.
fn folded(c: char, kana: bool, width: bool) -> char {
    let code = u32::from(c);
    let mapped = match code {
        0xff01..=0xff5e if width => code - 0xfee0,
        0x3000 if width => 0x20,
        0xff65..=0xff9f if width => HALF_KANA.get(code as usize - 0xff65).map_or(code, |c| *c),
        _ => code,
    };
    let mapped = match mapped {
        0x30a1..=0x30f6 | 0x30fd..=0x30fe if kana => mapped - 0x60,
        _ => mapped,
    };
    char::from_u32(mapped).unwrap_or(c)
}

/// The characters of U+FF65 to U+FF9F in their usual width.
const HALF_KANA: [u32; 59] = [
    0x30fb, 0x30f2, 0x30a1, 0x30a3, 0x30a5, 0x30a7, 0x30a9, 0x30e3, 0x30e5, 0x30e7, 0x30c3, 0x30fc,
    0x30a2, 0x30a4, 0x30a6, 0x30a8, 0x30aa, 0x30ab, 0x30ad, 0x30af, 0x30b1, 0x30b3, 0x30b5, 0x30b7,
    0x30b9, 0x30bb, 0x30bd, 0x30bf, 0x30c1, 0x30c4, 0x30c6, 0x30c8, 0x30ca, 0x30cb, 0x30cc, 0x30cd,
    0x30ce, 0x30cf, 0x30d2, 0x30d5, 0x30d8, 0x30db, 0x30de, 0x30df, 0x30e0, 0x30e1, 0x30e2, 0x30e4,
    0x30e6, 0x30e8, 0x30e9, 0x30ea, 0x30eb, 0x30ec, 0x30ed, 0x30ef, 0x30f3, 0x3099, 0x309a,
];

/// Returns true for katakana, and false for hiragana. Marks are a part of their letter.
fn kana_kind(c: char) -> Option<bool> {
    match u32::from(c) {
        0x30a1..=0x30ff | 0xff66..=0xff9d => Some(true),
        0x3041..=0x3096 | 0x309d..=0x309f => Some(false),
        _ => None,
    }
}

/// Returns true for a character of another width than usual. Marks are a part of their letter.
fn width_kind(c: char) -> Option<bool> {
    match u32::from(c) {
        0xff01..=0xffee | 0x3000 => Some(true),
        0x300..=0x36f | 0x3099 | 0x309a => None,
        _ => Some(false),
    }
}

type Known = RwLock<HashMap<Collation, &'static CollatorBorrowed<'static>>>;

/// Returns Unicode's order of a locale at this strength; it is made once.
fn unicode(collation: Collation) -> Option<&'static CollatorBorrowed<'static>> {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    let known = KNOWN.get_or_init(Known::default);
    let found = known.read().unwrap_or_else(PoisonError::into_inner).get(&collation).copied();
    if found.is_some() {
        return found;
    }
    let locale: Locale = collation.locale().parse().ok()?;
    let (case, accent) = (collation.case_sensitive(), collation.accent_sensitive());
    let mut options = CollatorOptions::default();
    options.alternate_handling = Some(AlternateHandling::NonIgnorable);
    options.strength = Some(match (case, accent) {
        (true, true) => Strength::Tertiary,
        (false, true) => Strength::Secondary,
        (_, false) => Strength::Primary,
    });
    options.case_level = Some(if case && !accent { CaseLevel::On } else { CaseLevel::Off });
    let made = Collator::try_new(locale.into(), options).ok()?;
    let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
    Some(known.entry(collation).or_insert_with(|| Box::leak(Box::new(made))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(collation: &str, words: &str) -> String {
        let order = Order::of(named(collation).unwrap());
        let mut words: Vec<&str> = words.split(' ').collect();
        words.sort_by(|a, b| order.compare(a, b));
        words.join(" ")
    }

    fn equal(collation: &str, a: &str, b: &str) -> bool {
        Order::of(named(collation).unwrap()).compare(a, b) == Ordering::Equal
    }

    /// Every name has an order of its own: none falls back to code points.
    #[test]
    fn every_locale_has_data() {
        for known in Collation::all().filter(|known| !known.is_binary() && !known.is_sql()) {
            assert!(matches!(Order::of(known).rule, Rule::Unicode(_)), "{known:?}");
        }
    }

    #[test]
    fn sensitivities_are_those_of_the_name() {
        for (style, case, accent) in
            [("CI_AS", true, false), ("CS_AS", false, false), ("CI_AI", true, true)]
        {
            for family in ["SQL_Latin1_General_CP1", "Latin1_General", "Latin1_General_100"] {
                let name = format!("{family}_{style}");
                assert_eq!(equal(&name, "a", "A"), case, "{name}");
                assert_eq!(equal(&name, "e", "é"), accent, "{name}");
                assert!(equal(&name, "a  ", "a"), "{name}");
                assert!(!equal(&name, "a", "b"), "{name}");
            }
        }
        assert!(
            equal("Latin1_General_CS_AI", "e", "é") && !equal("Latin1_General_CS_AI", "e", "E")
        );
        assert!(equal("Latin1_General_BIN2", "a ", "a") && !equal("Latin1_General_BIN2", "a", "A"));
        let kana = |style: &str| equal(&format!("Japanese_{style}"), "あ", "ア");
        assert_eq!([kana("CI_AS"), kana("CS_AS"), kana("CI_AS_KS")], [true, true, false]);
        assert_eq!([kana("CS_AS_WS"), kana("CS_AS_KS_WS"), kana("BIN2")], [true, false, false]);
        let width = |style: &str| equal(&format!("Japanese_{style}"), "A", "Ａ");
        assert_eq!([width("CI_AS"), width("CS_AS"), width("CI_AS_WS")], [true, true, false]);
        assert!(
            equal("Japanese_CS_AS_KS", "ｶﾞ", "ガ") && equal("Japanese_CI_AS_KS_WS", "e\u{301}", "é")
        );
        assert!(equal("Japanese_CS_AS", "ｶﾞ", "ガ") && !equal("Japanese_CS_AS_WS", "ｶﾞ", "ガ"));
    }

    #[test]
    fn orders_are_those_of_the_locale() {
        for (name, want) in [
            ("Latin1_General_CS_AS", "1 a A ä Ä b ñ o z"),
            ("SQL_Latin1_General_CP1_CS_AS", "1 A a Ä ä b n ñ z"),
            ("Latin1_General_BIN2", "A B a b ä"),
            ("Finnish_Swedish_CI_AS", "a o z å ä ö"),
            ("Danish_Norwegian_CI_AS", "a o z æ ø å"),
            ("German_PhoneBook_CI_AS", "ad ä af oe of"),
            ("Modern_Spanish_CI_AS", "n nz ñ o"),
            ("Traditional_Spanish_CI_AS", "ca cz ch d"),
            ("Czech_CI_AS", "c č d h ch i"),
            ("Hungarian_CI_AS", "c cs d o ö p"),
            ("Polish_CI_AS", "l ł m z ź ż"),
            ("Lithuanian_CI_AS", "i y k s š z"),
            ("Turkish_CI_AS", "c ç d h ı i j o ö"),
            ("Vietnamese_CI_AS", "a ă â b d đ e"),
            ("Croatian_CI_AS", "c č ć d dž đ"),
            ("French_CI_AS", "cote côte coté côté"),
            ("Cyrillic_General_CI_AS", "z а б е ё ж и й я"),
            ("Greek_CI_AS", "z α β γ ω"),
            ("Hebrew_CI_AS", "z א ב ת"),
            ("Arabic_CI_AS", "z ا ب ت"),
            ("Thai_CI_AS", "z ก เก ข"),
            ("Korean_Wansung_CI_AS", "z 가 나 다"),
            ("Japanese_CI_AS", "z あ い 亜 一"),
            ("Chinese_PRC_CI_AS", "阿 八 中"),
        ] {
            let mut words: Vec<&str> = want.split(' ').collect();
            words.reverse();
            assert_eq!(sorted(name, &words.join(" ")), want, "{name}");
        }
        assert!(equal("Turkish_CI_AS", "İ", "i") && equal("Turkish_CI_AS", "I", "ı"));
        assert!(!equal("Turkish_CI_AS", "I", "i"));
    }

    /// Indexes of databases have these orders. Where another version of Unicode's data has another
    /// one, that needs another name in SQLite.
    #[test]
    fn orders_stay() {
        let ranges = [0x20..0x600, 0xe00..0xe60, 0x1e00..0x1f00, 0x3041..0x30ff, 0xac00..0xac80];
        let more = [0x4e00..0x4f00, 0xff01..0xffe0, 0x1_f600..0x1_f610];
        let chars: Vec<String> = ranges
            .into_iter()
            .chain(more)
            .flatten()
            .filter_map(char::from_u32)
            .map(String::from)
            .chain(LETTERS.split(' ').map(String::from))
            .collect();
        let mut found = Vec::new();
        let mut locales = std::collections::BTreeMap::new();
        for known in Collation::all() {
            let wanted = known.case_sensitive() && known.accent_sensitive();
            if wanted && !known.is_binary() && known.kana_sensitive() && known.width_sensitive() {
                locales.entry(known.locale()).or_insert(known);
            }
        }
        locales.insert("sql", named("SQL_Latin1_General_CP1_CS_AS").unwrap());
        for (locale, collation) in locales {
            let order = Order::of(collation);
            let mut sorted: Vec<&String> = chars.iter().collect();
            sorted.sort_by(|a, b| order.compare(a, b).then_with(|| a.cmp(b)));
            let hash = sorted
                .iter()
                .flat_map(|text| text.bytes())
                .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
            found.push((locale, hash));
        }
        assert_eq!(found, ORDERS);
    }

    /// Letters of some locales that are written with two.
    const LETTERS: &str = "aa ae ch cs cz dz dž gy lj ll ly nj ny oe ss sz ty zs เก";

    const ORDERS: &[(&str, u32)] = &[
        ("cs", 0x0d74_975b),
        ("da", 0x8f73_1517),
        ("de-u-co-phonebk", 0xd8eb_40b1),
        ("es", 0xcdd8_2181),
        ("es-u-co-trad", 0xd323_6dd1),
        ("et", 0xfae8_8523),
        ("fi", 0x5bd7_8595),
        ("fr-CA", 0x34c6_56c1),
        ("hr", 0x7987_df75),
        ("hu", 0x0c4f_a993),
        ("is", 0xad56_5ce9),
        ("ja", 0xde8d_582f),
        ("lt", 0x64be_3e27),
        ("lv", 0x88f3_b6b5),
        ("nb", 0x5bcb_74cd),
        ("pl", 0xec9b_65d3),
        ("ro", 0x93ad_2a4b),
        ("sk", 0xebb0_b1a9),
        ("sl", 0x8a5b_2517),
        ("sq", 0x310d_ce5d),
        ("sql", 0x5877_def7),
        ("tr", 0xed21_026f),
        ("und", 0xc09a_f601),
        ("vi", 0x2066_acbf),
        ("zh", 0xf90d_2457),
        ("zh-Hant", 0x9da8_3e5b),
        ("zh-u-co-stroke", 0x9da8_3e5b),
    ];

    #[test]
    fn names_go_to_sqlite_and_back() {
        assert_eq!(sqlite_name(named("database_default").unwrap()), "TSQL");
        let connection = Connection::open_in_memory().unwrap();
        let other = sqlite_name(named("polish_ci_as").unwrap());
        provide(&connection, &other).unwrap();
        provide(&connection, "TSQL_Unknown_CI_AS").unwrap();
        let sql = format!("SELECT 'Ł' = 'ł' COLLATE {other}");
        assert!(connection.query_row(&sql, [], |row| row.get::<_, bool>(0)).unwrap());
        assert!(connection.prepare("SELECT 'Ł' = 'ł' COLLATE TSQL_Unknown_CI_AS").is_err());
        assert!(named("Polish").is_err());
    }
}
