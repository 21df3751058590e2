//! `sp_getapplock` and `sp_releaseapplock`, according to Microsoft's documentation.

use std::time::Duration;

use tdekit_wire_tds::messages::PermissionError;
use tdekit_wire_tds::{Length, Sink, SqlType};

use super::db::Db;
use super::holder::{Holder, Outcome};
use super::locks::{Mode, Owner, Resource};
use super::messages;
use crate::error::{Error, Result};
use crate::run::called::{Called, Given};
use crate::run::state::{Signal, State};
use crate::value::{convert, is_null};

/// Maximum length of a resource's name, in characters; longer ones are truncated.
const NAME: usize = 255;
/// The return value of a call that could not be executed.
pub(super) const FAILED: i32 = -999;

/// The arguments of one of our procedures by its parameters' names, in their order.
struct Arguments<'a> {
    procedure: &'static str,
    found: Vec<Option<&'a Given>>,
}

impl<'a> Arguments<'a> {
    fn of(procedure: &'static str, names: &[&str], given: &'a [Given]) -> Result<Arguments<'a>> {
        let mut found = vec![None; names.len()];
        for (index, arg) in given.iter().enumerate() {
            let at = match &arg.name {
                Some(name) => names.iter().position(|known| known.eq_ignore_ascii_case(name)),
                None => Some(index).filter(|at| *at < names.len()),
            };
            let procedure = procedure.to_owned();
            match (at, &arg.name) {
                (Some(at), _) => found[at] = Some(arg),
                (None, Some(name)) => {
                    return Err(Error::NotAParameter { procedure, name: name.clone() });
                }
                (None, None) => return Err(Error::TooManyArguments { procedure }),
            }
        }
        Ok(Arguments { procedure, found })
    }

    fn bad<T>(&self) -> Result<T> {
        Err(Error::BadProcedureOption { name: self.procedure.to_owned() })
    }

    /// Returns an argument as text; None if absent.
    fn text(&self, at: usize) -> Result<Option<String>> {
        let Some(value) = self.found[at].and_then(|arg| arg.value.as_ref()) else {
            return Ok(None);
        };
        if is_null(value) { self.bad() } else { Ok(Some(messages::shown(value, 4000))) }
    }
}

/// The parts of a session that its application locks need.
pub(super) struct AppLocks<'a> {
    pub(super) db: &'a mut Db,
    pub(super) state: &'a State,
    pub(super) locks: &'a Holder,
    pub(super) sink: &'a mut dyn Sink,
}

impl AppLocks<'_> {
    /// Returns the resource, and the scope that ends its lock.
    fn lock_of(
        &mut self,
        arguments: &Arguments<'_>,
        rest: [usize; 2],
    ) -> Result<(Resource, Owner)> {
        let Some(name) = arguments.text(0)? else { return arguments.bad() };
        let [owner, principal] = rest;
        let owner = match arguments.text(owner)?.map(|owner| owner.to_ascii_lowercase()) {
            None => Owner::Transaction,
            Some(owner) if owner == "transaction" => Owner::Transaction,
            Some(owner) if owner == "session" => Owner::Session,
            Some(_) => return arguments.bad(),
        };
        let principal = arguments.text(principal)?.unwrap_or_else(|| "public".to_owned());
        let current = self.state.database.clone();
        let stored = self.db.principals(&current)?;
        let rights = self.db.rights(&current)?;
        let Some(known) = stored.named(&principal).filter(|own| rights.is_or_belongs_to(own))
        else {
            return Err(PermissionError::NotOfPrincipal { name: principal }.into());
        };
        let principal = known.name.to_lowercase();
        if owner == Owner::Transaction && !self.state.transaction.is_open() {
            return Err(Error::OutsideTransaction {});
        }
        let name = name.chars().take(NAME).collect();
        let database = self.state.database.to_lowercase();
        Ok((Resource { database, principal, name }, owner))
    }

    /// `sp_getapplock`.
    pub(super) fn get(&mut self, given: &[Given]) -> Result<Called> {
        let names = ["@Resource", "@LockMode", "@LockOwner", "@LockTimeout", "@DbPrincipal"];
        let arguments = Arguments::of("sp_getapplock", &names, given)?;
        let Some(mode) = arguments.text(1)?.and_then(|mode| Mode::named(&mode)) else {
            return arguments.bad();
        };
        let (resource, owner) = self.lock_of(&arguments, [2, 4])?;
        let limit_ms = match arguments.text(3)? {
            None => self.state.options.lock_timeout_ms,
            Some(text) => {
                let from = SqlType::VarChar(Length::Max);
                let value = tdekit_wire_tds::Value::Text(text.into());
                let order = self.state.options.dateformat;
                match convert::convert(&value, from, SqlType::Int, 0, order)? {
                    tdekit_wire_tds::Value::Int(limit) => limit,
                    _ => return arguments.bad(),
                }
            }
        };
        if limit_ms < -1 {
            return arguments.bad();
        }
        let limit = u64::try_from(limit_ms).ok().map(Duration::from_millis);
        let outcome = self.locks.acquire((&resource, mode, owner), limit, self.sink);
        let (signal, status) = match outcome {
            Outcome::Granted { waited } => (Signal::Next, i32::from(waited)),
            Outcome::TimedOut => (Signal::Next, -1),
            Outcome::Cancelled => (Signal::Stop, -2),
            Outcome::Deadlock => (Signal::Next, -3),
            Outcome::Crowded => return Err(Error::Crowded {}),
        };
        Ok(Called { signal, status, outputs: Vec::new() })
    }

    /// `sp_releaseapplock`.
    pub(super) fn release(&mut self, given: &[Given]) -> Result<Called> {
        let names = ["@Resource", "@LockOwner", "@DbPrincipal"];
        let arguments = Arguments::of("sp_releaseapplock", &names, given)?;
        let (resource, owner) = self.lock_of(&arguments, [1, 2])?;
        if !self.locks.release(&resource, owner) {
            let Resource { principal, name, .. } = resource;
            return Err(Error::AppLockNotHeld { principal, name });
        }
        Ok(Called { signal: Signal::Next, status: 0, outputs: Vec::new() })
    }
}
