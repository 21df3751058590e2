//! Test tiers: `make test`, a landing, and `make test-all` (see ARCHITECTURE.md).

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::attack;
use crate::crate_tests::{Form, TestBuild};
use crate::documents;
use crate::full::{FullRun, FullRuns, commit_of_tree, commits};
use crate::interop::{Choice, interop};
use crate::plane::{Plane, workspace};
use crate::reach::Graph;
use crate::room;
use crate::s3_server::S3Server;
use crate::setup::{Purpose, setup};
use crate::shipped;
use crate::suite::Suite;
use crate::tally::Tally;
use crate::times::Times;

/// A landing starts no further suite unless it is expected to end by then.
const LANDING_LIMIT: Duration = Duration::from_mins(40);
/// Expected duration of a suite that has never run.
const UNKNOWN: Duration = Duration::from_mins(5);

/// A run of several parts.
#[derive(Default)]
struct Run {
    tally: Tally,
    parts: Times,
    programs: Times,
}

/// `make test`.
///
/// # Errors
/// When a part cannot be run, or a test fails.
pub(crate) fn test() -> Result<()> {
    let mut run = Run::default();
    let build = run.prepare(Purpose::Test)?;
    run.short(&build)?;
    run.close()
}

/// `cargo xtask test PLANE`: the short form of one plane, without set-up or servers. Everything is
/// built, as for `make test`: packages chosen individually would be recompiled with other features,
/// and tests of a plane run programs of others.
///
/// # Errors
/// When the tests cannot be built or run, or one fails.
pub(crate) fn plane(plane: Plane) -> Result<()> {
    let mut run = Run::default();
    let packages = plane.packages()?;
    let build = run.parts.of("build", TestBuild::whole)?;
    let tally = build.run(&packages, Form::Short, None, &mut run.programs)?;
    run.tally.add(tally);
    run.close()
}

/// The last step of `.ci/run`: runs in full the suites that changed since their last full run.
/// `spent` is the duration of the landing so far.
///
/// # Errors
/// When a suite cannot be run, or a test fails.
pub(crate) fn land(spent: Duration) -> Result<()> {
    let begun = Instant::now();
    let mut run = Run::default();
    let build = run.prepare(Purpose::Land)?;
    let mut left = Vec::new();
    for (suite, expected) in to_land()? {
        if spent + begun.elapsed() + expected > LANDING_LIMIT {
            left.push(suite.name());
            continue;
        }
        run.suite(suite, &build)?;
    }
    if !left.is_empty() {
        println!("left for want of time, `make test-all` runs them: {}", left.join(", "));
    }
    run.close()
}

/// `make test-all`: runs everything in full, or `only` these suites, and records what passed in
/// `.ci/full`.
///
/// # Errors
/// When a part cannot be run, or a test fails.
pub(crate) fn all(only: &[Suite]) -> Result<()> {
    let mut run = Run::default();
    let build = run.prepare(Purpose::All)?;
    let commit = commit_of_tree()?;
    if commit.is_none() {
        eprintln!("files differ from the last commit: nothing will be recorded in .ci/full");
    }
    let mut runs = FullRuns::read()?;
    let chosen = |suite: &Suite| only.is_empty() || only.contains(suite);
    for suite in Suite::all().into_iter().filter(chosen) {
        let begun = Instant::now();
        let whole = run.suite(suite, &build)?;
        if let Some(commit) = commit.clone().filter(|_| whole) {
            let seconds = begun.elapsed().as_secs();
            runs.record(suite.name(), FullRun { commit, seconds })?;
        }
    }
    run.close()
}

/// Returns the suites that a landing must run in full, those not run for the longest time first,
/// with the expected duration of each.
fn to_land() -> Result<Vec<(Suite, Duration)>> {
    let (runs, graph) = (FullRuns::read()?, Graph::read()?);
    let mut suites: Vec<_> = Suite::all().into_iter().filter(|suite| suite.lands()).collect();
    // Those of the same age are rotated with each commit, so that none is left out permanently.
    let turn = commits("HEAD") % (suites.len().max(1) as u64);
    suites.rotate_left(usize::try_from(turn).unwrap_or(0));
    let mut reached = Vec::new();
    for suite in suites {
        let last = runs.of(suite.name());
        if suite.is_reached(&graph, last)? {
            let age = last.map_or(u64::MAX, |run| commits(&format!("{}..HEAD", run.commit)));
            let expected = last.map_or(UNKNOWN, |run| Duration::from_secs(run.seconds));
            reached.push((age, suite, expected));
        }
    }
    reached.sort_by_key(|(age, ..)| std::cmp::Reverse(*age));
    let names: Vec<_> = reached.iter().map(|(_, suite, _)| suite.name()).collect();
    println!("changed since their last full run: {}", names.join(", "));
    Ok(reached.into_iter().map(|(_, suite, expected)| (suite, expected)).collect())
}

impl Run {
    /// Installs missing packages and creates the one build for everything.
    fn prepare(&mut self, purpose: Purpose) -> Result<TestBuild> {
        self.parts.of("setup", || setup(purpose))?;
        room::for_tests(purpose == Purpose::All)?;
        let build = self.parts.of("build", TestBuild::whole)?;
        shipped::use_built(Some(&build.directory()))?;
        Ok(build)
    }

    /// The tests of each crate in their short form, attacks, README's commands, and one real client
    /// for each interface.
    fn short(&mut self, build: &TestBuild) -> Result<()> {
        let packages: Vec<_> = workspace()?.iter().map(|each| each.name.to_string()).collect();
        let Self { tally, parts, programs } = self;
        let server = S3Server::start()?;
        let tests = || build.run(&packages, Form::Short, Some(&server), programs);
        tally.add(parts.of("crates' tests", tests)?);
        drop(server);
        tally.add(parts.of("attacks", || attack::counted(attack::SHORT))?);
        tally.add(parts.of("README", || documents::documents(Some("README.md")))?);
        tally.add(parts.of("a client each", || interop(Choice::OneEach, false))?);
        Ok(())
    }

    /// Runs a suite in full; returns true if all of it passed.
    fn suite(&mut self, suite: Suite, build: &TestBuild) -> Result<bool> {
        let Self { tally, parts, programs } = self;
        eprintln!("in full: {}", suite.name());
        let result =
            parts.of(&format!("{} in full", suite.name()), || suite.run(build, programs))?;
        let whole = result.failures.is_empty() && result.passed > 0;
        tally.add(result);
        Ok(whole)
    }

    /// Prints failures with their causes, all durations, and the closing line.
    fn close(&self) -> Result<()> {
        print!("{}{}", self.programs.table("test programs"), self.parts.table("parts"));
        self.tally.close()
    }
}
