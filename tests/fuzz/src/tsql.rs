//! T-SQL: the stages of a client's batch before anything runs.

use std::cell::RefCell;

use tdekit_wire_tds::{
    Caller, Column, Command, DoneKind, Engine, EnvChange, Flow, Message, Session, Sink, SqlType,
    Value,
};
use tdekit_wire_tsql::{Database, Error, Host, Login, Opening, TsqlEngine, check_syntax};

/// Maximum length of a text here: longer ones are only slower.
const MOST_BYTES: usize = 4096;

/// Databases in memory.
struct Memory;

impl Host for Memory {
    fn opening(&self, _: &str) -> Result<Opening, Error> {
        Ok(Opening { uri: ":memory:".to_owned(), held: Box::new(()) })
    }

    fn logins(&self) -> Result<Vec<Login>, Error> {
        Ok(vec![Login { name: String::new(), sid: vec![1], sysadmin: true }])
    }

    fn databases(&self) -> Result<Vec<Database>, Error> {
        let database = |id, name: &str| Database {
            state: tdekit_wire_tsql::DatabaseState::Online,
            recovery: tdekit_wire_tsql::Recovery::Simple,
            name: name.to_owned(),
            id,
            encrypted: false,
        };
        Ok(vec![database(1, "master"), database(2, "tempdb"), database(5, "app")])
    }
}

/// Receives the definitions of the tables.
struct Nowhere;

impl Sink for Nowhere {
    fn columns(&mut self, _: &[Column]) -> Flow {
        Flow::Continue
    }
    fn row(&mut self, _: &[Value<'_>]) -> Flow {
        Flow::Continue
    }
    fn done(&mut self, _: DoneKind, _: Command, _: Option<u64>) -> Flow {
        Flow::Continue
    }
    fn message(&mut self, message: &Message) -> Flow {
        panic!("the tables are made: {message:?}");
    }
    fn return_status(&mut self, _: i32) {}
    fn return_value(&mut self, _: u16, _: &str, _: SqlType, _: &Value<'_>) {}
    fn env_change(&mut self, _: EnvChange<'_>) {}
    fn flush(&mut self) {}
    fn cancelled(&self) -> bool {
        false
    }
    fn cancel_flag(&self) -> std::sync::Arc<std::sync::atomic::AtomicBool> {
        std::sync::Arc::default()
    }

    fn waiting(&self, wait: &mut dyn FnMut()) -> bool {
        wait();
        true
    }
}

fn session() -> Box<dyn Session> {
    let caller = Caller { database: "app".to_owned(), spid: 51, ..Caller::default() };
    let engine = TsqlEngine::new(std::sync::Arc::new(Memory));
    let mut session = engine.open(&caller).map_err(|message| message.text).unwrap();
    for made in [
        "CREATE TYPE al FROM varchar(3); CREATE TYPE ty AS TABLE (k int PRIMARY KEY, v al)",
        "CREATE FUNCTION f (@p int = 1) RETURNS TABLE AS RETURN SELECT TOP (@p) @p AS p, 'x' AS x",
        "CREATE FUNCTION sf (@p int, @q int = 1) RETURNS int AS BEGIN IF @p > 0 RETURN dbo.sf(@p - \
         1, DEFAULT); RETURN @q + DATEPART(year, GETDATE()) END",
    ] {
        session.batch(made, &mut Nowhere);
    }
    session.batch(
        "CREATE TABLE t (a int IDENTITY PRIMARY KEY, b nvarchar(20) NULL, c decimal(9,2) NOT NULL \
         DEFAULT 1, d datetime2 NULL, e varbinary(max) NULL)",
        &mut Nowhere,
    );
    session
}

thread_local! {
    static SESSION: RefCell<Box<dyn Session>> = RefCell::new(session());
}

/// Lexer, parser, binder and emitter: any text gets an answer or a message with a line number in
/// it.
pub fn tsql(data: &[u8]) {
    let data = &data[..data.len().min(MOST_BYTES)];
    let text = String::from_utf8_lossy(data);
    let lines = text.lines().count().max(1) + 1;
    if let Err(message) = check_syntax(&text) {
        let line = usize::try_from(message.line).unwrap();
        assert!((1..=lines).contains(&line), "{message:?}");
    }
    SESSION.with_borrow_mut(|session| {
        if let Ok(described) = session.describe(&text, "@p int, @q nvarchar(10)") {
            assert_eq!(described.parameters.len(), 2);
        }
        // parameters are also declared by a text from the client
        let _ = session.describe("SELECT 1", &text);
    });
}
