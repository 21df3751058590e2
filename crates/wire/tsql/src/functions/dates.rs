//! Functions of dates.

use std::borrow::Cow;

use tdekit_wire_tds::{Length, SqlType, Value};

use super::{bad_argument, number_arg};
use crate::error::{Error, Result};
use crate::functions::eval::Env;
use crate::functions::table::Dated;
use crate::functions::typing::convert;
use crate::plan::func::{Date, Func};
use crate::plan::scalar::{Node, Scalar};
use crate::value::dateparse::{self, DateText};
use crate::value::datetime::{self, Moment, Part};
use crate::value::{Family, family, is_text, type_name};

/// A date argument: text becomes `datetimeoffset(7)`, numbers `datetime`.
fn date_arg(arg: &Scalar, index: usize, name: &str) -> Result<Scalar> {
    match family(arg.ty) {
        Family::Temporal => Ok(arg.clone()),
        _ if arg.node.is_untyped() || is_text(arg.ty) && arg.ty != SqlType::Xml => {
            convert(arg.clone(), SqlType::DateTime2(7))
        }
        Family::Int | Family::Decimal | Family::Float | Family::Money => {
            convert(arg.clone(), SqlType::DateTime)
        }
        _ => Err(bad_argument(arg.ty, index, name)),
    }
}

pub(crate) fn bind(name: &str, func: Date, args: &[Scalar]) -> Result<Scalar> {
    let int_at = |at: usize| number_arg(&args[at], SqlType::Int, at + 1, name);
    let zone = || if is_text(args[1].ty) { Ok(args[1].clone()) } else { int_at(1) };
    let (ty, bound) = match func {
        Date::EndOfMonth => {
            let mut bound = vec![date_arg(&args[0], 1, name)?];
            if args.len() == 2 {
                bound.push(int_at(1)?);
            }
            (SqlType::Date, bound)
        }
        Date::FromParts | Date::DateTimeFromParts => {
            let ty = if func == Date::FromParts { SqlType::Date } else { SqlType::DateTime };
            (ty, (0..args.len()).map(int_at).collect::<Result<Vec<_>>>()?)
        }
        Date::IsDate => (SqlType::Int, args.to_vec()),
        Date::AtTimeZone => return Err(Error::NotAFunction { name: name.to_owned() }),
        Date::SwitchOffset => {
            let first = convert(args[0].clone(), SqlType::DateTimeOffset(7))?;
            (SqlType::DateTimeOffset(7), vec![first, zone()?])
        }
        Date::ToDateTimeOffset => {
            let first = convert(args[0].clone(), SqlType::DateTime2(7))?;
            (SqlType::DateTimeOffset(7), vec![first, zone()?])
        }
        // YEAR, MONTH and DAY; the others have a word for the part
        Date::Part(_) | Date::Name(_) | Date::Add(_) | Date::Diff(_) | Date::Trunc(_) => {
            (SqlType::Int, vec![date_arg(&args[0], 1, name)?])
        }
    };
    Ok(Scalar::new(ty, true, Node::Call(Func::Date(func), bound)))
}

/// Binds AT TIME ZONE: a time, and the name of a zone.
///
/// # Errors
/// 8116 for other types.
pub(crate) fn at_time_zone(args: &[Scalar]) -> Result<Scalar> {
    let name = "AT TIME ZONE";
    super::check_count(name, args.len(), 2, 2)?;
    let bad = |at: usize| {
        let (ty, name) = (type_name(args[at].ty).to_owned(), name.to_owned());
        Error::BadArgument { ty, index: at + 1, name }
    };
    let scale = match args[0].ty {
        SqlType::SmallDateTime => 0,
        SqlType::DateTime => 3,
        SqlType::DateTime2(scale) | SqlType::DateTimeOffset(scale) => scale,
        _ => return Err(bad(0)),
    };
    if !is_text(args[1].ty) {
        return Err(bad(1));
    }
    let ty = SqlType::DateTimeOffset(scale);
    let time = convert(args[0].clone(), ty)?;
    let node = Node::Call(Func::Date(Date::AtTimeZone), vec![time, args[1].clone()]);
    Ok(Scalar::new(ty, true, node))
}

