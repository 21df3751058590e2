//! MariaDB servers that have keys in the key store.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;
use tdekit_backup_run::LastCheck;
use tdekit_key_store::{KeyStore, ServerKeys, is_key_listing, read_mark};

use super::estate::{DAY_S, Sources};
use super::rules::{Finding, Level, Rules};

/// A MariaDB server that has keys in the key store.
#[derive(Debug, Serialize)]
pub(crate) struct Server {
    pub(crate) level: Level,
    /// Its data directory, once `tdekit mariadb verify` has checked it.
    pub(crate) data: Option<String>,
    /// The newest version of each key, by number.
    pub(crate) keys: BTreeMap<u32, u32>,
    /// Counts of the last verification, as reported.
    pub(crate) facts: Option<serde_json::Value>,
    pub(crate) last_verify_at: Option<i64>,
    /// True if that verification had no finding.
    pub(crate) verify_ok: Option<bool>,
    pub(crate) findings: Vec<Finding>,
}

/// Returns the servers that have keys in the store: one row for each verified data directory,
/// otherwise one. `checks` are the last verifications; `None` if they are not known.
pub(super) fn servers(
    sources: &Sources<'_, '_>,
    checks: Option<&BTreeMap<String, LastCheck>>,
    rules: &Rules,
) -> Vec<Server> {
    let Ok(store) = &*sources.store.store else { return Vec::new() };
    let is_verified = checks.is_some_and(|checks| !checks.is_empty());
    let mut file_id = None;
    let (keys, of_store) = match store.server_keys() {
        Ok(Some(keys)) => {
            file_id = Some(*keys.file_id());
            (newest(&keys), unsaved(store, &keys))
        }
        Ok(None) if !is_verified && !has_had_keys(store) => return Vec::new(),
        Ok(None) => {
            let told = "the key store has no keys of a server, and it had";
            (BTreeMap::new(), Some(Finding::new(Level::Bad, "server-keys", told)))
        }
        Err(error) => {
            let told = format!("its keys cannot be read: {error}");
            (BTreeMap::new(), Some(Finding::new(Level::Bad, "server-keys", told)))
        }
    };
    let row = |data: Option<&String>, last: Option<&LastCheck>| {
        let mut findings: Vec<Finding> = of_store.clone().into_iter().collect();
        if let Some(data) = data {
            findings.extend(without_data(Path::new(data), file_id));
        }
        match last {
            Some(last) => findings.extend(judge(last, sources.now, rules)),
            None if checks.is_some() => {
                let told = "`tdekit mariadb verify` has not looked at its files";
                findings.push(Finding::new(Level::Warning, "verify-missing", told));
            }
            None => {}
        }
        Server {
            level: findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Good),
            data: data.cloned(),
            keys: keys.clone(),
            facts: last
                .and_then(|last| last.facts.as_ref())
                .and_then(|facts| serde_json::from_str(facts).ok()),
            last_verify_at: last.map(|last| last.checked_at),
            verify_ok: last.map(|last| last.findings == 0),
            findings,
        }
    };
    match checks.filter(|_| is_verified) {
        Some(checks) => checks.iter().map(|(data, last)| row(Some(data), Some(last))).collect(),
        None => vec![row(None, None)],
    }
}

fn newest(keys: &ServerKeys) -> BTreeMap<u32, u32> {
    keys.ids().filter_map(|id| Some((id, keys.latest(id)?))).collect()
}

/// Returns true if the key store's list has its file of server keys.
fn has_had_keys(store: &KeyStore) -> bool {
    let uses = store.uses().unwrap_or_default();
    uses.iter().any(|known| is_key_listing(&known.path) && known.path == store.server_keys_path())
}

/// Returns the findings of the last verification.
fn judge(last: &LastCheck, now: i64, rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    if last.findings > 0 {
        let told = format!("`tdekit mariadb verify` had {} findings", last.findings);
        findings.push(Finding::new(Level::Bad, "verify-failed", told));
    }
    if last.checked_at < rules.oldest_verify {
        let told = format!("its files were not verified within {}", rules.max_verify_age);
        findings.push(Finding::new(Level::Warning, "verify-age", told));
    }
    if last.checked_at > now + DAY_S {
        let told = "the last verification of its files has a date in the future";
        findings.push(Finding::new(Level::Warning, "verify-age", told));
    }
    findings
}

/// Returns a finding where the data directory is gone, or has lost the system tablespace and the
/// server's own tables, or is not marked as that of the keys `file_id`. A directory that may not be
/// searched may have them.
fn without_data(data: &Path, file_id: Option<[u8; 16]>) -> Option<Finding> {
    let is_gone = |path: &Path| {
        let state = fs::symlink_metadata(path);
        state.is_err_and(|error| {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        })
    };
    let told = match () {
        () if is_gone(data) => "its data directory is gone",
        () if is_gone(&data.join("ibdata1")) && is_gone(&data.join("mysql")) => {
            "its data directory holds no server's data"
        }
        () if is_of_others(data, file_id) => {
            "its data directory is not marked as one of these keys: other data may stand there"
        }
        () => return None,
    };
    Some(Finding::new(Level::Bad, "data-gone", told))
}

/// Returns true if a directory has no mark of these keys, though the plugin writes one.
fn is_of_others(data: &Path, file_id: Option<[u8; 16]>) -> bool {
    match (read_mark(data), file_id) {
        (Ok(mark), Some(_)) => mark != file_id,
        // Not readable for this user, or reported with the keys.
        _ => false,
    }
}

/// Returns a finding where no certificate with a backup opens a server's key.
fn unsaved(store: &KeyStore, keys: &ServerKeys) -> Option<Finding> {
    let is_saved = |sha256: &[u8; 32]| {
        let mut known = store.certificates().iter().filter(|info| info.sha256 == *sha256);
        known.any(|info| info.backed_up_at.is_some())
    };
    let versions = keys.ids().flat_map(|id| keys.versions(id));
    let lacks = versions.filter(|version| !version.wrapped.iter().any(|it| is_saved(&it.sha256)));
    let told = "the certificate of its keys was never backed up";
    lacks.map(|_| Finding::new(Level::Warning, "certificate-not-backed-up", told)).next()
}
