//! A record of a script's output: one line of ASCII without blanks; writing it in T-SQL, and
//! reading it.
//!
//! `tdekit|VERSION|SESSION|STEP|KIND|FIELD...|CHECK|;`
//!
//! SESSION is the same in all records of one run. STEP numbers the records from 1, in their order
//! in the script. CHECK is the sum of the parts from SESSION on, each taken modulo [`PRIME`] and
//! times its position, modulo [`PRIME`]: a changed digit changes it. Fields are percent-encoded
//! (RFC 3986, 2.1), so clients may break a line anywhere and pad it with blanks.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// Version of the records and of their order. It is incremented when a reader of this one would
/// misread them.
pub(super) const VERSION: u64 = 1;
/// Start of a line that begins a record.
pub(super) const START: &str = "tdekit|";
/// The end of a record.
pub(super) const END: &str = "|;";
/// Larger than any position, so that every change of one digit is detected.
const PRIME: u64 = 99_991;
/// Digits of the largest number: no server counts further, and sums of such numbers stay exact.
const DIGITS: usize = 18;
/// Factor of a word's characters.
const FACTOR: u64 = 31;
/// Maximum number of characters of a record: clients truncate columns at 256.
const COLUMN: &str = "varchar(250)";

/// Statement that gives a batch the number of its session, `@s`. The server keeps the login time
/// for the lifetime of a session.
pub(super) const SESSION: &str = "DECLARE @s bigint = (SELECT DATEDIFF(second, '20200101', \
    login_time) FROM sys.dm_exec_sessions WHERE session_id = @@SPID)";

/// A field in the script's text.
pub(super) enum Field {
    /// Known when the script is written.
    Static(String),
    /// An expression for a number of 0 or more.
    Number(String),
    /// A variable with an encoded word, and the variable that [`hashing`] sets.
    Word { variable: &'static str, hash: &'static str },
}

impl Field {
    pub(super) fn of(value: impl ToString) -> Self {
        Self::Static(encoded(&value.to_string()))
    }
}

/// Returns the expression for a record; `@s` is the session. `step` is a number or a variable.
pub(super) fn expression(step: &str, kind: &str, fields: &[Field]) -> String {
    let mut parts = vec![format!("'{START}{VERSION}|'"), "@s".to_owned()];
    let mut sum = vec!["@s % 99991".to_owned(), format!("2 * ({step} % {PRIME})")];
    parts.push(format!("'|', {step}, '|{kind}'"));
    let mut fixed = 3 * weight(kind);
    for (place, field) in (4..).zip(fields) {
        match field {
            Field::Static(text) => {
                parts.push(format!("'|{text}'"));
                fixed += place * weight(text);
            }
            Field::Number(number) => {
                parts.push(format!("'|', {number}"));
                sum.push(format!("{place} * ({number} % {PRIME})"));
            }
            Field::Word { variable, hash } => {
                parts.push(format!("'|', {variable}"));
                sum.push(format!("{place} * {hash}"));
            }
        }
    }
    let (parts, sum) = (parts.join(", "), sum.join(" + "));
    let fixed = fixed % PRIME;
    format!(
        "CONVERT({COLUMN}, CONCAT({parts}, '|', ({fixed} + {sum}) % {PRIME}, '{END}')) AS tdekit"
    )
}

/// Returns statements that encode the words in a variable, and store their weight in `hash`, which
/// they declare with `counter`.
pub(super) fn hashing(variable: &str, hash: &str, counter: &str) -> String {
    let replaced = ["%", " ", "|", "'"].into_iter().fold(variable.to_owned(), |inner, one| {
        format!("REPLACE({inner}, '{}', '{}')", one.replace('\'', "''"), encoded(one))
    });
    format!(
        "SET {variable} = {replaced}; DECLARE {hash} bigint = 0, {counter} int = 1; \
         WHILE {counter} <= LEN({variable}) BEGIN SET {hash} = ({hash} * {FACTOR} + \
         UNICODE(SUBSTRING({variable}, {counter}, 1))) % {PRIME}; SET {counter} += 1; END"
    )
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Its line in the file, from 1.
    pub(super) line: usize,
    pub(super) session: u64,
    pub(super) step: u64,
    pub(super) kind: String,
    /// Still encoded.
    pub(super) fields: Vec<String>,
}

/// Reason why a text is not a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Of a later script.
    Version(String),
    /// Of another format, or with a number that is too large.
    Shape,
    /// Some part of it was altered.
    Check,
}

