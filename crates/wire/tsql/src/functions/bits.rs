//! Functions of bits, of integers and of bytes. Bit 0 is the last one of the last byte.

use tdekit_wire_tds::messages::DefinedError;
use tdekit_wire_tds::{Length, SqlType, Value};

use super::bad_argument;
use crate::error::Result;
use crate::functions::typing::{convert, folded};
use crate::plan::func::{Bits, Func};
use crate::plan::scalar::{Node, Scalar};

pub(super) fn bind(name: &str, func: Bits, args: Vec<Scalar>) -> Result<Scalar> {
    let nullable = args.iter().any(|arg| arg.nullable);
    let mut bound = Vec::new();
    for (at, arg) in (1..).zip(args) {
        let arg = if arg.node.is_untyped() { convert(arg, SqlType::BigInt)? } else { arg };
        let fits = match at {
            1 => integer(arg.ty) || is_bytes(arg.ty),
            2 => integer(arg.ty),
            _ => integer(arg.ty) || arg.ty == SqlType::Bit,
        };
        if !fits {
            return Err(bad_argument(arg.ty, at, name));
        }
        bound.push(if at == 1 { arg } else { convert(arg, SqlType::BigInt)? });
    }
    let ty = match func {
        Bits::Count => SqlType::BigInt,
        Bits::Get => SqlType::Bit,
        Bits::Left | Bits::Right | Bits::Set => bound[0].ty,
    };
    Ok(folded(Scalar::new(ty, nullable, Node::Call(Func::Bits(func), bound))))
}

fn integer(ty: SqlType) -> bool {
    matches!(ty, SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt)
}

fn is_bytes(ty: SqlType) -> bool {
    matches!(ty, SqlType::Binary(_) | SqlType::VarBinary(Length::Of(_)))
}

pub(super) fn compute<'e>(
    func: Bits,
    values: &[Value<'_>],
    args: &[Scalar],
    ty: SqlType,
) -> Result<Value<'e>> {
    if values.contains(&Value::Null) {
        return Ok(Value::Null);
    }
    let of = args.first().map_or(ty, |arg| arg.ty);
    let Some(mut bytes) = values.first().and_then(|value| bytes_of(value, of)) else {
        return Ok(Value::Null);
    };
    let number = |at: usize| match values.get(at) {
        Some(Value::Int(number)) => *number,
        _ => 1,
    };
    let invalid = |number: usize, name: &'static str| -> Result<Value<'e>> {
        Err(DefinedError::InvalidParameter { number, name }.into())
    };
    match func {
        Bits::Count => {
            let count = bytes.iter().map(|byte| i64::from(byte.count_ones())).sum();
            return Ok(Value::Int(count));
        }
        Bits::Left | Bits::Right => {
            let amount = number(1);
            let left = (func == Bits::Left) == (amount >= 0);
            bytes = shifted(&bytes, amount.unsigned_abs(), left);
        }
        Bits::Get | Bits::Set => {
            let name = if func == Bits::Get { "get_bit" } else { "set_bit" };
            let offset = usize::try_from(number(1)).unwrap_or(usize::MAX);
            let at = bytes.len().checked_sub(offset / 8 + 1);
            let Some(byte) = at.and_then(|at| bytes.get_mut(at)) else { return invalid(2, name) };
            let mask = 1_u8 << (offset % 8);
            match (func, number(2)) {
                (Bits::Get, _) => return Ok(Value::Bit(*byte & mask != 0)),
                (_, 1) => *byte |= mask,
                (_, 0) => *byte &= !mask,
                _ => return invalid(3, name),
            }
        }
    }
    Ok(value_of(bytes, of))
}

/// Returns the bytes of a value, the last ones last: those of an integer are as many as its type
/// has.
fn bytes_of(value: &Value<'_>, ty: SqlType) -> Option<Vec<u8>> {
    match value {
        Value::Binary(bytes) => Some(bytes.to_vec()),
        Value::Int(int) => {
            let all = int.to_be_bytes();
            Some(all[all.len() - width(ty)..].to_vec())
        }
        _ => None,
    }
}

fn value_of(bytes: Vec<u8>, ty: SqlType) -> Value<'static> {
    if is_bytes(ty) {
        return Value::Binary(bytes.into());
    }
    let signed = ty != SqlType::TinyInt && bytes.first().is_some_and(|byte| *byte >= 0x80);
    let start = if signed { -1_i64 } else { 0 };
    Value::Int(bytes.iter().fold(start, |int, byte| (int << 8) | i64::from(*byte)))
}

fn width(ty: SqlType) -> usize {
    match ty {
        SqlType::TinyInt => 1,
        SqlType::SmallInt => 2,
        SqlType::Int => 4,
        _ => 8,
    }
}

/// Moves bits within their number of bytes; zeros come in.
fn shifted(bytes: &[u8], amount: u64, left: bool) -> Vec<u8> {
    let whole = usize::try_from(amount / 8).unwrap_or(usize::MAX);
    let rest = u32::try_from(amount % 8).unwrap_or(0);
    let byte = |at: Option<usize>| at.and_then(|at| bytes.get(at)).copied().map_or(0, u16::from);
    let one = |at: usize| {
        // of two bytes beside each other, those eight bits that end up in this byte
        let pair = match left {
            true => {
                let from = at.checked_add(whole);
                let next = from.and_then(|from| from.checked_add(1));
                (byte(from) << 8 | byte(next)) << rest >> 8
            }
            false => {
                let from = at.checked_sub(whole);
                let before = from.and_then(|from| from.checked_sub(1));
                (byte(before) << 8 | byte(from)) >> rest
            }
        };
        pair.to_be_bytes()[1]
    };
    (0..bytes.len()).map(one).collect()
}
