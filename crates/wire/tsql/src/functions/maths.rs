//! Functions of numbers.

use tdekit_wire_tds::{SqlType, Value};

use super::{bad_argument, number_arg};
use crate::error::{Error, Result};
use crate::functions::typing::convert;
use crate::plan::func::{Func, Math};
use crate::plan::scalar::{Node, Scalar};
use crate::value::decimal::{Dec, pow10};
use crate::value::{Family, family, is_numeric, is_text, type_name};

pub(crate) fn bind(name: &str, func: Math, args: &[Scalar]) -> Result<Scalar> {
    let keeps = matches!(
        func,
        Math::Abs | Math::Ceiling | Math::Floor | Math::Sign | Math::Round | Math::Power
    );
    let (ty, bound) = if keeps {
        let first = &args[0];
        if !(is_numeric(first.ty) || is_text(first.ty)) {
            return Err(bad_argument(first.ty, 1, name));
        }
        let own = match first.ty {
            ty if is_text(ty) => SqlType::Float,
            SqlType::Bit | SqlType::Real => SqlType::Float,
            // ABS and SIGN keep the small integers; the others widen them
            SqlType::TinyInt | SqlType::SmallInt => SqlType::Int,
            SqlType::SmallMoney => SqlType::Money,
            ty => ty,
        };
        let first = convert(first.clone(), own)?;
        let ty = match own {
            SqlType::Decimal { precision, scale: _ }
                if matches!(func, Math::Ceiling | Math::Floor) =>
            {
                SqlType::Decimal { precision, scale: 0 }
            }
            SqlType::Decimal { scale, .. } if matches!(func, Math::Sign | Math::Power) => {
                SqlType::Decimal { precision: 38, scale }
            }
            _ => own,
        };
        let mut bound = vec![first];
        for (at, arg) in args.iter().enumerate().skip(1) {
            let wanted = if func == Math::Power { SqlType::Float } else { SqlType::Int };
            bound.push(number_arg(arg, wanted, at + 1, name)?);
        }
        (ty, bound)
    } else {
        let bound = args
            .iter()
            .enumerate()
            .map(|(at, arg)| number_arg(arg, SqlType::Float, at + 1, name))
            .collect::<Result<Vec<_>>>()?;
        (SqlType::Float, bound)
    };
    let nullable = func != Math::Pi;
    let made = Scalar::new(ty, nullable, Node::Call(Func::Math(func), bound));
    Ok(crate::functions::typing::folded(made))
}

fn finite(value: f64, ty: SqlType) -> Result<Value<'static>> {
    if value.is_nan() {
        return Err(Error::FloatDomain {});
    }
    if !value.is_finite() {
        return Err(Error::ResultOverflow { to: type_name(ty).to_owned() });
    }
    Ok(Value::Float(value))
}

pub(crate) fn compute<'e>(func: Math, values: &[Value<'e>], ty: SqlType) -> Result<Value<'e>> {
    if values.contains(&Value::Null) {
        return Ok(Value::Null);
    }
    match func {
        Math::Pi => return Ok(Value::Float(std::f64::consts::PI)),
        Math::Round => return round(values, ty),
        Math::Power => return power(values, ty),
        Math::Abs | Math::Ceiling | Math::Floor | Math::Sign => return kept(func, &values[0], ty),
        _ => {}
    }
    let Value::Float(x) = values[0] else { return Ok(Value::Null) };
    let y = match values.get(1) {
        Some(Value::Float(y)) => *y,
        _ => 0.0,
    };
    let domain = match func {
        Math::Acos | Math::Asin => (-1.0..=1.0).contains(&x),
        Math::Log if values.len() == 2 => x > 0.0 && y > 0.0 && y != 1.0,
        Math::Log | Math::Log10 => x > 0.0,
        Math::Sqrt => x >= 0.0,
        Math::Cot => x != 0.0,
        _ => true,
    };
    if !domain {
        return Err(Error::FloatDomain {});
    }
    let result = match func {
        Math::Acos => x.acos(),
        Math::Asin => x.asin(),
        Math::Atan => x.atan(),
        Math::Atn2 => x.atan2(y),
        Math::Cos => x.cos(),
        Math::Cot => 1.0 / x.tan(),
        Math::Degrees => x.to_degrees(),
        Math::Exp => x.exp(),
        Math::Log if values.len() == 2 => x.ln() / y.ln(),
        Math::Log => x.ln(),
        Math::Log10 => x.log10(),
        Math::Radians => x.to_radians(),
        Math::Sin => x.sin(),
        Math::Sqrt => x.sqrt(),
        Math::Square => x * x,
        _ => x.tan(),
    };
    finite(result, ty)
}

fn overflow(ty: SqlType) -> Error {
    Error::ResultOverflow { to: type_name(ty).to_owned() }
}

