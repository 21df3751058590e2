//! Logins that are not members of sysadmin, from outside: what they are kept from, through each way
//! in, and in which files.

use std::borrow::Cow;
use std::fs;

use tdekit_wire_tds::packet::PacketKind;
use tdekit_wire_tds::prelogin::Encryption;
use tdekit_wire_tds::rpc::{KnownProcedure, Procedure, encode_rpc};
use tdekit_wire_tds::{Length, Parameter, SqlType, Value};

use crate::served::{Client, PASSWORD, Served, int, login_of, ok, one, text};

fn parameter(ty: SqlType, value: Value<'static>, output: bool) -> Parameter {
    Parameter { name: String::new(), ty, value, output, default: false, table: None }
}

fn long(text: &'static str) -> Parameter {
    parameter(SqlType::NVarChar(Length::Max), Value::Text(Cow::Borrowed(text)), false)
}

fn out() -> Parameter {
    parameter(SqlType::Int, Value::Null, true)
}

fn call(client: &mut Client, procedure: KnownProcedure, parameters: &[Parameter]) -> Vec<i32> {
    let payload = encode_rpc(&Procedure::Known(procedure), parameters).unwrap();
    client.send(PacketKind::Rpc, &payload);
    client.answer().errors()
}

/// A client of this login, or the errors that it got.
fn enter(served: &Served, user: &str, database: &str) -> Result<Client, Vec<i32>> {
    let mut client = Client::connect_to(served.address());
    let answer = client.enter(&login_of(user, PASSWORD, database), Encryption::On);
    if answer.errors().is_empty() { Ok(client) } else { Err(answer.errors()) }
}

const SET_UP: &str = "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256 ENCRYPTION BY SERVER
    CERTIFICATE TestCert; ALTER DATABASE shelf SET ENCRYPTION ON; CREATE TABLE book (id int);
    INSERT book VALUES (1); CREATE USER reader; CREATE USER owner; ALTER ROLE db_datareader ADD
    MEMBER reader; ALTER ROLE db_owner ADD MEMBER owner";

fn served() -> Served {
    let served = Served::new();
    let mut other = served.client_in("other");
    ok(&mut other, "CREATE TABLE secret (id int); INSERT secret VALUES (42)");
    let mut sa = served.client_in("shelf");
    for login in ["reader", "owner"] {
        ok(&mut sa, &format!("CREATE LOGIN {login} WITH PASSWORD = '{PASSWORD}'"));
    }
    ok(&mut sa, SET_UP);
    served
}

#[test]
fn a_reader_reads_and_nothing_else_by_any_request() {
    let mut served = served();
    let mut reader = enter(&served, "reader", "shelf").unwrap();
    assert_eq!(int(&mut reader, "SELECT MAX(id) FROM book"), 1);
    assert_eq!(text(&one(&mut reader, "SELECT CURRENT_USER")), "reader");
    for (batch, number) in [
        ("INSERT book VALUES (2)", 229),
        ("DELETE book", 229),
        ("CREATE TABLE mine (id int)", 262),
        ("SELECT id FROM other.dbo.secret", 916),
        ("SELECT id FROM other.dbo.secret; ", 916),
        ("SELECT * FROM msdb.dbo.backupset", 229),
        ("SELECT * FROM sys.dm_database_encryption_keys", 300),
        ("SELECT * FROM sys.dm_exec_connections", 300),
        ("ALTER DATABASE shelf SET ENCRYPTION OFF", 5011),
        ("CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'another'", 15247),
        ("BACKUP CERTIFICATE TestCert TO FILE = 'c'", 15247),
        ("BACKUP DATABASE shelf TO DISK = 'x.bak'", 262),
        ("RESTORE DATABASE shelf FROM DISK = 'x.bak' WITH REPLACE", 262),
    ] {
        assert_eq!(reader.batch(batch).errors(), [number], "{batch}");
    }
    let keys = "SELECT (SELECT COUNT(*) FROM sys.certificates) + (SELECT COUNT(*) FROM \
                sys.symmetric_keys)";
    assert_eq!(int(&mut reader, keys), 0);
    let write = "INSERT book VALUES (3); SELECT 1";
    let prepared = [out(), long(""), long(write)];
    let refused = |errors: Vec<i32>| errors.contains(&229);
    assert!(refused(call(&mut reader, KnownProcedure::ExecuteSql, &[long(write)])));
    assert!(refused(call(&mut reader, KnownProcedure::PrepExec, &prepared)));
    assert!(refused(call(&mut reader, KnownProcedure::Prepare, &prepared)));
    let cursor = [out(), long("EXEC ('DELETE book') SELECT id FROM book"), out(), out(), out()];
    assert!(!call(&mut reader, KnownProcedure::CursorOpen, &cursor).is_empty());
    let cursor = [out(), long("SELECT id FROM other.dbo.secret"), out(), out(), out()];
    assert!(call(&mut reader, KnownProcedure::CursorOpen, &cursor).contains(&916));
    // A right that is taken away is gone with the next statement, a login with the next request.
    let mut sa = served.client_in("shelf");
    assert_eq!(int(&mut sa, "SELECT COUNT(*) FROM book"), 1);
    ok(&mut sa, "ALTER ROLE db_datareader DROP MEMBER reader");
    assert_eq!(reader.batch("SELECT id FROM book").errors(), [229]);
    ok(&mut sa, "ALTER ROLE db_datareader ADD MEMBER reader");
    assert_eq!(int(&mut reader, "SELECT MAX(id) FROM book"), 1);
    ok(&mut sa, "DROP LOGIN reader");
    assert_eq!(reader.batch("SELECT id FROM book").errors(), [916]);
    assert_eq!(enter(&served, "reader", "shelf").err(), Some(vec![18456]));
    ok(&mut sa, &format!("CREATE LOGIN reader WITH PASSWORD = '{PASSWORD}'"));
    assert_eq!(enter(&served, "reader", "shelf").err(), Some(vec![4060, 18456]));
    assert_eq!(sa.batch("DROP LOGIN sa").errors(), [15150]);
    assert_eq!(sa.batch("ALTER SERVER ROLE sysadmin DROP MEMBER sa").errors(), [15150]);
    served.kill();
    served.start();
    assert_eq!(enter(&served, "reader", "shelf").err(), Some(vec![4060, 18456]));
}

