//! The audit log of a store that was opened: entries about keys outside the store, and the checks
//! of the whole log. Entries about the store's own keys are made where it is written.

mod database;
mod verify;

pub use database::AuditDatabase;
pub use verify::{AuditFault, AuditReport};
