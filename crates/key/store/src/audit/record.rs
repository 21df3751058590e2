//! One line of the audit log. Pure: opens no file.

use serde::{Deserialize, Serialize};
use tdekit_key_crypto::{SecretBytes, hmac_sha256, verify_hmac_sha256};

use crate::error::StoreError;

/// Newest version of the log's lines that this program reads. It writes version 1 where that
/// version can express the entry.
pub const AUDIT_VERSION: u16 = 2;
const OLDEST_VERSION: u16 = 1;
/// Maximum number of bytes of a line without its line end.
pub const MAX_AUDIT_LINE_BYTES: usize = 16 << 10;

const MAC_LABEL: &[u8] = b"tdekit audit log v1 entry";
const MAC_DIGITS: usize = 64;

/// Operation on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditAction {
    /// The key was made.
    Created,
    /// The key was unwrapped for use.
    Opened,
    /// Another key took its place.
    Rotated,
    /// The key was wrapped anew and stayed the same.
    Rewrapped,
    /// The key left the store, under a password of its own.
    Exported,
    /// The key is known to be in a backup.
    BackedUp,
    /// The key came from a backup of the whole store.
    Restored,
    /// The key came from a file of its own.
    Imported,
    /// The key opens the store from now on.
    Added,
    /// The key is no longer in the store.
    Removed,
    /// A plain database received the key. Version 2, like all variants below.
    Encrypted,
    /// The database of the key is plain from now on.
    Decrypted,
    /// The key is in force, and pages under the previous key are being sealed anew.
    RotationBegun,
}

/// The kind of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditSubject {
    /// The store's master key.
    MasterKey,
    /// A password, key or token that opens the master key.
    Protector,
    /// A certificate, with its private key.
    Certificate,
    /// A key of a database or of a backup.
    DatabaseKey,
    /// A numbered key of a database server.
    ServerKey,
}

/// Something that happened to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// What was done.
    pub action: AuditAction,
    /// The kind of key.
    pub subject: AuditSubject,
    /// Its identifier: hexadecimal digits, or number and version of a server's key.
    pub id: String,
    /// Its name for people: the name of a certificate, a kind of protector, or a file. May be
    /// empty.
    pub name: String,
    /// Further properties of a database's key.
    pub key: Option<AuditKey>,
}

/// The properties in an entry of a key outside the store: the key of a database or a backup set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditKey {
    /// Its version in the database's header; `None` where the header has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The algorithm that seals under it.
    pub algorithm: String,
    /// The certificates that wrap it.
    pub certificates: Vec<AuditCertificate>,
    /// Number of certificates left out because the line would be too long.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub certificates_left_out: usize,
    /// Location of the backup, for a backup's key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media: String,
}

/// A certificate, as named in an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditCertificate {
    /// SHA-1 thumbprint.
    pub id: String,
    /// Its name in the store; empty for a certificate of another store.
    pub name: String,
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    /// Version of the line.
    pub v: u16,
    /// 1 for the first entry of a store, incremented for each entry.
    pub seq: u64,
    /// Time, ISO 8601 in UTC.
    pub at: String,
    /// What was done.
    pub action: AuditAction,
    /// The kind of key.
    pub subject: AuditSubject,
    /// Its identifier.
    pub id: String,
    /// Its name; may be empty.
    pub name: String,
    /// Further properties of a database's key. Version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<AuditKey>,
    /// The operating system's number of the user.
    pub uid: u32,
    /// Name of the user; empty where the system does not know it.
    pub user: String,
    /// The program's file.
    pub program: String,
    /// The process ID.
    pub pid: u32,
    /// MAC of the previous entry, hexadecimal; zeros for the first entry.
    pub prev: String,
}

/// A line: its entry, the bytes that its MAC covers, and the MAC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) record: AuditRecord,
    json: &'a [u8],
    pub(crate) mac: [u8; 32],
}

