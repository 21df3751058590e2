//! What is known of each database, from its header, the key store, the backup history, the last
//! examination and results of the bench. Nothing is opened, and no key is needed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tdekit_backup_run::archive::{State as Replica, state_of, unlike_shipped, unshipped_since};
use tdekit_backup_run::labels::now_ms;
use tdekit_backup_run::{
    Catalog, CheckedKind, LastCheck, NewestBackup, RunError, Undated, date_of_ms,
};
use tdekit_key_store::{KeyStore, USES_FILE_NAME};
use tdekit_sqlite_convert::{
    Audited, Breach, Encryption, Policy, Search, Store, audit, databases_in, is_over_link, lost_in,
    resolved_path, unread_list,
};

use super::cost::{Cost, Costs};
use super::rules::{Finding, HISTORY, Level, Rules};
use super::servers::{Server, servers};

pub(super) const DAY_S: i64 = 24 * 3600;
/// Number of rows of the history that are named, of those without a readable date.
const MOST_NAMED: usize = 10;

/// Result for all databases.
#[derive(Debug, Serialize)]
pub(crate) struct Estate {
    /// Time, seconds since 1970.
    pub(crate) at: i64,
    pub(crate) rules: Rules,
    /// The worst of all rows.
    pub(crate) level: Level,
    pub(crate) databases: Vec<Row>,
    pub(crate) servers: Vec<Server>,
    pub(crate) certificates: Vec<Certificate>,
    /// The directories and files that were named.
    #[serde(serialize_with = "paths_text")]
    pub(crate) looked_at: Vec<PathBuf>,
    /// Places that could not be examined, in words.
    pub(crate) not_looked_at: Vec<String>,
    /// True if databases that are gone cannot be seen: the key store's list of encrypted files
    /// cannot be read, or is not whole.
    #[serde(skip)]
    pub(crate) list_unread: bool,
    /// True if there is a key store that can be read.
    #[serde(skip)]
    pub(crate) has_store: bool,
}

/// A database.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) level: Level,
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    pub(crate) path: PathBuf,
    /// Its path as the system resolves it, by which the history knows the database.
    #[serde(skip)]
    pub(crate) resolved: PathBuf,
    pub(crate) state: State,
    /// The algorithm of an encrypted one.
    pub(crate) algorithm: Option<String>,
    pub(crate) key_age_s: Option<i64>,
    /// True if all certificates that open it are in a backup; `None` if that is not known.
    pub(crate) certificates_saved: Option<bool>,
    /// The names of those that the store knows, each with true if it is in a backup.
    #[serde(skip)]
    pub(crate) certificates: Vec<(String, bool)>,
    pub(crate) last_backup: Option<Backup>,
    /// Time of the last complete reading of one of its backups, with its key.
    pub(crate) last_verify_at: Option<i64>,
    /// Time of the last restore on trial of one of its backups.
    pub(crate) last_restore_test_at: Option<i64>,
    /// True if that reading found no fault.
    pub(crate) verify_ok: Option<bool>,
    /// True if that is not so because a set was not there.
    #[serde(skip)]
    pub(crate) absent: bool,
    /// The last examination by `tdekit doctor`.
    pub(crate) last_examined_at: Option<i64>,
    pub(crate) cost: Option<Cost>,
    pub(crate) findings: Vec<Finding>,
}

/// The state of a database's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Encrypted, according to its header.
    Encrypted,
    /// In the clear.
    Plain,
    /// The key store knows it, but it is missing or not whole.
    Gone,
    /// It could not be read.
    Unreadable,
}

/// The newest backup of a database.
#[derive(Debug, Serialize)]
pub(crate) struct Backup {
    /// Time of completion, seconds since 1970.
    pub(crate) at: i64,
    /// True for a full backup.
    pub(crate) full: bool,
    /// True for a log backup, or a log set of an archive in the history.
    pub(crate) log: bool,
    /// True if `replicate` shipped it: an archive has everything that was committed by then.
    pub(crate) shipped: bool,
    pub(crate) encrypted: bool,
}

/// A certificate of the key store.
#[derive(Debug, Serialize)]
pub(crate) struct Certificate {
    pub(crate) name: String,
    pub(crate) thumbprint: String,
    pub(crate) active: bool,
    pub(crate) saved: bool,
    pub(crate) not_after: i64,
}

