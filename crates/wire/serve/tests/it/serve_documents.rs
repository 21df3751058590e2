//! The documents' scripts through the port, as written; only paths differ, and loops are shorter.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::served::{ATTENTION, Answer, Served, eventually, int, messages, ok, script, text};
use tdekit_wire_tds::answer::Token;
use tdekit_wire_tds::packet::PacketKind;
use tdekit_wire_tds::request::encode_batch;

const KEYS: &str = include_str!("../../../tsql/tests/scripts/b-keys.sql");
const KEY_BACKUPS: &str = include_str!("../../../tsql/tests/scripts/b-key-backups.sql");
const BACKUPS: &str = include_str!("../../../tsql/tests/scripts/b-backups.sql");
const HISTORY: &str = include_str!("../../../tsql/tests/scripts/b-history.sql");
const MESSAGES: &str = include_str!("../../../tsql/tests/scripts/d-messages.sql");
const SAMPLING: &str = include_str!("../../../tsql/tests/scripts/d-sampling.sql");

fn columns(answer: &Answer) -> Vec<Vec<String>> {
    let names = |token: &Token| match token {
        Token::Columns(columns) => Some(columns.iter().map(|column| column.name.clone()).collect()),
        _ => None,
    };
    answer.0.iter().filter_map(names).collect()
}

#[test]
#[ignore = "full: a script of minutes on a server"]
fn document_b_makes_its_backups() {
    let served = Served::bare(&[]);
    let mut client = served.client();
    for database in ["awHDD", "awSSD"] {
        ok(&mut client, &format!("CREATE DATABASE {database}"));
        ok(&mut client, &format!("USE {database}"));
        ok(&mut client, "CREATE TABLE t (a varchar(100)); INSERT t VALUES (REPLICATE('a', 100))");
    }
    script(&mut client, KEYS);
    let temp = served.place.path("temp");
    fs::create_dir(&temp).unwrap();
    ok(&mut client, &KEY_BACKUPS.replace("C:\\temp\\", &format!("{}/", temp.display())));
    for file in ["TestCert.cert", "TestCert.key", "MasterKey.key"] {
        assert!(temp.join(file).is_file(), "{file}");
    }
    for disk in ["D", "E"] {
        fs::create_dir_all(served.place.path(disk).join("backup")).unwrap();
    }
    let from = "''' + d + ':\\backup\\'";
    assert!(BACKUPS.contains(from));
    let to = format!("''{}' + d + '/backup/'", served.place.path("").display());
    let backups = BACKUPS.replace(from, &to).replace("--EXEC", "EXEC");
    for _ in 0..2 {
        let answer = ok(&mut client, &backups);
        let made = messages(&answer).iter().filter(|message| message.number == 3014).count();
        assert_eq!(made, 40);
        let sql = text(&answer.values().last().unwrap()[0]);
        assert_eq!(sql.matches("BACKUP DATABASE aw").count(), 40, "{sql}");
    }
    let count = |disk: &str| fs::read_dir(served.place.path(disk).join("backup")).unwrap().count();
    assert_eq!((count("D"), count("E")), (20, 20));

    let answer = ok(&mut client, HISTORY);
    let expected =
        ["name", "natural_size", "compressed_size", "min_duration", "max_duration", "avg_duration"];
    assert_eq!(columns(&answer), [expected]);
    let rows = answer.values();
    assert_eq!(rows.len(), 40);
    // First and last of the names that the document lists.
    assert_eq!(text(&rows[0][0]), "test01-NO_ENCRYPTION-HDD-to-HDD-COMPRESSION");
    assert_eq!(text(&rows[39][0]), "test20-TRIPLE_DES_3KEY-SSD-to-SSD-NO_COMPRESSION");
}

#[test]
fn document_d_measures_its_loop() {
    let served = Served::bare(&[]);
    let mut client = served.client();
    let answer = ok(&mut client, &MESSAGES.replace("100000000", "200000"));
    let rows = answer.values();
    assert_eq!(rows.len(), 6, "{rows:?}");
    assert!(text(&rows[1][0]).starts_with("Microsoft SQL Server"));
    assert_eq!(text(&rows[2][0]), "TRUE");
    assert_eq!(text(&rows[5][0]), "PREEMPTIVE_OS_ENCRYPTMESSAGE");
    let names = columns(&answer);
    assert_eq!(names[3..5], [["context_switches"], ["elapsed_seconds"]]);
    let done = answer.0.iter().filter(|token| matches!(token, Token::Done { .. })).count();
    assert!(done > 200_000, "a DONE for every SET of the loop: {done}");
}

#[test]
fn document_d_samples_another_session() {
    let served = Served::bare(&[]);
    let mut measured = served.client();
    let mut sampling = served.client();
    let spid = int(&mut measured, "SELECT @@SPID");
    let endless = "DECLARE @cnt int = 0; WHILE 1 = 1 SET @cnt = 1 - @cnt";
    measured.send(PacketKind::Batch, &encode_batch(&format!("SET NOCOUNT ON; {endless}")));
    // An unread answer would block the loop.
    let reader = thread::spawn(move || {
        thread::sleep(Duration::from_millis(2500));
        measured.attention();
        // After the interrupted part.
        (0..2).any(|_| measured.answer().status() & ATTENTION == ATTENTION)
    });
    // The thread that works on it, as somebody asks who samples its stack from outside.
    let os_thread = format!(
        "SELECT h.os_thread_id FROM sys.dm_exec_requests r
         JOIN sys.dm_os_tasks t ON t.task_address = r.task_address
         JOIN sys.dm_os_workers w ON w.worker_address = t.worker_address
         JOIN sys.dm_os_threads h ON h.thread_address = w.thread_address
         WHERE t.session_id = {spid}"
    );
    let kpid = format!("SELECT kpid FROM master..sysprocesses WHERE spid = {spid}");
    eventually("its begin", || ok(&mut sampling, &os_thread).rows() == 1);
    let own = int(&mut sampling, &os_thread);
    assert_eq!(int(&mut sampling, &kpid), own);
    let mut resting = served.client();
    let idle = int(&mut resting, "SELECT @@SPID");
    let none = format!("SELECT kpid FROM sys.sysprocesses WHERE spid = {idle}");
    assert_eq!(int(&mut sampling, &none), 0);
    let task = format!("/proc/{}/task/{own}/stat", served.pid());
    // Its utime, in hundredths of a second: the thread is the one that computes.
    let spent = || -> u64 {
        let stat = fs::read_to_string(&task).unwrap();
        let fields = stat.rsplit(") ").next().unwrap();
        fields.split(' ').nth(11).unwrap().parse().unwrap()
    };
    let before = spent();
    eventually("time spent in the thread", || spent() > before);
    let sample = SAMPLING
        .replace("@spid int = 78", &format!("@spid int = {spid}"))
        .replace("@samples int = 120", "@samples int = 10")
        .replace("'00:00:01'", "'00:00:00.1'");
    let answer = ok(&mut sampling, &sample);
    let expected =
        ["cpu_time", "total_elapsed_time", "status", "wait_type", "wait_time", "scheduler_id"];
    assert!(columns(&answer).iter().all(|names| *names == expected));
    assert_eq!(columns(&answer).len(), 10);
    assert!(answer.rows() >= 5, "it ran meanwhile: {:?}", answer.values());
    assert!(reader.join().unwrap());
    assert_eq!(ok(&mut sampling, &sample).rows(), 0, "it does not run any more");
    assert_eq!(ok(&mut sampling, &os_thread).rows(), 0);
}
