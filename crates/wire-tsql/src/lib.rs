//! T-SQL on SQLite.
#![allow(dead_code)]

mod ast;
mod bind;
mod catalog;
mod emit;
mod error;
mod functions;
mod host;
mod lex;
mod parse;
mod run;
mod value;

pub use error::Error;
pub use host::*;
pub use run::session::TsqlEngine;

pub(crate) use parse::parse_type;
