//! The documents' scripts verbatim, through the interpreter; only paths differ, and loops are
//! shorter.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tdekit_wire_tds::{
    Caller, Column, Command, DoneKind, Engine, EnvChange, Flow, Message, Session, Sink, SqlType,
    Value,
};
use tdekit_wire_tsql::TsqlEngine;

use super::tests::Served;

const KEYS: &str = include_str!("../../tsql/tests/scripts/b-keys.sql");
const BACKED_UP: &str = include_str!("../../tsql/tests/scripts/b-key-backups.sql");
const MATRIX: &str = include_str!("../../tsql/tests/scripts/b-backups.sql");
const HISTORY: &str = include_str!("../../tsql/tests/scripts/b-history.sql");
const MESSAGES: &str = include_str!("../../tsql/tests/scripts/d-messages.sql");

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

    fn waiting(&self, wait: &mut dyn FnMut()) -> bool {
        wait();
        true
    }
}

fn client(served: &Served) -> Box<dyn Session> {
    client_of(&served.engine())
}

fn client_of(engine: &TsqlEngine) -> Box<dyn Session> {
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
    engine.open(&caller).unwrap()
}

/// Runs a script batch by batch, splitting at GO as clients do.
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
    // The names in the document, first and last.
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

/// The life of a run of `tdekit bench --target mssql://`: databases, a key, measurements, backups,
/// and the removal of all of it.
const BENCH: &str = "CREATE DATABASE b_plain;
CREATE DATABASE b_crypt;
CREATE CERTIFICATE b_cert WITH SUBJECT = N'bench';
GO
USE b_crypt; CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256
    ENCRYPTION BY SERVER CERTIFICATE b_cert;
GO
USE master; ALTER DATABASE b_crypt SET ENCRYPTION ON;
GO
USE b_crypt;
CREATE TABLE dbo.Card (CardID int NOT NULL PRIMARY KEY, Text nvarchar(36) NOT NULL);
CREATE INDEX Card_Text ON dbo.Card (Text);
GO
USE b_crypt;
INSERT INTO dbo.Card VALUES (1, N'a'), (2, N'b'), (3, N'c');
EXEC sp_executesql N'/*tdekit 1a2b a select 03*/ SELECT COUNT(*) FROM dbo.Card WHERE CardID > @a',
    N'@a int', @a = 1;
CHECKPOINT; DBCC DROPCLEANBUFFERS;
EXEC sp_executesql N'/*tdekit 1a2b a select 03*/ SELECT COUNT(*) FROM dbo.Card WHERE CardID > @a',
    N'@a int', @a = 1;
ALTER INDEX ALL ON dbo.Card REBUILD;
BACKUP DATABASE b_crypt TO DISK = N'b.bak' WITH FORMAT, INIT, COMPRESSION,
    ENCRYPTION (ALGORITHM = AES_256, SERVER CERTIFICATE = b_cert);
BACKUP DATABASE b_plain TO DISK = N'p.bak' WITH FORMAT, INIT, NO_COMPRESSION;
RESTORE VERIFYONLY FROM DISK = N'b.bak';
GO
";

#[test]
fn a_bench_leaves_nothing() {
    let (served, mut client) = with_document_b();
    let heard = run(client.as_mut(), BENCH);
    assert_eq!(heard.errors(), []);
    let stats =
        "SELECT CONVERT(nvarchar(40), SUBSTRING(t.text, CHARINDEX(N'/*tdekit ', t.text), 40)),
            CONVERT(bigint, q.total_worker_time), CONVERT(bigint, q.total_logical_reads),
            CONVERT(bigint, q.total_logical_writes), CONVERT(bigint, q.total_physical_reads),
            CONVERT(bigint, q.total_elapsed_time), CONVERT(bigint, q.execution_count)
        FROM sys.dm_exec_query_stats AS q CROSS APPLY sys.dm_exec_sql_text(q.sql_handle) AS t
        WHERE t.text LIKE N'%/*tdekit 1a2b a %' AND t.text NOT LIKE N'%dm_exec_query_stats%'
            AND t.text NOT LIKE N'%CREATE%'";
    let heard = run(client.as_mut(), stats);
    assert_eq!(heard.errors(), []);
    let found = heard.results[0].1.iter().find(|row| row[6] == Value::Int(2)).unwrap();
    let numbers: Vec<i64> = found[1..]
        .iter()
        .map(|value| match value {
            Value::Int(int) => *int,
            other => panic!("{other:?}"),
        })
        .collect();
    let [cpu, logical, writes, physical, elapsed, _] = numbers[..] else { panic!("{numbers:?}") };
    assert!(cpu > 0 && cpu <= elapsed + 1000 && writes == 0, "{numbers:?}");
    assert!(physical > 0 && physical <= logical, "{numbers:?}");
    let files = "SELECT name FROM sys.master_files
        WHERE database_id = DB_ID('b_plain') AND type = 0 AND size > 0 AND size < 100";
    assert_eq!(run(client.as_mut(), files).texts(0), ["b_plain"]);

    // Anything needed stays, and so does any file that is not a backup.
    let refused = |client: &mut dyn Session, sql: &str| run(client, sql).errors()[0].0;
    assert_eq!(refused(client.as_mut(), "USE master; DROP CERTIFICATE b_cert"), 15352);
    assert_eq!(refused(client.as_mut(), "EXEC master.sys.xp_delete_file 0, N'b_plain.db'"), 3241);
    assert!(served.path("b_plain.db").is_file());
    assert_eq!(refused(client.as_mut(), "EXEC xp_delete_file 0, N'.', N'bak'"), 40512);

    let gone = "USE master; DROP DATABASE b_plain; DROP DATABASE b_crypt;
        EXEC master.sys.xp_delete_file 0, N'b.bak'; EXEC master.sys.xp_delete_file 0, N'p.bak';
        EXEC msdb.dbo.sp_delete_database_backuphistory @database_name = N'b_plain';
        EXEC msdb.dbo.sp_delete_database_backuphistory N'B_CRYPT';
        DROP CERTIFICATE b_cert;
        SELECT COUNT(*) FROM msdb.dbo.backupset WHERE database_name LIKE 'b[_]%';
        SELECT COUNT(*) FROM sys.certificates WHERE name = 'b_cert';
        SELECT name FROM sys.certificates";
    let heard = run(client.as_mut(), gone);
    assert_eq!(heard.errors(), []);
    assert_eq!((heard.int(0), heard.int(1)), (0, 0));
    assert_eq!(heard.texts(2), ["TestCert"]);
    for file in ["b_plain.db", "b_crypt.db", "b.bak", "p.bak"] {
        assert!(!served.path(file).exists(), "{file}");
    }
}

#[test]
fn a_certificate_of_an_earlier_start_needs_a_backup_before_it_goes() {
    let (served, client) = with_document_b();
    drop(client);
    let mut client = client_of(&served.engine_again());
    let open = "OPEN MASTER KEY DECRYPTION BY PASSWORD = 'p@ssw0rd'";
    assert_eq!(run(client.as_mut(), open).errors(), []);
    let heard = run(client.as_mut(), "DROP CERTIFICATE TestCert");
    assert!(
        matches!(heard.errors()[..], [(15352, text)] if text.contains("BACKUP CERTIFICATE")),
        "{:?}",
        heard.errors()
    );
    let mended = "BACKUP CERTIFICATE TestCert TO FILE = 't.pfx' WITH FORMAT = 'PFX',
            PRIVATE KEY (ENCRYPTION BY PASSWORD = N'p@ssw0rd');
        DROP CERTIFICATE TestCert";
    assert_eq!(run(client.as_mut(), mended).errors(), []);
}
