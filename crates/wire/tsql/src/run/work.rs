//! A session, idle and at work.

use std::collections::HashMap;
use std::sync::Arc;

use tdekit_wire_tds::{Caller, Sink};

use super::activity::Place;
use super::db::Db;
use super::given::{GivenValues, Taken};
use super::holder::Holder;
use super::meter::{Meter, Used};
use super::state::State;
use super::tallies::Tallies;
use crate::run::called::Compiled;
use crate::run::catalog::model::Snapshot;
use crate::run::target::Load;

/// A session at work for a sink.
pub(crate) struct Run<'a> {
    pub(crate) s: &'a mut Inner,
    pub(crate) sink: &'a mut dyn Sink,
}

/// A session.
pub(crate) struct Inner {
    pub(crate) db: Db,
    pub(crate) state: State,
    pub(crate) home: String,
    pub(crate) caller: Caller,
    pub(crate) procedures: HashMap<String, Arc<Compiled>>,
    pub(crate) texts: HashMap<TextKey, Arc<Compiled>>,
    /// The line of the running statement.
    pub(crate) line: u32,
    /// The state in which functions of the running statement look up objects.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// The bulk load in progress.
    pub(crate) load: Option<Load>,
    pub(crate) place: Place,
    pub(crate) meter: Meter,
    pub(crate) tallies: Tallies,
    /// Resources used by the last measured statement.
    pub(crate) used: Used,
    pub(crate) locks: Holder,
    /// Values of sequences that sessions of the server have given.
    pub(crate) given: GivenValues,
    /// Those of the open transaction.
    pub(crate) taken: Vec<Taken>,
}

/// A text, its declarations, and true if double quotes enclose names.
pub(crate) type TextKey = (String, String, bool);
