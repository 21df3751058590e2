//! The server: its properties, its counters, and its refusals.

use std::collections::BTreeMap;
use std::time::Instant;

use tdekit_bench_report::{Experiment, Metric, Report, Side};

use super::names::{FACTS, SESSION, query_stats};
use super::tds::{Answer, Connection, TdsError, Value};
use crate::error::Result;
use crate::numbers::float;
use crate::plan::Config;

/// Size of a page in bytes, the unit of physical reads.
pub(super) const PAGE_BYTES: u64 = 8192;

/// Source of the cost of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counters {
    /// By the text of statements; for those without a separate plan, by the session.
    QueryStats,
    /// Of this session.
    Session,
    /// Nowhere: only the client's clock is left.
    Clock,
}

impl Counters {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::QueryStats => {
                "sys.dm_exec_query_stats; rebuilds, backups and mixes \
                                 sys.dm_exec_sessions"
            }
            Self::Session => "sys.dm_exec_sessions",
            Self::Clock => "none: the client's clock",
        }
    }
}

/// Properties reported by a server.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// Program and version.
    pub(super) version: String,
    pub(super) edition: String,
    /// True if it is our endpoint, whose figures are not SQL Server's.
    pub(super) ours: bool,
    pub(super) counters: Counters,
    /// What it does not report, with the reasons.
    pub(super) limits: Vec<String>,
}

impl Server {
    pub(super) fn ask(connection: &mut Connection) -> Result<Self> {
        let facts = connection.query(FACTS)?;
        let text = |at: usize| {
            let value = facts.rows.first().and_then(|row| row.get(at)).and_then(Value::text);
            value.unwrap_or_default().trim().to_owned()
        };
        let said = text(0);
        let ours = said.to_lowercase().contains("tdekit")
            || connection.server().to_lowercase().contains("tdekit");
        let first = said.lines().next().unwrap_or_default().trim();
        let mut server = Self::named(first, &text(1), &text(2), ours);
        let mut may = |sql: &str| match connection.query(sql) {
            Ok(_) => Ok(Ok(())),
            Err(error) => refusal(error).map(Err),
        };
        let (session, texts) = (may(SESSION)?, may(&query_stats("none"))?);
        server.count_by(session, texts);
        Ok(server)
    }

    /// Returns the server by the first line of its version, its edition and its product's version.
    pub(super) fn named(first: &str, edition: &str, product: &str, ours: bool) -> Self {
        let version = match (ours, first.contains(product)) {
            (true, _) => format!("tdekit serve, not SQL Server ({first})"),
            (false, true) => first.to_owned(),
            (false, false) => format!("{first} {product}"),
        };
        let mut limits = Vec::new();
        if ours {
            limits.push(
                "The server is tdekit serve. None of these figures is one of SQL Server."
                    .to_owned(),
            );
        }
        Self { version, edition: edition.to_owned(), ours, counters: Counters::Clock, limits }
    }

    /// Notes which counters may be read: those of the session and those by the text of statements,
    /// each with the refusal message.
    pub(super) fn count_by(&mut self, session: Result<(), String>, texts: Result<(), String>) {
        self.counters = match (texts.is_ok(), session.is_ok()) {
            (true, true) => Counters::QueryStats,
            (false, true) => Counters::Session,
            (_, false) => Counters::Clock,
        };
        let all = [(session, "sys.dm_exec_sessions"), (texts, "sys.dm_exec_query_stats")];
        for (found, what) in all {
            if let Err(words) = found {
                self.limits.push(format!("{what} may not be read: {words}."));
            }
        }
        if self.counters == Counters::Session {
            self.limits.push(
                "Statements are counted by the own session: in whole milliseconds, each with the \
                 reading of the counters in it."
                    .to_owned(),
            );
        }
    }

    /// Returns a report on it, where `target` names the run or the script of a run.
    pub(super) fn report(&self, config: &Config, target: &str, sides: Vec<Side>) -> Report {
        let mut report = Report::new(Experiment::Server, sides);
        report.set("server", self.version.as_str());
        report.set("edition", self.edition.as_str());
        report.set("target", target);
        report.set("counters", self.counters.name());
        report.set("rows", config.rows);
        report.set("restarts", config.restarts);
        report.limits.clone_from(&self.limits);
        report
    }
}

/// Returns the message of a server that refuses a statement; any other error is a failure.
pub(super) fn refusal(error: TdsError) -> Result<String> {
    match error {
        TdsError::ServerSaid { number, text, .. } => {
            Ok(format!("Msg {number}: {}", text.trim_end_matches('.')))
        }
        other => Err(other.into()),
    }
}

