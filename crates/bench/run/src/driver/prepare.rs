//! Everything before the first measured block: databases, sides, statements, calibration.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use rusqlite::{Connection, OpenFlags};
use tdekit_bench_report::{Class, Role, StatementInfo, Subject};

use super::block::crud_loops;
use super::classes::{self, Task, Work};
use super::restart::{crud_settings, operation_settings};
use super::{script, share};
use crate::backup::back_up;
use crate::derive::{self, Derived};
use crate::environment::check_space;
use crate::error::{BenchError, Result};
use crate::generate::generate;
use crate::interrupt;
use crate::job::{Planned, Request};
use crate::key_store::{self, KeyEnvironment};
use crate::numbers::float;
use crate::plan::{Config, Part};
use crate::private;
use crate::process::WorkerProcess;
use crate::progress::Progress;
use crate::sides::{self, SideChoice, SideSpec, copy_file};
use crate::speedtest;
use crate::subject::{
    self, copy_database, database_bytes, file_bytes, page_size, remove, remove_database,
};
use crate::tools::Tools;
use crate::twin;

/// Rows in each table of the small databases whose opening is timed.
const OPEN_ROWS: u64 = 100;
/// Number of databases whose opening is timed, besides the first.
pub(super) const OPEN_OTHERS: usize = 3;
/// Approximate number of bytes for each row of the three generated tables with their indexes, all
/// together.
const ROW_BYTES: u64 = 700;

/// A database of the run, by the name of its files.
pub(super) const CRUD: &str = "crud.db";
pub(super) const SUBJECT: &str = "subject.db";

/// Everything needed for measuring. Dropping it removes every copy.
pub(super) struct Prepared {
    pub(super) directory: private::Directory,
    pub(super) sides: Vec<SideSpec>,
    /// Requirements of full backups, if the command can back up.
    pub(super) backups: Option<Backups>,
    pub(super) tasks: Vec<Task>,
    /// Ids of the tasks that measure the headline, once all are known.
    pub(super) heads: Vec<String>,
    pub(super) plan: Vec<Planned>,
    pub(super) statements: Vec<StatementInfo>,
    /// A class for each of the user's statements.
    pub(super) script_classes: Vec<Class>,
    /// SQLite's `speedtest1`, if it runs.
    pub(super) speedtest: Option<PathBuf>,
    /// CPU of a loop of each mix in the driver alone, by class.
    pub(super) idle_loops: Vec<(String, f64)>,
    /// Kind of instructions that the workers count, or the reason why they count none.
    pub(super) instructions: String,
    pub(super) foreign_keys: bool,
    pub(super) plain: Plain,
    pub(super) generated_rows: Option<u64>,
    /// Size of each side's copy.
    pub(super) file_bytes: Vec<(String, f64)>,
}

/// The command and the key store for full backups.
pub(super) struct Backups {
    pub(super) tools: Tools,
    pub(super) keys: KeyEnvironment,
}

impl Prepared {
    /// Returns true if a side takes part in a task: peers have no backup command.
    pub(super) fn runs(&self, task: &Task, side: &SideSpec) -> bool {
        let wanted = match side.part {
            Part::All => true,
            Part::Heads => self.is_head(&task.class.id),
        };
        wanted && (!matches!(task.work, Work::FullBackup { .. }) || takes_backups(side))
    }

    /// Returns true for a class of the headline, and for one created by an order, which replaces
    /// them.
    fn is_head(&self, id: &str) -> bool {
        let own = self.tasks.iter().any(|task| task.class.id == id);
        !own || self.heads.iter().any(|head| head == id)
    }

    /// Returns the tasks that a side runs.
    pub(super) fn tasks_of<'a>(
        &'a self,
        tasks: &'a [Task],
        side: &'a SideSpec,
    ) -> impl Iterator<Item = &'a Task> {
        tasks.iter().filter(|task| self.runs(task, side))
    }

    /// Returns the path of a side's untouched copy of a database.
    pub(super) fn pristine(&self, side: &SideSpec, name: &str) -> PathBuf {
        self.pristine_directory(side).join(name)
    }

    fn pristine_directory(&self, side: &SideSpec) -> PathBuf {
        side.root(self.directory.path()).join("pristine").join(&side.side.id)
    }
}

/// Returns the name of one of the databases whose opening is timed.
pub(super) fn open_name(number: usize) -> String {
    format!("open-{number}.db")
}

