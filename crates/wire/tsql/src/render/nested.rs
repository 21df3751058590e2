//! Statements of functions: their texts, and the connection that runs them while SQLite is in the
//! middle of the statement that calls the function.

use std::cell::RefCell;
use std::rc::Rc;

use rusqlite::types::Value as Stored;
use rusqlite::{CachedStatement, Connection};
use tdekit_wire_tds::memory;

use super::Renderer;
use super::failure::failure;
use super::kernels::{Kernels, Text};
use super::sql::Sql;
use crate::error::{Error, Result};
use crate::functions::eval::{Env, Reads, eval};
use crate::plan::routine::{Callee, Part, Reader};
use crate::plan::scalar::{Node, Scalar};
use crate::value::{Val, affordable, bulk_bytes, storage};

thread_local! {
    /// SQLite calls functions in the thread that runs the statement.
    static LENT: RefCell<Option<Nest>> = const { RefCell::new(None) };
}

/// A connection in the middle of a statement, with the state of the functions that are running.
#[derive(Clone)]
pub(super) struct Nest {
    connection: Rc<Connection>,
    kernels: Kernels,
    /// The current database.
    database: Rc<str>,
    /// The number of functions, and where the first has its place on the stack.
    pub(super) depth: (usize, usize),
    /// What the session gives to them.
    pub(super) given: Rc<[Val]>,
}

/// Restores what functions saw before.
struct Before(Option<Nest>);

impl Drop for Before {
    fn drop(&mut self) {
        LENT.replace(self.0.take());
    }
}

/// Does work whose functions may read tables by this connection, in this current database.
pub(crate) fn lending<T>(
    connection: &Rc<Connection>,
    kernels: &Kernels,
    database: &str,
    work: impl FnOnce() -> T,
) -> T {
    let nest = Nest {
        connection: connection.clone(),
        kernels: kernels.clone(),
        database: database.into(),
        depth: (0, 0),
        given: Rc::from([]),
    };
    let before = Before(LENT.replace(Some(nest)));
    let done = work();
    drop(before);
    done
}

/// Returns the connection by which functions of the running statement may read.
pub(super) fn lent() -> Option<Nest> {
    LENT.with_borrow(Clone::clone)
}

impl Nest {
    /// Prepares a statement, and does work with it, within the functions of an environment.
    fn with<T>(
        &self,
        reader: &Reader,
        env: &Env<'_>,
        work: impl FnOnce(&mut CachedStatement<'_>, Vec<Stored>) -> Result<T>,
    ) -> Result<T> {
        let text = reader.text.get().and_then(|number| self.kernels.text(*number));
        let Some(text) = text else {
            return Err(Error::Internal { detail: "a statement that is not written".to_owned() });
        };
        memory::room(0)?;
        let params = text.params.iter().map(|param| {
            let value = eval(param, env)?;
            affordable(bulk_bytes(&value).saturating_mul(2))?;
            storage::store(&value, param.ty)
        });
        let mut params: Vec<Stored> = params.collect::<Result<_>>()?;
        let inner = Nest { depth: env.depth, given: env.given.into(), ..self.clone() };
        let before = Before(LENT.replace(Some(inner)));
        let sql = text.sql.text(&params);
        let prepared = self.connection.prepare_cached(&sql);
        let mut statement = prepared.map_err(|error| self.failed(&error))?;
        params.truncate(statement.parameter_count());
        let done = work(&mut statement, params);
        drop(before);
        done
    }

    fn failed(&self, error: &rusqlite::Error) -> Error {
        failure(&self.kernels, error, &self.database)
    }
}

impl Reads for Nest {
    fn rows(
        &self,
        reader: &Reader,
        env: &Env<'_>,
        each: &mut dyn FnMut(Vec<Val>) -> Result<bool>,
    ) -> Result<()> {
        let failed = |error: rusqlite::Error| self.failed(&error);
        self.with(reader, env, |statement, params| {
            let mut rows = statement.query(rusqlite::params_from_iter(params)).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                memory::room(0)?;
                let mut values = Vec::with_capacity(reader.types.len());
                for (at, ty) in reader.types.iter().enumerate() {
                    let stored = row.get_ref(at).map_err(failed)?;
                    values.push(storage::load_owned(stored, *ty, "value")?);
                }
                if !each(values)? {
                    break;
                }
            }
            Ok(())
        })
    }

    fn change(
        &self,
        reader: &Reader,
        env: &Env<'_>,
        identity: Option<(i64, i64)>,
    ) -> Result<(u64, Option<i64>)> {
        // the statement that calls the function may take identity values too
        let outer = self.kernels.swap_identity((identity, None));
        let changed = self.with(reader, env, |statement, params| {
            let changed = statement.execute(rusqlite::params_from_iter(params));
            changed.map_err(|error| self.failed(&error))
        });
        let (_, last) = self.kernels.swap_identity(outer);
        Ok((u64::try_from(changed?).unwrap_or(u64::MAX), last))
    }
}

impl Renderer<'_> {
    /// Writes the statements of the functions that an expression calls.
    pub(super) fn invoked(&mut self, expr: &Scalar) -> Result<()> {
        let mut callees = Vec::new();
        expr.walk(&mut |part| {
            if let Node::Invoke(invoked) = &part.node
                && let Callee::Own(routine) = &invoked.callee
            {
                callees.push(routine.clone());
            }
            true
        });
        for routine in callees.iter().filter_map(|routine| routine.get()) {
            let mut parts = Vec::new();
            routine.parts(&mut |part| parts.push(part));
            for part in parts {
                match part {
                    Part::Plain(value) => self.invoked(value)?,
                    Part::Reader(reader) => self.reader(reader)?,
                }
            }
        }
        Ok(())
    }

    fn reader(&mut self, reader: &Reader) -> Result<()> {
        if reader.text.get().is_some() {
            return Ok(());
        }
        let mut renderer = Renderer::new(self.kernels, false);
        let mut sql = Sql::default();
        renderer.statement(&reader.statement, &mut sql)?;
        let Renderer { params, guards, .. } = renderer;
        let guard = self.kernels.register_text(Text { sql, params, guards });
        reader.text.get_or_init(|| guard.id);
        self.guards.push(guard);
        Ok(())
    }
}
