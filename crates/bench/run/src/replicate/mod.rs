//! Followers that ship a database's log while programs write: ours, beside Litestream, beside none.

mod archives;
#[cfg(feature = "object-stores")]
mod bucket;
mod cells;
mod followers;
mod run;
mod writers;

pub(crate) use run::run;
