//! TYPE_INFO: description of a type on the wire. Source: MS-TDS 2.2.5.4 and 2.2.5.6.

use crate::Collation;
use crate::code_page::UTF8_PAGE;
use crate::error::Error;
use crate::reader::Reader;
use crate::types::{
    Length, MAX_PRECISION, MAX_SHORT_BYTES, MAX_SHORT_UNITS, MAX_TIME_SCALE, SqlType,
};

/// SQL_Latin1_General_CP1_CI_AS: locale 0x0409, without regard to case, kana and width, sort 52.
pub(crate) const COLLATION: [u8; 5] = [0x09, 0x04, 0xD0, 0x00, 0x34];
/// The length of `(max)` types.
pub(crate) const MAX: u16 = 0xFFFF;
const MAX_VARIANT_BYTES: u32 = 8016;

/// Layout of a value after its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A fixed number of bytes, never NULL.
    Fixed(u8),
    /// A length in a byte; 0 is NULL.
    Byte,
    /// A length in two bytes; 0xFFFF is NULL.
    Short,
    /// Chunks.
    Parts,
    /// A length in four bytes; 0xFFFFFFFF is NULL; in rows, after a pointer and a time.
    Long,
    /// A length in four bytes, then type and value.
    Variant,
    /// Always NULL.
    Nothing,
}

/// A type as described by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TypeInfo {
    pub(crate) ty: SqlType,
    pub(crate) layout: Layout,
    /// The collation of text.
    pub(crate) collation: [u8; 5],
}

pub(crate) mod code {
    pub(crate) const NULL: u8 = 0x1F;
    pub(crate) const IMAGE: u8 = 0x22;
    pub(crate) const TEXT: u8 = 0x23;
    pub(crate) const GUID: u8 = 0x24;
    pub(crate) const VARBINARY: u8 = 0x25;
    pub(crate) const INTN: u8 = 0x26;
    pub(crate) const VARCHAR: u8 = 0x27;
    pub(crate) const DATEN: u8 = 0x28;
    pub(crate) const TIMEN: u8 = 0x29;
    pub(crate) const DATETIME2N: u8 = 0x2A;
    pub(crate) const DATETIMEOFFSETN: u8 = 0x2B;
    pub(crate) const BINARY: u8 = 0x2D;
    pub(crate) const CHAR: u8 = 0x2F;
    pub(crate) const INT1: u8 = 0x30;
    pub(crate) const BIT: u8 = 0x32;
    pub(crate) const INT2: u8 = 0x34;
    pub(crate) const DECIMAL: u8 = 0x37;
    pub(crate) const INT4: u8 = 0x38;
    pub(crate) const DATETIME4: u8 = 0x3A;
    pub(crate) const FLOAT4: u8 = 0x3B;
    pub(crate) const MONEY: u8 = 0x3C;
    pub(crate) const DATETIME: u8 = 0x3D;
    pub(crate) const FLOAT8: u8 = 0x3E;
    pub(crate) const NUMERIC: u8 = 0x3F;
    pub(crate) const VARIANT: u8 = 0x62;
    pub(crate) const NTEXT: u8 = 0x63;
    pub(crate) const BITN: u8 = 0x68;
    pub(crate) const DECIMALN: u8 = 0x6A;
    pub(crate) const NUMERICN: u8 = 0x6C;
    pub(crate) const FLOATN: u8 = 0x6D;
    pub(crate) const MONEYN: u8 = 0x6E;
    pub(crate) const DATETIMEN: u8 = 0x6F;
    pub(crate) const MONEY4: u8 = 0x7A;
    pub(crate) const INT8: u8 = 0x7F;
    pub(crate) const BIGVARBINARY: u8 = 0xA5;
    pub(crate) const BIGVARCHAR: u8 = 0xA7;
    pub(crate) const BIGBINARY: u8 = 0xAD;
    pub(crate) const BIGCHAR: u8 = 0xAF;
    pub(crate) const NVARCHAR: u8 = 0xE7;
    pub(crate) const NCHAR: u8 = 0xEF;
    pub(crate) const UDT: u8 = 0xF0;
    pub(crate) const XML: u8 = 0xF1;
    pub(crate) const TABLE: u8 = 0xF3;
}