/// Sources of the data.
pub(crate) struct Sources<'a, 's> {
    pub(crate) store: &'a Store<'s>,
    /// None where there is no history yet; or the reason why it cannot be read.
    pub(crate) catalog: Result<Option<Catalog>, String>,
    pub(crate) costs: Costs,
    pub(crate) now: i64,
}

/// The history's data, by path.
#[derive(Default)]
struct Past {
    backups: BTreeMap<String, NewestBackup>,
    examined: BTreeMap<String, LastCheck>,
    /// Data directories of MariaDB.
    servers: BTreeMap<String, LastCheck>,
    /// The rows that are in none of them, because their dates cannot be read.
    undated: Vec<Undated>,
}

impl Past {
    fn of(catalog: &Catalog) -> Result<Self, RunError> {
        Ok(Self {
            backups: catalog.newest_backups()?,
            examined: catalog.last_checks(CheckedKind::Database)?,
            servers: catalog.last_checks(CheckedKind::Mariadb)?,
            undated: catalog.undated()?,
        })
    }
}

impl Estate {
    /// Examines databases, and directories with all databases in and below them.
    ///
    /// Of a history that cannot be read, it says so, and judges the rest.
    pub(crate) fn look(paths: &[PathBuf], rules: Rules, sources: &Sources<'_, '_>) -> Self {
        let past = sources.catalog.as_ref().map(|catalog| match catalog {
            Some(catalog) => Past::of(catalog).map_err(|error| error.to_string()),
            None => Ok(Past::default()),
        });
        let past = past.unwrap_or_else(|reason| Err(reason.clone()));
        let mut estate = Self {
            at: sources.now,
            rules,
            level: Level::Good,
            databases: Vec::new(),
            servers: Vec::new(),
            certificates: certificates(sources.store),
            looked_at: paths.to_vec(),
            not_looked_at: Vec::new(),
            list_unread: false,
            has_store: sources.store.store.is_ok(),
        };
        if let Ok(None) = sources.catalog {
            estate.not_looked_at.push("backups: there is no history yet".to_owned());
        }
        if let Err(reason) = &past {
            estate.not_looked_at.push(format!("backups and verifications: {reason}"));
            estate.level = Level::Warning;
        }
        estate.name_undated(past.as_ref().map_or(&[], |past| past.undated.as_slice()));
        if let Err(reason) = &*sources.store.store {
            estate.not_looked_at.push(format!("certificates and known files: {reason}"));
        }
        if let Some((_, error)) = unread_list(sources.store) {
            estate.not_looked_at.push(format!("databases that are gone: {error}"));
            estate.list_unread = true;
            estate.level = Level::Warning;
        }
        for path in paths {
            estate.add(path, past.as_ref().ok(), sources);
        }
        estate.databases.sort_by(|a, b| a.path.cmp(&b.path));
        estate.databases.dedup_by(|a, b| a.path == b.path);
        // One database under two names, unless it stands in another's place.
        let mut seen = HashSet::new();
        estate.databases.retain(|row| row.has("lost") || seen.insert(row.resolved.clone()));
        estate.judge_list(sources);
        let checks = past.as_ref().map(|past| &past.servers).ok();
        estate.servers = servers(sources, checks, &estate.rules);
        let rows = estate.databases.iter().map(|row| row.level);
        let worst = rows.chain(estate.servers.iter().map(|server| server.level)).max();
        estate.level = estate.level.max(worst.unwrap_or(Level::Good));
        estate
    }

    fn add(&mut self, path: &Path, past: Option<&Past>, sources: &Sources<'_, '_>) {
        let policy = Policy { oldest_key: Some(self.rules.oldest_key) };
        for found in audit_all(path, sources.store, policy) {
            self.databases.push(row(found, past, sources, &self.rules));
        }
    }

    fn name_undated(&mut self, undated: &[Undated]) {
        if undated.is_empty() {
            return;
        }
        self.level = Level::Warning;
        let named = undated.iter().take(MOST_NAMED).map(|row| format!("history: {row}"));
        self.not_looked_at.extend(named);
        if let more @ 1.. = undated.len().saturating_sub(MOST_NAMED) {
            let told =
                format!("history: {more} more rows without a date; `tdekit history` has all");
            self.not_looked_at.push(told);
        }
    }

