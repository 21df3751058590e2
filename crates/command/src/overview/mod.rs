//! The estate in one look: what is known of databases without opening them, judged by rules, and
//! how it is shown.

pub(crate) mod cost;
pub(crate) mod estate;
pub(crate) mod metrics;
pub(crate) mod page;
pub(crate) mod rules;
pub(crate) mod text;
