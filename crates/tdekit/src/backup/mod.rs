//! What the commands on backups share: places, keys, what a restored file becomes, the history.

pub(crate) mod choose;
pub(crate) mod downgrade;
pub(crate) mod error;
pub(crate) mod history;
pub(crate) mod inherit;
pub(crate) mod input;
pub(crate) mod keys;
pub(crate) mod labels;
pub(crate) mod place;
pub(crate) mod progress;
mod publish;
pub(crate) mod report;
pub(crate) mod signature;
pub(crate) mod sink;
pub(crate) mod source;
pub(crate) mod stream;
pub(crate) mod value;

pub(crate) use publish::destination;
