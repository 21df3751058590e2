//! Who holds and who waits: application locks (`sp_getapplock`), and the databases' write locks,
//! which SQLite keeps, for as long as a session waits for one. A wait that would never end is
//! found before it begins.
//!
//! Modes and their compatibility are SQL Server's (Transaction Locking and Row Versioning Guide,
//! lock compatibility).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often somebody who waits looks whether the client has cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// A mode of an application lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    IntentShared,
    Shared,
    Update,
    IntentExclusive,
    Exclusive,
}

impl Mode {
    /// As `sp_getapplock` names it.
    pub(crate) fn named(name: &str) -> Option<Mode> {
        Some(match name.to_ascii_lowercase().as_str() {
            "intentshared" => Mode::IntentShared,
            "shared" => Mode::Shared,
            "update" => Mode::Update,
            "intentexclusive" => Mode::IntentExclusive,
            "exclusive" => Mode::Exclusive,
            _ => return None,
        })
    }

    fn goes_with(self, other: Mode) -> bool {
        use Mode::{Exclusive, IntentExclusive, IntentShared, Shared, Update};
        match (self, other) {
            (Exclusive, _) | (_, Exclusive) => false,
            (IntentShared, _) | (_, IntentShared) => true,
            (IntentExclusive, other) | (other, IntentExclusive) => other == IntentExclusive,
            (Update, other) | (other, Update) => other == Shared,
            (Shared, Shared) => true,
        }
    }
}

/// The scope that ends an application lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Transaction,
    Session,
}

/// The resource of an application lock: the database, the principal, the name that the client gave,
/// whose letters count as they are written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Resource {
    pub(crate) database: String,
    pub(crate) principal: String,
    pub(crate) name: String,
}

/// The outcome of asking for an application lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted { waited: bool },
    TimedOut,
    Cancelled,
    Deadlock,
}

/// One session's hold on a resource: the modes of all its calls, and how many they were.
#[derive(Debug)]
struct Grant {
    session: u64,
    owner: Owner,
    modes: Vec<Mode>,
    calls: u32,
}

#[derive(Debug)]
enum Wanted {
    Application(Resource, Mode),
    Databases(Vec<String>),
}

/// A session that waits; the lower the ticket, the earlier it came.
#[derive(Debug)]
struct Waiting {
    session: u64,
    wanted: Wanted,
    /// Databases whose write locks it has.
    holds: Vec<String>,
}

#[derive(Debug, Default)]
struct Known {
    sessions: u64,
    tickets: u64,
    grants: HashMap<Resource, Vec<Grant>>,
    waiting: BTreeMap<u64, Waiting>,
}

impl Known {
    /// Sessions whose grants, or whose earlier wish, stand against this one.
    fn before(&self, ticket: u64, session: u64, resource: &Resource, mode: Mode) -> Vec<u64> {
        let grants = self.grants.get(resource).map_or(&[][..], Vec::as_slice);
        let against = |grant: &&Grant| {
            grant.session != session && grant.modes.iter().any(|held| !held.goes_with(mode))
        };
        let mut found: Vec<u64> =
            grants.iter().filter(against).map(|grant| grant.session).collect();
        // who holds it already need not queue for more
        if !grants.iter().any(|grant| grant.session == session) {
            for (_, other) in self.waiting.range(..ticket) {
                if let Wanted::Application(wanted, earlier) = &other.wanted
                    && wanted == resource
                    && !earlier.goes_with(mode)
                {
                    found.push(other.session);
                }
            }
        }
        found
    }

    /// Sessions that this one waits for.
    fn blockers(&self, ticket: u64, waiting: &Waiting) -> Vec<u64> {
        match &waiting.wanted {
            Wanted::Application(resource, mode) => {
                self.before(ticket, waiting.session, resource, *mode)
            }
            Wanted::Databases(wanted) => self
                .waiting
                .values()
                .filter(|other| other.session != waiting.session)
                .filter(|other| other.holds.iter().any(|held| wanted.contains(held)))
                .map(|other| other.session)
                .collect(),
        }
    }

    /// Whether a session waits, over others who wait, for itself.
    fn circular(&self, session: u64) -> bool {
        let mut seen = vec![session];
        let mut next = vec![session];
        while let Some(at) = next.pop() {
            let Some((ticket, waiting)) = self.waiting.iter().find(|(_, one)| one.session == at)
            else {
                continue;
            };
            for blocker in self.blockers(*ticket, waiting) {
                if blocker == session {
                    return true;
                }
                if !seen.contains(&blocker) {
                    seen.push(blocker);
                    next.push(blocker);
                }
            }
        }
        false
    }