impl TypeInfo {
    /// Reads a type.
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<TypeInfo, Error> {
        let what = "type of a value";
        let code = from.u8(what)?;
        let fixed = |ty, bytes| Ok(TypeInfo::plain(ty, Layout::Fixed(bytes)));
        match code {
            code::NULL => Ok(TypeInfo::plain(SqlType::Int, Layout::Nothing)),
            code::INT1 => fixed(SqlType::TinyInt, 1),
            code::BIT => fixed(SqlType::Bit, 1),
            code::INT2 => fixed(SqlType::SmallInt, 2),
            code::INT4 => fixed(SqlType::Int, 4),
            code::INT8 => fixed(SqlType::BigInt, 8),
            code::FLOAT4 => fixed(SqlType::Real, 4),
            code::FLOAT8 => fixed(SqlType::Float, 8),
            code::MONEY4 => fixed(SqlType::SmallMoney, 4),
            code::MONEY => fixed(SqlType::Money, 8),
            code::DATETIME4 => fixed(SqlType::SmallDateTime, 4),
            code::DATETIME => fixed(SqlType::DateTime, 8),
            code::INTN | code::BITN | code::FLOATN | code::MONEYN | code::DATETIMEN => {
                Ok(TypeInfo::plain(sized(code, from.u8(what)?)?, Layout::Byte))
            }
            code::GUID => match from.u8(what)? {
                0 | 16 => Ok(TypeInfo::plain(SqlType::UniqueIdentifier, Layout::Byte)),
                other => Err(Error::Invalid { what: "length of a GUID", value: other.into() }),
            },
            code::DECIMAL | code::NUMERIC | code::DECIMALN | code::NUMERICN => {
                let _most_bytes = from.u8(what)?;
                Ok(TypeInfo::plain(read_decimal(from)?, Layout::Byte))
            }
            code::DATEN => Ok(TypeInfo::plain(SqlType::Date, Layout::Byte)),
            code::TIMEN | code::DATETIME2N | code::DATETIMEOFFSETN => {
                Ok(TypeInfo::plain(with_scale(code, from.u8(what)?)?, Layout::Byte))
            }
            code::VARIANT => {
                from.u32(what)?;
                Ok(TypeInfo::plain(SqlType::SqlVariant, Layout::Variant))
            }
            code::XML => {
                read_xml_schema(from)?;
                Ok(TypeInfo::plain(SqlType::Xml, Layout::Parts))
            }
            code::UDT => Err(Error::Unsupported { what: "a CLR type" }),
            code::TABLE => Err(Error::Unsupported { what: "a table within a table" }),
            _ => read_text_or_binary(code, from),
        }
    }

    /// Returns the code page of text.
    pub(crate) fn page(self) -> u16 {
        Collation::page_of_bytes(self.collation)
    }

    pub(crate) fn plain(ty: SqlType, layout: Layout) -> TypeInfo {
        TypeInfo { ty, layout, collation: COLLATION }
    }
}

fn read_decimal(from: &mut Reader<'_>) -> Result<SqlType, Error> {
    let precision = from.u8("precision")?;
    let scale = from.u8("scale")?;
    if precision == 0 || precision > MAX_PRECISION || scale > precision {
        let value = u64::from(precision) << 8 | u64::from(scale);
        return Err(Error::Invalid { what: "precision and scale", value });
    }
    Ok(SqlType::Decimal { precision, scale })
}

fn read_xml_schema(from: &mut Reader<'_>) -> Result<(), Error> {
    let what = "schema of xml";
    match from.u8(what)? {
        0 => Ok(()),
        1 => {
            from.b_varchar(what)?;
            from.b_varchar(what)?;
            from.us_varchar(what)?;
            Ok(())
        }
        other => Err(Error::Invalid { what, value: other.into() }),
    }
}

/// Returns the type for a byte that holds its size.
pub(crate) fn sized(code: u8, bytes: u8) -> Result<SqlType, Error> {
    Ok(match (code, bytes) {
        (code::BITN, 1) => SqlType::Bit,
        (code::INTN, 1) => SqlType::TinyInt,
        (code::INTN, 2) => SqlType::SmallInt,
        (code::INTN, 4) => SqlType::Int,
        (code::INTN, 8) => SqlType::BigInt,
        (code::FLOATN, 4) => SqlType::Real,
        (code::FLOATN, 8) => SqlType::Float,
        (code::MONEYN, 4) => SqlType::SmallMoney,
        (code::MONEYN, 8) => SqlType::Money,
        (code::DATETIMEN, 4) => SqlType::SmallDateTime,
        (code::DATETIMEN, 8) => SqlType::DateTime,
        _ => return Err(Error::Invalid { what: "size of a type", value: bytes.into() }),
    })
}

/// Returns the type for a scale of seconds.
pub(crate) fn with_scale(code: u8, scale: u8) -> Result<SqlType, Error> {
    if scale > MAX_TIME_SCALE {
        return Err(Error::Invalid { what: "scale of seconds", value: scale.into() });
    }
    Ok(match code {
        code::TIMEN => SqlType::Time(scale),
        code::DATETIME2N => SqlType::DateTime2(scale),
        _ => SqlType::DateTimeOffset(scale),
    })
}

