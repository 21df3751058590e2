//! The value of a DEFAULT for a row that is inserted by itself.

use tdekit_wire_tds::Value;

use crate::error::{Error, Result};
use crate::functions::eval::eval;
use crate::run::data::internal;
use crate::run::state::{Frame, Signal};
use crate::run::target::Kept;
use crate::run::work::Run;
use crate::value::{Val, storage};

impl Run<'_> {
    /// Returns the value that a DEFAULT has now.
    pub(super) fn kept_value(&mut self, kept: &Kept) -> Result<Val> {
        let Some(plan) = &kept.plan else {
            return self
                .with_env(&Frame::empty(), |env| eval(&kept.value, env).map(Value::into_owned));
        };
        let (mut found, ty) = (Value::Null, kept.value.ty);
        let (signal, _) = self.query(plan, &Frame::empty(), &mut |_, row| {
            let stored = row.get_ref(0).map_err(internal)?;
            found = storage::load_owned(stored, ty, "value")?;
            Ok(Signal::Break)
        })?;
        match signal {
            Signal::Stop => Err(Error::Internal { detail: "cancelled".to_owned() }),
            _ => Ok(found),
        }
    }
}
