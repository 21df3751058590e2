//! The script itself: a ground of the schedule that writes down what another would send.

use std::time::Duration;

use fastrand::Rng;

use super::super::names::{COLD, Database, backup};
use super::super::operations::{self, Planned, undo, values};
use super::super::sides::{Task, Work, counted_by_text, tasks};
use super::begin::{self, databases, options};
use super::record::Field;
use super::steps::{Steps, remember};
use super::{WARM_ONLY, kind};
use crate::error::{BenchError, Result};
use crate::job::Operation;
use crate::noise::NoiseMeter;
use crate::plan::Config;
use crate::progress::Progress;
use crate::schedule::{
    self, Block, Ground, Kind, Length, Place, Steering, Surroundings, in_random_order,
};

/// Maximum size of a script in bytes: editors take no more.
const MOST_BYTES: usize = 32 << 20;
/// Longer than writing takes, so that nothing is left out.
const NO_LIMIT: Duration = Duration::from_secs(u32::MAX as u64);

/// The script of a run.
pub(crate) fn write(config: &Config) -> Result<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !config.given.basics.algorithm().bytes().all(plain) {
        return Err(BenchError::option("--algorithm", "expected a name such as AES_256"));
    }
    let options = options(config);
    let mut steps = Steps::default();
    begin::header(&mut steps, config, &options);
    begin::settle(&mut steps);
    steps.text.part("What its output is read by");
    for (name, value) in &options {
        steps.record(&[], kind::OPTION, &[Field::of(name), Field::of(format!("={value}"))]);
    }
    begin::begin(&mut steps, config);
    if !config.given.basics.aa {
        begin::keys(&mut steps);
    }
    let mut ground = ScriptGround {
        config,
        tasks: tasks(config, !config.mssql.bounds.warm_only),
        plan: operations::all(),
        tag: format!("{:08x}", Rng::with_seed(config.given.basics.seed).u32(..)),
        steps,
        blocks: (0, 0),
        files: Vec::new(),
    };
    schedule(&mut ground, config)?;
    let ScriptGround { mut steps, blocks, files, .. } = ground;
    begin::end(&mut steps, config, (blocks, &files));
    Ok(steps.text.finish())
}

/// Makes the schedule call every block in the order of a run.
fn schedule(ground: &mut ScriptGround<'_>, config: &Config) -> Result<()> {
    let progress = Progress::hidden();
    let around = Surroundings {
        progress: &progress,
        noise: &mut NoiseMeter::start(),
        steering: &mut Steering::deaf(),
        warnings: &mut Vec::new(),
    };
    let length = Length {
        what: "the script",
        restarts: config.restarts,
        pairs: config.pairs,
        max_time: NO_LIMIT,
        least: config.restarts,
        by_cell: false,
        stopping: None,
    };
    schedule::run(ground, &length, config.given.basics.seed, around).failure.map_or(Ok(()), Err)
}

struct ScriptGround<'a> {
    config: &'a Config,
    tasks: Vec<Task>,
    plan: Vec<Planned>,
    /// Distinguishes this script's statements from others in the server's counters.
    tag: String,
    steps: Steps,
    /// Number of all that were written, and of the cold ones among them.
    blocks: (u64, u64),
    /// Backups that are created.
    files: Vec<String>,
}

impl Ground for ScriptGround<'_> {
    /// Index of the task.
    type Cell = usize;
    type Found = ();

    fn cells(&mut self, _: Kind) -> Vec<usize> {
        (0..self.tasks.len()).collect()
    }

    fn name(&self, at: &usize) -> String {
        self.tasks.get(*at).map_or_else(String::new, |task| task.class.id.clone())
    }

    fn sides(&self, _: &usize, _pair: u32) -> Vec<usize> {
        (0..databases(self.config).len()).collect()
    }

    fn prepare(&mut self, number: u32, _: &[usize], rng: &mut Rng, _: &mut Steering) -> Result<()> {
        let seed = rng.u64(..);
        self.steps.text.part(&format!("Restart {}", number + 1));
        in_random_order(databases(self.config), rng, |database| {
            begin::make(&mut self.steps, self.config, database, (seed, number == 0));
            Ok(())
        })?;
        for database in databases(self.config) {
            self.warm_up(database, seed);
        }
        Ok(())
    }

    fn block(&mut self, at: &usize, place: Place, _: &mut Steering) -> Result<Block<()>> {
        if self.steps.text.bytes() > MOST_BYTES {
            let reason = format!(
                "the script would be larger than {} MiB: fewer --restarts or --pairs",
                MOST_BYTES >> 20
            );
            return Err(BenchError::option("--restarts", reason));
        }
        let database = databases(self.config).get(place.side).copied();
        if let Some((database, task)) = database.zip(self.tasks.get(*at).cloned()) {
            self.write_block(&task, place, database);
        }
        Ok(Block::Done(Vec::new()))
    }

    fn keep(&mut self, _: Vec<()>) {}
}