fn read_collation(from: &mut Reader<'_>) -> Result<[u8; 5], Error> {
    let bytes = from.bytes("collation", 5)?;
    bytes.try_into().map_err(|_| Error::NotText { what: "collation" })
}

fn read_text_or_binary(code: u8, from: &mut Reader<'_>) -> Result<TypeInfo, Error> {
    let what = "length of a type";
    let mut collation = COLLATION;
    let (ty, layout) = match code {
        code::CHAR => (SqlType::Char(from.u8(what)?.into()), Layout::Byte),
        code::VARCHAR => (SqlType::VarChar(Length::Of(from.u8(what)?.into())), Layout::Byte),
        code::BINARY => (SqlType::Binary(from.u8(what)?.into()), Layout::Byte),
        code::VARBINARY => (SqlType::VarBinary(Length::Of(from.u8(what)?.into())), Layout::Byte),
        code::TEXT | code::NTEXT | code::IMAGE => {
            from.u32(what)?;
            let ty = match code {
                code::TEXT => SqlType::Text,
                code::NTEXT => SqlType::NText,
                _ => SqlType::Image,
            };
            if ty != SqlType::Image {
                collation = read_collation(from)?;
            }
            (ty, Layout::Long)
        }
        code::BIGVARBINARY | code::BIGVARCHAR | code::NVARCHAR => {
            let length = from.u16(what)?;
            let layout = if length == MAX { Layout::Parts } else { Layout::Short };
            let ty = match code {
                code::BIGVARBINARY => SqlType::VarBinary(read_length(length, 1)?),
                code::BIGVARCHAR => SqlType::VarChar(read_length(length, 1)?),
                _ => SqlType::NVarChar(read_length(length, 2)?),
            };
            if code != code::BIGVARBINARY {
                collation = read_collation(from)?;
            }
            (ty, layout)
        }
        code::BIGBINARY => (SqlType::Binary(short(from.u16(what)?, 1)?), Layout::Short),
        code::BIGCHAR | code::NCHAR => {
            let length = from.u16(what)?;
            collation = read_collation(from)?;
            match code {
                code::BIGCHAR => (SqlType::Char(short(length, 1)?), Layout::Short),
                _ => (SqlType::NChar(short(length, 2)?), Layout::Short),
            }
        }
        other => return Err(Error::Invalid { what: "type of a value", value: other.into() }),
    };
    Ok(TypeInfo { ty, layout, collation })
}

fn short(bytes: u16, unit_bytes: u16) -> Result<u16, Error> {
    if bytes > MAX_SHORT_BYTES {
        let (length, limit) = (bytes.into(), MAX_SHORT_BYTES.into());
        return Err(Error::TooLong { what: "length of a type", length, limit });
    }
    // Clients declare an empty value with length 0; the shortest type has 1.
    Ok((bytes / unit_bytes).max(1))
}

fn read_length(bytes: u16, unit_bytes: u16) -> Result<Length, Error> {
    match bytes {
        MAX => Ok(Length::Max),
        _ => Ok(Length::Of(short(bytes, unit_bytes)?)),
    }
}

/// Returns the size of a decimal's number with its sign, in bytes.
pub(crate) fn decimal_bytes(precision: u8) -> u8 {
    match precision {
        0..=9 => 5,
        10..=19 => 9,
        20..=28 => 13,
        _ => 17,
    }
}

/// Returns the size of a time of this scale, in bytes.
pub(crate) fn time_bytes(scale: u8) -> u8 {
    match scale {
        0..=2 => 3,
        3..=4 => 4,
        _ => 5,
    }
}

