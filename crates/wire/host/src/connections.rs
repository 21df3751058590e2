//! `sys.dm_exec_connections`: the connections of all sessions, as the endpoint knows them.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use tdekit_wire_endpoint::ConnectionFacts;
use tdekit_wire_tds::{Length, SqlType, Value};
use tdekit_wire_tsql::Rows;

use super::rows::{DATETIME, GUID, INT, Named, datetime, int, maybe, rows, string, text};

/// SQL Server's columns, then the TLS protocol and suite, which SQL Server does not have.
const CONNECTIONS: &[(&str, SqlType)] = &[
    ("session_id", INT),
    ("most_recent_session_id", INT),
    ("connect_time", DATETIME),
    ("net_transport", text(40)),
    ("protocol_type", text(40)),
    ("protocol_version", INT),
    ("endpoint_id", INT),
    ("encrypt_option", text(40)),
    ("auth_scheme", text(40)),
    ("node_affinity", SqlType::SmallInt),
    ("num_reads", INT),
    ("num_writes", INT),
    ("last_read", DATETIME),
    ("last_write", DATETIME),
    ("net_packet_size", INT),
    ("client_net_address", SqlType::VarChar(Length::Of(48))),
    ("client_tcp_port", INT),
    ("local_net_address", SqlType::VarChar(Length::Of(48))),
    ("local_tcp_port", INT),
    ("connection_id", GUID),
    ("parent_connection_id", GUID),
    ("most_recent_sql_handle", SqlType::VarBinary(Length::Of(64))),
    ("tls_protocol", text(40)),
    ("tls_cipher_suite", text(128)),
];

/// Returns the rows of `connections`.
pub(crate) fn connections(connections: &[ConnectionFacts]) -> Rows {
    rows(CONNECTIONS, connections.iter().map(row).collect())
}

fn row(facts: &ConnectionFacts) -> Named {
    let caller = &facts.caller;
    let address = |address: IpAddr| string(address.to_canonical().to_string());
    vec![
        ("session_id", int(caller.spid)),
        ("most_recent_session_id", int(caller.spid)),
        ("connect_time", moment(facts.connected)),
        ("net_transport", string("TCP")),
        ("protocol_type", string("TSQL")),
        ("protocol_version", int(facts.tds_version)),
        ("endpoint_id", int(4)),
        ("encrypt_option", string(if caller.encrypted { "TRUE" } else { "FALSE" })),
        ("auth_scheme", string("SQL")),
        ("node_affinity", int(0)),
        ("num_reads", count(facts.reads.count)),
        ("num_writes", count(facts.writes.count)),
        ("last_read", moment(facts.reads.last)),
        ("last_write", moment(facts.writes.last)),
        ("net_packet_size", int(facts.packet_bytes)),
        ("client_net_address", address(facts.client.ip())),
        ("client_tcp_port", int(facts.client.port())),
        ("local_net_address", address(facts.server.ip())),
        ("local_tcp_port", int(facts.server.port())),
        ("tls_protocol", maybe(caller.tls_protocol)),
        ("tls_cipher_suite", maybe(caller.tls_cipher_suite)),
    ]
}

/// Makes a count in an `int` column.
fn count(number: u64) -> Value<'static> {
    int(i32::try_from(number).unwrap_or(i32::MAX))
}

fn moment(at: SystemTime) -> Value<'static> {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    datetime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
