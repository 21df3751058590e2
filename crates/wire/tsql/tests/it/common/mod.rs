//! A host over a directory, a sink that keeps its input, and results as text.

#![allow(clippy::unwrap_used, dead_code)]

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tdekit_wire_tds::{
    Caller, Column, Command, DoneKind, Engine, EnvChange, Flow, Length, Message, Session, Sink,
    SqlType, Value,
};
use tdekit_wire_tsql::{
    AlterDatabase, Backup, CertificateBackup, CreateCertificate, CreateDatabase, Database,
    DatabaseState, Device, Digest, Directory, EncryptionKey, Error, Host, Login, Opening, Progress,
    Recovery, Restore, RestoreKind, Rows, TsqlEngine,
};

type Result<T> = std::result::Result<T, Error>;

/// Databases are files of a directory; verbs are recorded.
pub(crate) struct TestHost {
    pub(crate) directory: PathBuf,
    pub(crate) verbs: Mutex<Vec<String>>,
    /// Changes are recorded here.
    pub(crate) logins: Mutex<Vec<Login>>,
}

impl TestHost {
    fn note(&self, verb: String) -> Result<()> {
        self.verbs.lock().unwrap().push(verb);
        Ok(())
    }
}

/// The logins of a new server: `sa`, and others without any rights of their own.
fn first_logins() -> Vec<Login> {
    let login =
        |(at, name): (u8, &str)| Login { name: name.to_owned(), sid: vec![at], sysadmin: at == 1 };
    (1..).zip(["sa", "ann", "bob"]).map(login).collect()
}

const MASTER_FILES: [(&str, SqlType); 11] = [
    ("database_id", SqlType::Int),
    ("file_id", SqlType::Int),
    ("type", SqlType::TinyInt),
    ("type_desc", SqlType::NVarChar(Length::Of(60))),
    ("data_space_id", SqlType::Int),
    ("name", SqlType::NVarChar(Length::Of(128))),
    ("physical_name", SqlType::NVarChar(Length::Of(260))),
    ("state", SqlType::TinyInt),
    ("state_desc", SqlType::NVarChar(Length::Of(60))),
    ("size", SqlType::Int),
    ("max_size", SqlType::Int),
];

fn one_column(name: &str, ty: SqlType, values: Vec<Value<'static>>) -> Rows {
    let rows = values.into_iter().map(|value| vec![value]).collect();
    Rows { columns: vec![(name.to_owned(), ty)], rows }
}

impl TestHost {
    fn path_of(&self, database: &str) -> String {
        self.directory.join(format!("{database}.db")).display().to_string()
    }
}

impl Host for TestHost {
    fn opening(&self, database: &str) -> Result<Opening> {
        Ok(Opening { uri: self.path_of(database), held: Box::new(()) })
    }

    fn logins(&self) -> Result<Vec<Login>> {
        Ok(self.logins.lock().unwrap().clone())
    }

    fn create_login(&self, name: &str, _: &str) -> Result<()> {
        let mut logins = self.logins.lock().unwrap();
        let sid = vec![100 + u8::try_from(logins.len()).unwrap()];
        logins.push(Login { name: name.to_owned(), sid, sysadmin: false });
        Ok(())
    }

    fn drop_login(&self, name: &str) -> Result<()> {
        self.logins.lock().unwrap().retain(|login| !login.name.eq_ignore_ascii_case(name));
        Ok(())
    }

    fn set_sysadmin(&self, name: &str, member: bool) -> Result<()> {
        let mut logins = self.logins.lock().unwrap();
        logins.iter_mut().filter(|login| login.name == name).for_each(|login| {
            login.sysadmin = member;
        });
        Ok(())
    }

    fn databases(&self) -> Result<Vec<Database>> {
        let names = ["master", "tempdb", "model", "msdb", "app", "other"];
        let database = |(at, name): (usize, &&str)| Database {
            name: (*name).to_owned(),
            id: i32::try_from(at).unwrap() + 1,
            encrypted: false,
            state: DatabaseState::Online,
            recovery: Recovery::Simple,
        };
        Ok(names.iter().enumerate().map(database).collect())
    }

