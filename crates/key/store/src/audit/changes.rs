//! Derives the log entries of a write from the store before and after it, so that no change can be
//! written without its entry.

use std::collections::BTreeMap;

use tdekit_key_crypto::{sha1_thumbprint, sha256};

use super::record::{AuditAction, AuditEvent, AuditSubject};
use crate::file::{CertificateRecord, Protector, StoreFile};
use crate::wrapped::thumbprint;

/// The entries of a change. `before` is `None` for a new store.
pub(crate) fn changes(before: Option<&StoreFile>, after: &StoreFile) -> Vec<AuditEvent> {
    let mut events = Vec::new();
    let new_key = before.map(|before| before.master_key.id) != Some(after.master_key.id);
    if new_key {
        let action = if before.is_some() { AuditAction::Rotated } else { AuditAction::Created };
        events.push(master_key(action, after));
    }
    let protectors_before = before.map_or(&[][..], |before| &before.master_key.protectors);
    let protectors_after = &after.master_key.protectors[..];
    let missing_in = |there: &[Protector], one: &Protector| there.iter().all(|it| it.id != one.id);
    for one in protectors_after.iter().filter(|one| missing_in(protectors_before, one)) {
        events.push(protector(AuditAction::Added, one));
    }
    for one in protectors_before.iter().filter(|one| missing_in(protectors_after, one)) {
        events.push(protector(AuditAction::Removed, one));
    }
    let old = by_digest(before.map_or(&[][..], |before| &before.certificates));
    let new = by_digest(&after.certificates);
    for (digest, record) in &new {
        events.extend(certificate_change(old.get(digest).copied(), record));
    }
    for (_, record) in old.iter().filter(|(digest, _)| !new.contains_key(*digest)) {
        events.push(certificate(AuditAction::Removed, record));
    }
    events
}

/// An entry about the master key of a store.
pub(crate) fn master_key(action: AuditAction, file: &StoreFile) -> AuditEvent {
    let id = hex::encode(file.master_key.id);
    AuditEvent { action, subject: AuditSubject::MasterKey, id, name: String::new(), key: None }
}

/// An entry about a protector of a store.
pub(crate) fn protector(action: AuditAction, protector: &Protector) -> AuditEvent {
    let (id, name) = (hex::encode(protector.id), protector.kind.to_string());
    AuditEvent { action, subject: AuditSubject::Protector, id, name, key: None }
}

/// An entry about a certificate.
pub(crate) fn certificate(action: AuditAction, record: &CertificateRecord) -> AuditEvent {
    let (id, name) = (thumbprint(&sha1_thumbprint(&record.der)), record.name.clone());
    AuditEvent { action, subject: AuditSubject::Certificate, id, name, key: None }
}

fn certificate_change(
    old: Option<&CertificateRecord>,
    new: &CertificateRecord,
) -> Option<AuditEvent> {
    let has_key = new.sealed_private_key.is_some();
    let action = match old {
        None if new.generation > 1 => AuditAction::Rotated,
        // A certificate that was made here is not in a backup yet.
        None if has_key && new.backed_up_at.is_none() => AuditAction::Created,
        None => AuditAction::Imported,
        Some(old) if old.sealed_private_key.is_none() && has_key => AuditAction::Imported,
        Some(old) if old.backed_up_at != new.backed_up_at => AuditAction::BackedUp,
        Some(_) => return None,
    };
    Some(certificate(action, new))
}

fn by_digest(records: &[CertificateRecord]) -> BTreeMap<[u8; 32], &CertificateRecord> {
    records.iter().map(|record| (sha256(&[&record.der]), record)).collect()
}
