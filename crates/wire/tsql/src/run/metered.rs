//! Measurement of statements, and the output of SET STATISTICS.

use std::sync::PoisonError;

use tdekit_wire_tds::Flow;
use tdekit_wire_tds::messages::Told;

use super::compile::Lazy;
use super::meter::Used;
use super::state::{Frame, Signal};
use super::tallies;
use super::work::Run;
use crate::ast::walk::Child;
use crate::ast::{Expr, Kind, Query, Source};
use crate::error::Result;

impl Run<'_> {
    /// Begins a measured statement.
    pub(crate) fn measure(&mut self) {
        let db = &self.s.db;
        self.s.meter.begin(|| db.pages());
    }

    /// Ends it, with its number of rows, or with an error: then it counts in the session's figures
    /// only.
    pub(crate) fn measured(&mut self, lazy: &Lazy, frame: &Frame, rows: Option<u64>) {
        let pages = self.s.db.pages();
        let used = self.s.meter.pass(pages, rows.unwrap_or(0));
        self.s.used = used;
        let (Some(origin), Some(_)) = (&frame.origin, rows) else { return };
        let now = self.s.state.now;
        let mut tally = lazy.tally.lock().unwrap_or_else(PoisonError::into_inner);
        if tally.as_ref().is_some_and(|tally| tallies::add(tally, &used, now)) {
            return;
        }
        let made = self.s.tallies.enter(origin, lazy.span, &self.s.state.database, now);
        tallies::add(&made, &used, now);
        *tally = Some(made);
    }

    /// SET STATISTICS: reports the resources used by the statement that has just ended.
    pub(crate) fn tell_used(&mut self, lazy: &Lazy) -> Flow {
        let options = &self.s.state.options;
        let (io, time) = (options.statistics_io, options.statistics_time);
        if !io && !time {
            return Flow::Continue;
        }
        let used = self.s.used;
        if io {
            let tables = tables(&lazy.kind);
            let (logical, physical) = (used.pages.asked, used.pages.read);
            let told = Told::Reads { tables, logical, physical, written: used.pages.written };
            if self.sink.message(&told.message()) == Flow::Stop {
                return Flow::Stop;
            }
        }
        if time { self.tell_times(used) } else { Flow::Continue }
    }

    fn tell_times(&mut self, used: Used) -> Flow {
        let (cpu_ms, elapsed_ms) = (used.cpu_ns / 1_000_000, used.elapsed_ns / 1_000_000);
        self.sink.message(&Told::Times { cpu_ms, elapsed_ms }.message())
    }

    /// Runs a statement that is neither a query nor a change, under SET STATISTICS TIME.
    pub(super) fn timed(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<Signal>,
    ) -> Result<Signal> {
        if !self.s.state.options.statistics_time {
            return work(self);
        }
        self.measure();
        let signal = work(self)?;
        let pages = self.s.db.pages();
        let used = self.s.meter.pass(pages, 0);
        Ok(if self.tell_times(used) == Flow::Stop { Signal::Stop } else { signal })
    }
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
