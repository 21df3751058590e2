//! Holders and waiters: application locks (`sp_getapplock`), and the databases' write locks. A
//! session takes a database's write lock here before it takes SQLite's, so that sessions get it in
//! the order of their requests, each woken when its turn comes; SQLite's own lock then only matters
//! between processes. A deadlock is found before the wait begins.
//!
//! Modes and their compatibility are SQL Server's (Transaction Locking and Row Versioning Guide,
//! lock compatibility).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::thread::Thread;
use std::time::Instant;

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
    /// Returns the mode by its name in `sp_getapplock`.
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

    /// Returns its name in `wait_type`.
    fn wait_type(self) -> &'static str {
        match self {
            Mode::IntentShared => "LCK_M_IS",
            Mode::Shared => "LCK_M_S",
            Mode::Update => "LCK_M_U",
            Mode::IntentExclusive => "LCK_M_IX",
            Mode::Exclusive => "LCK_M_X",
        }
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

/// The resource of an application lock: the database, the principal, the client's name for it,
/// which is case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Resource {
    pub(crate) database: String,
    pub(crate) principal: String,
    pub(crate) name: String,
}

/// One session's hold on a resource: the modes of all its calls, and their number.
#[derive(Debug)]
struct Grant {
    session: u64,
    owner: Owner,
    modes: Vec<Mode>,
    calls: u32,
}

/// A lock that a session requests: an application lock, or the write locks of all these databases
/// at once.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    Application(Resource, Mode, Owner),
    Databases(Vec<String>),
}

/// A waiting session.
#[derive(Debug)]
struct Waiting {
    session: u64,
    wanted: Wanted,
    thread: Thread,
    since: Instant,
}

/// A wait as seen by others: sessions by their numbers for clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) wait_type: &'static str,
    pub(crate) since: Instant,
    /// The session that holds the lock or gets it first; none if another process holds it.
    pub(crate) blocker: Option<u16>,
}

/// All locks and waits of an engine's sessions, by numbers of the engine.
#[derive(Debug, Default)]
pub(super) struct Known {
    sessions: u64,
    spids: HashMap<u64, u16>,
    tickets: u64,
    grants: HashMap<Resource, Vec<Grant>>,
    writers: HashMap<String, u64>,
    /// By tickets: lower ones came earlier.
    waiting: BTreeMap<u64, Waiting>,
    ticket_of: HashMap<u64, u64>,
}

impl Known {
    pub(super) fn enter(&mut self, spid: u16) -> u64 {
        self.sessions += 1;
        self.spids.insert(self.sessions, spid);
        self.sessions
    }

    pub(super) fn leave(&mut self, session: u64) {
        self.spids.remove(&session);
    }

    /// Grants a session the lock that it wants, unless others block it.
    pub(super) fn take(&mut self, session: u64, wanted: &Wanted) -> bool {
        let ticket = self.ticket_of.get(&session).copied();
        if !self.before(ticket, session, wanted).is_empty() {
            return false;
        }
        match wanted {
            Wanted::Application(resource, mode, owner) => {
                self.grant(session, *owner, resource, *mode);
            }
            Wanted::Databases(wanted) => {
                self.writers.extend(wanted.iter().map(|name| (name.clone(), session)));
            }
        }
        true
    }

    /// Adds a session to those that wait. Returns false if it would wait, through others, for
    /// itself.
    pub(super) fn wait(&mut self, session: u64, wanted: Wanted, thread: Thread) -> bool {
        self.tickets += 1;
        let since = Instant::now();
        self.waiting.insert(self.tickets, Waiting { session, wanted, thread, since });
        self.ticket_of.insert(session, self.tickets);
        let circular = self.holds_any(session) && self.is_circular(session);
        if circular {
            self.end_wait(session);
        }
        !circular
    }

    /// Ends a session's wait; sessions that can proceed in its place are woken.
    pub(super) fn end_wait(&mut self, session: u64) {
        let Some(ticket) = self.ticket_of.remove(&session) else { return };
        match self.waiting.remove(&ticket).map(|own| own.wanted) {
            Some(Wanted::Databases(names)) => self.wake_writers(&names),
            Some(Wanted::Application(..)) => self.wake_applications(),
            None => {}
        }
    }

    /// Releases an application lock, once for each time it was taken. Returns false if it is not
    /// held.
    pub(super) fn release(&mut self, session: u64, resource: &Resource, owner: Owner) -> bool {
        let Some(grants) = self.grants.get_mut(resource) else { return false };
        let own = |grant: &Grant| grant.session == session && grant.owner == owner;
        let Some(at) = grants.iter().position(own) else { return false };
        grants[at].calls -= 1;
        if grants[at].calls == 0 {
            grants.swap_remove(at);
        }
        if grants.is_empty() {
            self.grants.remove(resource);
        }
        self.wake_applications();
        true
    }

    /// Releases the application locks that end with the transaction, or all.
    pub(super) fn release_all(&mut self, session: u64, owner: Option<Owner>) {
        if self.grants.is_empty() {
            return;
        }
        self.grants.retain(|_, grants| {
            grants.retain(|grant| {
                grant.session != session || owner.is_some_and(|owner| grant.owner != owner)
            });
            !grants.is_empty()
        });
        self.wake_applications();
    }

