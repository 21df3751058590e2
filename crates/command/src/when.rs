//! Points in time as users write them.

use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, Duration, Month, OffsetDateTime, PrimitiveDateTime};

/// Parses an end of validity: `10y`, `90d`, `2036-11-21` (its start, UTC) or a time of RFC 3339.
/// Returns seconds since 1970.
pub(crate) fn parse_expiry(text: &str) -> Result<i64, String> {
    expiry_from(text, OffsetDateTime::now_utc())
        .ok_or_else(|| "neither like 10y or 90d nor like 2036-11-21".to_owned())
}

fn expiry_from(text: &str, now: OffsetDateTime) -> Option<i64> {
    if let Some(years) = text.strip_suffix('y') {
        let year = now.year().checked_add(years.parse::<u16>().ok()?.into())?;
        return Some(now.replace_date(same_day(now.date(), year)?).unix_timestamp());
    }
    if let Some(days) = text.strip_suffix('d') {
        let days = Duration::days(days.parse::<u32>().ok()?.into());
        return Some(now.checked_add(days)?.unix_timestamp());
    }
    if let Ok(date) = Date::parse(text, format_description!("[year]-[month]-[day]")) {
        return Some(date.midnight().assume_utc().unix_timestamp());
    }
    OffsetDateTime::parse(text, &Rfc3339).ok().map(OffsetDateTime::unix_timestamp)
}

/// Parses a moment: `2026-11-22 10:15:00` (UTC; the seconds may be left out or have a fraction), or
/// a time of RFC 3339. Returns milliseconds since 1970.
pub(crate) fn parse_moment(text: &str) -> Result<i64, String> {
    let wrong = || "not like 2026-11-22 10:15:00 (UTC) or 2026-11-22T10:15:00+01:00".to_owned();
    let plain = text.replacen('T', " ", 1);
    let plain = if plain.matches(':').count() == 1 { format!("{plain}:00") } else { plain };
    let format = format_description!(
        "[year]-[month]-[day] [hour]:[minute]:[second][optional [.[subsecond]]]"
    );
    let moment = match PrimitiveDateTime::parse(&plain, format) {
        Ok(moment) => moment.assume_utc(),
        Err(_) => OffsetDateTime::parse(text, &Rfc3339).map_err(|_| wrong())?,
    };
    i64::try_from(moment.unix_timestamp_nanos().div_euclid(1_000_000)).map_err(|_| wrong())
}

/// Parses an age, `1y`, `90d` or `36h`: returns the time that long ago, seconds since 1970.
pub(crate) fn parse_age(text: &str) -> Result<i64, String> {
    age_before(text, OffsetDateTime::now_utc()).ok_or_else(|| "not like 1y, 90d or 36h".to_owned())
}

/// Units of a duration, and their seconds.
const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];

/// Parses a duration: `90s`, `15m`, `8h` or `1d`, at most 10,000 days.
pub(crate) fn parse_length(text: &str) -> Result<std::time::Duration, String> {
    let read = || {
        let (unit, seconds) = UNITS.into_iter().find(|(unit, _)| text.ends_with(*unit))?;
        let length = text.strip_suffix(unit)?.parse::<u32>().ok()?;
        let length = u64::from(length) * seconds;
        (1..=10_000 * 86_400).contains(&length).then(|| std::time::Duration::from_secs(length))
    };
    read().ok_or_else(|| "neither like 90s, 15m, 8h nor 1d, of 10,000 days at most".to_owned())
}

/// Writes a duration as [`parse_length`] reads it, in the largest unit of which it is whole.
pub(crate) fn length_text(length: std::time::Duration) -> String {
    let all = length.as_secs();
    let whole =
        UNITS.into_iter().rev().find(|(_, seconds)| all > 0 && all.is_multiple_of(*seconds));
    let (unit, seconds) = whole.unwrap_or(('s', 1));
    format!("{}{unit}", all / seconds)
}

