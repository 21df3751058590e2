//! Steps of following a database without a log.

use std::path::Path;

use tdekit_key_crypto::Kind;
use tdekit_sqlite_convert::DatabaseError;

use super::{Event, Follower, Why};
use crate::RunError;
use crate::archive::looks::{Glance, Looks};
use crate::archive::source::{Open, Source};
use crate::archive::state::WRITTEN;
use crate::error::ArchiveError;
use crate::labels::now_ms;

/// A database that was opened.
pub(super) enum Opened {
    Log(Box<Source>),
    NoLog(Box<Looks>),
}

impl Opened {
    /// Opens what is there. The log of another file that is put aside is named by an event, also
    /// where this fails then.
    pub(super) fn of(open: &Open<'_>, tell: &mut dyn FnMut(Event)) -> Result<Self, RunError> {
        match Source::open(open, &mut |log| tell(Event::PutAside(log))) {
            Err(RunError::Archive(ArchiveError::NotWal { mode, .. })) => {
                Ok(Self::NoLog(Box::new(Looks::open(open, mode)?)))
            }
            source => Ok(Self::Log(Box::new(source?))),
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Log(source) => source.path(),
            Self::NoLog(looks) => looks.path(),
        }
    }

    pub(super) fn parts(self) -> (Option<Source>, Option<Looks>) {
        match self {
            Self::Log(source) => (Some(*source), None),
            Self::NoLog(looks) => (None, Some(*looks)),
        }
    }
}

impl Follower<'_> {
    /// Ships what differs, and begins a new chain, as far as they are due. With `ends`, a look is.
    pub(super) fn step_without_log(
        &mut self,
        ends: bool,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), RunError> {
        let done = self.look_and_ship(ends, tell);
        let is_being_written = |error: &RunError| {
            let looks = self.looks.as_ref();
            let is_recent = looks.is_some_and(|looks| looks.age() < WRITTEN);
            let is_cut = looks.is_some_and(Looks::is_empty);
            is_empty(error) || (error.kind() == Kind::Damaged && (is_recent || is_cut))
        };
        if done.as_ref().is_err_and(is_being_written) {
            // Something else than SQLite may be writing to the file: it is opened again later.
            // An empty file is none that was written, however long ago it was cut.
            self.looks = None;
            self.why = Some(Why::Overwritten);
        }
        done
    }

    fn look_and_ship(&mut self, ends: bool, tell: &mut dyn FnMut(Event)) -> Result<(), RunError> {
        let Some(looks) = &mut self.looks else { return Ok(()) };
        let every = self.shipper.settings.differential_every;
        if !std::mem::replace(&mut looks.is_announced, true) {
            tell(Event::NoLog { mode: looks.mode.clone(), every });
        }
        let now = now_ms();
        let glance = looks.glance()?;
        if matches!(glance, Glance::Logged | Glance::Replaced) {
            return self.reopen(glance, ends, tell);
        }
        if self.why.is_none() && !self.shipper.is_last_there()? {
            self.why = Some(Why::Archive);
        }
        if self.why.is_none() {
            match glance {
                Glance::Same => self.shipper.is_current(now),
                _ if ends || looks.is_due(every) => {
                    self.why = self.shipper.ship_differing(looks, tell)?;
                }
                _ => {}
            }
        }
        if self.why.is_none() {
            self.why = self.shipper.due();
        }
        let Some(why) = &self.why else { return Ok(()) };
        let gate = self.shipper.settings.gate;
        let Some(_permit) = gate.enter() else { return Ok(()) };
        tell(Event::NewChain(why.clone()));
        self.shipper.begin_chain_of(looks, why, tell)?;
        self.why = None;
        Ok(())
    }

    /// Opens what is under the path now: a file that SQLite wrote at once, another one once it was
    /// not written to for some time.
    fn reopen(
        &mut self,
        glance: Glance,
        ends: bool,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), RunError> {
        // Closed before the file is opened again.
        self.looks = None;
        let is_logged = glance == Glance::Logged;
        let why = if is_logged { Why::Mode } else { Why::Replaced };
        self.why = Some(why);
        if !is_logged {
            return Ok(());
        }
        (self.source, self.looks) = Opened::of(&self.shipper.open, tell)?.parts();
        self.step(ends, tell)
    }
}

/// Returns true for the error of an empty file.
fn is_empty(error: &RunError) -> bool {
    matches!(
        error,
        RunError::Archive(ArchiveError::NoDatabase { .. })
            | RunError::DatabaseFile(DatabaseError::Emptied { .. })
    )
}
