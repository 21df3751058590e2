//! Judges `STOPAT`. As in SQL Server it is a `datetime`, and so are the times of sets that the
//! history and `RESTORE HEADERONLY` show: all are compared in its unit of 1/300 s.

use tdekit_backup_run::{SetInfo, date_of_ms};
use tdekit_wire_tds::messages::ServerError;
use tdekit_wire_tsql::{Error, Restore, RestoreKind, unix_ms};

use super::fault;
use super::noted::Restoring;
use super::rows::datetime_ticks;

/// Returns true if STOPAT names a time behind the set's state: then the database is left as it is,
/// for the next log backup.
///
/// # Errors
/// 4338 for a time before the set's state; for a log backup over a database that is RESTORING, 4335
/// before the state of that one, else 4341.
pub(crate) fn before_stop(
    wanted: &Restore,
    set: &SetInfo,
    restoring: Option<&Restoring>,
) -> Result<bool, Error> {
    let Some(text) = &wanted.stop_at else { return Ok(false) };
    let stop_ms = unix_ms(text)
        .ok_or_else(|| fault::own(format!("STOPAT = '{text}' is not a date and a time.")))?;
    let from_ms = match restoring {
        Some(Restoring::At(to)) if wanted.kind == RestoreKind::Log => Some(to.time_ms),
        _ => None,
    };
    Ok(is_behind(stop_ms, set.begun_ms, from_ms)?)
}

/// Compares a time with the state of a set, and, for a log backup, with that of the database.
fn is_behind(stop_ms: i64, at_ms: i64, from_ms: Option<i64>) -> Result<bool, ServerError> {
    let (stop, at) = (datetime_ticks(stop_ms), datetime_ticks(at_ms));
    if stop >= at {
        return Ok(stop > at);
    }
    Err(match from_ms {
        None => ServerError::StopTooEarly {},
        Some(from_ms) if stop < datetime_ticks(from_ms) => ServerError::RolledBeyond {},
        Some(from_ms) => ServerError::OnePoint { from: date_of_ms(from_ms), at: date_of_ms(at_ms) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    /// The milliseconds that are shown of a `datetime`.
    fn shown(ms: i64) -> i64 {
        (datetime_ticks(ms) * 10 + 1).div_euclid(3)
    }

    #[test]
    fn the_shown_time_of_a_state_is_its_own() {
        for at in (0..1000).chain(DAY_MS - 20..DAY_MS + 20).chain(-20..0) {
            // Both ways: .814 is shown as .813, .815 as .817.
            assert!((shown(at) - at).abs() <= 2, "{at}");
            assert!(matches!(is_behind(shown(at), at, None), Ok(false)), "{at}");
            assert!(matches!(is_behind(shown(at), at, Some(at - 20)), Ok(false)), "{at}");
            assert!(matches!(is_behind(shown(at), at - 4, Some(at - 20)), Ok(true)), "{at}");
            let early = is_behind(shown(at), at + 4, None);
            assert!(matches!(early, Err(ServerError::StopTooEarly {})), "{at}");
            let one_point = is_behind(shown(at), at + 4, Some(at));
            assert!(matches!(one_point, Err(ServerError::OnePoint { .. })), "{at}");
            let beyond = is_behind(shown(at), at + 20, Some(at + 4));
            assert!(matches!(beyond, Err(ServerError::RolledBeyond {})), "{at}");
        }
    }
}
