//! New versions of keys, and re-encryption of the server's pages with them.
//!
//! The server re-encrypts a page when its version plus `innodb_encryption_rotate_key_age` is below
//! the newest one. So one version more than that age must be made: two with the default age of 1.
//! Threads that wait for work do not notice a new version; setting the age to its present value
//! wakes them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use tdekit_key_store::{PageCipher, Unlocked};
use tdekit_mariadb::SYSTEM_KEY_ID;

use crate::client::Client;
use crate::error::MariadbError;
use crate::keys::{certificate_or_signer, existing_keys};
use crate::{Progress, verify};

/// A larger age means that the administrator does not want rotation.
const MAX_AGE: u32 = 100;
/// The server checks for new versions once per second.
const SEEN_WITHIN: Duration = Duration::from_secs(15);
/// Time by which the files may lag behind the server's own report.
const FILES_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(300);
const STALLED_AFTER: Duration = Duration::from_mins(5);

/// The rotation of one key.
#[derive(Debug, Clone, Serialize)]
pub struct Rotated {
    /// The key's number.
    pub key_id: u32,
    /// Its newest version before.
    pub old_version: u32,
    /// Its newest version now.
    pub new_version: u32,
}

/// The result of a rotation.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The rotation of each key.
    pub keys: Vec<Rotated>,
    /// False if no server was named, or if it was not waited for.
    pub re_encrypted: bool,
    /// True if the server's files were checked as well.
    pub files_checked: bool,
    /// Number of pages under older versions that are not in use, so that nothing re-encrypts them.
    pub unused_pages: u64,
    /// Number of pages in the clear, which no rotation reaches.
    pub clear_pages: u64,
    /// The oldest version of such a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_version: Option<u32>,
    /// Reason why the server does not re-encrypt its pages, if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_rotating: Option<&'static str>,
}

/// The server's rotation settings.
struct Rotation {
    age: u32,
    threads: u64,
    tables: bool,
}

/// The keys to rotate, and the options.
#[derive(Debug, Clone, Default)]
pub struct Rotate {
    /// Numbers of keys; empty for all.
    pub key_ids: Vec<u32>,
    /// The certificate that wraps new versions; by default the one that signed the last ones.
    pub certificate: Option<String>,
    /// Cipher of pages under new versions; by default as under the last ones.
    pub page_cipher: Option<PageCipher>,
    /// The server's `innodb_encryption_rotate_key_age`, if no server is named.
    pub rotate_key_age: u32,
    /// True to make no version, and make the server use the existing ones.
    pub existing: bool,
    /// Set the server's `innodb_encryption_threads` first.
    pub encryption_threads: Option<u8>,
    /// True to wait until the server has re-encrypted its pages.
    pub wait: bool,
}

/// Adds versions and waits for the server. `made` is called as soon as the keys have their new
/// versions, with the keys, the name of the certificate that wraps them, and the server's rotation
/// age.
///
/// # Errors
/// `RotateAge`, `NotSeen`, `Stalled`, `Behind`, those of `client`, errors of the key store.
pub fn rotate(
    store: &Unlocked,
    client: Option<&Client<'_>>,
    wanted: &Rotate,
    made: &mut dyn FnMut(&[Rotated], &str, u32),
    progress: &dyn Progress,
) -> Result<Outcome, MariadbError> {
    if let (Some(client), Some(threads)) = (client, wanted.encryption_threads) {
        client.rows(&format!("SET GLOBAL innodb_encryption_threads = {threads}"))?;
    }
    let rotation = client.map(Rotation::of).transpose()?;
    let age = rotation.as_ref().map_or(wanted.rotate_key_age, |rotation| rotation.age);
    let (keys, certificate) = add_versions(store, wanted, age)?;
    let not_rotating = rotation.as_ref().and_then(Rotation::why_not);
    made(&keys, &certificate, age);
    let mut outcome = Outcome {
        keys,
        re_encrypted: false,
        files_checked: false,
        unused_pages: 0,
        clear_pages: 0,
        oldest_version: None,
        not_rotating,
    };
    if let Some(client) = client {
        seen(client, &outcome.keys)?;
        // Setting it wakes the threads; the value stays.
        client.rows(&format!("SET GLOBAL innodb_encryption_rotate_key_age = {age}"))?;
        if not_rotating.is_none() && wanted.wait {
            wait(client, &outcome.keys, age, progress)?;
            look_at_files(client, &mut outcome, age)?;
            outcome.re_encrypted = true;
        }
    }
    Ok(outcome)
}

