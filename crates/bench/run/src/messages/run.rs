//! Messages over TDS from beginning to end: pairs of every cell, within these the kinds of
//! connections; then idle connections.

use fastrand::Rng;
use tdekit_bench_report::{Experiment, Report, Results, Role, Run, Side};
use tdekit_system_use::Listener;

use super::cells::{self, fill, loop_batch};
use super::idle;
use super::own::{Home, LOGIN, OwnServer};
use super::points::{self, Direct, Prepared};
use super::tds::{Connection, Dialer, Login, Mode, TdsError};
use super::work::{self, Seat, Task, Wire};
use crate::error::{BenchError, Result};
use crate::experiment::Figures;
use crate::interrupt;
use crate::plan::Config;
use crate::plan::messages::{MessagesPlan, Part};
use crate::progress::Progress;
use crate::schedule::{
    self, Block, Ended, Ground, Kind, Place, Steering, Surroundings, in_random_order,
};
use crate::tools::Tools;

/// Steps whose complete answer is checked before anything is measured.
const TRIAL_STEPS: u64 = 1000;
/// The side without a connection.
const DIRECT: &str = "direct";

/// Runs the experiment: a [`crate::experiment::RunExperiment`].
pub(crate) fn run(
    config: &Config,
    tools: &Tools,
    mut around: Surroundings<'_>,
    results: &mut Results,
) -> Result<Ended> {
    let plan = &config.messages;
    if plan.loops.is_some_and(|loops| i32::try_from(loops).is_err()) {
        let reason = "the message loop counts in an INT: at most 2,147,483,647";
        return Err(BenchError::option("--loops", reason));
    }
    if plan.parts.contains(&Part::Idle) {
        idle::make_room(plan.idle)?;
    }
    let home = match &plan.target {
        Some(_) => None,
        None => {
            around.progress.say("a server of its own");
            Some(Home::make(tools.tdekit.clone(), &config.directory)?)
        }
    };
    let (sides, modes): (Vec<_>, Vec<_>) = sides(plan, config.given.basics.aa).into_iter().unzip();
    let mut measuring = Measuring {
        plan,
        modes,
        home: home.as_ref(),
        directory: &config.directory,
        progress: around.progress,
        warnings: Vec::new(),
        bed: None,
        streams: plan.stream_rows > 0,
        tasks: Vec::new(),
        figures: Figures::new(empty(plan, sides), config, &results.settings),
    };
    let ended = match measuring.run(config.given.basics.seed, around.inner()) {
        Ok(reached) => Ended { failure: None, reached },
        Err(error) => Ended { failure: Some(error), reached: false },
    };
    let ended = measuring.figures.finish(ended, &mut results.messages)?;
    around.warnings.append(&mut measuring.warnings);
    if let (Some(report), true) = (&results.messages, results.subject.label.is_empty()) {
        report.text("server").clone_into(&mut results.subject.label);
    }
    Ok(ended)
}

/// Returns the sides, with the encryption of each; none for SQLite in the bench's own process, on
/// the same database.
fn sides(plan: &MessagesPlan, control: bool) -> Vec<(Side, Option<Mode>)> {
    let side = |id: &str, label: &str, role, mode: Option<Mode>| {
        let mut side = Side::new(id, label, role);
        side.facts.insert("mode".to_owned(), mode.map_or(DIRECT, Mode::name).into());
        (side, mode)
    };
    let mut sides = vec![side("off", "plain", Role::Base, Some(Mode::Off))];
    if control {
        sides.push(side("off-again", "plain, again", Role::Encrypted, Some(Mode::Off)));
    } else {
        sides.extend(plan.modes.iter().map(|mode| {
            side(mode.name(), &format!("TLS {}", mode.name()), Role::Encrypted, Some(*mode))
        }));
    }
    if plan.target.is_none() && plan.parts.contains(&Part::Points) {
        sides.push(side(DIRECT, "in-process", Role::Reference, None));
    }
    sides
}

fn empty(plan: &MessagesPlan, sides: Vec<Side>) -> Report {
    let mut report = Report::new(Experiment::Messages, sides);
    report.limits = vec![
        "Client and server share the machine's processors where both run on it, and loopback has \
         no network's latency."
            .to_owned(),
        "Context switches of a server's thread that ends within a batch are not seen.".to_owned(),
    ];
    let target = plan.target.as_ref().map_or_else(|| "own".to_owned(), |at| at.url.to_string());
    report.set("target", target);
    report.set("packet_bytes", u32::from(plan.packet_bytes));
    report.set("restarts", plan.restarts);
    report
}

struct Measuring<'a> {
    plan: &'a MessagesPlan,
    home: Option<&'a Home>,
    /// For files that are removed in the end.
    directory: &'a std::path::Path,
    progress: &'a Progress,
    warnings: Vec<String>,
    /// True if the large result is measured.
    streams: bool,
    /// One for each of the report's cells.
    tasks: Vec<Task>,
    /// One for each of the report's sides.
    modes: Vec<Option<Mode>>,
    figures: Figures,
    bed: Option<Bed>,
}

