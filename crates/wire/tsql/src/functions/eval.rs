//! Evaluates bound expressions: for variables in batches, and for SQLite's rows in kernels.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::atomic::AtomicBool;

use tdekit_wire_tds::{Length, SqlType, Value};

use crate::ast::{BinOp, CmpOp};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::plan::routine::Reader;
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::Sequence;
use crate::value::collation::Order as TextOrder;
use crate::value::convert::CodePages;
use crate::value::dateparse::DateText;
use crate::value::{
    Family, Val, affordable, arith, bulk_bytes, convert, family, is_national, length_of, text,
    type_name,
};

/// Maximum growth factor of a conversion: binary as text has two digits for each byte.
const CONVERTED: usize = 3;

/// Values from the session: `@@` variables, GETDATE() and the like.
pub(crate) trait SessionCalls {
    fn call(&self, name: &'static str, args: &[Value<'_>]) -> Result<Val>;
}

/// Statements of functions.
pub(crate) trait Reads {
    /// Runs a statement over the variables of a function, with one call for each row while that
    /// returns true.
    fn rows(
        &self,
        reader: &Reader,
        env: &Env<'_>,
        each: &mut dyn FnMut(Vec<Val>) -> Result<bool>,
    ) -> Result<()>;

    /// Runs a change of a table of the function, with the first identity value and the increment.
    /// Returns the number of rows, and the last identity value.
    fn change(
        &self,
        reader: &Reader,
        env: &Env<'_>,
        identity: Option<(i64, i64)>,
    ) -> Result<(u64, Option<i64>)>;
}

/// The environment of an evaluation.
#[derive(Clone, Copy)]
pub(crate) struct Env<'e> {
    pub(crate) vars: &'e [Val],
    pub(crate) args: &'e [Value<'e>],
    /// Values that the session gives to functions.
    pub(crate) given: &'e [Val],
    pub(crate) session: Option<&'e dyn SessionCalls>,
    /// None where no function can read tables.
    pub(crate) reads: Option<&'e dyn Reads>,
    /// What HASHBYTES asks.
    pub(crate) host: Option<&'e dyn Host>,
    pub(crate) order: DateText,
    pub(crate) datefirst: i64,
    /// True once the client cancels; for loops of functions.
    pub(crate) cancel: Option<&'e AtomicBool>,
    /// The number of functions that are running, and where the first has its place on the stack.
    pub(crate) depth: (usize, usize),
}

impl<'e> Env<'e> {
    pub(crate) fn empty() -> Env<'e> {
        Env {
            vars: &[],
            args: &[],
            given: &[],
            session: None,
            reads: None,
            host: None,
            order: DateText::default(),
            datefirst: 7,
            cancel: None,
            depth: (0, 0),
        }
    }

    pub(crate) fn session(&self, name: &'static str, args: &[Value<'_>]) -> Result<Value<'e>> {
        match self.session {
            Some(session) => session.call(name, args),
            None => Err(Error::feature(format!("{name} in this place"))),
        }
    }
}

/// Returns the same value with borrowed bytes.
pub(crate) fn borrow<'a>(value: &'a Value<'_>) -> Value<'a> {
    match value {
        Value::Text(text) => Value::Text(Cow::Borrowed(text)),
        Value::Binary(bytes) => Value::Binary(Cow::Borrowed(bytes)),
        Value::Variant(variant) => Value::Variant(Box::new(tdekit_wire_tds::Variant {
            ty: variant.ty,
            value: borrow(&variant.value),
        })),
        Value::Null => Value::Null,
        Value::Bit(bit) => Value::Bit(*bit),
        Value::Int(int) => Value::Int(*int),
        Value::Float(float) => Value::Float(*float),
        Value::Decimal { unscaled, scale } => Value::Decimal { unscaled: *unscaled, scale: *scale },
        Value::Money(money) => Value::Money(*money),
        Value::Date(days) => Value::Date(*days),
        Value::Time(ticks) => Value::Time(*ticks),
        Value::DateTime { days, ticks } => Value::DateTime { days: *days, ticks: *ticks },
        Value::SmallDateTime { days, minutes } => {
            Value::SmallDateTime { days: *days, minutes: *minutes }
        }
        Value::DateTime2 { days, ticks } => Value::DateTime2 { days: *days, ticks: *ticks },
        Value::DateTimeOffset { days, ticks, offset_min } => {
            Value::DateTimeOffset { days: *days, ticks: *ticks, offset_min: *offset_min }
        }
        Value::Guid(guid) => Value::Guid(*guid),
    }
}

