//! A TDS endpoint: it listens, handles TLS, checks logins, and passes requests to an interpreter.
//!
//! Idle connections wait in one thread and need no thread of their own; requests run on a pool of
//! workers, which write their answers themselves. The invariants are in `docs/wire.md`.

mod allocator;
mod answer;
mod bulk;
mod catalog;
mod channel;
mod config;
mod connection;
mod cursors;
mod error;
mod guard;
mod handshake;
mod login;
mod login_file;
mod logins;
mod pool;
mod prepared;
mod procedures;
mod requests;
mod server;
mod sessions;
mod spids;
mod ticker;
mod tls;

pub use config::{Config, Limits, Mode};
pub use error::EndpointError;
pub use login_file::LoginFile;
pub use logins::{LoginFacts, Logins};
pub use server::Endpoint;
pub use sessions::{ConnectionFacts, Sessions, Touches};
pub use tls::{IdentityFiles, ensure_own_identity};
