//! Sessions and the engine that opens them: the seam to the protocol.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tdekit_wire_tds::messages::DefinedError;
use tdekit_wire_tds::{
    Caller, Column, Command, Description, DoneKind, Engine, Isolation, Message, Parameter, Session,
    Sink, Transaction, Value,
};

use super::activity::Activities;
use super::calls::Calls;
use super::compile::Lazy;
use super::cursors::Cursors;
use super::db::Db;
use super::given::{GivenValues, Values};
use super::globals::Globals;
use super::guards::Guards;
use super::holder::Locks;
use super::identities::Identities;
use super::locks::Owner;
use super::looked_up::LookedUp;
use super::metered::Metered;
use super::options::Options;
use super::position::Position;
use super::tallies::Tallies;
use super::target::Loading;
use super::texts::Texts;
use crate::ast::Kind;
use crate::error::{At, Error};
use crate::functions::eval::{Env, eval};
use crate::host::{DatabaseState, SharedHost};
use crate::plan::scalar::Scalar;
use crate::run::called::{Called, Compiled, Given};
use crate::run::ddl::Ddl;
use crate::run::gate::{Gate, Who};
use crate::run::silent::Silent;
use crate::run::state::{Frame, Signal, State};
use crate::run::work::{Inner, Run};
use crate::value::Val;

/// The T-SQL engine over a host's databases.
pub struct TsqlEngine {
    host: SharedHost,
    version: Arc<AtomicU64>,
    activities: Activities,
    tallies: Tallies,
    locks: Locks,
    given: GivenValues,
    globals: Globals,
}

impl TsqlEngine {
    /// Creates an engine for this host.
    pub fn new(host: SharedHost) -> TsqlEngine {
        crate::run::catalog::views::machine::started();
        TsqlEngine {
            host,
            version: Arc::new(AtomicU64::new(1)),
            activities: Activities::default(),
            tallies: Tallies::default(),
            locks: Locks::default(),
            given: GivenValues::default(),
            globals: Globals::default(),
        }
    }
}

impl std::fmt::Debug for TsqlEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TsqlEngine").finish_non_exhaustive()
    }
}

impl TsqlEngine {
    pub(super) fn enter(&self, caller: &Caller) -> Result<Inner, Message> {
        let wanted = if caller.database.is_empty() { "master" } else { &caller.database };
        let all = self.host.databases().map_err(|error| error.message(1, ""))?;
        let found = all.iter().find(|database| database.name.eq_ignore_ascii_case(wanted));
        let Some(found) = found.filter(|found| found.state != DatabaseState::Restoring) else {
            let error = Error::CannotOpenDatabase { name: wanted.to_owned() };
            return Err(error.message(1, ""));
        };
        let mut db = Db::new(self.host.clone(), self.version.clone(), &self.globals);
        db.set_who(who(&self.host, &caller.login));
        if db.rights(&found.name).is_err() {
            let error = Error::CannotOpenDatabase { name: wanted.to_owned() };
            return Err(error.message(1, ""));
        }
        let state = State::new(&found.name);
        let isolation = &state.options.isolation;
        let known = (&self.activities, &self.tallies);
        let metered = Metered::enter(known, caller, &found.name, isolation);
        // behind that: whoever detaches the database sees this session, or is seen here
        if db.is_there(&found.name).is_err() {
            let error = Error::CannotOpenDatabase { name: wanted.to_owned() };
            return Err(error.message(1, ""));
        }
        Ok(Inner {
            db,
            state,
            caller: caller.clone(),
            position: Position::new(&found.name),
            texts: Texts::default(),
            looked_up: LookedUp::default(),
            load: Loading::default(),
            metered,
            locks: self.locks.enter(caller.spid),
            values: Values::new(&self.given),
        })
    }
}

/// Returns whom a session of a login works for: where the list of logins cannot be read, somebody
/// without rights.
fn who(host: &SharedHost, login: &str) -> Who {
    let known = host.login(login).ok().flatten();
    Who {
        login: login.to_owned(),
        sysadmin: known.as_ref().is_some_and(|known| known.sysadmin),
        sid: known.map(|known| known.sid),
    }
}

impl Engine for TsqlEngine {
    fn open(&self, caller: &Caller) -> Result<Box<dyn Session>, Message> {
        Ok(Box::new(self.enter(caller)?))
    }
}

impl State {
    fn new(database: &str) -> State {
        State {
            database: database.to_owned(),
            options: Options::default(),
            rowcount: 0,
            error: 0,
            identities: Identities::default(),
            transaction: super::tran::Transaction::None,
            guards: Guards::default(),
            short: false,
            nest: 0,
            chain: None,
            capturing: None,
            cursors: Cursors::default(),
            now: crate::value::datetime::now(),
        }
    }
}