/// Makes databases, sides and statements.
pub(super) fn prepare(config: &Config, tools: &Tools, progress: &Progress) -> Result<Prepared> {
    check_space(&config.directory, needed_bytes(config)?)?;
    let directory = private::run_directory(&config.directory)?;
    if let Some(path) = config.database.as_deref().filter(|_| config.encrypted) {
        twin::tell(path, directory.path());
    }
    progress.say("making the databases");
    let plain = make_plain(config, tools, directory.path())?;
    interrupt::check()?;
    progress.say("setting up the sides");
    let choice = SideChoice { config, tools, page_size_bytes: plain.described.page_size_bytes };
    let can_back_up = config.experiments.operations && tools.can_back_up();
    let keys = match can_back_up {
        true => key_store::make(&tools.tdekit, directory.path())?,
        false => choice.keys(directory.path())?,
    };
    let mut sides = sides::set_up(&choice, &keys)?;
    for side in &sides {
        check_space(side.root(directory.path()), bytes_of(config, 1)?)?;
    }
    if let Some(per_mille) = config.toll_per_mille {
        sides.push(sides::dearer(&choice, per_mille)?);
    }
    let mut prepared = Prepared {
        directory,
        sides,
        backups: can_back_up.then(|| Backups { tools: tools.clone(), keys }),
        tasks: Vec::new(),
        heads: Vec::new(),
        plan: Vec::new(),
        statements: Vec::new(),
        script_classes: Vec::new(),
        speedtest: None,
        idle_loops: Vec::new(),
        instructions: String::new(),
        foreign_keys: false,
        generated_rows: plain.crud.map(|_| config.rows),
        plain,
        file_bytes: Vec::new(),
    };
    progress.say("copying for each side");
    make_pristine(&mut prepared)?;
    interrupt::check()?;
    if let Some(name) = prepared.plain.crud.filter(|_| config.experiments.crud) {
        progress.say("calibrating the mixes");
        let loops = calibrate(config, &mut prepared, name)?;
        prepared.tasks.extend(classes::crud(config, &loops));
        prepared.idle_loops = share::idle_loops(config, tools)?;
    }
    if let Some(name) = prepared.plain.subject {
        progress.say("deriving statements");
        derive_tasks(config, &mut prepared, name)?;
        if config.experiments.script {
            progress.say("trying the script");
            script::add(config, &mut prepared, name)?;
        }
    }
    if config.experiments.speedtest {
        for side in &prepared.sides {
            side.stack()?;
        }
        progress.say("building speedtest1");
        prepared.speedtest = Some(speedtest::program()?);
        prepared.tasks.extend(classes::speedtest(config.given.speedtest_size));
    }
    if prepared.tasks.is_empty() {
        let path = config.database.clone().unwrap_or_default();
        return Err(BenchError::NothingDerived { path });
    }
    Ok(prepared)
}

/// Returns the space that a run needs in its directory.
pub(crate) fn needed_bytes(config: &Config) -> Result<u64> {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let sides = 2
        + number(config.further.algorithms.len())
        + u64::from(config.toll_per_mille.is_some())
        + number(config.peers.len()) * 2;
    bytes_of(config, sides)
}

/// Returns the required space: the plain copy, for each side an untouched and two working copies, a
/// backup and logs.
fn bytes_of(config: &Config, sides: u64) -> Result<u64> {
    let given = match &config.database {
        Some(path) => database_bytes(path)?,
        None => 0,
    };
    let generated = if config.database.is_none() || config.experiments.crud {
        config.rows.saturating_mul(ROW_BYTES)
    } else {
        0
    };
    let files = given.saturating_add(generated);
    Ok(files.saturating_mul(3 * sides + 4).saturating_add(32 << 20))
}

/// The plain originals of all copies.
pub(super) struct Plain {
    /// Names of the databases: one file for both when it was generated.
    pub(super) crud: Option<&'static str>,
    pub(super) subject: Option<&'static str>,
    pub(super) described: Subject,
}