pub(crate) fn bind_dated(
    name: &str,
    dated: Dated,
    (part, part_name): (Part, &str),
    args: &[Scalar],
) -> Result<Scalar> {
    let unknown =
        || Error::BadDatepart { name: part_name.to_owned(), function: name.to_lowercase() };
    match dated {
        Dated::Add => {
            if matches!(part, Part::IsoWeek | Part::TzOffset) {
                return Err(unknown());
            }
            let count = convert(number_arg(&args[0], SqlType::Int, 2, name)?, SqlType::BigInt)?;
            let date = if is_text(args[1].ty) {
                // text is taken as datetime here
                convert(args[1].clone(), SqlType::DateTime)?
            } else {
                date_arg(&args[1], 3, name)?
            };
            let small = matches!(
                part,
                Part::Hour
                    | Part::Minute
                    | Part::Second
                    | Part::Millisecond
                    | Part::Microsecond
                    | Part::Nanosecond
            );
            if date.ty == SqlType::Date && small {
                return Err(not_for(part_name, name, date.ty));
            }
            let ty = date.ty;
            let node = Node::Call(Func::Date(Date::Add(part)), vec![count, date]);
            Ok(Scalar::new(ty, true, node))
        }
        Dated::Trunc => {
            let small = matches!(part, Part::Weekday | Part::TzOffset | Part::Nanosecond);
            if small {
                return Err(unknown());
            }
            let date = date_arg(&args[0], 2, name)?;
            let clock = matches!(
                part,
                Part::Hour | Part::Minute | Part::Second | Part::Millisecond | Part::Microsecond
            );
            let fits = match date.ty {
                SqlType::Date => !clock,
                SqlType::Time(_) => clock,
                SqlType::DateTime | SqlType::SmallDateTime => part != Part::Microsecond,
                _ => true,
            };
            if !fits {
                return Err(not_for(part_name, name, date.ty));
            }
            let ty = date.ty;
            Ok(Scalar::new(ty, true, Node::Call(Func::Date(Date::Trunc(part)), vec![date])))
        }
        Dated::Diff | Dated::DiffBig => {
            if matches!(part, Part::IsoWeek | Part::TzOffset) {
                return Err(unknown());
            }
            let bound = vec![date_arg(&args[0], 2, name)?, date_arg(&args[1], 3, name)?];
            let ty = if dated == Dated::Diff { SqlType::Int } else { SqlType::BigInt };
            Ok(Scalar::new(ty, true, Node::Call(Func::Date(Date::Diff(part)), bound)))
        }
        Dated::Part | Dated::Name => {
            let date = date_arg(&args[0], 2, name)?;
            let (func, ty) = if dated == Dated::Part {
                (Date::Part(part), SqlType::Int)
            } else {
                (Date::Name(part), SqlType::NVarChar(Length::Of(30)))
            };
            Ok(Scalar::new(ty, true, Node::Call(Func::Date(func), vec![date])))
        }
    }
}

fn not_for(part: &str, function: &str, ty: SqlType) -> Error {
    Error::DatepartNotFor {
        part: part.to_owned(),
        function: function.to_lowercase(),
        ty: type_name(ty).to_owned(),
    }
}

fn int_of(value: &Value<'_>) -> i64 {
    match value {
        Value::Int(int) => *int,
        _ => 0,
    }
}