    /// Each encrypted database that is opened or made gets into the key store's list. A list
    /// without any, beside one, was emptied or removed.
    fn judge_list(&mut self, sources: &Sources<'_, '_>) {
        if self.list_unread || !self.has_store || !sources.store.known.is_empty() {
            return;
        }
        let Some(one) = self.databases.iter().find(|row| !row.certificates.is_empty()) else {
            return;
        };
        self.not_looked_at.push(format!("databases that are gone: {}", emptied(&one.path)));
        self.list_unread = true;
        self.level = Level::Warning;
    }

    /// Returns the number of rows of a level.
    pub(crate) fn count(&self, level: Level) -> usize {
        let rows = self.databases.iter().map(|row| row.level);
        rows.chain(self.servers.iter().map(|server| server.level)).filter(|it| *it == level).count()
    }
}

/// Audits a database; or all in and below a directory, those that the key store knows there but
/// that are gone, and the places that cannot be read.
pub(crate) fn audit_all(path: &Path, store: &Store<'_>, policy: Policy) -> Vec<Audited> {
    let lost = lost_in(path, store);
    if !path.is_dir() && lost.is_empty() {
        return vec![audit(path, store, policy)];
    }
    if !path.is_dir() {
        return lost.iter().map(|path| audit(path, store, policy)).collect();
    }
    let Search { found, unread } = databases_in(path);
    let mut all: BTreeSet<PathBuf> = found.into_iter().map(|(path, _)| path).collect();
    // The key store has resolved paths; these are named as the directory was.
    let resolved = fs::canonicalize(path).unwrap_or_default();
    let named = |lost: PathBuf| match lost.strip_prefix(&resolved) {
        // By this name, the key store knows what a link replaced.
        _ if is_over_link(&lost) => lost,
        Ok(below) => path.join(below),
        Err(_) => lost,
    };
    all.extend(lost.into_iter().map(named));
    let audited = all.iter().map(|path| audit(path, store, policy));
    audited.chain(unread.into_iter().map(|(path, error)| Audited::unread(path, &error))).collect()
}

fn row(found: Audited, past: Option<&Past>, sources: &Sources<'_, '_>, rules: &Rules) -> Row {
    let resolved = found.status.as_ref().map(|status| status.path.clone());
    let resolved =
        resolved.or_else(|| resolved_path(&found.path)).unwrap_or_else(|| found.path.clone());
    let key = resolved.to_string_lossy().into_owned();
    let encryption = found.status.as_ref().and_then(|status| status.encryption.as_ref());
    let lost = found.breaches.iter().any(|breach| breach.what == "lost");
    let mut row = Row {
        level: Level::Good,
        state: match (&found.status, encryption) {
            (Some(status), None) if status.page_size.is_some() => State::Plain,
            _ if lost => State::Gone,
            (None, _) => State::Unreadable,
            (Some(_), None) => State::Plain,
            (Some(_), Some(_)) => State::Encrypted,
        },
        algorithm: encryption.map(|encryption| encryption.algorithms.join(", ")),
        key_age_s: encryption.and_then(|it| it.key_created).map(|made| sources.now - made),
        certificates_saved: encryption
            .filter(|_| sources.store.store.is_ok())
            .map(|it| it.certificates.iter().all(|each| each.backed_up_at.is_some())),
        certificates: encryption.map(names_of).unwrap_or_default(),
        last_backup: None,
        last_verify_at: None,
        last_restore_test_at: None,
        verify_ok: None,
        absent: false,
        last_examined_at: None,
        cost: sources.costs.of(&key),
        findings: Vec::new(),
        path: found.path.clone(),
        resolved,
    };
    let file_id = encryption.map(|encryption| encryption.file_id.clone());
    row.findings.extend(found.breaches.into_iter().map(Finding::from));
    match past {
        Some(past) => {
            row.judge_backups(past.backups.get(&key), file_id.as_deref(), (sources, rules));
            row.judge_examination(past.examined.get(&key));
        }
        None => {
            let told = "its backups are not known: the history cannot be read";
            row.find(Level::Warning, HISTORY, told.to_owned());
        }
    }
    row.level = row.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Good);
    row
}

