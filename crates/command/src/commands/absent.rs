//! A part that this build omits: it is refused by its name, never taken for something else.

use std::ffi::OsString;

use clap::Args;

use crate::error::CommandError;
use tdekit_console::ConsoleError;

/// Arguments of a verb that this build does not have: anything.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct AbsentArgs {
    /// What would be its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Refuses `what`, which comes with the cargo feature `feature`.
///
/// # Errors
/// `NotBuilt`, always.
pub(crate) fn refuse(what: &'static str, feature: &'static str) -> Result<(), CommandError> {
    Err(ConsoleError::NotBuilt { what, feature }.into())
}