/// Evaluates an integer expression separately: loops count with these.
pub(crate) fn eval_int(bound: &Scalar, env: &Env<'_>) -> Result<Option<i64>> {
    match &bound.node {
        Node::Const(Value::Int(int)) => Ok(Some(*int)),
        Node::Var(slot) => match env.vars.get(*slot) {
            Some(Value::Int(int)) => Ok(Some(*int)),
            Some(Value::Bit(bit)) => Ok(Some(i64::from(*bit))),
            _ => Ok(None),
        },
        Node::Arith(op, left, right) => {
            let (Some(left), Some(right)) = (eval_int(left, env)?, eval_int(right, env)?) else {
                return Ok(None);
            };
            arith::int(*op, left, right, bound.ty).map(Some)
        }
        _ => match eval(bound, env)? {
            Value::Int(int) => Ok(Some(int)),
            Value::Bit(bit) => Ok(Some(i64::from(bit))),
            _ => Ok(None),
        },
    }
}

/// Evaluates a condition: None is unknown.
pub(crate) fn test(bound: &Scalar, env: &Env<'_>) -> Result<Option<bool>> {
    match &bound.node {
        Node::Compare(op, left, right) => {
            if family(left.ty) == Family::Int && left.ty != SqlType::Bit {
                let (left, right) = (eval_int(left, env)?, eval_int(right, env)?);
                return Ok(left.zip(right).map(|(left, right)| holds(*op, left.cmp(&right))));
            }
            compared(*op, left, right, env)
        }
        Node::Same(left, right) => {
            let (left, right) = (eval(left, env)?, eval(right, env)?);
            let known = left != Value::Null && right != Value::Null;
            Ok(known.then(|| left == right))
        }
        Node::And(items) => {
            let mut unknown = false;
            for item in items {
                match test(item, env)? {
                    Some(false) => return Ok(Some(false)),
                    Some(true) => {}
                    None => unknown = true,
                }
            }
            Ok(if unknown { None } else { Some(true) })
        }
        Node::Or(items) => {
            let mut unknown = false;
            for item in items {
                match test(item, env)? {
                    Some(true) => return Ok(Some(true)),
                    Some(false) => {}
                    None => unknown = true,
                }
            }
            Ok(if unknown { None } else { Some(false) })
        }
        Node::Not(inner) => Ok(test(inner, env)?.map(|value| !value)),
        Node::IsNull(inner, negated) => Ok(Some((eval(inner, env)? == Value::Null) != *negated)),
        Node::Like { text: found, pattern, escape } => like(found, pattern, escape.as_deref(), env),
        Node::InList(left, items) => in_list(left, items, env),
        _ => match eval(bound, env)? {
            Value::Bit(bit) => Ok(Some(bit)),
            Value::Int(int) => Ok(Some(int != 0)),
            _ => Ok(None),
        },
    }
}

#[inline(never)]
fn compared(op: CmpOp, left: &Scalar, right: &Scalar, env: &Env<'_>) -> Result<Option<bool>> {
    let values = (eval(left, env)?, eval(right, env)?);
    if values.0 == Value::Null || values.1 == Value::Null {
        return Ok(None);
    }
    let order = arith::compare(&values.0, &values.1, left.collation())
        .ok_or(Error::Internal { detail: "values of two types".to_owned() })?;
    Ok(Some(holds(op, order)))
}

#[inline(never)]
fn in_list(left: &Scalar, items: &[Scalar], env: &Env<'_>) -> Result<Option<bool>> {
    let collation = left.collation();
    let left = eval(left, env)?;
    if left == Value::Null {
        return Ok(None);
    }
    let mut unknown = false;
    for item in items {
        let item = eval(item, env)?;
        if item == Value::Null {
            unknown = true;
        } else if arith::compare(&left, &item, collation) == Some(Ordering::Equal) {
            return Ok(Some(true));
        }
    }
    Ok(if unknown { None } else { Some(false) })
}

pub(crate) fn holds(op: CmpOp, order: Ordering) -> bool {
    match op {
        CmpOp::Eq => order == Ordering::Equal,
        CmpOp::Ne => order != Ordering::Equal,
        CmpOp::Lt => order == Ordering::Less,
        CmpOp::Le => order != Ordering::Greater,
        CmpOp::Gt => order == Ordering::Greater,
        CmpOp::Ge => order != Ordering::Less,
    }
}

