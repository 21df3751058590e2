//! What is measured of a session and of its statements, and the output of SET STATISTICS.

use std::sync::PoisonError;
use std::time::Instant;

use tdekit_wire_tds::messages::Told;
use tdekit_wire_tds::{Caller, Flow, Sink};

use super::activity::{Activities, Place};
use super::compile::Lazy;
use super::db::Db;
use super::meter::{Meter, Used};
use super::options::Options;
use super::state::{Frame, State};
use super::tallies::{self, Tallies};
use crate::ast::walk::Child;
use crate::ast::{Expr, Kind, Query, Source};
use crate::value::datetime::Moment;

/// What is measured of a session, and what other sessions see of it.
#[derive(Debug)]
pub(crate) struct Metered {
    place: Place,
    meter: Meter,
    tallies: Tallies,
    /// Resources used by the last measured statement.
    used: Used,
}

impl Metered {
    /// Makes a session known to others, in this database.
    pub(super) fn enter(
        (activities, tallies): (&Activities, &Tallies),
        caller: &Caller,
        database: &str,
        isolation: &str,
    ) -> Metered {
        let meter = Meter::new();
        let place = activities.enter(caller, database, isolation, meter.live());
        Metered { place, meter, tallies: tallies.clone(), used: Used::default() }
    }

    pub(super) fn begin_request(&mut self, now: Moment, command: &str) {
        let (cpu_ns, at) = self.place.begin(now, command);
        self.meter.begin_request(cpu_ns, at);
    }

    pub(super) fn end_request(&self) {
        self.place.end();
    }

    /// Shows the session's current state to other sessions.
    pub(super) fn show(&self, state: &State) {
        self.place.change(|activity| {
            activity.database.clone_from(&state.database);
            activity.isolation.clone_from(&state.options.isolation);
            activity.trancount = state.transaction.depth();
            activity.began = activity.began.filter(|_| activity.trancount > 0);
        });
    }

    /// Shows that a transaction has begun.
    pub(super) fn began(&self, now: Moment) {
        self.place.change(|activity| activity.began = Some(now));
    }

    /// Shows that a WAITFOR begins, or ends.
    pub(super) fn delay(&self, since: Option<Instant>) {
        self.place.delay(since);
    }

    /// Returns the work of all sessions.
    pub(super) fn sessions(&self) -> &Activities {
        self.place.all()
    }

    /// Returns the resources used by each statement, over all sessions.
    pub(super) fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    /// Notes that something other than a measured statement runs.
    pub(super) fn disturb(&mut self) {
        self.meter.disturb();
    }

    /// As [`Self::disturb`], if SQLite is asked for nothing.
    pub(super) fn pause(&mut self) {
        self.meter.pause();
    }

    /// Begins a measured statement.
    pub(super) fn begin(&mut self, db: &Db) {
        self.meter.begin(|| db.pages());
    }

    /// Ends it, with its number of rows, or with an error: then it counts in the session's figures
    /// only.
    pub(super) fn end(
        &mut self,
        (lazy, frame): (&Lazy, &Frame),
        rows: Option<u64>,
        (db, state): (&Db, &State),
    ) {
        let used = self.meter.pass(db.pages(), rows.unwrap_or(0));
        self.used = used;
        let (Some(origin), Some(_)) = (&frame.origin, rows) else { return };
        let now = state.now;
        let mut tally = lazy.tally.lock().unwrap_or_else(PoisonError::into_inner);
        if tally.as_ref().is_some_and(|tally| tallies::add(tally, &used, now)) {
            return;
        }
        let made = self.tallies.enter(origin, lazy.span, &state.database, now);
        tallies::add(&made, &used, now);
        *tally = Some(made);
    }

    /// Ends a statement that is neither a query nor a change, and reports its times.
    pub(super) fn end_timed(&mut self, db: &Db, sink: &mut dyn Sink) -> Flow {
        tell_times(self.meter.pass(db.pages(), 0), sink)
    }

    /// SET STATISTICS: reports the resources used by the statement that has just ended.
    pub(super) fn tell_used(&self, lazy: &Lazy, options: &Options, sink: &mut dyn Sink) -> Flow {
        let (io, time) = (options.statistics_io, options.statistics_time);
        if !io && !time {
            return Flow::Continue;
        }
        let used = self.used;
        if io {
            let tables = tables(&lazy.kind);
            let (logical, physical) = (used.pages.asked, used.pages.read);
            let told = Told::Reads { tables, logical, physical, written: used.pages.written };
            if sink.message(&told.message()) == Flow::Stop {
                return Flow::Stop;
            }
        }
        if time { tell_times(used, sink) } else { Flow::Continue }
    }
}

fn tell_times(used: Used, sink: &mut dyn Sink) -> Flow {
    let (cpu_ms, elapsed_ms) = (used.cpu_ns / 1_000_000, used.elapsed_ns / 1_000_000);
    sink.message(&Told::Times { cpu_ms, elapsed_ms }.message())
}

/// Returns the tables that a statement names, in its order.
fn tables(kind: &Kind) -> String {
    let mut found: Vec<String> = Vec::new();
    match kind {
        Kind::Query(query) => of_query(query, &mut found),
        Kind::Insert(insert) => {
            note(insert.target.object(), &mut found);
            if let Source::Query(query) = &insert.source {
                of_query(query, &mut found);
            }
        }
        Kind::Update(update) => note(update.target.object(), &mut found),
        Kind::Delete(delete) => note(delete.target.object(), &mut found),
        Kind::Merge(merge) => note(merge.target.object(), &mut found),
        _ => {}
    }
    found.join(", ")
}

fn note(name: &str, found: &mut Vec<String>) {
    if !found.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        found.push(name.to_owned());
    }
}

fn of_query(query: &Query, found: &mut Vec<String>) {
    query.children(&mut |child| match child {
        Child::Expr(expr) => of_expr(expr, found),
        Child::Query(query) => of_query(query, found),
        Child::Table(name) => note(name.object(), found),
    });
}

fn of_expr(expr: &Expr, found: &mut Vec<String>) {
    if let Some(query) = expr.query() {
        of_query(query, found);
    }
    expr.children(&mut |part| of_expr(part, found));
}
