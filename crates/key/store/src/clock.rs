//! Wall-clock time as seconds since 1970, and as ISO 8601.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Seconds since 1970 by the system's clock.
#[must_use]
pub fn now_seconds() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |s| -s),
    }
}

/// ISO 8601 in UTC, such as `2036-11-21T00:00:00Z`; the bare number outside the years 0 to 9999.
#[must_use]
pub fn iso8601(seconds: i64) -> String {
    OffsetDateTime::from_unix_timestamp(seconds)
        .ok()
        .and_then(|moment| moment.format(&Rfc3339).ok())
        .unwrap_or_else(|| seconds.to_string())
}

/// Number of seconds before its end from which a certificate causes a warning at each use.
const EXPIRES_SOON_S: i64 = 30 * 24 * 3600;

/// Returns the number of days for which a certificate is still valid, if it is few enough for a
/// warning.
#[must_use]
pub fn expires_soon(not_after: i64) -> Option<i64> {
    let left_s = not_after.saturating_sub(now_seconds());
    (0..EXPIRES_SOON_S).contains(&left_s).then_some(left_s / (24 * 3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_iso_8601() {
        assert_eq!(iso8601(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso8601(2_110_752_000), "2036-11-20T00:00:00Z");
        assert_eq!(iso8601(i64::MAX), i64::MAX.to_string());
        assert!(now_seconds() > 1_700_000_000);
    }

    #[test]
    fn thirty_days_before_its_end_a_certificate_is_warned_of() {
        let day = 24 * 3600;
        let now = now_seconds();
        assert_eq!(expires_soon(now + 31 * day), None);
        assert_eq!(expires_soon(now + 29 * day + 60), Some(29));
        assert_eq!(expires_soon(now + 60), Some(0));
        assert_eq!(expires_soon(now - 60), None);
    }
}
