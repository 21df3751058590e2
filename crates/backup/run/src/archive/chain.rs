//! Points of an archive: one transaction each, and how users name them.

use std::fmt;

use crate::date_of_ms;

/// A point that a user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The last transaction that was shipped.
    Latest,
    /// The last transaction up to which everything is whole.
    LatestGood,
    /// The last transaction that was seen at this time or before, milliseconds since 1970.
    Time(i64),
    /// A transaction of an object; without one the object's last.
    Transaction(u64, Option<u32>),
}

impl At {
    /// Parses `latest`, `latest-good`, or a transaction such as `43.17` or `43`; `None` for other
    /// texts, such as times.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        match text {
            "latest" => return Some(Self::Latest),
            "latest-good" => return Some(Self::LatestGood),
            _ => {}
        }
        let (number, transaction) = match text.split_once('.') {
            Some((number, transaction)) => (number, Some(whole(transaction)?)),
            None => (text, None),
        };
        let transaction = transaction.map(u32::try_from).transpose().ok()?;
        Some(Self::Transaction(whole(number)?, transaction))
    }
}

/// Parses a number above zero, without a sign.
fn whole(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number > 0)
}

/// A point of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Number of the object.
    pub number: u64,
    /// Number of the transaction in it, from 1; 0 for the state in a full set.
    pub transaction: u32,
    /// Time when it was seen, milliseconds since 1970.
    pub time_ms: i64,
}

impl Point {
    /// Returns the transaction as users name it, such as `43.17`; the number of the object alone
    /// for a full set.
    #[must_use]
    pub fn name(&self) -> String {
        match self.transaction {
            0 => self.number.to_string(),
            transaction => format!("{}.{transaction}", self.number),
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), date_of_ms(self.time_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read() {
        for (text, at) in [
            ("latest", At::Latest),
            ("latest-good", At::LatestGood),
            ("43", At::Transaction(43, None)),
            ("43.17", At::Transaction(43, Some(17))),
        ] {
            assert_eq!(At::of(text), Some(at), "{text}");
        }
        for text in ["", "0", "43.", "43.0", "+3", "4.5.6", "2026-11-22", "43.4294967296", ".1"] {
            assert_eq!(At::of(text), None, "{text}");
        }
    }
}