impl Inner {
    pub(crate) fn calls(&self) -> Calls<'_> {
        Calls {
            state: &self.state,
            caller: &self.caller,
            host: &self.db.host,
            snapshot: self.looked_up.snapshot(),
            db: &self.db,
        }
    }

    /// Evaluates expressions over the variables of a frame.
    pub(crate) fn with_env<T>(
        &self,
        frame: &Frame,
        work: impl FnOnce(&Env<'_>) -> crate::error::Result<T>,
    ) -> crate::error::Result<T> {
        self.with_row(&[], frame, work)
    }

    /// Returns the value of an expression over the values of a row.
    pub(super) fn over_row(
        &self,
        bound: &Scalar,
        row: &[Val],
        frame: &Frame,
    ) -> crate::error::Result<Val> {
        self.with_row(row, frame, |env| eval(bound, env).map(Value::into_owned))
    }

    fn with_row<T>(
        &self,
        row: &[Val],
        frame: &Frame,
        work: impl FnOnce(&Env<'_>) -> crate::error::Result<T>,
    ) -> crate::error::Result<T> {
        let calls = self.calls();
        let env = Env {
            vars: &frame.vars,
            args: row,
            session: Some(&calls),
            host: Some(&*self.db.host),
            order: self.state.options.dateformat,
            datefirst: self.state.options.datefirst,
            ..Env::empty()
        };
        work(&env)
    }

    /// Returns whether the running statement may do what it does.
    pub(crate) fn gate(&mut self) -> Gate<'_> {
        Gate::new(&mut self.db, &self.state)
    }

    /// Returns the definitions as the running statement reads and changes them.
    pub(crate) fn ddl(&mut self) -> Ddl<'_> {
        Ddl::new(&mut self.db, &self.state)
    }

    /// A text with declared parameters, compiled.
    pub(crate) fn prepared(&mut self, text: &str, declarations: &str) -> Result<Arc<Compiled>, At> {
        let quoted = self.state.options.quoted_identifier;
        let all = (text, declarations, quoted);
        let parts = (&mut self.db, &mut self.metered);
        self.texts.text(all, &self.state.database, parts)
    }

    /// Connects the client's cancel to SQLite, and clears the state of an earlier request.
    fn begin(&mut self, sink: &mut dyn Sink, command: &str) {
        self.state.now = crate::value::datetime::now();
        self.state.nest = 0;
        self.state.chain = None;
        self.db.fired.reset();
        self.state.guards.reset();
        self.state.capturing = None;
        self.looked_up.forget();
        self.renew_who();
        self.metered.begin_request(self.state.now, command);
        self.show();
        let mut flag = self.db.cancel.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *flag = sink.cancel_flag();
    }

    /// Reads anew whom the session works for. A login that was made again under the same name is
    /// another one.
    pub(crate) fn renew_who(&mut self) {
        let mut who = who(&self.db.host, &self.caller.login);
        if who.sid != self.db.who.sid {
            who = Who { login: who.login, ..Who::default() };
        }
        self.db.set_who(who);
        self.gate().renew_rights();
    }

    /// Shows this session's current state to other sessions.
    pub(crate) fn show(&self) {
        self.metered.show(&self.state);
    }

    /// Ends a measured statement, with its number of rows or with an error.
    pub(super) fn measured(&mut self, lazy: &Lazy, frame: &Frame, rows: Option<u64>) {
        self.metered.end((lazy, frame), rows, (&self.db, &self.state));
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.state.short) {
            // its SQLite memory is freed with the connection, unless that holds needed state
            self.rest();
        }
        self.settle();
        self.db.close_apart();
        self.metered.begin(&self.db);
        self.show();
        self.metered.end_request();
    }

    fn report(&mut self, at: &At, sink: &mut dyn Sink, kind: DoneKind) {
        let message = at.error.message(at.line, "");
        self.state.error = message.number;
        if sink.message(&message) == tdekit_wire_tds::Flow::Continue {
            let _ = sink.done(kind, Command::OTHER, None);
        }
    }

    /// Ends a call from the client: an uncaught error, the status, the outputs.
    fn answer(
        &mut self,
        result: crate::error::Result<Called>,
        parameters: &[Parameter],
        sink: &mut dyn Sink,
    ) {
        let frame = frame(DoneKind::InProcedure);
        let order = self.state.options.dateformat;
        let result = result.and_then(|called| called.given_as(parameters, order));
        let called = match result {
            Ok(called) => called,
            Err(error) => {
                let signal = Run { s: self, sink }.failed(error, 1, &frame);
                self.undo_cancelled(&signal, sink);
                self.end_doomed(sink);
                return;
            }
        };
        let stopped = called.signal == Signal::Stop;
        if stopped {
            self.undo_cancelled(&Ok(called.signal), sink);
        }
        self.end_doomed(sink);
        if stopped {
            return;
        }
        sink.return_status(called.status);
        for (index, name, ty, value) in &called.outputs {
            let ordinal = u16::try_from(*index).unwrap_or(u16::MAX);
            sink.return_value(ordinal, name, *ty, value);
        }
    }

    /// A cancelled request undoes the transaction under XACT_ABORT; without it the client decides,
    /// as in SQL Server.
    fn undo_cancelled(&mut self, ended: &crate::error::Result<Signal>, sink: &mut dyn Sink) {
        let cancelled = sink.cancelled() && !matches!(ended, Ok(Signal::Next | Signal::Return(_)));
        if cancelled && self.state.options.xact_abort && self.state.transaction.is_open() {
            let _ = Run { s: self, sink }.rollback_all();
        }
    }

    /// Ends a transaction that can only be rolled back: it does not outlive its request. Returns
    /// true if there was one.
    fn end_doomed(&mut self, sink: &mut dyn Sink) -> bool {
        if !self.state.transaction.is_doomed() {
            return false;
        }
        let message = Error::from(DefinedError::Uncommittable {}).message(1, "");
        self.state.error = message.number;
        let _ = sink.message(&message);
        if let Err(error) = (Run { s: self, sink }).rollback_all() {
            let _ = sink.message(&error.message(1, ""));
        }
        true
    }

    pub(crate) fn describe_text(
        &mut self,
        text: &str,
        declarations: &str,
    ) -> Result<Description, At> {
        self.renew_who();
        let compiled = self.prepared(text, declarations)?;
        let parameters = compiled
            .params
            .iter()
            .map(|param| (param.name.clone(), param.ty, param.output))
            .collect();
        let (quoted, database) =
            (self.state.options.quoted_identifier, self.state.database.clone());
        let (stmts, _) = self.db.parse(text, quoted, &database)?;
        let mut silent = Silent;
        let mut run = Run { s: self, sink: &mut silent };
        let variables = compiled.program.variables.clone();
        let found = run
            .with_empty_tables(&compiled.params, |run| Ok(first_result(run, &stmts, &variables)));
        let columns = found.map_err(|error| At { error, line: 1 })??;
        Ok(Description { columns, parameters })
    }
}

