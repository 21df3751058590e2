//! The end of an archive: up to when it is known to have everything.

use super::chain::Point;
use super::read::Archive;
use super::state::{Recorded, recorded_beside};
use crate::labels::now_ms;

impl Archive {
    /// Returns true if a point is the last transaction of its object, or a full set.
    #[must_use]
    pub fn is_last_of_object(&self, point: Point) -> bool {
        let transactions = |info: crate::SetInfo| info.log.map_or(0, |log| log.transactions);
        self.header(point.number).map(transactions) == Some(point.transaction)
    }

    /// Returns the time up to which the archive is known to have everything that was committed,
    /// milliseconds since 1970, if a point is its last one and `asked_ms` is later than that time:
    /// transactions of the time between may be shipped yet, or be lost. `None` otherwise.
    ///
    /// The time is that of the point, or the later one that the record beside the database has
    /// while the archive's last object is the one that it has shipped last.
    #[must_use]
    pub fn known_to(&self, point: Point, asked_ms: i64) -> Option<i64> {
        let (_, last) = self.end();
        if last != Some(point.number) || !self.is_last_of_object(point) {
            return None;
        }
        let recorded = self.recorded_to(point.number).unwrap_or(point.time_ms);
        Some(point.time_ms.max(recorded)).filter(|known_ms| *known_ms < asked_ms)
    }

    /// Returns the time up to which the record beside the database, if that is on this machine, has
    /// everything in an object and those before it.
    fn recorded_to(&self, number: u64) -> Option<i64> {
        let Recorded::State(state) = recorded_beside(&self.shipped_here()?) else { return None };
        let shipped = state.shipped.as_ref().filter(|shipped| shipped.number == number)?;
        let current_ms = state.current_by(now_ms())?;
        self.holds(shipped).then_some(current_ms)
    }
}
