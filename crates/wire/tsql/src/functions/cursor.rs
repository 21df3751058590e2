//! The cursors of a running function. OPEN reads all rows of a query.

use tdekit_wire_tds::Value;
use tdekit_wire_tds::messages::CursorError;

use super::eval::{Env, eval};
use super::routine::{computed, left, rows};
use crate::ast::cursor::FetchPlace;
use crate::error::{Error, Result};
use crate::plan::cursor::{CursorOp, CursorStep};
use crate::plan::routine::Reader;
use crate::plan::scalar::Scalar;
use crate::value::{Val, affordable, bulk_bytes};

/// The cursors that are declared, by their numbers.
#[derive(Default)]
pub(super) struct Cursors<'r>(Vec<Option<Cursor<'r>>>);

struct Cursor<'r> {
    scroll: bool,
    reader: &'r Reader,
    /// The values of the variables at its declaration.
    vars: Vec<Val>,
    rows: Option<Held>,
}

/// The rows of an open cursor, and the number of the current one.
struct Held {
    rows: Vec<Vec<Val>>,
    at: i64,
}

/// The result of a statement about a cursor.
pub(super) enum Moved {
    /// It has no row.
    None,
    Declared,
    /// FETCH, with the values of its variables if there is a row.
    Fetched(Option<Vec<(usize, Val)>>),
}

impl<'r> Cursors<'r> {
    #[inline(never)]
    pub(super) fn step(
        &mut self,
        step: &'r CursorStep,
        vars: &[Val],
        around: &Env<'_>,
    ) -> Result<Moved> {
        let CursorStep { at, name, op } = step;
        if self.0.len() <= *at {
            self.0.resize_with(*at + 1, || None);
        }
        let place = &mut self.0[*at];
        // its DECLARE was not reached, or its DEALLOCATE was
        let missing = || CursorError::Missing { name: name.clone() };
        match op {
            CursorOp::Declare { scroll, reader } => {
                if place.is_some() {
                    return Err(CursorError::Exists { name: name.clone() }.into());
                }
                let bytes = vars.iter().map(bulk_bytes).fold(0, usize::saturating_add);
                affordable(bytes)?;
                *place = Some(Cursor { scroll: *scroll, reader, vars: vars.to_vec(), rows: None });
                return Ok(Moved::Declared);
            }
            CursorOp::Open => place.as_mut().ok_or_else(missing)?.open(around)?,
            CursorOp::Close => {
                let cursor = place.as_mut().ok_or_else(missing)?;
                cursor.rows.take().ok_or(CursorError::NotOpen {})?;
            }
            CursorOp::Deallocate => drop(place.take().ok_or_else(missing)?),
            CursorOp::Fetch { place: row, into } => {
                let row = row.map(|number| {
                    Ok::<i64, Error>(match computed(number, vars, around)? {
                        Value::Int(number) => number,
                        _ => 0,
                    })
                })?;
                let row = place.as_mut().ok_or_else(missing)?.fetch(&row)?;
                return assigned(row, into, vars, around).map(Moved::Fetched);
            }
        }
        Ok(Moved::None)
    }
}

impl Cursor<'_> {
    fn open(&mut self, around: &Env<'_>) -> Result<()> {
        if self.rows.is_some() {
            return Err(CursorError::AlreadyOpen {}.into());
        }
        let mut held = Vec::new();
        rows(self.reader, &Env { vars: &self.vars, ..*around }, &mut |row| {
            left(around)?;
            affordable(row.iter().map(bulk_bytes).fold(0, usize::saturating_add))?;
            held.push(row);
            Ok(true)
        })?;
        self.rows = Some(Held { rows: held, at: 0 });
        Ok(())
    }

    fn fetch(&mut self, place: &FetchPlace<i64>) -> Result<Option<&[Val]>> {
        let held = self.rows.as_mut().ok_or(CursorError::NotOpen {})?;
        if !self.scroll && *place != FetchPlace::Next {
            return Err(CursorError::ForwardOnly { fetch: place.word() }.into());
        }
        let count = i64::try_from(held.rows.len()).unwrap_or(i64::MAX);
        held.at = place.from(held.at, count);
        let at = usize::try_from(held.at - 1).ok();
        Ok(at.and_then(|at| held.rows.get(at)).map(Vec::as_slice))
    }
}

fn assigned(
    row: Option<&[Val]>,
    into: &[(usize, Scalar)],
    vars: &[Val],
    around: &Env<'_>,
) -> Result<Option<Vec<(usize, Val)>>> {
    let Some(row) = row else { return Ok(None) };
    let env = Env { vars, args: row, ..*around };
    let value = |(slot, value): &(usize, Scalar)| {
        let value = eval(value, &env)?;
        affordable(bulk_bytes(&value))?;
        Ok((*slot, value.into_owned()))
    };
    into.iter().map(value).collect::<Result<_>>().map(Some)
}
