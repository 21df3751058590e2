//! Everything that a run creates on a server, and its removal. Dropping it removes everything, in
//! any case; what could not be removed is reported with the statement that removes it.

use std::time::{Duration, Instant};

use super::data;
use super::names::{
    self, CERTIFICATE, CREATE_CERTIFICATE, DROP_CERTIFICATE, DROP_MASTER_KEY, Database, ENCRYPT,
    LEAVE, MASTER_KEYS, OTHERS, ROOM, SCANNED, STATES,
};
use super::server::refusal;
use super::tds::{Connection, Login, Mode, TdsError, Value};
use crate::error::{BenchError, Result};
use crate::interrupt;
use crate::key_store;
use crate::plan::Config;
use crate::plan::MssqlPlan;
use crate::progress::Progress;

/// Interval between two checks of a scan.
const LOOK: Duration = Duration::from_millis(200);
/// Time limit for a backup, a rebuild or a scan to answer.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Maximum time for creating a key or a database.
const UNANSWERED_WAIT: Duration = Duration::from_secs(5);
/// DROP DATABASE of one in use.
const IN_USE: i32 = 3702;
/// Of a missing database, and of a missing certificate.
const NOT_THERE: [i32; 2] = [3701, 15151];
/// BACKUP without permission, to a file that cannot be opened, or that does not contain backups.
const UNOPENED: [i32; 3] = [262, 3201, 3241];
/// Of a missing backup file, by the system's errors 2 and 3: SQL Server's, and that of a device.
const NO_FILE: [i32; 2] = [22049, 3201];

/// An object that the run created.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Made {
    MasterKey,
    Certificate,
    Database(Database),
    BackupFile(String),
}

pub(super) struct Home<'a> {
    config: &'a Config,
    login: Login,
    progress: &'a Progress,
    made: Vec<Made>,
    /// The last of them, if the server did not answer: it may still be working on it.
    unanswered: Option<Made>,
    /// Limits of encryption on this server, for the report.
    pub(super) limits: Vec<String>,
}

