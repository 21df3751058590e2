//! Access control: passwords, lockout, and nothing that reveals whether a name exists.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tdekit_key_crypto::password::PasswordParams;
use tdekit_key_crypto::{SecretBytes, hmac_sha256, verify_hmac_sha256};

use crate::answer::lock;
use crate::error::EndpointError;
use crate::login_file::Stamp;
use crate::logins::{Entry, Logins, folded};

/// Number of consecutive wrong passwords after which a name is locked for an address.
pub(crate) const FAILURES_TO_LOCK: u32 = 5;
/// Duration of the first lock; each further failure doubles it.
const FIRST_LOCK: Duration = Duration::from_secs(15);
const LONGEST_LOCK: Duration = Duration::from_secs(900);
/// Maximum number of names, each with an address, whose failures are remembered; those with the
/// oldest failures are forgotten first.
const MAX_REMEMBERED: usize = 10_000;

/// Checks logins.
pub(crate) struct Guard {
    path: PathBuf,
    state: Mutex<State>,
    /// Stands in for a login that does not exist.
    nobody: Entry,
    /// Key for the digests of correct passwords, which are in memory only.
    key: SecretBytes,
}

struct State {
    logins: Logins,
    modified: Option<Stamp>,
    /// Failures by name and address: a guesser, or a client with an old password, locks out no
    /// other address.
    failures: HashMap<(String, IpAddr), Failures>,
    /// Correct passwords: a frequent login derives its key once.
    right: HashMap<String, Right>,
}

/// A password that was correct.
struct Right {
    /// The stamp of its login at that time.
    stamp: [u8; 16],
    digest: [u8; 32],
    /// Addresses it came from. It is accepted from there even while the name is locked for the
    /// address, which may be that of several clients, one of which has an old password.
    addresses: HashSet<IpAddr>,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    fn locked_for(self) -> Duration {
        match self.count.checked_sub(FAILURES_TO_LOCK) {
            None => Duration::ZERO,
            Some(beyond) => FIRST_LOCK.saturating_mul(1 << beyond.min(16)).min(LONGEST_LOCK),
        }
    }
}

impl Guard {
    pub(crate) fn new(path: PathBuf) -> Result<Self, EndpointError> {
        // The stamp first: what is written in between is read again.
        let modified = Stamp::of(&path);
        let logins = Logins::open(&path)?;
        Ok(Guard {
            path,
            state: Mutex::new(State {
                logins,
                modified,
                failures: HashMap::new(),
                right: HashMap::new(),
            }),
            nobody: Entry::new("", "no password fits", PasswordParams::default())?,
            key: SecretBytes::random(32)?,
        })
    }

    /// Checks the login's password; returns the login's name as it is stored. Takes the same time
    /// for a name that does not exist, for a wrong password and for a locked name.
    pub(crate) fn check(
        &self,
        name: &str,
        password: &str,
        address: IpAddr,
    ) -> Result<Option<String>, EndpointError> {
        let folded = folded(name);
        let (entry, locked) = {
            let mut state = lock(&self.state);
            state.refresh(&self.path)?;
            (state.logins.find(name).cloned(), state.locked(&folded, address))
        };
        let digest = self.digest(&folded, password);
        if let Some(entry) = &entry
            && self.was_right(&folded, entry, &digest, locked.then_some(address))
        {
            return Ok(Some(entry.name().to_owned()));
        }
        let asked = entry.as_ref().filter(|_| !locked).unwrap_or(&self.nobody);
        let fits = asked.fits(password)?;
        let mut state = lock(&self.state);
        match entry {
            Some(entry) if fits && !locked => {
                state.failures.remove(&(folded.clone(), address));
                state.note_right(folded, entry.stamp(), digest, address);
                Ok(Some(entry.name().to_owned()))
            }
            _ => {
                state.note_failure(folded, address);
                Ok(None)
            }
        }
    }

    /// Returns true if the password is known to be correct without deriving a key.
    pub(crate) fn knows(&self, name: &str, password: &str, address: IpAddr) -> bool {
        let folded = folded(name);
        let (entry, locked) = {
            let mut state = lock(&self.state);
            if state.refresh(&self.path).is_err() {
                return false;
            }
            (state.logins.find(name).cloned(), state.locked(&folded, address))
        };
        let digest = self.digest(&folded, password);
        let from = locked.then_some(address);
        entry.is_some_and(|entry| self.was_right(&folded, &entry, &digest, from))
    }