impl Rotation {
    fn of(client: &Client<'_>) -> Result<Self, MariadbError> {
        let [age, threads, tables] = client.numbers(
            "the rotation of keys",
            "SELECT @@innodb_encryption_rotate_key_age, @@innodb_encryption_threads, \
             @@innodb_encrypt_tables <> 'OFF'",
        )?;
        let age = u32::try_from(age).unwrap_or(u32::MAX);
        Ok(Self { age, threads, tables: tables == 1 })
    }

    fn why_not(&self) -> Option<&'static str> {
        if self.age == 0 {
            return Some(
                "innodb_encryption_rotate_key_age is 0: a page gets the new version when it is \
                 next written, and no other way",
            );
        }
        if !self.tables {
            return Some(
                "innodb_encrypt_tables is OFF: the server rotates no keys then; a page gets the \
                 new version when it is next written",
            );
        }
        if self.threads == 0 {
            return Some(
                "innodb_encryption_threads is 0: nothing encrypts pages in the background; \
                 --encryption-threads sets it",
            );
        }
        None
    }
}

fn add_versions(
    store: &Unlocked,
    wanted: &Rotate,
    age: u32,
) -> Result<(Vec<Rotated>, String), MariadbError> {
    if age > MAX_AGE {
        return Err(MariadbError::RotateAge(age));
    }
    let known = existing_keys(store.store())?;
    let certificate = certificate_or_signer(wanted.certificate.as_deref(), store.store())?;
    let mut ids = wanted.key_ids.clone();
    if ids.is_empty() {
        ids.extend(known.ids());
    }
    ids.sort_unstable();
    ids.dedup();
    let mut rotated = Vec::new();
    for id in ids {
        let old_version = known.latest(id).unwrap_or(0);
        let mut new_version = old_version;
        let count = if wanted.existing { 0 } else { age + 1 };
        for _ in 0..count {
            let keys = store.rotate_server_key(id, &certificate, wanted.page_cipher)?;
            new_version = keys.latest(id).unwrap_or(new_version);
        }
        rotated.push(Rotated { key_id: id, old_version, new_version });
    }
    Ok((rotated, certificate))
}

/// Checks the server's files, if they can be read from here, for pages that the server claims to
/// have re-encrypted.
fn look_at_files(client: &Client<'_>, outcome: &mut Outcome, age: u32) -> Result<(), MariadbError> {
    let keys = &outcome.keys;
    let oldest_allowed = |id: u32| {
        let key = keys.iter().find(|key| key.key_id == id)?;
        Some(key.new_version.saturating_sub(age))
    };
    let begun = Instant::now();
    loop {
        let Some(behind) = verify::behind(client, &oldest_allowed)? else { return Ok(()) };
        if behind.used.is_empty() {
            outcome.files_checked = true;
            outcome.unused_pages = behind.unused;
            outcome.clear_pages = behind.clear;
            outcome.oldest_version = behind.oldest;
            return Ok(());
        }
        // A page that was allocated since then may not be written yet.
        if begun.elapsed() > FILES_WITHIN {
            let pages = behind.used.iter().map(|(_, pages)| pages).sum();
            let files = behind.used.into_iter().map(|(file, _)| file).collect();
            return Err(MariadbError::Behind { pages, files });
        }
        sleep(POLL);
    }
}

/// Waits until the server uses the new versions for keys under which it has tablespaces.
fn seen(client: &Client<'_>, keys: &[Rotated]) -> Result<(), MariadbError> {
    let begun = Instant::now();
    for &Rotated { key_id, new_version, .. } in keys {
        loop {
            let [spaces, version] = client.numbers(
                "the version in use",
                &format!(
                    "SELECT COUNT(*), MIN(CURRENT_KEY_VERSION) \
                     FROM information_schema.INNODB_TABLESPACES_ENCRYPTION \
                     WHERE CURRENT_KEY_ID = {key_id} AND ENCRYPTION_SCHEME = 1"
                ),
            )?;
            if spaces == 0 || version >= u64::from(new_version) {
                break;
            }
            if begun.elapsed() > SEEN_WITHIN {
                return Err(MariadbError::NotSeen { id: key_id, version: new_version });
            }
            sleep(POLL);
        }
    }
    Ok(())
}

