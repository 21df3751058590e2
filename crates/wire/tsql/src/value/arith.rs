//! Arithmetic and comparison of two values of one type.

use std::cmp::Ordering;

use tdekit_wire_tds::{Collation, SqlType, Value};

use super::collation::Order;
use super::decimal::Dec;
use super::{Val, datetime, type_name};
use crate::error::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    BitAnd,
    BitOr,
    BitXor,
}

fn overflow(ty: SqlType) -> Error {
    Error::ResultOverflow { to: type_name(ty).to_owned() }
}

/// Returns the integer if the type can hold it.
pub(crate) fn int_in(value: i64, ty: SqlType) -> Option<i64> {
    let inside = match ty {
        SqlType::TinyInt => u8::try_from(value).is_ok(),
        SqlType::SmallInt => i16::try_from(value).is_ok(),
        SqlType::Int => i32::try_from(value).is_ok(),
        SqlType::Bit => value == 0 || value == 1,
        _ => true,
    };
    inside.then_some(value)
}

/// Integer arithmetic within the type's range.
pub(crate) fn int(op: BinOp, a: i64, b: i64, ty: SqlType) -> Result<i64> {
    let value = match op {
        BinOp::Add => a.checked_add(b),
        BinOp::Sub => a.checked_sub(b),
        BinOp::Mul => a.checked_mul(b),
        BinOp::Div | BinOp::Mod if b == 0 => return Err(Error::DivideByZero {}),
        BinOp::Div => a.checked_div(b),
        BinOp::Mod => Some(a.checked_rem(b).unwrap_or(0)),
        BinOp::BitAnd => Some(a & b),
        BinOp::BitOr => Some(a | b),
        BinOp::BitXor => Some(a ^ b),
    };
    value.and_then(|value| int_in(value, ty)).ok_or_else(|| overflow(ty))
}

fn float(op: BinOp, a: f64, b: f64, ty: SqlType) -> Result<f64> {
    let value = match op {
        BinOp::Add => a + b,
        BinOp::Sub => a - b,
        BinOp::Mul => a * b,
        BinOp::Div if b == 0.0 => return Err(Error::DivideByZero {}),
        BinOp::Div => a / b,
        _ => return Err(overflow(ty)),
    };
    let value = if ty == SqlType::Real { real(value) } else { value };
    if value.is_finite() { Ok(value) } else { Err(overflow(ty)) }
}

/// Rounded to 32 bits.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn real(value: f64) -> f64 {
    f64::from(value as f32)
}

fn money(op: BinOp, a: i64, b: i64, ty: SqlType) -> Result<i64> {
    let (a, b) = (i128::from(a), i128::from(b));
    let value = match op {
        BinOp::Add => a + b,
        BinOp::Sub => a - b,
        BinOp::Mul => {
            let product = a * b;
            let half = if product < 0 { -5000 } else { 5000 };
            (product + half) / 10_000
        }
        BinOp::Div | BinOp::Mod if b == 0 => return Err(Error::DivideByZero {}),
        BinOp::Div => a * 10_000 / b,
        BinOp::Mod => a % b,
        _ => return Err(overflow(ty)),
    };
    let value = i64::try_from(value).map_err(|_| overflow(ty))?;
    if ty == SqlType::SmallMoney && i32::try_from(value).is_err() {
        return Err(overflow(ty));
    }
    Ok(value)
}

