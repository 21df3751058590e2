//! Built-in functions: their names, arguments and result types; their values are computed in the
//! submodules.

mod dates;
pub(crate) mod eval;
mod maths;
mod sequential;
mod split;
mod strings;
pub(crate) mod typing;
pub(crate) mod wanted;

use tdekit_wire_tds::{Length, SqlType, Value};

use crate::ast::CmpOp;
use crate::error::{Error, Result};
use crate::functions::eval::Env;
use crate::functions::typing::{adopt_null, branches, common_of, convert, fitted};
use crate::functions::typing::{as_text, comparison};
use crate::plan::func::{Func, Text};
use crate::plan::scalar::{Node, Scalar};
use crate::value::datetime::Part;
use crate::value::{Family, family, is_national, is_text, length_of, type_name};

/// Functions and `@@` variables that the session answers, with their types.
pub(crate) const SESSION: &[(&str, SqlType)] = &[
    ("@@CONNECTIONS", SqlType::Int),
    ("@@CPU_BUSY", SqlType::Int),
    ("@@CURSOR_ROWS", SqlType::Int),
    ("@@DATEFIRST", SqlType::TinyInt),
    ("@@DBTS", SqlType::VarBinary(Length::Of(8))),
    ("@@ERROR", SqlType::Int),
    ("@@FETCH_STATUS", SqlType::Int),
    ("@@IDENTITY", SqlType::Decimal { precision: 38, scale: 0 }),
    ("@@LANGID", SqlType::SmallInt),
    ("@@LANGUAGE", SqlType::NVarChar(Length::Of(128))),
    ("@@LOCK_TIMEOUT", SqlType::Int),
    ("@@MAX_PRECISION", SqlType::TinyInt),
    ("@@MICROSOFTVERSION", SqlType::Int),
    ("@@NESTLEVEL", SqlType::Int),
    ("@@OPTIONS", SqlType::Int),
    ("@@PROCID", SqlType::Int),
    ("@@ROWCOUNT", SqlType::Int),
    ("@@SERVERNAME", SqlType::NVarChar(Length::Of(128))),
    ("@@SERVICENAME", SqlType::NVarChar(Length::Of(128))),
    ("@@SPID", SqlType::SmallInt),
    ("@@TEXTSIZE", SqlType::Int),
    ("@@TRANCOUNT", SqlType::Int),
    ("@@VERSION", SqlType::NVarChar(Length::Of(300))),
    ("APP_NAME", SqlType::NVarChar(Length::Of(128))),
    ("COLLATIONPROPERTY", SqlType::NVarChar(Length::Of(128))),
    ("COLUMNPROPERTY", SqlType::Int),
    ("COL_LENGTH", SqlType::SmallInt),
    ("COL_NAME", SqlType::NVarChar(Length::Of(128))),
    ("CONNECTIONPROPERTY", SqlType::NVarChar(Length::Of(128))),
    ("CURRENT_TIMESTAMP", SqlType::DateTime),
    ("CURRENT_USER", SqlType::NVarChar(Length::Of(128))),
    ("DATABASEPROPERTYEX", SqlType::NVarChar(Length::Of(128))),
    ("DATABASE_PRINCIPAL_ID", SqlType::Int),
    ("DB_ID", SqlType::SmallInt),
    ("DB_NAME", SqlType::NVarChar(Length::Of(128))),
    ("ERROR_LINE", SqlType::Int),
    ("ERROR_MESSAGE", SqlType::NVarChar(Length::Of(4000))),
    ("ERROR_NUMBER", SqlType::Int),
    ("ERROR_PROCEDURE", SqlType::NVarChar(Length::Of(128))),
    ("ERROR_SEVERITY", SqlType::Int),
    ("ERROR_STATE", SqlType::Int),
    ("GETDATE", SqlType::DateTime),
    ("GETUTCDATE", SqlType::DateTime),
    ("HAS_DBACCESS", SqlType::Int),
    ("HAS_PERMS_BY_NAME", SqlType::Int),
    ("HOST_NAME", SqlType::NVarChar(Length::Of(128))),
    ("IDENT_CURRENT", SqlType::Decimal { precision: 38, scale: 0 }),
    ("IDENT_INCR", SqlType::Decimal { precision: 38, scale: 0 }),
    ("IDENT_SEED", SqlType::Decimal { precision: 38, scale: 0 }),
    ("INDEXPROPERTY", SqlType::Int),
    ("INDEX_COL", SqlType::NVarChar(Length::Of(128))),
    ("IS_MEMBER", SqlType::Int),
    ("IS_ROLEMEMBER", SqlType::Int),
    ("IS_SRVROLEMEMBER", SqlType::Int),
    ("OBJECTPROPERTY", SqlType::Int),
    ("OBJECTPROPERTYEX", SqlType::Int),
    ("OBJECT_DEFINITION", SqlType::NVarChar(Length::Max)),
    ("OBJECT_ID", SqlType::Int),
    ("OBJECT_NAME", SqlType::NVarChar(Length::Of(128))),
    ("OBJECT_SCHEMA_NAME", SqlType::NVarChar(Length::Of(128))),
    ("ORIGINAL_LOGIN", SqlType::NVarChar(Length::Of(128))),
    ("RAND", SqlType::Float),
    ("SCHEMA_ID", SqlType::Int),
    ("SCHEMA_NAME", SqlType::NVarChar(Length::Of(128))),
    ("SCOPE_IDENTITY", SqlType::Decimal { precision: 38, scale: 0 }),
    ("SERVERPROPERTY", SqlType::NVarChar(Length::Of(128))),
    ("SESSION_USER", SqlType::NVarChar(Length::Of(128))),
    ("SUSER_ID", SqlType::Int),
    ("SUSER_NAME", SqlType::NVarChar(Length::Of(128))),
    ("SUSER_SNAME", SqlType::NVarChar(Length::Of(128))),
    ("SYSDATETIME", SqlType::DateTime2(7)),
    ("SYSDATETIMEOFFSET", SqlType::DateTimeOffset(7)),
    ("SYSTEM_USER", SqlType::NVarChar(Length::Of(128))),
    ("SYSUTCDATETIME", SqlType::DateTime2(7)),
    ("TYPE_ID", SqlType::Int),
    ("TYPE_NAME", SqlType::NVarChar(Length::Of(128))),
    ("USER", SqlType::NVarChar(Length::Of(128))),
    ("USER_ID", SqlType::Int),
    ("USER_NAME", SqlType::NVarChar(Length::Of(128))),
    ("XACT_STATE", SqlType::SmallInt),
];

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
        let values = args.iter().map(|arg| eval(arg, env)).collect::<Result<Vec<_>>>()?;
        match self {
            Func::Session(name) => env.session(name, &values),
            Func::Text(func) => strings::compute(func, &values, args, ty),
            Func::Math(func) => maths::compute(func, &values, ty),
            Func::Date(func) => dates::compute(func, &values, args, ty, env),
            Func::Extreme(greatest) => {
                let mut found: Option<Value<'e>> = None;
                for value in values.into_iter().filter(|value| *value != Value::Null) {
                    let better = match &found {
                        None => true,
                        Some(known) => {
                            let order = crate::value::arith::compare(&value, known);
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

/// Binds a call of a function that is not an aggregate and takes no datepart.
///
/// # Errors
/// 195 for an unknown function, 174 and 8116 for its arguments.
pub(crate) fn bind(name: &str, args: Vec<Scalar>) -> Result<Scalar> {
    if let Some(bound) = strings::bind(name, &args)? {
        return Ok(bound);
    }
    if let Some(bound) = maths::bind(name, &args)? {
        return Ok(bound);
    }
    if let Some(bound) = dates::bind(name, &args)? {
        return Ok(bound);
    }
    if let Some((name, ty)) = SESSION.iter().find(|(known, _)| *known == name) {
        return session_call(name, *ty, args);
    }
    match name {
        "ISNULL" => {
            check_count(name, args.len(), 2, 2)?;
            let mut args = args.into_iter();
            let (Some(first), Some(second)) = (args.next(), args.next()) else {
                return Err(count_error(name, "2"));
            };
            let given = [&first, &second].into_iter().find(|arg| arg.node.is_typed());
            let ty = given.map(|arg| arg.ty);
            let nullable = first.nullable && second.nullable;
            let args = vec![fitted(first, ty)?, fitted(second, ty)?];
            let ty = ty.unwrap_or(SqlType::Int);
            Ok(Scalar::new(ty, nullable, Node::Call(Func::Coalesce, args)))
        }
        "COALESCE" => {
            check_count(name, args.len(), 2, 4096)?;
            let ty = common_of(&args)?;
            if ty.is_none() && args.iter().all(|arg| arg.node == Node::Null(None)) {
                return Err(Error::CoalesceOfNulls {});
            }
            let nullable = args.iter().all(|arg| arg.nullable);
            let args = args.into_iter().map(|arg| fitted(arg, ty)).collect::<Result<Vec<_>>>()?;
            let ty = ty.unwrap_or(SqlType::Int);
            Ok(Scalar::new(ty, nullable, Node::Call(Func::Coalesce, args)))
        }
        "NULLIF" => {
            check_count(name, args.len(), 2, 2)?;
            if args[0].node == Node::Null(None) {
                return Err(Error::NullIfOfNull {});
            }
            // the first argument unchanged, not as the comparison converts it
            let mut args = args.into_iter();
            let (Some(first), Some(second)) = (args.next(), args.next()) else {
                return Err(count_error(name, "2"));
            };
            let (first, second) = adopt_null(first, second)?;
            let null = Scalar::constant(first.ty, Value::Null);
            let same = comparison(CmpOp::Eq, first.clone(), second)?;
            branches(vec![(same, null)], Some(first))
        }
        "GREATEST" | "LEAST" => {
            check_count(name, args.len(), 1, 254)?;
            let found = common_of(&args)?;
            let ty = found.unwrap_or(SqlType::Int);
            let plain = !matches!(ty, SqlType::Text | SqlType::NText | SqlType::Image)
                && !matches!(ty, SqlType::Xml | SqlType::SqlVariant);
            if !plain {
                return Err(bad_argument(ty, 1, name));
            }
            let args =
                args.into_iter().map(|arg| fitted(arg, found)).collect::<Result<Vec<_>>>()?;
            let func = Func::Extreme(name == "GREATEST");
            Ok(Scalar::new(ty, true, Node::Call(func, args)))
        }
        "ISNUMERIC" => {
            check_count(name, args.len(), 1, 1)?;
            Ok(Scalar::new(SqlType::Int, false, Node::Call(Func::IsNumeric, args)))
        }
        "NEWID" => {
            check_count(name, args.len(), 0, 0)?;
            Ok(Scalar::new(SqlType::UniqueIdentifier, false, Node::Call(Func::NewId, args)))
        }
        _ => Err(Error::NotAFunction { name: name.to_owned() }),
    }
}

fn session_call(name: &'static str, ty: SqlType, args: Vec<Scalar>) -> Result<Scalar> {
    let (least, most) = match name {
        "COLUMNPROPERTY" | "INDEXPROPERTY" | "INDEX_COL" => (3, 3),
        "HAS_PERMS_BY_NAME" => (3, 5),
        "COL_NAME" => (2, 3),
        "COLLATIONPROPERTY" | "COL_LENGTH" | "DATABASEPROPERTYEX" | "OBJECTPROPERTY"
        | "OBJECTPROPERTYEX" => (2, 2),
        "CONNECTIONPROPERTY" | "HAS_DBACCESS" | "IDENT_CURRENT" | "IDENT_INCR" | "IDENT_SEED"
        | "IS_MEMBER" | "OBJECT_DEFINITION" | "SERVERPROPERTY" | "TYPE_ID" | "TYPE_NAME" => (1, 1),
        "IS_ROLEMEMBER" | "IS_SRVROLEMEMBER" | "OBJECT_ID" | "OBJECT_NAME"
        | "OBJECT_SCHEMA_NAME" => (1, 2),
        "DATABASE_PRINCIPAL_ID"
        | "DB_ID"
        | "DB_NAME"
        | "RAND"
        | "SCHEMA_ID"
        | "SCHEMA_NAME"
        | "SUSER_ID"
        | "SUSER_NAME"
        | "SUSER_SNAME"
        | "USER_ID"
        | "USER_NAME" => (0, 1),
        _ => (0, 0),
    };
    let args = match name {
        "COL_NAME" | "OBJECT_DEFINITION" | "OBJECT_NAME" | "OBJECTPROPERTY"
        | "OBJECTPROPERTYEX" | "COLUMNPROPERTY" | "INDEXPROPERTY" | "OBJECT_SCHEMA_NAME"
        | "DB_NAME" | "SCHEMA_NAME" | "TYPE_NAME" => numbered(args)?,
        _ => args,
    };
    check_count(name, args.len(), least, most)?;
    Ok(Scalar::new(ty, true, Node::Call(Func::Session(name), args)))
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
    name: &str,
    part: Part,
    part_name: &str,
    args: &[Scalar],
) -> Result<Scalar> {
    dates::bind_dated(name, part, part_name, args)
}

/// Functions whose first argument is a datepart.
pub(crate) const DATED: &[&str] =
    &["DATEADD", "DATEDIFF", "DATEDIFF_BIG", "DATENAME", "DATEPART", "DATETRUNC"];
/// Returns the names of scalar functions that [`bind`] knows besides those in [`SESSION`].
pub(crate) fn names() -> Vec<&'static str> {
    let mut names = vec![
        "COALESCE",
        "ISNULL",
        "ISNUMERIC",
        "NEWID",
        "NEWSEQUENTIALID",
        "NULLIF",
        "IIF",
        "CHOOSE",
    ];
    names.extend(["GREATEST", "LEAST"]);
    names.extend(strings::NAMES);
    names.extend(maths::NAMES);
    names.extend(dates::NAMES);
    names.extend(DATED);
    names.extend(SESSION.iter().map(|(name, _)| *name));
    names.sort_unstable();
    names
}
