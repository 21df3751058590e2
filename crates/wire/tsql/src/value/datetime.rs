//! Days, ticks and dateparts.

use tdekit_wire_tds::{DATETIME_TICKS_PER_DAY, SqlType, TICKS_PER_DAY, Value};

use super::Val;
use crate::error::{Error, Result};

/// Number of days from 0001-01-01 to 1900-01-01.
pub(crate) const DAYS_1900: i64 = 693_595;
/// The last day, 9999-12-31.
pub(crate) const LAST_DAY: i64 = 3_652_058;
/// The first day of `datetime`, 1753-01-01, from 0001-01-01.
const DAY_1753: i64 = 639_905;
/// The last day of `smalldatetime`, 2079-06-06, from 1900-01-01.
const LAST_SMALL_DAY: i64 = 65_535;
const DAY: i64 = 864_000_000_000;
const SECOND: i64 = 10_000_000;

/// A moment: days since 0001-01-01, 100 ns units since midnight, minutes ahead of UTC. Days and
/// ticks are local.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) days: i64,
    pub(crate) ticks: i64,
    pub(crate) offset_min: i64,
}

/// Year, month and day.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    // the calendar repeats after 400 years; years begin in March so that leap days come last
    let z = days + 306;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the days since 0001-01-01; None if there is no such day.
pub(crate) fn from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || day < 1 {
        return None;
    }
    if day > month_length(year, month) {
        return None;
    }
    let shifted = year - i64::from(month <= 2);
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 306)
}