    fn wait(&mut self, waiting: Waiting) -> u64 {
        self.tickets += 1;
        self.waiting.insert(self.tickets, waiting);
        self.tickets
    }

    fn grant(&mut self, session: u64, owner: Owner, resource: &Resource, mode: Mode) {
        let grants = self.grants.entry(resource.clone()).or_default();
        let own = grants.iter_mut().find(|own| own.session == session && own.owner == owner);
        match own {
            Some(own) => {
                own.calls = own.calls.saturating_add(1);
                if !own.modes.contains(&mode) {
                    own.modes.push(mode);
                }
            }
            None => grants.push(Grant { session, owner, modes: vec![mode], calls: 1 }),
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<Known>,
    changed: Condvar,
}

/// The locks of an engine's sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Locks(Arc<Shared>);

/// A session's part in them; its locks are released with it.
#[derive(Debug)]
pub(crate) struct Holder {
    all: Locks,
    session: u64,
}

/// A session's wait for databases, which others see while it lives.
#[derive(Debug)]
pub(crate) struct Wait {
    all: Locks,
    ticket: u64,
}

impl Locks {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self) -> Holder {
        let mut known = self.known();
        known.sessions += 1;
        Holder { all: self.clone(), session: known.sessions }
    }
}

impl Holder {
    /// Takes an application lock, waiting as long as `limit` says (None for ever). `holds` are
    /// the databases whose write locks the session has.
    pub(crate) fn acquire(
        &self,
        (resource, mode, owner): (&Resource, Mode, Owner),
        limit: Option<Duration>,
        holds: Vec<String>,
        cancelled: &dyn Fn() -> bool,
    ) -> Outcome {
        let start = Instant::now();
        let mut known = self.all.known();
        let wanted = Wanted::Application(resource.clone(), mode);
        let ticket = known.wait(Waiting { session: self.session, wanted, holds });
        let mut waited = false;
        let outcome = loop {
            if known.before(ticket, self.session, resource, mode).is_empty() {
                known.grant(self.session, owner, resource, mode);
                break Outcome::Granted { waited };
            }
            if cancelled() {
                break Outcome::Cancelled;
            }
            if limit.is_some_and(|limit| start.elapsed() >= limit) {
                break Outcome::TimedOut;
            }
            if !waited && known.circular(self.session) {
                break Outcome::Deadlock;
            }
            waited = true;
            let left = limit.map_or(LOOK, |limit| limit.saturating_sub(start.elapsed()).min(LOOK));
            let woken = self.all.0.changed.wait_timeout(known, left);
            known = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        known.waiting.remove(&ticket);
        self.all.0.changed.notify_all();
        outcome
    }

    /// Gives an application lock back, once for each time it was taken. False if it is not held.
    pub(crate) fn release(&self, resource: &Resource, owner: Owner) -> bool {
        let mut known = self.all.known();
        let Some(grants) = known.grants.get_mut(resource) else { return false };
        let own = |grant: &Grant| grant.session == self.session && grant.owner == owner;
        let Some(at) = grants.iter().position(own) else { return false };
        grants[at].calls -= 1;
        if grants[at].calls == 0 {
            grants.swap_remove(at);
        }
        if grants.is_empty() {
            known.grants.remove(resource);
        }
        self.all.0.changed.notify_all();
        true
    }

    /// Releases the locks that end with the transaction, or all.
    pub(crate) fn release_all(&self, owner: Option<Owner>) {
        let mut known = self.all.known();
        if known.grants.is_empty() {
            return;
        }
        known.grants.retain(|_, grants| {
            grants.retain(|grant| {
                grant.session != self.session || owner.is_some_and(|owner| grant.owner != owner)
            });
            !grants.is_empty()
        });
        self.all.0.changed.notify_all();
    }

    /// Says that the session waits for databases while it holds others. None where those who hold
    /// them wait for this session in turn.
    pub(crate) fn wait(&self, wanted: Vec<String>, holds: Vec<String>) -> Option<Wait> {
        let mut known = self.all.known();
        let wanted = Wanted::Databases(wanted);
        let ticket = known.wait(Waiting { session: self.session, wanted, holds });
        if known.circular(self.session) {
            known.waiting.remove(&ticket);
            return None;
        }
        Some(Wait { all: self.all.clone(), ticket })
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.release_all(None);
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.all.known().waiting.remove(&self.ticket);
    }
}