pub(crate) fn compute<'e>(
    func: Date,
    values: &[Value<'e>],
    args: &[Scalar],
    ty: SqlType,
    env: &Env<'e>,
) -> Result<Value<'e>> {
    if func == Date::IsDate {
        return Ok(Value::Int(i64::from(is_date(values.first(), args[0].ty, env.order))));
    }
    if values.contains(&Value::Null) {
        return Ok(Value::Null);
    }
    let moment_at = |at: usize| values.get(at).and_then(datetime::moment);
    match func {
        Date::Add(part) => {
            let Some(moment) = moment_at(1) else { return Ok(Value::Null) };
            let overflow = || Error::DateAddOverflow { ty: type_name(ty).to_owned() };
            let moved = datetime::add(moment, part, int_of(&values[0])).ok_or_else(overflow)?;
            // a time wraps around
            datetime::to_type(moved, ty, type_name(ty)).map_err(|_| overflow())
        }
        Date::Diff(part) => {
            let (Some(from), Some(to)) = (moment_at(0), moment_at(1)) else {
                return Ok(Value::Null);
            };
            let count = datetime::difference(from, to, part).ok_or(Error::DateDiffOverflow {})?;
            crate::value::arith::int_in(count, ty).map(Value::Int).ok_or(Error::DateDiffOverflow {})
        }
        Date::Part(part) => {
            let Some(moment) = moment_at(0) else { return Ok(Value::Null) };
            Ok(Value::Int(datetime::get(moment, part, env.datefirst)))
        }
        Date::Trunc(part) => {
            let Some(moment) = moment_at(0) else { return Ok(Value::Null) };
            made(datetime::truncate(moment, part, env.datefirst), ty)
        }
        Date::Name(part) => {
            let Some(moment) = moment_at(0) else { return Ok(Value::Null) };
            let number = datetime::get(moment, part, env.datefirst);
            let text = match part {
                Part::Month => env.order.language.month(number).to_owned(),
                Part::Weekday => env.order.language.day(moment.days.rem_euclid(7)).to_owned(),
                Part::TzOffset => dateparse::offset_text(number),
                _ => number.to_string(),
            };
            Ok(Value::Text(Cow::Owned(text)))
        }
        Date::EndOfMonth => {
            let Some(moment) = moment_at(0) else { return Ok(Value::Null) };
            let months = values.get(1).map_or(0, int_of);
            let days = datetime::end_of_month(moment.days, months)
                .ok_or(Error::DateAddOverflow { ty: "date".to_owned() })?;
            made(Moment { days, ticks: 0, offset_min: 0 }, ty)
        }
        Date::FromParts => {
            let at = |index: usize| int_of(&values[index]);
            let days = datetime::from_civil(at(0), at(1), at(2)).ok_or(Error::BadDateParts {})?;
            made(Moment { days, ticks: 0, offset_min: 0 }, ty)
        }
        Date::DateTimeFromParts => {
            let at = |index: usize| int_of(&values[index]);
            let days = datetime::from_civil(at(0), at(1), at(2)).ok_or(Error::BadDateParts {})?;
            let ok = (0..24).contains(&at(3))
                && (0..60).contains(&at(4))
                && (0..60).contains(&at(5))
                && (0..1000).contains(&at(6));
            if !ok {
                return Err(Error::BadDateParts {});
            }
            let ms = ((at(3) * 60 + at(4)) * 60 + at(5)) * 1000 + at(6);
            made(Moment { days, ticks: ms * 10_000, offset_min: 0 }, ty)
        }
        Date::SwitchOffset | Date::ToDateTimeOffset => {
            let Some(moment) = moment_at(0) else { return Ok(Value::Null) };
            let offset = zone(&values[1])?;
            let ticks = if func == Date::SwitchOffset {
                moment.ticks + (offset - moment.offset_min) * 600_000_000
            } else {
                moment.ticks
            };
            let day = 864_000_000_000;
            let days = moment.days + ticks.div_euclid(day);
            made(Moment { days, ticks: ticks.rem_euclid(day), offset_min: offset }, ty)
        }
        Date::AtTimeZone => at_zone(moment_at(0), &values[1], ty),
        Date::IsDate => Ok(Value::Null),
    }
}

/// A time without an offset is one of the zone, which has none itself.
fn at_zone<'e>(moment: Option<Moment>, zone: &Value<'_>, ty: SqlType) -> Result<Value<'e>> {
    let (Some(moment), Value::Text(zone)) = (moment, zone) else { return Ok(Value::Null) };
    if !zone.trim_end().eq_ignore_ascii_case("UTC") {
        return Err(Error::feature(format!("the time zone {zone}")));
    }
    let (day, ticks) = (864_000_000_000, moment.ticks - moment.offset_min * 600_000_000);
    let days = moment.days + ticks.div_euclid(day);
    made(Moment { days, ticks: ticks.rem_euclid(day), offset_min: 0 }, ty)
}

fn made<'e>(moment: Moment, ty: SqlType) -> Result<Value<'e>> {
    datetime::to_type(moment, ty, type_name(ty))
}

fn zone(value: &Value<'_>) -> Result<i64> {
    let bad = || Error::BadDateTime {};
    let minutes = match value {
        Value::Int(minutes) => *minutes,
        Value::Text(text) => {
            let (sign, rest) = match text.chars().next() {
                Some('-') => (-1, &text[1..]),
                Some('+') => (1, &text[1..]),
                _ => return Err(bad()),
            };
            let (hours, minutes) = rest.split_once(':').ok_or_else(bad)?;
            let hours: i64 = hours.parse().map_err(|_| bad())?;
            let minutes: i64 = minutes.parse().map_err(|_| bad())?;
            sign * (hours * 60 + minutes)
        }
        _ => return Err(bad()),
    };
    if (-840..=840).contains(&minutes) { Ok(minutes) } else { Err(bad()) }
}

fn is_date(value: Option<&Value<'_>>, ty: SqlType, order: DateText) -> bool {
    match value {
        Some(Value::Text(text)) => {
            !text.trim().is_empty()
                && dateparse::parse_datetime(text, order).is_some_and(|moment| {
                    datetime::to_type(moment, SqlType::DateTime, "varchar").is_ok()
                })
        }
        Some(Value::Null) | None => false,
        Some(_) => matches!(ty, SqlType::DateTime | SqlType::SmallDateTime),
    }
}