    fn view(&self, name: &str, _: u16) -> Result<Option<Rows>> {
        let text = SqlType::NVarChar(Length::Of(60));
        let rows = match name {
            "sys.dm_os_wait_stats" => Rows {
                columns: vec![
                    ("wait_type".to_owned(), text),
                    ("waiting_tasks_count".to_owned(), SqlType::BigInt),
                    ("wait_time_ms".to_owned(), SqlType::BigInt),
                ],
                rows: vec![vec![
                    Value::Text("PREEMPTIVE_OS_ENCRYPTMESSAGE".into()),
                    Value::Int(0),
                    Value::Int(0),
                ]],
            },
            "sys.master_files" => {
                let row = |database: Database| {
                    let named = |text: &str| Value::Text(text.to_owned().into());
                    vec![
                        Value::Int(database.id.into()),
                        Value::Int(1),
                        Value::Int(0),
                        named("ROWS"),
                        Value::Int(1),
                        named(&database.name),
                        named(&self.path_of(&database.name)),
                        Value::Int(0),
                        named("ONLINE"),
                        Value::Int(256),
                        Value::Int(-1),
                    ]
                };
                Rows {
                    columns: MASTER_FILES.map(|(name, ty)| (name.to_owned(), ty)).to_vec(),
                    rows: self.databases()?.into_iter().map(row).collect(),
                }
            }
            "sys.symmetric_keys" => {
                one_column("name", text, vec![Value::Text("##MS_DatabaseMasterKey##".into())])
            }
            "sys.dm_os_schedulers" => {
                let values = vec![Value::Int(40), Value::Int(2)];
                one_column("context_switches_count", SqlType::Int, values)
            }
            "msdb.dbo.backupset" => Rows {
                columns: vec![
                    ("name".to_owned(), SqlType::NVarChar(Length::Of(128))),
                    ("backup_size".to_owned(), SqlType::Decimal { precision: 20, scale: 0 }),
                    (
                        "compressed_backup_size".to_owned(),
                        SqlType::Decimal { precision: 20, scale: 0 },
                    ),
                    ("backup_start_date".to_owned(), SqlType::DateTime),
                    ("backup_finish_date".to_owned(), SqlType::DateTime),
                ],
                rows: (0..3_u32)
                    .map(|at| {
                        vec![
                            Value::Text(format!("test{:02}", at / 2).into()),
                            Value::Decimal { unscaled: 3 << 20, scale: 0 },
                            Value::Decimal { unscaled: 1 << 20, scale: 0 },
                            Value::DateTime { days: 45_000, ticks: 0 },
                            Value::DateTime { days: 45_000, ticks: 300 * (at + 1) },
                        ]
                    })
                    .collect(),
            },
            _ => return Ok(None),
        };
        Ok(Some(rows))
    }

    fn clear_wait_stats(&self) -> Result<()> {
        self.note("clear".to_owned())
    }

    fn drop_clean_buffers(&self) -> Result<()> {
        self.note("drop buffers".to_owned())
    }

    fn directory(&self, directory: Directory) -> Result<Option<String>> {
        Ok((directory == Directory::Log).then(|| "E:\\logs".to_owned()))
    }

    fn set_directory(&self, directory: Directory, path: &str) -> Result<()> {
        self.note(format!("{directory:?} is {path}"))
    }

    fn create_database_on(&self, wanted: &CreateDatabase, _: Progress<'_>) -> Result<()> {
        self.note(format!("{wanted:?}"))
    }

    fn detach_database(&self, name: &str, _: &dyn Fn() -> bool) -> Result<()> {
        self.note(format!("detach {name}"))
    }

    fn delete_backup_history_before(&self, oldest_ms: i64) -> Result<()> {
        self.note(format!("history before {oldest_ms}"))
    }

    fn alter_database(&self, name: &str, change: &AlterDatabase, _: Progress<'_>) -> Result<()> {
        self.note(format!("alter {name} {change:?}"))
    }