/// Returns a breach of the key store's list of encrypted files, if it knows none, and one of the
/// audited databases should be there.
pub(crate) fn emptied_list(audited: &[Audited], store: &Store<'_>) -> Option<Audited> {
    let keys = store.store.as_ref().ok()?;
    let is_ours = |one: &&Audited| {
        let encryption = one.status.as_ref().and_then(|status| status.encryption.as_ref());
        encryption.is_some_and(|encryption| !names_of(encryption).is_empty())
    };
    let one = audited.iter().find(is_ours).filter(|_| store.known.is_empty())?;
    let breach = Breach { what: "list", message: emptied(&one.path) };
    let path = keys.dir().join(USES_FILE_NAME);
    Some(Audited { path, status: None, key_age_days: None, breaches: vec![breach] })
}

fn emptied(one: &Path) -> String {
    format!(
        "the key store's list of encrypted files knows none, not even {}, which its certificate \
         opens; `tdekit rewrap` puts a database on it",
        one.display()
    )
}

/// Returns the certificates that the store knows, each with true if it is in a backup.
fn names_of(encryption: &Encryption) -> Vec<(String, bool)> {
    let known = encryption.certificates.iter();
    known.filter_map(|it| Some((it.name.clone()?, it.backed_up_at.is_some()))).collect()
}

impl Row {
    /// Returns true if it has a finding of this name.
    pub(crate) fn has(&self, what: &str) -> bool {
        self.findings.iter().any(|finding| finding.what == what)
    }

    fn find(&mut self, level: Level, what: &'static str, message: String) {
        self.findings.push(Finding::new(level, what, message));
    }

    fn judge_backups(
        &mut self,
        newest: Option<&NewestBackup>,
        file_id: Option<&str>,
        (sources, rules): (&Sources<'_, '_>, &Rules),
    ) {
        // Another database may have replaced this one since.
        let is_other = |newest: &&NewestBackup| {
            let known = newest.database_guid.as_deref();
            file_id.is_some() && known.is_some() && known != file_id
        };
        if newest.as_ref().is_some_and(is_other) {
            let told = "the backup in the history is of another database that was here".to_owned();
            self.find(Level::Warning, "backup-missing", told);
            return;
        }
        let shipped = match shipped(&self.resolved) {
            Ok(shipped) => shipped,
            Err(error) => {
                self.find(Level::Warning, "replicate-failed", error.to_string());
                None
            }
        };
        if let Some(error) = shipped.as_ref().and_then(|(_, error)| error.as_ref()) {
            self.find(Level::Warning, "replicate-failed", format!("not shipped: {error}"));
        }
        if let Ok(Some(since_ms)) = unshipped_since(&self.resolved) {
            let told = format!(
                "no process ships it, and it was written to since {}: that is not in its archive",
                date_of_ms(since_ms)
            );
            self.find(Level::Warning, "replicate-stopped", told);
        }
        let shipped = shipped.map(|(backup, _)| backup);
        // Nothing newer than what the archive should have is elsewhere. The database may be another
        // file since: what was shipped of it should be there all the same.
        let is_newest = |at: i64| newest.is_none_or(|one| one.finished_at <= at);
        if shipped_at(&self.resolved).is_some_and(is_newest)
            && let Ok(Some(error)) = unlike_shipped(&self.resolved)
        {
            let message = format!("its archive is not what was shipped: {error}");
            self.find(Level::Bad, "archive-wrong", message);
        }
        let Some(newest) = newest else {
            if let Some(shipped) = shipped {
                self.judge_newest(shipped, (sources, rules));
                let told = "the history has no full set of its archive".to_owned();
                self.find(Level::Warning, "verify-missing", told);
                return;
            }
            if self.state != State::Unreadable {
                let told = "the history has no backup of it".to_owned();
                self.find(Level::Warning, "backup-missing", told);
            }
            return;
        };
        let (at, full, log) = (newest.finished_at, newest.full, newest.log);
        let backup = Backup { at, full, log, shipped: false, encrypted: newest.encrypted };
        let later = shipped.filter(|shipped| shipped.at > at);
        self.judge_newest(later.unwrap_or(backup), (sources, rules));
        self.last_verify_at = newest.verified_at;
        self.last_restore_test_at = newest.restored_at;
        self.judge_verification(newest, (sources, rules));
    }

