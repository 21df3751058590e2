//! Descriptions of types for the catalog and ODBC. Source: the documentation of sys.types,
//! sp_columns and sp_datatype_info.

use tdekit_wire_tds::{Length, SqlType};

use crate::ast::{Action, Kind, ProcParam};
use crate::run::catalog::model::object_id;
use crate::value::{length_of, type_name};

/// A type as `sys.types` and `sp_datatype_info` list it.
pub(crate) struct Odbc {
    pub(crate) name: &'static str,
    pub(crate) system_type_id: i64,
    pub(crate) user_type_id: i64,
    pub(crate) max_length: i64,
    pub(crate) precision: i64,
    pub(crate) scale: i64,
    /// ODBC's number in version 3, and in version 2.
    pub(crate) odbc: i64,
    pub(crate) odbc2: i64,
    /// `SS_DATA_TYPE` of a NOT NULL column and of a nullable one.
    pub(crate) token: (i64, i64),
    pub(crate) prefix: Option<&'static str>,
    pub(crate) suffix: Option<&'static str>,
    pub(crate) parameters: Option<&'static str>,
}

const fn plain(
    name: &'static str,
    ids: (i64, i64),
    (max_length, precision, scale): (i64, i64, i64),
    odbc: (i64, i64),
    token: (i64, i64),
    marks: (Option<&'static str>, Option<&'static str>, Option<&'static str>),
) -> Odbc {
    Odbc {
        name,
        system_type_id: ids.0,
        user_type_id: ids.1,
        max_length,
        precision,
        scale,
        odbc: odbc.0,
        odbc2: odbc.1,
        token,
        prefix: marks.0,
        suffix: marks.1,
        parameters: marks.2,
    }
}

type Marks = (Option<&'static str>, Option<&'static str>, Option<&'static str>);

const BARE: Marks = (None, None, None);
const QUOTED: Marks = (Some("'"), Some("'"), None);
const SCALED: Marks = (Some("'"), Some("'"), Some("scale"));
const LONG: Marks = (Some("'"), Some("'"), Some("max length"));
const NATIONAL: Marks = (Some("N'"), Some("'"), Some("max length"));
const BYTES: Marks = (Some("0x"), None, Some("max length"));
const DIGITS: Marks = (None, None, Some("precision,scale"));

/// The number of `timestamp`, the type of `rowversion` columns.
pub(crate) const TIMESTAMP: i64 = 189;

/// All types; `sysname` is an alias of nvarchar(128), and values of `timestamp` are binary(8).
pub(crate) const ODBC: &[Odbc] = &[
    plain("image", (34, 34), (16, 0, 0), (-4, -4), (34, 34), (Some("0x"), None, None)),
    plain("text", (35, 35), (16, 0, 0), (-1, -1), (35, 35), QUOTED),
    plain("uniqueidentifier", (36, 36), (16, 0, 0), (-11, -11), (37, 37), QUOTED),
    plain("date", (40, 40), (3, 10, 0), (91, -9), (0, 0), QUOTED),
    plain("time", (41, 41), (5, 16, 7), (-154, -9), (0, 0), SCALED),
    plain("datetime2", (42, 42), (8, 27, 7), (93, -9), (0, 0), SCALED),
    plain("datetimeoffset", (43, 43), (10, 34, 7), (-155, -9), (0, 0), SCALED),
    plain("tinyint", (48, 48), (1, 3, 0), (-6, -6), (48, 38), BARE),
    plain("smallint", (52, 52), (2, 5, 0), (5, 5), (52, 38), BARE),
    plain("int", (56, 56), (4, 10, 0), (4, 4), (56, 38), BARE),
    plain("smalldatetime", (58, 58), (4, 16, 0), (93, 11), (58, 111), QUOTED),
    plain("real", (59, 59), (4, 24, 0), (7, 7), (59, 109), BARE),
    plain("money", (60, 60), (8, 19, 4), (3, 3), (60, 110), (Some("$"), None, None)),
    plain("datetime", (61, 61), (8, 23, 3), (93, 11), (61, 111), QUOTED),
    plain("float", (62, 62), (8, 53, 0), (6, 6), (62, 109), BARE),
    plain("sql_variant", (98, 98), (8016, 0, 0), (-150, -150), (39, 39), BARE),
    plain("ntext", (99, 99), (16, 0, 0), (-10, -10), (35, 35), (Some("N'"), Some("'"), None)),
    plain("bit", (104, 104), (1, 1, 0), (-7, -7), (50, 50), BARE),
    plain("decimal", (106, 106), (17, 38, 38), (3, 3), (55, 106), DIGITS),
    plain("numeric", (108, 108), (17, 38, 38), (2, 2), (63, 108), DIGITS),
    plain("smallmoney", (122, 122), (4, 10, 4), (3, 3), (122, 110), (Some("$"), None, None)),
    plain("bigint", (127, 127), (8, 19, 0), (-5, -5), (63, 108), BARE),
    plain("varbinary", (165, 165), (8000, 0, 0), (-3, -3), (37, 37), BYTES),
    plain("varchar", (167, 167), (8000, 0, 0), (12, 12), (39, 39), LONG),
    plain("binary", (173, 173), (8000, 0, 0), (-2, -2), (45, 37), BYTES),
    plain("char", (175, 175), (8000, 0, 0), (1, 1), (47, 39), LONG),
    plain("timestamp", (189, 189), (8, 0, 0), (-2, -2), (45, 37), (Some("0x"), None, None)),
    plain("nvarchar", (231, 231), (8000, 0, 0), (-9, -9), (39, 39), NATIONAL),
    plain("nchar", (239, 239), (8000, 0, 0), (-8, -8), (39, 39), NATIONAL),
    plain("xml", (241, 241), (-1, 0, 0), (-152, -152), (0, 0), (Some("N'"), Some("'"), None)),
    plain("sysname", (231, 256), (256, 0, 0), (-9, -9), (39, 39), (Some("N'"), Some("'"), None)),
];

/// Returns the number of a user-defined type: the same for the same name.
pub(crate) fn type_id(stored: &str) -> i64 {
    object_id(&format!("TYPE~{stored}"))
}

/// Returns the user-defined types of the parameters that the text of a procedure or function
/// declares, as `tsql_type` names them.
pub(crate) fn parameter_types(text: &str) -> Vec<Option<String>> {
    let named = |param: ProcParam| param.user_type.map(|of| of.name.clone());
    parameters(text).into_iter().map(named).collect()
}

/// Returns the parameters that the text of a procedure or function declares; user-defined types are
/// stand-ins with their names.
pub(crate) fn parameters(text: &str) -> Vec<ProcParam> {
    let stmts = crate::parse::parse(text, true).unwrap_or_default();
    match stmts.into_iter().next().map(|stmt| stmt.kind) {
        Some(Kind::Act(Action::CreateProc(made))) => made.params,
        Some(Kind::Act(Action::CreateFunction(made))) => made.params,
        _ => Vec::new(),
    }
}

/// Returns the type of a scalar function's value, if a text defines one.
pub(crate) fn returned(text: &str) -> Option<SqlType> {
    let stmts = crate::parse::parse(text, true).unwrap_or_default();
    match stmts.into_iter().next().map(|stmt| stmt.kind) {
        Some(Kind::Act(Action::CreateFunction(made))) => made.steps().map(|steps| steps.returns),
        _ => None,
    }
}

/// Returns the type's name as in declarations: `decimal` where messages say `numeric`.
pub(crate) fn public_name(ty: SqlType) -> &'static str {
    match ty {
        SqlType::Decimal { .. } => "decimal",
        _ => type_name(ty),
    }
}

/// Returns the entry of a type.
pub(crate) fn entry(ty: SqlType) -> &'static Odbc {
    let name = public_name(ty);
    // every type is in the list, as a test checks
    ODBC.iter().find(|own| own.name == name).unwrap_or(&ODBC[0])
}