pub(crate) fn month_length(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the value as a moment.
pub(crate) fn moment(value: &Value<'_>) -> Option<Moment> {
    let local = |days: i64, ticks: i64| Moment { days, ticks, offset_min: 0 };
    Some(match value {
        Value::Date(days) => local(i64::from(*days), 0),
        Value::Time(ticks) => local(DAYS_1900, i64::try_from(*ticks).ok()?),
        Value::DateTime { days, ticks } => {
            // 1/300 s is 33,333.3 units; SQL Server shows them rounded to milliseconds
            let ms = (i64::from(*ticks) * 10 + 1) / 3;
            local(i64::from(*days) + DAYS_1900, ms * 10_000)
        }
        Value::SmallDateTime { days, minutes } => {
            local(i64::from(*days) + DAYS_1900, i64::from(*minutes) * 60 * SECOND)
        }
        Value::DateTime2 { days, ticks } => local(i64::from(*days), i64::try_from(*ticks).ok()?),
        Value::DateTimeOffset { days, ticks, offset_min } => {
            let offset_min = i64::from(*offset_min);
            let total = i64::from(*days) * DAY + i64::try_from(*ticks).ok()?;
            let total = total + offset_min * 60 * SECOND;
            Moment { days: total.div_euclid(DAY), ticks: total.rem_euclid(DAY), offset_min }
        }
        _ => return None,
    })
}

/// Returns the value as a moment, in whole units of 100 ns: the exact 1/300 s of `datetime`, not
/// the shown value. Conversion to `time`, `datetime2` and `datetimeoffset` starts from it (SQL
/// Server 2016 and later).
pub(crate) fn exact_moment(value: &Value<'_>) -> Option<Moment> {
    let shown = moment(value)?;
    Some(match value {
        Value::DateTime { ticks, .. } => {
            Moment { ticks: (i64::from(*ticks) * 100_000 + 1) / 3, ..shown }
        }
        _ => shown,
    })
}

fn round_ticks(ticks: i64, scale: u8) -> i64 {
    let unit = unit_of(scale).cast_signed();
    (ticks + unit / 2) / unit * unit
}

/// Truncates to this many digits of a second: nothing finer fits such a type.
pub(crate) fn cut_ticks(ticks: u64, scale: u8) -> u64 {
    ticks / unit_of(scale) * unit_of(scale)
}

/// Returns the unit of the last of this many digits, in 100 ns.
fn unit_of(scale: u8) -> u64 {
    10_u64.pow(u32::from(7 - scale.min(7)))
}

/// Returns the moment as a value of the type, rounded to the type's precision.
///
/// # Errors
/// 242 if it is outside of the type's range.
pub(crate) fn to_type(moment: Moment, ty: SqlType, from: &str) -> Result<Val> {
    let range =
        || Error::DateTimeRange { from: from.to_owned(), to: super::type_name(ty).to_owned() };
    let rounded = |scale: u8| {
        let ticks = round_ticks(moment.ticks, scale);
        if ticks < DAY {
            return (moment.days, ticks);
        }
        // the end of the last day cannot round up to the next
        match moment.days {
            LAST_DAY => (LAST_DAY, cut_ticks(moment.ticks.unsigned_abs(), scale).cast_signed()),
            days => (days + 1, 0),
        }
    };
    match ty {
        SqlType::Date => Ok(Value::Date(u32::try_from(moment.days).map_err(|_| range())?)),
        SqlType::Time(scale) => {
            let ticks = round_ticks(moment.ticks, scale) % DAY;
            Ok(Value::Time(u64::try_from(ticks).map_err(|_| range())?))
        }
        SqlType::DateTime => {
            let mut days = moment.days;
            let mut ticks = (moment.ticks * 300 + SECOND / 2) / SECOND;
            if ticks >= i64::from(DATETIME_TICKS_PER_DAY) {
                days += 1;
                ticks = 0;
            }
            if !(DAY_1753..=LAST_DAY).contains(&days) {
                return Err(range());
            }
            let days = i32::try_from(days - DAYS_1900).map_err(|_| range())?;
            Ok(Value::DateTime { days, ticks: u32::try_from(ticks).map_err(|_| range())? })
        }
        SqlType::SmallDateTime => {
            // 29.998 s and less round down
            let ms = moment.ticks / 10_000;
            let mut minutes = (ms + 30_001) / 60_000;
            let mut days = moment.days - DAYS_1900;
            if minutes >= 1440 {
                days += 1;
                minutes = 0;
            }
            if !(0..=LAST_SMALL_DAY).contains(&days) {
                return Err(range());
            }
            Ok(Value::SmallDateTime {
                days: u16::try_from(days).map_err(|_| range())?,
                minutes: u16::try_from(minutes).map_err(|_| range())?,
            })
        }
        SqlType::DateTime2(scale) => {
            let (days, ticks) = rounded(scale);
            Ok(Value::DateTime2 {
                days: u32::try_from(days).map_err(|_| range())?,
                ticks: u64::try_from(ticks).map_err(|_| range())?,
            })
        }
        SqlType::DateTimeOffset(scale) => {
            let (days, ticks) = rounded(scale);
            let utc = days * DAY + ticks - moment.offset_min * 60 * SECOND;
            let (days, ticks) = (utc.div_euclid(DAY), utc.rem_euclid(DAY));
            if !(0..=LAST_DAY).contains(&days) {
                return Err(range());
            }
            Ok(Value::DateTimeOffset {
                days: u32::try_from(days).map_err(|_| range())?,
                ticks: u64::try_from(ticks).map_err(|_| range())?,
                offset_min: i16::try_from(moment.offset_min).map_err(|_| range())?,
            })
        }
        _ => Err(range()),
    }
}

/// A part of a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Year,
    Quarter,
    Month,
    DayOfYear,
    Day,
    Week,
    IsoWeek,
    Weekday,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    TzOffset,
}

pub(crate) fn part(name: &str) -> Option<Part> {
    Some(match name.to_ascii_lowercase().as_str() {
        "year" | "yy" | "yyyy" => Part::Year,
        "quarter" | "qq" | "q" => Part::Quarter,
        "month" | "mm" | "m" => Part::Month,
        "dayofyear" | "dy" | "y" => Part::DayOfYear,
        "day" | "dd" | "d" => Part::Day,
        "week" | "wk" | "ww" => Part::Week,
        "iso_week" | "isowk" | "isoww" => Part::IsoWeek,
        "weekday" | "dw" | "w" => Part::Weekday,
        "hour" | "hh" => Part::Hour,
        "minute" | "mi" | "n" => Part::Minute,
        "second" | "ss" | "s" => Part::Second,
        "millisecond" | "ms" => Part::Millisecond,
        "microsecond" | "mcs" => Part::Microsecond,
        "nanosecond" | "ns" => Part::Nanosecond,
        "tzoffset" | "tz" => Part::TzOffset,
        _ => return None,
    })
}

/// Sunday 1 to Saturday 7, as with DATEFIRST 7; `first` shifts it.
fn weekday(days: i64, first: i64) -> i64 {
    // 0001-01-01 was a Monday
    let monday_based = days.rem_euclid(7) + 1;
    (monday_based - first).rem_euclid(7) + 1
}

