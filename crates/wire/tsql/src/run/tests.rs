//! How statements find their rows: SQLite's plans, and its work for a function.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tdekit_wire_tds::{
    Caller, Column, Command, DoneKind, EnvChange, Flow, Length, Message, Session, Sink, SqlType,
    Value,
};

use super::session::TsqlEngine;
use crate::bind::Variables;
use crate::error::Result;
use crate::host::{Database, DatabaseState, Host, Login, Opening, Recovery};
use crate::run::messages::shown;
use crate::run::silent::Silent;
use crate::run::state::Frame;
use crate::run::work::Inner;
use crate::run::work::Run;

/// A server on a directory. The login without a name is a member of sysadmin.
pub(super) struct Files {
    directory: PathBuf,
    logins: Vec<Login>,
}

impl Files {
    /// With these logins, which have no rights of their own.
    pub(super) fn new(directory: &tempfile::TempDir, others: &[&str]) -> Arc<Files> {
        let login = |(at, name): (u8, &&str)| Login {
            name: (*name).to_owned(),
            sid: vec![at],
            sysadmin: at == 1,
        };
        let logins = (1..).zip([""].iter().chain(others)).map(login).collect();
        Arc::new(Files { directory: directory.path().to_path_buf(), logins })
    }
}

impl Host for Files {
    fn opening(&self, database: &str) -> Result<Opening> {
        let uri = self.directory.join(database).display().to_string();
        Ok(Opening { uri, held: Box::new(()) })
    }

    fn logins(&self) -> Result<Vec<Login>> {
        Ok(self.logins.clone())
    }

    fn databases(&self) -> Result<Vec<Database>> {
        let names = ["master", "tempdb", "model", "msdb", "app", "other"];
        Ok((1..)
            .zip(names)
            .map(|(id, name)| Database {
                name: name.to_owned(),
                id,
                encrypted: false,
                state: DatabaseState::Online,
                recovery: Recovery::Simple,
            })
            .collect())
    }
}

fn session(directory: &tempfile::TempDir) -> Inner {
    session_of(&Files::new(directory, &[]), "")
}

/// A session of a login in the database `app`.
pub(super) fn session_of(files: &Arc<Files>, login: &str) -> Inner {
    let engine = TsqlEngine::new(files.clone());
    let (login, database) = (login.to_owned(), "app".to_owned());
    let caller = Caller { login, database, ..Caller::default() };
    engine.enter(&caller).map_err(|message| message.text).unwrap()
}

/// Numbers of the errors, and texts of the values, that a session sent.
#[derive(Default)]
pub(super) struct Numbers {
    pub(super) errors: Vec<i32>,
    pub(super) values: Vec<String>,
}

impl Sink for Numbers {
    fn columns(&mut self, _: &[Column]) -> Flow {
        Flow::Continue
    }

