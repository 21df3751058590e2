//! INSERT BULK: a batch announces it, then its rows arrive in a message of any length.

use tdekit_wire_tds::bulk::{BulkItem, BulkReader};
use tdekit_wire_tds::messages::SessionError;
use tdekit_wire_tds::token::{DoneStatus, DoneToken, put_done};
use tdekit_wire_tds::{Command, Message, Sink};

use crate::answer::lock;
use crate::connection::{Connection, Step};
use crate::error::Ended;

/// An announced load.
pub(crate) struct Load {
    text: String,
    reader: Option<BulkReader>,
    /// True once the columns have arrived and the session has accepted them.
    begun: bool,
    /// The first error: the rest of the message is read and discarded.
    failed: Option<Message>,
}

impl Load {
    /// Returns the load that a batch announces.
    pub(crate) fn announced(text: &str) -> Option<Load> {
        let mut words = text.split_ascii_whitespace();
        let insert = words.next().is_some_and(|word| word.eq_ignore_ascii_case("insert"));
        let bulk = words.next().is_some_and(|word| word.eq_ignore_ascii_case("bulk"));
        (insert && bulk).then(|| Load {
            text: text.to_owned(),
            reader: None,
            begun: false,
            failed: None,
        })
    }
}

impl Connection {
    /// Takes the rows that have arrived so far.
    pub(crate) fn load_part(&mut self) -> Result<Step, Ended> {
        let bytes = self.assembler.take_part();
        self.load_bytes(&bytes, false);
        Ok(Step::Again)
    }

    /// Takes the last of the rows and answers.
    pub(crate) fn load_end(&mut self, bytes: &[u8]) -> Result<Step, Ended> {
        self.load_bytes(bytes, true);
        let Some(load) = self.load.take() else {
            return self.answer(|_, answer| {
                let _flow = answer.message(&SessionError::NotAnnounced {}.message());
            });
        };
        self.answer(|connection, answer| {
            let ended = match load.begun {
                true => connection
                    .with_session(|session| session.bulk_end(load.failed.is_none()))
                    .unwrap_or(Ok(0)),
                false => Ok(0),
            };
            let (rows, failed) = match (ended, load.failed) {
                (Ok(rows), None) => (rows, None),
                (_, Some(message)) | (Err(message), None) => (0, Some(message)),
            };
            let mut status = DoneStatus::COUNT;
            if let Some(message) = failed {
                let _flow = answer.message(&message);
                status = DoneStatus::ERROR;
            }
            answer.put_final(|out| {
                put_done(out, DoneToken::Done, status, Command::BULK_INSERT, rows);
            });
        })
    }

    fn load_bytes(&mut self, bytes: &[u8], whole: bool) {
        let most = self.shared.limits.request_bytes;
        let (Some(load), Some(held)) = (&mut self.load, &self.session) else { return };
        if load.failed.is_some() {
            return;
        }
        let mut session = lock(&held.session);
        let reader = load.reader.get_or_insert_with(|| BulkReader::new(most));
        let bad = |error: tdekit_wire_tds::Error| {
            SessionError::BadRows { reason: error.to_string() }.message()
        };
        let mut take = || {
            reader.push(bytes).map_err(bad)?;
            loop {
                match reader.next(whole).map_err(bad)? {
                    BulkItem::Missing | BulkItem::End => return Ok(()),
                    BulkItem::Columns(columns) => {
                        session.bulk_begin(&load.text, &columns)?;
                        load.begun = true;
                    }
                    BulkItem::Row(values) => session.bulk_row(&values)?,
                }
            }
        };
        if let Err(message) = take() {
            load.failed = Some(message);
            // The message's bytes are no longer needed.
            load.reader = None;
        }
    }
}
