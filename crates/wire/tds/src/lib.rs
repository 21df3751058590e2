//! SQL Server's wire protocol (MS-TDS 7.3 to 8.0), as bytes: packets, tokens, types, requests.
//!
//! Nothing here opens a file or a socket. Every length from a client is checked before memory is
//! allocated; no input from it makes this package panic.

pub mod answer;
pub mod bulk;
pub mod code_page;
mod collation;
mod error;
pub mod login;
pub mod memory;
pub mod messages;
pub mod packet;
pub mod prelogin;
pub mod product;
mod reader;
pub mod request;
pub mod rpc;
mod sink;
pub mod table;
pub mod token;
mod type_info;
mod types;
mod value_read;
mod value_write;

pub use collation::Collation;
pub use error::Error;
pub use sink::{
    Caller, Command, Description, DoneKind, Engine, EnvChange, Flow, Isolation, Session, Sink,
    Stall, Transaction,
};
pub use type_info::put_type_info;
pub use types::{
    Column, DATETIME_TICKS_PER_DAY, Generated, Length, MAX_PRECISION, MAX_SHORT_BYTES,
    MAX_SHORT_UNITS, MAX_TIME_SCALE, Message, Parameter, SqlType, TICKS_PER_DAY, Value, Variant,
};
pub use value_write::put_value;