impl Record {
    /// Reads a record without its [`START`] and [`END`].
    pub(super) fn parse(line: usize, text: &str) -> Result<Self, Flaw> {
        let parts: Vec<&str> = text.split('|').collect();
        let [version, rest @ .., check] = parts.as_slice() else { return Err(Flaw::Shape) };
        if *version != VERSION.to_string() {
            return Err(Flaw::Version((*version).to_owned()));
        }
        let [session, step, kind, fields @ ..] = rest else { return Err(Flaw::Shape) };
        let plain = |part: &&&str| part.bytes().all(|byte| byte.is_ascii_graphic());
        if rest.iter().filter(plain).count() != rest.len() {
            return Err(Flaw::Shape);
        }
        let (session, step) = (number(session)?, number(step)?);
        fields
            .iter()
            .filter(|field| is_number(field))
            .try_for_each(|field| number(field).map(drop))?;
        let sum: u64 = (1..).zip(rest).map(|(place, part)| place * weight(part)).sum();
        if number(check)? != sum % PRIME {
            return Err(Flaw::Check);
        }
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        Ok(Self { line, session, step, kind: (*kind).to_owned(), fields })
    }

    /// Returns its fields as words.
    pub(super) fn words<const N: usize>(&self) -> Option<[String; N]> {
        let words: Option<Vec<String>> = self.fields.iter().map(|field| decoded(field)).collect();
        words?.try_into().ok()
    }

    /// Returns its fields as numbers.
    pub(super) fn numbers<const N: usize>(&self) -> Option<[u64; N]> {
        let numbers: Result<Vec<u64>, Flaw> =
            self.fields.iter().map(|field| number(field)).collect();
        numbers.ok()?.try_into().ok()
    }
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(part: &str) -> Result<u64, Flaw> {
    match is_number(part) && part.len() <= DIGITS {
        true => part.parse().map_err(|_| Flaw::Shape),
        false => Err(Flaw::Shape),
    }
}

/// Returns the weight of a part in the check.
fn weight(part: &str) -> u64 {
    match number(part) {
        Ok(number) => number % PRIME,
        Err(_) => {
            part.chars().fold(0, |hash, one| (hash * FACTOR + u64::from(u32::from(one))) % PRIME)
        }
    }
}

/// Characters that are encoded in a field, besides those that are not ASCII.
const QUOTED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'|').add(b'\'');

/// Returns a text percent-encoded, as in a field.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, QUOTED).to_string()
}

pub(super) fn decoded(text: &str) -> Option<String> {
    crate::address::decode(text).ok()
}

/// Returns a record of these parts, separated by bars: SESSION, STEP, KIND and fields.
pub(crate) fn sealed(parts: &str) -> String {
    let sum = (1..PRIME)
        .zip(parts.split('|'))
        .fold(0, |sum, (place, part)| (sum + place * weight(part)) % PRIME);
    format!("{START}{VERSION}|{parts}|{sum}{END}")
}

/// Returns a record as written by a server.
#[cfg(test)]
pub(super) fn written(session: u64, step: u64, kind: &str, fields: &[&str]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| encoded(field)).collect();
    let parts = [session.to_string(), step.to_string(), kind.to_owned()];
    let parts: Vec<String> = parts.into_iter().chain(fields).collect();
    sealed(&parts.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Record, Flaw> {
        Record::parse(1, text.strip_prefix(START).unwrap().strip_suffix(END).unwrap())
    }

    #[test]
    fn what_is_written_is_read() {
        let text = written(77, 3, "fact", &["version", "A 15.0 | 50 % of 'it'"]);
        assert!(!text.contains([' ', '\'']), "{text}");
        let found = parse(&text).unwrap();
        assert_eq!((found.session, found.step, found.kind.as_str()), (77, 3, "fact"));
        assert_eq!(found.words().unwrap(), ["version", "A 15.0 | 50 % of 'it'"]);
        assert_eq!(found.numbers::<2>(), None);
        assert_eq!(parse(&written(1, 2, "m", &["7", "0"])).unwrap().numbers(), Some([7, 0]));
    }

    #[test]
    fn no_change_of_a_character_goes_unseen() {
        let text = written(123_456, 17, "mark", &["5", "1234567890", "operations/select/warm"]);
        for (at, old) in text.char_indices().skip(START.len() + 2).take(text.len() - 11) {
            for new in ['0', '1', '7', '9', 'x', '|'] {
                let mut changed = text.clone();
                changed.replace_range(at..=at, &new.to_string());
                assert!(new == old || parse(&changed).is_err(), "{changed}");
            }
        }
    }

    #[test]
    fn numbers_and_versions_have_bounds() {
        assert!(parse(&written(1, 1, "m", &["999999999999999999"])).is_ok());
        for bad in ["9999999999999999999", "99999999999999999999999999999999999999999"] {
            assert_eq!(parse(&written(1, 1, "m", &[bad])), Err(Flaw::Shape));
        }
        let later = written(1, 1, "m", &[]).replace("tdekit|1|", "tdekit|2|");
        assert_eq!(parse(&later), Err(Flaw::Version("2".to_owned())));
        for bad in ["tdekit||;", "tdekit|1|;", "tdekit|1|2|;", "tdekit|1|a|b|c|d|;"] {
            assert_eq!(parse(bad), Err(Flaw::Shape), "{bad}");
        }
    }
}
