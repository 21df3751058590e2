//! Catalog procedures that drivers call on their own: the list of types, and the description of a
//! statement's result. Source: MS-TDS and the documentation of sp_datatype_info and
//! sp_describe_first_result_set.

use std::borrow::Cow;

use tdekit_wire_tds::{
    Collation, Column, Command, DoneKind, Flow, Generated, Length, Message, Parameter, Sink,
    SqlType, Value,
};

use crate::answer::Answer;
use crate::connection::Connection;
use crate::procedures::{optional_text_at, stops, text_at};

const SYSNAME: SqlType = SqlType::NVarChar(Length::Of(128));
const NEARLY_MAX: i32 = 2_147_483_647;

/// A type in the result of `sp_datatype_info`.
struct Listed {
    name: &'static str,
    /// ODBC number of the type, in version 3.
    odbc: i16,
    precision: i32,
    quotes: &'static str,
    parameters: &'static str,
    searchable: i16,
    unsigned: Option<i16>,
    money: i16,
    scales: Option<(i16, i16)>,
    /// The verbose type and its datetime subcode.
    verbose: (i16, Option<i16>),
    radix: Option<i32>,
}

/// A type of text, binary or others without digits.
const fn plain(
    name: &'static str,
    odbc: i16,
    precision: i32,
    quotes: &'static str,
    parameters: &'static str,
    searchable: i16,
) -> Listed {
    Listed {
        name,
        odbc,
        precision,
        quotes,
        parameters,
        searchable,
        unsigned: None,
        money: 0,
        scales: None,
        verbose: (odbc, None),
        radix: None,
    }
}

const fn number(
    name: &'static str,
    odbc: i16,
    precision: i32,
    unsigned: i16,
    scales: Option<(i16, i16)>,
    radix: i32,
) -> Listed {
    Listed {
        unsigned: Some(unsigned),
        scales,
        radix: Some(radix),
        ..plain(name, odbc, precision, "", "", 2)
    }
}

const fn moment(
    name: &'static str,
    odbc: i16,
    precision: i32,
    parameters: &'static str,
    scales: (i16, i16),
    verbose: (i16, Option<i16>),
) -> Listed {
    Listed { scales: Some(scales), verbose, ..plain(name, odbc, precision, "'", parameters, 3) }
}

const TYPES: [Listed; 33] = [
    moment("datetimeoffset", -155, 34, "scale", (0, 7), (-155, Some(0))),
    moment("time", -154, 16, "scale", (0, 7), (-154, Some(0))),
    plain("xml", -152, 0, "N'", "", 0),
    plain("sql_variant", -150, 8000, "", "", 2),
    plain("uniqueidentifier", -11, 36, "'", "", 2),
    plain("ntext", -10, 1_073_741_823, "N'", "", 1),
    plain("nvarchar", -9, 4000, "N'", "max length", 3),
    plain("sysname", -9, 128, "N'", "", 3),
    plain("nchar", -8, 4000, "N'", "length", 3),
    plain("bit", -7, 1, "", "", 2),
    number("tinyint", -6, 3, 1, Some((0, 0)), 10),
    number("bigint", -5, 19, 0, Some((0, 0)), 10),
    plain("image", -4, NEARLY_MAX, "0x", "", 0),
    plain("varbinary", -3, 8000, "0x", "max length", 2),
    plain("binary", -2, 8000, "0x", "length", 2),
    plain("timestamp", -2, 8, "0x", "", 2),
    plain("text", -1, NEARLY_MAX, "'", "", 1),
    plain("char", 1, 8000, "'", "length", 3),
    number("numeric", 2, 38, 0, Some((0, 38)), 10),
    number("decimal", 3, 38, 0, Some((0, 38)), 10),
    Listed { money: 1, ..number("money", 3, 19, 0, Some((4, 4)), 10) },
    Listed { money: 1, ..number("smallmoney", 3, 10, 0, Some((4, 4)), 10) },
    number("int", 4, 10, 0, Some((0, 0)), 10),
    number("smallint", 5, 5, 0, Some((0, 0)), 10),
    number("float", 6, 53, 0, None, 2),
    number("real", 7, 24, 0, None, 2),
    plain("varchar", 12, 8000, "'", "max length", 3),
    moment("date", 91, 10, "", (0, 0), (9, Some(1))),
    moment("datetime2", 93, 27, "scale", (0, 7), (9, Some(3))),
    moment("datetime", 93, 23, "", (3, 3), (9, Some(3))),
    moment("smalldatetime", 93, 16, "", (0, 0), (9, Some(3))),
    plain("nvarchar(max)", -9, 0, "N'", "", 3),
    plain("varchar(max)", 12, 0, "'", "", 3),
];

/// Returns the plain name of a procedure if it is one of these.
pub(crate) fn own_procedure(name: &str) -> Option<&'static str> {
    let plain: String = name.chars().filter(|char| !matches!(char, '[' | ']')).collect();
    let last = plain.rsplit('.').next().unwrap_or_default();
    ["sp_datatype_info", "sp_datatype_info_90", "sp_datatype_info_100", DESCRIBE, RESET]
        .into_iter()
        .find(|own| own.eq_ignore_ascii_case(last))
}