    fn create_master_key(&self, password: Option<&str>) -> Result<()> {
        self.note(format!("master key {password:?}"))
    }

    fn open_master_key(&self, password: &str) -> Result<()> {
        self.note(format!("open {password}"))
    }

    fn backup_master_key(&self, file: &str, password: &str) -> Result<()> {
        self.note(format!("backup master key {file} {password}"))
    }

    fn create_certificate(&self, certificate: &CreateCertificate) -> Result<()> {
        self.note(format!("{certificate:?}"))
    }

    fn backup_certificate(&self, backup: &CertificateBackup) -> Result<()> {
        self.note(format!("{backup:?}"))
    }

    fn create_encryption_key(
        &self,
        name: &str,
        key: &EncryptionKey,
        _: Progress<'_>,
    ) -> Result<()> {
        self.note(format!("{name} {key:?}"))
    }

    /// Shows what it is asked for.
    fn digest(&self, digest: Digest, bytes: &[u8]) -> Result<Vec<u8>> {
        Ok([format!("{digest:?} ").as_bytes(), bytes].concat())
    }

    fn databases_on(&self, devices: &[Device<String>]) -> Result<Vec<String>> {
        let of_other = |device: &Device<String>| *device == Device::Disk("other.bak".to_owned());
        Ok(devices.iter().filter(|device| of_other(device)).map(|_| "other".to_owned()).collect())
    }

    fn backup(&self, backup: &Backup, mut out: Progress<'_>) -> Result<()> {
        if backup.database == "missing" {
            return Err(Error::UnknownDatabase { name: backup.database.clone() });
        }
        out.tell(Message::new(3211, 0, 1, "100 percent processed."));
        self.note(format!("{backup:?}"))
    }

    fn restore(&self, restore: &Restore, _: Progress<'_>) -> Result<Option<Rows>> {
        self.note(format!("{restore:?}"))?;
        let header = restore.kind == RestoreKind::HeaderOnly;
        Ok(header.then(|| Rows {
            columns: vec![("Position".to_owned(), SqlType::SmallInt)],
            rows: vec![vec![Value::Int(1)]],
        }))
    }
}

/// Keeps results as lines of text.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) lines: Vec<String>,
    pub(crate) dones: usize,
    /// True if a DONE without a count is a line, too.
    pub(crate) each_done: bool,
    pub(crate) quiet: bool,
    pub(crate) cancel: Arc<AtomicBool>,
    /// Called with the first row.
    pub(crate) met: Option<Box<dyn FnOnce()>>,
    /// The columns of the last result.
    pub(crate) columns: Vec<Column>,
}

pub(crate) fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bit(bit) => u8::from(*bit).to_string(),
        Value::Int(int) => int.to_string(),
        Value::Float(float) => format!("{float:?}"),
        Value::Decimal { unscaled, scale } => {
            let digits = format!("{:0>1$}", unscaled.unsigned_abs(), usize::from(*scale) + 1);
            let (whole, rest) = digits.split_at(digits.len() - usize::from(*scale));
            let sign = if *unscaled < 0 { "-" } else { "" };
            if *scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{rest}") }
        }
        Value::Money(money) => format!("${money}"),
        Value::Text(text) => format!("'{text}'"),
        other => format!("{other:?}"),
    }
}

impl Sink for Log {
    fn columns(&mut self, columns: &[Column]) -> Flow {
        let names: Vec<String> =
            columns.iter().map(|column| format!("{}:{:?}", column.name, column.ty)).collect();
        self.lines.push(format!("# {}", names.join(" | ")));
        self.columns = columns.to_vec();
        Flow::Continue
    }

