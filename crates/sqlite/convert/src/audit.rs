//! An audit of databases: their keys, the keys' ages, certificates and backups, and the broken
//! rules. No database is opened: headers and the key store have all the facts.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tdekit_key_store::{iso8601, now_seconds};

use crate::error::DatabaseError;
use crate::status::{Encryption, Status, Store, status};

const DAY_S: i64 = 24 * 3600;

/// The optional rules, in addition to the built-in ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct Policy {
    /// A key made before this time, seconds since 1970, is too old.
    pub oldest_key: Option<i64>,
}

/// Audit result of one database.
#[derive(Debug, Serialize)]
pub struct Audited {
    /// Its path, as given.
    #[serde(serialize_with = "crate::path_text::path_text")]
    pub path: PathBuf,
    /// Data of header and key store; `None` if the file could not be read.
    #[serde(flatten)]
    pub status: Option<Status>,
    /// Whole days since the key in force was made.
    pub key_age_days: Option<i64>,
    /// The broken rules.
    pub breaches: Vec<Breach>,
}

/// A rule that a database breaks.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Breach {
    /// Its name, for programs: `plain`, `lost`, `unreadable`, `header`, `key-age`, `key-change`,
    /// `certificate-unknown`, `certificate-expired`, `certificate-not-backed-up`.
    pub what: &'static str,
    /// The same in words.
    pub message: String,
}

/// Audits the database `name`. Takes no lock, needs no key and changes nothing.
#[must_use]
pub fn audit(name: &Path, store: &Store<'_>, policy: Policy) -> Audited {
    let told = match status(name, store) {
        Err(error) => return Audited::unread(name.to_owned(), &error),
        Ok(told) => told,
    };
    let path = name.to_owned();
    let mut found = Audited { path, status: None, key_age_days: None, breaches: Vec::new() };
    if let Some(problem) = told.problem {
        found.breach("lost", format!("the file {problem}"));
    }
    match &told.encryption {
        None if told.problem.is_some() => {}
        None => found.breach("plain", "it is not encrypted".to_owned()),
        Some(encryption) => {
            let unread = store.store.as_ref().err().map(String::as_str);
            found.judge(encryption, policy, (now_seconds(), unread));
        }
    }
    found.status = Some(told);
    found
}

impl Audited {
    /// Result for a file or directory that could not be read: its content is unknown.
    #[must_use]
    pub fn unread(path: PathBuf, error: &DatabaseError) -> Self {
        let mut found = Self { path, status: None, key_age_days: None, breaches: Vec::new() };
        found.breach(error.finding_name(), error.to_string());
        found
    }

    fn breach(&mut self, what: &'static str, message: String) {
        self.breaches.push(Breach { what, message });
    }

    /// `unread` is the reason why the key store cannot be read: it does not say then which
    /// certificates there are.
    fn judge(
        &mut self,
        encryption: &Encryption,
        policy: Policy,
        (now, unread): (i64, Option<&str>),
    ) {
        if encryption.intact_header_slots < 2 {
            self.breach("header", "one of the header's two copies is damaged".to_owned());
        }
        match encryption.key_created {
            None => self.breach("key-age", "the header has no time of its key".to_owned()),
            Some(created) => {
                self.key_age_days = Some((now - created).div_euclid(DAY_S));
                if policy.oldest_key.is_some_and(|oldest| created < oldest) {
                    let made = &encryption.key_created_at;
                    self.breach("key-age", format!("its key was made at {made}"));
                }
                // A wrong clock hides a key's age.
                if created > now + DAY_S {
                    let made = &encryption.key_created_at;
                    self.breach("key-age", format!("its key was made in the future, at {made}"));
                }
            }
        }
        if encryption.key_versions.len() > 1 {
            let message = "a change of its key has begun and is not done".to_owned();
            self.breach("key-change", message);
        }
        for certificate in &encryption.certificates {
            let thumbprint = &certificate.thumbprint;
            let (Some(name), Some(not_after)) = (&certificate.name, certificate.not_after) else {
                let message = match unread {
                    Some(why) => format!("certificate {thumbprint} cannot be looked up: {why}"),
                    None => format!("certificate {thumbprint} is not in the key store"),
                };
                self.breach("certificate-unknown", message);
                continue;
            };
            if not_after <= now {
                let message = format!("certificate {name} expired at {}", iso8601(not_after));
                self.breach("certificate-expired", message);
            }
            if certificate.backed_up_at.is_none() {
                let message = format!("certificate {name} was never backed up");
                self.breach("certificate-not-backed-up", message);
            }
        }
        if encryption.certificates.is_empty() {
            let message = "no certificate wraps its key".to_owned();
            self.breach("certificate-unknown", message);
        }
    }
}
