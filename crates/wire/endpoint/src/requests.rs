//! Requests of a client that has logged in.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use tdekit_wire_tds::messages::SessionError;
use tdekit_wire_tds::packet::{PacketKind, PacketStatus, Request, Taken};
use tdekit_wire_tds::request::{decode_batch, decode_transaction};
use tdekit_wire_tds::rpc::decode_rpc;
use tdekit_wire_tds::token::{DoneStatus, DoneToken, put_done};
use tdekit_wire_tds::{Command, Error, Session, Sink, memory};

use crate::answer::{Answer, lock, put_acknowledgement};
use crate::bulk::Load;
use crate::catalog::base_name;
use crate::connection::{Connection, Step};
use crate::error::Ended;

/// Length below which requests are read without asking for memory.
const LONG_BYTES: usize = 1 << 20;

impl Connection {
    /// Takes a request, if one is complete, and answers it.
    pub(crate) fn request(&mut self) -> Result<Step, Ended> {
        let taken = match self.take() {
            Ok(taken) => taken,
            Err(Ended::Protocol(error)) => return self.refuse_stream(&error),
            Err(ended) => return Err(ended),
        };
        match taken {
            Taken::Nothing => Ok(Step::Wait),
            Taken::Part if self.assembler.open_kind() == Some(PacketKind::BulkLoad) => {
                self.load_part()
            }
            Taken::Part if memory::room(0).is_err() => {
                self.refuse_length(&SessionError::OutOfMemoryAmidst {})
            }
            Taken::Part => Ok(Step::Again),
            Taken::Ignored => {
                self.load = None;
                self.answer(|_, answer| {
                    answer.put_final(|out| {
                        put_done(out, DoneToken::Done, DoneStatus::ERROR, Command::OTHER, 0);
                    });
                })
            }
            Taken::Whole(request) => {
                // The values decoded from it take no more than this.
                match memory::room(request.payload.len().saturating_mul(3)) {
                    Err(_) if request.payload.len() >= LONG_BYTES => {
                        self.refuse_length(&SessionError::OutOfMemory {})
                    }
                    _ => self.handle(&request),
                }
            }
        }
    }

    fn handle(&mut self, request: &Request) -> Result<Step, Ended> {
        let status = request.status;
        let keep = status.has(PacketStatus::RESET_KEEP_TRANSACTION);
        let reset = keep || status.has(PacketStatus::RESET);
        if reset {
            self.forget_handles();
        }
        let reset = reset.then_some(keep);
        let payload = &request.payload;
        match request.kind {
            PacketKind::Batch => match decode_batch(payload) {
                Ok((_, text)) => self.batch(&text, reset),
                Err(error) => self.refuse_stream(&error),
            },
            PacketKind::Rpc => match decode_rpc(payload) {
                Ok((_, calls)) => self.answer(|connection, answer| {
                    connection.reset(reset, answer);
                    connection.calls(calls, answer);
                }),
                Err(error) => self.refuse_request(&error, reset),
            },
            PacketKind::Transaction => match decode_transaction(payload) {
                Ok((_, transaction)) => self.answer(|connection, answer| {
                    connection.reset(reset, answer);
                    connection.with_session(|session| session.transaction(&transaction, answer));
                }),
                Err(error) => self.refuse_request(&error, reset),
            },
            PacketKind::BulkLoad => self.load_end(payload),
            // Nothing is running any more: only the acknowledgement.
            PacketKind::Attention => {
                let mut answer = Answer::new(&self.channel, &self.signals, self.form);
                answer.put(put_acknowledgement);
                answer.finish_as_is().map(|()| Step::Answered)
            }
            _ => Err(Ended::Refused("a packet that has no place after the login")),
        }
    }

    /// Drops prepared statements, cursors and an announced bulk load.
    pub(crate) fn forget_handles(&mut self) {
        self.prepared.clear();
        self.cursors.clear();
        self.load = None;
    }

    fn batch(&mut self, text: &str, reset: Option<bool>) -> Result<Step, Ended> {
        let load = Load::announced(text);
        self.load = None;
        let mut accepted = false;
        let step = self.answer(|connection, answer| {
            connection.reset(reset, answer);
            connection.with_session(|session| session.batch(text, answer));
            accepted = !answer.any_failed();
        })?;
        if accepted {
            self.load = load;
        }
        Ok(step)
    }

    fn reset(&mut self, reset: Option<bool>, answer: &mut Answer) {
        if let Some(keep_transaction) = reset {
            self.with_session(|session| session.reset(keep_transaction, answer));
            answer.reset_done();
        }
    }

    pub(crate) fn with_session<T>(&mut self, run: impl FnOnce(&mut dyn Session) -> T) -> Option<T> {
        self.session.as_ref().map(|held| run(lock(&held.session).as_mut()))
    }

    /// Makes `run` produce an answer and sends it. Meanwhile listens to the client.
    pub(crate) fn answer(
        &mut self,
        run: impl FnOnce(&mut Connection, &mut Answer),
    ) -> Result<Step, Ended> {
        self.signals.begin();
        let mut answer = Answer::new(&self.channel, &self.signals, self.form);
        let watched = self.shared.ticker.watch(&self.channel, &self.signals);
        let fault = catch_unwind(AssertUnwindSafe(|| run(self, &mut answer))).is_err();
        self.awake_since = Some(Instant::now());
        self.signals.end();
        drop(watched);
        if fault {
            let _stop = answer.message(&SessionError::Fault {}.message());
        }
        // A client that is gone cancels too, and needs no answer.
        if self.signals.is_cancelled() && !self.take_attention()? {
            return Ok(Step::Close);
        }
        let goes_on = answer.finish();
        Ok(if goes_on? { Step::Answered } else { Step::Close })
    }

    /// Refuses a request for which there is no memory: one that is incomplete ends the connection.
    fn refuse_length(&mut self, error: &SessionError) -> Result<Step, Ended> {
        self.answer(|_, answer| {
            let _flow = answer.message(&error.message());
        })
    }

    /// Refuses bytes that are not a request: nothing after them can be trusted.
    pub(crate) fn refuse_stream(&mut self, error: &Error) -> Result<Step, Ended> {
        let refused = SessionError::BadStream { reason: error.to_string() };
        self.answer(|_, answer| {
            let _stop = answer.message(&refused.message());
        })
    }

    /// Refuses a request that cannot be executed. One that is complete gets a message, and the
    /// connection continues.
    fn refuse_request(&mut self, error: &Error, reset: Option<bool>) -> Result<Step, Ended> {
        let refused = match error {
            Error::Unsupported { .. } => SessionError::NoRequest { reason: error.to_string() },
            Error::Parameter { number, name, ty } => {
                let (name, ty) = (name.clone(), base_name(*ty));
                SessionError::BadParameter { number: *number, name, ty }
            }
            Error::TooManyParameters { limit } => SessionError::TooManyParameters { limit: *limit },
            _ => return self.refuse_stream(error),
        };
        self.answer(|connection, answer| {
            connection.reset(reset, answer);
            let _flow = answer.message(&refused.message());
        })
    }
}
