//! The worker: a separate process that drives one database through one library, so that each side
//! has its own SQLite state, CPU and memory.

mod command;
mod operations;
mod script;
mod toll;

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use rusqlite::ffi::{SQLITE_AUTH, SQLITE_OPEN_READONLY, SQLITE_OPEN_URI};
use serde::Serialize;
use serde_json::Value;

use crate::error::BenchError;
use crate::job::{CopiedOut, DatabaseState, LibraryChoice, Planned, Ready, Reply, Request};
use crate::subject::remove_database;
use operations::Operations;
use script::Script;
use tdekit_bench_work::{Crud, CrudRequest, Meter, Oltp, OltpShare};
use tdekit_sqlite_client::{Connection, Library, LibraryError, SqliteError};
use tdekit_system_use::wall_ns;

/// Reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    #[error(transparent)]
    Sqlite(#[from] SqliteError),
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error("request out of order: {0}")]
    Order(&'static str),
    #[error("statement {number} of the script: {source}")]
    Statement { number: u32, source: SqliteError },
    #[error("statement {number} of the script has parameters; write values in their place: {sql}")]
    Parameters { number: u32, sql: String },
    #[error("the answer cannot be written: {0}")]
    Answer(#[from] serde_json::Error),
}

/// Serves requests until the input ends.
pub(crate) fn serve(input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
    let mut worker = Worker::default();
    for line in input.lines() {
        let reply: Reply = match serde_json::from_str(&line?) {
            Ok(request) => worker.handle(request).map_err(|error| error.to_string()),
            Err(error) => Err(format!("not a request: {error}")),
        };
        let mut text = serde_json::to_string(&reply)?;
        text.push('\n');
        output.write_all(text.as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

const NO_DATABASE: WorkerError = WorkerError::Order("no database is open");

#[derive(Default)]
struct Worker {
    library: Option<Library>,
    database: Option<Database>,
    plan: Vec<Planned>,
    script: Option<Script>,
}

/// The open database and what is prepared on it. Statements are dropped before the connection that
/// they refer to.
struct Database {
    crud: Option<Crud>,
    operations: Option<Operations>,
    oltp: Option<Oltp>,
    connection: Connection,
    path: PathBuf,
    on_open: Vec<String>,
}

impl Database {
    /// Closes it, modifies its file, and opens it again with nothing prepared.
    fn reopen(
        &mut self,
        library: Library,
        meanwhile: impl FnOnce(&Path) -> Result<(), WorkerError>,
    ) -> Result<(), WorkerError> {
        (self.crud, self.operations, self.oltp) = (None, None, None);
        // A placeholder for the connection while the file is closed.
        self.connection = library.open(Path::new(":memory:"))?;
        meanwhile(&self.path)?;
        self.connection = open(library, &self.path, &self.on_open)?;
        Ok(())
    }
}

/// Opens a database as its application would: open, then settings.
fn open(library: Library, path: &Path, on_open: &[String]) -> Result<Connection, SqliteError> {
    let connection = library.open(path)?;
    on_open.iter().try_for_each(|sql| connection.execute(sql))?;
    Ok(connection)
}

/// Copies a database that is opened by its URI: compact, or page by page where that needs what only
/// its application has.
fn copy_out(library: Library, uri: &str, to: &Path) -> Result<CopiedOut, WorkerError> {
    let flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
    let opened = library.open_with(uri.as_ref(), None, flags).and_then(|connection| {
        connection.query_text("SELECT count(*) FROM sqlite_schema")?;
        Ok(connection)
    });
    let connection = match opened {
        Err(error) if error.primary() == SQLITE_AUTH => {
            return Ok(CopiedOut { locked: Some(error.to_string()) });
        }
        opened => opened?,
    };
    let name = to.to_string_lossy().replace('\'', "''");
    if connection.execute(&format!("VACUUM INTO '{name}'")).is_err() {
        remove_database(to)?;
        connection.backup_to(&library.open(to)?)?;
    }
    Ok(CopiedOut { locked: None })
}

fn answer(found: impl Serialize) -> Result<Value, WorkerError> {
    Ok(serde_json::to_value(found)?)
}

/// Settings that must be equal on every side.
const STATE: [&str; 6] =
    ["journal_mode", "synchronous", "cache_size", "page_size", "foreign_keys", "temp_store"];

fn state(connection: &Connection) -> Result<DatabaseState, SqliteError> {
    let value = |name: &str| {
        let value = connection.query_text(&format!("PRAGMA {name}"))?.unwrap_or_default();
        Ok((name.to_owned(), value))
    };
    STATE.into_iter().map(value).collect()
}

impl Worker {
    fn handle(&mut self, request: Request) -> Result<Value, WorkerError> {
        match request {
            Request::Setup { library, extension } => self.set_up(&library, extension.as_deref()),
            Request::Open { path, on_open } => {
                self.database = None;
                let connection = open(self.library()?, &path, &on_open)?;
                let state = state(&connection)?;
                self.database = Some(Database {
                    crud: None,
                    operations: None,
                    oltp: None,
                    connection,
                    path,
                    on_open,
                });
                answer(state)
            }
            Request::Execute { sql } => {
                let database = self.database()?;
                sql.iter().try_for_each(|sql| database.connection.execute(sql))?;
                answer(())
            }
            Request::Crud(request) => self.crud(&request),
            Request::PlanScript { statements, undo } => {
                let (script, writes) = Script::plan(self.database()?, statements, undo)?;
                self.script = Some(script);
                answer(writes)
            }
            Request::Script { times } => self.script(times),
            Request::Checkpoint => answer(operations::checkpoint(&self.database()?.connection)?),
            Request::Pay { cpu_ns, until_ns } => {
                let mut meter = Meter::start();
                meter.part(&self.database()?.connection, || toll::pay(cpu_ns, until_ns));
                answer(meter.finish())
            }
            Request::Rehearse { statements } => {
                answer(operations::rehearse(&self.database()?.connection, &statements))
            }
            Request::Plan { statements } => {
                self.database()?.operations = None;
                self.plan = statements;
                answer(())
            }
            Request::Operation { operation, cold, drop_all, round } => {
                let library = self.library()?;
                let database = self.database.as_mut().ok_or(NO_DATABASE)?;
                answer(if cold {
                    let (plan, how) = (&self.plan, (round, drop_all));
                    operations::run_cold(library, database, plan, operation, how)?
                } else {
                    operations::run_warm(database, &self.plan, operation, round)?
                })
            }
            Request::Scan { sql } => self.scan(&sql),
            Request::Backup { to, on_open } => self.back_up(&to, &on_open),
            Request::CopyOut { uri, to } => answer(copy_out(self.library()?, &uri, &to)?),
            Request::OpenProbe { first, others, on_open } => {
                self.probe_open(&first, &others, &on_open)
            }
            Request::Oltp(share) => self.oltp(&share),
            Request::Memory => answer(tdekit_system_use::private_memory_bytes()),
            Request::Run(spec) => answer(command::run(&spec)?),
        }
    }

    fn crud(&mut self, request: &CrudRequest) -> Result<Value, WorkerError> {
        let Database { crud, connection, .. } = self.database()?;
        let crud = match crud {
            Some(crud) => crud,
            none => none.insert(Crud::prepare(connection)?),
        };
        answer(crud.run(connection, request)?)
    }

    fn script(&mut self, times: u64) -> Result<Value, WorkerError> {
        let library = self.library()?;
        let script = self.script.as_ref().ok_or(WorkerError::Order("no script is planned"))?;
        let database = self.database.as_mut().ok_or(NO_DATABASE)?;
        answer(script.run(library, database, times)?)
    }

    fn oltp(&mut self, share: &OltpShare) -> Result<Value, WorkerError> {
        let Database { oltp, connection, .. } = self.database()?;
        let oltp = match oltp {
            Some(oltp) => oltp,
            none => none.insert(Oltp::prepare(connection, share.tables)?),
        };
        answer(oltp.run(connection, share)?)
    }

    fn library(&self) -> Result<Library, WorkerError> {
        self.library.ok_or(WorkerError::Order("no library is set up"))
    }

    fn database(&mut self) -> Result<&mut Database, WorkerError> {
        self.database.as_mut().ok_or(NO_DATABASE)
    }

    fn set_up(
        &mut self,
        choice: &LibraryChoice,
        extension: Option<&Path>,
    ) -> Result<Value, WorkerError> {
        let library = match choice {
            LibraryChoice::Bundled => Library::bundled(),
            LibraryChoice::Shared(path) => Library::shared(path)?,
            LibraryChoice::Idle => Library::idle(),
        };
        if let Some(path) = extension {
            library.load_extension(path)?;
        }
        self.library = Some(library);
        let memory = library.open(Path::new(":memory:"))?;
        answer(Ready {
            version: library.version(),
            source_id: library.source_id(),
            compile_options: memory.query_column("PRAGMA compile_options")?,
            instructions: tdekit_system_use::instructions_scope(),
        })
    }

    fn scan(&mut self, sql: &str) -> Result<Value, WorkerError> {
        let connection = &self.database()?.connection;
        let statement = connection.prepare(sql)?;
        connection.release_memory();
        answer(Meter::whole(connection, || statement.run())?.1)
    }

    fn back_up(&mut self, to: &Path, on_open: &[String]) -> Result<Value, WorkerError> {
        let library = self.library()?;
        let connection = &self.database()?.connection;
        let target = open(library, to, on_open)?;
        connection.release_memory();
        let copied = Meter::whole(connection, || connection.backup_to(&target));
        drop(target);
        remove_database(to)?;
        answer(copied?.1)
    }

    fn probe_open(
        &mut self,
        first: &Path,
        others: &[PathBuf],
        on_open: &[String],
    ) -> Result<Value, WorkerError> {
        let library = self.library()?;
        let timed = |path: &Path| -> Result<u64, WorkerError> {
            let start = wall_ns();
            let connection = open(library, path, on_open)?;
            connection.query_text("SELECT count(*) FROM sqlite_schema")?;
            Ok(wall_ns() - start)
        };
        // Kept open, as the first database of an application would be.
        let kept = open(library, first, on_open)?;
        kept.query_text("SELECT count(*) FROM sqlite_schema")?;
        let all = || others.iter().map(|path| timed(path)).collect::<Result<Vec<u64>, _>>();
        let (other_ns, again_ns) = (all()?, all()?);
        drop(kept);
        answer((other_ns, again_ns))
    }
}