/// Returns `system_type_id`, length in bytes, precision and scale.
pub(crate) fn type_facts(ty: SqlType) -> (i64, i64, i64, i64) {
    use SqlType as T;
    let own = entry(ty);
    let bytes = |unit_bytes: i64| match length_of(ty) {
        Some(Length::Of(n)) => i64::from(n) * unit_bytes,
        _ => -1,
    };
    let id = own.system_type_id;
    let timed = |scale: u8, base: i64, digits: i64| {
        let length = base + i64::from(scale > 2) + i64::from(scale > 4);
        let point = i64::from(scale > 0);
        (id, length, digits + point + i64::from(scale), i64::from(scale))
    };
    match ty {
        T::Decimal { precision, scale } => {
            let size = match precision {
                0..=9 => 5,
                10..=19 => 9,
                20..=28 => 13,
                _ => 17,
            };
            (id, size, i64::from(precision), i64::from(scale))
        }
        T::Char(_) | T::VarChar(_) | T::Binary(_) | T::VarBinary(_) => (id, bytes(1), 0, 0),
        T::NChar(_) | T::NVarChar(_) => (id, bytes(2), 0, 0),
        T::Time(scale) => timed(scale, 3, 8),
        T::DateTime2(scale) => timed(scale, 6, 19),
        T::DateTimeOffset(scale) => timed(scale, 8, 26),
        _ => (id, own.max_length, own.precision, own.scale),
    }
}