fn first_result<'s>(
    run: &mut Run<'_>,
    stmts: impl IntoIterator<Item = &'s crate::ast::Stmt>,
    variables: &crate::bind::Variables,
) -> Result<Vec<Column>, At> {
    for stmt in stmts {
        let found = match &stmt.kind {
            Kind::Query(_)
            | Kind::Insert(_)
            | Kind::Update(_)
            | Kind::Delete(_)
            | Kind::Merge(_) => {
                let bound = run
                    .bind(&stmt.kind, variables)
                    .map_err(|error| At { error, line: stmt.line })?;
                let into = matches!(&stmt.kind, Kind::Query(query)
                    if super::bound::into(query).is_some());
                if into { Vec::new() } else { bound.plan.columns }
            }
            _ => {
                let mut inner = Vec::new();
                stmt.children(&mut |part| inner.push(part));
                first_result(run, inner, variables)?
            }
        };
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Returns the first word of a text, in upper case.
fn first_word(text: &str) -> String {
    let letters = text.trim_start_matches(|c: char| !c.is_alphabetic()).chars();
    let word: String = letters.take_while(|c| c.is_alphanumeric()).take(32).collect();
    word.to_uppercase()
}

fn frame(kind: DoneKind) -> Frame {
    Frame { kind, ..Frame::empty() }
}

impl Session for Inner {
    fn database(&self) -> String {
        self.state.database.clone()
    }

    fn batch(&mut self, text: &str, sink: &mut dyn Sink) {
        self.begin(sink, &first_word(text));
        let compiled = match self.prepared(text, "") {
            Ok(compiled) => compiled,
            Err(at) => {
                self.end();
                return self.report(&at, sink, DoneKind::Statement);
            }
        };
        let mut frame = frame(DoneKind::Statement);
        frame.vars = vec![Value::Null; compiled.program.variables.types.len()];
        frame.variables = compiled.program.variables.clone();
        frame.origin = Some(compiled.origin.clone());
        let mut run = Run { s: self, sink };
        let ended = match run.steps(&compiled.program.steps, &mut frame) {
            Err(error) => run.failed(error, 1, &frame),
            ended => ended,
        };
        // a table that cannot be dropped is hidden all the same
        let _ = run.end_temporaries(0);
        self.undo_cancelled(&ended, sink);
        if self.end_doomed(sink) {
            let _ = sink.done(DoneKind::Statement, Command::OTHER, None);
        }
        self.end();
    }

    fn execute(
        &mut self,
        text: &str,
        declarations: &str,
        parameters: &[Parameter],
        sink: &mut dyn Sink,
    ) {
        self.begin(sink, "EXECUTE");
        let given: Vec<Given> = parameters.iter().map(Given::from).collect();
        let result = Run { s: self, sink }.execute(text, declarations, &given);
        self.answer(result, parameters, sink);
        self.end();
    }

    fn procedure(&mut self, name: &str, parameters: &[Parameter], sink: &mut dyn Sink) {
        self.begin(sink, "EXECUTE");
        let given: Vec<Given> = parameters.iter().map(Given::from).collect();
        // `p;1` is the first procedure of a group, and there are no others
        let name = crate::functions::wanted::parts(name.trim_end_matches(";1"));
        let result = Run { s: self, sink }.call(&name, &given, DoneKind::InProcedure);
        self.answer(result, parameters, sink);
        self.end();
    }

    fn describe(&mut self, text: &str, declarations: &str) -> Result<Description, Message> {
        let described = self.describe_text(text, declarations);
        self.db.close_apart();
        described.map_err(|at| at.error.message(at.line, ""))
    }

    fn transaction(&mut self, request: &Transaction, sink: &mut dyn Sink) {
        self.begin(sink, "EXECUTE");
        self.metered.disturb();
        let level = |this: &mut Self, isolation: &Isolation| {
            let text = match isolation {
                Isolation::Current => return,
                Isolation::ReadUncommitted => "READ UNCOMMITTED",
                Isolation::ReadCommitted => "READ COMMITTED",
                Isolation::RepeatableRead => "REPEATABLE READ",
                Isolation::Serializable => "SERIALIZABLE",
                Isolation::Snapshot => "SNAPSHOT",
            };
            text.clone_into(&mut this.state.options.isolation);
        };
        let result = match request {
            Transaction::Begin(isolation, name) => {
                level(self, isolation);
                Run { s: self, sink }.begin_transaction(name);
                Ok(())
            }
            Transaction::Commit(again) => {
                let result = Run { s: self, sink }.commit();
                if let (Ok(()), Some(isolation)) = (&result, again) {
                    level(self, isolation);
                    Run { s: self, sink }.begin_transaction("");
                }
                result
            }
            Transaction::Rollback(name, again) => {
                let all = self.state.transaction.is_named(name);
                let result = Run { s: self, sink }.rollback(if all { "" } else { name.as_str() });
                if let (Ok(()), Some(isolation)) = (&result, again) {
                    level(self, isolation);
                    Run { s: self, sink }.begin_transaction("");
                }
                result
            }
            Transaction::Save(name) => Run { s: self, sink }.save(name),
        };
        if let Err(error) = result {
            let _ = sink.message(&error.message(1, ""));
        }
        self.end();
    }

    fn bulk_begin(&mut self, insert_bulk: &str, columns: &[Column]) -> Result<(), Message> {
        let begun = self.load_begin(insert_bulk, columns);
        self.db.close_apart();
        begun.map_err(|error| error.message(1, ""))
    }

    fn bulk_row(&mut self, values: &[Value<'_>]) -> Result<(), Message> {
        self.load_row(values).map_err(|error| error.message(1, ""))
    }

    fn bulk_end(&mut self, keep: bool) -> Result<u64, Message> {
        self.load_end(keep).map_err(|error| error.message(1, ""))
    }

    fn reset(&mut self, keep_transaction: bool, sink: &mut dyn Sink) {
        let keep = keep_transaction && self.state.transaction.is_open();
        self.load.forget();
        if !keep {
            let mut run = Run { s: self, sink };
            if let Err(error) = run.rollback_all() {
                let _ = sink.message(&error.message(1, ""));
            }
            self.locks.release_all(Some(Owner::Session));
            // temporary tables and attached files are closed with the connection
            self.db.close();
            // plans refer to the files that were attached
            self.texts.forget();
        }
        let transaction = std::mem::take(&mut self.state.transaction);
        self.state = State::new(self.position.home());
        if keep {
            self.state.transaction = transaction;
        }
        self.show();
    }

    fn release(&mut self, database: &str) {
        let open = self.db.peek().is_some_and(|connection| !connection.is_autocommit());
        if !self.state.transaction.is_open() && !open {
            // a database that cannot be detached stays open, and the session that needs the file
            // notices it
            let _ = self.db.detach(database);
        }
    }

    fn rest(&mut self) {
        if !self.state.transaction.is_open() && self.db.rest() {
            // compiled texts are bound to tables that would be looked up again
            self.texts.forget();
        }
    }
}
