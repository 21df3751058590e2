//! A session, idle and at work.

use tdekit_wire_tds::{Caller, Sink};

use super::db::Db;
use super::given::Values;
use super::holder::Holder;
use super::looked_up::LookedUp;
use super::metered::Metered;
use super::position::Position;
use super::state::State;
use super::target::Loading;
use super::texts::Texts;

/// A session at work for a sink.
pub(crate) struct Run<'a> {
    pub(crate) s: &'a mut Inner,
    pub(crate) sink: &'a mut dyn Sink,
}

/// A session: its parts, each of which keeps its own state.
pub(crate) struct Inner {
    pub(crate) db: Db,
    pub(crate) state: State,
    pub(crate) caller: Caller,
    pub(crate) position: Position,
    pub(crate) texts: Texts,
    pub(crate) looked_up: LookedUp,
    pub(crate) load: Loading,
    pub(crate) metered: Metered,
    pub(crate) locks: Holder,
    pub(crate) values: Values,
}