const DESCRIBE: &str = "sp_describe_first_result_set";
/// Does what a request's status bit `RESETCONNECTION` does: pools of clients that cannot set the
/// bit call it.
const RESET: &str = "sp_reset_connection";

fn column(name: &str, ty: SqlType, nullable: bool) -> Column {
    Column {
        name: name.to_owned(),
        ty,
        nullable,
        generated: Generated::No,
        collation: Collation::default(),
    }
}

fn text(text: &str) -> Value<'_> {
    match text {
        "" => Value::Null,
        text => Value::Text(Cow::Borrowed(text)),
    }
}

fn small(value: Option<i16>) -> Value<'static> {
    value.map_or(Value::Null, |value| Value::Int(value.into()))
}

impl Connection {
    /// Calls one of the procedures that [`own_procedure`] knows.
    pub(crate) fn catalog_call(
        &mut self,
        name: &'static str,
        parameters: &[Parameter],
        answer: &mut Answer,
    ) -> Result<(), Message> {
        match name {
            DESCRIBE => self.describe_first(parameters, answer),
            RESET => {
                self.forget_handles();
                self.with_session(|session| session.reset(false, answer));
                Ok(())
            }
            _ => {
                let asked = match parameters.first().map(|parameter| &parameter.value) {
                    Some(Value::Int(asked)) => *asked,
                    _ => 0,
                };
                list_types(asked, answer);
                Ok(())
            }
        }
    }

    fn describe_first(
        &mut self,
        parameters: &[Parameter],
        answer: &mut Answer,
    ) -> Result<(), Message> {
        let statement = text_at(parameters, 0, DESCRIBE, "@tsql")?;
        let declarations = optional_text_at(parameters, 1, DESCRIBE, "@params")?;
        let described = self.with_session(|session| session.describe(statement, declarations));
        let columns = described.transpose()?.unwrap_or_default().columns;
        put_described(&columns, answer);
        Ok(())
    }
}

fn list_types(asked: i64, answer: &mut Answer) {
    let (short, int) = (SqlType::SmallInt, SqlType::Int);
    let affix = SqlType::VarChar(Length::Of(32));
    let columns = [
        column("TYPE_NAME", SYSNAME, false),
        column("DATA_TYPE", short, false),
        column("PRECISION", int, true),
        column("LITERAL_PREFIX", affix, true),
        column("LITERAL_SUFFIX", affix, true),
        column("CREATE_PARAMS", affix, true),
        column("NULLABLE", short, false),
        column("CASE_SENSITIVE", short, false),
        column("SEARCHABLE", short, false),
        column("UNSIGNED_ATTRIBUTE", short, true),
        column("MONEY", short, false),
        column("AUTO_INCREMENT", short, true),
        column("LOCAL_TYPE_NAME", SYSNAME, true),
        column("MINIMUM_SCALE", short, true),
        column("MAXIMUM_SCALE", short, true),
        column("SQL_DATA_TYPE", short, false),
        column("SQL_DATETIME_SUB", short, true),
        column("NUM_PREC_RADIX", int, true),
        column("INTERVAL_PRECISION", short, true),
        column("USERTYPE", short, true),
    ];
    if stops(answer.columns(&columns)) {
        return;
    }
    let mut count = 0;
    let fits = |listed: &&Listed| asked == 0 || asked == i64::from(listed.odbc);
    for listed in TYPES.iter().filter(fits) {
        if stops(put_type(listed, answer)) {
            return;
        }
        count += 1;
    }
    let _flow = answer.done(DoneKind::InProcedure, Command::SELECT, Some(count));
}

fn put_type(listed: &Listed, answer: &mut Answer) -> Flow {
    let suffix = if listed.quotes.ends_with('\'') { "'" } else { "" };
    let increments = listed.unsigned.map(|_| 0);
    answer.row(&[
        text(listed.name),
        Value::Int(listed.odbc.into()),
        Value::Int(listed.precision.into()),
        text(listed.quotes),
        text(suffix),
        text(listed.parameters),
        Value::Int(1),
        Value::Int(0),
        Value::Int(listed.searchable.into()),
        small(listed.unsigned),
        Value::Int(listed.money.into()),
        small(increments),
        text(listed.name),
        small(listed.scales.map(|scales| scales.0)),
        small(listed.scales.map(|scales| scales.1)),
        Value::Int(listed.verbose.0.into()),
        small(listed.verbose.1),
        listed.radix.map_or(Value::Null, |radix| Value::Int(radix.into())),
        Value::Null,
        Value::Int(0),
    ])
}

