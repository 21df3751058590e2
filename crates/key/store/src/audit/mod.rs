//! The audit log: for each key, what happened, when, and by whom. The format is in
//! `docs/format/audit-log.md`.

mod changes;
mod database;
mod record;
mod trail;
mod verify;

pub(crate) use changes::{certificate, changes, master_key, protector};
pub use database::AuditDatabase;
pub use record::{
    AUDIT_VERSION, AuditAction, AuditCertificate, AuditEvent, AuditKey, AuditRecord, AuditSubject,
    MAX_AUDIT_LINE_BYTES,
};
pub(crate) use trail::{Beginning, record};
pub use verify::{AuditFault, AuditReport};