    fn row(&mut self, row: &[Value<'_>]) -> Flow {
        self.values.extend(row.iter().map(|value| shown(value, 8000)));
        Flow::Continue
    }

    fn done(&mut self, _: DoneKind, _: Command, _: Option<u64>) -> Flow {
        Flow::Continue
    }

    fn message(&mut self, message: &Message) -> Flow {
        if message.is_error() {
            self.errors.push(message.number);
        }
        Flow::Continue
    }

    fn return_status(&mut self, _: i32) {}
    fn return_value(&mut self, _: u16, _: &str, _: SqlType, value: &Value<'_>) {
        self.values.push(shown(value, 8000));
    }
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

fn batch(session: &mut Inner, text: &str) {
    session.batch(text, &mut Silent);
    assert_eq!(session.state.error, 0, "{text}");
}

/// Returns SQLite's plan of a query whose variable `@p` has this value.
fn plan(session: &mut Inner, query: &str, value: &str) -> String {
    let stmts = crate::parse::parse(query, true).unwrap();
    let kind = stmts.into_iter().next().unwrap().kind;
    let mut variables = Variables::default();
    variables.declare("@p", SqlType::VarChar(Length::Of(50))).unwrap();
    let vars = vec![Value::Text(value.to_owned().into())];
    let frame = Frame { vars, variables: variables.clone(), ..Frame::empty() };
    let mut silent = Silent;
    let mut run = Run { s: session, sink: &mut silent };
    let bound = run.bind(&kind, &variables).unwrap();
    let mut params = run.parameters(&bound.plan, &frame).unwrap();
    let text = format!("EXPLAIN QUERY PLAN {}", bound.plan.sql.text(&params));
    let connection = session.db.connection().unwrap();
    let mut statement = connection.prepare(&text).unwrap();
    params.truncate(statement.parameter_count());
    let rows = statement
        .query_map(rusqlite::params_from_iter(params), |row| row.get::<_, String>(3))
        .unwrap();
    rows.collect::<rusqlite::Result<Vec<String>>>().unwrap().join("; ")
}

#[test]
fn a_nullable_key_is_searched() {
    let directory = tempfile::tempdir().unwrap();
    let mut session = session(&directory);
    batch(
        &mut session,
        "CREATE TABLE u (id int PRIMARY KEY, mail varchar(50) NULL UNIQUE, a int NULL, b int \
        NULL); \
        CREATE UNIQUE INDEX ix ON u (a, b DESC); CREATE TABLE w (x varchar(50) NULL); ALTER \
        TABLE w \
        ADD CONSTRAINT q UNIQUE (x)",
    );
    for (query, index) in [
        ("SELECT id FROM u WHERE mail = @p", "u~UQ"),
        ("SELECT id FROM u WHERE mail = 'x'", "u~UQ"),
        ("SELECT id FROM u WHERE mail > @p", "u~UQ"),
        ("SELECT id FROM u WHERE a = 1 AND b = 2", "u~ix"),
        ("SELECT id FROM u WHERE a IS NULL AND b = 2", "u~ix"),
        ("UPDATE w SET x = 'y' WHERE x = @p", "w~q"),
    ] {
        let found = plan(&mut session, query, "x");
        assert!(found.contains("SEARCH") && found.contains(index), "{query}: {found}");
    }
}

#[test]
fn like_with_a_prefix_searches_a_range() {
    let directory = tempfile::tempdir().unwrap();
    let mut session = session(&directory);
    batch(
        &mut session,
        "CREATE TABLE p (id int PRIMARY KEY, name nvarchar(50) NOT NULL, note varchar(50) NULL); \
        CREATE INDEX ix ON p (name); \
        CREATE TABLE [p (1)] ([a \"(b] varchar(9) NOT NULL PRIMARY KEY)",
    );
    let odd = plan(&mut session, "SELECT 1 AS n FROM [p (1)] WHERE [a \"(b] LIKE @p", "ab%");
    assert!(odd.contains("SEARCH"), "{odd}");
    let query = "SELECT id FROM p WHERE name LIKE ";
    for (pattern, value, searched) in [
        ("'ab%'", "", true),
        ("N'é_%'", "", true),
        ("'a!%b%' ESCAPE '!'", "", true),
        ("@p", "ab%", true),
        ("@p + '%'", "ab", true),
        ("'%ab'", "", false),
        ("'[a]b%'", "", false),
        ("@p", "%ab%", false),
        ("@p", "", false),
        ("note + '%'", "", false),
    ] {
        let found = plan(&mut session, &format!("{query}{pattern}"), value);
        let range = found.contains("SEARCH") && found.contains("p~ix");
        assert_eq!(range, searched, "{pattern} {value}: {found}");
    }
    let both = "SELECT id FROM p WHERE note LIKE @p AND name LIKE 'x%' AND id > 0";
    assert!(plan(&mut session, both, "%").contains("SEARCH"));
}

#[test]
fn object_id_takes_as_long_among_many_tables() {
    let directory = tempfile::tempdir().unwrap();
    let mut session = session(&directory);
    batch(
        &mut session,
        "CREATE TABLE first (a int CONSTRAINT named UNIQUE); CREATE TABLE #t (a int)",
    );
    batch(&mut session, "CREATE SCHEMA s");
    batch(&mut session, "CREATE PROCEDURE p AS SELECT 1");
    batch(&mut session, "CREATE VIEW v AS SELECT 1 AS a");
    let names = ["first", "dbo.FIRST", "missing", "p", "v", "named", "tempdb..#t", "s.missing"];
    let asks = |name: &str| {
        format!(
            "DECLARE @i int = OBJECT_ID('{name}'); IF OBJECT_ID(N'{name}', N'U') IS NULL SET @i \
            = 0; \
            SELECT OBJECT_ID('{name}')"
        )
    };
    let steps = Arc::new(AtomicU64::new(0));
    let counted = |session: &mut Inner| {
        let mut found = Vec::new();
        for name in names {
            let ask = asks(name);
            batch(session, &ask);
            let count = steps.clone();
            let step = move || {
                count.fetch_add(1, Ordering::Relaxed);
                false
            };
            session.db.connection_mut().unwrap().progress_handler(1, Some(step)).unwrap();
            steps.store(0, Ordering::Relaxed);
            batch(session, &ask);
            found.push(steps.load(Ordering::Relaxed));
        }
        found
    };
    let few = counted(&mut session);
    assert!(few.iter().all(|steps| *steps > 0));
    for number in 0..200 {
        batch(
            &mut session,
            &format!("CREATE TABLE t{number} (a int CONSTRAINT c{number} CHECK (a > 0), b int)"),
        );
    }
    let many = counted(&mut session);
    for ((name, few), many) in names.iter().zip(few).zip(many) {
        assert!(many <= few + 50, "{name}: {few} steps, then {many}");
    }
}

/// Tables of functions keep no rows, after an error neither.
#[test]
fn tables_of_functions_are_empty_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let mut session = session(&directory);
    batch(
        &mut session,
        "CREATE FUNCTION f (@n int) RETURNS @t TABLE (a int) AS BEGIN DECLARE @u TABLE (a int \
         CHECK (a < 3)); INSERT @t VALUES (1), (2); INSERT @u VALUES (@n); RETURN END",
    );
    let rows = |session: &mut Inner, n: i32| {
        session.batch(&format!("SELECT a FROM f({n})"), &mut Silent);
        let connection = session.db.peek().unwrap();
        let sql = "SELECT name FROM temp.sqlite_schema WHERE name LIKE '~f%' AND type = 'table'";
        let mut statement = connection.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let names: Vec<String> = names.map(|name| name.unwrap()).collect();
        let count = |name: &String| {
            let sql = format!("SELECT count(*) FROM temp.\"{name}\"");
            connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        (names.iter().map(count).collect::<Vec<_>>(), session.state.error)
    };
    assert_eq!(rows(&mut session, 1), (vec![0, 0], 0));
    assert_eq!(rows(&mut session, 5), (vec![0, 0], 547));
    assert_eq!(rows(&mut session, 2), (vec![0, 0], 0));
}