impl ScriptGround<'_> {
    /// Returns the statements of an operation with separate values, as a block of this seed runs
    /// them.
    fn statements(&self, operation: Operation, side: &str, seed: u64) -> Vec<String> {
        let mut rng = Rng::with_seed(seed);
        let mine = self.plan.iter().filter(|one| one.operation == operation);
        mine.map(|one| one.batch(&one.tag(&self.tag, side), values(&mut rng, self.config.rows)))
            .collect()
    }

    /// Compiles plans and fills buffers.
    fn warm_up(&mut self, database: Database, seed: u64) {
        self.steps.text.part(&format!("Warm-up of {}", database.name()));
        self.steps.must(&database.r#use());
        for at in 0..self.tasks.len() {
            let work = self.tasks.get(at).map(|task| task.work);
            if let Some(Work::Operation { operation, cold: false }) = work {
                for sql in self.statements(operation, database.id(), seed) {
                    self.steps.must(&sql);
                }
                undo(operation).iter().for_each(|sql| self.steps.must(sql));
            }
        }
    }

    fn write_block(&mut self, task: &Task, place: Place, database: Database) {
        let (cell, side) = (task.class.id.as_str(), database.id());
        let cold = matches!(task.work, Work::Operation { cold: true, .. });
        self.blocks.0 += 1;
        self.blocks.1 += u64::from(cold);
        self.steps.text.part(&format!(
            "{cell}, {side}, restart {}, pair {}",
            place.restart + 1,
            place.pair + 1
        ));
        if cold {
            self.steps.unless(WARM_ONLY);
        }
        self.steps.must(&database.r#use());
        let (before, batches, undo) = self.work(task.work, database, place.seed);
        let counts = before.is_some();
        let following = 2 * batches.len() + if counts { 2 } else { 0 };
        let numbers = [place.restart, place.pair, place.position].map(Field::of);
        let mut fields = vec![Field::of(cell), Field::of(side)];
        fields.extend(numbers);
        fields.push(Field::of(following));
        self.steps.record(&[], kind::BLOCK, &fields);
        self.count(before.as_deref(), batches.len());
        for batch in &batches {
            if cold {
                COLD.iter().for_each(|sql| self.steps.must(sql));
            }
            self.mark();
            self.steps.must(batch);
            self.mark();
        }
        self.count(before.as_deref(), batches.len());
        undo.iter().for_each(|sql| self.steps.must(sql));
        if cold {
            self.steps.again();
        }
    }

    /// Returns the tag by which the server counts the work's statements, if it does so by their
    /// text; the batches that are measured; and those that undo them.
    fn work(
        &mut self,
        work: Work,
        database: Database,
        seed: u64,
    ) -> (Option<String>, Vec<String>, Vec<String>) {
        match work {
            Work::Operation { operation, .. } => {
                let tag = format!("{} {} {}", self.tag, database.id(), operation.name());
                let tag = counted_by_text(operation).then_some(tag);
                (tag, self.statements(operation, database.id(), seed), undo(operation))
            }
            Work::FullBackup { compressed } => {
                let files = self.config.mssql.bounds.backup_files(database.name());
                let path = files.into_iter().next().unwrap_or_default();
                let batch = backup(database, &path, compressed, None);
                if !self.files.contains(&path) {
                    self.steps.must(&remember(&format!("file {path}")));
                    self.files.push(path);
                }
                (None, vec![batch], Vec::new())
            }
            Work::Mix { .. } => (None, Vec::new(), Vec::new()),
        }
    }

    fn mark(&mut self) {
        let step = self.steps.next();
        self.steps.text.batch(&format!("EXEC dbo.Mark {step}"));
    }

    fn count(&mut self, tag: Option<&str>, statements: usize) {
        if let Some(tag) = tag {
            let step = self.steps.next();
            self.steps.text.batch(&format!("EXEC dbo.Counts {step}, N'{tag}', {statements}"));
        }
    }
}
