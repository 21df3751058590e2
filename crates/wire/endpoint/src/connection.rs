//! A connection: its state, and its steps.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use tdekit_wire_tds::Engine;
use tdekit_wire_tds::login::{Login, MAX_LOGIN_BYTES};
use tdekit_wire_tds::memory::Account;
use tdekit_wire_tds::packet::{Assembler, DEFAULT_PACKET_BYTES, PacketKind, Taken};

use crate::answer::{AnswerForm, STALL, Signals, lock};
use crate::bulk::Load;
use crate::channel::Channel;
use crate::config::{Limits, Mode};
use crate::cursors::Cursors;
use crate::error::Ended;
use crate::guard::Guard;
use crate::prepared::Prepared;
use crate::sessions::{Held, Sessions};
use crate::ticker::Ticker;
use crate::tls::TlsOffer;

/// Shared state of all connections.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) guard: Guard,
    pub(crate) tls: Option<TlsOffer>,
    pub(crate) mode: Mode,
    pub(crate) limits: Limits,
    pub(crate) ticker: Ticker,
    pub(crate) sessions: Sessions,
}

/// Progress of a connection.
pub(crate) enum Phase {
    /// Waiting for its first byte, which shows its protocol.
    First,
    /// TLS before everything else.
    StrictHandshake,
    /// Waiting for PRELOGIN.
    PreLogin {
        /// True if TLS is on already.
        strict: bool,
    },
    /// TLS within PRELOGIN.
    Handshake { tls: Box<rustls::ServerConnection>, login_only: bool },
    /// Waiting for LOGIN7.
    Login,
    /// LOGIN7 was received and is being checked.
    Check(Box<Login>),
    /// Waiting for requests.
    Ready,
}

/// The next step of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There may be more to do.
    Again,
    /// A request was answered; there may be more to do.
    Answered,
    /// More bytes are needed.
    Wait,
    /// Its login must be checked, which takes long.
    Check,
    /// The connection ends.
    Close,
}

/// A client's connection.
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) stream: Arc<TcpStream>,
    pub(crate) channel: Arc<Mutex<Channel>>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) phase: Phase,
    pub(crate) assembler: Assembler,
    pub(crate) client: SocketAddr,
    pub(crate) form: AnswerForm,
    pub(crate) session: Option<Arc<Held>>,
    pub(crate) prepared: Prepared,
    pub(crate) cursors: Cursors,
    /// INSERT BULK was accepted and its rows are expected or arriving.
    pub(crate) load: Option<Load>,
    /// It arrived when all connections were in use: it gets a message.
    pub(crate) one_too_many: bool,
    /// The memory that it and its session hold.
    pub(crate) account: Arc<Account>,
    started: Instant,
    pub(crate) connected: SystemTime,
    /// End time of the last request; `None` if the session has been put to rest since.
    pub(crate) awake_since: Option<Instant>,
}

impl Connection {
    pub(crate) fn new(
        shared: Arc<Shared>,
        stream: TcpStream,
        client: SocketAddr,
        spid: u16,
    ) -> Connection {
        let stream = Arc::new(stream);
        let signals = Arc::new(Signals::new(shared.ticker.clock()));
        Connection {
            shared,
            channel: Arc::new(Mutex::new(Channel::new(Arc::clone(&stream)))),
            stream,
            signals,
            phase: Phase::First,
            assembler: Assembler::new(MAX_LOGIN_BYTES),
            client,
            form: AnswerForm { spid, packet_bytes: DEFAULT_PACKET_BYTES, compressed_rows: false },
            session: None,
            prepared: Prepared::default(),
            cursors: Cursors::default(),
            load: None,
            one_too_many: false,
            account: Arc::default(),
            started: Instant::now(),
            connected: SystemTime::now(),
            awake_since: None,
        }
    }

    /// Returns true if it has logged in.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// Returns true if it takes too long to log in.
    pub(crate) fn is_late(&self) -> bool {
        !self.is_ready() && self.started.elapsed() > self.shared.limits.login
    }