fn iso_week(days: i64) -> i64 {
    let thursday = days - days.rem_euclid(7) + 3;
    let (year, _, _) = civil(thursday);
    let first = from_civil(year, 1, 1).unwrap_or(thursday);
    (thursday - first) / 7 + 1
}

pub(crate) fn get(moment: Moment, part: Part, datefirst: i64) -> i64 {
    let (year, month, day) = civil(moment.days);
    let first = from_civil(year, 1, 1).unwrap_or(moment.days);
    match part {
        Part::Year => year,
        Part::Quarter => (month - 1) / 3 + 1,
        Part::Month => month,
        Part::DayOfYear => moment.days - first + 1,
        Part::Day => day,
        Part::Week => (moment.days - first + weekday(first, datefirst) - 1) / 7 + 1,
        Part::IsoWeek => iso_week(moment.days),
        Part::Weekday => weekday(moment.days, datefirst),
        Part::Hour => moment.ticks / (3600 * SECOND),
        Part::Minute => moment.ticks / (60 * SECOND) % 60,
        Part::Second => moment.ticks / SECOND % 60,
        Part::Millisecond => moment.ticks % SECOND / 10_000,
        Part::Microsecond => moment.ticks % SECOND / 10,
        Part::Nanosecond => moment.ticks % SECOND * 100,
        Part::TzOffset => moment.offset_min,
    }
}

/// DATETRUNC: returns the beginning of the part that contains the moment.
pub(crate) fn truncate(moment: Moment, part: Part, datefirst: i64) -> Moment {
    let (year, month, _) = civil(moment.days);
    let first = |month: i64| from_civil(year, month, 1).unwrap_or(moment.days);
    let days = match part {
        Part::Year => first(1),
        Part::Quarter => first((month - 1) / 3 * 3 + 1),
        Part::Month => first(month),
        Part::Week => moment.days - (weekday(moment.days, datefirst) - 1),
        Part::IsoWeek => moment.days - (weekday(moment.days, 1) - 1),
        _ => moment.days,
    };
    let unit = match part {
        Part::Hour => 3600 * SECOND,
        Part::Minute => 60 * SECOND,
        Part::Second => SECOND,
        Part::Millisecond => SECOND / 1000,
        Part::Microsecond => SECOND / 1_000_000,
        _ => DAY,
    };
    Moment { days, ticks: moment.ticks / unit * unit, ..moment }
}

/// DATEADD; None if the result is outside of the calendar.
pub(crate) fn add(moment: Moment, part: Part, count: i64) -> Option<Moment> {
    let months = |count: i64| {
        let (year, month, day) = civil(moment.days);
        let total = (year * 12 + month - 1).checked_add(count)?;
        let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
        let day = day.min(month_length(year, month));
        Some(Moment { days: from_civil(year, month, day)?, ..moment })
    };
    let ticks = |unit: i64| {
        let total = i128::from(count) * i128::from(unit) + i128::from(moment.ticks);
        let day = i128::from(DAY);
        let days = i64::try_from(total.div_euclid(day)).ok()?.checked_add(moment.days)?;
        let ticks = i64::try_from(total.rem_euclid(day)).ok()?;
        (0..=LAST_DAY).contains(&days).then_some(Moment { days, ticks, ..moment })
    };
    match part {
        Part::Year => months(count.checked_mul(12)?),
        Part::Quarter => months(count.checked_mul(3)?),
        Part::Month => months(count),
        Part::Day | Part::DayOfYear | Part::Weekday => ticks(DAY),
        Part::Week => ticks(7 * DAY),
        Part::Hour => ticks(3600 * SECOND),
        Part::Minute => ticks(60 * SECOND),
        Part::Second => ticks(SECOND),
        Part::Millisecond => ticks(10_000),
        Part::Microsecond => ticks(10),
        Part::Nanosecond => {
            let total = i128::from(count) + 50 * i128::from(count.signum());
            add(moment, Part::Microsecond, 0)?;
            let units = i64::try_from(total / 100).ok()?;
            let total = moment.ticks.checked_add(units)?;
            let days = moment.days + total.div_euclid(DAY);
            (0..=LAST_DAY).contains(&days).then_some(Moment {
                days,
                ticks: total.rem_euclid(DAY),
                ..moment
            })
        }
        Part::IsoWeek | Part::TzOffset => None,
    }
}

