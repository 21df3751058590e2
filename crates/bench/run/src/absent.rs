//! The experiments on SQL Server in a build without them: each is refused by its name.

use clap::Args;

use crate::config::Config;
use crate::error::{BenchError, Result};
use crate::schedule::{Ended, Surroundings};
use crate::tools::Tools;
use tdekit_bench_report::Results;

fn refuse<T>(what: &'static str) -> Result<T> {
    Err(BenchError::NotBuilt { what })
}

/// Messages over TDS.
pub(crate) mod messages {
    use std::time::Duration;

    use super::*;
    use crate::address::ServerUrl;
    use crate::config::Given;
    use crate::server_options::ServerOptions;

    /// Without options.
    #[derive(Debug, Clone, Args)]
    pub(crate) struct MessagesPlan {
        #[arg(skip)]
        pub(crate) max_time: Duration,
    }

    impl MessagesPlan {
        pub(crate) fn filled(
            &self,
            _: &Given,
            url: Option<&ServerUrl>,
            _: &ServerOptions,
        ) -> Result<Self> {
            match url {
                Some(_) => refuse("clients of SQL Server"),
                None => Ok(self.clone()),
            }
        }

        pub(crate) fn login(&self) -> Option<()> {
            None
        }
    }

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
    use crate::server_options::ServerOptions;

    /// Without options.
    #[derive(Debug, Clone, Args)]
    pub(crate) struct MssqlPlan {
        #[arg(skip)]
        pub(crate) inject: Option<u64>,
    }

    impl MssqlPlan {
        pub(crate) fn filled(
            &self,
            _: Option<()>,
            _: &ServerOptions,
            _: (u32, u64),
        ) -> Result<Self> {
            Ok(self.clone())
        }
    }

    pub(crate) fn run(
        _: &Config,
        _: &Tools,
        _: Surroundings<'_>,
        _: &mut Results,
    ) -> Result<Ended> {
        refuse("clients of SQL Server")
    }
}