/// The columns of a description that are meaningful for a static result.
fn put_described(columns: &[Column], answer: &mut Answer) {
    let (bit, int) = (SqlType::Bit, SqlType::Int);
    let shape = [
        column("is_hidden", bit, false),
        column("column_ordinal", int, false),
        column("name", SYSNAME, true),
        column("is_nullable", bit, false),
        column("system_type_id", int, false),
        column("system_type_name", SqlType::NVarChar(Length::Of(256)), true),
        column("max_length", SqlType::SmallInt, false),
        column("precision", SqlType::TinyInt, false),
        column("scale", SqlType::TinyInt, false),
        column("is_identity_column", bit, true),
    ];
    if stops(answer.columns(&shape)) {
        return;
    }
    let mut ordinal = 0;
    for each in columns {
        ordinal += 1;
        let (id, name, length, precision, scale) = facts(each.ty);
        let row = [
            Value::Bit(false),
            Value::Int(ordinal),
            text(&each.name),
            Value::Bit(each.nullable),
            Value::Int(id),
            Value::Text(Cow::Owned(name)),
            Value::Int(length),
            Value::Int(precision),
            Value::Int(scale),
            Value::Bit(each.generated == Generated::Identity),
        ];
        if stops(answer.row(&row)) {
            return;
        }
    }
    let rows = u64::try_from(ordinal).unwrap_or_default();
    let _flow = answer.done(DoneKind::InProcedure, Command::SELECT, Some(rows));
}

/// Returns the name of a type without its length.
pub(crate) fn base_name(ty: SqlType) -> String {
    let (_, name, ..) = facts(ty);
    name.split('(').next().unwrap_or_default().to_owned()
}

/// Returns `system_type_id`, the type as written, `max_length` in bytes, precision, scale.
fn facts(ty: SqlType) -> (i64, String, i64, i64, i64) {
    let plain =
        |id, name: &str, length, precision, scale| (id, name.to_owned(), length, precision, scale);
    let long = |id, name: &str, length: Length, unit_bytes: i64| match length {
        Length::Max => (id, format!("{name}(max)"), -1, 0, 0),
        Length::Of(most) => (id, format!("{name}({most})"), i64::from(most) * unit_bytes, 0, 0),
    };
    let timed = |id, name: &str, scale: u8, [two, four, seven]: [i64; 3], digits: i64| {
        let length = match scale {
            0..=2 => two,
            3..=4 => four,
            _ => seven,
        };
        let point = i64::from(scale > 0);
        let scale = i64::from(scale);
        (id, format!("{name}({scale})"), length, digits + point + scale, scale)
    };
    match ty {
        SqlType::Bit => plain(104, "bit", 1, 1, 0),
        SqlType::TinyInt => plain(48, "tinyint", 1, 3, 0),
        SqlType::SmallInt => plain(52, "smallint", 2, 5, 0),
        SqlType::Int => plain(56, "int", 4, 10, 0),
        SqlType::BigInt => plain(127, "bigint", 8, 19, 0),
        SqlType::Real => plain(59, "real", 4, 24, 0),
        SqlType::Float => plain(62, "float", 8, 53, 0),
        SqlType::Money => plain(60, "money", 8, 19, 4),
        SqlType::SmallMoney => plain(122, "smallmoney", 4, 10, 4),
        SqlType::Decimal { precision, scale } => {
            let length = match precision {
                0..=9 => 5,
                10..=19 => 9,
                20..=28 => 13,
                _ => 17,
            };
            let name = format!("decimal({precision},{scale})");
            (106, name, length, precision.into(), scale.into())
        }
        SqlType::Char(length) => long(175, "char", Length::Of(length), 1),
        SqlType::VarChar(length) => long(167, "varchar", length, 1),
        SqlType::NChar(length) => long(239, "nchar", Length::Of(length), 2),
        SqlType::NVarChar(length) => long(231, "nvarchar", length, 2),
        SqlType::Binary(length) => long(173, "binary", Length::Of(length), 1),
        SqlType::VarBinary(length) => long(165, "varbinary", length, 1),
        SqlType::Text => plain(35, "text", 16, 0, 0),
        SqlType::NText => plain(99, "ntext", 16, 0, 0),
        SqlType::Image => plain(34, "image", 16, 0, 0),
        SqlType::Xml => plain(241, "xml", -1, 0, 0),
        SqlType::Date => plain(40, "date", 3, 10, 0),
        SqlType::DateTime => plain(61, "datetime", 8, 23, 3),
        SqlType::SmallDateTime => plain(58, "smalldatetime", 4, 16, 0),
        SqlType::Time(scale) => timed(41, "time", scale, [3, 4, 5], 8),
        SqlType::DateTime2(scale) => timed(42, "datetime2", scale, [6, 7, 8], 19),
        SqlType::DateTimeOffset(scale) => timed(43, "datetimeoffset", scale, [8, 9, 10], 26),
        SqlType::UniqueIdentifier => plain(36, "uniqueidentifier", 16, 0, 0),
        SqlType::SqlVariant => plain(98, "sql_variant", 8016, 0, 0),
    }
}