    /// Returns true if its client has hung up with its login unchecked; that counts as a wrong
    /// password, since otherwise a client that hangs up could guess without limit.
    pub(crate) fn gives_up_login(&self) -> bool {
        let Phase::Check(login) = &self.phase else { return false };
        let gone = {
            let mut channel = lock(&self.channel);
            channel.fill().is_err() || channel.is_closed()
        };
        if gone {
            self.shared.guard.given_up(&login.user, self.client.ip());
        }
        gone
    }

    /// Returns true if its session is active and has had no request for this long.
    pub(crate) fn is_idle_for(&self, time: Duration) -> bool {
        self.is_ready() && self.awake_since.is_some_and(|since| since.elapsed() >= time)
    }

    /// Makes the session release the resources that it does not need until the next request.
    pub(crate) fn rest(&mut self) {
        let account = Arc::clone(&self.account);
        let _work = account.work();
        self.awake_since = None;
        // Somebody is using it now: it will rest the next time.
        if let Some(held) = &self.session
            && let Ok(mut session) = held.session.try_lock()
        {
            session.rest();
        }
    }

    /// Returns the maximum time of a blocked write.
    pub(crate) fn stall(&self) -> Duration {
        if self.is_ready() { STALL } else { self.shared.limits.login }
    }

    /// Closes it so that the client can still read its last message.
    pub(crate) fn say_goodbye(&self) {
        let mut channel = lock(&self.channel);
        channel.end_tls();
        let _closed = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Processes the available bytes as far as possible.
    pub(crate) fn advance(&mut self) -> Step {
        let account = Arc::clone(&self.account);
        let _work = account.work();
        match self.try_advance() {
            Ok(step) => step,
            // The client's fault or its end: others continue, and nobody needs to be informed.
            Err(_ended) => Step::Close,
        }
    }

    fn try_advance(&mut self) -> Result<Step, Ended> {
        let mut answered = false;
        loop {
            lock(&self.channel).fill()?;
            let step = match self.phase {
                Phase::First => self.first()?,
                Phase::StrictHandshake => self.strict_handshake()?,
                Phase::PreLogin { strict } => self.prelogin(strict)?,
                Phase::Handshake { .. } => self.handshake()?,
                Phase::Login => self.login()?,
                Phase::Check(_) => Step::Check,
                Phase::Ready => self.request()?,
            };
            match step {
                Step::Again => {}
                Step::Answered => answered = true,
                Step::Wait if lock(&self.channel).is_closed() => return Ok(Step::Close),
                Step::Wait if !self.is_ready() => {
                    // A client whose system coalesces writes sends its next part only when the
                    // previous one is acknowledged, which may otherwise take 40 ms. This is best
                    // effort: if it fails, the login takes longer.
                    let _slow = rustix::net::sockopt::set_tcp_quickack(&*self.stream, true);
                    return Ok(Step::Wait);
                }
                Step::Wait if answered => return Ok(Step::Answered),
                other => return Ok(other),
            }
        }
    }

    /// Takes a packet.
    pub(crate) fn take(&mut self) -> Result<Taken, Ended> {
        let mut channel = lock(&self.channel);
        let (length, taken) = self.assembler.take(&channel.incoming)?;
        channel.incoming.drain(..length);
        if channel.incoming.is_empty() {
            // An idle connection keeps no buffer.
            channel.incoming = Vec::new();
        }
        Ok(taken)
    }

    /// Returns true if the request that has just run was cancelled; removes the Attention then.
    pub(crate) fn take_attention(&mut self) -> Result<bool, Ended> {
        if !self.signals.is_cancelled() {
            return Ok(false);
        }
        let mut channel = lock(&self.channel);
        let (length, taken) = Assembler::new(0).take(&channel.incoming)?;
        let attention =
            matches!(taken, Taken::Whole(request) if request.kind == PacketKind::Attention);
        if attention {
            channel.incoming.drain(..length);
        }
        Ok(attention)
    }
}
