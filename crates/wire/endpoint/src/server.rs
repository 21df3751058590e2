//! The listener, and the thread in which idle connections wait.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::net::sockopt;
use tdekit_wire_tds::{Engine, memory};

use crate::allocator::give_back;
use crate::answer::lock;
use crate::channel::Channel;
use crate::config::{Config, Mode};
use crate::connection::{Connection, Shared, Step};
use crate::error::EndpointError;
use crate::guard::Guard;
use crate::pool::{Bounds, Pool, call};
use crate::sessions::Sessions;
use crate::spids::Spids;
use crate::ticker::Ticker;
use crate::tls::TlsOffer;

const LISTENER: u64 = 0;
const WAKER: u64 = 1;
const FIRST_CONNECTION: u64 = 2;
/// Interval at which late logins are checked.
const SWEEP: Duration = Duration::from_millis(500);
/// Time for which a worker waits for the client's next request before it returns the connection.
const LINGER: Duration = Duration::from_millis(20);
/// Interval at which a busy pool is checked for work that takes long.
const RELIEF: Duration = Duration::from_millis(20);
/// Number of threads per processor for requests of usual duration.
const WORKERS_A_PROCESSOR: usize = 4;
/// Number of threads that check logins: each takes 64 MiB for it.
const LOGIN_THREADS: usize = 2;
/// TCP keepalive times after which a client that does not answer is given up: a dead host, a cut
/// cable.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_COUNT: u32 = 5;
const UNANSWERED_MS: u32 = 60_000;
/// Maximum number of clients waiting to be accepted.
const BACKLOG: i32 = 4096;
/// Number of sessions put to rest after which returning memory is worth the time.
const RESTED_TO_GIVE_BACK: usize = 50;
/// Maximum number of sessions that are put to rest at a time.
const RESTING_AT_ONCE: usize = 500;
/// Number of clients beyond the limit of connections that get a message; more are turned away.
const TOLD: usize = 32;
/// Pause of the listener when the system has no more descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// A running endpoint. It stops when dropped.
pub struct Endpoint {
    hub: Arc<Hub>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// A connection with its number in the poller.
struct Entry {
    id: u64,
    connection: Connection,
    hub: Weak<Hub>,
    logging_in: bool,
    /// True while a worker is putting it to rest.
    resting: bool,
    /// True if it is counted as active.
    awake: bool,
}

struct Hub {
    shared: Arc<Shared>,
    poller: OwnedFd,
    waker: OwnedFd,
    parked: Mutex<HashMap<u64, Entry>>,
    workers: Pool<Entry>,
    checkers: Pool<Entry>,
    spids: Spids,
    connections: AtomicUsize,
    logging_in: AtomicUsize,
    /// Number of sessions that were not put to rest since their last request.
    awake: AtomicUsize,
    /// Number of sessions that were put to rest since memory was last returned.
    rested: AtomicUsize,
    stopping: AtomicBool,
}

impl Endpoint {
    /// Listens, and serves clients with `engine`. Connected sessions are listed in `sessions`.
    ///
    /// # Errors
    /// [`EndpointError`]: for the address, the certificate, the list of logins.
    pub fn start(
        config: Config,
        engine: Arc<dyn Engine>,
        sessions: Sessions,
    ) -> Result<Endpoint, EndpointError> {
        let tls = match (config.mode, &config.identity) {
            (Mode::Off, _) => None,
            (_, Some(files)) => Some(TlsOffer::load(files)?),
            (_, None) => {
                let reason = "there is no certificate".to_owned();
                return Err(EndpointError::Tls { reason });
            }
        };
        let guard = Guard::new(config.logins.clone())?;
        let ticker = Ticker::start()?;
        let (mode, limits) = (config.mode, config.limits.clone());
        let shared = Arc::new(Shared { engine, guard, tls, mode, limits, ticker, sessions });
        let listen = |source| EndpointError::Listen { address: config.listen.to_string(), source };
        let listener = TcpListener::bind(config.listen).map_err(listen)?;
        // Longer than the standard library's, for clients that arrive all at once.
        rustix::net::listen(&listener, BACKLOG).map_err(|error| listen(error.into()))?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let hub = Hub::new(shared, &config).map_err(|error| EndpointError::System {
            what: "what connections wait with",
            source: error.into(),
        })?;
        let refused = |error: rustix::io::Errno| EndpointError::System {
            what: "what connections wait with",
            source: error.into(),
        };
        let add = |fd: &dyn std::os::fd::AsFd, id| {
            epoll::add(&hub.poller, fd, EventData::new_u64(id), EventFlags::IN)
        };
        add(&listener, LISTENER).map_err(refused)?;
        add(&hub.waker, WAKER).map_err(refused)?;
        let own = Arc::clone(&hub);
        let thread = thread::Builder::new()
            .name("tds-poller".to_owned())
            .spawn(move || own.run(listener))
            .map_err(|source| EndpointError::System { what: "a thread", source })?;
        Ok(Endpoint { hub, address, thread: Some(thread) })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the current number of connections.
    pub fn connections(&self) -> usize {
        self.hub.connections.load(Ordering::Relaxed)
    }

    /// Accepts no more clients and requests, gives running ones their time, then cancels them.
    pub fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        self.hub.stopping.store(true, Ordering::Release);
        // The count is far from its limit: this does not block.
        let _woken = rustix::io::write(&self.hub.waker, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
        let limits = &self.hub.shared.limits;
        self.wait_for_requests(limits.stop);
        self.hub.shared.ticker.cancel_all();
        self.wait_for_requests(limits.stop);
        self.hub.workers.stop();
        self.hub.checkers.stop();
        // Dropped outside of the lock.
        drop(std::mem::take(&mut *lock(&self.hub.parked)));
        // Workers may still be closing sessions: their databases' logs are then copied and removed.
        let until = Instant::now() + limits.stop;
        while self.connections() > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn wait_for_requests(&self, most: Duration) {
        let until = Instant::now() + most;
        while self.hub.shared.ticker.running() > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.halt();
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.connection.session = None;
        if let Some(hub) = self.hub.upgrade() {
            hub.connections.fetch_sub(1, Ordering::Relaxed);
            hub.spids.give_back(self.connection.form.spid);
            if self.logging_in {
                hub.logging_in.fetch_sub(1, Ordering::Relaxed);
            }
            if self.awake {
                hub.awake.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn is_unwanted(connection: &Connection) -> bool {
    connection.is_late() || connection.gives_up_login()
}

impl Hub {
    fn new(shared: Arc<Shared>, config: &Config) -> rustix::io::Result<Arc<Hub>> {
        let poller = epoll::create(CreateFlags::CLOEXEC)?;
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let limits = &config.limits;
        let bounds = Bounds {
            usual: limits.workers.min(WORKERS_A_PROCESSOR * processors()),
            working: limits.workers,
            waiting: limits.awake,
        };
        let logins =
            Bounds { usual: LOGIN_THREADS, working: LOGIN_THREADS, waiting: limits.logging_in };
        let (for_workers, for_logins) = (call()?, call()?);
        Ok(Arc::new_cyclic(|hub: &Weak<Hub>| {
            let (work, check) = (hub.clone(), hub.clone());
            Hub {
                shared,
                poller,
                waker,
                parked: Mutex::default(),
                workers: Pool::new("tds-worker", bounds, for_workers, move |entry| {
                    if let Some(hub) = work.upgrade() {
                        hub.work(entry);
                    }
                }),
                checkers: Pool::new("tds-login", logins, for_logins, move |entry| {
                    if let Some(hub) = check.upgrade() {
                        hub.check(entry);
                    }
                }),
                spids: Spids::new(),
                connections: AtomicUsize::new(0),
                logging_in: AtomicUsize::new(0),
                awake: AtomicUsize::new(0),
                rested: AtomicUsize::new(0),
                stopping: AtomicBool::new(false),
            }
        }))
    }

    fn run(self: &Arc<Self>, listener: TcpListener) {
        let mut next_id = FIRST_CONNECTION;
        let mut swept = Instant::now();
        let mut events = Vec::with_capacity(256);
        let mut relieved = Instant::now();
        while !self.stopping.load(Ordering::Acquire) {
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            let most = if self.workers.is_busy() { RELIEF } else { SWEEP };
            let most = Timespec { tv_sec: 0, tv_nsec: most.subsec_nanos().into() };
            if let Err(error) = epoll::wait(&self.poller, buffer, Some(&most))
                && error != rustix::io::Errno::INTR
            {
                return;
            }
            for event in &events {
                let epoll::Event { data, .. } = *event;
                match data.u64() {
                    LISTENER => self.accept_all(&listener, &mut next_id),
                    WAKER => {}
                    id => {
                        let entry = lock(&self.parked).remove(&id);
                        if let Some(entry) = entry {
                            self.workers.submit(entry);
                        }
                    }
                }
            }
            if relieved.elapsed() >= RELIEF {
                relieved = Instant::now();
                self.workers.relieve();
            }
            if swept.elapsed() >= SWEEP {
                swept = Instant::now();
                self.sweep();
            }
        }
    }

    /// Ends connections that do not log in, and puts idle sessions to rest.
    fn sweep(&self) {
        let take = |which: &dyn Fn(&Connection) -> bool, most| -> Vec<Entry> {
            let mut parked = lock(&self.parked);
            let found = parked.extract_if(|_, entry| which(&entry.connection));
            found.take(most).map(|(_, entry)| entry).collect()
        };
        // Dropped outside of the lock.
        drop(take(&Connection::is_late, usize::MAX));
        self.drop_unwanted_logins();
        if memory::has_fallen() {
            give_back();
        }
        if self.workers.is_busy() {
            return;
        }
        // The maximum number is active: sessions without a request since the last sweep are put to
        // rest.
        let crowded = self.awake.load(Ordering::Relaxed) >= self.shared.limits.awake;
        let rest = self.shared.limits.rest;
        let rest = if crowded { rest.min(SWEEP) } else { rest };
        let tired = take(&|connection: &Connection| connection.is_idle_for(rest), RESTING_AT_ONCE);
        // Sessions of earlier sweeps are at rest by now; more would only follow.
        if tired.is_empty() && self.rested.swap(0, Ordering::Relaxed) >= RESTED_TO_GIVE_BACK {
            give_back();
        }
        self.rested.fetch_add(tired.len(), Ordering::Relaxed);
        for mut entry in tired {
            entry.resting = true;
            self.workers.submit(entry);
        }
    }

    /// Ends connections that wait for the check of their login and whose clients are gone, or will
    /// be before their turn.
    fn drop_unwanted_logins(&self) {
        let unwanted = |entry: &mut Entry| is_unwanted(&entry.connection);
        drop(self.checkers.extract_if(unwanted));
    }

    /// A checker's part: derives a key only for those who still wait for it.
    fn check(self: &Arc<Self>, mut entry: Entry) {
        if is_unwanted(&entry.connection) {
            return;
        }
        let step = entry.connection.check();
        self.after(entry, &step);
    }

    fn accept_all(self: &Arc<Self>, listener: &TcpListener, next_id: &mut u64) {
        loop {
            match listener.accept() {
                Ok((stream, peer)) => {
                    let id = *next_id;
                    *next_id += 1;
                    // This closes a socket that died at once, or one beyond the limit.
                    let _refused = self.admit(stream, peer, id);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    thread::sleep(ACCEPT_REST);
                    return;
                }
            }
        }
    }

    fn admit(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr, id: u64) -> io::Result<()> {
        let limits = &self.shared.limits;
        let crowded = || self.logging_in.load(Ordering::Relaxed) >= limits.logging_in;
        if crowded() {
            self.drop_unwanted_logins();
        }
        let connections = self.connections.load(Ordering::Relaxed);
        if connections >= limits.connections + TOLD || crowded() {
            return Err(io::Error::from(ErrorKind::QuotaExceeded));
        }
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_COUNT)?;
        sockopt::set_tcp_user_timeout(&stream, UNANSWERED_MS)?;
        let spid = self.spids.take().ok_or_else(|| io::Error::from(ErrorKind::QuotaExceeded))?;
        let mut connection = Connection::new(Arc::clone(&self.shared), stream, peer, spid);
        connection.one_too_many = connections >= limits.connections;
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.logging_in.fetch_add(1, Ordering::Relaxed);
        let hub = Arc::downgrade(self);
        let entry = Entry { id, connection, hub, logging_in: true, resting: false, awake: false };
        let socket = Arc::clone(&entry.connection.stream);
        lock(&self.parked).insert(id, entry);
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        let added = epoll::add(&self.poller, &*socket, EventData::new_u64(id), flags);
        if added.is_err() {
            lock(&self.parked).remove(&id);
        }
        Ok(added?)
    }

    /// A worker's part: serves a connection as long as it has requests.
    fn work(self: &Arc<Self>, mut entry: Entry) {
        if std::mem::take(&mut entry.resting) {
            self.rest(&mut entry);
            // The poller notices bytes that have arrived meanwhile when it polls the socket again.
            return self.park(entry);
        }
        loop {
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            if entry.connection.is_ready() && !std::mem::replace(&mut entry.awake, true) {
                // A request may wait for long, with its databases' files open.
                self.awake.fetch_add(1, Ordering::Relaxed);
            }
            let step = entry.connection.advance();
            if entry.logging_in && entry.connection.is_ready() {
                entry.logging_in = false;
                self.logging_in.fetch_sub(1, Ordering::Relaxed);
            }
            if step == Step::Answered && !self.workers.is_busy() {
                let stream = &entry.connection.stream;
                match self.workers.linger(|call| Channel::readable_within(stream, call, LINGER)) {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(_) => return,
                }
            }
            return self.after(entry, &step);
        }
    }

    fn after(self: &Arc<Self>, mut entry: Entry, step: &Step) {
        match step {
            Step::Close => entry.connection.say_goodbye(),
            Step::Check => {
                self.checkers.submit_for(Some(entry.connection.client.ip()), entry);
            }
            Step::Again => self.workers.submit(entry),
            Step::Wait | Step::Answered => {
                self.count_awake(&mut entry);
                self.park(entry);
            }
        }
    }

    fn rest(&self, entry: &mut Entry) {
        entry.connection.rest();
        if std::mem::take(&mut entry.awake) {
            self.awake.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts a session that has had a request, and puts it to rest if too many are active.
    fn count_awake(&self, entry: &mut Entry) {
        if entry.connection.awake_since.is_none() {
            if std::mem::take(&mut entry.awake) {
                self.awake.fetch_sub(1, Ordering::Relaxed);
            }
            return;
        }
        if !std::mem::replace(&mut entry.awake, true) {
            self.awake.fetch_add(1, Ordering::Relaxed);
        }
        if self.awake.load(Ordering::Relaxed) > self.shared.limits.awake {
            self.rest(entry);
        }
    }

    fn park(&self, entry: Entry) {
        if self.stopping.load(Ordering::Acquire) || entry.connection.is_late() {
            return;
        }
        let id = entry.id;
        let socket = Arc::clone(&entry.connection.stream);
        lock(&self.parked).insert(id, entry);
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        if epoll::modify(&self.poller, &*socket, EventData::new_u64(id), flags).is_err() {
            lock(&self.parked).remove(&id);
        }
    }
}
