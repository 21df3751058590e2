//! The answer to a request: tokens are gathered and sent many packets at a time.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use tdekit_wire_tds::messages::SessionError;
use tdekit_wire_tds::packet::{PacketKind, Packetizer};
use tdekit_wire_tds::token::{
    DoneStatus, DoneToken, clear_more, put_columns, put_done, put_env_change, put_message,
    put_no_columns, put_reset_done, put_return_status, put_return_value, put_row,
};
use tdekit_wire_tds::{Column, Command, DoneKind, EnvChange, Flow, Message, Sink, SqlType, Value};

use crate::channel::Channel;
use crate::error::Ended;
use crate::pool::while_waiting;

/// The server's name in messages.
pub(crate) const SERVER: &str = "tdekit";
/// Number of bytes that are gathered before they are sealed and written.
const GATHER_BYTES: usize = 48 * 1024;
/// Time after which a client that reads nothing is given up.
pub(crate) const STALL: Duration = Duration::from_secs(600);
/// Class from which a message ends the connection.
const FATAL_CLASS: u8 = 20;

/// Signals from other threads to a running request.
#[derive(Debug)]
pub(crate) struct Signals {
    /// The client cancels, or is gone.
    cancel: Arc<AtomicBool>,
    /// The thread that runs it, which may wait.
    thread: Mutex<Option<Thread>>,
    /// The ticker's clock.
    clock: Arc<AtomicU64>,
}

impl Signals {
    pub(crate) fn new(clock: Arc<AtomicU64>) -> Signals {
        Signals { cancel: Arc::default(), thread: Mutex::default(), clock }
    }

    /// Called when a request begins in this thread.
    pub(crate) fn begin(&self) {
        *lock(&self.thread) = Some(thread::current());
        self.cancel.store(false, Ordering::Release);
    }

    /// Called when it has ended.
    pub(crate) fn end(&self) {
        *lock(&self.thread) = None;
    }

    /// Cancels the running request, and wakes it if it waits.
    pub(crate) fn cancel(&self) {
        self.cancel.store(true, Ordering::Release);
        if let Some(thread) = &*lock(&self.thread) {
            thread.unpark();
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Acquire)
    }
}

/// The settings shared by all answers of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerForm {
    pub(crate) spid: u16,
    pub(crate) packet_bytes: u16,
    /// True if the client reads rows with their NULLs as bits.
    pub(crate) compressed_rows: bool,
}

/// Takes tokens for a client.
pub(crate) struct Answer {
    out: RefCell<Gathered>,
    signals: Arc<Signals>,
    columns: Vec<Column>,
    compressed_rows: bool,
    /// True if the client asked for no column metadata.
    no_metadata: bool,
    /// A statement failed since the last DONE, or at all.
    failed: bool,
    any_failed: bool,
    fatal: bool,
    /// True if its last token is a final DONE.
    ended_by_itself: bool,
    /// Position of the statement's first parameter among those of the call.
    first_ordinal: u16,
    status_given: bool,
    /// Sent right after the return status: the handle of a prepared statement.
    handles: Vec<(u16, String, i32)>,
}

/// Pending tokens, and the connection to the client.
struct Gathered {
    channel: Arc<Mutex<Channel>>,
    signals: Arc<Signals>,
    packetizer: Packetizer,
    tokens: Vec<u8>,
    framed: Vec<u8>,
    /// Offset of the last token if it is a DONE: it is held back, since it may be the last.
    last_done: Option<usize>,
    /// Time of the last send, by the clock.
    sent_ticks: u64,
    ended: Option<Ended>,
}

