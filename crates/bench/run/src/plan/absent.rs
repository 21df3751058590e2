//! The plans of experiments on SQL Server in a build without them.

use std::time::Duration;

use clap::Args;

use super::given::Given;
use crate::address::ServerUrl;
use crate::error::{BenchError, Result};
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
            Some(_) => Err(BenchError::NotBuilt { what: "clients of SQL Server" }),
            None => Ok(self.clone()),
        }
    }

    pub(crate) fn login(&self) -> Option<()> {
        None
    }
}

/// Without options.
#[derive(Debug, Clone, Args)]
pub(crate) struct MssqlPlan {
    #[arg(skip)]
    pub(crate) inject: Option<u64>,
}

impl MssqlPlan {
    pub(crate) fn filled(&self, _: Option<()>, _: &ServerOptions, _: (u32, u64)) -> Result<Self> {
        Ok(self.clone())
    }
}