fn kept<'e>(func: Math, value: &Value<'e>, ty: SqlType) -> Result<Value<'e>> {
    Ok(match value {
        Value::Int(int) => match func {
            Math::Abs => {
                let abs = int.checked_abs().ok_or_else(|| overflow(ty))?;
                let abs = crate::value::arith::int_in(abs, ty);
                Value::Int(abs.ok_or_else(|| overflow(ty))?)
            }
            Math::Sign => Value::Int(int.signum()),
            _ => Value::Int(*int),
        },
        Value::Float(x) => Value::Float(match func {
            Math::Abs => x.abs(),
            Math::Ceiling => x.ceil(),
            Math::Floor => x.floor(),
            _ if *x == 0.0 => 0.0,
            _ => x.signum(),
        }),
        Value::Money(money) => {
            let unit = 10_000;
            Value::Money(match func {
                Math::Abs => money.checked_abs().ok_or_else(|| overflow(ty))?,
                Math::Ceiling => (money.div_euclid(unit) + i64::from(money % unit != 0))
                    .checked_mul(unit)
                    .ok_or_else(|| overflow(ty))?,
                Math::Floor => {
                    money.div_euclid(unit).checked_mul(unit).ok_or_else(|| overflow(ty))?
                }
                _ => money.signum() * unit,
            })
        }
        Value::Decimal { unscaled, scale } => {
            let unit = i128::try_from(pow10(*scale)).map_err(|_| overflow(ty))?;
            let (unscaled, scale) = match func {
                Math::Abs => (unscaled.abs(), *scale),
                Math::Ceiling => (unscaled.div_euclid(unit) + i128::from(unscaled % unit != 0), 0),
                Math::Floor => (unscaled.div_euclid(unit), 0),
                _ => (unscaled.signum() * unit, *scale),
            };
            Value::Decimal { unscaled, scale }
        }
        _ => Value::Null,
    })
}

/// ROUND to this many places, or truncation if the third argument is not 0.
fn round<'e>(values: &[Value<'e>], ty: SqlType) -> Result<Value<'e>> {
    let Value::Int(places) = values[1] else { return Ok(Value::Null) };
    let cut = matches!(values.get(2), Some(Value::Int(mode)) if *mode != 0);
    let rounded = |dec: Dec| -> Result<i128> {
        let drop = i64::from(dec.scale) - places;
        if drop <= 0 {
            return Ok(dec.unscaled);
        }
        let Some(drop) = u8::try_from(drop).ok().filter(|drop| *drop <= 38) else {
            return Ok(0);
        };
        let unit = i128::try_from(pow10(drop)).map_err(|_| overflow(ty))?;
        let rest = dec.unscaled % unit;
        let base = dec.unscaled - rest;
        let up = !cut && rest.unsigned_abs() >= unit.unsigned_abs() - rest.unsigned_abs();
        if !up {
            return Ok(base);
        }
        base.checked_add(unit * rest.signum()).ok_or_else(|| overflow(ty))
    };
    Ok(match &values[0] {
        Value::Int(int) => {
            let value = rounded(Dec::new(i128::from(*int), 0))?;
            let value = i64::try_from(value).map_err(|_| overflow(ty))?;
            Value::Int(crate::value::arith::int_in(value, ty).ok_or_else(|| overflow(ty))?)
        }
        Value::Money(money) => {
            let value = rounded(Dec::new(i128::from(*money), 4))?;
            Value::Money(i64::try_from(value).map_err(|_| overflow(ty))?)
        }
        Value::Decimal { unscaled, scale } => {
            let value = rounded(Dec::new(*unscaled, *scale))?;
            let SqlType::Decimal { precision, .. } = ty else { return Ok(Value::Null) };
            if value.unsigned_abs() >= pow10(precision) {
                return Err(overflow(ty));
            }
            Value::Decimal { unscaled: value, scale: *scale }
        }
        Value::Float(x) => {
            let places = i32::try_from(places.clamp(-400, 400)).unwrap_or(0);
            let unit = 10_f64.powi(places.abs());
            let scaled = if places >= 0 { x * unit } else { x / unit };
            if !scaled.is_finite() {
                return Ok(Value::Float(*x));
            }
            let whole = if cut { scaled.trunc() } else { scaled.round() };
            finite(if places >= 0 { whole / unit } else { whole * unit }, ty)?
        }
        _ => Value::Null,
    })
}

fn power<'e>(values: &[Value<'e>], ty: SqlType) -> Result<Value<'e>> {
    let Value::Float(exponent) = values[1] else { return Ok(Value::Null) };
    // integer powers of integers are exact
    if let (Value::Int(base), Ok(count)) = (&values[0], format!("{exponent}").parse::<u32>()) {
        let value = base.checked_pow(count).ok_or_else(|| overflow(ty))?;
        return Ok(Value::Int(crate::value::arith::int_in(value, ty).ok_or_else(|| overflow(ty))?));
    }
    let order = crate::value::dateparse::DateText::default();
    let from = match family(ty) {
        Family::Decimal => SqlType::Decimal { precision: 38, scale: 0 },
        _ => ty,
    };
    let base = crate::value::convert::convert(&values[0], from, SqlType::Float, 0, order)?;
    let Value::Float(base) = base else { return Ok(Value::Null) };
    if base == 0.0 && exponent < 0.0 {
        return Err(Error::DivideByZero {});
    }
    let value = finite(base.powf(exponent), ty)?;
    crate::value::convert::convert(&value, SqlType::Float, ty, 0, order).map_err(|_| overflow(ty))
}