#[inline(never)]
fn like(
    found: &Scalar,
    pattern: &Scalar,
    escape: Option<&Scalar>,
    env: &Env<'_>,
) -> Result<Option<bool>> {
    let national = is_national(found.ty) || is_national(pattern.ty);
    let (value, pattern) = (eval(found, env)?, eval(pattern, env)?);
    let escape = match escape {
        Some(escape) => match eval(escape, env)? {
            Value::Text(text) if text.chars().count() == 1 => text.chars().next(),
            Value::Null => return Ok(None),
            _ => {
                return Err(Error::BadEscape {});
            }
        },
        None => None,
    };
    let (Value::Text(value), Value::Text(pattern)) = (value, pattern) else { return Ok(None) };
    let order = TextOrder::of(found.collation());
    if text::like(&value, &pattern, escape, &order) {
        return Ok(Some(true));
    }
    // trailing blanks of varchar do not prevent a match
    let short = value.trim_end_matches(' ');
    let shortened = !national && short.len() < value.len();
    Ok(Some(shortened && text::like(short, &pattern, escape, &order)))
}

/// Returns the value of an expression.
/// The session's function for NEXT VALUE FOR, by the names of the database and the sequence in
/// SQLite, and the place in the row.
pub(crate) const NEXT_VALUE: &str = "NEXT VALUE FOR";

pub(crate) fn eval<'e>(bound: &'e Scalar, env: &Env<'e>) -> Result<Value<'e>> {
    match &bound.node {
        Node::Const(value) => Ok(borrow(value)),
        Node::Null(_) => Ok(Value::Null),
        Node::Var(slot) => Ok(env.vars.get(*slot).map_or(Value::Null, borrow)),
        Node::Arg(index) => Ok(env.args.get(*index).map_or(Value::Null, borrow)),
        Node::Given(at) => Ok(env.given.get(*at).map_or(Value::Null, borrow)),
        Node::Next(sequence, place) => next_value(sequence, *place, env),
        Node::Column(_)
        | Node::Shared(_)
        | Node::Aggregate(_)
        | Node::Query(_)
        | Node::Identity
        | Node::Version(_) => {
            Err(Error::Internal { detail: "a value of SQLite outside of a statement".to_owned() })
        }
        Node::Arith(op, left, right) => {
            if family(bound.ty) == Family::Int && bound.ty != SqlType::Bit {
                return Ok(eval_int(bound, env)?.map_or(Value::Null, Value::Int));
            }
            arithmetic(*op, left, right, bound.ty, env)
        }
        Node::Concat(left, right) => concat(bound.ty, left, right, env),
        Node::Negate(inner) => negate(eval(inner, env)?, bound.ty),
        Node::BitNot(inner) => bit_not(inner, bound.ty, env),
        Node::Convert { inner, style, lenient } => {
            converted(inner, bound, (style.as_deref(), *lenient), env)
        }
        Node::Assign { inner, table, column } => assignment(inner, bound, (table, column), env),
        Node::Case(whens, otherwise) => {
            for (when, then) in whens {
                if test(when, env)? == Some(true) {
                    return eval(then, env);
                }
            }
            otherwise.as_ref().map_or(Ok(Value::Null), |value| eval(value, env))
        }
        Node::Call(func, args) => func.compute(args, bound.ty, env),
        Node::Invoke(invoked) => invoked.value(env),
        Node::Compare(..)
        | Node::And(_)
        | Node::Or(_)
        | Node::Not(_)
        | Node::IsNull(..)
        | Node::Like { .. }
        | Node::Same(..)
        | Node::InList(..) => Ok(test(bound, env)?.map_or(Value::Null, Value::Bit)),
    }
}

// Apart from `eval`, so that nested expressions do not have on the stack, for each level, what all
// kinds of them need.

#[inline(never)]
fn next_value<'e>(sequence: &Sequence, place: usize, env: &Env<'e>) -> Result<Value<'e>> {
    let place = Value::Int(i64::try_from(place).unwrap_or(i64::MAX));
    let text = |text: &str| Value::Text(text.to_owned().into());
    env.session(NEXT_VALUE, &[text(&sequence.schema), text(&sequence.name), place])
}

#[inline(never)]
fn arithmetic<'e>(
    op: BinOp,
    left: &'e Scalar,
    right: &'e Scalar,
    ty: SqlType,
    env: &Env<'e>,
) -> Result<Value<'e>> {
    let (left, right) = (eval(left, env)?, eval(right, env)?);
    arith::binary(op, &left, &right, ty)
}

#[inline(never)]
fn bit_not<'e>(inner: &'e Scalar, ty: SqlType, env: &Env<'e>) -> Result<Value<'e>> {
    Ok(match eval(inner, env)? {
        Value::Bit(bit) => Value::Bit(!bit),
        Value::Int(int) if ty == SqlType::TinyInt => Value::Int(!int & 0xff),
        Value::Int(int) => Value::Int(!int),
        _ => Value::Null,
    })
}

