//! T-SQL on SQLite.

mod ast;
mod bind;
mod coverage;
mod error;
mod functions;
mod host;
mod lex;
mod name;
mod parse;
mod plan;
mod render;
mod run;
mod sqlite_memory;
mod sqlite_pages;
mod value;

pub use coverage::{Coverage, check_syntax, coverage};
pub use error::Error;
pub use host::*;
pub use run::session::TsqlEngine;
pub use sqlite_memory::count_sqlite_memory;
pub use value::dateparse::unix_ms;
