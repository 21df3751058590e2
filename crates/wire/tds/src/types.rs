//! SQL Server's types and values as exchanged between an interpreter and the wire.
//!
//! Source: MS-TDS 2.2.5.4 (data type definitions) and 2.2.5.5 (their values).

use std::borrow::Cow;
use std::sync::Arc;

use crate::Collation;
use crate::table::TableValue;

/// Maximum length of `char(n)`, `varchar(n)`, `binary(n)`, `varbinary(n)`, in bytes.
pub const MAX_SHORT_BYTES: u16 = 8000;
/// Maximum length of `nchar(n)`, `nvarchar(n)`, in UTF-16 code units.
pub const MAX_SHORT_UNITS: u16 = 4000;
/// Maximum precision of `decimal`.
pub const MAX_PRECISION: u8 = 38;
/// Maximum scale of `time`, `datetime2` and `datetimeoffset`.
pub const MAX_TIME_SCALE: u8 = 7;
/// Number of 100 ns units in a day: the ticks of [`Value::Time`].
pub const TICKS_PER_DAY: u64 = 864_000_000_000;
/// Number of units of 1/300 s in a day: the ticks of [`Value::DateTime`].
pub const DATETIME_TICKS_PER_DAY: u32 = 25_920_000;

/// The length of a variable-length type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Length {
    /// At most this many: bytes of `varchar` and `varbinary`, UTF-16 units of `nvarchar`.
    Of(u16),
    /// `(max)`: up to 2^31 - 1 bytes.
    Max,
}

/// A type of T-SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// `bit`.
    Bit,
    /// `tinyint`, 0 to 255.
    TinyInt,
    /// `smallint`.
    SmallInt,
    /// `int`.
    Int,
    /// `bigint`.
    BigInt,
    /// `real`, 32 bits.
    Real,
    /// `float`, 64 bits.
    Float,
    /// `decimal(precision, scale)`, also called `numeric`.
    Decimal {
        /// 1 to 38 digits.
        precision: u8,
        /// Digits after the decimal point, at most `precision`.
        scale: u8,
    },
    /// `money`.
    Money,
    /// `smallmoney`.
    SmallMoney,
    /// `char(n)`, bytes.
    Char(u16),
    /// `varchar(n|max)`, bytes.
    VarChar(Length),
    /// `nchar(n)`, UTF-16 units.
    NChar(u16),
    /// `nvarchar(n|max)`, UTF-16 units.
    NVarChar(Length),
    /// `binary(n)`.
    Binary(u16),
    /// `varbinary(n|max)`.
    VarBinary(Length),
    /// `text`.
    Text,
    /// `ntext`.
    NText,
    /// `image`.
    Image,
    /// `xml`, without a schema.
    Xml,
    /// `date`.
    Date,
    /// `time(scale)`.
    Time(u8),
    /// `datetime`.
    DateTime,
    /// `smalldatetime`.
    SmallDateTime,
    /// `datetime2(scale)`.
    DateTime2(u8),
    /// `datetimeoffset(scale)`.
    DateTimeOffset(u8),
    /// `uniqueidentifier`.
    UniqueIdentifier,
    /// `sql_variant`.
    SqlVariant,
}