/// Opens a connection in a database of the server, or in the login's default.
fn open(login: &Login, database: Option<Database>) -> Result<Connection> {
    let mut connection = Connection::open(login, Mode::On)?;
    connection.set_patience(PATIENCE);
    if let Some(database) = database {
        connection.query(&database.r#use())?;
    }
    Ok(connection)
}

impl<'a> Home<'a> {
    /// Creates nothing yet. Fails if an object with one of the run's names exists already, or there
    /// is not enough space.
    pub(super) fn new(
        config: &'a Config,
        login: &Login,
        connection: &mut Connection,
        progress: &'a Progress,
    ) -> Result<Self> {
        for sql in [names::taken_databases(), names::taken_certificate()] {
            let found = connection.query(&sql)?;
            if let Some(name) = found.rows.first().and_then(|row| row.first()?.text()) {
                return Err(BenchError::NameTaken { name: name.to_owned() });
            }
        }
        let mut limits = Vec::new();
        let needed = config.mssql.bounds.needed_bytes(config.rows);
        match connection.query(ROOM) {
            Ok(found) => {
                let free = found.int().and_then(|free| u64::try_from(free).ok());
                if let Some(available_bytes) = free.filter(|free| *free < needed) {
                    let path = "the server's data directory".into();
                    return Err(BenchError::Space { path, needed_bytes: needed, available_bytes });
                }
            }
            Err(error) => {
                limits.push(format!(
                    "Whether the server has room is not known: {}.",
                    refusal(error)?
                ));
            }
        }
        Ok(Self {
            config,
            login: login.clone(),
            progress,
            made: Vec::new(),
            unanswered: None,
            limits,
        })
    }

    pub(super) fn open(&self, database: Option<Database>) -> Result<Connection> {
        open(&self.login, database)
    }

    /// Notes the file of a backup that ended with this result, to be removed in the end. If the
    /// server opened no file, a file of that name belongs to someone else.
    pub(super) fn backed_up<T>(&mut self, path: &str, ended: Result<T>) -> Result<T> {
        let made = Made::BackupFile(path.to_owned());
        let unopened = matches!(
            &ended,
            Err(BenchError::Tds(TdsError::ServerSaid { number, .. })) if UNOPENED.contains(number)
        );
        if !unopened && !self.made.contains(&made) {
            self.made.push(made);
        }
        ended
    }

    /// Creates a certificate for databases and backups; or returns the server's message.
    pub(super) fn make_certificate(&mut self) -> Result<Result<(), String>> {
        if self.made.contains(&Made::Certificate) {
            return Ok(Ok(()));
        }
        let mut connection = self.open(None)?;
        let mut run = |sql: &str| match connection.query(sql) {
            Ok(found) => Ok(Ok(found.int())),
            Err(error) => refusal(error).map(Err),
        };
        // Names in `master` belong to master: a login may have another default database.
        if let Err(words) = run(LEAVE)? {
            return Ok(Err(words));
        }
        let count = match run(MASTER_KEYS)? {
            Ok(count) => count,
            Err(words) => return Ok(Err(words)),
        };
        if count == Some(0) {
            let secret = key_store::random_key()?;
            let password = format!("Aa1-{}", hex::encode(secret));
            if let Err(words) = run(&names::create_master_key(&password))? {
                return Ok(Err(words));
            }
            self.made.push(Made::MasterKey);
        }
        match self.ask_for(&mut connection, CREATE_CERTIFICATE, Made::Certificate) {
            Ok(()) => Ok(Ok(())),
            Err(error) => refusal(error).map(Err),
        }
    }

    /// Checks if the server encrypts databases: tries it on an empty one.
    pub(super) fn try_encryption(&mut self) -> Result<Result<(), String>> {
        if let Err(words) = self.make_certificate()? {
            return Ok(Err(words));
        }
        self.create(Database::Encrypted)?;
        let tried = self.encrypt();
        self.remove(Database::Encrypted)?;
        match tried {
            Ok(()) => Ok(Ok(())),
            Err(BenchError::Tds(error)) => refusal(error).map(Err),
            Err(error) => Err(error),
        }
    }

    fn create(&mut self, database: Database) -> Result<()> {
        let mut connection = self.open(None)?;
        Ok(self.ask_for(&mut connection, &database.create(), Made::Database(database))?)
    }

    /// Notes a database that a statement is about to create, to be dropped in the end.
    pub(super) fn expect(&mut self, database: Database) {
        let made = Made::Database(database);
        if !self.made.contains(&made) {
            self.made.push(made.clone());
        }
        self.unanswered = Some(made);
    }

    /// Requests an object whose name was free when the run began. It counts as created unless the
    /// server denies it: the answer may be lost after its creation.
    fn ask_for(
        &mut self,
        connection: &mut Connection,
        sql: &str,
        made: Made,
    ) -> Result<(), TdsError> {
        let answer = connection.query(sql);
        if !matches!(answer, Err(TdsError::ServerSaid { .. })) {
            self.unanswered = answer.is_err().then(|| made.clone());
            self.made.push(made);
        }
        answer.map(drop)
    }

    /// Drops a database that may exist, for the next restart.
    pub(super) fn remove(&mut self, database: Database) -> Result<()> {
        let made = Made::Database(database);
        if self.made.contains(&made) {
            drop_one(&mut self.open(None)?, &made)?;
            self.made.retain(|one| *one != made);
            self.unanswered = None;
        }
        Ok(())
    }

    /// Recreates a database, with the rows for `seed`, and encrypts it if it is the encrypted one.
    pub(super) fn make(&mut self, database: Database, seed: u64) -> Result<()> {
        self.remove(database)?;
        let name = database.name();
        self.progress.say(format!("{name}: rows"));
        self.create(database)?;
        let mut connection = self.open(Some(database))?;
        let config = self.config;
        let mixes = (config.mixes.as_slice(), config.given.think_time.0);
        for sql in data::statements(config.rows, seed, mixes) {
            interrupt::check()?;
            connection.query(&sql)?;
        }
        drop(connection);
        if database == Database::Encrypted {
            self.encrypt()?;
        }
        let mut connection = self.open(None)?;
        let found = connection.query(&database.is_encrypted())?.int();
        let wanted = i64::from(database == Database::Encrypted);
        if found != Some(wanted) {
            let detail = format!("sys.databases.is_encrypted is {found:?}, and should be {wanted}");
            return Err(BenchError::mismatch(name, detail));
        }
        Ok(())
    }

    /// Encrypts the database, and waits until its scan is finished.
    fn encrypt(&mut self) -> Result<()> {
        let mut connection = self.open(Some(Database::Encrypted))?;
        connection.query(&names::create_database_key(self.config.given.basics.algorithm()))?;
        connection.query(LEAVE)?;
        connection.query(ENCRYPT)?;
        let (began, limit) = (Instant::now(), self.config.mssql.bounds.scan_time());
        loop {
            interrupt::check()?;
            let found = match connection.query(STATES) {
                Ok(found) => found,
                Err(error) => {
                    let limit = scan_unseen(&refusal(error)?);
                    if !self.limits.contains(&limit) {
                        self.limits.push(limit);
                    }
                    return Ok(());
                }
            };
            let is_own = |row: &&Vec<Value>| {
                row.first().and_then(Value::text) == Some(Database::Encrypted.name())
            };
            let row = found.rows.iter().find(is_own);
            let at = |at: usize| row.and_then(|row| row.get(at)?.int()).unwrap_or(0);
            if at(1) == SCANNED {
                return Ok(());
            }
            if began.elapsed() > limit {
                return Err(BenchError::Scan { limit_s: limit.as_secs(), percent: at(2) });
            }
            self.progress.say(format!("encrypting, {} %", at(2)));
            std::thread::sleep(LOOK);
        }
    }

    /// Drops everything; returns what remains, each with a statement for its removal.
    pub(super) fn finish(&mut self) -> Vec<String> {
        let mut made = std::mem::take(&mut self.made);
        if made.is_empty() {
            return Vec::new();
        }
        // This must complete, regardless of any stop request.
        let login = Login { stopped: || false, ..self.login.clone() };
        let mut connection = match open(&login, None) {
            Ok(connection) => connection,
            Err(error) => {
                return made.iter().map(|one| may_remain(one, &error.to_string())).collect();
            }
        };
        let _own_is_left = connection.query(LEAVE);
        settle(&mut connection);
        // A certificate is dropped after its users.
        made.sort_by_key(|one| match one {
            Made::Database(_) => 0,
            Made::BackupFile(_) => 1,
            Made::Certificate => 2,
            Made::MasterKey => 3,
        });
        made.into_iter()
            .filter_map(|one| {
                if self.unanswered.as_ref() == Some(&one) {
                    await_it(&mut connection, &one);
                }
                let dropped = drop_one(&mut connection, &one);
                dropped.err().map(|error| remains(&one, &error.to_string()))
            })
            .collect()
    }
}

impl Drop for Home<'_> {
    fn drop(&mut self) {
        for line in self.finish() {
            self.progress.tell(&format!("warning: {line}"));
        }
    }
}

