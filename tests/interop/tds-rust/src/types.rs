//! Every scalar type: a row by literals, one by parameters, one of NULLs; all are read in the same
//! way.

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime};
use tiberius::numeric::Numeric;
use tiberius::xml::XmlData;
use tiberius::{Query, Row};
use uuid::Uuid;

use crate::{Client, TEXT, batch};

/// The content of a column in this driver.
#[derive(Debug, Clone, PartialEq)]
enum Held {
    Bit(bool),
    TinyInt(u8),
    SmallInt(i16),
    Int(i32),
    BigInt(i64),
    Real(f32),
    Float(f64),
    Decimal(Numeric),
    /// The driver reads money as a floating-point number.
    Money(f64),
    Text(&'static str),
    Bytes(&'static [u8]),
    Date(NaiveDate),
    Time(NaiveTime),
    Moment(NaiveDateTime),
    Offset(DateTime<FixedOffset>),
    Guid(Uuid),
    Xml(&'static str),
}

/// A type's declaration, a literal of T-SQL, and the value that is sent and read.
struct Column {
    declaration: &'static str,
    literal: String,
    sent: Held,
    read: Held,
}

fn column(declaration: &'static str, literal: &str, held: Held) -> Column {
    padded(declaration, literal, held.clone(), held)
}

fn padded(declaration: &'static str, literal: &str, sent: Held, read: Held) -> Column {
    Column { declaration, literal: literal.to_owned(), sent, read }
}

fn moment(text: &str) -> Result<NaiveDateTime> {
    text.parse().with_context(|| format!("parse {text}"))
}

fn columns() -> Result<Vec<Column>> {
    let text = format!("N'{TEXT}'");
    let long = "1234567890123456789012345678.0123456789";
    let decimal = |unscaled, scale| Held::Decimal(Numeric::new_with_scale(unscaled, scale));
    let offset = "2024-02-29T13:14:15.1234567+05:30";
    let guid = "6F9619FF-8B86-D011-B42D-00C04FC964FF";
    let quoted = |text: &str| format!("'{text}'");
    Ok(vec![
        column("bit", "1", Held::Bit(true)),
        column("tinyint", "255", Held::TinyInt(255)),
        column("smallint", "-32768", Held::SmallInt(i16::MIN)),
        column("int", "-2147483648", Held::Int(i32::MIN)),
        column("bigint", "9223372036854775807", Held::BigInt(i64::MAX)),
        column("real", "0.25", Held::Real(0.25)),
        column("float", "1.7976931348623157E308", Held::Float(f64::MAX)),
        column("decimal(38, 10)", long, decimal(12345678901234567890123456780123456789, 10)),
        column("numeric(9, 2)", "-1234567.89", decimal(-123456789, 2)),
        padded("money", "12345678.4321", decimal(123456784321, 4), Held::Money(12345678.4321)),
        padded("smallmoney", "-214748.3648", decimal(-2147483648, 4), Held::Money(-214748.3648)),
        padded("char(8)", "'a€c'", Held::Text("a€c"), Held::Text("a€c     ")),
        column("varchar(50)", "'it''s é'", Held::Text("it's é")),
        column("varchar(max)", "'long é'", Held::Text("long é")),
        padded("nchar(4)", "N'日本'", Held::Text("日本"), Held::Text("日本  ")),
        column("nvarchar(50)", &text, Held::Text(TEXT)),
        column("nvarchar(max)", &text, Held::Text(TEXT)),
        padded("binary(4)", "0xFF00", Held::Bytes(&[255, 0]), Held::Bytes(&[255, 0, 0, 0])),
        column("varbinary(50)", "0x00FF10", Held::Bytes(&[0, 255, 16])),
        column("varbinary(max)", "0xFF0000", Held::Bytes(&[255, 0, 0])),
        column("date", "'9999-12-31'", Held::Date("9999-12-31".parse()?)),
        column("time(7)", "'23:59:59.9999999'", Held::Time("23:59:59.9999999".parse()?)),
        column(
            "datetime",
            "'1753-01-01T12:34:56.790'",
            Held::Moment(moment("1753-01-01T12:34:56.790")?),
        ),
        column(
            "smalldatetime",
            "'2079-06-06T23:59:00'",
            Held::Moment(moment("2079-06-06T23:59:00")?),
        ),
        column(
            "datetime2(7)",
            "'0001-01-01T00:00:00.0000001'",
            Held::Moment(moment("0001-01-01T00:00:00.0000001")?),
        ),
        column(
            "datetimeoffset(7)",
            &quoted(offset),
            Held::Offset(DateTime::parse_from_rfc3339(offset)?),
        ),
        column("uniqueidentifier", &quoted(guid), Held::Guid(guid.parse()?)),
        column("text", "'text é'", Held::Text("text é")),
        column("ntext", &text, Held::Text(TEXT)),
        column("image", "0x00CAFE", Held::Bytes(&[0, 0xca, 0xfe])),
        padded("xml", &text, Held::Text(TEXT), Held::Xml(TEXT)),
    ])
}

/// Writes and reads the rows.
///
/// # Errors
/// If a column is not read with its content.
pub(crate) async fn check(client: &mut Client, table: &str) -> Result<()> {
    let columns = columns()?;
    let list = |each: &dyn Fn((usize, &Column)) -> String| {
        columns.iter().enumerate().map(each).collect::<Vec<_>>().join(", ")
    };
    let definitions = list(&|(at, column)| format!("c{at} {} NULL", column.declaration));
    batch(client, &format!("CREATE TABLE {table} (id int NOT NULL PRIMARY KEY, {definitions})"))
        .await?;
    let literals = list(&|(_, column)| column.literal.clone());
    batch(client, &format!("INSERT INTO {table} VALUES (1, {literals})")).await?;
    let marks = list(&|(at, _)| format!("@P{}", at + 1));
    for id in [2, 3] {
        let mut insert = Query::new(format!("INSERT INTO {table} VALUES ({id}, {marks})"));
        for column in &columns {
            bind(&mut insert, &column.sent, id == 3);
        }
        insert.execute(client).await?;
    }
    for id in 1..=3_i32 {
        let select = format!("SELECT * FROM {table} WHERE id = @P1");
        let row = client.query(select, &[&id]).await?.into_row().await?.context("no row")?;
        for (at, column) in columns.iter().enumerate() {
            let wanted = (id != 3).then_some(&column.read);
            let same = same(&row, at + 1, &column.read, wanted.is_some());
            let what = column.declaration;
            ensure!(
                same.with_context(|| format!("{what} in row {id}"))?,
                "{what} in row {id}: {row:?}"
            );
        }
    }
    Ok(())
}

fn bind(query: &mut Query<'_>, held: &Held, null: bool) {
    match held {
        Held::Bit(value) => query.bind((!null).then_some(*value)),
        Held::TinyInt(value) => query.bind((!null).then_some(*value)),
        Held::SmallInt(value) => query.bind((!null).then_some(*value)),
        Held::Int(value) => query.bind((!null).then_some(*value)),
        Held::BigInt(value) => query.bind((!null).then_some(*value)),
        Held::Real(value) => query.bind((!null).then_some(*value)),
        Held::Float(value) | Held::Money(value) => query.bind((!null).then_some(*value)),
        Held::Decimal(value) => query.bind((!null).then_some(*value)),
        Held::Text(value) | Held::Xml(value) => query.bind((!null).then_some(*value)),
        Held::Bytes(value) => query.bind((!null).then_some(*value)),
        Held::Date(value) => query.bind((!null).then_some(*value)),
        Held::Time(value) => query.bind((!null).then_some(*value)),
        Held::Moment(value) => query.bind((!null).then_some(*value)),
        Held::Offset(value) => query.bind((!null).then_some(*value)),
        Held::Guid(value) => query.bind((!null).then_some(*value)),
    }
}

/// Returns true if the column is read as `held`, or is NULL if not `wanted`.
fn same(row: &Row, at: usize, held: &Held, wanted: bool) -> Result<bool> {
    Ok(match held {
        Held::Bit(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::TinyInt(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::SmallInt(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::Int(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::BigInt(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::Real(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::Float(value) | Held::Money(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::Decimal(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::Text(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::Bytes(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::Date(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::Time(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::Moment(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::Offset(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::Guid(value) => row.try_get(at)? == wanted.then_some(*value),
        Held::Xml(value) => {
            let found = row.try_get::<&XmlData, _>(at)?.map(ToString::to_string);
            found.as_deref() == wanted.then_some(*value)
        }
    })
}