/// The seats of a restart, by side, and the server process of the connections.
struct Bed {
    seats: Vec<Seat>,
    server: Option<Listener>,
    /// Stopped at the end of the restart.
    _own: Option<OwnServer>,
}

impl Bed {
    fn wires(&mut self) -> impl Iterator<Item = &mut Wire> {
        self.seats.iter_mut().filter_map(|seat| match seat {
            Seat::Wire(wire) => Some(wire.as_mut()),
            Seat::Direct(_) => None,
        })
    }
}

impl Measuring<'_> {
    fn run(&mut self, seed: u64, around: Surroundings<'_>) -> Result<bool> {
        let mut reached = true;
        if let (Some(home), true) = (self.home, self.plan.parts.contains(&Part::Points)) {
            self.progress.say("rows to select from");
            let own = home.start()?;
            let mut connection = Connection::open(&self.login(Some(&own)), Mode::Off)?;
            points::make_database(&mut connection, self.plan.point_rows)?;
        }
        let paired = self.plan.parts.iter().any(|part| *part != Part::Idle);
        if paired || !self.plan.drivers.is_empty() {
            let MessagesPlan { restarts, pairs, max_time, .. } = *self.plan;
            let length = self.figures.length("the message experiment", (restarts, pairs), max_time);
            let ended = schedule::run(self, &length, seed, around);
            reached = ended.reached;
            if let Some(error) = ended.failure {
                return Err(error);
            }
        }
        if self.plan.parts.contains(&Part::Idle) {
            self.idle()?;
        }
        Ok(reached)
    }

    /// Creates a fresh server, if it is ours, and fresh connections in random order.
    fn bed(&mut self, rng: &mut Rng) -> Result<Bed> {
        let own = self.home.map(Home::start).transpose()?;
        let seats = in_random_order(&self.modes, rng, |mode| self.seat(*mode, own.as_ref()))?;
        let mut bed = Bed { seats, server: None, _own: None };
        let server = match bed.wires().next() {
            Some(wire) => self.server(own.as_ref(), &wire.connection),
            None => Err("there is none".to_owned()),
        };
        if let (Err(reason), true) = (&server, self.figures.report.runs.is_empty()) {
            let limit = format!("CPU and context switches of the server are not known: {reason}.");
            if !self.figures.report.limits.contains(&limit) {
                self.figures.report.limits.push(limit);
            }
        }
        Ok(Bed { server: server.ok(), _own: own, ..bed })
    }

    /// Returns the server process of a connection, or the reason why it cannot be observed.
    fn server(&self, own: Option<&OwnServer>, connection: &Connection) -> Result<Listener, String> {
        match (own, &self.plan.target) {
            (Some(own), _) => Ok(Listener::of(own.pid())),
            (None, Some(target)) => Listener::at(connection.address(), target.url.port),
            (None, None) => Err("there is none".to_owned()),
        }
    }

    fn seat(&self, mode: Option<Mode>, own: Option<&OwnServer>) -> Result<Seat> {
        match (mode, self.home) {
            (None, Some(home)) => {
                let database = home.data().join(format!("{}.db", points::DATABASE));
                Ok(Seat::Direct(Direct::open(&database)?))
            }
            (mode, _) => {
                let dialer = Dialer::new(self.login(own), mode.unwrap_or(Mode::Off));
                let connection = dialer.open()?;
                Ok(Seat::Wire(Box::new(Wire { connection, dialer, points: None })))
            }
        }
    }

    fn login(&self, own: Option<&OwnServer>) -> Login {
        let login = Login {
            host: "127.0.0.1".to_owned(),
            port: own.map_or(0, |own| own.port),
            user: LOGIN.to_owned(),
            password: self.home.map(|home| home.password.clone()).unwrap_or_default(),
            database: String::new(),
            trust: (&self.plan.trust).into(),
            packet_bytes: self.plan.packet_bytes,
            stopped: interrupt::requested,
        };
        self.plan.login().unwrap_or(login)
    }

    /// Notes the properties that a connection reports.
    fn describe_side(&mut self, at: usize, connection: &Connection, server: Option<&Listener>) {
        self.figures.report.set("server", connection.server());
        if let Some(server) = server {
            self.figures.report.set("server_process", server.name.as_str());
        }
        let Some(side) = self.figures.report.sides.get_mut(at) else { return };
        side.facts.insert("packet_bytes".to_owned(), u32::from(connection.packet_bytes()).into());
        if let Some(tls) = connection.negotiated() {
            side.facts.insert("protocol".to_owned(), tls.protocol.as_str().into());
            side.cipher = Some(tls.suite.clone());
        }
    }

    /// Creates the rows of the large result, separately on every connection. A server that cannot
    /// is measured without them, and the report says so.
    fn fill(&mut self, bed: &mut Bed) -> Result<()> {
        for wire in bed.wires() {
            match fill(&mut wire.connection, self.plan.stream_rows) {
                Ok(()) => {}
                Err(error @ BenchError::Tds(TdsError::ServerSaid { .. }))
                    if self.figures.report.runs.is_empty() =>
                {
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

    fn choose_cells(&mut self, bed: &mut Bed) -> Result<()> {
        let sides = bed.seats.len();
        let Some(first) = bed.wires().next() else { return Ok(()) };
        self.tasks = cells::choose(
            self.plan,
            (self.streams, sides),
            self.directory,
            &mut first.connection,
            &mut self.figures.report.limits,
        )?;
        self.figures.report.cells = self.tasks.iter().map(|task| task.cell.clone()).collect();
        for (id, fact) in [("loop", "loops"), ("stream", "stream_rows")] {
            let found = self.figures.report.cells.iter().find(|cell| cell.id == id);
            if let Some(units) = found.map(|cell| cell.operations) {
                self.figures.report.set(fact, units);
            }
        }
        Ok(())
    }

    /// Measures idle connections, of every kind; a fresh server for each, if it is ours.
    fn idle(&mut self) -> Result<()> {
        let kinds: Vec<(usize, Mode)> =
            (0..).zip(&self.modes).filter_map(|(at, mode)| Some((at, (*mode)?))).collect();
        for (at, mode) in kinds {
            let Some(side) = self.figures.report.sides.get(at) else { continue };
            let id = side.id.clone();
            interrupt::check()?;
            self.progress.say(format!("{} connections that wait, {id}", self.plan.idle));
            let own = self.home.map(Home::start).transpose()?;
            let dialer = Dialer::new(self.login(own.as_ref()), mode);
            let first = dialer.open()?;
            let server = self.server(own.as_ref(), &first);
            let server = match server {
                Ok(server) => server,
                Err(reason) => {
                    let limit = format!("The cost of waiting connections is not known: {reason}.");
                    self.figures.report.limits.push(limit);
                    return Ok(());
                }
            };
            self.describe_side(at, &first, Some(&server));
            drop(first);
            let size = (id.as_str(), self.plan.idle, self.plan.connect_threads);
            self.figures.report.idle.push(idle::measure(&dialer, server.pid, size)?);
        }
        Ok(())
    }
}

impl Ground for Measuring<'_> {
    /// Index in the report's cells.
    type Cell = usize;
    type Found = Run;

    fn cells(&mut self, kind: Kind) -> Vec<usize> {
        self.figures.wanted(kind, 0..self.tasks.len(), |at| vec![self.name(at)])
    }

    fn name(&self, at: &usize) -> String {
        self.tasks.get(*at).map_or_else(String::new, |task| task.cell.id.clone())
    }

    fn sides(&self, at: &usize, _pair: u32) -> Vec<usize> {
        let (Some(task), Some(bed)) = (self.tasks.get(*at), &self.bed) else { return Vec::new() };
        let seats = bed.seats.iter().enumerate();
        seats.filter(|(_, seat)| task.work.fits(seat)).map(|(side, _)| side).collect()
    }

    fn prepare(&mut self, number: u32, _: &[usize], rng: &mut Rng, _: &mut Steering) -> Result<()> {
        self.bed = None;
        let mut bed = self.bed(rng)?;
        if number == 0 {
            for (at, seat) in bed.seats.iter().enumerate() {
                let Seat::Wire(wire) = seat else { continue };
                self.describe_side(at, &wire.connection, bed.server.as_ref());
            }
        }
        for wire in bed.wires() {
            interrupt::check()?;
            // Reports errors with their text, and warms the server up.
            wire.connection.ask(&loop_batch(TRIAL_STEPS))?;
        }
        if self.streams {
            self.fill(&mut bed)?;
        }
        if self.plan.parts.contains(&Part::Points) {
            for wire in bed.wires() {
                let (own, rows) = (self.home.is_some(), self.plan.point_rows);
                wire.points = Some(Prepared::make(&mut wire.connection, own, rows)?);
            }
        }
        if number == 0 {
            self.choose_cells(&mut bed)?;
        }
        self.bed = Some(bed);
        Ok(())
    }

    fn block(&mut self, at: &usize, place: Place, _steering: &mut Steering) -> Result<Block<Run>> {
        let none = Block::Done(Vec::new());
        let Some(bed) = &mut self.bed else { return Ok(none) };
        let (Some(seat), Some(side), Some(task)) = (
            bed.seats.get_mut(place.side),
            self.figures.report.sides.get(place.side),
            self.tasks.get(*at),
        ) else {
            return Ok(none);
        };
        // The same rows on every side of the pair.
        let mut rng = Rng::with_seed(place.seed);
        let done = work::measure(task, (seat, side), bed.server.as_ref(), &mut rng)?;
        let Some(done) = done else { return Ok(none) };
        Ok(Block::Done(vec![place.run(&task.cell.id, &side.id, done.values())]))
    }

    fn keep(&mut self, found: Vec<Run>) {
        self.figures.keep(found);
    }

    fn clean_up(&mut self, _kind: Kind) -> Result<()> {
        self.bed = None;
        Ok(())
    }
}
