//! Built-in functions: their names, arguments and result types; their values are computed in the
//! submodules.

mod bits;
mod cursor;
mod dates;
mod digests;
pub(crate) mod eval;
mod format;
pub(crate) mod json;
mod maths;
mod routine;
mod sequential;
mod split;
mod strings;
pub(crate) mod table;
pub(crate) mod typing;
pub(crate) mod wanted;
pub(crate) mod xml;

pub(crate) use dates::at_time_zone;

use tdekit_wire_tds::{Length, SqlType, Value};

use crate::ast::CmpOp;
use crate::error::{Error, Result};
use crate::functions::eval::Env;
use crate::functions::table::{Binding, Dated, Function};
use crate::functions::typing::{adopt_null, branches, common_of, convert, fitted};
use crate::functions::typing::{as_text, comparison};
use crate::plan::func::{Func, Text};
use crate::plan::label::joined;
use crate::plan::scalar::{Node, Scalar};
use crate::value::datetime::Part;
use crate::value::{Family, family, is_national, is_text, length_of, type_name};

/// The function that implements STRING_SPLIT in SQLite.
pub(crate) const SPLIT: Text = Text::Split;

impl Func {
    pub(crate) fn compute<'e>(
        self,
        args: &'e [Scalar],
        ty: SqlType,
        env: &Env<'e>,
    ) -> Result<Value<'e>> {
        use crate::functions::eval::eval;
        match self {
            Func::Coalesce => {
                for arg in args {
                    let value = eval(arg, env)?;
                    if value != Value::Null {
                        return Ok(value);
                    }
                }
                return Ok(Value::Null);
            }
            Func::NewId => {
                let mut guid = [0; 16];
                getrandom::fill(&mut guid)
                    .map_err(|error| Error::Internal { detail: error.to_string() })?;
                // version 4, in the byte where the little-endian third group keeps it
                guid[7] = guid[7] & 0x0f | 0x40;
                guid[8] = guid[8] & 0x3f | 0x80;
                return Ok(Value::Guid(guid));
            }
            Func::NewSequentialId => return sequential::next().map(Value::Guid),
            _ => {}
        }
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(eval(arg, env)?);
        }
        self.over(values, args, ty, env)
    }

    /// Computes over values. It is apart from [`Func::compute`], so that nested calls do not have
    /// what it needs on the stack for each level.
    #[inline(never)]
    fn over<'e>(
        self,
        values: Vec<Value<'e>>,
        args: &'e [Scalar],
        ty: SqlType,
        env: &Env<'e>,
    ) -> Result<Value<'e>> {
        match self {
            Func::Session(name) => env.session(name, &values),
            Func::Text(func) => strings::compute(func, &values, args, ty),
            Func::Bits(func) => bits::compute(func, &values, args, ty),
            Func::Math(func) => maths::compute(func, &values, ty),
            Func::Date(func) => dates::compute(func, &values, args, ty, env),
            Func::Json(func) => json::compute(func, &values, args, env.order),
            Func::Xml(func) => xml::compute(func, &values, args),
            Func::Extreme(greatest) => {
                let collation = args.first().map(Scalar::collation).unwrap_or_default();
                let mut found: Option<Value<'e>> = None;
                for value in values.into_iter().filter(|value| *value != Value::Null) {
                    let better = match &found {
                        None => true,
                        Some(known) => {
                            let order = crate::value::arith::compare(&value, known, collation);
                            let wanted = if greatest {
                                std::cmp::Ordering::Greater
                            } else {
                                std::cmp::Ordering::Less
                            };
                            order == Some(wanted)
                        }
                    };
                    if better {
                        found = Some(value);
                    }
                }
                Ok(found.unwrap_or(Value::Null))
            }
            Func::IsNumeric => Ok(Value::Int(i64::from(is_numeric(values.first())))),
            Func::RowCount => match values.first() {
                Some(Value::Int(count)) if *count >= 0 => Ok(Value::Int(*count)),
                _ => Err(Error::BadTop {}),
            },
            Func::Percent => match values.first() {
                Some(Value::Float(share)) if (0.0..=100.0).contains(share) => {
                    Ok(Value::Float(*share))
                }
                _ => Err(Error::BadPercent {}),
            },
            Func::HashBytes => digests::compute(&values, env),
            Func::Format => format::compute(&values, args, env.order.language),
            Func::Nesting => Ok(Value::Int(i64::try_from(env.depth.0).unwrap_or(0))),
            Func::LikeBound(upper) => Ok(like_bound(&values, upper)),
            Func::Average => average(&values, ty),
            Func::Coalesce | Func::NewId | Func::NewSequentialId => Ok(Value::Null),
        }
    }
}