/// Appends a type.
///
/// # Errors
/// A length, precision or scale that T-SQL does not have.
pub fn put_type_info(out: &mut Vec<u8>, ty: SqlType) -> Result<(), Error> {
    let unfit = Err(Error::Unfit { ty });
    match ty {
        SqlType::Bit => out.extend([code::BITN, 1]),
        SqlType::TinyInt => out.extend([code::INTN, 1]),
        SqlType::SmallInt => out.extend([code::INTN, 2]),
        SqlType::Int => out.extend([code::INTN, 4]),
        SqlType::BigInt => out.extend([code::INTN, 8]),
        SqlType::Real => out.extend([code::FLOATN, 4]),
        SqlType::Float => out.extend([code::FLOATN, 8]),
        SqlType::SmallMoney => out.extend([code::MONEYN, 4]),
        SqlType::Money => out.extend([code::MONEYN, 8]),
        SqlType::SmallDateTime => out.extend([code::DATETIMEN, 4]),
        SqlType::DateTime => out.extend([code::DATETIMEN, 8]),
        SqlType::UniqueIdentifier => out.extend([code::GUID, 16]),
        SqlType::Date => out.push(code::DATEN),
        SqlType::Decimal { precision, scale } => {
            if precision == 0 || precision > MAX_PRECISION || scale > precision {
                return unfit;
            }
            out.extend([code::NUMERICN, decimal_bytes(precision), precision, scale]);
        }
        SqlType::Time(scale) | SqlType::DateTime2(scale) | SqlType::DateTimeOffset(scale) => {
            if scale > MAX_TIME_SCALE {
                return unfit;
            }
            let code = match ty {
                SqlType::Time(_) => code::TIMEN,
                SqlType::DateTime2(_) => code::DATETIME2N,
                _ => code::DATETIMEOFFSETN,
            };
            out.extend([code, scale]);
        }
        SqlType::SqlVariant => {
            out.push(code::VARIANT);
            out.extend_from_slice(&MAX_VARIANT_BYTES.to_le_bytes());
        }
        SqlType::Xml => out.extend([code::XML, 0]),
        SqlType::Text => put_long(out, code::TEXT, 0x7FFF_FFFF),
        SqlType::NText => put_long(out, code::NTEXT, 0x7FFF_FFFE),
        SqlType::Image => {
            out.push(code::IMAGE);
            out.extend_from_slice(&0x7FFF_FFFF_u32.to_le_bytes());
        }
        SqlType::Char(_)
        | SqlType::VarChar(_)
        | SqlType::NChar(_)
        | SqlType::NVarChar(_)
        | SqlType::Binary(_)
        | SqlType::VarBinary(_) => return put_short(out, ty),
    }
    Ok(())
}

/// Returns the type in which a column is sent. Old clients do not know UTF-8, and all know
/// `nvarchar`, which has no more units than UTF-8 has bytes.
pub(crate) fn sent_type(ty: SqlType, collation: Collation) -> SqlType {
    if collation.code_page() != UTF8_PAGE {
        return ty;
    }
    match ty {
        SqlType::Char(most) | SqlType::VarChar(Length::Of(most)) if most <= MAX_SHORT_UNITS => {
            SqlType::NVarChar(Length::Of(most))
        }
        SqlType::Char(_) | SqlType::VarChar(_) => SqlType::NVarChar(Length::Max),
        SqlType::Text => SqlType::NText,
        other => other,
    }
}

/// Appends the type of a column.
///
/// # Errors
/// As [`put_type_info`].
pub(crate) fn put_column_type(
    out: &mut Vec<u8>,
    ty: SqlType,
    collation: Collation,
) -> Result<(), Error> {
    put_type_info(out, ty)?;
    let is_text = matches!(
        ty,
        SqlType::Char(_)
            | SqlType::VarChar(_)
            | SqlType::NChar(_)
            | SqlType::NVarChar(_)
            | SqlType::Text
            | SqlType::NText
    );
    if is_text {
        // a collation ends the type
        let at = out.len().saturating_sub(COLLATION.len());
        out.truncate(at);
        out.extend_from_slice(&collation.bytes());
    }
    Ok(())
}

fn put_long(out: &mut Vec<u8>, code: u8, most: u32) {
    out.push(code);
    out.extend_from_slice(&most.to_le_bytes());
    out.extend_from_slice(&COLLATION);
}

fn put_short(out: &mut Vec<u8>, ty: SqlType) -> Result<(), Error> {
    let (code, length) = match ty {
        SqlType::Char(bytes) => (code::BIGCHAR, Length::Of(bytes)),
        SqlType::VarChar(length) => (code::BIGVARCHAR, length),
        SqlType::NChar(units) => (code::NCHAR, Length::Of(units.saturating_mul(2))),
        SqlType::NVarChar(Length::Of(units)) => {
            (code::NVARCHAR, Length::Of(units.saturating_mul(2)))
        }
        SqlType::NVarChar(Length::Max) => (code::NVARCHAR, Length::Max),
        SqlType::Binary(bytes) => (code::BIGBINARY, Length::Of(bytes)),
        SqlType::VarBinary(length) => (code::BIGVARBINARY, length),
        _ => return Err(Error::Unfit { ty }),
    };
    let bytes = match length {
        Length::Max => MAX,
        Length::Of(bytes @ 1..=MAX_SHORT_BYTES) => bytes,
        Length::Of(_) => return Err(Error::Unfit { ty }),
    };
    out.push(code);
    out.extend_from_slice(&bytes.to_le_bytes());
    if !matches!(code, code::BIGBINARY | code::BIGVARBINARY) {
        out.extend_from_slice(&COLLATION);
    }
    Ok(())
}
