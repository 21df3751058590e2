//! Seeds for the targets of the TDS endpoint and of T-SQL.

use std::borrow::Cow;
use std::sync::Arc;

use tdekit_wire_tds::bulk::encode_bulk;
use tdekit_wire_tds::login::{Login, TDS_7_4};
use tdekit_wire_tds::packet::{PacketKind, Packetizer};
use tdekit_wire_tds::prelogin::{Encryption, encode_client};
use tdekit_wire_tds::request::{encode_batch, encode_transaction};
use tdekit_wire_tds::rpc::{KnownProcedure, Procedure, encode_rpc};
use tdekit_wire_tds::table::{TableColumn, TableValue};
use tdekit_wire_tds::{Column, Generated, Length, Parameter, SqlType, Value, Variant};

use crate::seeds::Seed;

/// Statements of every kind, whose neighbours are reached by small changes.
const STATEMENTS: &[&str] = &[
    "SELECT DISTINCT TOP (5) WITH TIES a, x = COUNT(*) OVER (PARTITION BY b ORDER BY a) FROM t \
     AS u LEFT JOIN t ON t.a = u.a WHERE u.b LIKE N'x[a-c]%' ESCAPE '!' AND u.a NOT IN (1, \
     2.5, $3, 0x04) GROUP BY a HAVING MAX(c) > 1e3 ORDER BY 1 DESC OPTION (RECOMPILE)",
    "WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT CASE i WHEN 1 \
     THEN CAST(i AS varchar(5)) ELSE CONVERT(char(8), GETDATE(), 112) END FROM n ORDER BY i \
     OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY",
    "INSERT INTO t (b, c) OUTPUT inserted.a SELECT b, DATEDIFF(day, d, '2024-01-01') FROM t",
    "UPDATE t SET @p = a, b += N'y' OUTPUT deleted.b, inserted.* WHERE d BETWEEN '2024' AND @q",
    "DECLARE @x TABLE (k int PRIMARY KEY); BEGIN TRY DELETE TOP (3) u FROM t AS u JOIN @x ON k \
     = a; THROW 50000, 'x', 1; END TRY BEGIN CATCH IF @@TRANCOUNT > 0 ROLLBACK; \
     RAISERROR('%d', 16, 1, 5); END CATCH WHILE 1 = 1 BREAK",
    "CREATE PROCEDURE p @a int = 5, @b nvarchar(max) OUTPUT AS EXEC @r = dbo.q @x = @a, @y = \
     @b OUT",
    "SELECT t.a, x.p, y.v, z.n FROM t CROSS APPLY f(t.a) AS x OUTER APPLY (SELECT TOP 1 u.b AS v \
     FROM t AS u WHERE u.a > t.a ORDER BY u.c) AS y CROSS APPLY (VALUES (t.b), (x.x)) AS z (n)",
    "CREATE FUNCTION g (@a al, @b int = 2) RETURNS TABLE WITH SCHEMABINDING AS RETURN (SELECT \
     f.p + @b AS s FROM dbo.f(DEFAULT) AS f WHERE @a LIKE 'x%')",
    "CREATE FUNCTION h (@a decimal(9, 2), @b int = 2) RETURNS varchar(20) WITH RETURNS NULL ON \
     NULL INPUT AS BEGIN DECLARE @n int = 0; WHILE @n < @b BEGIN SET @n += 1; IF @n = 5 BREAK END; \
     SELECT @a = @a + @n, @b -= 1; RETURN dbo.h(@a, DEFAULT) END",
    "SELECT dbo.sf(t.a, DEFAULT), [dbo].[sf](@p, t.a) FROM t WHERE dbo.sf(1, 2) = \
     dbo.sf(dbo.sf(a, 1), 0)",
    "SELECT d AT TIME ZONE 'UTC', GETDATE() AT TIME ZONE @q FROM t WHERE -a COLLATE x AT TIME \
     ZONE b > 1",
    "CREATE TYPE y AS TABLE (a int IDENTITY(1, 2) PRIMARY KEY, b al UNIQUE, c AS a + 1, d int \
     DEFAULT 5 CHECK (d > 0))",
    "@t dbo.ty READONLY, @a al = 'x', @b int OUTPUT",
    "INSERT BULK t (b nvarchar(20) COLLATE SQL_Latin1_General_CP1_CI_AS) WITH (KEEP_NULLS, \
     ORDER(b))",
    "BACKUP DATABASE d TO DISK = 'f' WITH COMPRESSION, ENCRYPTION (ALGORITHM = AES_256, SERVER \
     CERTIFICATE = c), STATS = 10 /* and /* comments */ */ -- of both kinds",
];