    fn row(&mut self, values: &[Value<'_>]) -> Flow {
        let values: Vec<String> = values.iter().map(shown).collect();
        self.lines.push(values.join(" | "));
        if let Some(met) = self.met.take() {
            met();
        }
        Flow::Continue
    }

    fn done(&mut self, _: DoneKind, _: Command, rows: Option<u64>) -> Flow {
        self.dones += 1;
        if rows.is_none() && self.each_done {
            self.lines.push("-".to_owned());
        }
        if let Some(rows) = rows.filter(|_| !self.quiet) {
            self.lines.push(format!("({rows})"));
        }
        Flow::Continue
    }

    fn message(&mut self, message: &Message) -> Flow {
        let Message { number, class, state, line, text, .. } = message;
        self.lines.push(format!("! {number}/{class}/{state} line {line}: {text}"));
        Flow::Continue
    }

    fn return_status(&mut self, status: i32) {
        self.lines.push(format!("status {status}"));
    }

    fn return_value(&mut self, ordinal: u16, name: &str, ty: SqlType, value: &Value<'_>) {
        self.lines.push(format!("out {ordinal} {name} {ty:?} = {}", shown(value)));
    }

    fn env_change(&mut self, change: EnvChange<'_>) {
        let text = match change {
            EnvChange::Database { new, .. } => format!("database {new}"),
            EnvChange::Language { new, old } => format!("language {new} after {old}"),
            EnvChange::Begin(_) => "begin".to_owned(),
            EnvChange::Commit(_) => "commit".to_owned(),
            EnvChange::Rollback(_) => "rollback".to_owned(),
        };
        self.lines.push(format!("~ {text}"));
    }

    fn flush(&mut self) {}

    fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Acquire)
    }

    fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.cancel.clone()
    }

    fn waiting(&self, wait: &mut dyn FnMut()) -> bool {
        wait();
        true
    }
}

/// A server in a separate temporary directory.
pub(crate) struct Server {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) host: Arc<TestHost>,
    pub(crate) engine: TsqlEngine,
}

impl Server {
    pub(crate) fn new() -> Server {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_path_buf();
        // as a server's tempdb is: with a log
        let tempdb = rusqlite::Connection::open(path.join("tempdb.db")).unwrap();
        tempdb.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        drop(tempdb);
        let logins = Mutex::new(first_logins());
        let host = Arc::new(TestHost { directory: path, verbs: Mutex::default(), logins });
        let engine = TsqlEngine::new(host.clone());
        Server { directory, host, engine }
    }

    pub(crate) fn session(&self) -> Box<dyn Session> {
        self.session_of("sa", "app").unwrap()
    }

    /// A session of this login in this database.
    pub(crate) fn session_of(
        &self,
        login: &str,
        database: &str,
    ) -> std::result::Result<Box<dyn Session>, Message> {
        let caller = Caller {
            spid: 51,
            login: login.to_owned(),
            database: database.to_owned(),
            host: "here".to_owned(),
            application: "tests".to_owned(),
            encrypted: true,
            address: "127.0.0.1".to_owned(),
            ..Caller::default()
        };
        self.engine.open(&caller)
    }

    /// The number of the error that a login gets in place of a session.
    pub(crate) fn refused(&self, login: &str, database: &str) -> i32 {
        self.session_of(login, database).map(|_| ()).unwrap_err().number
    }
}

/// Runs a batch and returns its results, one on each line.
pub(crate) fn run(session: &mut dyn Session, text: &str) -> Vec<String> {
    let mut log = Log::default();
    session.batch(text, &mut log);
    log.lines
}

/// Checks batches and their results: rows, or the start of an error. Each has its own session, so
/// that options do not leak.
pub(crate) fn check(cases: &[(&str, &str)]) {
    let server = Server::new();
    let mut wrong = Vec::new();
    for (batch, expected) in cases {
        let mut session = server.session();
        let found = rows(&mut *session, batch);
        let error = expected.starts_with('!') && found.starts_with(expected);
        if found != *expected && !error {
            wrong.push(format!("{batch}\n  expected: {expected}\n  found:    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the values of all rows of a batch, or its errors.
pub(crate) fn rows(session: &mut dyn Session, text: &str) -> String {
    let mut log = Log { quiet: true, ..Log::default() };
    session.batch(text, &mut log);
    let kept: Vec<String> = log.lines.into_iter().filter(|line| !line.starts_with('#')).collect();
    kept.join("\n")
}