/// The description of a column's type in `sp_columns`.
pub(crate) struct Described {
    pub(crate) precision: i64,
    pub(crate) length: i64,
    pub(crate) scale: Option<i64>,
    pub(crate) radix: Option<i64>,
    pub(crate) octets: Option<i64>,
    /// `SQL_DATA_TYPE` and `SQL_DATETIME_SUB`.
    pub(crate) verbose: (i64, Option<i64>),
}

/// Returns the [`Described`] of a type.
pub(crate) fn described(ty: SqlType) -> Described {
    use SqlType as T;
    const TEXT_BYTES: i64 = 2_147_483_647;
    let own = entry(ty);
    let (_, bytes, precision, scale) = type_facts(ty);
    let made = |precision, length, scale, radix| Described {
        precision,
        length,
        scale,
        radix,
        octets: None,
        verbose: (own.odbc, None),
    };
    let text = |precision, length| Described {
        octets: Some(length),
        ..made(precision, length, None, None)
    };
    let moment = |length, sub| Described {
        verbose: (if own.odbc < 0 { own.odbc } else { 9 }, Some(sub)),
        ..made(precision, length, Some(scale), None)
    };
    match ty {
        T::Bit => made(1, 1, None, None),
        T::TinyInt | T::SmallInt | T::Int | T::BigInt => made(precision, bytes, Some(0), Some(10)),
        T::Real | T::Float => made(precision, bytes, None, Some(2)),
        T::Decimal { .. } | T::Money | T::SmallMoney => {
            made(precision, precision + 2, Some(scale), Some(10))
        }
        T::Char(n) | T::Binary(n) => text(i64::from(n), i64::from(n)),
        T::NChar(n) => text(i64::from(n), i64::from(n) * 2),
        T::VarChar(Length::Of(n)) | T::VarBinary(Length::Of(n)) => text(n.into(), n.into()),
        T::NVarChar(Length::Of(n)) => text(i64::from(n), i64::from(n) * 2),
        // without limit
        T::VarChar(_) | T::NVarChar(_) | T::VarBinary(_) | T::Xml => text(0, 0),
        T::Text | T::Image => text(TEXT_BYTES, TEXT_BYTES),
        T::NText => text(1_073_741_823, TEXT_BYTES - 1),
        T::Date => moment(6, 1),
        T::Time(_) => moment(12, 0),
        T::DateTime | T::SmallDateTime | T::DateTime2(_) => moment(16, 3),
        T::DateTimeOffset(_) => moment(20, 0),
        T::UniqueIdentifier => made(36, 16, None, None),
        T::SqlVariant => made(8000, 8000, None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::{ODBC, entry, public_name};
    use tdekit_wire_tds::{Length, SqlType};

    #[test]
    fn every_type_has_its_entry() {
        let all = [
            SqlType::Bit,
            SqlType::TinyInt,
            SqlType::SmallInt,
            SqlType::Int,
            SqlType::BigInt,
            SqlType::Real,
            SqlType::Float,
            SqlType::Decimal { precision: 5, scale: 1 },
            SqlType::Money,
            SqlType::SmallMoney,
            SqlType::Char(1),
            SqlType::VarChar(Length::Max),
            SqlType::NChar(1),
            SqlType::NVarChar(Length::Max),
            SqlType::Binary(1),
            SqlType::VarBinary(Length::Max),
            SqlType::Text,
            SqlType::NText,
            SqlType::Image,
            SqlType::Xml,
            SqlType::Date,
            SqlType::Time(7),
            SqlType::DateTime,
            SqlType::SmallDateTime,
            SqlType::DateTime2(7),
            SqlType::DateTimeOffset(7),
            SqlType::UniqueIdentifier,
            SqlType::SqlVariant,
        ];
        for ty in all {
            assert_eq!(entry(ty).name, public_name(ty));
        }
        assert_eq!(ODBC.len(), all.len() + 3);
    }
}
