//! Seeds for the targets of the TDS endpoint.

use std::borrow::Cow;

use tdekit_wire_tds::bulk::encode_bulk;
use tdekit_wire_tds::login::{Login, TDS_7_4};
use tdekit_wire_tds::packet::{PacketKind, Packetizer};
use tdekit_wire_tds::prelogin::{Encryption, encode_client};
use tdekit_wire_tds::request::{encode_batch, encode_transaction};
use tdekit_wire_tds::rpc::{KnownProcedure, Procedure, encode_rpc};
use tdekit_wire_tds::{Column, Length, Parameter, SqlType, Value, Variant};

use crate::seeds::Seed;

/// What a client sends that means well.
pub(crate) fn seeds() -> Vec<Seed> {
    let mut packets = Vec::new();
    let mut packetizer = Packetizer::new(PacketKind::PreLogin, 0, 512);
    packetizer.put_all(&mut packets, &encode_client(Encryption::On), true);
    let mut packetizer = Packetizer::new(PacketKind::Batch, 0, 512);
    packetizer.put_all(&mut packets, &encode_batch(&"SELECT 1 ".repeat(100)), true);
    let named = Procedure::Named("dbo.mine".to_owned());
    let known = Procedure::Known(KnownProcedure::ExecuteSql);
    vec![
        ("tds_packet", packets),
        ("tds_packet", encode_client(Encryption::Required)),
        ("tds_login", login()),
        ("tds_rpc", encode_rpc(&known, &parameters()).unwrap()),
        ("tds_rpc", encode_rpc(&named, &[]).unwrap()),
        ("tds_rpc", encode_transaction(7, &[0, 1, 4, 0])),
        ("tds_token", load()),
    ]
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
    let parameter =
        |(ty, value)| Parameter { name: "@a".to_owned(), ty, value, output: true, default: false };
    values().into_iter().map(parameter).collect()
}

/// The columns and rows of a bulk load, which are those of an answer too.
fn load() -> Vec<u8> {
    let column = |ty| Column { name: "a".to_owned(), ty, nullable: true, identity: false };
    let (types, row): (Vec<_>, Vec<_>) = values().into_iter().unzip();
    let columns: Vec<_> = types.into_iter().map(column).collect();
    let nulls = vec![Value::Null; row.len()];
    encode_bulk(&columns, &[row, nulls]).unwrap()
}
