//! What tdekit's programs share at a terminal: the arguments that name and open a key store,
//! prompts for secrets, output, what is printed of an error, and the exit code of each.
//!
//! `tdekit` and `tdekit-serve` are built of it. It holds no verb but for the arguments of `serve`,
//! which `tdekit` shows and completes, and `tdekit-serve` carries out.

mod error;
mod global;
pub mod harden;
mod hint;
pub mod key_service;
pub mod output;
pub mod serve;
pub mod session;
pub mod table;

pub use error::{ConsoleError, Exit, Failure, report};
pub use global::GlobalArgs;
pub use hint::store_hint;
pub use table::Fit;
