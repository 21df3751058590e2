//! The documents' scripts as they are written, through the interpreter; only paths are others, and
//! loops are shorter.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tdekit_wire_tds::{
    Caller, Column, Command, DoneKind, Engine, EnvChange, Flow, Message, Session, Sink, SqlType,
    Value,
};

use super::tests::Served;

const KEYS: &str = include_str!("../../wire-tsql/tests/scripts/b-keys.sql");
const BACKED_UP: &str = include_str!("../../wire-tsql/tests/scripts/b-key-backups.sql");
const MATRIX: &str = include_str!("../../wire-tsql/tests/scripts/b-backups.sql");
const HISTORY: &str = include_str!("../../wire-tsql/tests/scripts/b-history.sql");
const MESSAGES: &str = include_str!("../../wire-tsql/tests/scripts/d-messages.sql");

/// The result of a script.
#[derive(Default)]
struct Heard {
    results: Vec<(Vec<String>, Vec<Vec<Value<'static>>>)>,
    messages: Vec<Message>,
    done: usize,
}

impl Heard {
    fn errors(&self) -> Vec<(i32, &str)> {
        let errors = self.messages.iter().filter(|message| message.is_error());
        errors.map(|message| (message.number, message.text.as_str())).collect()
    }

    fn texts(&self, result: usize) -> Vec<String> {
        let first = |row: &Vec<Value<'static>>| match row.first() {
            Some(Value::Text(text)) => text.clone().into_owned(),
            other => panic!("{other:?} is no text"),
        };
        self.results[result].1.iter().map(first).collect()
    }

    fn int(&self, result: usize) -> i64 {
        match self.results[result].1[..] {
            [ref row] => match row[..] {
                [Value::Int(int)] => int,
                ref other => panic!("{other:?} is no number"),
            },
            ref other => panic!("{other:?} is not one row"),
        }
    }
}

impl Sink for Heard {
    fn columns(&mut self, columns: &[Column]) -> Flow {
        let names = columns.iter().map(|column| column.name.clone()).collect();
        self.results.push((names, Vec::new()));
        Flow::Continue
    }

