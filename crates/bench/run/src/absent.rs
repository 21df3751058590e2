//! The experiments on SQL Server in a build without them: each is refused by its name.

use crate::error::{BenchError, Result};
use crate::plan::Config;
use crate::schedule::{Ended, Surroundings};
use crate::tools::Tools;
use tdekit_bench_report::Results;

fn refuse<T>(what: &'static str) -> Result<T> {
    Err(BenchError::NotBuilt { what })
}

/// Messages over TDS.
pub(crate) mod messages {
    use super::*;

    pub(crate) fn run(
        _: &Config,
        _: &Tools,
        _: Surroundings<'_>,
        _: &mut Results,
    ) -> Result<Ended> {
        refuse("the experiment messages")
    }
}

/// Databases on a SQL Server.
pub(crate) mod mssql {
    use super::*;

    pub(crate) fn run(
        _: &Config,
        _: &Tools,
        _: Surroundings<'_>,
        _: &mut Results,
    ) -> Result<Ended> {
        refuse("clients of SQL Server")
    }
}