/// Waits until no tablespace has pages that the server would re-encrypt. None is then under a
/// version that existed before.
fn wait(
    client: &Client<'_>,
    keys: &[Rotated],
    age: u32,
    progress: &dyn Progress,
) -> Result<(), MariadbError> {
    let sql = progress_sql(keys, age);
    let mut last = None;
    let mut moved = Instant::now();
    loop {
        let now: [u64; 4] = client.numbers("the rotation's progress", &sql)?;
        let [spaces, left, page, pages] = now;
        let within = (pages > 0).then_some((page, pages));
        progress.rotated(spaces.saturating_sub(left), spaces, within);
        if left == 0 {
            progress.ends();
            return Ok(());
        }
        if last != Some(now) {
            (last, moved) = (Some(now), Instant::now());
        }
        if moved.elapsed() > STALLED_AFTER {
            return Err(MariadbError::Stalled { seconds: STALLED_AFTER.as_secs(), left });
        }
        sleep(POLL);
    }
}

/// Returns a query for the tablespaces of these keys, the number that are not done, and the
/// position of the threads. Tablespaces are not done if their oldest page is too old or in the
/// clear (version 0), if they are being rotated or flushed, and, for the server's default key, if
/// their encryption has not started.
fn progress_sql(keys: &[Rotated], age: u32) -> String {
    let each = |of: &dyn Fn(&Rotated) -> String, between: &str| {
        keys.iter().map(of).collect::<Vec<_>>().join(between)
    };
    let ids = each(&|key| key.key_id.to_string(), ", ");
    let behind = each(
        &|Rotated { key_id, new_version, .. }| {
            format!("CURRENT_KEY_ID = {key_id} AND MIN_KEY_VERSION + {age} < {new_version}")
        },
        " OR ",
    );
    let waiting = match keys.iter().any(|key| key.key_id == SYSTEM_KEY_ID) {
        true => {
            "ENCRYPTION_SCHEME = 0 AND \
             (@@innodb_encrypt_tables = 'FORCE' OR COALESCE(CURRENT_KEY_ID, 0) = 0)"
        }
        false => "FALSE",
    };
    format!(
        "SELECT COUNT(*), COALESCE(SUM({waiting} OR {behind} OR ROTATING_OR_FLUSHING > 0), 0), \
         COALESCE(SUM(KEY_ROTATION_PAGE_NUMBER), 0), \
         COALESCE(SUM(KEY_ROTATION_MAX_PAGE_NUMBER), 0) \
         FROM information_schema.INNODB_TABLESPACES_ENCRYPTION \
         WHERE (ENCRYPTION_SCHEME = 1 AND CURRENT_KEY_ID IN ({ids})) OR ({waiting})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_server_from_rotating_is_told() {
        let rotating = |age, threads, tables| Rotation { age, threads, tables }.why_not();
        assert!(rotating(1, 4, true).is_none());
        assert!(rotating(0, 4, true).unwrap().contains("rotate_key_age"));
        assert!(rotating(1, 4, false).unwrap().contains("encrypt_tables"));
        assert!(rotating(1, 0, true).unwrap().contains("encryption_threads"));
    }

    #[test]
    fn tablespaces_in_the_clear_are_waited_for() {
        let key = |key_id| Rotated { key_id, old_version: 1, new_version: 3 };
        let all = progress_sql(&[key(1), key(17)], 1);
        assert!(!all.contains("MIN_KEY_VERSION > 0"), "{all}");
        assert!(all.contains("MIN_KEY_VERSION + 1 < 3 OR CURRENT_KEY_ID = 17"), "{all}");
        assert!(all.contains("ENCRYPTION_SCHEME = 0"), "{all}");
        let one = progress_sql(&[key(17)], 1);
        assert!(!one.contains("ENCRYPTION_SCHEME = 0"), "the server takes no other key: {one}");
    }
}
