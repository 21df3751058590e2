//! `tdekit mariadb rotate`: new versions of keys, and the server's pages encrypted by them.
//!
//! The server encrypts a page anew when its version plus `innodb_encryption_rotate_key_age` is
//! below the newest one. So one version more than that age has to be made: with the age 1, which is
//! the default, two. Threads that wait for work are not told of a new version; to set the age, to
//! what it is, wakes them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use tdekit_key_store::Unlocked;

use crate::cli::GlobalArgs;
use crate::commands::mariadb::RotateArgs;
use crate::error::CommandError;
use crate::mariadb::client::Client;
use crate::mariadb::error::MariadbError;
use crate::mariadb::keys;
use crate::{output, session};

/// With a larger age the administrator did not mean that rotation happens.
const MAX_AGE: u32 = 100;
/// The server looks for new versions once a second.
const SEEN_WITHIN: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(300);
const STALLED_AFTER: Duration = Duration::from_mins(5);
const TEMPLATE: &str = "re-encrypted {bar:24} {pos}/{len} tablespaces  {msg}";

/// What a rotation did to one key.
#[derive(Debug, Serialize)]
struct Rotated {
    key_id: u32,
    old_version: u32,
    new_version: u32,
}

/// What a rotation did.
#[derive(Debug, Serialize)]
struct Outcome {
    keys: Vec<Rotated>,
    /// `false` where no server was named, or it was not waited for.
    re_encrypted: bool,
    /// Why the server does not encrypt its pages anew, where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_rotating: Option<&'static str>,
}

/// How the server rotates keys.
struct Rotation {
    age: u32,
    threads: u64,
    tables: bool,
}

/// Adds versions and waits for the server.
pub(crate) fn rotate(args: &RotateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_unlocked_store(global)?;
    let client = args.connection.client();
    if args.existing && client.is_none() {
        return Err(CommandError::Usage("--existing needs a server: name one by --socket".into()));
    }
    if let (Some(client), Some(threads)) = (&client, args.encryption_threads) {
        client.rows(&format!("SET GLOBAL innodb_encryption_threads = {threads}"))?;
    }
    let rotation = client.as_ref().map(Rotation::of).transpose()?;
    let age = rotation.as_ref().map_or(args.rotate_key_age, |rotation| rotation.age);
    let keys = add_versions(&store, args, age)?;
    let not_rotating = rotation.as_ref().and_then(Rotation::why_not);
    let mut outcome = Outcome { keys, re_encrypted: false, not_rotating };
    if !args.json && !args.existing {
        tell(&outcome.keys, age)?;
    }
    if let Some(client) = &client {
        seen(client, &outcome.keys)?;
        // Setting it wakes the threads; the value stays.
        client.rows(&format!("SET GLOBAL innodb_encryption_rotate_key_age = {age}"))?;
        if not_rotating.is_none() && !args.no_wait {
            wait(client, &outcome.keys, age, args.json)?;
            outcome.re_encrypted = true;
        }
    }
    if args.json {
        return output::json(&outcome);
    }
    match (outcome.re_encrypted, not_rotating, client.is_some()) {
        (true, ..) => output::line("Every page is under a new version."),
        (false, Some(why), _) => {
            output::warning(why);
            Ok(())
        }
        (false, None, true) => output::line("The server encrypts its pages anew from now on."),
        (false, None, false) => output::line(
            "No server was named: one that runs uses the new version in a second for what it \
             writes. Its other pages follow when its threads wake; --socket and --user have them \
             do it now.",
        ),
    }
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
    args: &RotateArgs,
    age: u32,
) -> Result<Vec<Rotated>, CommandError> {
    if age > MAX_AGE {
        return Err(MariadbError::RotateAge(age).into());
    }
    let known = keys::existing(store.store())?;
    let certificate = keys::certificate(args.certificate.as_deref(), store.store())?;
    let mut ids = args.key_id.clone();
    if ids.is_empty() {
        ids.extend(known.ids());
    }
    ids.sort_unstable();
    ids.dedup();
    let mut rotated = Vec::new();
    for id in ids {
        let old_version = known.latest(id).unwrap_or(0);
        let mut new_version = old_version;
        let count = if args.existing { 0 } else { age + 1 };
        for _ in 0..count {
            let keys = store.rotate_server_key(id, &certificate)?;
            new_version = keys.latest(id).unwrap_or(new_version);
        }
        rotated.push(Rotated { key_id: id, old_version, new_version });
    }
    output::warn_not_backed_up(store.store(), store.store().find(&certificate)?);
    Ok(rotated)
}

fn tell(keys: &[Rotated], age: u32) -> Result<(), CommandError> {
    for Rotated { key_id, old_version, new_version } in keys {
        output::line(format_args!("Key {key_id}: version {old_version} -> {new_version}"))?;
    }
    if age > 0 {
        output::line(format_args!(
            "{} versions each, as the server encrypts a page anew only when its version plus {age} \
             (innodb_encryption_rotate_key_age) is below the newest.",
            age + 1
        ))?;
    }
    output::line("Old versions stay: logs and backups need them.")
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

/// Waits until no tablespace has pages that the server would encrypt anew. None is then under a
/// version that was there before.
fn wait(client: &Client<'_>, keys: &[Rotated], age: u32, quiet: bool) -> Result<(), MariadbError> {
    let bar = match quiet {
        true => ProgressBar::hidden(),
        false => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
    };
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style);
    }
    let of_keys: Vec<_> = keys
        .iter()
        .map(|key| {
            let Rotated { key_id, new_version, .. } = key;
            format!("(CURRENT_KEY_ID = {key_id} AND MIN_KEY_VERSION + {age} < {new_version})")
        })
        .collect();
    let ids: Vec<_> = keys.iter().map(|key| key.key_id.to_string()).collect();
    let sql = format!(
        "SELECT COUNT(*), COALESCE(SUM({}), 0), COALESCE(SUM(KEY_ROTATION_PAGE_NUMBER), 0), \
         COALESCE(SUM(KEY_ROTATION_MAX_PAGE_NUMBER), 0) \
         FROM information_schema.INNODB_TABLESPACES_ENCRYPTION \
         WHERE ENCRYPTION_SCHEME = 1 AND MIN_KEY_VERSION > 0 AND CURRENT_KEY_ID IN ({})",
        of_keys.join(" OR "),
        ids.join(", ")
    );
    let mut last = None;
    let mut moved = Instant::now();
    loop {
        let now: [u64; 4] = client.numbers("the rotation's progress", &sql)?;
        let [spaces, left, page, pages] = now;
        bar.set_length(spaces);
        bar.set_position(spaces.saturating_sub(left));
        bar.set_message(if pages > 0 { format!("page {page}/{pages}") } else { String::new() });
        if left == 0 {
            bar.finish_and_clear();
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
}