/// Takes the pattern, and the escape character if there is one.
fn like_bound(values: &[Value<'_>], upper: bool) -> Value<'static> {
    let escape = match values.get(1) {
        None => None,
        Some(Value::Text(text)) if text.chars().count() == 1 => text.chars().next(),
        Some(_) => return Value::Null,
    };
    let Some(Value::Text(pattern)) = values.first() else { return Value::Null };
    match crate::value::text::prefix_range(pattern, escape) {
        Some((low, high)) => Value::Text(if upper { high } else { low }.into()),
        None => Value::Null,
    }
}

fn is_numeric(value: Option<&Value<'_>>) -> bool {
    match value {
        Some(Value::Text(text)) => {
            let text = text.trim();
            let digits = text.bytes().any(|byte| byte.is_ascii_digit());
            let plain = |byte: u8| byte.is_ascii_digit() || b"+-.eE,$".contains(&byte);
            let bare: String = text.chars().filter(|c| !matches!(c, ',' | '$')).collect();
            digits && text.bytes().all(plain) && bare.parse::<f64>().is_ok()
        }
        Some(Value::Int(_) | Value::Bit(_) | Value::Float(_)) => true,
        Some(Value::Decimal { .. } | Value::Money(_)) => true,
        _ => false,
    }
}

/// Sum divided by count, in the result's type.
fn average(values: &[Value<'_>], ty: SqlType) -> Result<Value<'static>> {
    use crate::value::decimal::Dec;
    let [sum, Value::Int(count)] = values else { return Ok(Value::Null) };
    if *count == 0 {
        return Ok(Value::Null);
    }
    Ok(match (sum, ty) {
        (Value::Int(sum), _) => Value::Int(sum / count),
        (Value::Money(sum), _) => Value::Money(sum / count),
        #[allow(clippy::cast_precision_loss)]
        (Value::Float(sum), _) => Value::Float(sum / *count as f64),
        (Value::Decimal { unscaled, scale }, SqlType::Decimal { precision, scale: wanted }) => {
            let count = Dec::new(i128::from(*count), 0);
            let dec = Dec::new(*unscaled, *scale).div(count, precision, wanted)?;
            Value::Decimal { unscaled: dec.unscaled, scale: dec.scale }
        }
        _ => Value::Null,
    })
}

fn count_error(name: &str, count: &str) -> Error {
    Error::ArgumentCount { name: name.to_lowercase(), count: count.to_owned() }
}

/// # Errors
/// 174 if there are too few or too many.
pub(crate) fn check_count(name: &str, args: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&args) {
        return Ok(());
    }
    let count = if least == most { least.to_string() } else { format!("{least} to {most}") };
    Err(count_error(name, &count))
}

/// Binds a call with arguments that are bound.
///
/// # Errors
/// 174 and 8116 for the arguments.
pub(crate) fn bind(function: &Function, args: Vec<Scalar>) -> Result<Scalar> {
    let Function { name, least, most, binding } = *function;
    if let Binding::Session(session) = binding {
        let args = if session.numbered { numbered(args)? } else { args };
        check_count(name, args.len(), least, most)?;
        return Ok(Scalar::new(session.ty, true, Node::Call(Func::Session(name), args)));
    }
    check_count(name, args.len(), least, most)?;
    match binding {
        Binding::Text(func) => strings::bind(name, func, &args),
        Binding::Bits(func) => bits::bind(name, func, args),
        Binding::Math(func) => maths::bind(name, func, &args),
        Binding::Date(func) => dates::bind(name, func, &args),
        Binding::Json(func) => json::bind(name, func, &args),
        Binding::Coalesce => coalesce(args),
        Binding::IsNull => is_null(args),
        Binding::NullIf => null_if(args),
        Binding::Extreme(greatest) => {
            let found = common_of(&args)?;
            let ty = found.unwrap_or(SqlType::Int);
            let plain = !matches!(ty, SqlType::Text | SqlType::NText | SqlType::Image)
                && !matches!(ty, SqlType::Xml | SqlType::SqlVariant);
            if !plain {
                return Err(bad_argument(ty, 1, name));
            }
            let mut args =
                args.into_iter().map(|arg| fitted(arg, found)).collect::<Result<Vec<_>>>()?;
            let label = joined(&args, "function");
            label.compared(&name.to_lowercase())?;
            if let Some(first) = args.first_mut() {
                first.label = label;
            }
            Ok(Scalar::new(ty, true, Node::Call(Func::Extreme(greatest), args)))
        }
        Binding::IsNumeric => {
            Ok(Scalar::new(SqlType::Int, false, Node::Call(Func::IsNumeric, args)))
        }
        Binding::HashBytes => digests::bind(name, &args),
        Binding::Format => format::bind(name, &args),
        Binding::NewId => {
            Ok(Scalar::new(SqlType::UniqueIdentifier, false, Node::Call(Func::NewId, args)))
        }
        Binding::NewSequentialId => Err(Error::SequentialDefault {}),
        // the binder's own, as they take words, conditions or rows
        Binding::Session(_)
        | Binding::Dated(_)
        | Binding::Iif
        | Binding::Choose
        | Binding::Aggregate
        | Binding::Grouping
        | Binding::Window(_) => Err(Error::NotAFunction { name: name.to_owned() }),
    }
}

fn coalesce(args: Vec<Scalar>) -> Result<Scalar> {
    let ty = common_of(&args)?;
    if ty.is_none() && args.iter().all(|arg| arg.node == Node::Null(None)) {
        return Err(Error::CoalesceOfNulls {});
    }
    let nullable = args.iter().all(|arg| arg.nullable);
    let args = args.into_iter().map(|arg| fitted(arg, ty)).collect::<Result<Vec<_>>>()?;
    let ty = ty.unwrap_or(SqlType::Int);
    Ok(Scalar::new(ty, nullable, Node::Call(Func::Coalesce, args)))
}

fn is_null(args: Vec<Scalar>) -> Result<Scalar> {
    let ty = args.iter().find(|arg| arg.node.is_typed()).map(|arg| arg.ty);
    let nullable = args.iter().all(|arg| arg.nullable);
    let args = args.into_iter().map(|arg| fitted(arg, ty)).collect::<Result<Vec<_>>>()?;
    let ty = ty.unwrap_or(SqlType::Int);
    Ok(Scalar::new(ty, nullable, Node::Call(Func::Coalesce, args)))
}

fn null_if(args: Vec<Scalar>) -> Result<Scalar> {
    // the first argument unchanged, not as the comparison converts it
    let mut args = args.into_iter();
    let (Some(first), Some(second)) = (args.next(), args.next()) else {
        return Err(count_error("NULLIF", "2"));
    };
    if first.node == Node::Null(None) {
        return Err(Error::NullIfOfNull {});
    }
    let (first, second) = adopt_null(first, second)?;
    let null = Scalar::constant(first.ty, Value::Null);
    let same = comparison(CmpOp::Eq, first.clone(), second)?;
    branches(vec![(same, null)], Some(first))
}

/// The first argument is the number of an object.
fn numbered(args: Vec<Scalar>) -> Result<Vec<Scalar>> {
    let mut args = args.into_iter();
    let first = args.next().map(|first| convert(first, SqlType::Int)).transpose()?;
    Ok(first.into_iter().chain(args).collect())
}

/// Returns a text type of the arguments' kind, with this length.
pub(crate) fn text_type(like: SqlType, length: Length) -> SqlType {
    if is_national(like) {
        SqlType::NVarChar(crate::value::units(length))
    } else {
        SqlType::VarChar(length)
    }
}

/// Returns the type of a part of a text.
pub(crate) fn part_type(of: SqlType) -> SqlType {
    match (family(of), length_of(of)) {
        (Family::Binary, Some(length)) => SqlType::VarBinary(length),
        (_, Some(length)) => text_type(of, length),
        _ => of,
    }
}

/// Checks that an argument is text.
pub(crate) fn text_arg(arg: &Scalar, index: usize, name: &str) -> Result<Scalar> {
    if family(arg.ty) == Family::Binary || arg.ty == SqlType::Xml {
        return Err(bad_argument(arg.ty, index, name));
    }
    as_text(arg.clone())
}

/// Converts an argument, which must be a number.
pub(crate) fn number_arg(arg: &Scalar, ty: SqlType, index: usize, name: &str) -> Result<Scalar> {
    if !(crate::value::is_numeric(arg.ty) || is_text(arg.ty) || arg.node.is_untyped()) {
        return Err(bad_argument(arg.ty, index, name));
    }
    convert(arg.clone(), ty)
}

pub(crate) fn bad_argument(ty: SqlType, index: usize, name: &str) -> Error {
    Error::BadArgument { ty: type_name(ty).to_owned(), index, name: name.to_lowercase() }
}

/// Binds a date function whose first argument is a datepart.
///
/// # Errors
/// 155 for an unknown part.
pub(crate) fn bind_dated(
    function: &Function,
    dated: Dated,
    (part, part_name): (Part, &str),
    args: &[Scalar],
) -> Result<Scalar> {
    let Function { name, least, most, .. } = *function;
    check_count(name, args.len() + 1, least, most)?;
    dates::bind_dated(name, dated, (part, part_name), args)
}