fn drop_database(connection: &mut Connection, database: Database) -> Result<(), TdsError> {
    let dropped = match connection.query(&database.drop()) {
        Err(TdsError::ServerSaid { number: IN_USE, .. }) => {
            connection.query(&database.take())?;
            connection.query(&database.drop())
        }
        dropped => dropped,
    };
    dropped?;
    // A history without its database is harmless, and not every login may change it.
    let _forgotten = connection.query(&database.forget_history());
    Ok(())
}

/// Waits for a limited time for abandoned statements of the run: a backup creates its file late.
fn settle(connection: &mut Connection) {
    let begun = Instant::now();
    while begun.elapsed() < UNANSWERED_WAIT {
        match connection.query(OTHERS).ok().and_then(|found| found.int()) {
            Some(1..) => std::thread::sleep(LOOK),
            _ => return,
        }
    }
}

/// Waits for a limited time for an object that was requested from the server and may not exist yet.
fn await_it(connection: &mut Connection, made: &Made) {
    let sql = match made {
        Made::Database(_) => names::taken_databases(),
        Made::Certificate => names::taken_certificate(),
        Made::MasterKey | Made::BackupFile(_) => return,
    };
    let begun = Instant::now();
    while begun.elapsed() < UNANSWERED_WAIT {
        match connection.query(&sql) {
            Ok(found) if found.rows.is_empty() => std::thread::sleep(LOOK),
            _ => return,
        }
    }
}

fn drop_one(connection: &mut Connection, made: &Made) -> Result<(), TdsError> {
    let dropped = match made {
        Made::Database(database) => drop_database(connection, *database),
        Made::Certificate => connection.query(DROP_CERTIFICATE).map(drop),
        Made::MasterKey => connection.query(DROP_MASTER_KEY).map(drop),
        Made::BackupFile(path) => connection.query(&names::delete_file(path)).map(drop),
    };
    match dropped {
        // The answer to its request was lost, and it was not created.
        Err(TdsError::ServerSaid { number, .. }) if NOT_THERE.contains(&number) => Ok(()),
        Err(TdsError::ServerSaid { number, text, .. })
            if NO_FILE.contains(&number) && says_no_file(&text) =>
        {
            Ok(())
        }
        dropped => dropped,
    }
}

/// Returns true if an error of the system means a missing file or directory, in the wording of SQL
/// Server: `error 2, 'The system cannot..'` and `error 2(The system cannot..)`.
fn says_no_file(text: &str) -> bool {
    ["error 2,", "error 2(", "error 3,", "error 3("].iter().any(|code| text.contains(code))
}