    /// Records a login whose client did not wait for its check as a wrong password.
    pub(crate) fn given_up(&self, name: &str, address: IpAddr) {
        lock(&self.state).note_failure(folded(name), address);
    }

    fn digest(&self, folded: &str, password: &str) -> [u8; 32] {
        let length = (folded.len() as u64).to_le_bytes();
        hmac_sha256(self.key.expose(), &[&length, folded.as_bytes(), password.as_bytes()])
    }

    /// Returns true if the password was correct before, and came from this address if one is
    /// required.
    fn was_right(
        &self,
        folded: &str,
        entry: &Entry,
        digest: &[u8; 32],
        from: Option<IpAddr>,
    ) -> bool {
        let state = lock(&self.state);
        let Some(right) = state.right.get(folded) else { return false };
        if from.is_some_and(|address| !right.addresses.contains(&address)) {
            return false;
        }
        // Compared by their MACs, so that timing reveals nothing about them.
        let mac = hmac_sha256(self.key.expose(), &[&right.digest]);
        right.stamp == entry.stamp() && verify_hmac_sha256(self.key.expose(), &[digest], &mac)
    }
}

impl State {
    /// Reads the list again if it has been written.
    fn refresh(&mut self, path: &std::path::Path) -> Result<(), EndpointError> {
        let now = Stamp::of(path);
        if now != self.modified {
            self.logins = Logins::open(path)?;
            self.modified = now;
            let Self { logins, right, .. } = self;
            // Of logins that did not change: a client keeps its way past a lock.
            right.retain(|name, known| {
                logins.find(name).is_some_and(|entry| entry.stamp() == known.stamp)
            });
        }
        Ok(())
    }

    fn locked(&self, folded: &str, address: IpAddr) -> bool {
        let failures = self.failures.get(&(folded.to_owned(), address));
        failures.is_some_and(|failed| failed.last.elapsed() < failed.locked_for())
    }

    fn note_right(&mut self, folded: String, stamp: [u8; 16], digest: [u8; 32], from: IpAddr) {
        let kept = self.right.entry(folded).or_insert_with(|| Right {
            stamp,
            digest,
            addresses: HashSet::new(),
        });
        if (kept.stamp, kept.digest) != (stamp, digest) {
            *kept = Right { stamp, digest, addresses: HashSet::new() };
        }
        if kept.addresses.len() < MAX_REMEMBERED {
            kept.addresses.insert(from);
        }
    }

    /// Records a wrong password. One for a locked name does not extend the lock.
    fn note_failure(&mut self, folded: String, address: IpAddr) {
        if self.locked(&folded, address) {
            return;
        }
        let whose = (folded, address);
        if self.failures.len() >= MAX_REMEMBERED && !self.failures.contains_key(&whose) {
            let oldest = self.failures.iter().min_by_key(|(_, failed)| failed.last);
            if let Some(oldest) = oldest.map(|(whose, _)| whose.clone()) {
                self.failures.remove(&oldest);
            }
        }
        let now = Instant::now();
        let failures = self.failures.entry(whose).or_insert(Failures { count: 0, last: now });
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn guard() -> (tempfile::TempDir, Guard) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logins.json");
        Logins::open(&path).unwrap().set("sa", "correct horse").unwrap();
        let guard = Guard::new(path).unwrap();
        (dir, guard)
    }

    #[test]
    fn only_the_right_password_fits() {
        let (_dir, guard) = guard();
        assert_eq!(guard.check("SA", "correct horse", HOME).unwrap().as_deref(), Some("sa"));
        assert_eq!(guard.check("sa", "correct horse", HOME).unwrap().as_deref(), Some("sa"));
        assert_eq!(guard.check("sa", "wrong horse", HOME).unwrap(), None);
        assert_eq!(guard.check("nobody", "no password fits", HOME).unwrap(), None);
    }

    #[test]
    fn a_name_is_locked_after_failures_whether_it_exists_or_not() {
        let (_dir, guard) = guard();
        for name in ["sa", "nobody"] {
            for _ in 0..FAILURES_TO_LOCK {
                assert_eq!(guard.check(name, "wrong", HOME).unwrap(), None);
            }
            assert_eq!(guard.check(name, "correct horse", HOME).unwrap(), None, "{name}");
        }
        // The lock expires.
        let long_ago = Instant::now().checked_sub(FIRST_LOCK).unwrap();
        lock(&guard.state).failures.get_mut(&("sa".to_owned(), HOME)).unwrap().last = long_ago;
        assert!(guard.check("sa", "correct horse", HOME).unwrap().is_some());
    }