impl AuditRecord {
    /// Reads a line without its end: the entry and its MAC, which is not checked.
    ///
    /// # Errors
    /// `FutureVersion`, `Corrupt`. Never panics, whatever the bytes.
    pub fn decode(line: &[u8]) -> Result<(Self, [u8; 32]), StoreError> {
        Line::decode(line).map(|line| (line.record, line.mac))
    }

    /// Returns the line, with its line end, under this MAC.
    ///
    /// # Errors
    /// `Corrupt` when it would exceed the maximum length.
    pub fn encode(&self, mac: &[u8; 32]) -> Result<Vec<u8>, StoreError> {
        Ok(joined(mac, &self.json()?))
    }

    /// Returns the line under a MAC made with `key`, and the MAC.
    pub(crate) fn seal(&self, key: &SecretBytes) -> Result<(Vec<u8>, [u8; 32]), StoreError> {
        let json = self.json()?;
        let mac = hmac_sha256(key.expose(), &[MAC_LABEL, &json]);
        Ok((joined(&mac, &json), mac))
    }

    fn json(&self) -> Result<Vec<u8>, StoreError> {
        let json = serde_json::to_vec(self).map_err(|error| corrupt(error.to_string()))?;
        if json.len() + MAC_DIGITS + 1 > MAX_AUDIT_LINE_BYTES {
            return Err(corrupt(format!("longer than {MAX_AUDIT_LINE_BYTES} bytes")));
        }
        Ok(json)
    }
}

impl<'a> Line<'a> {
    pub(crate) fn decode(line: &'a [u8]) -> Result<Self, StoreError> {
        #[derive(Deserialize)]
        struct Version {
            v: u16,
        }
        if line.len() > MAX_AUDIT_LINE_BYTES {
            return Err(corrupt(format!("longer than {MAX_AUDIT_LINE_BYTES} bytes")));
        }
        let (digits, rest) =
            line.split_at_checked(MAC_DIGITS).ok_or_else(|| corrupt("too short".to_owned()))?;
        let mut mac = [0; 32];
        hex::decode_to_slice(digits, &mut mac).map_err(|error| corrupt(error.to_string()))?;
        if digits.iter().any(u8::is_ascii_uppercase) {
            return Err(corrupt("its MAC has capital letters".to_owned()));
        }
        let Some((b' ', json)) = rest.split_first() else {
            return Err(corrupt("no space behind the MAC".to_owned()));
        };
        let malformed = |error: serde_json::Error| corrupt(error.to_string());
        let Version { v } = serde_json::from_slice(json).map_err(malformed)?;
        if v > AUDIT_VERSION {
            return Err(StoreError::FutureVersion { found: v, supported: AUDIT_VERSION });
        }
        let record: AuditRecord = serde_json::from_slice(json).map_err(malformed)?;
        if v < version_of(record.action, record.key.as_ref()) {
            return Err(corrupt(format!("version {v} has no such entry")));
        }
        Ok(Self { record, json, mac })
    }

    pub(crate) fn holds(&self, key: &SecretBytes) -> bool {
        verify_hmac_sha256(key.expose(), &[MAC_LABEL, self.json], &self.mac)
    }
}