    fn judge_newest(&mut self, backup: Backup, (sources, rules): (&Sources<'_, '_>, &Rules)) {
        let (at, encrypted) = (backup.at, backup.encrypted);
        self.last_backup = Some(backup);
        if at < rules.oldest_backup {
            let told = format!("its newest backup is older than {}", rules.max_backup_age);
            self.find(Level::Warning, "backup-age", told);
        }
        if at > sources.now + DAY_S {
            let told = "its newest backup has a date in the future".to_owned();
            self.find(Level::Warning, "backup-age", told);
        }
        if !encrypted {
            let told = "its newest backup is not encrypted".to_owned();
            let level = match self.state {
                State::Encrypted => Level::Bad,
                _ => Level::Warning,
            };
            self.find(level, "backup-plain", told);
        }
    }

    fn judge_verification(
        &mut self,
        newest: &NewestBackup,
        (sources, rules): (&Sources<'_, '_>, &Rules),
    ) {
        let unsaved = |one: &&Certificate| {
            !one.saved && Some(&one.thumbprint) == newest.encryptor_thumbprint.as_ref()
        };
        if let Some(one) = certificates(sources.store).iter().find(unsaved) {
            let told = format!("certificate {} of its newest backup is in no backup", one.name);
            self.find(Level::Warning, "certificate-not-backed-up", told);
        }
        self.verify_ok = newest.verify_ok;
        self.absent = newest.absent;
        if newest.absent {
            let told = "a backup of it was not there when it was last to be verified".to_owned();
            self.find(Level::Bad, "verify-absent", told);
        } else if newest.verify_ok == Some(false) {
            let told = "the last verification of a backup of it found damage".to_owned();
            self.find(Level::Bad, "verify-failed", told);
        } else if newest.verified_at.is_none() {
            let told = "no backup of it was ever verified".to_owned();
            self.find(Level::Warning, "verify-missing", told);
        } else if newest.verified_at < Some(rules.oldest_verify) {
            let told = format!("no backup of it was verified within {}", rules.max_verify_age);
            self.find(Level::Warning, "verify-age", told);
        } else if newest.verified_at > Some(sources.now + DAY_S) {
            let told = "the last verification of a backup of it has a date in the future";
            self.find(Level::Warning, "verify-age", told.to_owned());
        }
    }

    fn judge_examination(&mut self, last: Option<&LastCheck>) {
        let Some(last) = last else { return };
        self.last_examined_at = Some(last.checked_at);
        if last.findings > 0 {
            let told = format!("`tdekit doctor` had {} findings", last.findings);
            self.find(Level::Bad, "doctor", told);
        }
    }
}

/// Returns what `replicate` shipped of the database that is at a path now, and its last failure
/// since.
///
/// # Errors
/// `UnreadRecord`.
fn shipped(path: &Path) -> Result<Option<(Backup, Option<String>)>, RunError> {
    Ok(state_of(path)?.and_then(|state| shipped_of(path, state)))
}

fn shipped_of(path: &Path, state: Replica) -> Option<(Backup, Option<String>)> {
    let at = current_at(&state)?;
    let last = state.shipped?;
    let file = fs::metadata(path).ok()?;
    if last.file != (file.dev(), file.ino()) {
        return None;
    }
    let encrypted = last.sealed?;
    let backup = Backup { at, full: false, log: false, shipped: true, encrypted };
    Some((backup, state.error))
}

/// Returns the time by which everything of a database is in its archive, also where another file
/// took the place of the one that was shipped.
fn shipped_at(path: &Path) -> Option<i64> {
    current_at(&state_of(path).ok()??)
}

/// Returns the time by which a record has everything in the archive, seconds since 1970.
fn current_at(state: &Replica) -> Option<i64> {
    let last = state.shipped.as_ref()?;
    // Times of a clock that was set back since say nothing.
    let (now, known) = (now_ms(), [state.current_ms, Some(last.time_ms), Some(last.snapshot_ms)]);
    let known = known.into_iter().flatten().filter(|at| *at <= now).max();
    Some(known.unwrap_or(last.snapshot_ms) / 1000)
}

pub(super) fn certificates(store: &Store<'_>) -> Vec<Certificate> {
    let all = store.store.as_ref().ok().map(KeyStore::certificates).unwrap_or_default();
    all.iter()
        .map(|info| Certificate {
            name: info.name.clone(),
            thumbprint: info.thumbprint(),
            active: info.active,
            saved: !info.needs_backup(),
            not_after: info.not_after,
        })
        .collect()
}

fn paths_text<S: serde::Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}
