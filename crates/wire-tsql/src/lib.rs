//! T-SQL on SQLite.
#![allow(dead_code)]

mod ast;
mod error;
mod host;
mod lex;
mod parse;
mod value;

pub use error::Error;
pub use host::*;

pub(crate) use parse::parse_type;