fn make_plain(config: &Config, tools: &Tools, root: &Path) -> Result<Plain> {
    let directory = root.join("plain");
    private::make(&directory)?;
    let mut notes = Vec::new();
    let generating = config.experiments.crud || config.database.is_none();
    let page_size_bytes = match &config.database {
        Some(source) => {
            let target = directory.join(SUBJECT);
            if config.encrypted {
                twin::make(config, tools, source, &target)?;
            } else {
                notes.extend(copy_database(source, &target, config.given.page_size)?);
            }
            let connection =
                Connection::open(&target).map_err(BenchError::sqlite("cannot open the copy"))?;
            page_size(&connection)?
        }
        None => config.page_size_bytes(),
    };
    let make = |name: &str, rows: u64, seed: u64| {
        let control = (config.mixes.as_slice(), config.given.think_time.0);
        generate(&directory.join(name), rows, page_size_bytes, control, seed)
            .map_err(BenchError::sqlite("cannot generate a database"))
    };
    if generating {
        make(CRUD, config.rows, config.given.basics.seed)?;
    }
    for number in 0..=OPEN_OTHERS {
        make(&open_name(number), OPEN_ROWS, config.given.basics.seed.wrapping_add(number as u64))?;
    }
    let own = if config.database.is_some() { SUBJECT } else { CRUD };
    let generated = format!("generated Vendor/Card/Purchase, {} rows each", config.rows);
    let sized = (directory.join(own), page_size_bytes);
    let described = subject::describe(config.database.as_deref(), generated, (&sized.0, sized.1))?;
    Ok(Plain {
        crud: generating.then_some(CRUD),
        subject: config.experiments.needs_subject().then_some(own),
        described: Subject { notes, ..described },
    })
}

/// Creates every side's untouched copies.
fn make_pristine(prepared: &mut Prepared) -> Result<()> {
    let root = prepared.directory.path();
    let mut names: Vec<String> = [prepared.plain.crud, prepared.plain.subject]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect();
    names.dedup();
    names.extend((0..=OPEN_OTHERS).map(open_name));
    let measured = prepared.plain.subject.or(prepared.plain.crud);
    for side in &prepared.sides {
        let directory = prepared.pristine_directory(side);
        private::make(&directory)?;
        for name in &names {
            interrupt::check()?;
            let plain = root.join("plain").join(name);
            side.make_copy(
                &plain,
                &directory.join(name),
                prepared.plain.described.page_size_bytes,
            )?;
        }
        if let Some(name) = measured {
            let bytes = float(file_bytes(&directory.join(name))?);
            prepared.file_bytes.push((side.side.id.clone(), bytes));
        }
    }
    Ok(())
}

/// Creates a copy of the base's database for tests, with workers on it. Fails if SQLite did not
/// accept a setting.
pub(super) fn scratch(
    config: &Config,
    prepared: &Prepared,
    name: &str,
    settings: &[String],
    workers: u32,
) -> Result<(PathBuf, Vec<WorkerProcess>)> {
    let path = prepared.directory.path().join("scratch.db");
    let [base, ..] = prepared.sides.as_slice() else { return Ok((path, Vec::new())) };
    copy_file(&prepared.pristine(base, name), &path)?;
    let mut started = Vec::new();
    for _ in 0..workers {
        let (mut worker, _) = base.start()?;
        let state = worker.open(&path, base.on_open(settings))?;
        let found = state.get("journal_mode").map_or("none", String::as_str);
        if !found.eq_ignore_ascii_case(&config.given.journal_mode) {
            let asked = &config.given.journal_mode;
            let reason = format!("SQLite uses {found} where {asked} was asked for");
            return Err(BenchError::Option { option: "--journal-mode", reason });
        }
        started.push(worker);
    }
    Ok((path, started))
}

/// Returns the number of loops for each process and mix that fill the block time on the base.
fn calibrate(config: &Config, prepared: &mut Prepared, name: &str) -> Result<Vec<u64>> {
    let (path, mut workers) =
        scratch(config, prepared, name, &crud_settings(config), config.processes)?;
    prepared.instructions =
        workers.first().map_or_else(String::new, |worker| worker.instructions.clone());
    let mut found = Vec::new();
    let mut rng = Rng::with_seed(config.given.basics.seed);
    let tries = if config.given.loops.is_some() { 0 } else { 3 };
    for control in (1_i64..).take(config.mixes.len()) {
        let mut loops = config.given.loops.unwrap_or(8);
        for _ in 0..tries {
            // A block never repeats another's seed: the load mix would repeat its keys.
            let request = config.loops(control, loops, rng.u64(..));
            let cost = crud_loops(&mut workers, request, &mut || Ok(()))?;
            loops = scaled(loops, Duration::from_nanos(cost.elapsed_ns), config.block_time);
        }
        found.push(loops);
    }
    drop(workers);
    remove_database(&path)?;
    Ok(found)
}

