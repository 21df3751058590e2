//! The sessions of an endpoint: properties of their connections, and requests to them from others.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tdekit_wire_tds::memory::Account;
use tdekit_wire_tds::{Caller, Session};

use crate::answer::{Signals, lock};

/// The sessions of an endpoint, for callers that list them or need exclusive access to a database.
/// Clones share the list.
#[derive(Clone, Default)]
pub struct Sessions {
    list: Arc<Mutex<BTreeMap<u16, Weak<Held>>>>,
}

/// Properties of a session's connection.
#[derive(Debug, Clone)]
pub struct ConnectionFacts {
    /// Its login, and its encryption.
    pub caller: Caller,
    /// The client's address.
    pub client: SocketAddr,
    /// The server address that it connected to.
    pub server: SocketAddr,
    /// The version of TDS, as in LOGIN7.
    pub tds_version: u32,
    /// Packet size.
    pub packet_bytes: u16,
    /// Time of connection.
    pub connected: SystemTime,
    /// Reads of its socket that returned data.
    pub reads: Touches,
    /// Writes to its socket.
    pub writes: Touches,
}

/// Count and time of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touches {
    /// The count.
    pub count: u64,
    /// The last time.
    pub last: SystemTime,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("count", &lock(&self.list).len()).finish_non_exhaustive()
    }
}

impl Sessions {
    /// Returns the properties of every session's connection, by session ID.
    pub fn connections(&self) -> Vec<ConnectionFacts> {
        self.held().iter().map(|held| held.facts()).collect()
    }

    /// Makes every resting session close a database's files. A session that runs a request or has a
    /// transaction keeps them.
    pub fn release(&self, database: &str) {
        for held in self.held() {
            let mut session = match held.session.try_lock() {
                Ok(session) => session,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            let _work = held.account.work();
            session.release(database);
        }
    }

    /// Cancels a session's request, and ends its connection. Returns false if there is no such
    /// session.
    pub fn kill(&self, spid: u16) -> bool {
        let held = lock(&self.list).get(&spid).and_then(Weak::upgrade);
        let Some(held) = held else { return false };
        held.about.signals.cancel();
        // It may be closed already.
        let _gone = held.about.stream.shutdown(std::net::Shutdown::Both);
        true
    }

    pub(crate) fn add(
        &self,
        about: About,
        session: Box<dyn Session>,
        account: &Arc<Account>,
    ) -> Arc<Held> {
        let spid = about.caller.spid;
        let (session, account) = (Mutex::new(session), Arc::clone(account));
        let held = Arc::new(Held { about, session, account, list: self.clone() });
        lock(&self.list).insert(spid, Arc::downgrade(&held));
        held
    }

    fn held(&self) -> Vec<Arc<Held>> {
        lock(&self.list).values().filter_map(Weak::upgrade).collect()
    }
}

/// The fixed properties of a session's connection, and its traffic.
pub(crate) struct About {
    pub(crate) caller: Caller,
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    pub(crate) tds_version: u32,
    pub(crate) packet_bytes: u16,
    pub(crate) connected: SystemTime,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) stream: Arc<TcpStream>,
    pub(crate) signals: Arc<Signals>,
}

/// A session in the list, as long as its connection has it.
pub(crate) struct Held {
    about: About,
    /// Locked while a request runs.
    pub(crate) session: Mutex<Box<dyn Session>>,
    /// The memory that its connection and it hold.
    account: Arc<Account>,
    list: Sessions,
}

impl Held {
    fn facts(&self) -> ConnectionFacts {
        let About { caller, client, server, tds_version, packet_bytes, connected, traffic, .. } =
            &self.about;
        ConnectionFacts {
            caller: caller.clone(),
            client: *client,
            server: *server,
            tds_version: *tds_version,
            packet_bytes: *packet_bytes,
            connected: *connected,
            reads: traffic.reads.touches(),
            writes: traffic.writes.touches(),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut list = lock(&self.list.list);
        // The number may belong to another session by now.
        let spid = self.about.caller.spid;
        if list.get(&spid).is_some_and(|known| known.strong_count() == 0) {
            list.remove(&spid);
        }
    }
}

/// The traffic of a socket.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) reads: Counter,
    pub(crate) writes: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter {
    count: AtomicU64,
    /// Milliseconds since 1970.
    last_ms: AtomicU64,
}

impl Counter {
    pub(crate) fn touch(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now_ms, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn touches(&self) -> Touches {
        let last = UNIX_EPOCH + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        Touches { count: self.count.load(Ordering::Relaxed), last }
    }
}
