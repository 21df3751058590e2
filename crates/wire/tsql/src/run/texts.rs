//! The texts that a session keeps compiled.

use std::collections::HashMap;
use std::sync::Arc;

use super::called::{Compiled, compile_with, located};
use super::db::Db;
use super::metered::Metered;
use super::tallies::Origin;
use crate::ast::trigger::TriggerAction;
use crate::ast::{Action, Kind, Name};
use crate::error::{At, Error, Result};
use crate::plan::trigger::Trigger;

/// Number of texts, and of bodies, that a session keeps compiled.
const PREPARED: usize = 64;
/// Maximum length of a text that is kept compiled, in bytes.
const PREPARED_BYTES: usize = 64 * 1024;

/// A text, its declarations, and true if double quotes enclose names.
type Key = (String, String, bool);

/// The texts that a session keeps compiled. Until they are bound, they depend on the database's
/// types alone: those of other types are compiled again.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    texts: HashMap<Key, Arc<Compiled>>,
    /// Bodies of procedures and triggers, by their definitions.
    bodies: HashMap<String, Arc<Compiled>>,
}

impl Texts {
    /// Forgets all of them: what they are bound to is gone.
    pub(super) fn forget(&mut self) {
        self.texts.clear();
        self.bodies.clear();
    }

    /// Returns a text with declared parameters, compiled, that runs in this database.
    pub(super) fn text(
        &mut self,
        (text, declarations, quoted): (&str, &str, bool),
        database: &str,
        (db, metered): (&mut Db, &mut Metered),
    ) -> std::result::Result<Arc<Compiled>, At> {
        let key: Key = (text.to_owned(), declarations.to_owned(), quoted);
        if let Some(known) = self.texts.get(&key)
            && db.is_current(known, database)
        {
            return Ok(known.clone());
        }
        metered.disturb();
        let (params, typed) = db.parse_declarations(declarations, database)?;
        let (stmts, also_typed) = db.parse(text, quoted, database)?;
        let origin = Origin::of(text, declarations, false);
        let compiled = Arc::new(compile_with(params, (stmts, typed.or(also_typed)), origin)?);
        if text.len() <= PREPARED_BYTES {
            if self.texts.len() >= PREPARED {
                self.texts.clear();
            }
            self.texts.insert(key, compiled.clone());
        }
        Ok(compiled)
    }

    /// Returns a procedure of a database, compiled.
    pub(super) fn procedure(
        &mut self,
        name: &Name,
        text: &str,
        (db, database): (&mut Db, &str),
    ) -> Result<Arc<Compiled>> {
        if let Some(known) = self.body(text, (db, database)) {
            return Ok(known);
        }
        let place = |at| located(at, name.object());
        let (stmts, typed) = db.parse(text, true, database).map_err(place)?;
        let Some(Kind::Act(Action::CreateProc(made))) =
            stmts.into_iter().next().map(|stmt| stmt.kind)
        else {
            return Err(Error::NoProcedure { name: name.text() });
        };
        let origin = Origin::of(text, "", true);
        let compiled = compile_with(made.params, (made.body, typed), origin).map_err(place)?;
        Ok(self.keep_body(text, compiled))
    }

    /// Returns the body of a trigger of a database, compiled.
    pub(super) fn trigger(
        &mut self,
        trigger: &Trigger,
        (db, database): (&mut Db, &str),
    ) -> Result<Arc<Compiled>> {
        if let Some(known) = self.body(&trigger.text, (db, database)) {
            return Ok(known);
        }
        let place = |at| located(at, &trigger.name);
        let (stmts, typed) = db.parse(&trigger.text, true, database).map_err(place)?;
        let body = stmts.into_iter().next().and_then(|stmt| match stmt.kind {
            Kind::Act(Action::Trigger(action)) => match *action {
                TriggerAction::Create(made) => Some(made.body),
                TriggerAction::Switch { .. } => None,
            },
            _ => None,
        });
        let missing = || Error::Internal { detail: "no text of a trigger".to_owned() };
        let origin = Origin::of(&trigger.text, "", true);
        let compiled = compile_with(Vec::new(), (body.ok_or_else(missing)?, typed), origin);
        Ok(self.keep_body(&trigger.text, compiled.map_err(place)?))
    }

    fn body(&self, text: &str, (db, database): (&mut Db, &str)) -> Option<Arc<Compiled>> {
        let known = self.bodies.get(text)?;
        db.is_current(known, database).then(|| known.clone())
    }

    fn keep_body(&mut self, text: &str, compiled: Compiled) -> Arc<Compiled> {
        if self.bodies.len() >= PREPARED {
            self.bodies.clear();
        }
        let compiled = Arc::new(compiled);
        self.bodies.insert(text.to_owned(), compiled.clone());
        compiled
    }
}
