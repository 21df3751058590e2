//! SQLite's text, with ranges that it has only for some values of its parameters.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use rusqlite::types::Value;

use crate::plan::Alias;

/// A text for SQLite.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sql {
    text: String,
    /// Ranges of bytes that are omitted if their parameter is NULL, in their order.
    optional: Vec<(Range<usize>, usize)>,
}

impl Sql {
    /// Returns the text for these values of its parameters.
    pub(crate) fn text(&self, params: &[Value]) -> Cow<'_, str> {
        if self.optional.is_empty() {
            return self.text.as_str().into();
        }
        let mut text = String::with_capacity(self.text.len());
        let mut at = 0;
        for (range, param) in &self.optional {
            let known = params.get(*param).is_some_and(|value| *value != Value::Null);
            let end = if known { range.end } else { range.start };
            text.push_str(&self.text[at..end]);
            at = range.end;
        }
        text.push_str(&self.text[at..]);
        text.into()
    }

    /// Returns the text with all of its ranges.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn push_sql(&mut self, other: &Sql) {
        let start = self.text.len();
        self.text.push_str(&other.text);
        let moved = |(range, param): &(Range<usize>, usize)| {
            (range.start + start..range.end + start, *param)
        };
        self.optional.extend(other.optional.iter().map(moved));
    }

    /// Makes the text from here on a range that depends on this parameter, from 0.
    pub(super) fn optional_from(&mut self, start: usize, param: usize) {
        self.optional.push((start..self.text.len(), param));
    }

    pub(super) fn push_number(&mut self, number: i64) {
        let _ = write!(self.text, "{number}");
    }

    /// Writes a parameter, which is counted from 0 here.
    /// Writes a text constant, which has no zero character.
    pub(super) fn push_text(&mut self, text: &str) {
        self.push("'");
        self.push(&text.replace('\'', "''"));
        self.push("'");
    }

    pub(super) fn push_parameter(&mut self, at: usize) {
        let _ = write!(self.text, "?{}", at + 1);
    }

    /// Writes a name in quotes.
    pub(super) fn push_name(&mut self, name: &str) {
        self.text.push('"');
        for part in name.chars().filter(|c| *c != '\0') {
            if part == '"' {
                self.text.push('"');
            }
            self.text.push(part);
        }
        self.text.push('"');
    }

    pub(super) fn push_alias(&mut self, alias: Alias) {
        let _ = match alias {
            Alias::Source(number) => write!(self.text, "\"~t{number}\""),
            Alias::Query(number) => write!(self.text, "\"~q{number}\""),
            Alias::Common(number) => write!(self.text, "\"~c{number}\""),
            Alias::Deleted => write!(self.text, "\"~old\""),
            Alias::Inserted => write!(self.text, "\"~new\""),
        };
    }

    /// Writes the name of a list's column at this position.
    pub(super) fn push_item(&mut self, at: usize) {
        let _ = write!(self.text, "\"~{at}\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranged(param: usize) -> Sql {
        let mut sql = Sql::default();
        sql.push("(");
        let start = sql.len();
        sql.push_name("a\0 \"(b");
        sql.push(" > ");
        sql.push_parameter(param);
        sql.push(" AND ");
        sql.optional_from(start, param);
        sql.push("f())");
        sql
    }

    #[test]
    fn ranges_are_omitted_one_by_one() {
        let mut sql = Sql::default();
        sql.push_sql(&ranged(0));
        sql.push(" OR ");
        sql.push_sql(&ranged(1));
        let (none, one) = (Value::Null, Value::Integer(1));
        let first = "(\"a \"\"(b\" > ?1 AND f())";
        let second = "(\"a \"\"(b\" > ?2 AND f())";
        let cases = [
            ([&one, &one], format!("{first} OR {second}")),
            ([&none, &one], format!("(f()) OR {second}")),
            ([&one, &none], format!("{first} OR (f())")),
            ([&none, &none], "(f()) OR (f())".to_owned()),
        ];
        for (params, expected) in cases {
            assert_eq!(sql.text(&params.map(Value::clone)), expected);
        }
        assert_eq!(sql.text(&[]), "(f()) OR (f())");
    }
}
