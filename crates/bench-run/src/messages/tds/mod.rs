//! A client of SQL Server's protocol that drains answers: it counts packets and bytes, looks at how
//! an answer ends, and never parses a row. Its own cost is what reading and, where there is TLS,
//! decrypting cost, so what it sees is the wire's share.
//!
//! Source: MS-TDS 2.2 (packets, PRELOGIN, LOGIN7, tokens), 3.2.5 (order).

mod calls;
mod channel;
mod connection;
mod drain;
mod frames;
#[cfg(test)]
mod server_double;
mod tls;
mod tokens;

pub(super) use connection::{Connection, Dialer, Drained, Login};
pub(super) use tls::Trust;

/// The packet size until another is agreed on.
pub(super) const DEFAULT_PACKET_BYTES: u16 = 4096;