/// The cost of statements on the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) cpu_ns: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) physical_reads: u64,
    pub(super) elapsed_ns: u64,
}

impl Used {
    /// Converts columns with this many nanoseconds in a unit: CPU, reads, writes, physical reads,
    /// elapsed time.
    fn of(row: &[Value], unit_ns: u64) -> Self {
        let at = |at: usize| {
            let value = row.get(at).and_then(Value::int).unwrap_or(0);
            u64::try_from(value).unwrap_or(0)
        };
        Self::counted(std::array::from_fn(at), unit_ns)
    }

    /// The same for numbers.
    pub(super) fn counted(counts: [u64; 5], unit_ns: u64) -> Self {
        let [cpu, reads, writes, physical_reads, elapsed] = counts;
        let (cpu_ns, elapsed_ns) = (cpu.saturating_mul(unit_ns), elapsed.saturating_mul(unit_ns));
        Self { cpu_ns, reads, writes, physical_reads, elapsed_ns }
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            physical_reads: self.physical_reads.saturating_sub(before.physical_reads),
            elapsed_ns: self.elapsed_ns.saturating_sub(before.elapsed_ns),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.reads = self.reads.saturating_add(other.reads);
        self.writes = self.writes.saturating_add(other.writes);
        self.physical_reads = self.physical_reads.saturating_add(other.physical_reads);
        self.elapsed_ns = self.elapsed_ns.saturating_add(other.elapsed_ns);
    }

    /// Returns the values for a report. Times of 0 were too short for the server's clock, and are
    /// left out.
    pub(super) fn values(&self) -> BTreeMap<Metric, f64> {
        let some = |value: u64| (value > 0).then(|| float(value));
        let all = [
            (Metric::Elapsed, some(self.elapsed_ns)),
            (Metric::Cpu, some(self.cpu_ns)),
            (Metric::PagesRead, Some(float(self.reads))),
            (Metric::PagesWritten, Some(float(self.writes))),
            (Metric::DeviceRead, Some(float(self.physical_reads.saturating_mul(PAGE_BYTES)))),
        ];
        all.into_iter().filter_map(|(metric, value)| Some((metric, value?))).collect()
    }
}

/// Returns this session's counters up to now.
pub(super) fn of_session(connection: &mut Connection) -> Result<Used> {
    let found = connection.query(SESSION)?;
    Ok(found.rows.first().map_or_else(Used::default, |row| Used::of(row, 1_000_000)))
}

/// Returns counters by tag; a statement may have several plans.
pub(super) fn by_tag(connection: &mut Connection, tag: &str) -> Result<BTreeMap<String, Used>> {
    Ok(tagged(&connection.query(&query_stats(tag))?))
}

fn tagged(answer: &Answer) -> BTreeMap<String, Used> {
    let mut found: BTreeMap<String, Used> = BTreeMap::new();
    for row in &answer.rows {
        let text = row.first().and_then(Value::text).unwrap_or_default();
        let tag = text.strip_prefix("/*tdekit ").and_then(|rest| rest.split_once(" */"));
        let (Some((tag, _)), Some(counts)) = (tag, row.get(1..)) else { continue };
        found.entry(tag.to_owned()).or_default().add(&Used::of(counts, 1_000));
    }
    found
}

/// Runs a batch; returns its time at the client.
pub(super) fn timed(connection: &mut Connection, batch: &str) -> Result<u64> {
    let began = Instant::now();
    connection.query(batch)?;
    Ok(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_of_a_statement_are_added_up() {
        let row = |text: &str, cpu: i64| {
            let mut row = vec![Value::Text(text.to_owned())];
            row.extend([cpu, 7, 0, 1, 9, 1].map(Value::Int));
            row
        };
        let rows = vec![
            row("/*tdekit a base select 03 */ SEL", 5),
            row("/*tdekit a base select 03 */ SEL", 6),
            row("SELECT", 100),
        ];
        let found = tagged(&Answer { rows, ..Answer::default() });
        assert_eq!(found.len(), 1);
        let used = found["a base select 03"];
        assert_eq!((used.cpu_ns, used.reads, used.elapsed_ns), (11_000, 14, 18_000));
        let values = used.since(&Used { cpu_ns: 11_000, ..Used::default() }).values();
        assert!(!values.contains_key(&Metric::Cpu));
        assert!((values[&Metric::DeviceRead] - 16_384.0).abs() < 1e-9);
    }
}