/// DATEDIFF: returns the number of boundaries of the part between the two, in UTC for offsets.
pub(crate) fn difference(from: Moment, to: Moment, part: Part) -> Option<i64> {
    let utc = |moment: Moment| {
        let ticks = moment.ticks - moment.offset_min * 60 * SECOND;
        (moment.days + ticks.div_euclid(DAY), ticks.rem_euclid(DAY))
    };
    let ((d1, t1), (d2, t2)) = (utc(from), utc(to));
    let units = |unit: i64| {
        let per_day = DAY / unit;
        let days = i128::from(d2 - d1) * i128::from(per_day);
        i64::try_from(days + i128::from(t2 / unit - t1 / unit)).ok()
    };
    let ((y1, m1, _), (y2, m2, _)) = (civil(d1), civil(d2));
    match part {
        Part::Year => Some(y2 - y1),
        Part::Quarter => Some((y2 * 4 + (m2 - 1) / 3) - (y1 * 4 + (m1 - 1) / 3)),
        Part::Month => Some((y2 * 12 + m2) - (y1 * 12 + m1)),
        Part::Day | Part::DayOfYear | Part::Weekday => Some(d2 - d1),
        // weeks begin on Sunday regardless of DATEFIRST
        Part::Week => Some((d2 + 1).div_euclid(7) - (d1 + 1).div_euclid(7)),
        Part::Hour => units(3600 * SECOND),
        Part::Minute => units(60 * SECOND),
        Part::Second => units(SECOND),
        Part::Millisecond => units(10_000),
        Part::Microsecond => units(10),
        Part::Nanosecond => units(1).and_then(|units| units.checked_mul(100)),
        Part::IsoWeek | Part::TzOffset => None,
    }
}

pub(crate) fn end_of_month(days: i64, months: i64) -> Option<i64> {
    let start = Moment { days, ticks: 0, offset_min: 0 };
    let moved = add(start, Part::Month, months)?;
    let (year, month, _) = civil(moved.days);
    from_civil(year, month, month_length(year, month))
}

/// The moment as days since 1900 with a fraction, in 1/300 s, the unit of `datetime`.
pub(crate) fn datetime_ticks(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::DateTime { days, ticks } => {
            Some(i64::from(*days) * i64::from(DATETIME_TICKS_PER_DAY) + i64::from(*ticks))
        }
        Value::SmallDateTime { days, minutes } => Some(
            i64::from(*days) * i64::from(DATETIME_TICKS_PER_DAY) + i64::from(*minutes) * 18_000,
        ),
        _ => None,
    }
}

/// Returns the `datetime` of this many 1/300 s since 1900; None outside of its range.
pub(crate) fn from_datetime_ticks(total: i64) -> Option<Val> {
    let per_day = i64::from(DATETIME_TICKS_PER_DAY);
    let days = total.div_euclid(per_day);
    if !(DAY_1753..=LAST_DAY).contains(&(days + DAYS_1900)) {
        return None;
    }
    Some(Value::DateTime {
        days: i32::try_from(days).ok()?,
        ticks: u32::try_from(total.rem_euclid(per_day)).ok()?,
    })
}

/// Returns the system's time; UTC, as the server has no other zone.
pub(crate) fn now() -> Moment {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(0);
    let ticks = (seconds % 86_400) * SECOND + i64::from(since.subsec_nanos() / 100);
    // 1970-01-01 is day 719,162
    Moment { days: 719_162 + seconds / 86_400, ticks, offset_min: 0 }
}

const _: () = assert!(TICKS_PER_DAY == 864_000_000_000);

#[cfg(test)]
mod tests {
    use super::{DAYS_1900, LAST_DAY, civil, from_civil};

    #[test]
    fn calendar_goes_round() {
        assert_eq!(from_civil(1, 1, 1), Some(0));
        assert_eq!(from_civil(1900, 1, 1), Some(DAYS_1900));
        assert_eq!(from_civil(9999, 12, 31), Some(LAST_DAY));
        assert_eq!(from_civil(1970, 1, 1), Some(719_162));
        assert_eq!(from_civil(1753, 1, 1), Some(super::DAY_1753));
        for days in (0..=LAST_DAY).step_by(13) {
            let (year, month, day) = civil(days);
            assert_eq!(from_civil(year, month, day), Some(days));
        }
        assert_eq!(from_civil(1900, 2, 29), None);
    }
}