/// Returns `a op b`; NULL if either is NULL. For decimals the operands keep their own scales.
pub(crate) fn binary(op: BinOp, a: &Value<'_>, b: &Value<'_>, ty: SqlType) -> Result<Val> {
    Ok(match (a, b) {
        (Value::Null, _) | (_, Value::Null) => Value::Null,
        (Value::Int(a), Value::Int(b)) => Value::Int(int(op, *a, *b, ty)?),
        (Value::Bit(a), Value::Bit(b)) => match op {
            BinOp::BitAnd => Value::Bit(*a && *b),
            BinOp::BitOr => Value::Bit(*a || *b),
            BinOp::BitXor => Value::Bit(a != b),
            _ => return Err(bad_operand(op, ty)),
        },
        (Value::Float(a), Value::Float(b)) => Value::Float(float(op, *a, *b, ty)?),
        (Value::Money(a), Value::Money(b)) => Value::Money(money(op, *a, *b, ty)?),
        (
            Value::Decimal { unscaled: u1, scale: s1 },
            Value::Decimal { unscaled: u2, scale: s2 },
        ) => {
            let SqlType::Decimal { precision, scale } = ty else {
                return Err(bad_operand(op, ty));
            };
            let (a, b) = (Dec::new(*u1, *s1), Dec::new(*u2, *s2));
            let dec = match op {
                BinOp::Add => a.add(b, precision, scale)?,
                BinOp::Sub => a.add(b.neg(), precision, scale)?,
                BinOp::Mul => a.mul(b, precision, scale)?,
                BinOp::Div => a.div(b, precision, scale)?,
                BinOp::Mod => a.rem(b, precision, scale)?,
                _ => return Err(bad_operand(op, ty)),
            };
            Value::Decimal { unscaled: dec.unscaled, scale: dec.scale }
        }
        _ => match (datetime::datetime_ticks(a), datetime::datetime_ticks(b)) {
            (Some(a), Some(b)) => {
                let total = match op {
                    BinOp::Add => a + b,
                    BinOp::Sub => a - b,
                    _ => return Err(bad_operand(op, ty)),
                };
                datetime::from_datetime_ticks(total).ok_or_else(|| overflow(ty))?
            }
            _ => return Err(bad_operand(op, ty)),
        },
    })
}

pub(crate) fn op_name(op: BinOp) -> &'static str {
    match op {
        BinOp::Add => "add",
        BinOp::Sub => "subtract",
        BinOp::Mul => "multiply",
        BinOp::Div => "divide",
        BinOp::Mod => "modulo",
        BinOp::BitAnd => "'&'",
        BinOp::BitOr => "'|'",
        BinOp::BitXor => "'^'",
    }
}

pub(crate) fn bad_operand(op: BinOp, ty: SqlType) -> Error {
    Error::BadOperand { ty: type_name(ty).to_owned(), op: op_name(op).to_owned() }
}

/// Compares two values of one type, neither of them NULL; None if their types differ.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>, collation: Collation) -> Option<Ordering> {
    Some(match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Money(a), Value::Money(b)) => a.cmp(b),
        (Value::Bit(a), Value::Bit(b)) => a.cmp(b),
        (Value::Bit(a), Value::Int(b)) => i64::from(*a).cmp(b),
        (Value::Int(a), Value::Bit(b)) => a.cmp(&i64::from(*b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b)?,
        (
            Value::Decimal { unscaled: u1, scale: s1 },
            Value::Decimal { unscaled: u2, scale: s2 },
        ) => Dec::new(*u1, *s1).compare(Dec::new(*u2, *s2)),
        (Value::Text(a), Value::Text(b)) => Order::of(collation).compare(a, b),
        (Value::Binary(a), Value::Binary(b)) => {
            // the shorter one is treated as padded with zeros
            let trim =
                |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
            a[..trim(a)].cmp(&b[..trim(b)])
        }
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Time(a), Value::Time(b)) => a.cmp(b),
        (Value::DateTime { days: d1, ticks: t1 }, Value::DateTime { days: d2, ticks: t2 }) => {
            (d1, t1).cmp(&(d2, t2))
        }
        (
            Value::SmallDateTime { days: d1, minutes: m1 },
            Value::SmallDateTime { days: d2, minutes: m2 },
        ) => (d1, m1).cmp(&(d2, m2)),
        (Value::DateTime2 { days: d1, ticks: t1 }, Value::DateTime2 { days: d2, ticks: t2 }) => {
            (d1, t1).cmp(&(d2, t2))
        }
        (
            Value::DateTimeOffset { days: d1, ticks: t1, .. },
            Value::DateTimeOffset { days: d2, ticks: t2, .. },
        ) => (d1, t1).cmp(&(d2, t2)),
        (Value::Guid(a), Value::Guid(b)) => {
            let order = |guid: &[u8; 16]| {
                let mut bytes = *guid;
                bytes.reverse();
                // groups from the last to the first, each in the order of its bytes
                let mut key = [0_u8; 16];
                key[..6].copy_from_slice(&guid[10..]);
                key[6..8].copy_from_slice(&guid[8..10]);
                key[8..10].copy_from_slice(&guid[6..8]);
                key[10..12].copy_from_slice(&guid[4..6]);
                key[12..].copy_from_slice(&guid[..4]);
                key
            };
            order(a).cmp(&order(b))
        }
        _ => return None,
    })
}
