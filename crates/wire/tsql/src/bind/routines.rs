//! The functions of statements that are being bound, and the values that a statement gives them.

use std::sync::{Arc, OnceLock, Weak};

use super::Binder;
use crate::ast::Name;
use crate::ast::defined::CreateFunction;
use crate::error::{Error, Result};
use crate::plan::routine::Routine;
use crate::plan::scalar::{Node, Scalar};

/// Maximum nesting of functions that call each other.
const MAX_NESTING: usize = 32;

/// Maximum stack that the functions take while they are bound, in bytes.
const MAX_STACK: usize = 512 << 10;

/// The functions that are being bound.
#[derive(Debug, Default)]
pub(super) struct Routines {
    /// The outermost first.
    running: Vec<Running>,
    /// The values that the session gives to them.
    given: Vec<Scalar>,
    /// The place of the outermost on the stack.
    base: usize,
    /// The one that is being defined, which may call itself.
    defined: Option<Arc<CreateFunction>>,
}

#[derive(Debug)]
struct Running {
    /// The full name.
    name: String,
    /// Where it will be.
    routine: Arc<OnceLock<Routine>>,
    /// True if it has table variables.
    fills: bool,
    /// True if it runs within itself.
    again: bool,
}

impl Routines {
    /// The number of functions that are being bound.
    pub(super) fn depth(&self) -> usize {
        self.running.len()
    }

    /// Returns true where no function is being bound.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Notes that the innermost one has table variables.
    pub(super) fn fills(&mut self) {
        if let Some(running) = self.running.last_mut() {
            running.fills = true;
        }
    }

    /// Notes the one that is being defined.
    pub(super) fn define(&mut self, made: &CreateFunction) {
        self.defined = Some(Arc::new(made.clone()));
    }

    /// Returns the one that is being defined if it has this name, for a call of it from within.
    pub(super) fn defined(
        &mut self,
        name: &Name,
    ) -> Option<(Arc<CreateFunction>, Weak<OnceLock<Routine>>)> {
        let is_it = |made: &&Arc<CreateFunction>| {
            let same = made.name.stored().eq_ignore_ascii_case(&name.stored());
            same && name.part(2).is_none()
        };
        let made = self.defined.as_ref().filter(is_it).cloned()?;
        Some((made, self.again_at(0).unwrap_or_default()))
    }

    /// Returns true if the function of this full name is being bound.
    pub(super) fn runs(&self, full: &str) -> bool {
        self.position(full).is_some()
    }

    /// Returns the function of this full name for a call of it from within.
    pub(super) fn again(&mut self, full: &str) -> Option<Weak<OnceLock<Routine>>> {
        self.position(full).and_then(|at| self.again_at(at))
    }

    fn position(&self, full: &str) -> Option<usize> {
        self.running.iter().position(|known| known.name.eq_ignore_ascii_case(full))
    }

    fn again_at(&mut self, at: usize) -> Option<Weak<OnceLock<Routine>>> {
        let again = self.running.get_mut(at..)?;
        again.iter_mut().for_each(|running| running.again = true);
        again.first().map(|running| Arc::downgrade(&running.routine))
    }

    /// Takes the values that the call of the outermost function must give.
    pub(super) fn take_given(&mut self) -> Vec<Scalar> {
        std::mem::take(&mut self.given)
    }

    /// Adds a value that the session gives, and returns its place.
    pub(super) fn give(&mut self, value: &Scalar) -> usize {
        let known = self.given.iter().position(|known| known == value);
        known.unwrap_or_else(|| {
            self.given.push(value.clone());
            self.given.len() - 1
        })
    }

    /// Puts the session's functions in place of what they give to functions of a database.
    pub(super) fn as_called(&self, bound: &mut Scalar) {
        bound.each(&mut |part| {
            if let Node::Given(at) = part.node
                && let Some(value) = self.given.get(at)
            {
                part.node = value.node.clone();
            }
        });
    }

    fn enter(&mut self, full: &str, here: usize) -> Result<Arc<OnceLock<Routine>>> {
        if self.running.is_empty() {
            self.base = here;
        }
        if here.abs_diff(self.base) > MAX_STACK || self.running.len() >= MAX_NESTING {
            return Err(Error::NestLevel {});
        }
        let routine = Arc::new(OnceLock::new());
        let name = full.to_owned();
        let (fills, again) = (false, false);
        self.running.push(Running { name, routine: routine.clone(), fills, again });
        Ok(routine)
    }
}

impl Binder<'_> {
    /// Binds a function of statements by `work`, within which it may call itself.
    ///
    /// # Errors
    /// For one that is too deep.
    pub(super) fn running(
        &mut self,
        full: &str,
        work: impl FnOnce(&mut Self) -> Result<Routine>,
    ) -> Result<Arc<OnceLock<Routine>>> {
        let marker = 0_u8;
        let cell = self.routines.enter(full, std::ptr::from_ref(&marker).addr())?;
        let made = work(self);
        let ended = self.routines.running.pop();
        let routine = made?;
        if ended.is_some_and(|ended| ended.fills && ended.again) {
            return Err(Error::feature("a table variable in a function that calls itself"));
        }
        cell.get_or_init(|| routine);
        Ok(cell)
    }
}