    #[test]
    fn a_lock_keeps_out_no_other_address_and_nobody_whose_password_was_right() {
        let (_dir, guard) = guard();
        for _ in 0..2 * FAILURES_TO_LOCK {
            // As clients do that hang up at once.
            guard.given_up("SA", ELSEWHERE);
        }
        assert_eq!(guard.check("sa", "correct horse", ELSEWHERE).unwrap(), None);
        assert!(guard.check("sa", "correct horse", HOME).unwrap().is_some());
        assert!(!guard.knows("sa", "correct horse", ELSEWHERE));
        // A client of the same host with an old password.
        for _ in 0..2 * FAILURES_TO_LOCK {
            assert_eq!(guard.check("sa", "wrong horse", HOME).unwrap(), None);
        }
        assert!(guard.knows("sa", "correct horse", HOME));
        // Other logins come and go.
        let mut logins = Logins::open(&guard.path).unwrap();
        logins.set("bob", "battery staple").unwrap();
        lock(&guard.state).modified = None;
        assert!(guard.knows("sa", "correct horse", HOME));
        assert!(guard.check("sa", "correct horse", HOME).unwrap().is_some());
        assert_eq!(guard.check("sa", "wrong horse", HOME).unwrap(), None);
    }

    #[test]
    fn a_new_password_ends_the_old_one() {
        let (dir, guard) = guard();
        assert!(guard.check("sa", "correct horse", HOME).unwrap().is_some());
        let path = dir.path().join("logins.json");
        let mut logins = Logins::open(&path).unwrap();
        logins.set("SA", "battery staple").unwrap();
        assert_eq!(logins.names(), ["sa"]);
        lock(&guard.state).modified = None;
        assert_eq!(guard.check("sa", "correct horse", HOME).unwrap(), None);
        assert!(guard.check("sa", "battery staple", HOME).unwrap().is_some());
    }

    #[test]
    fn bad_logins_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logins.json");
        let mut logins = Logins::open(&path).unwrap();
        assert!(logins.set("", "long enough").is_err());
        assert!(logins.set("sa", "short").is_err());
        assert!(matches!(logins.remove("sa"), Err(EndpointError::NoLogin { .. })));
        std::fs::write(&path, b"{}").unwrap();
        assert!(matches!(Logins::open(&path), Err(EndpointError::Logins { .. })));
    }
    #[test]
    fn a_list_without_roles_has_sysadmins_only_and_keeps_one() {
        let (dir, guard) = guard();
        let text = std::fs::read_to_string(&guard.path).unwrap();
        let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
        let entry = old["logins"][0].as_object_mut().unwrap();
        assert!(entry.remove("sid").is_some() && entry.remove("sysadmin").is_some());
        let path = dir.path().join("old.json");
        std::fs::write(&path, serde_json::to_vec(&old).unwrap()).unwrap();
        assert!(matches!(Logins::open(&path), Err(EndpointError::Logins { .. })));
        old["version"] = 1.into();
        std::fs::write(&path, serde_json::to_vec(&old).unwrap()).unwrap();
        let mut logins = Logins::open(&path).unwrap();
        let sa = logins.named("SA").unwrap();
        assert!(sa.sysadmin && sa.sid.len() == 32);
        assert_eq!(Logins::open(&path).unwrap().named("sa").unwrap(), sa);
        assert!(matches!(logins.remove("sa"), Err(EndpointError::LastSysadmin { .. })));
        let demoted = logins.set_sysadmin("sa", false);
        assert!(matches!(demoted, Err(EndpointError::LastSysadmin { .. })));
        logins.add("ann", "battery staple", false).unwrap();
        assert!(matches!(
            logins.add("ANN", "battery staple", true),
            Err(EndpointError::LoginExists { .. })
        ));
        assert!(logins.remove("sa").is_err());
        let ann = logins.named("ann").unwrap();
        logins.set("ann", "correct horse").unwrap();
        assert_eq!(logins.named("ann").unwrap(), ann, "a new password changes no rights");
        logins.set_sysadmin("ann", true).unwrap();
        logins.remove("sa").unwrap();
        logins.add("sa", "correct horse", false).unwrap();
        let again = Logins::open(&path).unwrap().named("sa").unwrap();
        assert!(!again.sysadmin && again.sid != sa.sid);
    }
}
