//! Overview of all databases: data known without opening them, judged by rules, and its output.

pub(crate) mod cost;
pub(crate) mod estate;
pub(crate) mod metrics;
pub(crate) mod page;
pub(crate) mod rules;
pub(crate) mod servers;
pub(crate) mod text;