    fn row(&mut self, values: &[Value<'_>]) -> Flow {
        let row = values.iter().map(|value| value.clone().into_owned()).collect();
        self.results.last_mut().unwrap().1.push(row);
        Flow::Continue
    }

    fn done(&mut self, _: DoneKind, _: Command, _: Option<u64>) -> Flow {
        self.done += 1;
        Flow::Continue
    }

    fn message(&mut self, message: &Message) -> Flow {
        self.messages.push(message.clone());
        Flow::Continue
    }

    fn return_status(&mut self, _: i32) {}

    fn return_value(&mut self, _: u16, _: &str, _: SqlType, _: &Value<'_>) {}

    fn env_change(&mut self, _: EnvChange<'_>) {}

    fn flush(&mut self) {}

    fn cancelled(&self) -> bool {
        false
    }

    fn cancel_flag(&self) -> Arc<AtomicBool> {
        Arc::default()
    }
}

fn client(served: &Served) -> Box<dyn Session> {
    let caller = Caller {
        spid: 51,
        login: "sa".to_owned(),
        database: String::new(),
        host: "client".to_owned(),
        application: "script".to_owned(),
        encrypted: true,
        address: "127.0.0.1".to_owned(),
        ..Caller::default()
    };
    served.engine().open(&caller).unwrap()
}

/// Runs a script batch by batch, as clients take GO.
fn run(client: &mut dyn Session, script: &str) -> Heard {
    let mut heard = Heard::default();
    for batch in format!("{script}\n").split("GO\n") {
        client.batch(batch, &mut heard);
    }
    heard
}

fn with_document_b() -> (Served, Box<dyn Session>) {
    let served = Served::new();
    served.database("awHDD");
    served.database("awSSD");
    let mut client = client(&served);
    let heard = run(client.as_mut(), KEYS);
    assert_eq!(heard.errors(), []);
    (served, client)
}

#[test]
fn document_b_runs_as_it_is_written() {
    let (served, mut client) = with_document_b();
    let root = served.path("");
    let here = |script: &str| {
        let paths =
            [("C:\\temp\\", format!("{}/", root.display())), (":\\backup\\", "/".to_owned())];
        let [temp, backup] = paths.map(|(from, to)| (from, to));
        let script = script.replace("--EXEC", "EXEC");
        script.replace(temp.0, &temp.1).replace(
            &format!("''' + d + '{}", backup.0),
            &format!("''{}' + d + '/", root.display()),
        )
    };
    let heard = run(client.as_mut(), &here(BACKED_UP));
    assert_eq!(heard.errors(), []);
    assert!(served.path("TestCert.cert").is_file() && served.path("MasterKey.key").is_file());
    fs::create_dir(served.path("D")).unwrap();
    fs::create_dir(served.path("E")).unwrap();

    let matrix = here(MATRIX);
    assert!(!matrix.contains('\\'), "{matrix}");
    for _ in 0..2 {
        let heard = run(client.as_mut(), &matrix);
        assert_eq!(heard.errors(), []);
        let made = heard.messages.iter().filter(|message| message.number == 3014).count();
        assert_eq!(made, 40);
        let sql = heard.texts(0).remove(0);
        assert_eq!(sql.matches("BACKUP DATABASE aw").count(), 40, "{sql}");
    }
    let count = |dir: &str| fs::read_dir(served.path(dir)).unwrap().count();
    assert_eq!((count("D"), count("E")), (20, 20));

    let heard = run(client.as_mut(), HISTORY);
    assert_eq!(heard.errors(), []);
    let (columns, rows) = &heard.results[0];
    let expected =
        ["name", "natural_size", "compressed_size", "min_duration", "max_duration", "avg_duration"];
    assert_eq!(columns, &expected);
    let names = heard.texts(0);
    assert_eq!(names.len(), 40);
    // The names that the document lists, first and last.
    assert_eq!(names[0], "test01-NO_ENCRYPTION-HDD-to-HDD-COMPRESSION");
    assert_eq!(names[39], "test20-TRIPLE_DES_3KEY-SSD-to-SSD-NO_COMPRESSION");
    assert!(rows.iter().all(|row| row.iter().all(|value| *value != Value::Null)));

    let append = "BACKUP DATABASE awHDD TO DISK = 'plain.bak' WITH INIT;
        BACKUP DATABASE awHDD TO DISK = 'plain.bak'
        WITH ENCRYPTION (ALGORITHM = AES_256, SERVER CERTIFICATE = TestCert);";
    let heard = run(client.as_mut(), append);
    assert_eq!(heard.errors()[0].0, 3095);
    assert!(heard.errors()[0].1.contains("was requested after the media was formatted"));
}

#[test]
fn document_d_runs_as_it_is_written() {
    let served = Served::new();
    let mut client = client(&served);
    let heard = run(client.as_mut(), &MESSAGES.replace("100000000", "20000"));
    assert_eq!(heard.errors(), []);
    assert_eq!(heard.results.len(), 6);
    assert_eq!(heard.int(0), 51);
    assert_eq!(heard.texts(2), ["TRUE"]);
    assert_eq!(heard.results[3].0, ["context_switches"]);
    assert!(heard.int(3) >= 0);
    assert_eq!(heard.results[4].0, ["elapsed_seconds"]);
    assert_eq!(heard.texts(5), ["PREEMPTIVE_OS_ENCRYPTMESSAGE"]);
    assert!(heard.done > 20_000, "a DONE for every SET of the loop: {}", heard.done);
}

#[test]
fn a_database_is_encrypted_in_use_of_its_own_session() {
    let (served, mut client) = with_document_b();
    let script = "USE awHDD;
GO
SELECT a FROM t;
CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256 ENCRYPTION BY SERVER CERTIFICATE TestCert;
GO
USE master;
GO
ALTER DATABASE awHDD SET ENCRYPTION ON;
GO
SELECT encryption_state_desc FROM sys.dm_database_encryption_keys;
SELECT SUM(CAST(a AS int)) FROM awHDD.dbo.t;
GO";
    let heard = run(client.as_mut(), script);
    assert_eq!(heard.errors(), []);
    assert!(heard.messages.iter().any(|message| message.number == 33091));
    assert_eq!(heard.texts(1), ["ENCRYPTED"]);
    assert_eq!(heard.int(2), 43);
    drop(client);
    assert_eq!(served.sum("awHDD"), 43);
}
