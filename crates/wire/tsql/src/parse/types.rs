//! Names of types.

use tdekit_wire_tds::messages::CollationError;
use tdekit_wire_tds::{
    Collation, Length, MAX_PRECISION, MAX_SHORT_BYTES, MAX_SHORT_UNITS, SqlType,
};

use super::Parser;
use crate::error::{Error, Result};
use crate::lex::Tok;
use crate::value::storage;

enum TypeArg {
    Number(u32),
    Max,
}

impl Parser<'_> {
    /// A type with its length, precision and scale. Text and bytes without a length have length 1.
    pub(crate) fn data_type(&mut self) -> Result<SqlType> {
        self.sized_type(1)
    }

    /// The type in CAST or CONVERT: there text and bytes without a length have length 30.
    pub(crate) fn cast_type(&mut self) -> Result<SqlType> {
        self.sized_type(30)
    }

    fn sized_type(&mut self, unsized_length: u16) -> Result<SqlType> {
        let mut name = match self.tok().clone() {
            Tok::Word(word) => {
                self.advance();
                word
            }
            Tok::Quoted(word) => {
                self.advance();
                word
            }
            _ => return Err(self.unexpected()),
        };
        if self.is_op(".") {
            // `sys.int`; types of other schemas do not exist
            self.advance();
            let bare = self.identifier()?;
            if !name.eq_ignore_ascii_case("sys") {
                return Err(Error::UnknownType { name: format!("{name}.{bare}") });
            }
            name = bare;
        }
        let mut lower = name.to_ascii_lowercase();
        if lower == "double" && self.eat("PRECISION") {
            lower = "float".to_owned();
        }
        if lower == "national" {
            let next = self.word()?.to_ascii_lowercase();
            lower = match next.as_str() {
                "char" | "character" => "nchar".to_owned(),
                "text" => "ntext".to_owned(),
                _ => return Err(Error::Syntax { near: next }),
            };
        }
        if matches!(lower.as_str(), "char" | "character" | "nchar" | "binary")
            && self.eat("VARYING")
        {
            lower = match lower.as_str() {
                "nchar" => "nvarchar".to_owned(),
                "binary" => "varbinary".to_owned(),
                _ => "varchar".to_owned(),
            };
        }
        let args = if self.is_op("(") { self.list(Self::type_arg)? } else { Vec::new() };
        let short = ["char", "character", "nchar", "binary", "varchar", "nvarchar", "varbinary"];
        match args[..] {
            [] if short.contains(&lower.as_str()) => {
                resolve(&lower, &[TypeArg::Number(unsized_length.into())])
            }
            _ => resolve(&lower, &args),
        }
    }

    fn type_arg(&mut self) -> Result<TypeArg> {
        if self.eat("MAX") {
            return Ok(TypeArg::Max);
        }
        let number = self.integer()?;
        let number =
            u32::try_from(number).map_err(|_| Error::BadLength { name: number.to_string() })?;
        Ok(TypeArg::Number(number))
    }
}

/// Returns the type of this lower-case name.
fn resolve(name: &str, args: &[TypeArg]) -> Result<SqlType> {
    let fixed = match name {
        "bit" => Some(SqlType::Bit),
        "tinyint" => Some(SqlType::TinyInt),
        "smallint" => Some(SqlType::SmallInt),
        "int" | "integer" => Some(SqlType::Int),
        "bigint" => Some(SqlType::BigInt),
        "real" => Some(SqlType::Real),
        "money" => Some(SqlType::Money),
        "smallmoney" => Some(SqlType::SmallMoney),
        "text" => Some(SqlType::Text),
        "ntext" => Some(SqlType::NText),
        "image" => Some(SqlType::Image),
        "xml" => Some(SqlType::Xml),
        "date" => Some(SqlType::Date),
        "datetime" => Some(SqlType::DateTime),
        "smalldatetime" => Some(SqlType::SmallDateTime),
        "uniqueidentifier" => Some(SqlType::UniqueIdentifier),
        "sql_variant" => Some(SqlType::SqlVariant),
        "sysname" => Some(SqlType::NVarChar(Length::Of(128))),
        _ => None,
    };
    if let Some(ty) = fixed {
        return if args.is_empty() {
            Ok(ty)
        } else {
            Err(Error::BadLength { name: name.to_owned() })
        };
    }
    match name {
        "float" => match args {
            [] => Ok(SqlType::Float),
            [TypeArg::Number(bits @ 1..=53)] => {
                Ok(if *bits <= 24 { SqlType::Real } else { SqlType::Float })
            }
            _ => Err(Error::BadLength { name: name.to_owned() }),
        },
        "decimal" | "numeric" | "dec" => decimal(name, args),
        "char" | "character" => Ok(SqlType::Char(short(name, args, MAX_SHORT_BYTES)?)),
        "nchar" => Ok(SqlType::NChar(short(name, args, MAX_SHORT_UNITS)?)),
        "binary" => Ok(SqlType::Binary(short(name, args, MAX_SHORT_BYTES)?)),
        "varchar" => Ok(SqlType::VarChar(length(name, args, MAX_SHORT_BYTES)?)),
        "nvarchar" => Ok(SqlType::NVarChar(length(name, args, MAX_SHORT_UNITS)?)),
        "varbinary" => Ok(SqlType::VarBinary(length(name, args, MAX_SHORT_BYTES)?)),
        "time" => Ok(SqlType::Time(time_scale(name, args)?)),
        "datetime2" => Ok(SqlType::DateTime2(time_scale(name, args)?)),
        "datetimeoffset" => Ok(SqlType::DateTimeOffset(time_scale(name, args)?)),
        _ => Err(Error::UnknownType { name: name.to_owned() }),
    }
}