/// Returns the number of loops for a block of `wanted`, if `loops` took `elapsed`; at most 64 times
/// as many, since a short first try is imprecise.
fn scaled(loops: u64, elapsed: Duration, wanted: Duration) -> u64 {
    let wanted = u128::from(loops) * wanted.as_nanos();
    let next = wanted / elapsed.as_nanos().max(1);
    u64::try_from(next).unwrap_or(u64::MAX).clamp(4, loops.saturating_mul(64))
}

/// Derives statements from the plain subject, rehearses them on the base and adds the classes.
fn derive_tasks(config: &Config, prepared: &mut Prepared, name: &str) -> Result<()> {
    let plain = prepared.directory.path().join("plain").join(name);
    let mut connection = Connection::open_with_flags(&plain, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(BenchError::sqlite("cannot open the copy"))?;
    interrupt::watch(&mut connection).map_err(BenchError::sqlite("cannot open the copy"))?;
    let derived = derive::derive(&connection, config.given.basics.seed)
        .map_err(BenchError::sqlite("cannot derive statements"))?;
    drop(connection);
    // A table whose reading was interrupted would count as unreadable.
    interrupt::check()?;
    prepared.plain.described.tables = derived.tables;
    prepared.plain.described.indexes = derived.indexes;
    prepared.foreign_keys = derived.foreign_keys;
    prepared.plain.described.notes.extend(derived.notes.iter().cloned());
    if config.experiments.operations {
        let (plan, notes) = rehearse(config, prepared, name, &derived)?;
        prepared.plain.described.notes.extend(notes);
        prepared.tasks.extend(classes::operations(config, &plan));
        prepared.statements = classes::statement_infos(&plan);
        match try_backups(prepared) {
            Ok(true) => prepared.tasks.extend(classes::full_backups()),
            Ok(false) => {}
            Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
            Err(error) => {
                prepared.plain.described.notes.push(format!("Full backups are left out: {error}."));
                prepared.backups = None;
            }
        }
        prepared.plan = plan;
    }
    if config.experiments.scans
        && let Some(scans) = &derived.scans
    {
        let pages = prepared.plain.described.bytes
            / u64::from(prepared.plain.described.page_size_bytes.max(1));
        prepared.tasks.extend(classes::scans(scans, pages));
    }
    Ok(())
}

/// Backs up a small database of each side in the same way as the measured backups; returns false if
/// the command cannot back up.
fn try_backups(prepared: &Prepared) -> Result<bool> {
    let Some(Backups { tools, keys }) = &prepared.backups else { return Ok(false) };
    let mut runner = WorkerProcess::start(&tools.worker, "backup", keys)?;
    let target = prepared.directory.path().join("tried.bak");
    for side in prepared.sides.iter().filter(|side| takes_backups(side)) {
        let source = prepared.pristine(side, &open_name(0));
        let cipher = side.backup_cipher();
        runner.run(&back_up(tools, keys, (&source, &target), "zstd", cipher))?;
        remove(&target)?;
    }
    Ok(true)
}

fn takes_backups(side: &SideSpec) -> bool {
    side.part == Part::All && matches!(side.side.role, Role::Base | Role::Encrypted)
}

fn rehearse(
    config: &Config,
    prepared: &Prepared,
    name: &str,
    derived: &Derived,
) -> Result<(Vec<Planned>, Vec<String>)> {
    let settings = operation_settings(config, derived.foreign_keys);
    let (path, mut workers) = scratch(config, prepared, name, &settings, 1)?;
    let statements = derived.tried();
    let rehearsals = match workers.first_mut() {
        Some(worker) => worker.ask(&Request::Rehearse { statements })?,
        None => Vec::new(),
    };
    drop(workers);
    remove_database(&path)?;
    Ok(derive::choose(derived, &rehearsals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_grow_towards_the_block_time() {
        let ms = Duration::from_millis;
        assert_eq!(scaled(100, ms(10), ms(250)), 2500);
        assert_eq!(scaled(8, ms(1), ms(250)), 512);
        assert_eq!(scaled(8, ms(4000), ms(250)), 4);
        assert_eq!(scaled(8, Duration::ZERO, ms(250)), 512);
    }
}
