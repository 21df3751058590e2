//! Experiment D from beginning to end: restarts, within them pairs of every batch, within these the
//! kinds of connections.

use std::time::{Duration, Instant};

use fastrand::Rng;
use tdekit_cost_report::{
    MessagesCell, MessagesMode, MessagesReport, MessagesRun, MessagesSide, MessagesSummary, Role,
    summarize_messages,
};

use super::options::{MessagesPlan, Target};
use super::own::{Home, LOGIN, OwnServer};
use super::process::{self, Moment, Server};
use super::tds::{Connection, Login};
use crate::config::Config;
use crate::error::BenchError;
use crate::interrupt;
use crate::measure::wall_ns;
use crate::progress::Progress;
use crate::tools::Tools;

/// Restarts that run whatever the time limit: an interval needs two.
const LEAST_RESTARTS: u32 = 2;
/// Steps whose answer is looked at whole, before anything is measured.
const TRIAL_STEPS: u64 = 1000;
/// Steps from which the length of a block is reckoned.
const PROBE_STEPS: u64 = 20_000;
/// A block's steps, where they follow from its time.
const STEPS: std::ops::RangeInclusive<f64> = 1000.0..=100_000_000.0;
const BLOCK_S: std::ops::RangeInclusive<f64> = 0.1..=2.0;
/// Bytes of text in a row of the large result.
const FILLER_BYTES: usize = 96;

/// What came of it. With `failure` the report holds what was measured until then.
pub(crate) struct Outcome {
    pub(crate) report: MessagesReport,
    pub(crate) warnings: Vec<String>,
    pub(crate) failure: Option<BenchError>,
}

/// Runs the experiment.
///
/// # Errors
/// Fails when nothing could be measured.
pub(crate) fn run(
    config: &Config,
    tools: &Tools,
    confidence: f64,
    progress: &Progress,
) -> Result<Outcome, BenchError> {
    let plan = &config.messages;
    if plan.loops.is_some_and(|loops| i32::try_from(loops).is_err()) {
        let reason = "the message loop counts in an INT: at most 2,147,483,647".to_owned();
        return Err(BenchError::Option { option: "--loops", reason });
    }
    let home = match &plan.target {
        Some(_) => None,
        None => {
            progress.say("a server of its own");
            Some(Home::make(tools.tdekit.clone(), &config.directory)?)
        }
    };
    let mut measuring = Measuring {
        plan,
        home: home.as_ref(),
        progress,
        rng: Rng::with_seed(config.seed),
        warnings: Vec::new(),
        streams: plan.stream_rows > 0,
        report: empty(plan, config.control),
    };
    let failure = match measuring.run() {
        Err(error) if measuring.report.runs.is_empty() => return Err(error),
        outcome => outcome.err(),
    };
    let Measuring { mut report, warnings, .. } = measuring;
    report.summary = summarize_messages(&report, confidence);
    Ok(Outcome { report, warnings, failure })
}

fn empty(plan: &MessagesPlan, control: bool) -> MessagesReport {
    let side = |id: &str, label: &str, role, mode| MessagesSide {
        id: id.to_owned(),
        label: label.to_owned(),
        role,
        mode,
        protocol: None,
        suite: None,
        packet_bytes: 0,
    };
    let mut sides = vec![side("off", "plain", Role::Base, MessagesMode::Off)];
    if control {
        sides.push(side("off-again", "plain, again", Role::Encrypted, MessagesMode::Off));
    } else {
        sides.extend(plan.modes.iter().map(|mode| {
            side(mode.name(), &format!("TLS {}", mode.name()), Role::Encrypted, *mode)
        }));
    }
    let limits = vec![
        "Client and server share the machine's processors where both run on it, and loopback has \
         no network's latency."
            .to_owned(),
        "Context switches of a server's thread that ends within a batch are not seen.".to_owned(),
    ];
    MessagesReport {
        target: plan.target.as_ref().map_or_else(|| "own".to_owned(), |at| at.url.to_string()),
        server: String::new(),
        server_process: None,
        loops: plan.loops.unwrap_or(0),
        stream_rows: plan.stream_rows.into(),
        packet_bytes: plan.packet_bytes.into(),
        restarts: plan.restarts,
        sides,
        cells: Vec::new(),
        runs: Vec::new(),
        limits,
        summary: MessagesSummary::default(),
    }
}

/// The document's loop, and a look whether all its steps were made.
fn loop_batch(steps: u64) -> String {
    format!(
        "DECLARE @cnt int = 0;\nBEGIN\n  WHILE @cnt < {steps}\n  BEGIN\n    \
         SET @cnt = @cnt + 1;\n  END;\nEND\nSELECT @cnt AS steps;"
    )
}

const STREAM_BATCH: &str = "SELECT n, filler FROM #tdekit_rows";

