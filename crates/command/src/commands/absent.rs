//! Parts that a build may leave out: each is refused by its name, never taken for something else.
#![cfg_attr(
    all(feature = "endpoint", feature = "key-services", feature = "mariadb"),
    allow(dead_code)
)]

use std::ffi::OsString;

use clap::Args;

use crate::error::CommandError;

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
    Err(CommandError::NotBuilt { what, feature })
}