#[test]
fn an_owner_of_one_database_reaches_no_file_of_another() {
    let served = served();
    let mut owner = enter(&served, "owner", "shelf").unwrap();
    ok(&mut owner, "CREATE TABLE mine (id int); INSERT mine VALUES (1); DROP TABLE mine");
    assert_eq!(enter(&served, "owner", "other").err(), Some(vec![4060, 18456]));
    assert_eq!(owner.batch("USE other").errors(), [916]);
    assert_eq!(owner.batch("SELECT id FROM other.dbo.secret").errors(), [916]);
    assert_eq!(int(&mut owner, "SELECT HAS_DBACCESS('other') + 2 * HAS_DBACCESS('shelf')"), 2);
    // Neither is its lock taken by a transaction of somebody who may not enter.
    ok(&mut owner, "SET XACT_ABORT OFF; BEGIN TRAN");
    assert_eq!(owner.batch("SELECT id FROM other.dbo.secret").errors(), [916]);
    ok(&mut owner, "INSERT book VALUES (2)");
    let mut sa = served.client_in("other");
    ok(&mut sa, "SET LOCK_TIMEOUT 0; INSERT secret VALUES (43)");
    ok(&mut owner, "COMMIT");
    ok(&mut sa, "BACKUP DATABASE other TO DISK = 'other.bak'; SET LOCK_TIMEOUT -1");
    let before = fs::read(served.data("other.bak")).unwrap();
    for (target, number) in [
        ("other.db", 15247),
        ("shelf.db", 15247),
        ("other.db-wal", 15247),
        ("new.db", 3201),
        ("other.bak", 15247),
        ("/tmp/x.bak", 15247),
        ("../home/x.bak", 15247),
        ("sub/x.bak", 15247),
    ] {
        for with in ["", " WITH FORMAT", " WITH INIT"] {
            let batch = format!("BACKUP DATABASE shelf TO DISK = '{target}'{with}");
            assert_eq!(owner.batch(&batch).errors().first(), Some(&number), "{batch}");
        }
    }
    assert_eq!(fs::read(served.data("other.bak")).unwrap(), before);
    let errors = sa.batch("BACKUP DATABASE other TO DISK = 'shelf.db' WITH FORMAT").errors();
    assert_eq!(errors.first(), Some(&3201), "nor by a sysadmin");
    for with in ["", " WITH FORMAT", " WITH INIT"] {
        ok(&mut owner, &format!("BACKUP DATABASE shelf TO DISK = 'shelf.bak'{with}"));
    }
    assert_eq!(owner.batch("RESTORE HEADERONLY FROM DISK = 'other.bak'").errors(), [262]);
    assert_eq!(owner.batch("DROP DATABASE other").errors(), [3701]);
    assert_eq!(int(&mut sa, "SELECT COUNT(*) FROM secret"), 2);
    assert_eq!(int(&mut owner, "SELECT COUNT(*) FROM book"), 2);
}

/// A reader's transactions keep nobody waiting; those of a writer do, until somebody ends them.
#[test]
fn no_transaction_of_a_reader_keeps_others_from_writing() {
    let served = served();
    let mut sa = served.client_in("shelf");
    let mut reader = enter(&served, "reader", "shelf").unwrap();
    for batch in [
        "CREATE TABLE #t (id int); INSERT #t SELECT id FROM book",
        "SELECT MAX(id) FROM book WITH (TABLOCKX, HOLDLOCK)",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT MAX(id) FROM book",
    ] {
        ok(&mut reader, &format!("BEGIN TRAN; {batch}"));
        ok(&mut sa, "SET LOCK_TIMEOUT 0; INSERT book VALUES (1); CREATE ROLE clerks");
        ok(&mut sa, "GRANT INSERT ON book TO clerks; DROP ROLE clerks; DELETE TOP (1) book");
        // Neither are his rights those of the snapshot that he reads.
        ok(&mut sa, "ALTER ROLE db_datareader DROP MEMBER reader");
        assert_eq!(reader.batch("SELECT id FROM book").errors(), [229], "{batch}");
        ok(&mut sa, "ALTER ROLE db_datareader ADD MEMBER reader");
        assert_eq!(int(&mut reader, "SELECT MAX(id) FROM book"), 1, "{batch}");
        ok(&mut reader, "COMMIT; IF OBJECT_ID('tempdb..#t') IS NOT NULL DROP TABLE #t");
    }
    let mut owner = enter(&served, "owner", "shelf").unwrap();
    let spid = int(&mut owner, "SELECT @@SPID");
    ok(&mut owner, "BEGIN TRAN; CREATE TABLE #t (id int)");
    assert_eq!(sa.batch("DENY CONNECT TO owner").errors(), [1222]);
    ok(&mut sa, &format!("KILL {spid}; SET LOCK_TIMEOUT 20000; DENY CONNECT TO owner"));
    assert_eq!(enter(&served, "owner", "shelf").err(), Some(vec![4060, 18456]));
}
