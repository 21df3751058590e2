//! The audit log: for each key, what happened, when, and by whom. The format is in
//! `docs/format/audit-log.md`.

mod changes;
mod record;
mod trail;

pub(crate) use changes::{certificate, changes, master_key, protector};
pub(crate) use record::Line;
pub use record::{
    AUDIT_VERSION, AuditAction, AuditCertificate, AuditEvent, AuditKey, AuditRecord, AuditSubject,
    MAX_AUDIT_LINE_BYTES,
};
pub(crate) use trail::{Beginning, read_segment, record, segments, whole_lines};