fn remains(made: &Made, why: &str) -> String {
    let (what, how) = match made {
        Made::Database(database) => (format!("database {}", database.name()), database.drop()),
        Made::Certificate => (format!("certificate {CERTIFICATE}"), DROP_CERTIFICATE.to_owned()),
        Made::MasterKey => ("master key".to_owned(), DROP_MASTER_KEY.to_owned()),
        Made::BackupFile(path) => {
            let how = format!("{}, or delete the file", names::delete_file(path));
            (format!("backup file {path}"), how)
        }
    };
    format!("The {what} remains on the server ({why}); remove it: {how}.")
}

/// The same for a server that cannot be asked any more: a backup may not have created its file.
fn may_remain(made: &Made, why: &str) -> String {
    let text = remains(made, why);
    match made {
        Made::BackupFile(_) => text.replace(" remains on", " may remain on"),
        _ => text,
    }
}

/// Returns the note for a server that does not permit observing the scan.
pub(super) fn scan_unseen(words: &str) -> String {
    format!("Whether the scan was done before the first block is not known: {words}.")
}

/// Returns the list of objects that a run will create, shown before it begins.
pub(super) fn announcement(config: &Config, target: &str, connections: u32) -> String {
    let plan: &MssqlPlan = &config.mssql;
    let mega = plan.bounds.needed_bytes(config.rows) / 1_000_000;
    let databases = Database::of_run(config);
    let names: Vec<&str> = databases.iter().map(|database| database.name()).collect();
    let made = match names.as_slice() {
        [one] => format!("the database {one}, fills it"),
        several => format!("the databases {}, fills each", several.join(" and ")),
    };
    let mut text = format!(
        "On {target} the run makes {made} with {} rows a table, and drops what it made in the \
         end; it needs some {mega} MB there and {connections} connection(s) at most, and loads \
         the server as far as these can.\n",
        config.rows,
    );
    if !config.given.basics.aa {
        text.push_str(&format!(
            "It makes the certificate {CERTIFICATE}, and a master key where there is none."
        ));
        if databases.contains(&Database::Encrypted) {
            text.push_str(&format!(" {TEMPDB}"));
        }
        text.push('\n');
    }
    if config.experiments.backup {
        text.push_str(&format!(
            "It restores backups as the database {}, one after the other.\n",
            Database::Restored.name()
        ));
    }
    if config.experiments.operations && !plan.bounds.warm_only {
        text.push_str(
            "DBCC DROPCLEANBUFFERS empties the buffers of the whole server, again and again; \
             --warm-only leaves them.\n",
        );
    }
    text
}

/// The effect of encrypting any database on all others.
pub(super) const TEMPDB: &str = "Encrypting any database encrypts tempdb too, for the whole \
                                 instance, and so for the plain side: what it costs there is in \
                                 no figure here.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::config_of;

    #[test]
    fn what_is_announced_is_what_the_experiments_make() {
        let told = |words: &str| {
            let words = format!("--target mssql://sa:secret@h --rows 2000 {words}");
            let config = config_of(&words.split_whitespace().collect::<Vec<_>>()).unwrap();
            announcement(&config, "h", 1)
        };
        let backups = told("--experiment backup");
        assert!(backups.contains("makes the database tdekit_bench_base, fills it with 2000 rows"));
        assert!(backups.contains(CERTIFICATE) && backups.contains("tdekit_bench_restored"));
        assert!(!backups.contains("tdekit_bench_encrypted") && !backups.contains("tempdb"));
        let operations = told("--experiment operations");
        assert!(operations.contains("tdekit_bench_base and tdekit_bench_encrypted, fills each"));
        assert!(operations.contains("tempdb") && !operations.contains("tdekit_bench_restored"));
        let control = told("--experiment operations --aa");
        assert!(control.contains("tdekit_bench_base and tdekit_bench_control, fills each"));
        assert!(!control.contains("tempdb") && !control.contains(CERTIFICATE));
    }

    #[test]
    fn a_file_that_is_not_there_is_told_from_one_that_may_not_be_removed() {
        let device =
            |code| format!("Cannot open backup device 'x.bak'. Operating system error {code}");
        assert!(says_no_file(&device("2(The system cannot find the file specified.).")));
        assert!(says_no_file(
            "xp_delete_file() returned error 2, 'The system cannot find the file'"
        ));
        assert!(!says_no_file(&device("5(Access is denied.).")));
        assert!(!says_no_file(&device("32(The process cannot access the file.).")));
        assert!(!says_no_file("xp_delete_file() returned error 22, 'x'"));
    }
}
