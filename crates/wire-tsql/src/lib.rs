//! T-SQL on SQLite.

mod ast;
mod bind;
mod catalog;
mod coverage;
mod emit;
mod error;
mod functions;
mod host;
mod lex;
mod parse;
mod run;
mod value;

pub use coverage::{Coverage, check_syntax, coverage};
pub use error::Error;
pub use host::*;
pub use run::session::TsqlEngine;

pub(crate) use parse::parse_type;