/// The oldest line version that can express the entry.
pub(crate) fn version_of(action: AuditAction, key: Option<&AuditKey>) -> u16 {
    use AuditAction::{Decrypted, Encrypted, RotationBegun};
    match action {
        Encrypted | Decrypted | RotationBegun => AUDIT_VERSION,
        _ if key.is_some() => AUDIT_VERSION,
        _ => OLDEST_VERSION,
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn joined(mac: &[u8; 32], json: &[u8]) -> Vec<u8> {
    [hex::encode(mac).as_bytes(), b" ", json, b"\n"].concat()
}

fn corrupt(reason: String) -> StoreError {
    StoreError::corrupt("entry of the audit log", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate_record() -> AuditRecord {
        AuditRecord {
            v: 1,
            seq: 2,
            at: "2026-11-23T14:00:00Z".into(),
            action: AuditAction::BackedUp,
            subject: AuditSubject::Certificate,
            id: "0xAB".into(),
            name: "App \"1\"".into(),
            key: None,
            uid: 1000,
            user: "ann".into(),
            program: "/usr/bin/tdekit".into(),
            pid: 7,
            prev: "0".repeat(64),
        }
    }

    /// Encodes `record`, checks that the line equals `text`, and that it decodes to the same
    /// record.
    fn check_line(record: &AuditRecord, key: &SecretBytes, text: &str) -> Vec<u8> {
        let (line, _) = record.seal(key).unwrap();
        assert_eq!(String::from_utf8(line.clone()).unwrap(), text);
        let read = Line::decode(line.strip_suffix(b"\n").unwrap()).unwrap();
        assert!(read.holds(key) && read.record == *record);
        line
    }

    /// Another program made the JSON and the MAC (Python's hmac and hashlib).
    #[test]
    fn a_line_is_as_the_format_lays_it_down() {
        let record = certificate_record();
        let key = SecretBytes::from_slice(&[1; 32]).unwrap();
        let json = concat!(
            r#"{"v":1,"seq":2,"at":"2026-11-23T14:00:00Z","action":"backed-up","#,
            r#""subject":"certificate","id":"0xAB","name":"App \"1\"","uid":1000,"#,
            r#""user":"ann","program":"/usr/bin/tdekit","pid":7,"#,
            r#""prev":"0000000000000000000000000000000000000000000000000000000000000000"}"#,
        );
        let mac = "a5cb5374998e75f7b3120c0d558c478f8a5d3909a6948766fe114e211c9994c4";
        let line = check_line(&record, &key, &format!("{mac} {json}\n"));
        let read = Line::decode(line.strip_suffix(b"\n").unwrap()).unwrap();
        assert!(!read.holds(&SecretBytes::from_slice(&[2; 32]).unwrap()));
    }

    /// As above.
    #[test]
    fn a_database_key_has_a_line_of_version_2() {
        let certificates = vec![AuditCertificate { id: "0xAB".into(), name: "App".into() }];
        let record = AuditRecord {
            v: 2,
            seq: 1,
            at: "2026-11-24T12:00:00Z".into(),
            action: AuditAction::RotationBegun,
            subject: AuditSubject::DatabaseKey,
            id: "00".repeat(16),
            name: "/data/app.db".into(),
            key: Some(AuditKey {
                version: Some(2),
                algorithm: "AES_256".into(),
                certificates,
                ..AuditKey::default()
            }),
            ..certificate_record()
        };
        let key = SecretBytes::from_slice(&[1; 32]).unwrap();
        let json = concat!(
            r#"{"v":2,"seq":1,"at":"2026-11-24T12:00:00Z","action":"rotation-begun","#,
            r#""subject":"database-key","id":"00000000000000000000000000000000","#,
            r#""name":"/data/app.db","key":{"version":2,"algorithm":"AES_256","#,
            r#""certificates":[{"id":"0xAB","name":"App"}]},"uid":1000,"user":"ann","#,
            r#""program":"/usr/bin/tdekit","pid":7,"#,
            r#""prev":"0000000000000000000000000000000000000000000000000000000000000000"}"#,
        );
        let mac = "374c852731070de049deaff131a025ebd7e2c6a4197dc7158ffc4a9f64e2db27";
        let line = check_line(&record, &key, &format!("{mac} {json}\n"));
        let older = String::from_utf8(line).unwrap().replace("\"v\":2", "\"v\":1");
        assert!(Line::decode(older.trim_end().as_bytes()).is_err());
    }

    #[test]
    fn a_newer_line_is_told_and_a_long_one_refused() {
        let newer = format!("{} {{\"v\":3,\"other\":0}}", "0".repeat(64));
        let refused = Line::decode(newer.as_bytes()).unwrap_err();
        assert!(matches!(refused, StoreError::FutureVersion { found: 3, supported: 2 }));
        assert!(Line::decode(&[b'0'; MAX_AUDIT_LINE_BYTES + 1]).is_err());
    }
}
