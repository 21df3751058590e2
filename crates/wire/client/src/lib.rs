//! A client of SQL Server's protocol that drains answers, for the bench and for tests: it counts
//! packets and bytes, checks how an answer ends, and parses rows only on request. Its own cost is
//! that of reading and, with TLS, decrypting, so it measures the wire's share.
//!
//! It shares no code with the endpoint: a fault in shared code would go unnoticed.
//!
//! Source: MS-TDS 2.2 (packets, PRELOGIN, LOGIN7, tokens), 3.2.5 (order).

mod calls;
mod channel;
mod connection;
mod drain;
mod error;
mod frames;
#[cfg(test)]
mod server_double;
mod table;
mod tls;
mod tokens;

pub use connection::{Connection, Dialer, Drained, Login};
pub use error::TdsError;
pub use table::{Answer, Value};
pub use tls::{Negotiated, Offer, Trust, handshake_within};

/// The packet size until another is negotiated.
pub const DEFAULT_PACKET_BYTES: u16 = 4096;

/// Encryption of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Only the login, if the server can.
    Off,
    /// TLS within PRELOGIN.
    On,
    /// TDS 8.0: TLS before everything else.
    Strict,
}

impl Mode {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Strict => "strict",
        }
    }
}