struct Measuring<'a> {
    plan: &'a MessagesPlan,
    home: Option<&'a Home>,
    progress: &'a Progress,
    rng: Rng,
    warnings: Vec<String>,
    /// Whether the large result is measured.
    streams: bool,
    report: MessagesReport,
}

/// The connections of a restart, by side, and the process they lead to.
struct Bed {
    connections: Vec<Connection>,
    server: Option<Server>,
    /// Ends with the restart.
    _own: Option<OwnServer>,
}

impl Measuring<'_> {
    fn run(&mut self) -> Result<(), BenchError> {
        let begun = Instant::now();
        let mut longest = Duration::ZERO;
        for number in 0..self.plan.restarts {
            let left = self.plan.max_time.saturating_sub(begun.elapsed());
            if number >= LEAST_RESTARTS && left < longest {
                self.warnings.push(format!(
                    "The time limit ended the message experiment after {number} of {} restarts.",
                    self.plan.restarts
                ));
                break;
            }
            let began = Instant::now();
            self.progress.say(format!("messages, restart {}", number + 1));
            self.restart(number)?;
            longest = longest.max(began.elapsed());
        }
        Ok(())
    }

    fn restart(&mut self, number: u32) -> Result<(), BenchError> {
        let mut bed = self.bed()?;
        if number == 0 {
            self.describe(&bed);
        }
        for connection in &mut bed.connections {
            interrupt::check()?;
            // Its errors come with their text, and it warms the server up.
            connection.ask(&loop_batch(TRIAL_STEPS))?;
        }
        if self.streams {
            self.fill(&mut bed)?;
        }
        if number == 0 {
            self.choose_cells(&mut bed)?;
        }
        for pair in 0..self.plan.pairs {
            let mut cells = self.report.cells.clone();
            self.rng.shuffle(&mut cells);
            for cell in &cells {
                let mut order: Vec<usize> = (0..bed.connections.len()).collect();
                self.rng.shuffle(&mut order);
                for (position, side) in (0..).zip(order) {
                    interrupt::check()?;
                    self.batch(&mut bed, cell, side, (number, pair, position))?;
                }
                self.progress.step(1);
            }
        }
        Ok(())
    }

    /// A fresh server, where it is ours, and fresh connections in random order.
    fn bed(&mut self) -> Result<Bed, BenchError> {
        let own = self.home.map(Home::start).transpose()?;
        let mut order: Vec<usize> = (0..self.report.sides.len()).collect();
        self.rng.shuffle(&mut order);
        let mut opened: Vec<(usize, Connection)> = Vec::new();
        for at in order {
            let Some(side) = self.report.sides.get(at) else { continue };
            let login = self.login(own.as_ref());
            opened.push((at, Connection::open(&login, side.mode)?));
        }
        opened.sort_by_key(|(at, _)| *at);
        let connections: Vec<Connection> = opened.into_iter().map(|(_, found)| found).collect();
        let server = match (&own, &self.plan.target, connections.first()) {
            (Some(own), ..) => Ok(Server::of(own.pid())),
            (None, Some(target), Some(connection)) => {
                Server::listening(connection.address(), target.url.port)
            }
            _ => Err("there is none".to_owned()),
        };
        if let (Err(reason), true) = (&server, self.report.runs.is_empty()) {
            let limit = format!("CPU and context switches of the server are not told: {reason}.");
            if !self.report.limits.contains(&limit) {
                self.report.limits.push(limit);
            }
        }
        Ok(Bed { connections, server: server.ok(), _own: own })
    }

    fn login(&self, own: Option<&OwnServer>) -> Login {
        let (trust, packet_bytes) = (self.plan.trust.clone(), self.plan.packet_bytes);
        match (&self.plan.target, own, self.home) {
            (Some(Target { url, password }), ..) => Login {
                host: url.host.clone(),
                port: url.port,
                user: url.user.clone(),
                password: password.clone(),
                database: url.database.clone(),
                trust,
                packet_bytes,
            },
            (None, own, home) => Login {
                host: "127.0.0.1".to_owned(),
                port: own.map_or(0, |own| own.address.port()),
                user: LOGIN.to_owned(),
                password: home.map(|home| home.password.clone()).unwrap_or_default(),
                database: String::new(),
                trust,
                packet_bytes,
            },
        }
    }

    /// What the connections tell of themselves.
    fn describe(&mut self, bed: &Bed) {
        self.report.server_process = bed.server.as_ref().map(|server| server.name.clone());
        for (side, connection) in self.report.sides.iter_mut().zip(&bed.connections) {
            connection.server().clone_into(&mut self.report.server);
            side.packet_bytes = connection.packet_bytes().into();
            side.protocol = connection.negotiated().map(|tls| tls.protocol.clone());
            side.suite = connection.negotiated().map(|tls| tls.suite.clone());
        }
    }

    /// Makes the rows of the large result, on every connection its own. A server that cannot is
    /// measured without them, and the report says so.
    fn fill(&mut self, bed: &mut Bed) -> Result<(), BenchError> {
        for connection in &mut bed.connections {
            match fill(connection, self.plan.stream_rows) {
                Ok(()) => {}
                Err(error @ BenchError::ServerSaid { .. }) if self.report.runs.is_empty() => {
                    self.streams = false;
                    self.warnings.push(format!(
                        "The large result was left out: the server refused its rows ({error})."
                    ));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn choose_cells(&mut self, bed: &mut Bed) -> Result<(), BenchError> {
        let count = if self.streams { 2 } else { 1 };
        let rounds = u64::from(self.plan.restarts) * u64::from(self.plan.pairs) * count;
        let steps = match (self.plan.loops, bed.connections.first_mut()) {
            (None, Some(connection)) => {
                let began = Instant::now();
                connection.drain(&loop_batch(PROBE_STEPS))?;
                let sides = u64::try_from(self.report.sides.len()).unwrap_or(u64::MAX);
                self.steps(began.elapsed(), rounds.saturating_mul(sides))
            }
            (given, _) => given.unwrap_or(PROBE_STEPS),
        };
        self.report.loops = steps;
        self.report.cells.push(MessagesCell {
            id: "loop".to_owned(),
            label: "message loop".to_owned(),
            statement: loop_batch(steps),
            units: steps,
            unit: "step".to_owned(),
        });
        if self.streams {
            self.report.cells.push(MessagesCell {
                id: "stream".to_owned(),
                label: "large result".to_owned(),
                statement: STREAM_BATCH.to_owned(),
                units: self.plan.stream_rows.into(),
                unit: "row".to_owned(),
            });
        } else {
            self.report.stream_rows = 0;
        }
        self.progress.count(rounds);
        Ok(())
    }

    /// Steps that fill a block, of which there are `blocks`, in two digits.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "within the bounds of STEPS"
    )]
    fn steps(&self, probe: Duration, blocks: u64) -> u64 {
        let fair = self.plan.max_time.as_secs_f64() * 0.6 / blocks.max(1) as f64;
        let block_s = fair.clamp(*BLOCK_S.start(), *BLOCK_S.end());
        let steps = PROBE_STEPS as f64 * block_s / probe.as_secs_f64().max(1e-6);
        let steps = steps.clamp(*STEPS.start(), *STEPS.end());
        let digit = 10_f64.powf(steps.log10().floor() - 1.0);
        ((steps / digit).round() * digit).round() as u64
    }

    fn batch(
        &mut self,
        bed: &mut Bed,
        cell: &MessagesCell,
        at: usize,
        (restart, pair, position): (u32, u32, u32),
    ) -> Result<(), BenchError> {
        let (Some(connection), Some(side)) =
            (bed.connections.get_mut(at), self.report.sides.get(at))
        else {
            return Ok(());
        };
        let pid = bed.server.as_ref().map(|server| server.pid);
        let server = pid.map(Moment::of);
        let client = process::own_thread();
        let wall = wall_ns();
        let drained = connection.drain(&cell.statement)?;
        let elapsed_ns = wall_ns().saturating_sub(wall);
        let client = process::between(client, process::own_thread());
        let server = pid.zip(server).and_then(|(pid, before)| Moment::of(pid).since(&before));
        let (found, wanted) = match cell.id.as_str() {
            "loop" => (drained.last_int.and_then(|last| u64::try_from(last).ok()), cell.units),
            _ => (drained.rows, cell.units),
        };
        if found != Some(wanted) {
            let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
            let what = format!("{}, {}", cell.label, side.label);
            let detail = format!("{found} instead of {wanted} {}s", cell.unit);
            return Err(BenchError::Mismatch { what, detail });
        }
        self.report.runs.push(MessagesRun {
            cell: cell.id.clone(),
            side: side.id.clone(),
            restart,
            pair,
            position,
            elapsed_ns,
            packets: drained.packets,
            bytes: drained.bytes,
            wire_bytes: drained.wire_bytes,
            server,
            client,
        });
        Ok(())
    }
}

/// A temporary table of `rows` rows, a power of two, made by doubling.
fn fill(connection: &mut Connection, rows: u32) -> Result<(), BenchError> {
    connection.ask("CREATE TABLE #tdekit_rows (n int NOT NULL, filler varchar(200) NOT NULL)")?;
    let filler: String = ('a'..='z').cycle().take(FILLER_BYTES).collect();
    connection.ask(&format!("INSERT INTO #tdekit_rows (n, filler) VALUES (1, '{filler}')"))?;
    let mut there = 1;
    while there < rows {
        interrupt::check()?;
        connection.ask(&format!(
            "INSERT INTO #tdekit_rows (n, filler) SELECT n + {there}, filler FROM #tdekit_rows"
        ))?;
        there *= 2;
    }
    Ok(())
}
