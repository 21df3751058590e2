//! Common parts of tdekit's programs at a terminal: the arguments that name and open a key store,
//! prompts for secrets, output, error messages, and exit codes.
//!
//! `tdekit` and `tdekit-serve` are based on it. It contains no verbs except for the arguments of
//! `serve`, which `tdekit` shows and completes, and `tdekit-serve` executes.

mod error;
mod global;
pub mod harden;
mod hint;
pub mod key_service;
pub mod output;
mod prompt;
pub mod serve;
pub mod session;
pub mod storage;

pub use error::{ConsoleError, Exit, Failure, report};
pub use global::GlobalArgs;
pub use hint::store_hint;
pub use prompt::leave_prompt;
pub use tdekit_columns::{self as table, Fit};
