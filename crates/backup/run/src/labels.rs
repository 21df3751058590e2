//! The user and the machine that a set's header names.

use std::env;
use std::fs;

use tdekit_key_store::now_seconds;

/// Milliseconds since 1970.
#[must_use]
pub fn now_ms() -> i64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(_) => now_seconds().saturating_mul(1000),
    }
}

/// Returns the name of this machine; empty if the system does not report it.
#[must_use]
pub fn host() -> String {
    let told = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match told.trim() {
        "" => env::var("HOSTNAME").unwrap_or_default(),
        name => name.to_owned(),
    }
}

/// Returns the name of the user that this process runs as; its number if it has no name.
#[must_use]
pub fn user() -> String {
    let uid = rustix::process::getuid().as_raw();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_of(uid, &users).unwrap_or_else(|| format!("uid {uid}"))
}

/// Returns name and version of the program that writes media sets.
#[must_use]
pub fn program() -> String {
    concat!("tdekit ", env!("CARGO_PKG_VERSION")).to_owned()
}

fn name_of(uid: u32, users: &str) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_user_by_number() {
        let users =
            "root:x:0:0:r:/:/bin/sh\nbroken\n:x:7:7::/:\nann:x:1000:1000::/home/ann:/bin/sh";
        assert_eq!(name_of(1000, users).as_deref(), Some("ann"));
        assert_eq!(name_of(0, users).as_deref(), Some("root"));
        assert_eq!((name_of(7, users), name_of(8, users)), (None, None));
        assert!(!user().is_empty() && now_ms() > 1_700_000_000_000);
    }
}