/// The messages of a well-meaning client.
pub(crate) fn seeds() -> Vec<Seed> {
    let mut packets = Vec::new();
    let mut packetizer = Packetizer::new(PacketKind::PreLogin, 0, 512);
    packetizer.put_all(&mut packets, &encode_client(Encryption::On), true);
    let mut packetizer = Packetizer::new(PacketKind::Batch, 0, 512);
    packetizer.put_all(&mut packets, &encode_batch(&"SELECT 1 ".repeat(100)), true);
    let named = Procedure::Named("dbo.mine".to_owned());
    let known = Procedure::Known(KnownProcedure::ExecuteSql);
    let statements = STATEMENTS.iter().map(|text| ("tsql", text.as_bytes().to_vec()));
    let messages = vec![
        ("tds_packet", packets),
        ("tds_packet", encode_client(Encryption::Required)),
        ("tds_login", login()),
        ("tds_rpc", encode_rpc(&known, &parameters()).unwrap()),
        ("tds_rpc", encode_rpc(&named, &[]).unwrap()),
        ("tds_rpc", encode_transaction(7, &[0, 1, 4, 0])),
        ("tds_token", load()),
    ];
    messages.into_iter().chain(statements).collect()
}

fn login() -> Vec<u8> {
    let login = Login {
        version: TDS_7_4,
        packet_bytes: 4096,
        host: "host".to_owned(),
        user: "sa".to_owned(),
        password: "password".to_owned().into(),
        application: "program".to_owned(),
        server: "localhost".to_owned(),
        library: "library".to_owned(),
        language: String::new(),
        database: "sales".to_owned(),
        integrated: false,
        change_password: false,
        features: Vec::new(),
    };
    login.encode()
}

fn values() -> Vec<(SqlType, Value<'static>)> {
    let variant = Variant { ty: SqlType::Int, value: Value::Int(3) };
    vec![
        (SqlType::NVarChar(Length::Max), Value::Text(Cow::Borrowed("SELECT @a"))),
        (SqlType::Int, Value::Int(7)),
        (SqlType::Decimal { precision: 20, scale: 4 }, Value::Decimal { unscaled: -7, scale: 4 }),
        (SqlType::VarChar(Length::Of(10)), Value::Text(Cow::Borrowed("text"))),
        (SqlType::VarBinary(Length::Of(10)), Value::Null),
        (SqlType::DateTimeOffset(7), Value::DateTimeOffset { days: 1, ticks: 2, offset_min: 3 }),
        (SqlType::SqlVariant, Value::Variant(Box::new(variant))),
    ]
}

fn parameters() -> Vec<Parameter> {
    let parameter = |(ty, value)| {
        let (name, output, default) = ("@a".to_owned(), true, false);
        Parameter { name, ty, value, output, default, table: None }
    };
    let mut all: Vec<Parameter> = values().into_iter().map(parameter).collect();
    let (types, row): (Vec<_>, Vec<_>) = values().into_iter().unzip();
    let mut columns: Vec<_> =
        types.into_iter().map(|ty| TableColumn::new(ty, false).unwrap()).collect();
    columns.push(TableColumn::new(SqlType::Date, true).unwrap());
    let nulls = vec![Value::Null; row.len()];
    let table = TableValue::new(("dbo", "list"), columns, &[row, nulls]).unwrap();
    let (ty, value) = (SqlType::SqlVariant, Value::Null);
    let (name, output, default) = ("@t".to_owned(), false, false);
    all.push(Parameter { name, ty, value, output, default, table: Some(Arc::new(table)) });
    all
}

/// The columns and rows of a bulk load, which are also those of an answer.
fn load() -> Vec<u8> {
    let column = |ty| Column {
        name: "a".to_owned(),
        ty,
        nullable: true,
        generated: Generated::No,
        collation: tdekit_wire_tds::Collation::default(),
    };
    let (types, row): (Vec<_>, Vec<_>) = values().into_iter().unzip();
    let columns: Vec<_> = types.into_iter().map(column).collect();
    let nulls = vec![Value::Null; row.len()];
    encode_bulk(&columns, &[row, nulls]).unwrap()
}
