//! FORMAT, by the rules of .NET, for the cultures en-US and invariant.

mod dates;
mod number;
mod pattern;
mod times;

use tdekit_wire_tds::{Length, SqlType, Value};

use super::{bad_argument, text_arg};
use crate::error::{Error, Result};
use crate::plan::func::Func;
use crate::plan::scalar::{Node, Scalar};
use crate::value::language::Language;
use crate::value::{Family, datetime, family};
use number::Number;

/// Maximum length of a pattern and of a result, in characters.
const LONGEST: usize = 4000;

/// A pattern that .NET refuses: the result is NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refused;

type Formatted = std::result::Result<String, Refused>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Culture {
    American,
    Invariant,
}

impl Culture {
    fn of(name: &str) -> Result<Culture> {
        match name.to_ascii_lowercase().as_str() {
            "en-us" | "en" => Ok(Culture::American),
            "" | "iv" => Ok(Culture::Invariant),
            _ => Err(Error::feature(format!("the culture '{name}' of FORMAT"))),
        }
    }

    /// Returns the text that this culture has for it.
    fn either(self, american: &'static str, invariant: &'static str) -> &'static str {
        match self {
            Culture::American => american,
            Culture::Invariant => invariant,
        }
    }
}

pub(crate) fn bind(name: &str, args: &[Scalar]) -> Result<Scalar> {
    let value = args[0].clone();
    let fits = value.node.is_untyped() || formats(value.ty);
    if !fits {
        return Err(bad_argument(value.ty, 1, name));
    }
    let mut bound = vec![value];
    for (at, arg) in args.iter().enumerate().skip(1) {
        bound.push(text_arg(arg, at + 1, name)?);
    }
    let ty = SqlType::NVarChar(Length::Of(4000));
    let made = Scalar::new(ty, true, Node::Call(Func::Format, bound));
    Ok(crate::functions::typing::folded(made))
}

fn formats(ty: SqlType) -> bool {
    match family(ty) {
        Family::Int => ty != SqlType::Bit,
        Family::Decimal | Family::Money | Family::Float | Family::Temporal => true,
        _ => false,
    }
}

/// The language is that of the session; its culture counts where the call names none.
pub(crate) fn compute(
    values: &[Value<'_>],
    args: &[Scalar],
    language: &Language,
) -> Result<Value<'static>> {
    let culture = match values.get(2) {
        Some(Value::Text(name)) => Culture::of(name)?,
        _ => Culture::of(language.culture)?,
    };
    let (Some(value), Some(Value::Text(pattern)), Some(of)) =
        (values.first(), values.get(1), args.first())
    else {
        return Ok(Value::Null);
    };
    if pattern.chars().count() > LONGEST {
        return Ok(Value::Null);
    }
    let made = match value {
        Value::Time(ticks) => times::format(*ticks, pattern),
        value => match (Number::of(value, of.ty), datetime::moment(value)) {
            (Some(number), _) => number::format(number, of.ty, pattern, culture)?,
            (None, Some(moment)) => {
                let offset = matches!(of.ty, SqlType::DateTimeOffset(_));
                dates::format(moment, offset, pattern, culture)
            }
            (None, None) => return Ok(Value::Null),
        },
    };
    Ok(match made {
        Ok(text) if text.chars().count() > LONGEST => {
            Value::Text(text.chars().take(LONGEST).collect::<String>().into())
        }
        Ok(text) => Value::Text(text.into()),
        Err(Refused) => Value::Null,
    })
}