fn short(name: &str, args: &[TypeArg], max: u16) -> Result<u16> {
    match args {
        [] => Ok(1),
        [TypeArg::Number(n)] => u16::try_from(*n)
            .ok()
            .filter(|n| (1..=max).contains(n))
            .ok_or_else(|| Error::BadLength { name: n.to_string() }),
        _ => Err(Error::BadLength { name: name.to_owned() }),
    }
}

fn length(name: &str, args: &[TypeArg], max: u16) -> Result<Length> {
    match args {
        [TypeArg::Max] => Ok(Length::Max),
        _ => short(name, args, max).map(Length::Of),
    }
}

fn time_scale(name: &str, args: &[TypeArg]) -> Result<u8> {
    match args {
        [] => Ok(7),
        [TypeArg::Number(scale @ 0..=7)] => Ok(u8::try_from(*scale).unwrap_or(7)),
        _ => Err(Error::BadLength { name: name.to_owned() }),
    }
}

fn decimal(name: &str, args: &[TypeArg]) -> Result<SqlType> {
    let (precision, scale) = match args {
        [] => (18, 0),
        [TypeArg::Number(precision)] => (*precision, 0),
        [TypeArg::Number(precision), TypeArg::Number(scale)] => (*precision, *scale),
        _ => return Err(Error::BadLength { name: name.to_owned() }),
    };
    if scale > precision {
        return Err(Error::BadScale { scale, precision });
    }
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=MAX_PRECISION), Ok(scale)) => Ok(SqlType::Decimal { precision, scale }),
        _ => Err(Error::BadLength { name: precision.to_string() }),
    }
}

/// Returns the type and the collation of a column by its declaration in SQLite's schema.
///
/// # Errors
/// For a collation that is not known: another order than the stored one would find other rows.
pub(crate) fn column_from_declared(
    text: &str,
) -> std::result::Result<(SqlType, Collation), CollationError> {
    let ours = text.strip_prefix(storage::MARK);
    match ours.and_then(|_| text.rsplit_once(storage::COLLATED)) {
        Some((ty, name)) => {
            let unknown = || CollationError::Unknown { name: name.to_owned() };
            let collation = Collation::parse(name).ok_or_else(unknown)?;
            Ok((from_declared(ty), collation))
        }
        None => Ok((from_declared(text), Collation::default())),
    }
}

/// Returns the type of a column by its declaration in SQLite's schema; for a table that SQLite
/// itself created, by its affinity.
pub(crate) fn from_declared(text: &str) -> SqlType {
    let lower = text.to_ascii_lowercase();
    if let Some(ours) = lower.strip_prefix(crate::value::storage::MARK) {
        let bare = ours.strip_suffix(" text").unwrap_or(ours);
        if let Ok(ty) = super::parse_type(bare) {
            return ty;
        }
    }
    if lower.contains("int") {
        SqlType::BigInt
    } else if lower.contains("char") || lower.contains("clob") || lower.contains("text") {
        SqlType::NVarChar(Length::Max)
    } else if lower.contains("blob") {
        SqlType::VarBinary(Length::Max)
    } else if lower.contains("real") || lower.contains("floa") || lower.contains("doub") {
        SqlType::Float
    } else {
        // NUMERIC, or none at all: any value is possible
        SqlType::NVarChar(Length::Max)
    }
}