fn age_before(text: &str, now: OffsetDateTime) -> Option<i64> {
    if let Some(years) = text.strip_suffix('y') {
        let year = now.year().checked_sub(years.parse::<u16>().ok()?.into())?;
        return Some(now.replace_date(same_day(now.date(), year)?).unix_timestamp());
    }
    let length = match text.strip_suffix('h') {
        Some(hours) => Duration::hours(hours.parse::<u32>().ok()?.into()),
        None => Duration::days(text.strip_suffix('d')?.parse::<u32>().ok()?.into()),
    };
    Some(now.checked_sub(length)?.unix_timestamp())
}

/// Returns the same day of another year; 28 February for the 29th in a year without one.
fn same_day(date: Date, year: i32) -> Option<Date> {
    let day = date.replace_year(year);
    day.or_else(|_| Date::from_calendar_date(year, Month::February, 28)).ok()
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn reads_moments() {
        let at = datetime!(2026-11-22 10:15:07.25 UTC).unix_timestamp_nanos() / 1_000_000;
        for text in [
            "2026-11-22 10:15:07.25",
            "2026-11-22T10:15:07.250",
            "2026-11-22T10:15:07.25Z",
            "2026-11-22T11:15:07.25+01:00",
        ] {
            assert_eq!(parse_moment(text).map(i128::from), Ok(at), "{text}");
        }
        assert_eq!(parse_moment("2026-11-22 10:15"), parse_moment("2026-11-22 10:15:00"));
        for wrong in ["", "2026-11-22", "10:15", "2026-13-22 10:15:00", "43.17"] {
            assert!(parse_moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_the_forms_of_an_age() {
        let now = datetime!(2028-02-29 12:00 UTC);
        let seconds = |moment: OffsetDateTime| Some(moment.unix_timestamp());
        assert_eq!(age_before("1y", now), seconds(datetime!(2027-02-28 12:00 UTC)));
        assert_eq!(age_before("29d", now), seconds(datetime!(2028-01-31 12:00 UTC)));
        assert_eq!(age_before("36h", now), seconds(datetime!(2028-02-28 0:00 UTC)));
        for wrong in ["", "1", "-1d", "h", "-1h", "99999y", "99999999999d", "2026-01-01"] {
            assert_eq!(age_before(wrong, now), None, "{wrong:?}");
        }
    }

    #[test]
    fn reads_the_forms_of_a_length() {
        for (text, seconds) in [("1s", 1), ("15m", 900), ("8h", 28_800), ("2d", 172_800)] {
            assert_eq!(parse_length(text), Ok(std::time::Duration::from_secs(seconds)));
            assert_eq!(length_text(std::time::Duration::from_secs(seconds)), text);
        }
        assert_eq!(length_text(std::time::Duration::from_secs(90)), "90s");
        for wrong in ["", "s", "0s", "-1s", "1", "1y", "10001d", "99999999999s", "1 h"] {
            assert!(parse_length(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn reads_the_forms_of_an_expiry() {
        let now = datetime!(2028-02-29 12:00 UTC);
        let seconds = |moment: OffsetDateTime| Some(moment.unix_timestamp());
        assert_eq!(expiry_from("10y", now), seconds(datetime!(2038-02-28 12:00 UTC)));
        assert_eq!(expiry_from("4y", now), seconds(datetime!(2032-02-29 12:00 UTC)));
        assert_eq!(expiry_from("2d", now), seconds(datetime!(2028-03-02 12:00 UTC)));
        assert_eq!(expiry_from("2036-11-21", now), seconds(datetime!(2036-11-21 0:00 UTC)));
        assert_eq!(
            expiry_from("2036-11-21T01:00:00+01:00", now),
            seconds(datetime!(2036-11-21 0:00 UTC))
        );
        for wrong in ["", "y", "-1y", "10", "99999y", "2036-13-01", "5000000d", "tomorrow"] {
            assert_eq!(expiry_from(wrong, now), None, "{wrong:?}");
        }
    }
}