    /// Releases the write locks of databases for which `kept` is false; returns those that remain.
    pub(super) fn release_writes(
        &mut self,
        session: u64,
        held: &[String],
        kept: &dyn Fn(&str) -> bool,
    ) -> Vec<String> {
        let (stay, go): (Vec<_>, Vec<_>) = held.iter().cloned().partition(|name| kept(name));
        for name in &go {
            if self.writers.get(name) == Some(&session) {
                self.writers.remove(name);
            }
        }
        self.wake_writers(&go);
        stay
    }

    /// Returns the waits of all sessions, by the sessions' numbers for clients.
    pub(super) fn waits(&self) -> HashMap<u16, Seen> {
        let spid_of = |session: &u64| self.spids.get(session).copied();
        let seen = |(ticket, own): (&u64, &Waiting)| {
            let before = self.before(Some(*ticket), own.session, &own.wanted);
            let wait_type = match &own.wanted {
                Wanted::Application(_, mode, _) => mode.wait_type(),
                Wanted::Databases(_) => Mode::Exclusive.wait_type(),
            };
            let blocker = before.first().and_then(spid_of);
            Some((spid_of(&own.session)?, Seen { wait_type, since: own.since, blocker }))
        };
        self.waiting.iter().filter_map(seen).collect()
    }

    /// Returns the sessions whose locks or earlier requests block this one: holders come first. A
    /// session without a ticket came last.
    fn before(&self, ticket: Option<u64>, session: u64, wanted: &Wanted) -> Vec<u64> {
        let ticket = ticket.unwrap_or(u64::MAX);
        match wanted {
            Wanted::Application(resource, mode, _) => {
                self.before_application(ticket, session, resource, *mode)
            }
            Wanted::Databases(wanted) => self.before_writes(ticket, session, wanted),
        }
    }

    fn before_application(
        &self,
        ticket: u64,
        session: u64,
        resource: &Resource,
        mode: Mode,
    ) -> Vec<u64> {
        let grants = self.grants.get(resource).map_or(&[][..], Vec::as_slice);
        let against = |grant: &&Grant| {
            grant.session != session && grant.modes.iter().any(|held| !held.goes_with(mode))
        };
        let mut found: Vec<u64> =
            grants.iter().filter(against).map(|grant| grant.session).collect();
        // a session that holds it already need not queue for more
        if !grants.iter().any(|grant| grant.session == session) {
            for (_, other) in self.waiting.range(..ticket) {
                if let Wanted::Application(wanted, earlier, _) = &other.wanted
                    && wanted == resource
                    && !earlier.goes_with(mode)
                {
                    found.push(other.session);
                }
            }
        }
        found
    }

    /// Of the earlier ones, only the last for each database: it waits for the others itself.
    fn before_writes(&self, ticket: u64, session: u64, wanted: &[String]) -> Vec<u64> {
        let held = wanted.iter().filter_map(|name| self.writers.get(name));
        let mut found: Vec<u64> = held.filter(|holder| **holder != session).copied().collect();
        // a session that others may wait for does not queue after them
        if self.writers.values().any(|holder| *holder == session) {
            return found;
        }
        let mut open: Vec<&String> = wanted.iter().collect();
        for (_, other) in self.waiting.range(..ticket).rev() {
            if open.is_empty() {
                break;
            }
            let Wanted::Databases(theirs) = &other.wanted else { continue };
            let before = open.len();
            open.retain(|name| !theirs.contains(name));
            if open.len() < before {
                found.push(other.session);
            }
        }
        found
    }

    fn holds_any(&self, session: u64) -> bool {
        self.writers.values().any(|holder| *holder == session)
            || self.grants.values().flatten().any(|grant| grant.session == session)
    }

    /// Returns true if a session waits, through other waiting sessions, for itself.
    fn is_circular(&self, session: u64) -> bool {
        let mut seen = HashSet::from([session]);
        let mut next = vec![session];
        while let Some(at) = next.pop() {
            let Some(ticket) = self.ticket_of.get(&at) else { continue };
            let Some(waiting) = self.waiting.get(ticket) else { continue };
            for blocker in self.before(Some(*ticket), at, &waiting.wanted) {
                if blocker == session {
                    return true;
                }
                if seen.insert(blocker) {
                    next.push(blocker);
                }
            }
        }
        false
    }

    /// Wakes the sessions that wait for these databases and have none before them.
    fn wake_writers(&self, freed: &[String]) {
        let free = |name: &&String| !self.writers.contains_key(*name);
        let mut open: Vec<&String> = freed.iter().filter(free).collect();
        for (ticket, other) in &self.waiting {
            if open.is_empty() {
                return;
            }
            let Wanted::Databases(theirs) = &other.wanted else { continue };
            if !theirs.iter().any(|name| freed.contains(name)) {
                continue;
            }
            if self.before_writes(*ticket, other.session, theirs).is_empty() {
                other.thread.unpark();
                open.retain(|name| !theirs.contains(name));
            }
        }
    }

    fn wake_applications(&self) {
        for other in self.waiting.values() {
            if matches!(other.wanted, Wanted::Application(..)) {
                other.thread.unpark();
            }
        }
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
