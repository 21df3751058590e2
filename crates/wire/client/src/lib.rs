//! A client of SQL Server's protocol that drains answers, for the bench and for tests: it counts
//! packets and bytes, looks at how an answer ends, and parses rows only where it is asked for them.
//! Its own cost is what reading and, where there is TLS, decrypting cost, so what it sees is the
//! wire's share.
//!
//! It shares no code with the endpoint: nobody would see a fault that both share.
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

/// The packet size until another is agreed on.
pub const DEFAULT_PACKET_BYTES: u16 = 4096;

/// How a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing but the login, where the server can.
    Off,
    /// TLS within PRELOGIN.
    On,
    /// TDS 8.0: TLS before all else.
    Strict,
}

impl Mode {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Strict => "strict",
        }
    }
}