#[inline(never)]
fn converted<'e>(
    inner: &'e Scalar,
    bound: &'e Scalar,
    (style, lenient): (Option<&'e Scalar>, bool),
    env: &Env<'e>,
) -> Result<Value<'e>> {
    let style = match style {
        Some(style) => match eval_int(style, env)? {
            Some(style) => style,
            None => return Ok(Value::Null),
        },
        None => 0,
    };
    let value = eval(inner, env)?;
    affordable(bulk_bytes(&value).saturating_mul(CONVERTED))?;
    let pages = pages(inner, bound);
    match convert::convert_in(&value, inner.ty, bound.ty, style, (env.order, pages)) {
        Err(_) if lenient => Ok(Value::Null),
        other => other,
    }
}

#[inline(never)]
fn assignment<'e>(
    inner: &'e Scalar,
    bound: &'e Scalar,
    (table, column): (&str, &str),
    env: &Env<'e>,
) -> Result<Value<'e>> {
    let value = eval(inner, env)?;
    affordable(bulk_bytes(&value).saturating_mul(CONVERTED))?;
    let pages = pages(inner, bound);
    assigned(&value, (inner.ty, bound.ty), (table, column), (env.order, pages))
}

#[inline(never)]
fn negate(value: Value<'_>, ty: SqlType) -> Result<Value<'_>> {
    let overflow = || Error::ResultOverflow { to: type_name(ty).to_owned() };
    Ok(match value {
        Value::Int(int) => {
            let negated = int.checked_neg().and_then(|int| arith::int_in(int, ty));
            Value::Int(negated.ok_or_else(overflow)?)
        }
        Value::Float(float) => Value::Float(-float),
        Value::Money(money) => Value::Money(money.checked_neg().ok_or_else(overflow)?),
        Value::Decimal { unscaled, scale } => Value::Decimal { unscaled: -unscaled, scale },
        _ => Value::Null,
    })
}

#[inline(never)]
fn concat<'e>(
    ty: SqlType,
    left: &'e Scalar,
    right: &'e Scalar,
    env: &Env<'e>,
) -> Result<Value<'e>> {
    let (left, right) = (eval(left, env)?, eval(right, env)?);
    affordable(bulk_bytes(&left).saturating_add(bulk_bytes(&right)))?;
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            let mut joined = left.into_owned();
            joined.try_reserve_exact(right.len()).map_err(|_| Error::OutOfMemory {})?;
            joined.push_str(&right);
            if let Some(Length::Of(n)) = length_of(ty) {
                let national = is_national(ty);
                if joined.len() > usize::from(n) && text::units(&joined, national) > usize::from(n)
                {
                    joined = text::slice(&joined, 0, usize::from(n), national)?;
                }
            }
            Ok(Value::Text(Cow::Owned(joined)))
        }
        (Value::Binary(left), Value::Binary(right)) => {
            let mut joined = left.into_owned();
            joined.try_reserve_exact(right.len()).map_err(|_| Error::OutOfMemory {})?;
            joined.extend_from_slice(&right);
            if let Some(Length::Of(n)) = length_of(ty) {
                joined.truncate(usize::from(n));
            }
            Ok(Value::Binary(Cow::Owned(joined)))
        }
        _ => Ok(Value::Null),
    }
}

/// The code pages of a conversion: those of the collations.
fn pages(from: &Scalar, to: &Scalar) -> CodePages {
    CodePages { from: from.collation().code_page(), to: to.collation().code_page() }
}

/// Converts a value for a column: text and bytes that are too long are an error, trailing blanks
/// are not.
pub(crate) fn assigned(
    value: &Value<'_>,
    (from, to): (SqlType, SqlType),
    (table, column): (&str, &str),
    (order, pages): (DateText, CodePages),
) -> Result<Val> {
    if let Some(Length::Of(n)) = length_of(to) {
        let n = usize::from(n);
        let long = match value {
            Value::Text(found) => {
                let found = found.trim_end_matches(' ');
                match is_national(to) {
                    true => text::units(found, true) > n,
                    false => text::page_bytes(found, pages.to) > n,
                }
            }
            Value::Binary(bytes) => bytes.len() > n,
            _ => false,
        };
        if long {
            let shown = match value {
                Value::Text(found) if is_national(to) => text::slice(found, 0, n, true)?,
                Value::Text(found) => text::fitting(found, pages.to, n).to_owned(),
                _ => String::new(),
            };
            return Err(Error::Truncation {
                table: table.to_owned(),
                column: column.to_owned(),
                value: shown,
            });
        }
    }
    convert::convert_in(value, from, to, 0, (order, pages))
}