/// Appends the token that acknowledges an Attention, alone in its message.
pub(crate) fn put_acknowledgement(out: &mut Vec<u8>) {
    put_done(out, DoneToken::Done, DoneStatus::ATTENTION, Command::ATTENTION, 0);
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Answer {
    pub(crate) fn new(
        channel: &Arc<Mutex<Channel>>,
        signals: &Arc<Signals>,
        form: AnswerForm,
    ) -> Self {
        let packetizer = Packetizer::new(PacketKind::Response, form.spid, form.packet_bytes);
        Answer {
            out: RefCell::new(Gathered {
                channel: Arc::clone(channel),
                signals: Arc::clone(signals),
                packetizer,
                tokens: Vec::new(),
                framed: Vec::new(),
                last_done: None,
                sent_ticks: signals.clock.load(Ordering::Relaxed),
                ended: None,
            }),
            signals: Arc::clone(signals),
            columns: Vec::new(),
            compressed_rows: form.compressed_rows,
            no_metadata: false,
            failed: false,
            any_failed: false,
            fatal: false,
            ended_by_itself: false,
            first_ordinal: 0,
            status_given: false,
            handles: Vec::new(),
        }
    }

    /// Appends tokens that are not an interpreter's: those of the login.
    pub(crate) fn put(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(self.out.get_mut().begin());
    }

    /// Appends a DONE of the endpoint's own, which ends the answer.
    pub(crate) fn put_final(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        self.put(put);
        self.ended_by_itself = true;
    }

    /// Records that the session was reset.
    pub(crate) fn reset_done(&mut self) {
        self.put(put_reset_done);
    }

    /// Starts a call, with the number of its first output parameter, and whether columns are
    /// wanted.
    pub(crate) fn begin_call(&mut self, first_ordinal: u16, no_metadata: bool) {
        self.first_ordinal = first_ordinal;
        self.no_metadata = no_metadata;
        self.status_given = false;
        self.failed = false;
        self.any_failed = false;
        self.handles.clear();
    }

    /// Returns an integer to the client, after the return status and before the call's own
    /// parameters.
    pub(crate) fn give_back(&mut self, ordinal: u16, name: &str, value: i32) {
        self.handles.push((ordinal, name.to_owned(), value));
    }

    /// Returns true if a statement of this call, or of this batch, has failed.
    pub(crate) fn any_failed(&self) -> bool {
        self.any_failed
    }

    /// Ends a call; `more` is true if another follows in the same message. Returns true if that one
    /// must be made.
    pub(crate) fn end_call(&mut self, more: bool) -> bool {
        let cancelled = self.is_cancelled();
        let more = more && !cancelled;
        if cancelled {
            // As SQL Server ends it: failed, without an error, a status or output values.
            self.failed = true;
        } else if !self.status_given {
            // A failed call returns only its status.
            if self.any_failed {
                self.handles.clear();
            }
            self.return_status(if self.any_failed { -6 } else { 0 });
        }
        let mut status = if more { DoneStatus::MORE } else { DoneStatus::FINAL };
        if self.failed {
            status = status.with(DoneStatus::ERROR);
        }
        put_done(self.out.get_mut().begin(), DoneToken::DoneProc, status, Command::EXECUTE, 0);
        self.no_metadata = false;
        self.ended_by_itself = !more;
        more
    }

    /// Ends the answer and sends it. Returns true if the connection continues.
    ///
    /// A cancelled answer ends as failed, and a separate message acknowledges the Attention. SQL
    /// Server 2025 does the same, whether or not it has sent a part of the answer, and mssql-jdbc
    /// and tedious expect the acknowledgement after the answer's end.
    pub(crate) fn finish(mut self) -> Result<bool, Ended> {
        let failed = self.failed;
        let fatal = self.fatal;
        let cancelled = self.is_cancelled();
        let out = self.out.get_mut();
        if let Some(ended) = out.ended.take() {
            return Err(ended);
        }
        match out.last_done {
            Some(at) if !cancelled => clear_more(&mut out.tokens, at),
            None if self.ended_by_itself => {}
            _ => {
                let status =
                    if failed || cancelled { DoneStatus::ERROR } else { DoneStatus::FINAL };
                put_done(out.begin(), DoneToken::Done, status, Command::OTHER, 0);
            }
        }
        out.send_all(true)?;
        if cancelled {
            put_acknowledgement(out.begin());
            out.send_all(true)?;
        }
        Ok(!fatal)
    }

    fn is_cancelled(&self) -> bool {
        self.signals.is_cancelled()
    }

    /// Sends a short answer that already ends with a final DONE.
    pub(crate) fn finish_as_is(mut self) -> Result<(), Ended> {
        self.out.get_mut().send_all(true)
    }

    fn flow(&mut self) -> Flow {
        let out = self.out.get_mut();
        if out.tokens.len() >= GATHER_BYTES {
            out.send_full();
        } else {
            out.send_late();
        }
        let out = self.out.get_mut();
        if out.ended.is_some() || self.fatal || self.is_cancelled() {
            Flow::Stop
        } else {
            Flow::Continue
        }
    }

    fn unfit(&mut self, error: &tdekit_wire_tds::Error) -> Flow {
        self.message(&SessionError::Unfit { reason: error.to_string() }.message())
    }
}

impl Gathered {
    /// Called before a token: the previous DONE was not the last.
    fn begin(&mut self) -> &mut Vec<u8> {
        self.last_done = None;
        &mut self.tokens
    }

    /// Sends whole packets; keeps the bytes that do not fill one, and a DONE that may be the last.
    fn send_full(&mut self) {
        let most = self.last_done.unwrap_or(self.tokens.len());
        let ready = self.tokens.get(..most).unwrap_or_default();
        self.framed.clear();
        let sent = self.packetizer.put_full(&mut self.framed, ready);
        self.write();
        self.drop_sent(sent);
    }

    /// Sends tokens that have waited for more than a tick.
    fn send_late(&mut self) {
        if self.signals.clock.load(Ordering::Relaxed) > self.sent_ticks + 1 {
            self.send_held();
        }
    }

    /// Sends everything but a DONE that may be the last.
    fn send_held(&mut self) {
        let most = self.last_done.unwrap_or(self.tokens.len());
        let ready = self.tokens.get(..most).unwrap_or_default();
        if ready.is_empty() {
            self.sent_ticks = self.signals.clock.load(Ordering::Relaxed);
            return;
        }
        self.framed.clear();
        self.packetizer.put_all(&mut self.framed, ready, false);
        self.write();
        self.drop_sent(most);
    }

    fn send_all(&mut self, end: bool) -> Result<(), Ended> {
        self.framed.clear();
        self.packetizer.put_all(&mut self.framed, &self.tokens, end);
        self.tokens.clear();
        self.last_done = None;
        self.write();
        match self.ended.take() {
            Some(ended) => Err(ended),
            None => Ok(()),
        }
    }

    fn drop_sent(&mut self, sent: usize) {
        self.tokens.drain(..sent);
        self.last_done = self.last_done.map(|at| at - sent);
    }

    fn write(&mut self) {
        self.sent_ticks = self.signals.clock.load(Ordering::Relaxed);
        if self.ended.is_none() && !self.framed.is_empty() {
            let mut channel = lock(&self.channel);
            self.ended = channel.send(&self.framed, STALL).err();
            // Continuous writing leaves the ticker no time to listen.
            if channel.has_attention() {
                self.signals.cancel();
            }
        }
    }
}

impl Sink for Answer {
    fn columns(&mut self, columns: &[Column]) -> Flow {
        self.columns.clear();
        self.columns.extend_from_slice(columns);
        let out = self.out.get_mut().begin();
        let start = out.len();
        if self.no_metadata {
            put_no_columns(out);
        } else if let Err(error) = put_columns(out, columns) {
            out.truncate(start);
            return self.unfit(&error);
        }
        self.flow()
    }

    fn row(&mut self, values: &[Value<'_>]) -> Flow {
        let out = self.out.get_mut().begin();
        if let Err(error) = put_row(out, &self.columns, values, self.compressed_rows) {
            return self.unfit(&error);
        }
        self.flow()
    }

    fn done(&mut self, kind: DoneKind, command: Command, rows: Option<u64>) -> Flow {
        let token = match kind {
            DoneKind::Statement => DoneToken::Done,
            DoneKind::InProcedure => DoneToken::DoneInProc,
            DoneKind::Procedure => DoneToken::DoneProc,
        };
        let mut status = DoneStatus::MORE;
        if rows.is_some() {
            status = status.with(DoneStatus::COUNT);
        }
        if self.failed {
            status = status.with(DoneStatus::ERROR);
            self.failed = false;
        }
        let out = self.out.get_mut();
        out.last_done = Some(out.tokens.len());
        put_done(&mut out.tokens, token, status, command, rows.unwrap_or(0));
        self.flow()
    }

    fn message(&mut self, message: &Message) -> Flow {
        if message.is_error() {
            self.failed = true;
            self.any_failed = true;
        }
        self.fatal |= message.class >= FATAL_CLASS;
        put_message(self.out.get_mut().begin(), message, SERVER);
        self.flow()
    }

    fn return_status(&mut self, status: i32) {
        self.status_given = true;
        if self.is_cancelled() {
            return;
        }
        let out = self.out.get_mut().begin();
        put_return_status(out, status);
        for (ordinal, name, value) in self.handles.drain(..) {
            let value = Value::Int(value.into());
            // An int always fits.
            let _fits = put_return_value(out, ordinal, &name, SqlType::Int, &value);
        }
    }

    fn return_value(&mut self, ordinal: u16, name: &str, ty: SqlType, value: &Value<'_>) {
        if self.is_cancelled() {
            return;
        }
        let ordinal = self.first_ordinal.saturating_add(ordinal);
        let out = self.out.get_mut().begin();
        if let Err(error) = put_return_value(out, ordinal, name, ty, value) {
            let _stop = self.unfit(&error);
        }
    }

    fn env_change(&mut self, change: EnvChange<'_>) {
        put_env_change(self.out.get_mut().begin(), change);
    }

    fn flush(&mut self) {
        self.out.get_mut().send_held();
    }

    fn cancelled(&self) -> bool {
        if let Ok(mut out) = self.out.try_borrow_mut() {
            out.send_late();
        }
        self.is_cancelled()
    }

    fn cancel_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.signals.cancel)
    }

    fn waiting(&self, wait: &mut dyn FnMut()) -> bool {
        while_waiting(wait).is_some()
    }
}
