//! The values of a sequence, row by row.

use crate::error::{Error, Result};

/// A sequence while a statement takes its values.
///
/// Each place of a statement that names the sequence counts its own rows: all places of one row
/// have the same value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counter {
    /// The value of the first row; None if the sequence has reached its end.
    pub(crate) first: Option<i64>,
    pub(crate) rule: Steps,
    /// By place: its rows so far, and the value of its next row.
    places: Vec<(usize, u64, Option<i64>)>,
    given: u64,
    last: Option<i64>,
}

/// How the values of a sequence follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steps {
    /// Not 0.
    pub(crate) step: i64,
    pub(crate) minimum: i64,
    pub(crate) maximum: i64,
    pub(crate) cycle: bool,
}

impl Steps {
    /// Returns the value after this one; None at the end.
    pub(crate) fn after(&self, value: i64) -> Option<i64> {
        let next = value.checked_add(self.step);
        let inside = next.filter(|next| (self.minimum..=self.maximum).contains(next));
        inside.or_else(|| self.cycle.then(|| self.restart()))
    }

    /// The first value of a new cycle.
    fn restart(&self) -> i64 {
        if self.step > 0 { self.minimum } else { self.maximum }
    }

    /// Returns the last of `count` values from `first` on, and how often the sequence began anew.
    /// None if there are fewer.
    pub(crate) fn range(&self, first: i64, count: i64) -> Option<(i64, i64)> {
        let step = i128::from(self.step);
        let end = i128::from(if self.step > 0 { self.maximum } else { self.minimum });
        let in_pass = |from: i64| (end - i128::from(from)) / step + 1;
        let value = |from: i64, at: i128| i64::try_from(i128::from(from) + at * step).ok();
        let (count, here) = (i128::from(count), in_pass(first));
        if count <= here {
            return Some((value(first, count - 1)?, 0));
        }
        if !self.cycle {
            return None;
        }
        let (left, pass) = (count - here, in_pass(self.restart()));
        let cycles = 1 + (left - 1) / pass;
        Some((value(self.restart(), (left - 1) % pass)?, i64::try_from(cycles).ok()?))
    }
}

impl Counter {
    pub(crate) fn new(first: Option<i64>, rule: Steps) -> Counter {
        Counter { first, rule, places: Vec::new(), given: 0, last: None }
    }

    /// Returns the value of the next row of a place.
    ///
    /// # Errors
    /// At the end of the sequence.
    pub(crate) fn next(&mut self, place: usize, name: &str) -> Result<i64> {
        let at = match self.places.iter().position(|(known, ..)| *known == place) {
            Some(at) => at,
            None => {
                self.places.push((place, 0, self.first));
                self.places.len() - 1
            }
        };
        let (_, rows, next) = &mut self.places[at];
        let value = next.ok_or_else(|| Error::SequenceEnd { name: name.to_owned() })?;
        *next = self.rule.after(value);
        *rows += 1;
        if *rows > self.given {
            self.given = *rows;
            self.last = Some(value);
        }
        Ok(value)
    }

    /// Begins other rows, of which no place has a value yet: those of another statement, or of
    /// another table.
    pub(crate) fn begin_rows(&mut self) {
        if let Some(last) = self.last {
            self.first = self.rule.after(last);
        }
        self.places.clear();
        self.given = 0;
    }

    /// The last value that was given, if any was.
    pub(crate) fn last(&self) -> Option<i64> {
        self.last
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn rule(step: i64, minimum: i64, maximum: i64, cycle: bool) -> Steps {
        Steps { step, minimum, maximum, cycle }
    }

    #[test]
    fn places_of_a_row_have_one_value() {
        let mut made = Counter::new(Some(5), rule(2, 1, 9, false));
        assert_eq!(made.last(), None);
        let row = |made: &mut Counter| (made.next(0, "s").unwrap(), made.next(7, "s").unwrap());
        assert_eq!([row(&mut made), row(&mut made), row(&mut made)], [(5, 5), (7, 7), (9, 9)]);
        assert_eq!(made.last(), Some(9));
        assert_eq!(made.next(0, "s"), Err(Error::SequenceEnd { name: "s".to_owned() }));
        assert_eq!(made.last(), Some(9));
    }

    #[test]
    fn other_rows_go_on_behind_the_last_value() {
        let mut made = Counter::new(Some(5), rule(2, 1, 11, false));
        made.begin_rows();
        let row = |made: &mut Counter| (made.next(0, "s").unwrap(), made.next(7, "s").unwrap());
        assert_eq!([row(&mut made), row(&mut made)], [(5, 5), (7, 7)]);
        made.begin_rows();
        assert_eq!(made.last(), Some(7));
        assert_eq!((made.next(7, "s"), made.next(3, "s"), made.last()), (Ok(9), Ok(9), Some(9)));
        made.begin_rows();
        assert_eq!((made.next(1, "s"), made.last()), (Ok(11), Some(11)));
        made.begin_rows();
        assert!(made.next(1, "s").is_err());
    }

    #[test]
    fn a_cycle_begins_at_its_bound() {
        let mut made = Counter::new(Some(2), rule(1, -1, 3, true));
        let values: Vec<i64> = (0..5).map(|_| made.next(0, "s").unwrap()).collect();
        assert_eq!(values, [2, 3, -1, 0, 1]);
        let mut down = Counter::new(Some(i64::MIN + 1), rule(-1, i64::MIN, 4, true));
        let values: Vec<i64> = (0..3).map(|_| down.next(0, "s").unwrap()).collect();
        assert_eq!(values, [i64::MIN + 1, i64::MIN, 4]);
        assert_eq!(rule(1, 1, i64::MAX, false).after(i64::MAX), None);
    }

    #[test]
    fn ranges_agree_with_single_values() {
        for (rule, first) in [
            (rule(1, 1, 7, true), 3),
            (rule(3, -5, 8, true), -5),
            (rule(-2, -4, 5, true), 1),
            (rule(4, 0, 100, false), 8),
        ] {
            let (mut value, mut cycles) = (first, 0);
            for count in 1..30 {
                assert_eq!(rule.range(first, count), Some((value, cycles)), "{rule:?} {count}");
                let Some(next) = rule.after(value) else {
                    assert_eq!(rule.range(first, count + 1), None);
                    break;
                };
                cycles += i64::from(next != value + rule.step);
                value = next;
            }
        }
        assert_eq!(rule(1, 1, 5, false).range(4, i64::MAX), None);
    }
}
