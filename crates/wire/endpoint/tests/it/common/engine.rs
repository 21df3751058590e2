//! An engine that follows a test's instructions in words.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tdekit_wire_tds::{
    Caller, Column, Command, Description, DoneKind, Engine, EnvChange, Flow, Generated, Length,
    Message, Parameter, Session, Sink, SqlType, Transaction, Value,
};

/// The requests that sessions received.
#[derive(Default)]
pub(crate) struct Log(pub(crate) Mutex<Vec<String>>);

impl Log {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn has(&self, what: &str) -> bool {
        self.0.lock().unwrap().iter().any(|each| each == what)
    }
}

#[derive(Default)]
pub(crate) struct Words {
    pub(crate) log: Arc<Log>,
}

struct WordSession {
    log: Arc<Log>,
    database: String,
    rows: u64,
    spid: u16,
}

pub(crate) fn column(name: &str, ty: SqlType) -> Column {
    Column {
        name: name.into(),
        ty,
        nullable: true,
        generated: Generated::No,
        collation: tdekit_wire_tds::Collation::default(),
    }
}

impl Engine for Words {
    fn open(&self, caller: &Caller) -> Result<Box<dyn Session>, Message> {
        if caller.database == "missing" {
            return Err(Message::new(4060, 11, 1, "Cannot open database \"missing\"."));
        }
        self.log.note(format!("open {} {}", caller.login, caller.encrypted));
        let database = match caller.database.as_str() {
            "" => "master".to_owned(),
            database => database.to_owned(),
        };
        let (log, spid) = (Arc::clone(&self.log), caller.spid);
        Ok(Box::new(WordSession { log, database, rows: 0, spid }))
    }
}

impl Drop for WordSession {
    fn drop(&mut self) {
        self.log.note("closed");
    }
}

fn put_rows(count: i64, sink: &mut dyn Sink) {
    if sink.columns(&[column("n", SqlType::BigInt)]) == Flow::Stop {
        return;
    }
    for row in 1..=count {
        if sink.row(&[Value::Int(row)]) == Flow::Stop {
            return;
        }
    }
    let rows = u64::try_from(count).unwrap();
    let _flow = sink.done(DoneKind::Statement, Command::SELECT, Some(rows));
}

impl WordSession {
    fn word(&mut self, text: &str, sink: &mut dyn Sink) {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let number: i64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
        self.log.note(format!("runs {first}"));
        match first {
            "rows" => put_rows(number, sink),
            "nothing" | "insert" => {}
            "long" => {
                let _flow = sink.columns(&[column("t", SqlType::NVarChar(Length::Max))]);
                let text = "x".repeat(usize::try_from(number).unwrap());
                let _flow = sink.row(&[Value::Text(Cow::Owned(text))]);
                let _flow = sink.done(DoneKind::Statement, Command::SELECT, Some(1));
            }
            "wait" => {
                self.log.note("waiting");
                while !sink.cancelled() {
                    thread::sleep(Duration::from_millis(1));
                }
                self.log.note("cancelled");
            }
            "done" => {
                let _flow = sink.done(DoneKind::Statement, Command::INSERT, Some(1));
                while !sink.cancelled() {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            "spin" => {
                while sink.done(DoneKind::Statement, Command::OTHER, None) == Flow::Continue {}
                self.log.note("stopped");
            }
            "say" => {
                let _flow = sink.message(&Message::new(0, 0, 1, "said"));
                while !sink.cancelled() {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            "fail" => {
                let _flow = sink.message(&Message::new(208, 16, 1, "Invalid object name 'x'."));
                let _flow = sink.done(DoneKind::Statement, Command::SELECT, None);
            }
            "panic" => panic!("asked for"),
            "unfit" => {
                let _flow = sink.columns(&[column("n", SqlType::TinyInt)]);
                let _flow = sink.row(&[Value::Int(1000)]);
            }
            other => {
                let text = format!("Incorrect syntax near '{other}'.");
                let _flow = sink.message(&Message::new(102, 15, 1, text));
                let _flow = sink.done(DoneKind::Statement, Command::OTHER, None);
            }
        }
    }
}

impl Session for WordSession {
    fn database(&self) -> String {
        self.database.clone()
    }

    fn batch(&mut self, text: &str, sink: &mut dyn Sink) {
        self.word(text, sink);
    }

    fn execute(
        &mut self,
        text: &str,
        declarations: &str,
        parameters: &[Parameter],
        sink: &mut dyn Sink,
    ) {
        self.log.note(format!("execute {text} {declarations}"));
        if text == "echo" {
            let columns: Vec<_> =
                parameters.iter().map(|each| column(&each.name, each.ty)).collect();
            let values: Vec<_> = parameters.iter().map(|each| each.value.clone()).collect();
            let _flow = sink.columns(&columns);
            let _flow = sink.row(&values);
            let _flow = sink.done(DoneKind::InProcedure, Command::SELECT, Some(1));
        } else {
            self.word(text, sink);
        }
        sink.return_status(0);
        for (at, each) in parameters.iter().enumerate().filter(|(_, each)| each.output) {
            sink.return_value(u16::try_from(at).unwrap(), &each.name, each.ty, &each.value);
        }
    }

    fn procedure(&mut self, name: &str, _: &[Parameter], sink: &mut dyn Sink) {
        self.log.note(format!("procedure {name}"));
        sink.return_status(7);
    }

    fn describe(&mut self, text: &str, _: &str) -> Result<Description, Message> {
        match text {
            "fail" => Err(Message::new(208, 16, 1, "Invalid object name 'x'.")),
            _ => Ok(Description {
                columns: vec![column("n", SqlType::BigInt)],
                parameters: Vec::new(),
            }),
        }
    }

    fn transaction(&mut self, request: &Transaction, sink: &mut dyn Sink) {
        match request {
            Transaction::Begin(..) => sink.env_change(EnvChange::Begin(5)),
            Transaction::Commit(_) => sink.env_change(EnvChange::Commit(5)),
            _ => sink.env_change(EnvChange::Rollback(5)),
        }
    }

    fn bulk_begin(&mut self, text: &str, columns: &[Column]) -> Result<(), Message> {
        self.rows = 0;
        self.log.note(format!("{text} of {}", columns.len()));
        Ok(())
    }

    fn bulk_row(&mut self, values: &[Value<'_>]) -> Result<(), Message> {
        self.rows += 1;
        match values.first() {
            Some(Value::Int(-1)) => Err(Message::new(515, 16, 2, "Cannot insert NULL.")),
            _ => Ok(()),
        }
    }

    fn bulk_end(&mut self, keep: bool) -> Result<u64, Message> {
        self.log.note(format!("end {keep}"));
        Ok(self.rows)
    }

    fn reset(&mut self, keep_transaction: bool, _: &mut dyn Sink) {
        self.log.note(format!("reset {keep_transaction}"));
    }

    fn release(&mut self, database: &str) {
        self.log.note(format!("release {database} of {}", self.spid));
    }

    fn rest(&mut self) {
        self.log.note(format!("rest {}", self.spid));
    }
}