/// A value. Its type is that of the column, the parameter or the variant.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value<'a> {
    /// NULL of any type.
    #[default]
    Null,
    /// `bit`.
    Bit(bool),
    /// `tinyint` to `bigint`.
    Int(i64),
    /// `real` (a 32-bit number, widened) and `float`; always finite.
    Float(f64),
    /// `decimal`: `unscaled` / 10^`scale`.
    Decimal {
        /// The digits as an integer, below 10^38 in magnitude.
        unscaled: i128,
        /// Digits after the decimal point.
        scale: u8,
    },
    /// `money` and `smallmoney`, in 1/10000.
    Money(i64),
    /// All character types and `xml`.
    Text(Cow<'a, str>),
    /// All binary types.
    Binary(Cow<'a, [u8]>),
    /// `date`: days since 0001-01-01, at most 3,652,058.
    Date(u32),
    /// `time`: 100 ns units since midnight, whatever the scale.
    Time(u64),
    /// `datetime`.
    DateTime {
        /// Days since 1900-01-01, from -53,690.
        days: i32,
        /// 1/300 s since midnight.
        ticks: u32,
    },
    /// `smalldatetime`.
    SmallDateTime {
        /// Days since 1900-01-01.
        days: u16,
        /// Minutes since midnight.
        minutes: u16,
    },
    /// `datetime2`.
    DateTime2 {
        /// Days since 0001-01-01.
        days: u32,
        /// 100 ns units since midnight.
        ticks: u64,
    },
    /// `datetimeoffset`.
    DateTimeOffset {
        /// Days since 0001-01-01 of the moment in UTC.
        days: u32,
        /// 100 ns units since midnight of the moment in UTC.
        ticks: u64,
        /// Minutes that the local time is ahead of UTC, -840 to 840.
        offset_min: i16,
    },
    /// `uniqueidentifier`, as stored and sent: the first three groups little-endian.
    Guid([u8; 16]),
    /// A `sql_variant` that is not NULL: its type and value.
    Variant(Box<Variant<'a>>),
}

/// The content of a `sql_variant`.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant<'a> {
    /// Any type but `(max)` types, `text`, `ntext`, `image`, `xml` and `sql_variant`.
    pub ty: SqlType,
    /// Its value, not NULL.
    pub value: Value<'a>,
}

/// Whether the server gives a column its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Generated {
    /// Statements do, or it is an expression.
    #[default]
    No,
    /// IDENTITY.
    Identity,
    /// A computed column.
    Computed,
    /// `rowversion`.
    Version,
}

impl Generated {
    /// Reads the flags of a column. A rowversion has none of its own.
    pub(crate) fn of_flags(flags: u16) -> Generated {
        match (flags & 0x10 != 0, flags & 0x20 != 0) {
            (true, _) => Generated::Identity,
            (_, true) => Generated::Computed,
            _ => Generated::No,
        }
    }
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name; empty when the expression has none.
    pub name: String,
    /// The type.
    pub ty: SqlType,
    /// True if it may be NULL.
    pub nullable: bool,
    /// Of a table's column, whether it is IDENTITY, computed or a rowversion.
    pub generated: Generated,
    /// Of text.
    pub collation: Collation,
}

/// An error (class above 10) or an information message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// SQL Server's number, 50000 if there is none.
    pub number: i32,
    /// SQL Server's state.
    pub state: u8,
    /// The severity, 0 to 25.
    pub class: u8,
    /// The text.
    pub text: String,
    /// The procedure that raised it; empty outside of procedures.
    pub procedure: String,
    /// The line of the batch or procedure, from 1.
    pub line: u32,
}

/// A parameter of a remote procedure call, or a variable given to `sp_executesql`.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The name with its `@`; empty when passed by position.
    pub name: String,
    /// The type that the client declared.
    pub ty: SqlType,
    /// The value.
    pub value: Value<'static>,
    /// True if the client wants the value back.
    pub output: bool,
    /// True if the client asks for the procedure's default instead of `value`.
    pub default: bool,
    /// A table-valued parameter, in place of `value`.
    pub table: Option<Arc<TableValue>>,
}

impl Value<'_> {
    /// Returns the same value with owned bytes.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bit(bit) => Value::Bit(bit),
            Value::Int(int) => Value::Int(int),
            Value::Float(float) => Value::Float(float),
            Value::Decimal { unscaled, scale } => Value::Decimal { unscaled, scale },
            Value::Money(money) => Value::Money(money),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Binary(bytes) => Value::Binary(Cow::Owned(bytes.into_owned())),
            Value::Date(days) => Value::Date(days),
            Value::Time(ticks) => Value::Time(ticks),
            Value::DateTime { days, ticks } => Value::DateTime { days, ticks },
            Value::SmallDateTime { days, minutes } => Value::SmallDateTime { days, minutes },
            Value::DateTime2 { days, ticks } => Value::DateTime2 { days, ticks },
            Value::DateTimeOffset { days, ticks, offset_min } => {
                Value::DateTimeOffset { days, ticks, offset_min }
            }
            Value::Guid(guid) => Value::Guid(guid),
            Value::Variant(variant) => {
                let Variant { ty, value } = *variant;
                Value::Variant(Box::new(Variant { ty, value: value.into_owned() }))
            }
        }
    }
}

impl Message {
    /// Returns a message outside of procedures, on line 1.
    pub fn new(number: i32, class: u8, state: u8, text: impl Into<String>) -> Message {
        let text = text.into();
        Message { number, state, class, text, procedure: String::new(), line: 1 }
    }

    /// Returns true if clients treat it as an error.
    pub fn is_error(&self) -> bool {
        self.class > 10
    }
}
